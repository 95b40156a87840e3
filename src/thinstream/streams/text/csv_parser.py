"""CSV text to hashed features, compiled: RFC 4180 cells, one pass.

A quote counts only where a cell begins; elsewhere it is a character like any other. So where a record ends can be told
from where it begins, and `records` and `parse` never differ about it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.jit import compiled, scalar
from thinstream.streams.text.csv_cells import (
    AFTER_QUOTE,
    AS_IS,
    AT,
    FINE,
    INDICATOR,
    OPEN,
    REFUSED,
    blank_line,
    cell,
    date_at,
    is_infinite,
    plain_number,
    read,
    says_nothing,
    truth_at,
    undoubled,
)
from thinstream.streams.text.hashing import murmur, signed_by, turns_sign
from thinstream.streams.text.protocol import last_line_end
from thinstream.streams.text.vectors import find_either

# Kinds of columns.
AUTO, NUMERIC, CATEGORICAL, TEXT, IGNORED, LABEL, WEIGHT, DATE = range(8)
KINDS = {
    "label": LABEL,
    "weight": WEIGHT,
    "numeric": NUMERIC,
    "categorical": CATEGORICAL,
    "text": TEXT,
    "ignore": IGNORED,
    "dates": DATE,
}
# Verdicts on a piece of text.
COUNT, BAD_LABEL, BAD_WEIGHT, BAD_NUMBER, LIMIT, BAD_DATE, NO_VALUE, INFINITE = range(3, 11)
#: The longest record with a newline in quotes; a quote that is not closed before is taken for an error.
LONGEST = 1 << 24

_NEWLINE, _QUOTE = 10, 34
#: Bytes from cell to cell that `whole_records` may go back to.
_BACK = 1 << 12
#: What is spelled in no cell, and yet part of names: it is found behind the text.
BEHIND = b"MonTueWedThuFriSatSun?"
BEHIND_TEXT = np.frombuffer(bytearray(BEHIND), np.uint8)
_SIGN = len(BEHIND) - 1


class Columns(NamedTuple):
    """What is done with each column of a file, in the file's order."""

    kinds: NDArray[np.int64]
    hashes: NDArray[np.uint64]  # of the column as a number
    seeds: NDArray[np.uint64]  # of the namespace of its categories
    absent: NDArray[np.uint64]  # of the category ?
    parts: NDArray[np.uint64]  # of the namespaces of the parts of a date: year, month, day, hour, weekday


class Classes(NamedTuple):
    """The labels, negative and positive or more: numbers, or (where that is NaN) text. No ``ends``: any number."""

    values: NDArray[np.float64]
    text: NDArray[np.uint8]
    ends: NDArray[np.int64]


@scalar
def _label(text: Any, start: Any, stop: Any, value: Any, known: Any, classes: Any) -> Any:
    """(whether it is allowed, the label)."""
    if len(classes.ends) == 0:
        return known, value
    for k in range(len(classes.ends)):
        low, high = (0 if k == 0 else classes.ends[k - 1]), classes.ends[k]
        same = high - low == stop - start
        if not np.isnan(classes.values[k]):
            same = known and value == classes.values[k]
        else:
            for j in range(min(stop - start, high - low)):
                same = same and text[start + j] == classes.text[low + j]
        if same:
            return True, 2.0 * k - 1.0 if len(classes.ends) == 2 else 1.0 * k
    return False, 0.0


@scalar
def _put(
    out: Any,
    spans: Any,
    nnz: Any,
    hashed: Any,
    mask: Any,
    signed: Any,
    value: Any,
    code: Any,
    start: Any,
    stop: Any,
    doubled: Any,
) -> None:
    """One more feature."""
    out.indices[nnz] = np.int64(hashed & np.uint64(mask))
    out.values[nnz] = signed_by(hashed, signed, value)
    if len(spans) > 0:
        spans[nnz, 0], spans[nnz, 1], spans[nnz, 2], spans[nnz, 3] = code, start, stop, doubled
        spans[nnz, 4] = signed and turns_sign(hashed)


