"""libsvm text: the compiled parser and the format."""

import mmap
import weakref
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.data.sources import pieces
from thinstream.data.text.characters import LITTLE, all_digits, digits_value, load, not_digits, number, trailing_zeros
from thinstream.data.text.protocol import LineFormat, Parsed, ParseError, Text, given_at
from thinstream.data.text.sorting import sort_pairs
from thinstream.jit import apart, compiled, scalar

# libsvm text to rows, compiled.
#
#     line  =  [label [qid:N] {index:value}] [# comment]
#
# A feature in the usual form (an index of up to 7 digits, a value of up to 15 digits with or without a decimal point)
# is read in words of eight bytes, without a branch on its length. Others are read byte by byte. Values are
# bit-identical to ``float()``.

# Verdicts on a piece of text.
FINE, LABEL, AFTER_LABEL, INDEX, INDEX_0, WIDE, COLON, VALUE, AFTER_VALUE, LIMIT, REPEATED, CLASS = range(12)

U0, U1, U2, U3, U4, U7, U8, U9, U10, U15, U16 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 7, 8, 9, 10, 15, 16))
#: Bytes that must follow the start of a feature that is read in words: 64 if there is no mark in 32 bytes, and two
#: words.
REACH = np.uint64(96)
_POWERS = np.array([10**n for n in range(16)], dtype=np.uint64)
_REAL_POWERS = _POWERS.astype(np.float64)
_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _COLON = (np.uint8(ord(c)) for c in "\t\n\r #+-.:")
_ZERO, _NINE = np.uint8(48), np.uint8(57)
_Q, _I, _D = (np.uint8(ord(c)) for c in "qid")


#: Numbers below _MANY have room for one more digit; _TOO_MANY represents all larger numbers.
_MANY, _TOO_MANY = np.uint64(10**18), np.uint64(2**63)


class Out(NamedTuple):
    """Arrays for the rows, large enough for any text of this length."""

    labels: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]


class Rules(NamedTuple):
    """How to read the text."""

    first_index: int  # 1, or 0 if indices start at 0
    max_index: int  # the largest index in the result
    limit: float  # the highest |value|
    labels: NDArray[np.float64]  # allowed labels, sorted; empty: any
    codes: NDArray[np.float64]  # the code of each label
    unlabelled: bool = False  # whether the label may be absent


class Result(NamedTuple):
    """The result of parsing a piece of text."""

    verdict: int
    offset: int  # offset of the first bad byte
    rows: int
    lines: int
    taken: int  # bytes of complete lines, including the bad line
    width: int
    column: int  # a repeated index


@scalar
def _is_digit(c: Any) -> Any:
    return (c >= _ZERO) & (c <= _NINE)


@scalar
def _ends(text: Any, i: Any, stop: Any) -> Any:
    """Return whether a number may end before i: at a blank, a comment, the end of the line or of the text."""
    return _line_over(text, i, stop) or (text[i] == _BLANK) | (text[i] == _TAB)


@scalar
def _after_blanks(text: Any, i: Any, stop: Any) -> Any:
    while i < stop and (text[i] == _BLANK or text[i] == _TAB):
        i += U1
    return i


@scalar
def _line_over(text: Any, i: Any, stop: Any) -> Any:
    """Return whether nothing but a comment follows on the line."""
    if i >= stop:
        return True
    c = text[i]
    return (c == _NEWLINE) | (c == _HASH) or (c == _RETURN and (i + U1 >= stop or text[i + U1] == _NEWLINE))


@scalar
def _next_line(text: Any, i: Any, stop: Any) -> Any:
    while i < stop and text[i] != _NEWLINE:
        i += U1
    return min(i + U1, stop)


@scalar
def _whole(text: Any, i: Any, stop: Any) -> Any:
    """Return the number in the digits at i and its end; any number of 2⁶³ or more if it is too large."""
    value = U0
    while i < stop and _is_digit(text[i]):
        value = value * U10 + np.uint64(text[i] - _ZERO) if value < _MANY else _TOO_MANY
        i += U1
    return value, i


@scalar
def _number(text: Any, i: Any, stop: Any) -> Any:
    value, end = number(text, np.int64(i), np.int64(stop))
    return value, np.uint64(end)


@scalar
def _qid(text: Any, i: Any, stop: Any) -> Any:
    """Return the position after ``qid:N`` at i, or i if there is none."""
    if i + U4 < stop and text[i] == _Q and text[i + U1] == _I and text[i + U2] == _D and text[i + U3] == _COLON:
        _, end = _whole(text, i + U4, stop)
        if end > i + U4 and _ends(text, end, stop):
            return _after_blanks(text, end, stop)
    return i


@apart
def _tidied(indices: Any, values: Any, start: Any, stop: Any) -> Any:
    """Sort a row and drop zeros; return its new end, its highest index, and a repeated index or −1."""
    size = stop - start
    sort_pairs(indices, values, start, stop, np.empty(size, indices.dtype), np.empty(size, values.dtype))
    last, end = np.int64(-1), start
    for k in range(start, stop):
        if indices[k] == last:
            return stop, last, last
        last = np.int64(indices[k])
        if values[k] != 0:
            indices[end], values[end] = indices[k], values[k]
            end += 1
    return end, last, np.int64(-1)


