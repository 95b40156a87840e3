"""JSON Lines, compiled: objects of strings, numbers, true, false and null, a line each.

Any line that is not such an object, or whose keys, label or weight need a closer look, is left to Python as a whole (a
run of column −1): it alone knows what is wrong with a line, and what nested values mean. So there are no verdicts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.streams.text.csv_cells import AS_IS, INDICATOR, REFUSED, says_nothing
from thinstream.streams.text.decimal import number
from thinstream.streams.text.hashing import absorbed, finished, murmur, signed_by, stirred
from thinstream.streams.text.letters import decoded, encoded
from thinstream.streams.text.vectors import WIDE, copy_string, first_of, fits, line_end

# What a key is.
FEATURE, TEXT, IGNORED, LABEL, WEIGHT = range(5)
_SPACE, _TAB, _NEWLINE, _RETURN, _QUOTE, _COMMA, _COLON, _BACKSLASH = 32, 9, 10, 13, 34, 44, 58, 92
_OPEN, _CLOSE = 123, 125
_MINUS, _PLUS, _POINT, _ZERO, _SMALL_E, _LARGE_E, _EQUALS = 45, 43, 46, 48, 101, 69, 61
# Kinds of values; below 0 none that is known here.
_STRING, _NUMBER, _TRUE, _FALSE, _NULL = range(5)
#: Keys of an object, as a power of two: one with half as many is left to Python.
_KEYS = 1 << 14
_EIGHT, _WORD = np.uint64(8), np.uint64(32)
#: What the letters behind a backslash stand for; u is not among them.
_ESCAPES = np.zeros(256, np.uint8)
for _letter, _meant in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meant


#: The category of what says nothing.
_SIGN = np.frombuffer(bytearray(b"?"), np.uint8)


class Keys(NamedTuple):
    """Keys that have a role, and the labels there are: numbers, or (where that is NaN) texts; none: any number."""

    hashes: NDArray[np.uint64]
    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    roles: NDArray[np.int64]
    columns: NDArray[np.int64]  # of texts: which of them
    values: NDArray[np.float64]
    label_text: NDArray[np.uint8]
    label_ends: NDArray[np.int64]


class Asked(NamedTuple):
    """What rows must have, and how names are hashed."""

    labelled: bool  # whether every row has a label
    nothing: bool  # whether all lines are left to Python
    bare: np.uint64  # the hash of the namespace "", the seed of numbers
    seed: np.uint64
    mask: np.uint64
    signed: bool
    missing: int  # what null is, and texts that say nothing


@scalar
def _blanks(text: Any, i: Any) -> Any:
    """Where the white space that begins at i ends; a newline is none."""
    while i < len(text) and (text[i] == _SPACE or text[i] == _TAB or text[i] == _RETURN):
        i += 1
    return i


@scalar
def _digits(text: Any, i: Any) -> Any:
    while i < len(text) and 48 <= text[i] <= 57:
        i += 1
    return i


@scalar
def _number_end(text: Any, i: Any) -> Any:
    """Where the number ends that begins at i, as JSON writes it; i if there is none."""
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
    """The number four hexadecimal digits write, or −1."""
    found = np.int64(0)
    for k in range(i, i + 4):
        c = np.int64(text[k]) if k < len(text) else np.int64(0)
        if 48 <= c <= 57:
            c -= 48
        elif 97 <= c | 32 <= 102:
            c = (c | 32) - 87
        else:
            return np.int64(-1)
        found = found << 4 | c
    return found


@scalar
def _string(text: Any, i: Any, bag: Any, fill: Any) -> Any:
    """(end, end in the bag) of the string that begins behind the quote before i; the end is 0 of one for Python."""
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
def _key_end(text: Any, i: Any) -> Any:
    """Where the key ends that begins at i; −1 of one for Python."""
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
def _same(text: Any, start: Any, stop: Any, other: Any, low: Any, high: Any) -> Any:
    same = high - low == stop - start
    for j in range(stop - start if same else 0):
        same = same and text[start + j] == other[low + j]
    return same


@scalar
def _spelled(text: Any, i: Any) -> Any:
    """(kind, end) of true, false or null at i."""
    left = len(text) - i
    if left >= 4 and text[i] == 116 and text[i + 1] == 114 and text[i + 2] == 117 and text[i + 3] == 101:
        return _TRUE, i + 4
    if left >= 4 and text[i] == 110 and text[i + 1] == 117 and text[i + 2] == 108 and text[i + 3] == 108:
        return _NULL, i + 4
    if left >= 5 and text[i] == 102 and text[i + 1] == 97 and text[i + 2] == 108 and text[i + 3] == 115:
        return (_FALSE if text[i + 4] == 101 else -1), i + 5
    return -1, i


@scalar
def _category(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The hash of a key and an equals sign: the namespace of its categories."""
    found, word, held = absorbed(text, start, stop, seed, np.uint64(0), np.uint64(0))
    word |= np.uint64(_EQUALS) << held
    held += _EIGHT
    if held == _WORD:
        found, word, held = stirred(found, word), np.uint64(0), np.uint64(0)
    return finished(found, word, held, stop - start + 1)


