"""JSON Lines: the compiled parser, the reading of other lines in Python, and the format."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain, texts_at
from thinstream.data.cells import (
    AT_BYTE,
    AUTO,
    BAD_LABEL,
    FALSE,
    FEATURE_ROLES,
    FILL,
    FINE,
    FOUND_NUMERIC,
    HEADS,
    INDICATOR,
    ITEM,
    LABEL,
    NAMED,
    NNZ,
    NULL,
    NUMBER,
    REFUSED,
    ROLES,
    ROWS,
    STRING,
    TEXT,
    TEXTS,
    TRUE,
    WEIGHT,
    Columns,
    Labels,
    Out,
    put_missing,
    roll_back,
    same_text,
    take_cell,
    take_cells,
    take_target,
)
from thinstream.data.crosses import Patterns, slots_at
from thinstream.data.labels import label_of
from thinstream.data.objects import CellBuilder, Unreadable, Written, shown
from thinstream.data.text.characters import WIDE, copy_string, decoded, encoded, first_of, fits, line_end, number
from thinstream.data.text.hashed_rows import TEXT_LABELS, ColumnFormat
from thinstream.data.text.hashing import absorbed, encode_names, finished, murmur, stirred
from thinstream.data.text.protocol import Parsed, ParseError, Text, given_at
from thinstream.errors import meant
from thinstream.jit import compiled, scalar

# Parse values of JSON: their ends, and strings without escapes.

_SPACE, _TAB, _RETURN, _BACKSLASH = 32, 9, 13, 92
_PLUS, _POINT, _ZERO, _SMALL_E, _LARGE_E = 43, 46, 48, 101, 69
#: The characters of escapes, except for u.
_ESCAPES = np.zeros(256, np.uint8)
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meant


@scalar
def blanks(text: Any, i: Any) -> Any:
    """Return the end of white space at i. A newline is not white space."""
    while i < len(text) and (text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN):
        i += 1
    return i


@scalar
def _digits(text: Any, i: Any) -> Any:
    while i < len(text) and 48 <= text[i] <= 57:
        i += 1
    return i


@scalar
def number_end(text: Any, i: Any) -> Any:
    """Return the end of the number at i, by the grammar of JSON; i if there is none."""
    at = i + 1 if i < len(text) and text[i] == _MINUS else i
    end = _digits(text, at)
    if end == at or (text[at] == _ZERO and end > at + 1):
        return i
    if end < len(text) and text[end] == _POINT:
        at, end = end + 1, _digits(text, end + 1)
        if end == at:
            return i
    if end < len(text) and (text[end] == _SMALL_E or text[end] == _LARGE_E):
        at = end + 1
        if at < len(text) and (text[at] == _MINUS or text[at] == _PLUS):
            at += 1
        end = _digits(text, at)
        if end == at:
            return i
    return end


@scalar
def _four_digits(text: Any, i: Any) -> Any:
    """Return the number in four hexadecimal digits, or −1."""
    value = np.int64(0)
    for k in range(i, i + 4):
        c = np.int64(text[k]) if k < len(text) else np.int64(0)
        if 48 <= c <= 57:
            c -= 48
        elif 97 <= c | 32 <= 102:
            c = (c | 32) - 87
        else:
            return np.int64(-1)
        value = value << 4 | c
    return value


@scalar
def string(text: Any, i: Any, bag: Any, fill: Any) -> Any:
    """Return the end of the string at i, and of its copy in the bag; end 0 if Python must read it."""
    while i < len(text):
        while fits(text, i):
            count = first_of(copy_string(text, i, bag, fill))
            i, fill = i + count, fill + count
            if count < WIDE:
                break
        c = text[i] if i < len(text) else np.uint8(0)
        if c == _QUOTE:
            return i + 1, fill
        if c < 32:
            break
        if c == _BACKSLASH:
            meant = _ESCAPES[text[i + 1]] if i + 1 < len(text) else np.uint8(0)
            if meant > 0:
                bag[fill] = meant
                fill, i = fill + 1, i + 2
                continue
            if i + 1 >= len(text) or text[i + 1] != 117:
                break
            point = _four_digits(text, i + 2)
            i += 6
            if 0xD800 <= point < 0xDC00 and i + 1 < len(text) and text[i] == _BACKSLASH and text[i + 1] == 117:
                low = _four_digits(text, i + 2)
                if not 0xDC00 <= low < 0xE000:
                    break
                point = 0x10000 + ((point - 0xD800) << 10 | (low - 0xDC00))
                i += 6
            if point < 0 or 0xD800 <= point < 0xE000:
                break
            fill = encoded(point, bag, fill)
        elif c < 128:
            bag[fill] = c
            fill, i = fill + 1, i + 1
        else:
            _, size = decoded(text, i, len(text))
            if size == 0:
                break
            for k in range(size):
                bag[fill + k] = text[i + k]
            fill, i = fill + size, i + size
    return 0, fill


@scalar
def key_end(text: Any, i: Any) -> Any:
    """Return the end of the key at i; −1 if Python must read it."""
    while i < len(text) and text[i] != _QUOTE:
        size = 1
        if text[i] < 32 or text[i] == _BACKSLASH:
            return -1
        if text[i] >= 128:
            _, size = decoded(text, i, len(text))
            if size == 0:
                return -1
        i += size
    return i if i < len(text) else -1


@scalar
def spelled(text: Any, i: Any) -> Any:
    """Return the type and the end of true, false or null at i."""
    left = len(text) - i
    if left >= 4 and text[i] == 116 and text[i + 1] == 114 and text[i + 2] == 117 and text[i + 3] == 101:
        return TRUE, i + 4
    if left >= 4 and text[i] == 110 and text[i + 1] == 117 and text[i + 2] == 108 and text[i + 3] == 108:
        return NULL, i + 4
    if left >= 5 and text[i] == 102 and text[i + 1] == 97 and text[i + 2] == 108 and text[i + 3] == 115:
        return (FALSE if text[i + 4] == 101 else -1), i + 5
    return -1, i


# JSON Lines to cells, compiled.
#
# Python reads lines that this parser does not support, and finds out what is wrong with them.

#: Verdicts: Python must read the line; there is not enough room.
LEFT, ROOM = 200, 201
_NEWLINE, _QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _MINUS, _EQUALS = 10, 34, 44, 58, 123, 125, 45, 61
_OPEN_LIST, _CLOSE_LIST = 91, 93
#: The deepest nesting of objects.
_DEEPEST = 64
_ONE, _EIGHT, _WORD, _LOW = np.uint64(1), np.uint64(8), np.uint64(32), np.uint64(2**32 - 1)


class Keys(NamedTuple):
    """Keys that occurred in a piece of text, those with a role first; `Columns` has their columns."""

    starts: NDArray[np.int64]  # in the text
    stops: NDArray[np.int64]
    slots: NDArray[np.int64]  # a hash table of key numbers, which start at 1
    stamps: NDArray[np.int64]  # number of the last object with each key, from 1
    order: NDArray[np.int64]  # the key at each position of the previous row's object; −1: none
    used: NDArray[np.bool_]  # whether a key had a value that is not an object
    counts: NDArray[np.int64]  # the numbers of keys and of objects
    required: NDArray[np.int64]  # keys that every row has: missing cells if absent
    label: int  # the key that every row must have; −1: none
    id: int  # the key of the row's id; −1: none
    patterns: Patterns  # the names in crosses


@scalar
def find_key(text: Any, start: Any, stop: Any, keys: Any, columns: Any, meaning: Any) -> Any:
    """Return the number of a key, which may be new; −1 if there is no room for it."""
    code, last = murmur(text, start, stop, meaning.bare), len(keys.slots) - 1
    slot = np.int64(code) & last
    while keys.slots[slot] > 0:
        k = keys.slots[slot] - 1
        if columns.codes[k, 0] == code and same_text(text, start, stop, text, keys.starts[k], keys.stops[k]):
            return k
        slot = slot + 1 & last
    k = keys.counts[0]
    if k >= len(keys.starts):
        return np.int64(-1)
    keys.slots[slot] = k + 1
    keys.starts[k], keys.stops[k] = start, stop
    columns.codes[k, 0], columns.codes[k, 1] = code, _category(text, start, stop, meaning.root)
    columns.flags[k, 0] = columns.flags[k, 1] = slots_at(text, start, stop, keys.patterns) != 0
    keys.counts[0] = k + 1
    return k


@scalar
def _category(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """Return the hash of a key with an equals sign: the namespace of its categories."""
    low = np.uint64(seed) & _LOW
    result = _with_equals(text, start, stop, low)
    if seed > _LOW:
        result |= max(_with_equals(text, start, stop, seed >> _WORD), _ONE) << _WORD
    return result


@scalar
def _with_equals(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    result, word, held = absorbed(text, start, stop, seed, np.uint64(0), np.uint64(0))
    word |= np.uint64(_EQUALS) << held
    held += _EIGHT
    if held == _WORD:
        result, word, held = stirred(result, word), np.uint64(0), np.uint64(0)
    return finished(result, word, held, stop - start + 1)


@scalar
def _copied(text: Any, start: Any, stop: Any, to: Any) -> Any:
    """Copy a part of the text to another position; return the end of the copy."""
    for k in range(start, stop):
        text[to] = text[k]
        to += 1
    return to


@scalar
def _item_name(text: Any, key: Any, keys: Any, item: Any, to: Any) -> Any:
    """Write the name of a number in a list, ``key[item]``; return its end."""
    to = _copied(text, keys.starts[key], keys.stops[key], to)
    text[to] = _OPEN_LIST
    digits, left = 1, item
    while left > 9:
        digits, left = digits + 1, left // 10
    for k in range(digits):
        text[to + digits - k] = 48 + item % 10
        item //= 10
    text[to + digits + 1] = _CLOSE_LIST
    return to + digits + 2


@scalar
def _close(text: Any, keys: Any, stamp: Any, columns: Any, meaning: Any, features: Any, state: Any) -> Any:
    """Treat required keys that are absent as missing cells; return whether the row is complete."""
    if keys.label >= 0 and keys.stamps[keys.label] != stamp:
        return False
    for k in keys.required:
        if keys.stamps[k] != stamp:
            if meaning.missing == REFUSED:
                return False
            if meaning.missing == INDICATOR:
                put_missing(text, k, columns, meaning, features, state)
    return True


@scalar
def _record(
    whole: Any,
    size: Any,
    i: Any,
    prefixes: Any,
    keys: Any,
    columns: Any,
    labels: Any,
    meaning: Any,
    out: Any,
    features: Any,
    state: Any,
) -> Any:
    """Parse the object that begins at i; return a verdict and its end."""
    text, row, depth, position = whole[:size], state[ROWS], 0, 0
    keys.counts[1] += 1
    stamp, in_list, item, key = keys.counts[1], False, 0, np.int64(0)
    i = blanks(text, i + 1)
    if i < size and text[i] == _CLOSE:
        return (FINE if _close(whole, keys, stamp, columns, meaning, features, state) else LEFT), i + 1
    while True:
        if not in_list:
            if i >= size or text[i] != _QUOTE:
                return LEFT, i
            key = np.int64(-1)
            if depth == 0 and position < len(keys.order) and keys.order[position] >= 0:
                guess = keys.order[position]
                stop = i + 1 + keys.stops[guess] - keys.starts[guess]
                if (
                    stop < size
                    and text[stop] == _QUOTE
                    and same_text(whole, i + 1, stop, whole, keys.starts[guess], keys.stops[guess])
                ):
                    key, i = guess, stop + 1
            if key < 0:
                start, stop = i + 1, key_end(text, i + 1)
                if stop < 0:
                    return LEFT, i
                i = stop + 1
                if depth > 0:
                    low, high = prefixes[depth, 0], prefixes[depth, 1]
                    begin = state[FILL]
                    if begin + high - low + stop - start + size - i + WIDE > len(whole):
                        return ROOM, i
                    stop = _copied(whole, start, stop, _copied(whole, low, high, begin))
                    start = begin
                before = keys.counts[0]
                key = find_key(whole, start, stop, keys, columns, meaning)
                if key < 0:
                    return ROOM, i
                if depth > 0 and key == before:
                    state[FILL] = stop
                if depth == 0 and position < len(keys.order):
                    keys.order[position] = key
            position += 1
            if keys.stamps[key] == stamp:
                return LEFT, i
            keys.stamps[key] = stamp
            i = blanks(text, i)
            if i >= size or text[i] != _COLON:
                return LEFT, i
            i = blanks(text, i + 1)
        if i >= size:
            return LEFT, i
        k, role, value, taken = key, columns.roles[key], 0.0, True
        first = start = stop = i
        if text[i] == _QUOTE:
            cell_type, start = np.int64(ITEM if in_list else STRING), state[FILL]
            i, stop = string(text, i + 1, whole, start)
            if i == 0:
                return LEFT, i
            state[FILL] = stop
        elif text[i] == _MINUS or 48 <= text[i] <= 57:
            cell_type, stop = np.int64(NUMBER), number_end(text, i)
            value, _ = number(text, i, stop)
            if stop == i or not abs(value) < np.inf:
                return LEFT, i
            i = stop
        elif text[i] == _OPEN and not in_list:
            if role != AUTO or depth + 1 >= _DEEPEST or (depth == 0 and key == keys.id):
                return LEFT, i
            begin, low, high = state[FILL], keys.starts[key], keys.stops[key]
            if begin + high - low + 1 + size - i + WIDE > len(whole):
                return ROOM, i
            stop = _copied(whole, low, high, begin)
            whole[stop] = 46
            depth += 1
            prefixes[depth, 0], prefixes[depth, 1] = begin, stop + 1
            state[FILL] = stop + 1
            i = blanks(text, i + 1)
            if i < size and text[i] == _CLOSE:
                taken, cell_type = False, np.int64(NULL)
            else:
                continue
        elif text[i] == _OPEN_LIST and not in_list:
            keys.used[key] = True
            if (role != AUTO and role != TEXT) or (depth == 0 and key == keys.id):
                return LEFT, i
            i, in_list, item = blanks(text, i + 1), True, 0
            if i < size and text[i] == _CLOSE_LIST:
                taken, cell_type = False, np.int64(NULL)
            else:
                continue
        else:
            cell_type, i = spelled(text, i)
            if cell_type < 0:
                return LEFT, i
            stop = i
        if taken:
            keys.used[key] = True
            if in_list:
                if role == TEXT and cell_type != ITEM:
                    return LEFT, i
                taken = cell_type != NULL and cell_type != FALSE
                if taken and cell_type != ITEM:
                    begin = state[FILL]
                    if begin + keys.stops[key] - keys.starts[key] + 24 + size - i + WIDE > len(whole):
                        return ROOM, i
                    high, before = _item_name(whole, key, keys, item, begin), keys.counts[0]
                    k = find_key(whole, begin, high, keys, columns, meaning)
                    if k < 0:
                        return ROOM, i
                    if k == before:
                        state[FILL] = high
            is_id = depth == 0 and key == keys.id
            if is_id:
                out.ids[row, 0], out.ids[row, 1] = start, stop
            names = state[NAMED]
            if taken:
                if role in (LABEL, WEIGHT):
                    verdict = take_target(whole, cell_type, value, start, stop, role, labels, out, state)
                else:
                    verdict = take_cell(whole, cell_type, value, start, stop, k, columns, meaning, features, state)
                if verdict != FINE:
                    return verdict, first
            if not is_id and state[NAMED] == names and role != TEXT and cell_type in (STRING, ITEM):
                state[FILL] = start
        i = blanks(text, i)
        if i >= size:
            return LEFT, i
        if in_list:
            if text[i] == _COMMA:
                item += 1
                i = blanks(text, i + 1)
                continue
            if text[i] != _CLOSE_LIST:
                return LEFT, i
            in_list, i = False, blanks(text, i + 1)
        while i < size and text[i] == _CLOSE:
            if depth == 0:
                return (FINE if _close(whole, keys, stamp, columns, meaning, features, state) else LEFT), i + 1
            depth, i = depth - 1, blanks(text, i + 1)
        if i >= size or text[i] != _COMMA:
            return LEFT, i
        i = blanks(text, i + 1)


_MODULES = ("cells", "crosses", "text.hashing", "text.characters")


@compiled(*(f"thinstream.data.{name}" for name in _MODULES))
def parse(
    whole: Any,
    size: Any,
    keys: Any,
    columns: Any,
    labels: Any,
    meaning: Any,
    out: Any,
    features: Any,
    state: Any,
) -> Any:
    """Parse ``whole[:size]`` from the position in the state; return verdict, offset and end of the first bad line.

    Strings and names of new keys are written to the end of the used text.
    """
    text, prefixes = whole[:size], np.empty((_DEEPEST, 2), np.int64)
    while state[AT_BYTE] < size:
        begin = state[AT_BYTE]
        i = blanks(text, begin)
        if i >= size or text[i] == _NEWLINE:
            state[AT_BYTE] = i + 1
            continue
        row, nnz, texts, names = state[ROWS], state[NNZ], state[TEXTS], state[NAMED]
        out.labels[row], out.weights[row] = np.nan, 1.0
        if len(out.ids) > 0:
            out.ids[row, 0], out.ids[row, 1] = 0, 0
        verdict, end = LEFT, i
        if text[i] == _OPEN:
            verdict, end = _record(whole, size, i, prefixes, keys, columns, labels, meaning, out, features, state)
        if verdict == FINE:
            end = blanks(text, end)
            if end < size and text[end] != _NEWLINE:
                verdict = LEFT
        if verdict != FINE:
            roll_back(features, state, nnz, texts, names)
            return verdict, end, min(line_end(text, i) + 1, size)
        out.starts[row], out.ends[row] = begin, min(end + 1, size)
        state[ROWS] = row + 1
        out.indptr[row + 1], out.upto[row + 1] = state[NNZ], state[TEXTS]
        state[AT_BYTE] = end + 1
    return FINE, size, size


@compiled(*(f"thinstream.data.{name}" for name in _MODULES))
def find_keys(whole: Any, ends: Any, start: Any, keys: Any, columns: Any, meaning: Any, numbers: Any) -> Any:
    """Find the numbers of keys whose names are concatenated in the text; return whether there was room."""
    for k in range(len(ends)):
        numbers[k] = find_key(whole, start, ends[k], keys, columns, meaning)
        start = ends[k]
        if numbers[k] < 0:
            return False
    return True


# Parse lines in Python, for those that the compiled parser does not support.

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')


class Refused(Exception):
    """Raised for a line that is not a valid row, with the offset in the line if it is known."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.message, self.offset = message, offset


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        raise Refused(f"a key may occur only once in an object, got {shown(twice)} twice")
    return entries


