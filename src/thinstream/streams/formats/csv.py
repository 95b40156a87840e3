"""CSV, and TSV, which has tabs."""

from typing import Any

from thinstream.streams.formats import HASHING, LABELS_AND_WEIGHTS, Format, text_stream
from thinstream.streams.options import Options


def open_csv(known: Format, files: list[str], options: Options) -> Any:
    """The rows of CSV files."""
    from thinstream.streams.text.csv import CSV
    from thinstream.streams.text.hashed_rows import shared_settings

    parser = CSV(
        delimiter="\t" if known.name == "tsv" else ",",
        numbered=not options.header,
        labelled=options.labels,
        strict=options.strict,
        required=options.columns,
        categorical=options.categorical,
        numeric=options.numeric,
        **shared_settings(options),
    )
    return text_stream(known, files, parser, options)


_OPTIONS = (*LABELS_AND_WEIGHTS, "text", "categorical", "numeric", "header", "columns", *HASHING, "names")
FORMATS = (Format("csv", (".csv",), _OPTIONS, open_csv), Format("tsv", (".tsv",), _OPTIONS, open_csv))