@scalar
def _label(keys: Any, kind: Any, value: Any, bag: Any, start: Any, stop: Any) -> Any:
    """(whether it is known, the label)."""
    count = len(keys.label_ends)
    if kind == _NULL:
        return True, np.nan
    if count == 0:
        if kind in (_TRUE, _FALSE):
            return True, 1.0 if kind == _TRUE else -1.0
        return kind == _NUMBER, value
    for k in range(count):
        low, high = (0 if k == 0 else keys.label_ends[k - 1]), keys.label_ends[k]
        if np.isnan(keys.values[k]):
            same = kind == _STRING and _same(bag, start, stop, keys.label_text, low, high)
        else:
            same = kind == _NUMBER and value == keys.values[k]
        if same:
            return True, 2.0 * k - 1.0 if count == 2 else 1.0 * k
    return False, 0.0


@scalar
def _object(
    text: Any,
    i: Any,
    stamp: Any,
    keys: Any,
    asked: Any,
    seen: Any,
    met: Any,
    bag: Any,
    out: Any,
    runs: Any,
    filled: Any,
) -> Any:
    """(end of the object that begins behind i, label, weight, features, runs, bytes in the bag); end 0: for Python."""
    nnz, texts, fill = filled
    label, weight, labelled, count = np.nan, 1.0, not asked.labelled, 0
    bad = 0, label, weight, nnz, texts, fill
    i = _blanks(text, i + 1)
    if i < len(text) and text[i] == _CLOSE:
        return (i + 1 if labelled else 0), label, weight, nnz, texts, fill
    while True:
        if i >= len(text) or text[i] != _QUOTE:
            return bad
        key = i + 1
        stop = _key_end(text, key)
        if stop < 0:
            return bad
        code = murmur(text, key, stop, asked.bare)
        count += 1
        slot, mark = np.int64(code) & _KEYS - 1, np.int64(stamp) << 32 | np.int64(code)
        while seen[slot] >> 32 == stamp and seen[slot] != mark:
            slot = slot + 1 & _KEYS - 1
        if seen[slot] == mark or count > _KEYS // 2:
            return bad
        seen[slot] = mark
        role, column = FEATURE, np.int64(0)
        for k in range(len(keys.hashes)):
            if keys.hashes[k] == code and _same(
                text, key, stop, keys.text, (0 if k == 0 else keys.ends[k - 1]), keys.ends[k]
            ):
                role, column = keys.roles[k], keys.columns[k]
                met[k] = True
        i = _blanks(text, stop + 1)
        if i >= len(text) or text[i] != _COLON:
            return bad
        i = _blanks(text, i + 1)
        if i >= len(text):
            return bad
        start, value = fill, 0.0
        if text[i] == _QUOTE:
            kind = _STRING
            i, fill = _string(text, i + 1, bag, fill)
            if i == 0:
                return bad
        elif text[i] == _MINUS or 48 <= text[i] <= 57:
            kind, end = _NUMBER, _number_end(text, i)
            if end == i:
                return bad
            value, _ = number(text, i, end)
            if not abs(value) < np.inf:
                return bad
            i = end
        else:
            kind, i = _spelled(text, i)
            if kind < 0:
                return bad
        if role == TEXT:
            if kind == _STRING:
                runs.places[texts], runs.columns[texts] = nnz, column
                runs.starts[texts], runs.stops[texts] = start, fill
                texts += 1
                start = fill
            elif kind != _NULL and kind != _FALSE:
                return bad
        elif role == LABEL:
            known, label = _label(keys, kind, value, bag, start, fill)
            labelled = True
            if not known:
                return bad
        elif role == WEIGHT:
            if not ((kind == _NUMBER and value >= 0) or kind == _NULL):
                return bad
            weight = value if kind == _NUMBER else 1.0
        elif role == FEATURE and (
            kind == _NULL or (kind == _STRING and asked.missing != AS_IS and says_nothing(bag, start, fill))
        ):
            if asked.missing == REFUSED:
                return bad
            if asked.missing == INDICATOR:
                code = murmur(_SIGN, 0, 1, _category(text, key, stop, asked.seed))
                out.indices[nnz] = np.int32(code & asked.mask)
                out.values[nnz] = signed_by(code, asked.signed, 1.0)
                nnz += 1
        elif role == FEATURE and kind != _FALSE:
            if kind == _STRING:
                code, value = murmur(bag, start, fill, _category(text, key, stop, asked.seed)), 1.0
            elif kind == _TRUE:
                value = 1.0
            if value != 0.0:
                out.indices[nnz] = np.int32(code & asked.mask)
                out.values[nnz] = signed_by(code, asked.signed, value)
                nnz += 1
        fill = start  # what is no text is not kept
        i = _blanks(text, i)
        if i >= len(text):
            return bad
        if text[i] == _CLOSE:
            return (i + 1 if labelled else 0), label, weight, nnz, texts, fill
        if text[i] != _COMMA:
            return bad
        i = _blanks(text, i + 1)


