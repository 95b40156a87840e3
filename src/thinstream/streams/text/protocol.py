"""What a text format is: a function from a piece of text to rows, run on threads, and where a piece may end.

A format never sees a file. `reading` cuts text into pieces at the ends of records, lets threads parse them, and
delivers the rows in order, with positions and line numbers.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.spelling import Spelled
from thinstream.streams.text.names import Named

Text = NDArray[np.uint8]


class ParseError(NamedTuple):
    """A record that cannot be read: where its first bad byte is, and what is wrong, allowed and given."""

    offset: int  # in the piece of text
    message: str


class Parsed(NamedTuple):
    """The rows of a piece of text, up to its first bad record if there is one.

    Indices of a row are sorted, unique and ≥ 0, values finite and not 0: what a `Batch` promises.
    """

    labels: NDArray[Any]  # float64, NaN for a row without label; places in ``met`` where that is there
    indptr: NDArray[np.int64]
    indices: NDArray[Any]  # int32 or int64
    values: NDArray[Any]  # float32 or float64
    width: int  # one more than the largest index, 0 without any
    largest: float  # no |value| is above it
    lines: int  # lines taken, those without a row and that of the bad record included
    taken: int  # bytes taken, the bad record included
    weights: NDArray[np.float64] | None = None  # importance of each row
    tags: list[str] | None = None  # names of the rows, where the format has them
    error: ParseError | None = None
    named: Named | None = None  # new candidates for the format's `NameTable`, to be added in the order of the pieces
    met: list[Any] | None = None  # labels found as they came
    starts: NDArray[np.int64] | None = None  # where the records of the rows begin
    bad_id: str = ""  # what the bad record is called, where that is asked for and can be told
    names: Spelled | None = None  # of the features, where names travel with rows

    def only(self, kept: NDArray[np.bool_]) -> "Parsed":
        """The rows that are marked."""
        sizes = np.diff(self.indptr)
        among = np.repeat(kept, sizes)
        tags, weights = self.tags, self.weights
        return self._replace(
            labels=self.labels[kept],
            indptr=np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64),
            indices=self.indices[among],
            values=self.values[among],
            weights=None if weights is None else weights[kept],
            tags=None if tags is None else [tag for tag, there in zip(tags, kept.tolist(), strict=True) if there],
            starts=None if self.starts is None else self.starts[kept],
            names=self.names and self.names.at(among),
        )


class TextFormat(Protocol):
    """A format of records in lines."""

    @property
    def dtype(self) -> str:
        """Of the values: "float32" or "float64"."""

    def parse(self, text: Text) -> Parsed:
        """The rows of whole records. Called by several threads at once; compiled code releases the GIL."""

    def records(self, text: Text) -> int:
        """Bytes of the whole records at the head of the text (0: not even one is whole)."""

    def header(self, text: Text) -> int:
        """Called with the head of each file (a whole line at least): takes in its header, returns its bytes, or 0."""


class LineFormat:
    """What formats have in common whose records are lines."""

    def header(self, text: Text) -> int:
        """These files have none."""
        return 0

    def records(self, text: Text) -> int:
        """Up to the last end of line."""
        return last_line_end(text)


def given_at(text: Text, offset: int) -> str:
    """The word at a place of the text, as messages show it: shortened, odd bytes escaped.

    >>> given_at(np.frombuffer(b"1 2:x 3", dtype=np.uint8), 4)
    "'x'"
    """
    word = bytes(text[offset : offset + 40]).split(b"\n", 1)[0].rstrip(b"\r")
    word = (word.split(b" ", 1)[0] or word[:1]).split(b"\t", 1)[0] or word[:1]
    if not word:
        return "the end of the line"
    try:
        shown = repr(word.decode())
    except UnicodeDecodeError:  # bytes that are no text, or a letter cut in two
        shown = repr(word)[1:]
    return shown if len(shown) <= 32 else f"{shown[:31]}…{shown[0]}"


def last_line_end(text: Text) -> int:
    r"""Bytes up to and with the last end of line; 0 without one.

    >>> last_line_end(np.frombuffer(b"a\nb\nc", np.uint8))
    4
    """
    stop = len(text)
    while stop > 0:  # lines are short: look at the end first
        start = max(stop - 4096, 0)
        found = np.flatnonzero(text[start:stop] == 10)
        if len(found):
            return start + int(found[-1]) + 1
        stop = start
    return 0
