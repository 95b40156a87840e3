"""libsvm (svmlight) text: ``label index:value …``, one row a line, indices from 1."""

import mmap
import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.sources import pieces
from thinstream.streams.text import libsvm_parser as parser
from thinstream.streams.text.libsvm_parser import Out, Result, Rules
from thinstream.streams.text.protocol import LineFormat, Parsed, ParseError, Text, given_at

_MESSAGES = {
    parser.LABEL: "a row must begin with its label, a finite decimal number",
    parser.AFTER_LABEL: "a label must be a decimal number followed by a blank",
    parser.INDEX: "a feature must be index:value with the index in digits",
    parser.COLON: "a feature must be index:value, the colon is missing",
    parser.VALUE: "a value must be a finite decimal number",
    parser.AFTER_VALUE: "a value must be a decimal number followed by a blank",
}
#: Pieces of memory of one size kept for use.
KEPT = 32


class BufferPool:
    """Lends arrays, since fresh memory takes time to clear; it comes back when an array and all its views are gone.

    Examples
    --------
    >>> pool = BufferPool()
    >>> array = pool.empty(1000, np.float64)
    >>> view, place = array[10:], array.ctypes.data
    >>> del array, view
    >>> pool.empty(900, np.float64).ctypes.data == place
    True

    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def empty(self, length: int, dtype: Any) -> NDArray[Any]:
        """An array of whatever the memory holds."""
        size = max(length * np.dtype(dtype).itemsize, mmap.PAGESIZE)
        if size == mmap.PAGESIZE:  # of a row or two: lending would take longer than parsing
            return np.empty(length, dtype)
        size = 1 << (size - 1).bit_length()  # few sizes, so that they fit again; pages never touched cost nothing
        free = self._free.setdefault(size, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = mmap.mmap(-1, size)
        # every view of this array holds on to the array itself, as the memory beneath is not an array
        array = np.frombuffer(memory, dtype=dtype, count=length)
        weakref.finalize(array, _take_back, free, memory).atexit = False
        return array


def _take_back(free: list[mmap.mmap], memory: mmap.mmap) -> None:
    if len(free) < KEPT:
        free.append(memory)


_BUFFERS = BufferPool()


@dataclass(frozen=True)
class Libsvm(LineFormat):
    r"""The libsvm format.

    Parameters
    ----------
    zero_based : bool
        Whether indices begin at 0. By default at 1, and an index 0 is an error.
    classes : (negative, positive), more numbers, or None
        The labels, as numbers. None: labels above 0 are positive.
    dtype : {"float32", "float64"}
        Of the values.
    limit : float
        The highest |value| taken.
    labelled : bool
        Whether every row must begin with a label; without one it is NaN.
    most : int or None
        The highest index taken, if it fits into 32 bits; None: any below 2^62.

    Examples
    --------
    >>> text = np.frombuffer(b"+1 1:0.5 4:2  # spam\n-1 2:1e-1\n", dtype=np.uint8)
    >>> parsed = Libsvm().parse(text)
    >>> parsed.labels, parsed.indptr, parsed.indices, parsed.values
    (array([ 1., -1.]), array([0, 2, 3]), array([0, 3, 1], dtype=int32), array([0.5, 2. , 0.1], dtype=float32))

    """

    zero_based: bool = False
    classes: tuple[float, ...] | None = None
    dtype: str = "float32"
    limit: float = 1e15
    labelled: bool = True
    most: int | None = None

    def parse(self, text: Text) -> Parsed:
        """The rows of whole lines, up to the first bad one."""
        result, out = self._parse(text, np.dtype(np.int32))
        if result.verdict == parser.WIDE and self.most is None:  # an index beyond 32 bits
            result, out = self._parse(text, np.dtype(np.int64))
        rows = result.rows
        nnz = int(out.indptr[rows])
        error = None
        if result.verdict != parser.FINE:
            error = ParseError(result.offset, self._message(result, text))
        return Parsed(
            out.labels[:rows],
            out.indptr[: rows + 1],
            out.indices[:nnz],
            out.values[:nnz],
            result.width,
            self.limit,
            result.lines,
            result.taken,
            error=error,
        )

    def _parse(self, text: Text, index: np.dtype[Any]) -> tuple[Result, Out]:
        rules = _rules(self.zero_based, self.classes or (), self.limit, self.labelled, index == np.int32, self.most)
        # the shortest row is a digit and an end of line, the shortest feature a blank and 1:1
        rows, features = len(text) // 2 + 1, len(text) // 4 + 1
        out = Out(
            _BUFFERS.empty(rows, np.float64),
            _BUFFERS.empty(rows + 1, np.int64),
            _BUFFERS.empty(features, index),
            _BUFFERS.empty(features, self.dtype),
        )
        return parser.run(text, rules, out), out

    def _message(self, result: Result, text: Text) -> str:
        given = given_at(text, result.offset)
        if result.verdict == parser.INDEX_0:
            return (
                "index 0, but indices begin at 1 in this format; if they begin at 0 here, say zero_based=True "
                f"(--zero-based yes), got {given}"
            )
        if result.verdict == parser.WIDE:
            return f"an index must be {'below 2^62' if self.most is None else f'at most {self.most:,}'}, got {given}"
        if result.verdict == parser.REPEATED:
            return f"a feature may occur once in a row, but the one of column {result.column} is repeated"
        if result.verdict == parser.CLASS and self.classes is not None:
            *others, last = (f"{label:g}" for label in self.classes)
            return f"a label must be {', '.join(others)} or {last}, got {given}"
        if result.verdict == parser.LIMIT:
            return f"|value| must be at most {self.limit:g} ({self.dtype}: sums of squares would overflow), got {given}"
        return f"{_MESSAGES[result.verdict]}, got {given}"


@lru_cache
def _rules(
    zero_based: bool, classes: tuple[float, ...], limit: float, labelled: bool, short: bool, most: int | None
) -> Rules:
    """As the parser has them, for indices of 32 bits or of 64."""
    first = 0 if zero_based else 1
    widest = 2**31 - 2 if short else 2**62 - 1 - first  # in 32 bits with room for one more column, the intercept
    widest = widest if most is None else min(widest, most - first)
    known = np.array(classes, dtype=np.float64)
    order = np.argsort(known)  # −1 and +1 of two classes, numbers of more
    codes = (2 * order - 1 if len(known) == 2 else order).astype(np.float64)
    return Rules(first, widest, float(limit), known[order], codes, not labelled)


def begins_at_zero(files: list[str]) -> bool:
    """Whether an index 0 occurs in the files, up to the first bad line (which is for the reader to tell)."""
    form = Libsvm(zero_based=True, dtype="float64", limit=np.inf)
    for file in files:
        for piece in pieces(file, form, 0):
            parsed = form.parse(piece.text if piece else np.empty(0, dtype=np.uint8))
            if np.any(parsed.indices == 0):
                return True
            if parsed.error is not None:
                break
    return False
