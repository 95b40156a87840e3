"""The binary formats: Parquet, Arrow IPC and the cache."""

from typing import Any

from thinstream.data.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format
from thinstream.data.options import OPTIONS, Options, as_tuples, spelling
from thinstream.errors import InvalidInputError, InvalidParameterError


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
FORMATS = (
    Format("parquet", (".parquet",), _ARROW, open_arrow, is_table=True),
    Format("arrow", (".arrow", ".feather", ".ipc"), _ARROW, open_arrow, is_table=True),
    Format("cache", (".cache",), _CACHE, open_cache),
)
