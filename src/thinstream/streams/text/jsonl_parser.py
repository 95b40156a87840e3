"""JSON Lines, compiled: objects of strings, numbers, true, false and null, a line each.

Any line that is not such an object, or whose keys, label or weight need a closer look, is left to Python as a whole (a
run of column −1): it alone knows what is wrong with a line, and what nested values mean. So there are no verdicts.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.streams.text.csv_cells import AS_IS, AT, DAY, INDICATOR, REFUSED, date_at, read, says_nothing
from thinstream.streams.text.dates import PARTS
from thinstream.streams.text.decimal import number
from thinstream.streams.text.hashing import absorbed, finished, murmur, signed_by, stirred
from thinstream.streams.text.jsonl_values import (
    FALSE,
    NULL,
    NUMBER,
    STRING,
    TRUE,
    blanks,
    key_end,
    number_end,
    same_text,
    spelled,
    string,
)
from thinstream.streams.text.vectors import line_end

# What a key is: one found to be numeric may hold words, one declared so may not.
FEATURE, TEXT, IGNORED, LABEL, WEIGHT, NUMERIC, FOUND_NUMERIC, CATEGORICAL, DATE = range(9)
#: Keys that are not known, of which a piece tells the place of the first.
STRANGE = 8
_NEWLINE, _QUOTE, _COMMA, _COLON, _OPEN, _CLOSE, _MINUS, _EQUALS = 10, 34, 44, 58, 123, 125, 45, 61
#: Keys of an object, as a power of two: one with half as many is left to Python.
_KEYS = 1 << 14
_ONE, _EIGHT, _WORD, _LOW = np.uint64(1), np.uint64(8), np.uint64(32), np.uint64(2**32 - 1)
#: The category of what says nothing, and the days of the week.
_SIGN = np.frombuffer(bytearray(b"?"), np.uint8)
_DAYS = np.frombuffer(bytearray(b"MonTueWedThuFriSatSun"), np.uint8)
#: What stands between the key and the name of a part of a date.
_PARTS = np.frombuffer(bytearray("".join(f".{part}=" for part in PARTS).encode()), np.uint8)
_PART_ENDS = np.cumsum([0, *(len(part) + 2 for part in PARTS)])


class Keys(NamedTuple):
    """Keys that have a role, and the labels there are: numbers, or (where that is NaN) texts; none: any number."""

    hashes: NDArray[np.uint64]
    text: NDArray[np.uint8]
    ends: NDArray[np.int64]
    roles: NDArray[np.int64]
    columns: NDArray[np.int64]  # of texts and dates: which of them
    slots: NDArray[np.int64]  # of a table by hash: which key, from 1 on
    required: NDArray[np.bool_]  # whether every row has it: one that is not there says nothing
    absent: NDArray[np.uint64]  # the hash of its category ?
    parts: NDArray[np.uint64]  # of dates, the hashes of the namespaces of their parts
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
    known: bool  # whether keys that have no role are strange


@scalar
def _place(text: Any, start: Any, stop: Any, code: Any, keys: Any) -> Any:
    """Which of the keys with a role it is, or −1."""
    size = len(keys.slots)
    slot = np.int64(code) & size - 1
    while size > 0 and keys.slots[slot] > 0:
        k = keys.slots[slot] - 1
        low = keys.ends[k - 1] if k > 0 else np.int64(0)
        if keys.hashes[k] == code and same_text(text, start, stop, keys.text, low, keys.ends[k]):
            return k
        slot = slot + 1 & size - 1
    return np.int64(-1)


@scalar
def _note(text: Any, start: Any, stop: Any, strange: Any) -> None:
    """One more key that is not known, unless it was met before."""
    count = strange[0, 0]
    for k in range(1, count + 1):
        if same_text(text, start, stop, text, strange[k, 0], strange[k, 1]):
            return
    if count < STRANGE:
        strange[0, 0] = count + 1
        strange[count + 1, 0], strange[count + 1, 1] = start, stop


@scalar
def _put(out: Any, nnz: Any, code: Any, asked: Any, value: Any) -> Any:
    """One more feature; how many there are then."""
    out.indices[nnz] = np.int64(code & asked.mask)
    out.values[nnz] = signed_by(code, asked.signed, value)
    return nnz + 1


@scalar
def _copy(text: Any, start: Any, stop: Any, bag: Any, fill: Any) -> Any:
    for k in range(start, stop):
        bag[fill] = text[k]
        fill += 1
    return fill


@scalar
def _spell(
    spans: Any, k: Any, bag: Any, fill: Any, text: Any, key: Any, stop: Any, name: Any, low: Any, high: Any
) -> Any:
    """Puts down a category's name, ``key=name``, or with no bytes of a name that of a number; where the bag ends then.

    Only where there is room for spans: else nobody wants to know.
    """
    if len(spans) == 0:
        return fill
    begin, fill = fill, _copy(text, key, stop, bag, fill)
    if low < 0:
        spans[k, 0], spans[k, 1], spans[k, 2], spans[k, 3] = begin, begin, begin, fill
        return fill
    bag[fill] = _EQUALS
    middle = fill + 1
    fill = _copy(name, low, high, bag, middle)
    spans[k, 0], spans[k, 1], spans[k, 2], spans[k, 3] = begin, middle, middle, fill
    return fill


@scalar
def _spell_part(spans: Any, k: Any, bag: Any, fill: Any, text: Any, key: Any, stop: Any, part: Any, name: Any) -> Any:
    """The same of a part of a date, ``key.part=name``; the name is (text, start, stop)."""
    if len(spans) == 0:
        return fill
    begin, fill = fill, _copy(text, key, stop, bag, fill)
    fill = _copy(_PARTS, _PART_ENDS[part], _PART_ENDS[part + 1], bag, fill)
    middle = fill
    fill = _copy(name[0], name[1], name[2], bag, fill)
    spans[k, 0], spans[k, 1], spans[k, 2], spans[k, 3] = begin, middle, middle, fill
    return fill


@scalar
def _closed(keys: Any, asked: Any, met: Any, stamp: Any, out: Any, spans: Any, nnz: Any, bag: Any, fill: Any) -> Any:
    """Features with those of the keys that are not there and should be (−1: that is an error), and the bag's end."""
    for k in range(len(keys.required)):
        if keys.required[k] and met[k] != stamp:
            if asked.missing == REFUSED:
                return np.int64(-1), fill
            if asked.missing == INDICATOR:
                low = keys.ends[k - 1] if k > 0 else np.int64(0)
                fill = _spell(spans, nnz, bag, fill, keys.text, low, keys.ends[k], _SIGN, 0, 1)
                nnz = _put(out, nnz, keys.absent[k], asked, 1.0)
    return nnz, fill


