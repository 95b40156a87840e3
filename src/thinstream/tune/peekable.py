"""Streams that are looked at while they pass: at their first rows before the rest, at rows held out for the end."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.streams.stream import START, Stream
from thinstream.tune.sources import is_repeatable, rewind

#: Most rows and non-zeros held out at a time: error rates to a quarter of a percent, in some hundred megabytes.
ROWS, NON_ZEROS = 40_000, 10_000_000
#: Bytes of compressed files that are read once more to count their rows.
SMALL = 50_000_000


class PeekableStream:
    """A stream whose first rows can be seen before it is taken, also where it can be read only once.

    >>> from thinstream.streams.tables.memory import from_memory
    >>> stream = PeekableStream(from_memory(np.eye(5), np.array([1, -1, 1, -1, 1]), rows_per_batch=2))
    >>> [len(batch) for batch in stream.look(3)], [len(batch) for batch in stream.batches()]
    ([2, 2], [2, 2, 1])
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._first: list[Batch] = []
        self._rest: Iterator[Batch] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def look(self, rows: int) -> list[Batch]:
        """The first batches, with at least so many rows, or all there are."""
        if self._rest is None:
            self._rest = iter(self._stream.batches())
        while sum(map(len, self._first)) < rows and (batch := next(self._rest, None)) is not None:
            self._first.append(batch)
        return self._first

    def length(self) -> int | None:
        """How many rows there are, by what the rows seen have of the source's size; None where nobody knows.

        Those of a small compressed file, which does not tell its length, are counted.
        """
        seen = sum(map(len, self._first))
        last = self._first[-1].position if self._first else None
        done = None if last is None or self._stream.size is None else self._stream.done(last)
        if done and self._stream.size:
            return int(seen * self._stream.size / done)
        files = [Path(file) for file in getattr(self._stream, "files", ())]
        if not files or not is_repeatable(self._stream) or sum(file.stat().st_size for file in files) > SMALL:
            return None
        rows = sum(len(batch) for batch in self._stream.batches())
        rewind(self._stream)
        return rows

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """From the beginning: what was seen, then the rest; from then on as the stream itself."""
        first, rest, self._first, self._rest = self._first, self._rest, [], None
        if rest is None or start != START:
            yield from self._stream.batches(start)
            return
        while first:
            yield first.pop(0)  # nothing holds on to its memory any longer
        yield from rest


class HoldoutStream:
    """A stream that keeps a copy of every ``every``-th row, the last of each such group, as it passes.

    Beyond ``ROWS`` or ``NON_ZEROS`` every second of them is dropped, and so on: what is left is spread evenly, and is
    the same however the stream is cut.
    """

    def __init__(self, stream: Any, every: int) -> None:
        self._stream, self._every = stream, every
        self.rows: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """Those of the stream."""
        kept: list[_Numbered] = []
        stride, seen = 1, 0
        for batch in self._stream.batches(start):
            places = np.arange(-(seen + 1) % self._every, len(batch), self._every)
            kept += _thinned(batch, places, (seen + places) // self._every, stride)
            while sum(len(rows) for rows, _ in kept) > ROWS or sum(rows.nnz for rows, _ in kept) > NON_ZEROS:
                stride *= 2
                kept = [part for rows, own in kept for part in _thinned(rows, np.arange(len(rows)), own, stride)]
            seen += len(batch)
            self.rows = [rows for rows, _ in kept]
            yield batch


#: Rows with their numbers among all that were held out.
_Numbered = tuple[Batch, NDArray[np.int64]]


def _thinned(batch: Batch, places: NDArray[np.int64], own: NDArray[np.int64], stride: int) -> list[_Numbered]:
    """Of the rows at these places a copy of those whose number is a multiple of the stride."""
    chosen = own % stride == 0
    return [(batch.take(places[chosen]), own[chosen])] if chosen.any() else []
