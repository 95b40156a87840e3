"""CSV, and TSV, which has tabs."""

from typing import Any

from thinstream.streams.formats import HASHING, LABELS_AND_WEIGHTS, TEXTS, Format, text_stream
from thinstream.streams.options import Options


def open_csv(known: Format, files: list[str], options: Options) -> Any:
    """The rows of CSV files."""
    from thinstream.streams.text.csv import CSV

    delimiter = options.delimiter or ("\t" if known.name == "tsv" else None)
    parser = CSV.of(options, delimiter=delimiter, numbered=not options.header)
    return text_stream(known, files, parser, options)


_OPTIONS = (
    *LABELS_AND_WEIGHTS, *TEXTS, "categorical", "numeric", "dates", "missing", "header", "delimiter", "columns",
    *HASHING, "cross", "names", "id",
)  # fmt: skip
FORMATS = (Format("csv", (".csv",), _OPTIONS, open_csv), Format("tsv", (".tsv",), _OPTIONS, open_csv))
