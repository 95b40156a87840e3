"""What the cells of CSV text look like, column by column, compiled."""

from typing import Any

import numpy as np

from thinstream.jit import compiled
from thinstream.streams.text.csv_cells import (
    OPEN,
    blank_line,
    cell,
    date_at,
    has_comma,
    is_infinite,
    is_other_date,
    plain_number,
    read,
    says_nothing,
    truth_at,
)
from thinstream.streams.text.hashing import murmur

#: Kinds of cells, blanks of those that are words, and how many of these may be meant as numbers or dates.
NOTHING, NUMBER, WHOLE, DATE, INFINITE, TRUTH, WORD, BLANKS, COMMA, OTHER_DATE = range(10)
_NEWLINE, _BLANK = 10, 32


@compiled(*(f"thinstream.streams.text.{name}" for name in ("csv_cells", "decimal", "digits", "hashing", "vectors")))
def survey(text: Any, delimiter: Any, counts: Any, hashes: Any, most: Any) -> Any:
    """Counts kinds of cells in each column, takes hashes of the first; returns of how many records, ``most`` at most.

    Cells that a record has more than there are columns are passed over.
    """
    i, size, rows, width = 0, len(text), 0, len(counts)
    while i < size and rows < most:
        blank = blank_line(text, i)
        if blank > 0:
            i += blank
            continue
        count = 0
        while True:
            value, end, known = plain_number(text, i, delimiter)
            start, stop, verdict = i, end, 0
            if not known:
                verdict, start, stop, _, end = cell(text, i, delimiter)
            if verdict == OPEN:
                return rows
            if count < width:
                kind = WORD
                if not known:
                    value, known = read(text, start, stop)
                if known:
                    kind = WHOLE if value == np.floor(value) else NUMBER
                elif says_nothing(text, start, stop):
                    kind = NOTHING
                elif is_infinite(text, start, stop, value):
                    kind = INFINITE
                elif date_at(text, start, stop)[0] > 0:
                    kind = DATE
                elif truth_at(text, start, stop) >= 0:
                    kind = TRUTH
                else:
                    counts[count, COMMA] += has_comma(text, start, stop)
                    counts[count, OTHER_DATE] += is_other_date(text, start, stop)
                    for k in range(start, stop):
                        counts[count, BLANKS] += text[k] == _BLANK
                counts[count, kind] += 1
                if rows < len(hashes):
                    hashes[rows, count] = murmur(text, start, stop, np.uint64(0)) << np.uint64(1) | np.uint64(
                        kind != NOTHING
                    )
            count += 1
            i = min(end + 1, size)
            if end >= size or text[end] == _NEWLINE:
                break
        while count < width:  # a record cut short
            if rows < len(hashes):
                hashes[rows, count] = np.uint64(0)
            count += 1
        rows += 1
    return rows
