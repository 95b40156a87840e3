"""The meaning of cells: which features a value of a column gives. It is compiled, and the same for all formats.

Parsers turn bytes into cells, and builders turn objects in memory into cells. `take_cell` turns a cell and the role of
its column into features:

- A number is the feature ``column`` with that value; true is 1; false and 0 are absent.
- A word is the feature ``column=word`` with value 1. So is a number of a categorical column.
- A date gives a category for each of its parts, such as ``column.month=05``.
- A cell of a text column is tokenized later, by `thinstream.data.text.tokens`.
- A missing cell (null, NaN, empty, or a word like NA) is the feature ``column=?``, no feature, or an error.
  In a text column it has no features.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.data.crosses import Crosses
from thinstream.data.options import MISSING, NOTHING
from thinstream.data.text.characters import number
from thinstream.data.text.hashing import Hashing, encode_names, murmur, signed_by, turns_sign
from thinstream.jit import compiled, scalar

#: Roles of columns. Words are an error in a NUMERIC column, and categories in a FOUND_NUMERIC (inferred) one.
AUTO, NUMERIC, FOUND_NUMERIC, CATEGORICAL, TEXT, DATE, IGNORED, LABEL, WEIGHT = range(9)
#: Roles by the names of options.
ROLES = {
    "label": LABEL,
    "weight": WEIGHT,
    "numeric": NUMERIC,
    "categorical": CATEGORICAL,
    "text": TEXT,
    "ignore": IGNORED,
    "dates": DATE,
}
#: Roles that give features.
FEATURE_ROLES = (AUTO, NUMERIC, FOUND_NUMERIC, CATEGORICAL, TEXT, DATE)
#: Types of cells. UNTYPED is text that may be a number, as in CSV. ITEM is a word in a list, which is never missing.
#: TIME and DAY are seconds since 1970; DAY has no hour.
NULL, FALSE, TRUE, NUMBER, STRING, UNTYPED, ITEM, TIME, DAY = range(9)
#: Treatments of missing cells, also by the values of the option.
INDICATOR, ABSENT, REFUSED, AS_IS = range(4)
CODES = dict(zip(MISSING, (INDICATOR, ABSENT, REFUSED, AS_IS), strict=True))
#: Verdicts on a cell. Parsers add their own.
FINE, BAD_LABEL, BAD_WEIGHT, BAD_NUMBER, BAD_DATE, BAD_TEXT, BAD_CATEGORY, NO_VALUE, INFINITE, LIMIT = range(10)
#: Entries of a parser's state: the numbers of rows, features, texts and names, the end of the used text, and the start
#: of the next record.
ROWS, NNZ, TEXTS, NAMED, FILL, AT_BYTE = range(6)
STATE = 6
#: The features whose names are needed: none, those of crossed columns, also those without a name so far, or all.
NO_NAMES, CROSSED, NEW, ALL = range(4)
#: The number of heads that a column's feature names may have: ``column``, ``column=``, ``column.part=`` for date parts.
HEADS = 7

#: Parts of a date, each a category; positions of year, month, day and hour in a date; and the days of the week.
PARTS = ("year", "month", "day", "hour", "weekday")
AT = np.array([[0, 4], [5, 7], [8, 10], [11, 13]])
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Texts that do not occur in cells. `Meaning.constants` is their offset.
CONSTANTS = "".join(WEEKDAYS).encode() + b"?TrueFalse"
CONSTANTS_TEXT = np.frombuffer(bytearray(CONSTANTS), np.uint8)
_SIGN, _TRUE_AT, _FALSE_AT = 21, 22, 26

_RETURN, _BLANK, _PLUS, _COMMA, _MINUS, _POINT, _SLASH, _COLON, _T, _Z = 13, 32, 43, 44, 45, 46, 47, 58, 84, 90
_INFINITY = np.frombuffer(bytearray(b"infinity"), np.uint8)
_TRUE, _FALSE = (np.frombuffer(bytearray(word), np.uint8) for word in (b"true", b"false"))
_NOTHING = np.array([list(word.encode().ljust(4)) for word in NOTHING], np.uint8)
_NOTHING_SIZES = np.array([len(word) for word in NOTHING], np.int64)
_DAYS_OF_MONTHS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])


# Recognize numbers, missing values, booleans and dates in text.


@scalar
def read(text: Any, start: Any, stop: Any) -> Any:
    """Return the value, and whether the text is a finite number, with or without blanks around it."""
    while start < stop and text[start] == _BLANK:
        start += 1
    while stop > start and text[stop - 1] == _BLANK:
        stop -= 1
    value, end = number(text, start, stop)
    if end < stop:
        return 0.0, False
    return value, end > start and abs(value) < np.inf


@scalar
def is_missing(text: Any, start: Any, stop: Any) -> Any:
    """Return whether a text is empty or a word for missing values, with or without blanks around it."""
    if stop - start > 4 and text[start] != _BLANK and text[stop - 1] != _BLANK:
        return False
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
    """Return whether a text that is not a finite number is inf or infinity in any case, or too large a number."""
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
    """Return 1 for True, 0 for False, -1 for any other text. Also accepted in lower or upper case."""
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
    """Return whether a text is a number with a decimal comma."""
    commas, digits = 0, 0
    for k in range(start, stop):
        commas += text[k] == _COMMA
        digits += 48 <= text[k] <= 57
    signed = stop > start and (text[start] == _MINUS or text[start] == _PLUS)
    return commas == 1 and digits > 0 and digits + 1 + (1 if signed else 0) == stop - start


@scalar
def is_other_date(text: Any, start: Any, stop: Any) -> Any:
    """Return whether a text is a date in another order than ISO 8601: 17.05.2024, 5/17/24."""
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
    """Return `DAY` for a date, `TIME` for a date with a time, 0 for other text; and the day of the week, from Monday.

    Dates are in ISO 8601: 2024-05-17, with a time after T or a blank: 13:05, 13:05:59, 13:05:59.25, with or without a
    time zone (Z, +02:00, +0200, +02). The hour is that of the written time zone.
    """
    size = stop - start
    if size < 10 or text[start + 4] != _MINUS or text[start + 7] != _MINUS:
        return 0, 0
    year, month, day = _digits(text, start, 4), _digits(text, start + 5, 2), _digits(text, start + 8, 2)
    if year < 0 or month < 1 or month > 12 or day < 1 or day > _DAYS_OF_MONTHS[month]:
        return 0, 0
    if month == 2 and day == 29 and (year % 4 != 0 or (year % 100 == 0 and year % 400 != 0)):
        return 0, 0
    weekday = _weekday(year, month, day)
    if size == 10:
        return DAY, weekday
    if size < 16 or (text[start + 10] != _T and text[start + 10] != _BLANK) or text[start + 13] != _COLON:
        return 0, 0
    hour, minute = _digits(text, start + 11, 2), _digits(text, start + 14, 2)
    at = start + 16
    if at + 3 <= stop and text[at] == _COLON and 0 <= _digits(text, at + 1, 2) <= 60:
        at += 3
        if at + 1 < stop and (text[at] == _POINT or text[at] == _COMMA) and 48 <= text[at + 1] <= 57:
            at += 2
            while at < stop and 48 <= text[at] <= 57:
                at += 1
    if at < stop and text[at] == _Z:
        at += 1
    elif at + 3 <= stop and (text[at] == _PLUS or text[at] == _MINUS) and _digits(text, at + 1, 2) >= 0:
        at += 3
        minutes = at + 1 if at < stop and text[at] == _COLON else at
        if minutes + 2 == stop and _digits(text, minutes, 2) >= 0:
            at = stop
    return (TIME if at == stop and 0 <= hour < 24 and 0 <= minute < 60 else 0), weekday


@scalar
def _weekday(year: Any, month: Any, day: Any) -> Any:
    """Return the day of the week from Monday, by Zeller's rule: January and February belong to the previous year."""
    late = month < 3
    of_year, of_month = year - (1 if late else 0), month + (12 if late else 0)
    return (day + 13 * (of_month + 1) // 5 + of_year + of_year // 4 - of_year // 100 + of_year // 400 + 5) % 7


@scalar
def _digits(text: Any, at: Any, count: Any) -> Any:
    """Return the number in these digits, -1 if there are other characters."""
    value = 0
    for k in range(at, at + count):
        digit = int(text[k]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = 10 * value + digit
    return value


@scalar
def _write_digits(text: Any, at: Any, count: Any, value: Any) -> None:
    for k in range(count):
        text[at + count - 1 - k] = 48 + value % 10
        value //= 10


@scalar
def _write_time(text: Any, at: Any, seconds: Any) -> Any:
    """Write a date and its hour at the positions of `AT`; return the day of the week, -1 if it cannot be written."""
    days = np.int64(np.floor(seconds / 86400.0))
    hour = np.int64((seconds - 86400.0 * days) // 3600.0)
    # days since 1 March of the year 0, in cycles of 400 years
    shifted = days + 719468
    cycle = shifted // 146097
    of_cycle = shifted - cycle * 146097
    of_year = (of_cycle - of_cycle // 1460 + of_cycle // 36524 - of_cycle // 146096) // 365
    day_of_year = of_cycle - (365 * of_year + of_year // 4 - of_year // 100)
    of_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * of_month + 2) // 5 + 1
    month = of_month + 3 if of_month < 10 else of_month - 9
    year = of_year + cycle * 400 + (1 if month <= 2 else 0)
    if year < 0 or year > 9999:
        return -1
    _write_digits(text, at, 4, year)
    _write_digits(text, at + 5, 2, month)
    _write_digits(text, at + 8, 2, day)
    _write_digits(text, at + 11, 2, hour)
    return (days + 3) % 7


@scalar
def same_text(text: Any, start: Any, stop: Any, other: Any, low: Any, high: Any) -> Any:
    """Return whether two parts of texts are equal."""
    same = high - low == stop - start
    for j in range(stop - start if same else 0):
        same = same and text[start + j] == other[low + j]
    return same


# Columns, labels and features for compiled code.


class Columns(NamedTuple):
    """Columns for compiled code."""

    roles: NDArray[np.int64]
    #: Hashes of the column's heads: the name of its number, and the namespaces of its categories.
    codes: NDArray[np.uint64]
    #: Whether the features of each head are crossed, and whether a FOUND_NUMERIC column had a word.
    flags: NDArray[np.bool_]

    @classmethod
    def of(cls, roles: dict[str, int], hashing: Hashing, crosses: Crosses) -> "Columns":
        """Create columns from names and roles."""
        codes = np.zeros((len(roles), HEADS), np.uint64)
        for k, (name, role) in enumerate(roles.items()):
            codes[k, 0], codes[k, 1] = hashing.code(name), hashing.namespace(f"{name}=")
            if role == DATE:
                codes[k, 2:] = [hashing.namespace(f"{name}.{part}=") for part in PARTS]
        dates = frozenset(name for name, role in roles.items() if role == DATE)
        flags = np.zeros((len(roles), HEADS + 1), np.bool_)
        flags[:, :HEADS] = (crosses.slots_of(heads_of(tuple(roles), dates)[2]) != 0).reshape(-1, HEADS)
        return cls(np.array([*roles.values()], np.int64), codes, flags)


@lru_cache(64)
def heads_of(names: tuple[str, ...], dates: frozenset[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Return the heads of names that columns may have, their ends, and the column that crosses use for each."""
    heads, columns = list[str](), list[str]()
    for name in names:
        parts = [f"{name}.{part}" for part in PARTS] if name in dates else [""] * len(PARTS)
        heads += [name, f"{name}=", *(f"{part}=" if part else "" for part in parts)]
        columns += [name, name, *parts]
    text, ends = encode_names(heads)
    return np.frombuffer(bytearray(text), np.uint8), np.concatenate([[0], ends]).astype(np.int64), columns


class Labels(NamedTuple):
    """The labels that a label column may have; none: any number."""

    kinds: NDArray[np.int64]  # NUMBER, STRING, TRUE or FALSE
    values: NDArray[np.float64]  # of numbers
    text: NDArray[np.uint8]  # concatenated; the names of True and False
    ends: NDArray[np.int64]
    exact: bool  # whether classes grow: labels are positions, and true equals neither 1 nor "True"

    @classmethod
    def of(cls, labels: Sequence[Any] | None, exact: bool = False) -> "Labels":
        """Create labels from Python objects."""
        labels = labels or ()
        kinds = [
            (TRUE if label else FALSE) if isinstance(label, bool) else STRING if isinstance(label, str) else NUMBER
            for label in labels
        ]
        values = [np.nan if isinstance(label, str | bool) else float(label) for label in labels]
        words = [str(label).encode("utf-8", "surrogatepass") for label in labels]
        text = np.frombuffer(bytearray(b"".join(words)), np.uint8)
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        return cls(np.array(kinds, np.int64), np.array(values, np.float64), text, ends, exact)


class Meaning(NamedTuple):
    """Constants for converting cells to features."""

    mask: np.uint64
    signed: bool
    root: np.uint64  # the seed of namespaces
    bare: np.uint64  # the hash of the namespace "", the seed of numbers
    limit: float  # of |value|
    missing: int
    constants: int  # offset of `CONSTANTS` in the text
    named: int  # the features whose names are needed: NO_NAMES, CROSSED, NEW or ALL

    @classmethod
    def of(cls, hashing: Hashing, limit: float, named: int = NO_NAMES, missing: int = AS_IS, at: int = 0) -> "Meaning":
        numbers = np.uint64(hashing.root), np.uint64(hashing.namespace(""))
        return cls(np.uint64(hashing.mask), hashing.signed, *numbers, limit, missing, at, named)


class Features(NamedTuple):
    """Features in the order of the cells, and texts that will be tokenized later.

    Compiled code counts references to each array that a call passes, so there are few arrays.
    """

    indices: NDArray[Any]
    values: NDArray[np.float64]
    #: The names that are needed: the feature, whether its sign is turned, and the parts of the name in the text. For
    #: columns, these are the head (HEADS · column + k), and the start and stop of the rest.
    names: NDArray[np.int32]
    seen: NDArray[np.uint8]  # a bit for each index, 1 if its name is not needed again; used for NEW names
    runs: NDArray[np.int64]  # texts: number of features before it, column, start, stop


class Out(NamedTuple):
    """Rows that a parser fills in, without their features."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64]
    indptr: NDArray[np.int64]
    starts: NDArray[np.int64]  # offset of each record in the text
    ends: NDArray[np.int64]  # offset at which the next record may start
    upto: NDArray[np.int64]  # number of texts up to the end of each row
    ids: NDArray[np.int64]  # start and stop of each row's id, and whether quotes are doubled; or empty

    @classmethod
    def empty(cls, rows: int, with_ids: bool = False) -> "Out":
        """Allocate N rows."""
        labels, weights = np.empty((2, rows + 1))
        indptr, starts, ends, upto = np.empty((4, rows + 1), np.int64)
        indptr[0] = upto[0] = 0
        ids = np.zeros((rows + 1 if with_ids else 0, 3), np.int64)
        return cls(labels, weights, indptr, starts, ends, upto, ids)


class Cells(NamedTuple):
    """The cells of rows, one after another."""

    ends: NDArray[np.int64]  # end of each row's cells
    columns: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    numbers: NDArray[np.float64]
    starts: NDArray[np.int64]  # of words in the text, and of the text of numbers
    stops: NDArray[np.int64]


# Convert cells to features.


@scalar
def is_needed(named: Any, crossed: Any, seen: Any, index: Any) -> Any:
    """Return whether the name of a feature is needed; the same NEW name is not needed again."""
    if named != NEW:
        return named == ALL or crossed
    at, bit = index >> 3, np.uint8(1) << np.uint8(index & 7)
    if seen[at] & bit != 0:
        return crossed
    seen[at] |= bit
    return True


@scalar
def roll_back(features: Any, state: Any, nnz: Any, texts: Any, names: Any) -> None:
    """Remove the features, texts and names of a record that cannot be read."""
    for k in range(names, state[NAMED] if len(features.seen) > 0 else names):
        index = np.int64(features.indices[features.names[k, 0]])
        features.seen[index >> 3] &= np.uint8(255) ^ np.uint8(1) << np.uint8(index & 7)
    state[NNZ], state[TEXTS], state[NAMED] = nnz, texts, names


@scalar
def put(
    features: Any,
    state: Any,
    code: Any,
    crossed: Any,
    meaning: Any,
    value: Any,
    head: Any,
    start: Any,
    stop: Any,
) -> None:
    """Add a feature: the hash and the span of its name."""
    nnz, index = state[NNZ], np.int64(code & meaning.mask)
    features.indices[nnz] = index
    features.values[nnz] = signed_by(code, meaning.signed, value)
    if meaning.named != NO_NAMES and is_needed(meaning.named, crossed, features.seen, index):
        k = state[NAMED]
        features.names[k, 0], features.names[k, 1] = nnz, meaning.signed and turns_sign(code)
        features.names[k, 2], features.names[k, 3], features.names[k, 4] = head, start, stop
        state[NAMED] = k + 1
    state[NNZ] = nnz + 1


@scalar
def find_label(text: Any, cell_type: Any, value: Any, start: Any, stop: Any, labels: Any) -> Any:
    """Return whether a label is allowed, and the label: a number, ±1 for two classes, or the position of the class."""
    count = len(labels.kinds)
    if cell_type == NULL:
        return True, np.nan
    if count == 0 and not labels.exact:
        if cell_type in (TRUE, FALSE):
            return True, 1.0 if cell_type == TRUE else -1.0
        return cell_type == NUMBER and abs(value) < np.inf, value
    truth = cell_type in (TRUE, FALSE)
    for k in range(count):
        other, low, high = labels.kinds[k], (0 if k == 0 else labels.ends[k - 1]), labels.ends[k]
        if other == NUMBER:
            same = cell_type != STRING and not truth and value == labels.values[k]
            same = same or (truth and not labels.exact and labels.values[k] == (1.0 if cell_type == TRUE else 0.0))
        elif truth:
            low_name, size = (_TRUE_AT, 4) if cell_type == TRUE else (_FALSE_AT, 5)
            same = cell_type == other or (
                not labels.exact
                and other == STRING
                and same_text(CONSTANTS_TEXT, low_name, low_name + size, labels.text, low, high)
            )
        else:
            same = cell_type != NUMBER and (other == STRING or cell_type == UNTYPED)
            same = same and same_text(text, start, stop, labels.text, low, high)
        if same:
            return True, 2.0 * k - 1.0 if count == 2 and not labels.exact else 1.0 * k
    return False, 0.0


@scalar
def take_target(
    text: Any, cell_type: Any, value: Any, start: Any, stop: Any, role: Any, labels: Any, out: Any, state: Any
) -> Any:
    """Read a cell as the label or the weight of the current row; return a verdict."""
    valid = cell_type == NUMBER
    if cell_type == UNTYPED:
        value, valid = read(text, start, stop)
    if role == WEIGHT:
        if cell_type != NULL:
            out.weights[state[ROWS]] = value
        return FINE if cell_type == NULL or (valid and 0 <= value < np.inf) else BAD_WEIGHT
    if cell_type == UNTYPED:
        value = value if valid else np.nan
        if valid and len(labels.kinds) == 0 and not labels.exact:
            cell_type = np.int64(NUMBER)
    valid, label = find_label(text, cell_type, value, start, stop, labels)
    out.labels[state[ROWS]] = label
    return FINE if valid else BAD_LABEL


@scalar
def take_cell(
    text: Any,
    cell_type: Any,
    value: Any,
    start: Any,
    stop: Any,
    k: Any,
    columns: Any,
    meaning: Any,
    features: Any,
    state: Any,
) -> Any:
    """Add the features of a cell in column k to the current row; return a verdict.

    Words are ``text[start:stop]``, and so are numbers as written, which are the names of categories.
    """
    role, head = columns.roles[k], HEADS * k
    is_text = cell_type in (STRING, UNTYPED)
    if role == IGNORED:
        return FINE
    if role == TEXT:
        if cell_type in (NULL, FALSE) or (is_text and meaning.missing != AS_IS and is_missing(text, start, stop)):
            return FINE
        if not is_text and cell_type != ITEM:
            return BAD_TEXT
        at = state[TEXTS]
        features.runs[at, 0], features.runs[at, 1] = state[NNZ], k
        features.runs[at, 2], features.runs[at, 3] = start, stop
        state[TEXTS] = at + 1
        return FINE
    if is_text and (role == NUMERIC or (cell_type == UNTYPED and role != CATEGORICAL and role != DATE)):
        value, is_number = read(text, start, stop)
        if is_number:
            cell_type, is_text = np.int64(NUMBER), False
    missing = cell_type == NULL
    if cell_type == NUMBER and value != value:
        if meaning.missing == AS_IS:
            return INFINITE
        missing = True
    elif is_text and (meaning.missing != AS_IS or role in (NUMERIC, DATE)):
        missing = is_missing(text, start, stop)
    if missing:
        if meaning.missing == REFUSED:
            return NO_VALUE
        if meaning.missing == INDICATOR:
            put_missing(text, k, columns, meaning, features, state)
        return FINE
    if cell_type == FALSE and role != CATEGORICAL:
        return FINE
    if role == DATE:
        day, has_hour = np.int64(-1), cell_type == TIME
        if is_text:
            date_type, day = date_at(text, start, stop)
            day, has_hour = (day if date_type > 0 else np.int64(-1)), date_type == TIME
        elif cell_type in (TIME, DAY):
            start = state[FILL]
            day = _write_time(text, start, value)
            state[FILL] = start + 13
        if day < 0:
            return BAD_DATE
        for part in range(5):
            low, high = meaning.constants + 3 * day, meaning.constants + 3 * day + 3
            if part < 4:
                low, high = start + AT[part, 0], start + AT[part, 1]
            if part != 3 or has_hour:
                code = murmur(text, low, high, columns.codes[k, 2 + part])
                put(features, state, code, columns.flags[k, 2 + part], meaning, 1.0, head + 2 + part, low, high)
        return FINE
    if cell_type in (TIME, DAY):
        return BAD_NUMBER if role == NUMERIC else BAD_CATEGORY
    if role == CATEGORICAL:
        if cell_type in (TRUE, FALSE):
            start = meaning.constants + (_TRUE_AT if cell_type == TRUE else _FALSE_AT)
            stop = start + (4 if cell_type == TRUE else 5)
        elif cell_type == NUMBER and start == stop:
            return BAD_CATEGORY
    elif cell_type in (NUMBER, TRUE):
        amount = value if cell_type == NUMBER else 1.0
        if not abs(amount) <= meaning.limit:
            return INFINITE if abs(amount) == np.inf else LIMIT
        if amount != 0:
            put(features, state, columns.codes[k, 0], columns.flags[k, 0], meaning, amount, head, start, start)
        return FINE
    elif role == NUMERIC and cell_type != ITEM:
        truth = truth_at(text, start, stop)
        if truth > 0:
            put(features, state, columns.codes[k, 0], columns.flags[k, 0], meaning, 1.0, head, start, start)
        return BAD_NUMBER if truth < 0 else FINE
    elif cell_type == UNTYPED and meaning.missing != AS_IS and is_infinite(text, start, stop, value):
        return INFINITE
    elif role == FOUND_NUMERIC and is_text:
        columns.flags[k, HEADS] = True
    code = murmur(text, start, stop, columns.codes[k, 1])
    put(features, state, code, columns.flags[k, 1], meaning, 1.0, head + 1, start, stop)
    return FINE


@scalar
def put_missing(text: Any, k: Any, columns: Any, meaning: Any, features: Any, state: Any) -> None:
    """Add the feature of a missing cell."""
    at = meaning.constants + _SIGN
    code = murmur(text, at, at + 1, columns.codes[k, 1])
    put(features, state, code, columns.flags[k, 1], meaning, 1.0, HEADS * k + 1, at, at + 1)


@compiled("thinstream.data.cells", "thinstream.data.text.hashing", "thinstream.data.text.characters")
def take_cells(
    text: Any, cells: Any, columns: Any, labels: Any, meaning: Any, out: Any, features: Any, state: Any
) -> Any:
    """Add rows of cells; return the verdict and the position of a bad cell."""
    at = 0
    for end in cells.ends:
        row = state[ROWS]
        nnz, texts, names = state[NNZ], state[TEXTS], state[NAMED]
        out.labels[row], out.weights[row] = np.nan, 1.0
        out.starts[row] = out.ends[row] = row
        while at < end:
            cell_type, value, k = np.int64(cells.kinds[at]), cells.numbers[at], cells.columns[at]
            start, stop, role = cells.starts[at], cells.stops[at], columns.roles[k]
            if role in (LABEL, WEIGHT):
                verdict = take_target(text, cell_type, value, start, stop, role, labels, out, state)
            else:
                verdict = take_cell(text, cell_type, value, start, stop, k, columns, meaning, features, state)
            if verdict != FINE:
                roll_back(features, state, nnz, texts, names)
                return verdict, at
            at += 1
        state[ROWS] = row + 1
        out.indptr[row + 1], out.upto[row + 1] = state[NNZ], state[TEXTS]
    return FINE, at
