"""Cells of CSV text, for compiled code: where they end, and whether they are numbers, dates or nothing."""

from typing import Any

import numpy as np

from thinstream.jit import scalar
from thinstream.streams.options import MISSING, NOTHING
from thinstream.streams.text.decimal import number
from thinstream.streams.text.vectors import find_either

# What a cell is that says nothing.
INDICATOR, ABSENT, REFUSED, AS_IS = range(4)
#: The same by the names of the option.
CODES = dict(zip(MISSING, (INDICATOR, ABSENT, REFUSED, AS_IS), strict=True))
# What a date is, and where year, month, day and hour stand in it.
DAY, TIME = 1, 2
AT = np.array([[0, 4], [5, 7], [8, 10], [11, 13]])
# Verdicts on a cell.
FINE, OPEN, AFTER_QUOTE = range(3)

_QUOTE, _NEWLINE, _RETURN, _BLANK, _PLUS, _MINUS, _POINT, _COLON, _T = 34, 10, 13, 32, 43, 45, 46, 58, 84
_COMMA, _SLASH = 44, 47
#: Digits that are exact in 64 bits.
_EXACT = 15
_POWERS = 10.0 ** np.arange(_EXACT + 1)
_INFINITY = np.frombuffer(bytearray(b"infinity"), np.uint8)
_TRUE, _FALSE = (np.frombuffer(bytearray(word), np.uint8) for word in (b"true", b"false"))
_NOTHING = np.array([list(word.encode().ljust(4)) for word in NOTHING], np.uint8)
_NOTHING_SIZES = np.array([len(word) for word in NOTHING], np.int64)


@scalar
def cell(text: Any, i: Any, delimiter: Any) -> Any:
    """(verdict, start, stop, whether quotes are doubled, where what ends it is) of the cell that begins at i."""
    size = len(text)
    if i < size and text[i] == _QUOTE:
        at, doubled = find_either(text, i + 1, _QUOTE, _QUOTE), False
        while at + 1 < size and text[at + 1] == _QUOTE:
            at, doubled = find_either(text, at + 2, _QUOTE, _QUOTE), True
        if at >= size:
            return OPEN, i, size, doubled, size
        end = find_either(text, at + 1, delimiter, _NEWLINE)
        clean = end == at + 1 or (end == at + 2 and text[at + 1] == _RETURN and (end == size or text[end] == _NEWLINE))
        return (FINE if clean else AFTER_QUOTE), i + 1, at, doubled, end
    stop = end = find_either(text, i, delimiter, _NEWLINE)
    if stop > i and text[stop - 1] == _RETURN and (end == size or text[end] == _NEWLINE):
        stop -= 1
    return FINE, i, stop, False, end


@scalar
def blank_line(text: Any, i: Any) -> Any:
    """Bytes of the end of line that stands at i, 0 if there is something else."""
    if i < len(text) and text[i] == _NEWLINE:
        return 1
    if i < len(text) and text[i] == _RETURN and (i + 1 == len(text) or text[i + 1] == _NEWLINE):
        return min(2, len(text) - i)
    return 0


@scalar
def read(text: Any, start: Any, stop: Any) -> Any:
    """(value, whether the cell is a finite number, with blanks around it or not)."""
    while start < stop and text[start] == _BLANK:
        start += 1
    while stop > start and text[stop - 1] == _BLANK:
        stop -= 1
    value, end = number(text, start, stop)
    if end < stop:
        return 0.0, False
    return value, end > start and abs(value) < np.inf


@scalar
def plain_number(text: Any, i: Any, delimiter: Any) -> Any:
    """(value, where what ends it is, whether the cell that begins at i is a number of at most 15 digits, not quoted).

    Digits and power of ten are exact in 64 bits, so that their quotient is the double nearest to the number.
    """
    size, at, point, digits = len(text), i, np.int64(-1), np.int64(0)
    negative = i < size and text[i] == _MINUS
    if negative:
        at += 1
    first = at
    while at < size:
        digit = np.int64(text[at]) - 48
        if 0 <= digit <= 9 and at - first <= _EXACT + 1:
            digits = digits * 10 + digit
        elif digit == _POINT - 48 and point < 0:
            point = at
        else:
            break
        at += 1
    count = at - first - (1 if point >= 0 else 0)
    end = at
    if end + 1 < size and text[end] == _RETURN and text[end + 1] == _NEWLINE:
        end += 1
    if count < 1 or count > _EXACT or (end < size and text[end] != delimiter and text[end] != _NEWLINE):
        return 0.0, i, False
    value = np.float64(digits) / _POWERS[at - point - 1 if point >= 0 else 0]
    return (-value if negative else value), end, True