@compiled(*(f"thinstream.streams.text.{name}" for name in ("csv_cells", "decimal", "digits", "hashing", "vectors")))
def parse(
    text: Any,
    delimiter: Any,
    columns: Any,
    classes: Any,
    mask: Any,
    signed: Any,
    limit: Any,
    nothing: Any,
    out: Any,
    spans: Any,
    cells: Any,
) -> Any:
    """(verdict, offset of the bad cell, its column or the number of cells, end of its record, rows, cells of text).

    ``nothing`` is what a cell is that says nothing. Per feature, ``spans`` takes its column (c of a number,
    -1 - c of a category, columns · (part + 1) less of a part of a date), start, stop (behind the text: in `BEHIND`),
    whether quotes are doubled and whether its sign is turned, if there is room; ``cells`` takes the first four of each
    cell of text, after the number of features before it.
    """
    i, size, rows, nnz, texts, width = 0, len(text), 0, 0, 0, len(columns.kinds)
    out.indptr[0] = 0
    while i < size:
        begin, blank = i, blank_line(text, i)
        if blank > 0:
            i += blank
            continue
        verdict, offset, where, count = FINE, 0, 0, 0
        label, weight = np.nan, 1.0
        while True:
            kind = columns.kinds[count] if count < width and verdict == FINE else IGNORED
            quick = kind <= NUMERIC or (kind == LABEL and len(classes.ends) == 0)
            value, end, known = plain_number(text, i, delimiter) if quick else (0.0, i, False)
            if known and abs(value) <= limit:  # most cells of most tables
                if kind == LABEL:
                    label = value
                elif value != 0:
                    hashed = columns.hashes[count]
                    _put(out, spans, nnz, hashed, mask, signed, value, count, i, end, False)
                    nnz += 1
                count += 1
                i = min(end + 1, size)
                if end >= size or text[end] == _NEWLINE:
                    offset = end
                    break
                continue
            found, start, stop, doubled, end = cell(text, i, delimiter)
            if found == OPEN:
                return OPEN, i, count, size, rows, texts
            if found == AFTER_QUOTE and verdict == FINE:
                verdict, offset, where = AFTER_QUOTE, stop + 1, count
            if count == width and verdict != AFTER_QUOTE:
                offset = i
            count += 1
            if kind == TEXT:
                cells[texts, 0], cells[texts, 1], cells[texts, 2] = nnz, count - 1, start
                cells[texts, 3], cells[texts, 4] = stop, doubled
                texts += 1
            elif kind != IGNORED and (stop > start or kind < TEXT or kind == DATE):
                value, known = read(text, start, stop) if kind != CATEGORICAL and kind != DATE else (0.0, False)
                gone = not known and kind != LABEL and kind != WEIGHT
                if gone:
                    always = nothing != AS_IS or kind in (NUMERIC, DATE)
                    gone = stop == start or (always and says_nothing(text, start, stop))
                if kind == LABEL:
                    plain_text = undoubled(text, start, stop) if doubled else text[start:stop]
                    allowed, label = _label(plain_text, 0, len(plain_text), value, known, classes)
                    if not allowed:
                        verdict, offset, where = BAD_LABEL, i, count - 1
                elif kind == WEIGHT:
                    weight = value
                    if not known or value < 0:
                        verdict, offset, where = BAD_WEIGHT, i, count - 1
                elif gone:
                    if nothing == REFUSED:
                        verdict, offset, where = NO_VALUE, i, count - 1
                    elif nothing == INDICATOR:
                        start, stop = size + _SIGN, size + _SIGN + 1
                        _put(out, spans, nnz, columns.absent[count - 1], mask, signed, 1.0, -count, start, stop, False)
                        nnz += 1
                elif kind == NUMERIC and not known:
                    truth = truth_at(text, start, stop)
                    if truth < 0:
                        verdict, offset, where = BAD_NUMBER, i, count - 1
                    elif truth > 0:
                        _put(
                            out, spans, nnz, columns.hashes[count - 1], mask, signed, 1.0, count - 1, start, stop, False
                        )
                        nnz += 1
                elif kind == DATE:
                    found, day = date_at(text, start, stop)
                    if found == 0:
                        verdict, offset, where = BAD_DATE, i, count - 1
                    for part in range(0 if found == 0 else 5):
                        if part == 3 and found == 1:  # no time, no hour
                            continue
                        seed, code = columns.parts[part, count - 1], -count - width * (part + 1)
                        if part == 4:
                            hashed = murmur(BEHIND_TEXT, 3 * day, 3 * day + 3, seed)
                            low, high = size + 3 * day, size + 3 * day + 3
                        else:
                            low, high = start + AT[part, 0], start + AT[part, 1]
                            hashed = murmur(text, low, high, seed)
                        _put(out, spans, nnz, hashed, mask, signed, 1.0, code, low, high, False)
                        nnz += 1
                elif known and abs(value) > limit:
                    verdict, offset, where = LIMIT, i, count - 1
                elif nothing != AS_IS and not known and kind == AUTO and is_infinite(text, start, stop, value):
                    verdict, offset, where = INFINITE, i, count - 1
                elif not known or value != 0:
                    if known:
                        hashed = columns.hashes[count - 1]
                    else:
                        value = 1.0
                        if doubled:
                            bare = undoubled(text, start, stop)
                            hashed = murmur(bare, 0, len(bare), columns.seeds[count - 1])
                        else:
                            hashed = murmur(text, start, stop, columns.seeds[count - 1])
                    code = count - 1 if known else -count
                    _put(out, spans, nnz, hashed, mask, signed, value, code, start, stop, doubled)
                    nnz += 1
            i = min(end + 1, size)
            if end >= size or text[end] == _NEWLINE:
                if count < width and verdict != AFTER_QUOTE:
                    offset = end
                break
        if count != width and verdict != AFTER_QUOTE:
            verdict, where = COUNT, count
        if verdict != FINE:
            return verdict, offset, where, i, rows, texts
        out.labels[rows], out.weights[rows] = label, weight
        out.starts[rows], out.ends[rows] = begin, i
        rows += 1
        out.indptr[rows] = nnz
    return FINE, size, 0, size, rows, texts