def _constant(name: str) -> NoReturn:
    raise Refused(f"numbers must be finite, got {name}", -1)


# integers are parsed as doubles, which have no limit on digits
DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=float, parse_constant=_constant)
EXACT_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Written, parse_float=Written, parse_constant=_constant
)


def as_written(value: Any) -> str:
    """Return a value as an id: a string without quotes, anything else as in JSON."""
    if isinstance(value, str):
        return value
    return value.text if isinstance(value, Written) else json.dumps(value)


def decoded_line(line: bytes, decoder: json.JSONDecoder) -> dict[str, Any]:
    """Parse the object of a line."""
    try:
        document = line.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"a line must be UTF-8, got byte {line[error.start]:#04x}", error.start) from None
    try:
        entries = decoder.decode(document)
    except json.JSONDecodeError as error:
        offset = len(document[: error.pos].encode())
        word = given_at(np.frombuffer(line, np.uint8), offset)
        raise Refused(f"a line must be one JSON object: {error.msg}, got {word}", offset) from None
    except Refused as refused:
        if refused.offset < 0:
            start = next(match.start() for match in _CONSTANT.finditer(document) if match[1])
            refused.offset = len(document[:start].encode())
        raise
    if not isinstance(entries, dict):
        raise Refused(f"a line must be one JSON object, got {shown(entries)}")
    return entries