_MODULES = ("csv_cells", "decimal", "digits", "hashing", "letters", "vectors")


@compiled(*(f"thinstream.streams.text.{name}" for name in _MODULES))
def parse(text: Any, keys: Any, asked: Any, met: Any, bag: Any, out: Any, runs: Any, upto: Any) -> Any:
    """(rows, runs): rows without the features of their runs, which are texts in the bag or (column −1) whole lines.

    A line's run begins at the number of its row; ``upto`` has how many runs there are up to the end of each row.
    """
    begin, size, rows, nnz, count, fill = 0, len(text), 0, 0, 0, 0
    seen = np.zeros(_KEYS, np.int64)
    out.indptr[0], upto[0] = 0, 0
    while begin < size:
        i = _blanks(text, begin)
        if i >= size or text[i] == _NEWLINE:
            begin = i + 1
            continue
        end, label, weight = 0, np.nan, 1.0
        if text[i] == _OPEN and not asked.nothing:
            filled = nnz, count, fill
            end, label, weight, more, texts, bytes_more = _object(
                text, i, rows + 1, keys, asked, seen, met, bag, out, runs, filled
            )
            if end > 0:
                end = _blanks(text, end)
                end = end + 1 if end >= size or text[end] == _NEWLINE else 0
            if end > 0:
                nnz, count, fill = more, texts, bytes_more
        if end == 0:
            end = line_end(text, i)
            runs.places[count], runs.columns[count] = nnz, -1
            runs.starts[count], runs.stops[count] = rows, rows
            count, end = count + 1, end + 1
        out.labels[rows], out.weights[rows] = label, weight
        out.starts[rows], out.ends[rows] = begin, min(end, size)
        rows += 1
        out.indptr[rows], upto[rows] = nnz, count
        begin = end
    return rows, count
