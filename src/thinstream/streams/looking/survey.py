"""What the cells of CSV text look like, column by column, compiled."""

from typing import Any

import numpy as np

from thinstream.jit import compiled
from thinstream.streams.text.csv_cells import OPEN, blank_line, cell, date_at, is_infinite, read, says_nothing
from thinstream.streams.text.hashing import murmur

#: Kinds of cells; more than WORD: so many blanks are in it.
NOTHING, NUMBER, WHOLE, DATE, INFINITE, WORD = range(6)
_NEWLINE, _BLANK, _MOST = 10, 32, 250


@compiled(*(f"thinstream.streams.text.{name}" for name in ("csv_cells", "decimal", "digits", "hashing")))
def survey(text: Any, delimiter: Any, kinds: Any, hashes: Any) -> Any:
    """Kinds and hashes of the cells of the first records, as far as there is room; returns how many records.

    A record that has not as many cells as there are columns is passed over.
    """
    i, size, rows, width = 0, len(text), 0, kinds.shape[1]
    while i < size and rows < len(kinds):
        blank = blank_line(text, i)
        if blank > 0:
            i += blank
            continue
        count = 0
        while True:
            verdict, start, stop, _, end = cell(text, i, delimiter)
            if verdict == OPEN:
                return rows
            if count < width:
                kind = WORD
                value, known = read(text, start, stop)
                if known:
                    kind = WHOLE if value == np.floor(value) else NUMBER
                elif says_nothing(text, start, stop):
                    kind = NOTHING
                elif is_infinite(text, start, stop, value):
                    kind = INFINITE
                elif date_at(text, start, stop)[0] > 0:
                    kind = DATE
                else:
                    for k in range(start, stop):
                        kind += text[k] == _BLANK and kind < _MOST
                kinds[rows, count] = kind
                hashes[rows, count] = murmur(text, start, stop, np.uint64(0))
            count += 1
            i = min(end + 1, size)
            if end >= size or text[end] == _NEWLINE:
                break
        rows += count == width
    return rows