@compiled(*(f"thinstream.data.text.{name}" for name in ("characters", "sorting")))
def _parse(text: Any, rules: Any, out: Any) -> Any:
    """Parse lines up to the first bad one."""
    i, stop = U0, np.uint64(len(text))
    # a feature that is read in words must begin before this
    words = stop - REACH if LITTLE and stop > REACH else U0
    first, highest, limit = np.uint64(rules.first_index), np.uint64(rules.max_index), rules.limit
    real, whole = out.values.dtype.type, out.indices.dtype.type
    rows, nnz, lines = U0, U0, 0
    width, repeated = U0, np.int64(-1)
    verdict = FINE
    out.indptr[0] = 0
    while i < stop:
        i = _after_blanks(text, i, stop)
        if _line_over(text, i, stop):
            i = _next_line(text, i, stop)
            lines += 1
            continue
        head, row_start, untidy = i, nnz, False
        label, end = _number(text, i, stop)
        if end == i or not abs(label) < np.inf:
            verdict = LABEL
            break
        if rules.unlabelled and end < stop and text[end] == _COLON:
            label, end = np.nan, i  # a row that begins with its first feature
        elif not _ends(text, end, stop):
            verdict, i = AFTER_LABEL, end
            break
        i = _qid(text, _after_blanks(text, end, stop), stop)
        previous = U0  # one more than the previous index
        while True:
            if i < words:
                marks = not_digits(text, i)  # the colon, a sign, a point, and the end of the value
                colon = trailing_zeros(marks)
                k = i + colon + U1
                marks &= marks - U1
                minus = text[k] == _MINUS
                if minus:
                    marks &= marks - U1
                    k += U1
                point = trailing_zeros(marks)
                whole_digits = i + point - k
                places, end = U0, point
                if text[i + point] == _POINT:
                    marks &= marks - U1
                    end = trailing_zeros(marks)
                    places = end - point - U1
                c = text[i + end]
                if (
                    ((c == _BLANK) | (c == _NEWLINE))
                    & (text[i + colon] == _COLON)
                    & (colon - U1 < U7)
                    & (whole_digits < U8)
                    & (whole_digits + places - U1 < U15)
                ):
                    digits = np.uint64(text[k] - _ZERO)
                    if whole_digits != U1:
                        digits = digits_value(load(text, k), whole_digits)
                    if places < U8:
                        digits = digits * _POWERS[places] + digits_value(load(text, i + point + U1), places)
                    else:
                        digits = digits * _POWERS[U8] + all_digits(load(text, i + point + U1))
                        digits = digits * _POWERS[places - U8] + digits_value(load(text, i + point + U9), places - U8)
                    value = np.float64(np.int64(digits)) / _REAL_POWERS[places]
                    j = digits_value(load(text, i), colon) - first
                    if value <= limit and j <= highest:  # an index 0 wraps around and is too high
                        untidy |= j < previous
                        previous = j + U1
                        kept = real(-value if minus else value)
                        untidy |= kept == 0
                        out.indices[nnz], out.values[nnz] = whole(j), kept
                        nnz += U1
                        i += end
                        if c == _NEWLINE:
                            break
                        i += U1
                        continue
            i = _after_blanks(text, i, stop)
            if _line_over(text, i, stop):
                break
            index, k = _whole(text, i, stop)
            if k == i:
                verdict = INDEX
                break
            if index < first:
                verdict = INDEX_0
                break
            j = index - first
            if j > highest:
                verdict = WIDE
                break
            if k >= stop or text[k] != _COLON:
                verdict, i = COLON, k
                break
            value, end = _number(text, k + U1, stop)
            if end == k + U1:
                verdict, i = VALUE, end
                break
            if not _ends(text, end, stop):
                verdict, i = AFTER_VALUE, end
                break
            if not abs(value) <= limit:
                verdict, i = LIMIT, k + U1
                break
            untidy |= j < previous
            previous = j + U1
            kept = real(value)
            untidy |= kept == 0
            out.indices[nnz], out.values[nnz] = whole(j), kept
            nnz += U1
            i = end
        if verdict != FINE:
            break
        if untidy:
            last, highest_seen, repeated = _tidied(out.indices, out.values, np.int64(row_start), np.int64(nnz))
            if repeated >= 0:
                verdict, i = REPEATED, head
                break
            nnz, previous = np.uint64(last), np.uint64(highest_seen + 1)
        if len(rules.labels) > 0 and not np.isnan(label):
            position = np.searchsorted(rules.labels, label)
            if position == len(rules.labels) or rules.labels[position] != label:
                verdict, i = CLASS, head
                break
            label = rules.codes[position]
        width = max(width, previous)
        out.labels[rows] = label
        rows += U1
        out.indptr[rows] = nnz
        i = _next_line(text, i, stop)
        lines += 1
    taken = i
    if verdict != FINE:
        taken = _next_line(text, i, stop)
        lines += 1
    return verdict, np.int64(i), np.int64(rows), lines, np.int64(taken), np.int64(width), repeated