# JSON Lines: one object per line. Keys are columns, and names are hashed.
#
#     {"label": 1, "age": 31, "city": "Oslo", "tags": ["a", "b"], "size": [2, 0.5], "user": {"paid": true}}
#
# `thinstream.data.cells` defines the features of a value. Lists hold numbers (``key[0]``, ``key[1]``, …) or strings
# (each is ``key=string``). Keys of nested objects are joined with dots (``user.paid``). Keys may be declared like CSV
# columns.


@dataclass(kw_only=True)
class JSONLines(ColumnFormat):
    r"""JSON Lines. Keys are columns; those of nested objects are joined with dots. A label may be true or false.

    Parameters
    ----------
    labels : bool
        Whether every record must have the key of the label. The value null means no label.

    Examples
    --------
    >>> from thinstream.data.text.hashing import Hashing
    >>> form = JSONLines(text=["subject"], classes=("ham", "spam"), hashing=Hashing(bits=10))
    >>> line = b'{"label": "spam", "subject": "free, FREE offer", "size": 2.5, "to": ["joe", "ann"]}\n'
    >>> parsed = form.parse(np.frombuffer(line, np.uint8))
    >>> parsed.labels, parsed.values
    (array([1.]), array([1. , 2. , 1. , 1. , 2.5], dtype=float32))

    """

    labels: bool = False
    met: set[str] = field(default_factory=set, init=False, repr=False, compare=False)
    without_id: list[str] = field(default_factory=list, init=False, repr=False, compare=False)  # keys of a record
    strange: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)
    strayed: set[str] = field(default_factory=set, init=False, repr=False, compare=False)  # numeric keys that had words

    def __post_init__(self) -> None:
        super().__post_init__()
        self._roles = self._role_of_names()
        self.required = [name for name in self.columns if self._roles[name] in FEATURE_ROLES]
        self.required = [name for name in self.required if self._roles[name] != TEXT]
        # ids are looked up like keys with a role
        self._known = self._roles | ({} if self.id is None or self.id in self._roles else {self.id: AUTO})
        self._columns = Columns.of(self._known, self.hashing, self.crosses)
        self._names, self._name_ends = encode_names([*self._known])
        watched = {*self.columns, *self.text, *self.ignore}  # those of `unmet_columns` and `unmet`
        self._watched = np.array([k for k, name in enumerate(self._roles) if name in watched], np.int64)
        self._tables: dict[int, NDArray[np.int64]] = {}  # hash tables of the keys, by size
        self._labels = Labels.of(self.classes)
        self._classes_met: list[Any] = []  # classes so far if they grow, added by any thread

    def _role_of_names(self) -> dict[str, int]:
        """Return the roles of declared keys, and of required columns."""
        roles: dict[str, int] = {}
        for role, code in ROLES.items():
            names = self.roles[role]
            roles |= dict.fromkeys([names] if isinstance(names, str) else names or (), code)
        if "numeric" in (self.inferred or ()):
            roles |= dict.fromkeys(self.numeric, FOUND_NUMERIC)
        return dict.fromkeys(self.columns, AUTO) | roles

    @property
    def feature_columns(self) -> list[str]:
        """Feature keys, if all are known, and unknown keys that occurred."""
        features = [name for name in self.columns if self._roles[name] in FEATURE_ROLES]
        return [*features, *self.strange] if self.columns else []

    @property
    def unmet_columns(self) -> list[str]:
        """Required columns that no row had so far."""
        return [name for name in self.columns if name not in self.met]

    @property
    def unmet(self) -> list[str]:
        """Keys declared as text or ignored that no row had so far."""
        return sorted({*self.text, *self.ignore} - self.met)

    def parse(self, text: Text) -> Parsed:
        text, room, reader = plain(text), 1, None
        while reader is None or not reader.read():
            reader = _Reader(self, text, room, self._columns, self._known)
            room *= 8
        names, first = reader.names(), len(self._known)
        self.met.update(names[k] for k in self._watched[reader.keys.stamps[self._watched] > 0].tolist())
        if self.columns and len(self.strange) < STRANGE:
            used = zip(names[first:], reader.keys.used[first:], strict=False)
            self.strange.update(dict.fromkeys([name for name, there in used if there][:STRANGE]))
        self.strayed.update(names[k] for k in np.flatnonzero(reader.columns.flags[: len(names), HEADS]).tolist())
        return self.finished(
            text,
            reader.whole,
            reader.meaning,
            reader.out,
            reader.features,
            reader.state,
            names,
            reader.error,
            reader.row_ids(),
            reader.met,
        )

    def _table_of_keys(self, size: int) -> NDArray[np.int64]:
        """Return the hash table of the known keys, computed once per size."""
        if size not in self._tables:
            self._tables[size] = _hash_table(self._columns.codes[:, 0].tolist(), size)
        return self._tables[size]

    def labels_in(self, text: Text) -> tuple[NDArray[np.float64], list[Any], int, bool]:
        """Return positions of labels up to the first bad row, all labels, bytes used, and whether a row was bad."""
        parsed = self.parse(text)
        return parsed.labels, parsed.met or [], parsed.taken, parsed.error is not None

    def id_of(self, record: Text) -> str:
        """Return the id of a bad record, if it is an object."""
        try:
            entries = {} if self.id is None else decoded_line(bytes(record).strip(), EXACT_DECODER)
        except (Refused, RecursionError):
            entries = {}
        return as_written(entries[self.id]) if self.id in entries else ""

    def require_label(self, entries: dict[str, Any]) -> None:
        """Raise if an object must have a label and has none."""
        if self.labels and self.label is not None and self.label not in entries:
            raise Refused(
                f"a record must have its label under the key {shown(self.label)}, which is missing; "
                f"{meant(self.label, [*entries][:20])} (choose the key with label= or --label)"
            )

    def problem(self, verdict: int, name: str, value: str) -> str:
        """Describe a problem with a value."""
        if verdict != BAD_LABEL:
            return super().problem(verdict, name, value)
        if self.classes is None:
            return f"a label must be a finite number, true or false ({TEXT_LABELS}), got {value}"
        *others, last = map(shown, self.classes)
        return f"a label must be {', '.join(others)} or {last}{self.how_classes_are_known}, got {value}"


