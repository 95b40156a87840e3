"""CSV text to hashed features, compiled: RFC 4180 cells, one pass.

A quote counts only where a cell begins; elsewhere it is a character like any other. So where a record ends can be told
from where it begins, and `records` and `parse` never differ about it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.jit import compiled, scalar
from thinstream.streams.text.decimal import number
from thinstream.streams.text.hashing import murmur, signed_by, turns_sign

# Kinds of columns.
AUTO, NUMERIC, CATEGORICAL, TEXT, IGNORED, LABEL, WEIGHT = range(7)
KINDS = {
    "label": LABEL,
    "weight": WEIGHT,
    "numeric": NUMERIC,
    "categorical": CATEGORICAL,
    "text": TEXT,
    "ignore": IGNORED,
}
# Verdicts on a piece of text.
FINE, OPEN, AFTER_QUOTE, COUNT, BAD_LABEL, BAD_WEIGHT, BAD_NUMBER, LIMIT = range(8)
#: The longest record with a newline in quotes; a quote that is not closed before is taken for an error.
LONGEST = 1 << 24

_QUOTE, _NEWLINE, _RETURN, _BLANK = 34, 10, 13, 32
#: Words for no number, in columns declared numeric.
MISSING = ("NA", "N/A", "NaN", "nan", "null", "NULL")
_MISSING = np.array([list(word.encode().ljust(4)) for word in MISSING], np.uint8)
_MISSING_SIZES = np.array([len(word) for word in MISSING], np.int64)


class Columns(NamedTuple):
    """What is done with each column of a file, in the file's order."""

    kinds: NDArray[np.int64]
    hashes: NDArray[np.uint64]  # of the column as a number
    seeds: NDArray[np.uint64]  # of the namespace of its categories


class Classes(NamedTuple):
    """The labels, negative and positive or more: numbers, or (where that is NaN) text. No ``ends``: any number."""

    values: NDArray[np.float64]
    text: NDArray[np.uint8]
    ends: NDArray[np.int64]


@scalar
def cell(text: Any, i: Any, delimiter: Any) -> Any:
    """(verdict, start, stop, whether quotes are doubled, where what ends it is) of the cell that begins at i."""
    size = len(text)
    if i < size and text[i] == _QUOTE:
        at, doubled = i + 1, False
        while at < size:
            if text[at] == _QUOTE:
                if at + 1 >= size or text[at + 1] != _QUOTE:
                    break
                doubled = True
                at += 1
            at += 1
        if at >= size:
            return OPEN, i, size, doubled, size
        end = at + 1
        while end < size and text[end] != delimiter and text[end] != _NEWLINE:
            end += 1
        clean = end == at + 1 or (end == at + 2 and text[at + 1] == _RETURN and (end == size or text[end] == _NEWLINE))
        return (FINE if clean else AFTER_QUOTE), i + 1, at, doubled, end
    end = i
    while end < size and text[end] != delimiter and text[end] != _NEWLINE:
        end += 1
    stop = end
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
def _read(text: Any, start: Any, stop: Any) -> Any:
    """(value, whether the cell is a finite number, with blanks around it or not)."""
    while start < stop and text[start] == _BLANK:
        start += 1
    while stop > start and text[stop - 1] == _BLANK:
        stop -= 1
    value, end = number(text, start, stop)
    return value, end == stop and end > start and abs(value) < np.inf


@scalar
def _missing(text: Any, start: Any, stop: Any) -> Any:
    for k in range(len(_MISSING_SIZES)):
        if stop - start == _MISSING_SIZES[k]:
            same = True
            for j in range(stop - start):
                same = same and text[start + j] == _MISSING[k, j]
            if same:
                return True
    return False


@scalar
def _undoubled(text: Any, start: Any, stop: Any) -> Any:
    """A copy with one quote for two."""
    found, size = np.empty(stop - start, np.uint8), 0
    while start < stop:
        found[size] = text[start]
        size += 1
        start += 2 if text[start] == _QUOTE else 1
    return found[:size]


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


