"""The built-in formats: libsvm, CSV, JSON Lines, Vowpal Wabbit, Parquet, Arrow IPC and the cache."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thinstream.data.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format, text_stream
from thinstream.data.options import OPTIONS, Options, as_tuples, spelling
from thinstream.errors import InvalidInputError, InvalidParameterError

if TYPE_CHECKING:
    from thinstream.data.stream import TextStream


def open_libsvm(file_format: Format, files: list[str], options: Options) -> "TextStream":
    """Open libsvm (svmlight) files."""
    from thinstream.data.sources import STDIN
    from thinstream.data.text.libsvm import Libsvm, begins_at_zero
    from thinstream.engine.protocol import LARGEST

    if options.zero_based == "auto":
        if STDIN in files:
            raise InvalidParameterError(
                "zero_based='auto' reads the files twice, and standard input can be read only once. Pass yes or no."
            )
        options = replace(options, zero_based=begins_at_zero(files))
    classes = options.classes
    if classes is not None and not all(isinstance(label, int | float) for label in classes):
        raise InvalidParameterError(f"labels of libsvm files are numbers, so classes must be numbers, got {classes!r}")
    if options.grow_classes:
        classes = None  # any number
    parser = Libsvm(bool(options.zero_based), classes, options.dtype, LARGEST[options.dtype], options.labels)
    return text_stream(file_format, files, parser, options)


def open_csv(file_format: Format, files: list[str], options: Options) -> "TextStream":
    """Open CSV files, or TSV files, whose cells are separated by tabs."""
    from thinstream.data.text.csv import CSV

    delimiter = options.delimiter or ("\t" if file_format.name == "tsv" else None)
    parser = CSV.of(options, delimiter=delimiter, numbered=options.header is False)
    return text_stream(file_format, files, parser, options)


def open_jsonl(file_format: Format, files: list[str], options: Options) -> "TextStream":
    """Open files with one JSON object per line."""
    from thinstream.data.text.jsonl import JSONLines

    # if labels are not needed, they may have any value
    unread: dict[str, Any] = {} if options.labels else {"label": None, "ignore": (*options.ignore, options.label)}
    return text_stream(file_format, files, JSONLines.of(options, **unread), options)


def open_vw(file_format: Format, files: list[str], options: Options) -> "TextStream":
    """Open Vowpal Wabbit files."""
    from thinstream.data.text.vw import VW

    return text_stream(file_format, files, VW.of(options, tags=options.id is not None), options)


def open_arrow(file_format: Format, files: list[str], options: Options) -> Any:
    """Open Parquet or Arrow files."""
    from thinstream.data.stream import UnitRows
    from thinstream.data.tables.arrow import ArrowFiles
    from thinstream.data.text.hashing import Hashing, Numbering

    stream = ArrowFiles(
        *files,
        label=options.label if options.labels else None,
        weight=options.weight,
        hasher=Numbering(Hashing.of(options)),
        ignore=options.ignore if options.labels else (*options.ignore, options.label),
        classes=options.classes,
        grow_classes=options.grow_classes,
        dtype=options.dtype,
        required=options.columns,
        cross=options.cross,
        strict=options.strict,
        row_id=options.id,
        missing=options.missing,
        **{name: getattr(options, name) for name in (*TEXTS, *COLUMN_KINDS)},
    )
    stream.options = options
    return stream if options.normalize is None else UnitRows(stream)


def open_cache(file_format: Format, files: list[str], options: Options) -> Any:
    """Open a cache. Options may repeat how it was made, but not contradict it."""
    from thinstream.data.cache import Cache
    from thinstream.data.stream import UnitRows

    if len(files) != 1:
        raise InvalidInputError(f"only one cache can be read at a time, got {len(files)}")
    cache = Cache(files[0])
    if cache.dtype != options.dtype:
        raise InvalidInputError(
            f"{files[0]} holds {cache.dtype} values, but the model needs {options.dtype}. Convert the data again with "
            f"dtype {options.dtype}."
        )
    made_with = {**cache.source, **cache.feature_space, **cache.feature_space.get("hashing", {})}
    for name, value in options.given().items():
        if name not in file_format.options or name == "numeric":  # "numeric" only affects errors, not features
            continue
        cached, value = as_tuples(made_with.get(name, OPTIONS[name].default)), as_tuples(value)
        same = sorted(value) == sorted(cached) if OPTIONS[name].default == () else cached == value
        if not same:
            raise InvalidParameterError(
                f"{cache.path} was made with {name}={cached!r} and cannot be read with {name}={value!r}. "
                "Leave the option out, or write the cache again."
            )
    return UnitRows(cache) if options.normalize and not cache.feature_space.get("normalize") else cache


_ARROW = (*LABELS_AND_WEIGHTS, *TEXTS, *COLUMN_KINDS, "missing", "columns", *HASHING, "cross", "id")
_CACHE = tuple(
    name for name, option in OPTIONS.items() if not spelling(option).common and name not in ("columns", "keys", "id")
)
_COLUMNS = (*_ARROW, "names")
_CSV = (*_COLUMNS, "header", "delimiter")
FORMATS = (
    Format("libsvm", (".svm", ".libsvm"), ("zero_based", "classes", "grow_classes"), open_libsvm, lines=True),
    Format("csv", (".csv",), _CSV, open_csv, has_cells=True),
    Format("tsv", (".tsv",), _CSV, open_csv, has_cells=True),
    Format("jsonl", (".jsonl", ".ndjson"), (*_COLUMNS, "keys"), open_jsonl, lines=True),
    Format("vw", (".vw",), (*HASHING, "cross", "names", "grow_classes", "id"), open_vw, lines=True),
    Format("parquet", (".parquet",), _ARROW, open_arrow, is_table=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), _ARROW, open_arrow, is_table=True),
    Format("cache", (".cache",), _CACHE, open_cache),
)
