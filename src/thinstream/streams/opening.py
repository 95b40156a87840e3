"""A stream from file names: the format by the ending, or as asked for."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.streams.compression import CODECS
from thinstream.streams.libsvm import Libsvm, begins_at_zero
from thinstream.streams.reading import MAX_ERRORS, TextStream
from thinstream.streams.sources import STDIN, resolve
from thinstream.streams.stream import Stream

#: Largest |value| per precision: sums of squares of rows stay finite.
LIMITS = {"float32": 1e15, "float64": 1e150}
ENDINGS = {
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".cache": "cache",
}
FORMATS = ("libsvm", "vw", "csv", "tsv", "jsonl", "parquet", "arrow", "cache")


@dataclass(frozen=True)
class Options:
    """How a source is read; each format takes those that concern it and refuses the others.

    Parameters
    ----------
    classes : (negative, positive) or None
        The two labels. None: labels are numbers, positive above 0.
    zero_based : bool or "auto"
        Whether libsvm indices begin at 0; "auto" looks through the files first.
    dtype : {"float32", "float64"}
        Of the values.
    normalize : "l2" or None
        Whether rows are scaled to unit length.
    on_error : {"raise", "skip"}
        What becomes of bad records; skipped ones are counted, up to ``max_errors``.
    workers : int or None
        Threads that parse; None: one per core.
    label, weight : str
        Columns of the label and of the examples' weights.
    text, categorical, numeric, ignore : names of columns
        Split into words; categories; numbers; left out.
    header : bool
        Whether CSV files begin with the names of their columns.
    bits, signed : int, bool
        Named features are hashed into 2^bits numbers, with a random sign if signed.
    names : int
        How many names of hashed features to remember.

    """

    classes: tuple[Any, Any] | None = None
    zero_based: bool | str = False
    dtype: str = "float32"
    normalize: str | None = None
    on_error: str = "raise"
    max_errors: int = MAX_ERRORS
    workers: int | None = None
    label: str = "label"
    weight: str | None = None
    text: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    header: bool = True
    bits: int | None = None
    signed: bool = False
    names: int = 0

    def check(self) -> None:
        """Raises on a value that is not allowed."""
        allowed: dict[str, Iterable[Any]] = {
            "zero_based": (False, True, "auto"),
            "dtype": tuple(LIMITS),
            "normalize": (None, "l2"),
            "on_error": ("raise", "skip"),
        }
        for name, values in allowed.items():
            if getattr(self, name) not in values:
                raise InvalidParameterError(f"{name} must be {listed(values)}, got {getattr(self, name)!r}")


def format_of(path: str) -> str:
    """The format a file's name tells of, whatever it is compressed with; libsvm where it tells nothing.

    >>> format_of("day.vw.gz"), format_of("a9a.t")
    ('vw', 'libsvm')
    """
    stem, ending = os.path.splitext(path)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ENDINGS.get(ending.lower(), "libsvm")