@compiled(*(f"thinstream.streams.text.{name}" for name in ("decimal", "digits", "hashing")))
def parse(
    text: Any,
    delimiter: Any,
    columns: Any,
    classes: Any,
    mask: Any,
    signed: Any,
    limit: Any,
    out: Any,
    spans: Any,
    cells: Any,
) -> Any:
    """(verdict, offset of the bad cell, its column or the number of cells, end of its record, rows, cells of text).

    Per feature, ``spans`` takes its column, start, stop, whether quotes are doubled and whether its sign is turned, if
    there is room; ``cells`` takes the first four of each cell of text, after the number of features before it.
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
            found, start, stop, doubled, end = cell(text, i, delimiter)
            if found == OPEN:
                return OPEN, i, count, size, rows, texts
            if found == AFTER_QUOTE and verdict == FINE:
                verdict, offset, where = AFTER_QUOTE, stop + 1, count
            if count == width and verdict != AFTER_QUOTE:
                offset = i
            kind = columns.kinds[count] if count < width and verdict == FINE else IGNORED
            count += 1
            if kind == TEXT:
                cells[texts, 0], cells[texts, 1], cells[texts, 2] = nnz, count - 1, start
                cells[texts, 3], cells[texts, 4] = stop, doubled
                texts += 1
            elif kind != IGNORED and stop > start:
                value, known = _read(text, start, stop) if kind != CATEGORICAL else (0.0, False)
                if kind == LABEL:
                    plain_text = _undoubled(text, start, stop) if doubled else text[start:stop]
                    allowed, label = _label(plain_text, 0, len(plain_text), value, known, classes)
                    if not allowed:
                        verdict, offset, where = BAD_LABEL, i, count - 1
                elif kind == WEIGHT:
                    weight = value
                    if not known or value < 0:
                        verdict, offset, where = BAD_WEIGHT, i, count - 1
                elif kind == NUMERIC and not known:
                    if not _missing(text, start, stop):
                        verdict, offset, where = BAD_NUMBER, i, count - 1
                elif known and abs(value) > limit:
                    verdict, offset, where = LIMIT, i, count - 1
                elif not known or value != 0:
                    if known:
                        hashed = columns.hashes[count - 1]
                    else:
                        value = 1.0
                        if doubled:
                            bare = _undoubled(text, start, stop)
                            hashed = murmur(bare, 0, len(bare), columns.seeds[count - 1])
                        else:
                            hashed = murmur(text, start, stop, columns.seeds[count - 1])
                    out.indices[nnz] = np.int32(hashed & np.uint64(mask))
                    out.values[nnz] = signed_by(hashed, signed, value)
                    if len(spans) > 0:
                        spans[nnz, 0] = count - 1 if known else -count
                        spans[nnz, 1], spans[nnz, 2], spans[nnz, 3] = start, stop, doubled
                        spans[nnz, 4] = signed and turns_sign(hashed)
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


@compiled()
def _records(text: Any, delimiter: Any) -> Any:
    """Bytes of the whole records at the head of the text."""
    i, size, whole = 0, len(text), 0
    while i < size:
        verdict, _, _, _, end = cell(text, i, delimiter)
        if verdict == OPEN and whole == 0 and size > LONGEST:
            return size
        if end >= size:
            break
        if text[end] == _NEWLINE:
            whole = end + 1
        i = end + 1
    return whole


@compiled()
def find_cells(text: Any, starts: Any, delimiter: Any, column: Any, out: Any) -> None:
    """(start, stop, whether quotes are doubled) of a column's cell in each of the whole records that begin there."""
    for row in range(len(starts)):
        i = starts[row]
        for _ in range(column):
            i = cell(text, i, delimiter)[4] + 1
        _, out[row, 0], out[row, 1], out[row, 2], _ = cell(text, i, delimiter)


def whole_records(text: NDArray[np.uint8], delimiter: int) -> int:
    """Bytes of the whole records at the head of the text; all of it if a quote is open for `LONGEST` bytes."""
    return int(_records(plain(text), delimiter))
