"""A journal as a stream that goes on as long as the server runs; its position is the number of the last entry."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError
from thinstream.models.model import Model
from thinstream.serve.journal import WHOLE_ENTRY, Entry, Reader
from thinstream.serve.packed import Change, change_of, is_sound, n_rows, pack, unpack
from thinstream.streams.class_book import ClassBook
from thinstream.streams.stream import START
from thinstream.training.stopping import Interrupted

#: Rows learned at a time.
ROWS = 4096
#: Bytes of entries that are at hand before they are learned.
HELD = 1 << 26
#: Seconds between two looks at what else is to be done while nothing comes.
TICK = 0.05
#: Seconds that what is written may still take to be learned when a server ends.
GRACE = 10.0


class DamagedEntryError(InvalidInputError):
    """An entry whose checksum does not match."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"entry {number} of the journal is damaged: its checksum does not match. Entries before it are learned, "
            "nothing new is accepted. Stop the server and start it with --recover to set this entry aside"
        )
        self.number = number


class Bell:
    """Rung when something was written, or all is to end; what was written last need not be read from the disk."""

    def __init__(self, held: int = HELD) -> None:
        self._changed = threading.Condition()
        self._rung = False
        self._until: float | None = None
        self._recent, self._size, self._held = deque[Entry](), 0, held

    def ring(self, entries: Sequence[Entry] = ()) -> None:
        """Something was written."""
        with self._changed:
            self._rung = True
            self._recent += entries
            self._size += sum(len(entry.data) for entry in entries)
            while self._size > self._held:
                self._first()
            self._changed.notify_all()

    def _first(self) -> Entry:
        entry = self._recent.popleft()
        self._size -= len(entry.data)
        return entry

    def after(self, number: int, rows: int) -> list[Entry]:
        """The entries that follow a number, about so many rows of them; none if they are not at hand."""
        found, many = list[Entry](), 0
        with self._changed:
            while self._recent and self._recent[0].number <= number:
                self._first()
            while many < rows and self._recent and self._recent[0].number == number + 1 + len(found):
                found.append(self._first())
                many += n_rows(found[-1].data)
        return found

    def close(self, seconds: float = GRACE) -> None:
        """What is written is still learned, if it takes no longer than this, and nothing after it."""
        self._until = time.monotonic() + seconds
        self.ring()

    @property
    def is_closed(self) -> bool:
        """Whether the server ends."""
        return self._until is not None

    def wait_closed(self, seconds: float) -> None:
        """Wait until the bell is closed, at most so long."""
        until = time.monotonic() + seconds
        while not self.is_closed and (rest := until - time.monotonic()) > 0:
            self.wait(min(rest, TICK))

    def over(self, rest: bool) -> bool:
        """Whether it is time to end, ``rest`` telling whether something is left."""
        return self._until is not None and not (rest and time.monotonic() < self._until)

    def wait(self, seconds: float | None) -> None:
        """Until it rings, or the time is up."""
        with self._changed:
            if not self._rung:
                self._changed.wait(seconds)
            self._rung = False