#: The most unknown keys that are collected.
STRANGE = 8
#: Initial room for keys of a small piece of text, and for bytes of names.
_KEYS, _NAMES = 64, 1 << 12


class _Reader:
    """Parses a piece of text."""

    def __init__(self, form: JSONLines, text: Text, room: int, columns: Columns, roles: dict[str, int]) -> None:
        self.form, self.text, size = form, text, len(text)
        lines = int(np.count_nonzero(text == 10)) + 1
        most = size // 2 + 2 + len(form.required) * lines  # a feature or text needs at least two characters
        rows = min(lines, size // 2 + 1) + 1
        self.out = Out.empty(rows, form.id is not None)
        more = size + len(form._names) + room * _NAMES
        room_for_text = form.begin_text(text, more, most, most if form.text else 0)
        self.whole, self.meaning, self.features, self.state = room_for_text
        first, begin = len(roles), int(self.state[FILL])
        self.whole[begin : begin + len(form._names)] = np.frombuffer(form._names, np.uint8)
        self.state[FILL] += len(form._names)
        cap = first + room * max(min(size // 8, 16 * _KEYS), _KEYS)
        order = [*roles]
        self.columns = Columns._make(_wider(array, cap) for array in columns)
        begins = np.concatenate([[0], form._name_ends[:-1]]) + begin if first else form._name_ends
        self.keys = Keys(
            _wider(begins, cap),
            _wider(form._name_ends + begin, cap),
            form._table_of_keys(2 << cap.bit_length()).copy(),
            np.zeros(cap, np.int64),
            np.full(min(cap, 1 << 12), -1, np.int64),
            np.zeros(cap, np.bool_),
            np.array([first, 0], np.int64),
            np.array([order.index(name) for name in form.required], np.int64),
            order.index(form.label) if form.labels and form.label is not None else -1,
            -1 if form.id is None else order.index(form.id),
            form.crosses.patterns(),
        )
        self.met: list[Any] | None = list(form._classes_met) if form.grow_classes else None
        self.labels = form._labels if self.met is None else Labels.of(self.met, exact=True)
        self.error: tuple[ParseError, int] | None = None

    def read(self) -> bool:
        """Parse rows up to the first bad line; return False if there was not enough room for names."""
        how = self.columns, self.labels, self.meaning, self.out, self.features, self.state
        while True:
            verdict, _offset, end = map(int, parse(self.whole, len(self.text), self.keys, *how))
            if verdict in (FINE, ROOM):
                return verdict == FINE
            begin = int(self.state[AT_BYTE])
            try:
                if not self._read_line(begin, end):
                    return False
            except RecursionError:
                self._stop(begin, end, "a line must be one JSON object, got one that is nested too deeply")
                return True
            except Refused as refused:
                line = bytes(self.text[begin:end])
                offset = refused.offset or len(line) - len(line.lstrip(b" \t\r"))
                self._stop(begin + offset, end, refused.message)
                return True
            how = self.columns, self.labels, self.meaning, self.out, self.features, self.state

    def _stop(self, offset: int, end: int, message: str) -> None:
        self.error = ParseError(offset, message), end

    def _read_line(self, begin: int, end: int) -> bool:
        """Parse a line in Python; return False if there was not enough room."""
        form, keys = self.form, self.keys
        line = bytes(self.text[begin:end]).removesuffix(b"\n")
        entries = decoded_line(line, EXACT_DECODER if form.id is not None or form.categorical else DECODER)
        form.require_label(entries)
        if self.met is not None and form.label in entries:
            self._meet(entries[form.label])
        builder = CellBuilder(form._roles)
        try:
            builder.take_row(entries)
        except Unreadable as error:
            raise Refused(str(error)) from None
        for name in form.required:
            if name not in builder.met:
                builder.put(name, NULL)
        builder.ends = [len(builder.columns)]
        row_id = as_written(entries.get(form.id, "")) if form.id is not None else ""
        others = [name for name in builder.met if name not in builder.numbers]
        names, name_ends = encode_names([*builder.names, *others])
        words, cells = builder.built()
        fill, row = int(self.state[FILL]), int(self.state[ROWS])
        identity = np.frombuffer(row_id.encode("utf-8", "surrogatepass"), np.uint8)
        after = fill + len(names) + len(words) + len(identity)
        if after + len(self.text) - begin > len(self.whole):
            return False
        self.whole[fill:after] = np.concatenate([np.frombuffer(names, np.uint8), words, identity])
        numbers = np.empty(len(name_ends), np.int64)
        if not find_keys(self.whole, name_ends + fill, fill, keys, self.columns, self.meaning, numbers):
            return False
        keys.counts[1] += 1
        is_met = np.array([name in builder.met for name in (*builder.names, *others)], np.bool_)
        keys.stamps[numbers[is_met]], keys.used[numbers] = keys.counts[1], True
        behind = fill + len(names)
        words_of = np.array(builder.with_words, np.int64)
        cells.starts[words_of] += behind
        cells.stops[words_of] += behind
        cells = cells._replace(columns=numbers[cells.columns])
        self.state[FILL] = after
        verdict, at = map(
            int,
            take_cells(self.whole, cells, self.columns, self.labels, self.meaning, self.out, self.features, self.state),
        )
        if verdict != FINE:
            name = builder.names[builder.columns[at]]
            raise Refused(form.problem(verdict, name, _given(entries, name)))
        self.out.starts[row], self.out.ends[row] = begin, end
        if len(self.out.ids):
            self.out.ids[row] = after - len(identity), after, 0
        self.state[AT_BYTE] = end
        return True

    def _meet(self, label: Any) -> None:
        """Add a label to the classes."""
        assert self.met is not None
        if not isinstance(label, str | bool | float) or label in (np.inf, -np.inf):
            return
        value = label_of(label) if isinstance(label, float) else label
        for labels in (self.met, self.form._classes_met):
            if not any(type(other) is type(value) and other == value for other in labels):
                labels.append(value)
        self.labels = Labels.of(self.met, exact=True)

    def names(self) -> list[str]:
        """Return the names of all columns."""
        keys, count = self.keys, int(self.keys.counts[0])
        first = len(self.form._known)
        if first == count:
            return [*self.form._known]
        spans = np.stack([keys.starts[first:count], keys.stops[first:count]], axis=1)
        return [*self.form._known, *texts_at(self.whole, spans, "surrogatepass")]

    def row_ids(self) -> list[str] | None:
        """Return the ids of rows."""
        if self.form.id is None:
            return None
        spans = np.ascontiguousarray(self.out.ids[: int(self.state[ROWS]), :2])
        ids = texts_at(self.whole, spans, "surrogatepass")
        if "" in ids and not self.form.without_id:
            row = ids.index("")
            line = bytes(self.text[self.out.starts[row] : self.out.ends[row]])
            self.form.without_id.extend([*decoded_line(line.strip(), DECODER)][:20])
        return ids


def _given(entries: dict[str, Any], name: str) -> str:
    """Return the value of a name for a message; null if the object does not have it."""
    value: Any = entries
    for part in [name] if name in entries else name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return shown(value)


def _wider(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the array padded with zeros."""
    wide = np.zeros((size, *array.shape[1:]), array.dtype)
    wide[: len(array)] = array
    return wide


def _hash_table(hashes: list[int], size: int) -> NDArray[np.int64]:
    """Return a table from hashes to positions of keys, which start at 1."""
    slots = np.zeros(size, np.int64)
    for k, code in enumerate(hashes):
        slot = code % size
        while slots[slot]:
            slot = (slot + 1) % size
        slots[slot] = k + 1
    return slots