@compiled("thinstream.streams.text.csv_cells", "thinstream.streams.text.vectors")
def _records(text: Any, delimiter: Any, start: Any) -> Any:
    """Where the last whole record ends, cell by cell from the one that begins at ``start``; 0: none does."""
    i, size, whole = start, len(text), 0
    while i < size:
        verdict, _, _, _, end = cell(text, i, delimiter)
        if verdict == OPEN and whole == 0 and start == 0 and size > LONGEST:
            return size
        if end >= size:
            break
        if text[end] == _NEWLINE:
            whole = end + 1
        i = end + 1
    return whole


@compiled("thinstream.streams.text.csv_cells", "thinstream.streams.text.vectors")
def _quoted(text: Any, delimiter: Any) -> Any:
    """(start, stop of what is behind the last cell in quotes, or before one that is open; where a cell before begins).

    It goes from quote to quote. The last number is of a cell some way back, for who needs to go cell by cell.
    """
    i, size, tail, back, next_back = 0, len(text), 0, 0, 0
    while True:
        at = find_either(text, i, _QUOTE, _QUOTE)
        if at >= size:
            return tail, size, back
        if at > 0 and text[at - 1] != delimiter and text[at - 1] != _NEWLINE:
            i = at + 1  # within a cell
            continue
        verdict, _, _, _, end = cell(text, at, delimiter)
        if verdict == OPEN:
            return tail, at, back
        tail, i = end, end + 1
        if end - next_back > _BACK:
            back, next_back = next_back, min(end + 1, size)


@compiled("thinstream.streams.text.csv_cells", "thinstream.streams.text.vectors")
def find_cells(text: Any, starts: Any, delimiter: Any, column: Any, out: Any) -> None:
    """(start, stop, whether quotes are doubled) of a column's cell in each of the whole records that begin there."""
    for row in range(len(starts)):
        i = starts[row]
        for _ in range(column):
            i = cell(text, i, delimiter)[4] + 1
        _, out[row, 0], out[row, 1], out[row, 2], _ = cell(text, i, delimiter)


def cell_of(text: NDArray[np.uint8], delimiter: int, column: int) -> tuple[int, int, int]:
    """The same of the first record, which may be a bad one; nothing where it has no such cell."""
    i = 0
    while blank := blank_line(text, i):
        i += blank
    while i < len(text):
        verdict, start, stop, doubled, end = cell(text, i, delimiter)
        if column == 0 and verdict != OPEN:
            return int(start), int(stop), int(doubled)
        if end >= len(text) or text[end] == _NEWLINE:
            break
        i, column = end + 1, column - 1
    return 0, 0, 0


def whole_records(text: NDArray[np.uint8], delimiter: int) -> int:
    """Bytes of the whole records at the head of the text; all of it if a quote is open for `LONGEST` bytes."""
    text = plain(text)
    start, stop, back = map(int, _quoted(text, delimiter))
    if end := last_line_end(text[start:stop]):
        return start + end
    return int(_records(text, delimiter, back)) or int(_records(text, delimiter, 0))