def run(text: NDArray[np.uint8], rules: Rules, out: Out) -> Result:
    """Parse complete lines into ``out``, up to the first bad one."""
    with np.errstate(over="ignore"):  # without compilation, NumPy would warn of wraparound
        return Result(*_parse(plain(text), rules, out))


# libsvm (svmlight) text: ``label index:value …``, one row per line, with indices from 1.

_MESSAGES = {
    LABEL: "a row must begin with its label, a finite decimal number",
    AFTER_LABEL: "a label must be a decimal number followed by a blank",
    INDEX: "a feature must be index:value with an index of digits",
    COLON: "a feature must be index:value, and the colon is missing",
    VALUE: "a value must be a finite decimal number",
    AFTER_VALUE: "a value must be a decimal number followed by a blank",
}
#: The most free buffers of one size.
KEPT = 32


class BufferPool:
    """Lends arrays, because clearing new memory takes time; memory returns when an array and all its views are gone.

    Examples
    --------
    >>> pool = BufferPool()
    >>> array = pool.empty(1000, np.float64)
    >>> view, address = array[10:], array.ctypes.data
    >>> del array, view
    >>> pool.empty(900, np.float64).ctypes.data == address
    True

    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def empty(self, length: int, dtype: Any) -> NDArray[Any]:
        """Return an array with undefined values."""
        size = max(length * np.dtype(dtype).itemsize, mmap.PAGESIZE)
        if size == mmap.PAGESIZE:  # lending a small array takes longer than parsing
            return np.empty(length, dtype)
        size = 1 << (size - 1).bit_length()  # few different sizes, so that buffers are reused
        free = self._free.setdefault(size, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = mmap.mmap(-1, size)
        # views keep a reference to this array, because its memory is not an array
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
        Whether indices start at 0. By default they start at 1, and an index 0 is an error.
    classes : (negative, positive), more numbers, or None
        The labels. None: labels above 0 are positive.
    dtype : {"float32", "float64"}
        The dtype of the values.
    limit : float
        The largest |value| that is allowed.
    labelled : bool
        Whether every row must begin with a label. A missing label is NaN.
    most : int or None
        The largest index that is allowed, if it fits into 32 bits. None: any below 2^62.

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
        result, out = self._parse(text, np.dtype(np.int32))
        if result.verdict == WIDE and self.most is None:  # an index needs more than 32 bits
            result, out = self._parse(text, np.dtype(np.int64))
        rows = result.rows
        nnz = int(out.indptr[rows])
        error = None
        if result.verdict != FINE:
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
        # the shortest row is a digit and a newline, the shortest feature a blank and 1:1
        rows, features = len(text) // 2 + 1, len(text) // 4 + 1
        out = Out(
            _BUFFERS.empty(rows, np.float64),
            _BUFFERS.empty(rows + 1, np.int64),
            _BUFFERS.empty(features, index),
            _BUFFERS.empty(features, self.dtype),
        )
        return run(text, rules, out), out

    def _message(self, result: Result, text: Text) -> str:
        word = given_at(text, result.offset)
        if result.verdict == INDEX_0:
            return (
                "indices start at 1 in this format; if they start at 0 in this file, pass zero_based=True "
                f"(--zero-based yes), got {word}"
            )
        if result.verdict == WIDE:
            return f"an index must be {'below 2^62' if self.most is None else f'at most {self.most:,}'}, got {word}"
        if result.verdict == REPEATED:
            return f"a feature may occur only once in a row, but column {result.column} is repeated"
        if result.verdict == CLASS and self.classes is not None:
            *others, last = (f"{label:g}" for label in self.classes)
            return f"a label must be {', '.join(others)} or {last}, got {word}"
        if result.verdict == LIMIT:
            return (
                f"|value| must be at most {self.limit:g} (sums of squares would overflow in {self.dtype}), got {word}"
            )
        return f"{_MESSAGES[result.verdict]}, got {word}"


@lru_cache
def _rules(
    zero_based: bool, classes: tuple[float, ...], limit: float, labelled: bool, short: bool, most: int | None
) -> Rules:
    """Return the parser's rules, for indices of 32 or 64 bits."""
    first = 0 if zero_based else 1
    widest = 2**31 - 2 if short else 2**62 - 1 - first  # 32 bits have room for one more column, the intercept
    widest = widest if most is None else min(widest, most - first)
    labels = np.array(classes, dtype=np.float64)
    order = np.argsort(labels)  # −1 and +1 for two classes, else class numbers
    codes = (2 * order - 1 if len(labels) == 2 else order).astype(np.float64)
    return Rules(first, widest, float(limit), labels[order], codes, not labelled)


def begins_at_zero(files: list[str]) -> bool:
    """Return whether an index 0 occurs in the files before the first bad line, which the reader reports."""
    form = Libsvm(zero_based=True, dtype="float64", limit=np.inf)
    for file in files:
        for piece in pieces(file, form, 0):
            parsed = form.parse(piece.text if piece else np.empty(0, dtype=np.uint8))
            if np.any(parsed.indices == 0):
                return True
            if parsed.error is not None:
                break
    return False
