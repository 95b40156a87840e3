"""The text formats: libsvm, CSV, JSON Lines and Vowpal Wabbit."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thinstream.data.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format, text_stream
from thinstream.data.options import Options
from thinstream.errors import InvalidParameterError

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


_COLUMNS = (*LABELS_AND_WEIGHTS, *TEXTS, *COLUMN_KINDS, "missing", "columns", *HASHING, "cross", "names", "id")
_CSV = (*_COLUMNS, "header", "delimiter")
FORMATS = (
    Format("libsvm", (".svm", ".libsvm"), ("zero_based", "classes", "grow_classes"), open_libsvm, lines=True),
    Format("csv", (".csv",), _CSV, open_csv, has_cells=True),
    Format("tsv", (".tsv",), _CSV, open_csv, has_cells=True),
    Format("jsonl", (".jsonl", ".ndjson"), (*_COLUMNS, "keys"), open_jsonl, lines=True),
    Format("vw", (".vw",), (*HASHING, "cross", "names", "grow_classes", "id"), open_vw, lines=True),
)