@scalar
def says_nothing(text: Any, start: Any, stop: Any) -> Any:
    """Whether a cell is empty, or one of the words for nothing, with blanks around it or not."""
    while start < stop and text[start] == _BLANK:
        start += 1
    while stop > start and text[stop - 1] == _BLANK:
        stop -= 1
    if stop - start > 4:
        return False
    for k in range(len(_NOTHING_SIZES)):
        if stop - start == _NOTHING_SIZES[k]:
            same = True
            for j in range(stop - start):
                same = same and text[start + j] == _NOTHING[k, j]
            if same:
                return True
    return stop == start


@scalar
def is_infinite(text: Any, start: Any, stop: Any, value: Any) -> Any:
    """Whether a cell that is no finite number says inf or infinity, in any case, or is beyond all numbers."""
    if abs(value) == np.inf:
        return True
    while start < stop and (text[start] == _BLANK or text[start] == _PLUS or text[start] == _MINUS):
        start += 1
    while stop > start and text[stop - 1] == _BLANK:
        stop -= 1
    if stop - start != 3 and stop - start != 8:
        return False
    same = True
    for k in range(stop - start):
        same = same and text[start + k] | 32 == _INFINITY[k]
    return same


@scalar
def truth_at(text: Any, start: Any, stop: Any) -> Any:
    """1 of True, 0 of False, -1 of any other cell; all letters may be small, or capitals."""
    size = stop - start
    if size != 4 and size != 5:
        return -1
    same, small = True, text[start + 1] & 32  # the first letter of True is a capital, the second is not
    for k in range(size):
        same = same and text[start + k] | 32 == (_TRUE[k] if size == 4 else _FALSE[k])
        same = same and (text[start + k] & 32 == small or (k == 0 and small > 0))
    if not same:
        return -1
    return 1 if size == 4 else 0


@scalar
def has_comma(text: Any, start: Any, stop: Any) -> Any:
    """Whether a cell is a number written with a decimal comma."""
    commas, digits = 0, 0
    for k in range(start, stop):
        commas += text[k] == _COMMA
        digits += 48 <= text[k] <= 57
    signed = stop > start and (text[start] == _MINUS or text[start] == _PLUS)
    return commas == 1 and digits > 0 and digits + 1 + (1 if signed else 0) == stop - start


@scalar
def is_other_date(text: Any, start: Any, stop: Any) -> Any:
    """Whether a cell is a date in another order than that of ISO 8601: 17.05.2024, 5/17/24."""
    parts, digits, most = 0, 0, 0
    for k in range(start, stop):
        if 48 <= text[k] <= 57:
            digits += 1
        elif (text[k] == _POINT or text[k] == _SLASH) and 1 <= digits <= 2:
            parts, digits = parts + 1, 0
        else:
            break
        most = k + 1
    return parts == 2 and (digits == 2 or digits == 4) and (most == stop or text[most] == _BLANK)


@scalar
def date_at(text: Any, start: Any, stop: Any) -> Any:
    """(whether it is one: 0 no, 1 a date, 2 with a time; the day of the week from Monday on) of a cell.

    Dates are those of ISO 8601, 2024-05-17, with a time behind T or a blank whose hours and minutes count.
    """
    size = stop - start
    if size < 10 or text[start + 4] != _MINUS or text[start + 7] != _MINUS:
        return 0, 0
    year, month, day = _digits(text, start, 4), _digits(text, start + 5, 2), _digits(text, start + 8, 2)
    if year < 0 or month < 1 or month > 12 or day < 1 or day > 31:
        return 0, 0
    # Zeller: March is the third month, January and February are the last of the year before
    late = month < 3
    of_year, of_month = year - (1 if late else 0), month + (12 if late else 0)
    weekday = (day + 13 * (of_month + 1) // 5 + of_year + of_year // 4 - of_year // 100 + of_year // 400 + 5) % 7
    if size == 10:
        return DAY, weekday
    if size < 16 or (text[start + 10] != _T and text[start + 10] != _BLANK) or text[start + 13] != _COLON:
        return 0, 0
    hour, minute = _digits(text, start + 11, 2), _digits(text, start + 14, 2)
    return (TIME if 0 <= hour < 24 and 0 <= minute < 60 else 0), weekday


@scalar
def _digits(text: Any, at: Any, count: Any) -> Any:
    """The number of so many digits, -1 if others are among them."""
    found = 0
    for k in range(at, at + count):
        digit = int(text[k]) - 48
        if digit < 0 or digit > 9:
            return -1
        found = 10 * found + digit
    return found


@scalar
def undoubled(text: Any, start: Any, stop: Any) -> Any:
    """A copy with one quote for two."""
    found, size = np.empty(stop - start, np.uint8), 0
    while start < stop:
        found[size] = text[start]
        size += 1
        start += 2 if text[start] == _QUOTE else 1
    return found[:size]