@scalar
def _category(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The hash of a key and an equals sign: the namespace of its categories."""
    low = np.uint64(seed) & _LOW
    found = _with_equals(text, start, stop, low)
    if seed > _LOW:
        found |= max(_with_equals(text, start, stop, seed >> _WORD), _ONE) << _WORD
    return found


@scalar
def _with_equals(text: Any, start: Any, stop: Any, seed: Any) -> Any:
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
    if kind == NULL:
        return True, np.nan
    if count == 0:
        if kind in (TRUE, FALSE):
            return True, 1.0 if kind == TRUE else -1.0
        return kind == NUMBER, value
    for k in range(count):
        low, high = (0 if k == 0 else keys.label_ends[k - 1]), keys.label_ends[k]
        if np.isnan(keys.values[k]):
            same = kind == STRING and same_text(bag, start, stop, keys.label_text, low, high)
        else:
            same = kind == NUMBER and value == keys.values[k]
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
    strange: Any,
    bag: Any,
    out: Any,
    spans: Any,
    runs: Any,
    filled: Any,
) -> Any:
    """(end of the object that begins behind i, label, weight, features, runs, bytes in the bag); end 0: for Python."""
    nnz, texts, fill = filled
    label, weight, labelled, count = np.nan, 1.0, not asked.labelled, 0
    bad = 0, label, weight, nnz, texts, fill
    i = blanks(text, i + 1)
    if i < len(text) and text[i] == _CLOSE:
        nnz, fill = _closed(keys, asked, met, stamp, out, spans, nnz, bag, fill)
        return (i + 1 if labelled and nnz >= 0 else 0), label, weight, nnz, texts, fill
    while True:
        if i >= len(text) or text[i] != _QUOTE:
            return bad
        key = i + 1
        stop = key_end(text, key)
        if stop < 0:
            return bad
        code = murmur(text, key, stop, asked.bare)
        count += 1
        slot, mark = np.int64(code) & _KEYS - 1, np.int64(stamp) << 32 | np.int64(code & _LOW)
        while seen[slot] >> 32 == stamp and seen[slot] != mark:
            slot = slot + 1 & _KEYS - 1
        if seen[slot] == mark or count > _KEYS // 2:
            return bad
        seen[slot] = mark
        role, column, k = np.int64(FEATURE), np.int64(0), _place(text, key, stop, code, keys)
        if k >= 0:
            role, column = keys.roles[k], keys.columns[k]
            met[k] = stamp
        elif asked.known:
            _note(text, key, stop, strange)
        i = blanks(text, stop + 1)
        if i >= len(text) or text[i] != _COLON:
            return bad
        i = blanks(text, i + 1)
        if i >= len(text):
            return bad
        start, value, first, kept = fill, 0.0, i, fill
        if text[i] == _QUOTE:
            kind = STRING
            i, fill = string(text, i + 1, bag, fill)
            if i == 0:
                return bad
        elif text[i] == _MINUS or 48 <= text[i] <= 57:
            kind, end = NUMBER, number_end(text, i)
            if end == i:
                return bad
            value, _ = number(text, i, end)
            if not abs(value) < np.inf:
                return bad
            i = end
        else:
            kind, i = spelled(text, i)
            if kind < 0:
                return bad
        if role == TEXT:
            if kind == STRING:
                runs.places[texts], runs.columns[texts] = nnz, column
                runs.starts[texts], runs.stops[texts] = start, fill
                texts += 1
                kept = fill
            elif kind != NULL and kind != FALSE:
                return bad
        elif role == LABEL:
            known, label = _label(keys, kind, value, bag, start, fill)
            labelled = True
            if not known:
                return bad
        elif role == WEIGHT:
            if not ((kind == NUMBER and value >= 0) or kind == NULL):
                return bad
            weight = value if kind == NUMBER else 1.0
        elif role != IGNORED and (
            kind == NULL
            or (
                kind == STRING
                and (asked.missing != AS_IS or role in (NUMERIC, DATE))
                and says_nothing(bag, start, fill)
            )
        ):
            if asked.missing == REFUSED:
                return bad
            if asked.missing == INDICATOR:
                kept = _spell(spans, nnz, bag, kept, text, key, stop, _SIGN, 0, 1)
                nnz = _put(out, nnz, murmur(_SIGN, 0, 1, _category(text, key, stop, asked.seed)), asked, 1.0)
        elif role == DATE:
            found, day = date_at(bag, start, fill) if kind == STRING else (0, 0)
            if found == 0:
                return bad
            kept = fill
            for part in range(5):
                if part == 3 and found == DAY:  # no time, no hour
                    continue
                seed = keys.parts[part, column]
                if part == 4:
                    code, name = murmur(_DAYS, 3 * day, 3 * day + 3, seed), (_DAYS, 3 * day, 3 * day + 3)
                else:
                    name = (bag, start + AT[part, 0], start + AT[part, 1])
                    code = murmur(bag, name[1], name[2], seed)
                kept = _spell_part(spans, nnz, bag, kept, text, key, stop, part, name)
                nnz = _put(out, nnz, code, asked, 1.0)
        elif role == CATEGORICAL and kind == NUMBER:
            kept = _spell(spans, nnz, bag, kept, text, key, stop, text, first, i)
            nnz = _put(out, nnz, murmur(text, first, i, _category(text, key, stop, asked.seed)), asked, 1.0)
        elif role == CATEGORICAL and kind != STRING:
            return bad
        elif role != IGNORED and kind != FALSE:
            if kind == STRING and role == NUMERIC:
                value, known = read(bag, start, fill)
                if not known:
                    return bad
            elif kind == STRING:
                if role == FOUND_NUMERIC:
                    return bad
                code, value = murmur(bag, start, fill, _category(text, key, stop, asked.seed)), 1.0
            elif kind == TRUE:
                value = 1.0
            if value != 0.0:
                category = kind == STRING and role != NUMERIC
                low = start if category else np.int64(-1)
                kept = _spell(spans, nnz, bag, fill, text, key, stop, bag, low, fill)
                nnz = _put(out, nnz, code, asked, value)
        fill = kept if len(spans) > 0 or role == TEXT else start  # what is no text is not kept, but for names
        i = blanks(text, i)
        if i >= len(text):
            return bad
        if text[i] == _CLOSE:
            nnz, fill = _closed(keys, asked, met, stamp, out, spans, nnz, bag, fill)
            return (i + 1 if labelled and nnz >= 0 else 0), label, weight, nnz, texts, fill
        if text[i] != _COMMA:
            return bad
        i = blanks(text, i + 1)


_MODULES = ("csv_cells", "decimal", "digits", "hashing", "jsonl_values", "letters", "vectors")


@compiled(*(f"thinstream.streams.text.{name}" for name in _MODULES))
def parse(
    text: Any, keys: Any, asked: Any, met: Any, strange: Any, bag: Any, out: Any, spans: Any, runs: Any, upto: Any
) -> Any:
    """(rows, runs, bytes in the bag): runs are texts in the bag or (column −1) whole lines, rows lack their features.

    A line's run begins at the number of its row; ``upto`` has how many runs there are up to the end of each row,
    ``met`` in which row (from 1 on) each key was met last, ``strange`` how many keys had no role and where they are.
    ``spans`` takes the places of names in the bag, if there is room.
    """
    begin, size, rows, nnz, count, fill = 0, len(text), 0, 0, 0, 0
    seen = np.zeros(_KEYS, np.int64)
    out.indptr[0], upto[0] = 0, 0
    while begin < size:
        i = blanks(text, begin)
        if i >= size or text[i] == _NEWLINE:
            begin = i + 1
            continue
        end, label, weight = 0, np.nan, 1.0
        if text[i] == _OPEN and not asked.nothing:
            filled = nnz, count, fill
            end, label, weight, more, texts, bytes_more = _object(
                text, i, rows + 1, keys, asked, seen, met, strange, bag, out, spans, runs, filled
            )
            if end > 0:
                end = blanks(text, end)
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
    return rows, count, fill
