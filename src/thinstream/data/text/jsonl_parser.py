"""The compiled parser of JSON Lines."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.data.cells import (
    AT_BYTE,
    AUTO,
    FALSE,
    FILL,
    FINE,
    HEADS,
    INDICATOR,
    ITEM,
    LABEL,
    NAMED,
    NNZ,
    NULL,
    NUMBER,
    REFUSED,
    ROWS,
    STRING,
    TEXT,
    TEXTS,
    TRUE,
    WEIGHT,
    put_missing,
    same_text,
    take_cell,
    take_target,
)
from thinstream.data.crosses import Patterns, slots_at
from thinstream.data.text.characters import WIDE, copy_string, decoded, encoded, first_of, fits, line_end, number
from thinstream.data.text.hashing import absorbed, finished, murmur, stirred
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
    columns.crossed[HEADS * k] = columns.crossed[HEADS * k + 1] = slots_at(text, start, stop, keys.patterns) != 0
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
            state[NNZ], state[TEXTS], state[NAMED] = nnz, texts, names
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