class JournalStream:
    """Labelled rows in the order in which they were acknowledged.

    Parameters
    ----------
    path : path
        Of the journal.
    name : str
        What it is known by in checkpoints: one that is different in each journal.
    model : Model
        What learns; labels are coded as its classes.
    bell : Bell
        What it waits for at the end.
    tick : callable
        Whether something is to be done though nothing has come: then a batch without rows is given.
    happens : callable
        Is told of each change, and the number of its entry, when all before it is learned.

    """

    unit, size = "rows", None
    names = skipped = None

    def __init__(
        self,
        path: Path,
        name: str,
        model: Model,
        bell: Bell,
        tick: Callable[[], bool] = lambda: False,
        happens: Callable[[Change, int], None] = lambda change, number: None,
    ) -> None:
        self._path, self._name, self._bell, self._tick, self._happens = path, name, bell, tick, happens
        self._classes, self._book = model.classes, ClassBook(model.classes) if model.classes.grow else None
        self._is_numbered = "hashing" not in model.feature_space
        self.feature_space, self.dtype = model.feature_space, model.learner.dtype.name
        self._scores: deque[NDArray[Any] | None] = deque()
        self._places: list[tuple[int, tuple[int, int]]] = []  # of the rows of the last batch
        self._entries: list[Entry] = []  # of the last batch

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels, where more may come those met so far."""
        return self._classes if self._book is None else tuple(self._book.labels)

    def _coded(self, labels: Sequence[Any]) -> NDArray[Any]:
        return self._classes.coded(labels) if self._book is None else self._book.numbers(labels)

    def done(self, position: Position) -> None:
        """Nobody knows how much there will be."""

    def fingerprint(self) -> dict[str, Any]:
        """The journal's name."""
        return {"kind": "journal", "name": self._name}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows of the entries after ``start.offset``; `Interrupted` at the end, once the bell is closed."""
        reader, position = Reader(self._path), start
        try:
            while True:
                number = position.offset
                recent = self._bell.after(number, ROWS)
                entries = recent or reader.after(number, ROWS)
                if self._bell.over(bool(entries)):
                    raise Interrupted(signal.SIGTERM)
                for change, some, last in _between_changes(entries, reader, is_read=not recent):
                    if change is not None:
                        self._happens(change, last)
                    batch = self._batch(some, reader) if change is None else self._empty()
                    position = Position(offset=last, row=position.row + len(batch))
                    yield replace(batch, position=position)
                if entries:
                    continue
                if self._tick():
                    yield replace(self._empty(), position=position)
                    self._bell.wait(TICK)
                else:
                    self._bell.wait(None)
        finally:
            reader.close()

    def _empty(self) -> Batch:
        values = np.empty(0, self.dtype)
        return Batch(np.zeros(1, np.int64), np.empty(0, np.int32), values, 0, self._coded([]))

    def _batch(self, entries: list[Entry], reader: Reader) -> Batch:
        if not entries:
            return self._empty()
        self._entries = entries
        batch, labels, scores = unpack([entry.data for entry in entries])
        self._places = kept_places(entries, reader)
        if len(self._places) < len(batch):
            kept = np.array([place for place, _ in self._places], np.int64)
            batch = replace(batch.take(kept), checked=False).check()
            labels, scores = [labels[k] for k in kept], [scores[k] for k in kept]
        self._scores = deque(scores)
        if not len(batch):
            return self._empty()
        return self._with_own_width(batch).labelled(self._coded(labels), batch.weights)

    def measured(self, batch: Batch) -> Batch:
        """Return rows with their own width and largest value, whatever rows came with them.

        A row that makes the model too wide, or has too large a value, must fail alone.
        """
        return replace(self._with_own_width(batch), checked=False).check()

    def _with_own_width(self, batch: Batch) -> Batch:
        if not self._is_numbered:
            return batch
        return replace(batch, n_features=int(batch.indices[: batch.indptr[-1]].max(initial=-1)) + 1)

    def taken(self, many: int) -> list[NDArray[Any] | None]:
        """The scores that the next rows of the last batch got when they were predicted; None of those never were."""
        return [self._scores.popleft() for _ in range(many)]

    def scores(self) -> tuple[NDArray[Any] | None, ...]:
        """The scores at prediction of the rows of the last batch that were not taken yet."""
        return tuple(self._scores)

    def restore_scores(self, scores: Iterable[NDArray[Any] | None]) -> None:
        """Rows are taken again, from those with these scores on."""
        self._scores = deque(scores)

    def entry_of(self, row: int) -> tuple[int, int, bytes]:
        """The entry of a row of the last batch, its place there, and the row as an entry of its own."""
        number, place = self._places[row][1]
        batch, labels, _ = unpack([entry.data for entry in self._entries if entry.number == number])
        return number, place, pack(batch.until(place + 1).after(place), labels[place : place + 1])


def _between_changes(entries: list[Entry], reader: Reader, is_read: bool) -> Iterator["_Part"]:
    """Entries of rows that follow each other, and each change alone; `DamagedEntryError` at one that is damaged.

    Entries are checked if they were read from the disk.
    """
    rows, last = list[Entry](), 0
    for entry in entries:
        if is_read and not is_sound(entry.data):
            if WHOLE_ENTRY not in reader.refused(entry.number, entry.number).get(entry.number, ()):
                if last:
                    yield _Part(None, rows, last)
                raise DamagedEntryError(entry.number)
        elif (change := change_of(entry.data)) is None:
            rows.append(entry)
        else:
            if last:
                yield _Part(None, rows, last)
            rows, last = [], 0
            yield _Part(change, [entry], entry.number)
            continue
        last = entry.number
    if last:
        yield _Part(None, rows, last)


class _Part(NamedTuple):
    """A change, or entries of rows; and the number of the last entry, which may be one that was set aside."""

    change: Change | None
    entries: list[Entry]
    last: int


def kept_places(entries: Sequence[Entry], reader: Reader) -> list[tuple[int, tuple[int, int]]]:
    """Of the rows that were not refused: the place among all, the entry and the place in it."""
    refused = reader.refused(entries[0].number, entries[-1].number)
    places = [(entry.number, row) for entry in entries for row in range(n_rows(entry.data))]
    return [(k, (number, row)) for k, (number, row) in enumerate(places) if row not in refused.get(number, ())]
