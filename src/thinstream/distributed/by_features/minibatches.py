"""Rows of a stream in mini-batches of one size, however the stream cuts them, and where it goes on after each.

Ranks that read the same stream may get it in different pieces; the mini-batches must be the same for all.
"""

from collections import deque
from collections.abc import Iterator

from thinstream.batch import Batch, Position
from thinstream.streams.stream import Stream, batches_from


class MiniBatches:
    """Iterates over batches that each hold a whole number of mini-batches; only the last of all may be cut short.

    Parameters
    ----------
    stream : Stream
    start : Position
        Where to begin, at a border of mini-batches.
    size : int
        Rows of a mini-batch.

    """

    def __init__(self, stream: Stream, start: Position, size: int) -> None:
        self._stream, self._source, self._size = stream, batches_from(stream, start), size
        # rows read, the source's position there, bad records passed over before it
        self._marks = deque([(0, start, self._skipped())])

    def __iter__(self) -> Iterator[Batch]:
        held: list[Batch] = []
        waiting = read = 0
        skipped = self._skipped()
        for before, found in self._source:
            if before._replace(skip=0) != self._marks[-1][1]._replace(skip=0):  # the source has told where it is
                self._marks.append((read, before, skipped))
            read, skipped = read + len(found), self._skipped()
            batch = found.check()
            if waiting:
                taken = min(self._size - waiting, len(batch))
                held.append(batch.until(taken))
                waiting, batch = waiting + taken, batch.after(taken)
                if waiting == self._size:
                    yield Batch.concatenate(held)
                    held, waiting = [], 0
            whole = len(batch) // self._size * self._size
            if whole:
                yield batch.until(whole)
            if whole < len(batch):
                held.append(batch.after(whole))
                waiting += len(batch) - whole
        if held:
            yield Batch.concatenate(held)

    def position(self, rows: int) -> tuple[Position, int]:
        """Where the source goes on after so many rows, and bad records before that; never fewer rows than last time."""
        while len(self._marks) > 1 and self._marks[1][0] <= rows:
            self._marks.popleft()
        read, place, skipped = self._marks[0]
        return place._replace(skip=place.skip + rows - read), skipped

    def _skipped(self) -> int:
        return 0 if self._stream.skipped is None else self._stream.skipped.count
