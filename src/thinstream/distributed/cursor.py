"""Where a worker is in the rows it reads."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thinstream.batch import Batch, Position
from thinstream.streams.stream import START, Stream, batches_from


class Place(NamedTuple):
    """Where a worker goes on."""

    passes: int = 0  # done
    position: Position = START  # in the pass that is not
    skipped: int = 0  # bad records passed over before it, in that pass


@dataclass
class Cursor:
    """Rows of a stream, a given number at a time, again and again until all passes are done."""

    stream: Stream
    place: Place
    passes: int
    over: bool = False
    most_skipped: int = 0
    _batches: Iterator[tuple[Position, Batch]] | None = field(default=None, repr=False)
    _rest: Batch | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._set_skipped(self.place.skipped)
        self.over = self.place.passes >= self.passes

    def take(self, rows: int, within_pass: bool = False) -> Iterator[Batch]:
        """The next ``rows`` rows, or fewer at the end, of a pass or of all. ``place`` is behind what was given out."""
        while not self.over:
            batch = self._next()
            if batch is None:
                self._turn()
                if within_pass:
                    return
                continue
            if rows <= 0:  # there is more, but not for now
                self._rest = batch
                return
            given = batch if len(batch) <= rows else batch.until(rows)
            self._rest = None if given is batch else batch.after(rows)
            rows -= len(given)
            passes, position, skipped = self.place
            if self._rest is None and batch.position is not None:
                self.place = Place(passes, batch.position, self._skipped())
            else:
                self.place = Place(passes, position._replace(skip=position.skip + len(given)), skipped)
            if len(given):
                yield given

    def _next(self) -> Batch | None:
        if self._rest is not None:
            batch, self._rest = self._rest, None
            return batch
        if self._batches is None:
            self._batches = batches_from(self.stream, self.place.position)
        found: Any = next(self._batches, None)
        return None if found is None else found[1]

    def _turn(self) -> None:
        """A pass is over."""
        self.most_skipped = max(self.most_skipped, self._skipped())
        self._set_skipped(0)  # the next pass comes by the same records again
        self.place, self._batches = Place(self.place.passes + 1), None
        self.over = self.place.passes >= self.passes

    def _skipped(self) -> int:
        return 0 if self.stream.skipped is None else self.stream.skipped.count

    def _set_skipped(self, count: int) -> None:
        if self.stream.skipped is not None:
            self.stream.skipped.count = count
