"""CSV, and TSV, which has tabs."""

from typing import Any

from thinstream.streams.formats import COLUMN_KINDS, HASHING, LABELS_AND_WEIGHTS, TEXTS, Format, text_stream
from thinstream.streams.options import Options


def open_csv(known: Format, files: list[str], options: Options) -> Any:
    """The rows of CSV files."""
    from thinstream.streams.text.csv import CSV

    delimiter = options.delimiter or ("\t" if known.name == "tsv" else None)
    parser = CSV.of(options, delimiter=delimiter, numbered=options.header is False)
    return text_stream(known, files, parser, options)


_OPTIONS = (
    *LABELS_AND_WEIGHTS, *TEXTS, *COLUMN_KINDS, "missing", "header", "delimiter", "columns",
    *HASHING, "cross", "names", "id",
)  # fmt: skip
FORMATS = (
    Format("csv", (".csv",), _OPTIONS, open_csv, has_cells=True),
    Format("tsv", (".tsv",), _OPTIONS, open_csv, has_cells=True),
)
