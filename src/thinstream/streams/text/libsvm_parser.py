"""libsvm text to rows, compiled.

    line  =  [label [qid:N] {index:value}] [# comment]

A feature in the usual form (an index of up to 7 digits, a value of up to 15 digits with or without a point) is read in
words of eight bytes, without a branch on its length; whatever looks different is read byte by byte. Both give the bits
of ``float()``.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.jit import apart, compiled, scalar
from thinstream.streams.text.decimal import number
from thinstream.streams.text.digits import LITTLE, all_digits, digits_value, load, not_digits, trailing_zeros
from thinstream.streams.text.sorting import sort_pairs

# Verdicts on a piece of text.
FINE, LABEL, AFTER_LABEL, INDEX, INDEX_0, WIDE, COLON, VALUE, AFTER_VALUE, LIMIT, REPEATED, CLASS = range(12)

U0, U1, U2, U3, U4, U7, U8, U9, U10, U15, U16 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 7, 8, 9, 10, 15, 16))
#: Bytes that must follow the begin of a feature read in words: 64 where no mark is found in 32, and two words.
REACH = np.uint64(96)
_POWERS = np.array([10**n for n in range(16)], dtype=np.uint64)
_REAL_POWERS = _POWERS.astype(np.float64)
_TAB, _NEWLINE, _RETURN, _BLANK, _HASH, _PLUS, _MINUS, _POINT, _COLON = (np.uint8(ord(c)) for c in "\t\n\r #+-.:")
_ZERO, _NINE = np.uint8(48), np.uint8(57)
_Q, _I, _D = (np.uint8(ord(c)) for c in "qid")


#: Numbers below it have room for one more digit; those that have none left are as good as this.
_MANY, _TOO_MANY = np.uint64(10**18), np.uint64(2**63)


class Out(NamedTuple):
    """Where the rows go, with room for any the text may hold."""

    labels: NDArray[np.float64]
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]


class Rules(NamedTuple):
    """How the text is to be read."""

    first_index: int  # 1, or 0 where indices begin at 0
    max_index: int  # the highest an index may be, as it stands in the result
    limit: float  # the highest |value|
    labels: NDArray[np.float64]  # all there are, sorted; none: any
    codes: NDArray[np.float64]  # what each of them becomes
    unlabelled: bool = False  # whether a row may begin with its first feature


class Result(NamedTuple):
    """What a piece of text gave."""

    verdict: int
    offset: int  # of the first bad byte
    rows: int
    lines: int
    taken: int  # bytes of whole lines, that of the bad byte included
    width: int
    column: int  # that is repeated


@scalar
def _is_digit(c: Any) -> Any:
    return (c >= _ZERO) & (c <= _NINE)


@scalar
def _ends(text: Any, i: Any, stop: Any) -> Any:
    """Whether a number may end before i: at a blank, a comment, the end of the line or of the text."""
    return _line_over(text, i, stop) or (text[i] == _BLANK) | (text[i] == _TAB)


@scalar
def _after_blanks(text: Any, i: Any, stop: Any) -> Any:
    while i < stop and (text[i] == _BLANK or text[i] == _TAB):
        i += U1
    return i


@scalar
def _line_over(text: Any, i: Any, stop: Any) -> Any:
    """Whether nothing but a comment follows on the line."""
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
    """(number, end) of the digits at i; beyond 2⁶³ in any case 2⁶³ or more."""
    found = U0
    while i < stop and _is_digit(text[i]):
        found = found * U10 + np.uint64(text[i] - _ZERO) if found < _MANY else _TOO_MANY
        i += U1
    return found, i


@scalar
def _number(text: Any, i: Any, stop: Any) -> Any:
    value, end = number(text, np.int64(i), np.int64(stop))
    return value, np.uint64(end)


@scalar
def _qid(text: Any, i: Any, stop: Any) -> Any:
    """Behind ``qid:N`` if that stands at i, else i."""
    if i + U4 < stop and text[i] == _Q and text[i + U1] == _I and text[i + U2] == _D and text[i + U3] == _COLON:
        _, end = _whole(text, i + U4, stop)
        if end > i + U4 and _ends(text, end, stop):
            return _after_blanks(text, end, stop)
    return i


@apart
def _tidied(indices: Any, values: Any, start: Any, stop: Any) -> Any:
    """Sorts a row and drops its zeros: (its new end, its highest index, an index that is repeated or −1)."""
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


@compiled(*(f"thinstream.streams.text.{name}" for name in ("digits", "decimal", "sorting")))
def _parse(text: Any, rules: Any, out: Any) -> Any:
    """Takes lines up to the first bad one."""
    i, stop = U0, np.uint64(len(text))
    # the last feature that may be read in words begins before this
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
        previous = U0  # one more than the index before
        while True:
            if i < words:
                marks = not_digits(text, i)  # the colon, a sign, a point, what ends the value
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
                    if value <= limit and j <= highest:  # an index 0 wraps round and is too high
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
            known = np.searchsorted(rules.labels, label)
            if known == len(rules.labels) or rules.labels[known] != label:
                verdict, i = CLASS, head
                break
            label = rules.codes[known]
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
    """Parses whole lines into ``out``, up to the first bad one."""
    with np.errstate(over="ignore"):  # interpreted, unsigned numbers would warn of going round
        return Result(*_parse(plain(text), rules, out))
