"""The journal as a stream to learn from, and the archive of entries that are cut from it."""

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
from thinstream.data.labels import ClassBook
from thinstream.data.stream import START
from thinstream.errors import InvalidInputError
from thinstream.models.model import Model
from thinstream.serve.journal import WHOLE_ENTRY, Entry, Reader
from thinstream.serve.wire import Change, change_of, is_sound, n_rows, pack, unpack
from thinstream.training.run import Interrupted

#: Rows per batch.
ROWS = 4096
#: Bytes of new entries that stay in memory until they are learned.
HELD = 1 << 26
#: Seconds between checks for other work while no rows come.
TICK = 0.05
#: Seconds to learn what is written when a server stops.
GRACE = 10.0


class DamagedEntryError(InvalidInputError):
    """An entry whose checksum does not match."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"entry {number} of the journal is damaged: its checksum does not match. Earlier entries are learned, "
            "nothing new is accepted. Stop the server and start it with --recover to put this entry into quarantine"
        )
        self.number = number


class JournalNotifier:
    """Wakes the learning thread when entries come or the server stops, and holds the newest entries in memory."""

    def __init__(self, held: int = HELD) -> None:
        self._changed = threading.Condition()
        self._rung = False
        self._until: float | None = None
        self._recent, self._size, self._held = deque[Entry](), 0, held

    def ring(self, entries: Sequence[Entry] = ()) -> None:
        """Add new entries and wake the learning thread."""
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
        """Return the entries after a number, with about ``rows`` rows; [] if they are not in memory."""
        entries, count = list[Entry](), 0
        with self._changed:
            while self._recent and self._recent[0].number <= number:
                self._first()
            while count < rows and self._recent and self._recent[0].number == number + 1 + len(entries):
                entries.append(self._first())
                count += n_rows(entries[-1].data)
        return entries

    def close(self, seconds: float = GRACE) -> None:
        """Stop, after learning what is written if that takes no longer than ``seconds``."""
        self._until = time.monotonic() + seconds
        self.ring()

    @property
    def is_closed(self) -> bool:
        return self._until is not None

    def wait_closed(self, seconds: float) -> None:
        """Wait until the notifier is closed, at most ``seconds``."""
        until = time.monotonic() + seconds
        while not self.is_closed and (rest := until - time.monotonic()) > 0:
            self.wait(min(rest, TICK))

    def over(self, rest: bool) -> bool:
        """Return whether it is time to stop. ``rest``: whether entries are left to learn."""
        return self._until is not None and not (rest and time.monotonic() < self._until)

    def wait(self, seconds: float | None) -> None:
        """Wait until it rings, at most ``seconds``."""
        with self._changed:
            if not self._rung:
                self._changed.wait(seconds)
            self._rung = False


class JournalStream:
    """Labelled rows in the order in which they were acknowledged.

    Labels are encoded as classes of ``model``. ``name`` is different for each journal and identifies it in checkpoints.
    ``tick`` returns whether to yield a batch without rows, because something is to be done although nothing new has
    come. ``apply_change`` is called with each change and the number of its entry, once all earlier entries are learned.
    """

    unit, size = "rows", None
    names = skipped = None

    def __init__(
        self,
        path: Path,
        name: str,
        model: Model,
        notifier: JournalNotifier,
        tick: Callable[[], bool] = lambda: False,
        apply_change: Callable[[Change, int], None] = lambda change, number: None,
    ) -> None:
        self._path, self._name, self._notifier, self._tick, self._apply_change = (
            path,
            name,
            notifier,
            tick,
            apply_change,
        )
        self._classes, self._book = model.classes, ClassBook(model.classes) if model.classes.grow else None
        self._is_numbered = "hashing" not in model.feature_space
        self.feature_space, self.dtype = model.feature_space, model.learner.dtype.name
        self._scores: deque[NDArray[Any] | None] = deque()
        self._places: list[tuple[int, tuple[int, int]]] = []  # positions of the rows of the last batch
        self._entries: list[Entry] = []  # entries of the last batch

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels; for a model with new classes, those that have occurred."""
        return self._classes if self._book is None else tuple(self._book.labels)

    def _coded(self, labels: Sequence[Any]) -> NDArray[Any]:
        return self._classes.coded(labels) if self._book is None else self._book.numbers(labels)

    def done(self, position: Position) -> None:
        """Return None: it is not known how much there will be."""

    def fingerprint(self) -> dict[str, Any]:
        return {"kind": "journal", "name": self._name}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield the rows of the entries after ``start.offset``; raise `Interrupted` once the notifier is closed."""
        reader, position = Reader(self._path), start
        try:
            while True:
                number = position.offset
                recent = self._notifier.after(number, ROWS)
                entries = recent or reader.after(number, ROWS)
                if self._notifier.over(bool(entries)):
                    raise Interrupted(signal.SIGTERM)
                for change, some, last in _between_changes(entries, reader, is_read=not recent):
                    if change is not None:
                        self._apply_change(change, last)
                    batch = self._batch(some, reader) if change is None else self._empty()
                    position = Position(offset=last, row=position.row + len(batch))
                    yield replace(batch, position=position)
                if entries:
                    continue
                if self._tick():
                    yield replace(self._empty(), position=position)
                    self._notifier.wait(TICK)
                else:
                    self._notifier.wait(None)
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
            kept = np.array([position for position, _ in self._places], np.int64)
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

    def taken(self, count: int) -> list[NDArray[Any] | None]:
        """Remove and return the prediction scores of the next rows of the last batch; None for rows never predicted."""
        return [self._scores.popleft() for _ in range(count)]

    def scores(self) -> tuple[NDArray[Any] | None, ...]:
        """Return the prediction scores of the remaining rows of the last batch."""
        return tuple(self._scores)

    def restore_scores(self, scores: Iterable[NDArray[Any] | None]) -> None:
        """Set the remaining prediction scores, to learn rows again."""
        self._scores = deque(scores)

    def entry_of(self, row: int) -> tuple[int, int, bytes]:
        """Return the entry of a row of the last batch, its position there, and the row as its own entry."""
        number, position = self._places[row][1]
        batch, labels, _ = unpack([entry.data for entry in self._entries if entry.number == number])
        return number, position, pack(batch.until(position + 1).after(position), labels[position : position + 1])


def _between_changes(entries: list[Entry], reader: Reader, is_read: bool) -> Iterator["_Part"]:
    """Split entries into groups of rows and single changes; raise `DamagedEntryError` at a damaged entry.

    Only entries that were read from the disk are checked.
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
    """A change, or entries of rows; and the number of the last entry, which may be in quarantine."""

    change: Change | None
    entries: list[Entry]
    last: int


def kept_places(entries: Sequence[Entry], reader: Reader) -> list[tuple[int, tuple[int, int]]]:
    """Return, for each row not in quarantine: its position among all rows, its entry and its position there."""
    refused = reader.refused(entries[0].number, entries[-1].number)
    positions = [(entry.number, row) for entry in entries for row in range(n_rows(entry.data))]
    return [(k, (number, row)) for k, (number, row) in enumerate(positions) if row not in refused.get(number, ())]


class Archive:
    """The rows that were deleted from the journal: a binary cache file per checkpoint.

    A file is named after its last entry, so that names sort in the order of the rows. ``model`` has the classes and
    features of the rows.
    """

    def __init__(self, folder: Path, journal: Path, model: Model) -> None:
        self._folder, self._journal, self._model = folder, journal, model
        folder.mkdir(exist_ok=True)
        for draft in folder.glob(".*.tmp"):  # left by a process that was killed
            draft.unlink()

    def keep(self, until: int) -> None:
        """Write the entries up to this number as one file, atomically."""
        from thinstream.data.cache import write_cache

        done = max((int(path.stem) for path in self._folder.glob("[0-9]*.cache")), default=0)
        segment = _Segment(self._journal, self._model, done, until)
        if until > done and any(len(batch) for batch in segment.batches()):
            write_cache(segment, self._folder / f"{until:016d}.cache")


class _Segment(JournalStream):
    """The entries of a journal between two numbers."""

    def __init__(self, path: Path, model: Model, after: int, until: int) -> None:
        super().__init__(path, path.parent.name, model, JournalNotifier())
        self._model, self._after, self._until = model, after, until

    def batches(self, start: Position = START) -> Iterator[Batch]:
        reader, number, row = Reader(self._path), self._after, 0
        try:
            while entries := reader.after(number, ROWS, self._until):
                number = entries[-1].number
                entries = [entry for entry in entries if is_sound(entry.data) and change_of(entry.data) is None]
                if not entries:
                    continue
                batch = self._batch(entries, reader)
                row += len(batch)
                yield replace(batch, position=Position(offset=number, row=row))
        finally:
            reader.close()

    def fingerprint(self) -> dict[str, Any]:
        """Return the journal, the range of entries, and the reading options that a model needs to continue."""
        reading = {"missing": "as-is"} | self._model.reading_options  # the default of models without this option
        reading |= {"classes": list(self._model.classes)}
        return reading | super().fingerprint() | {"after": self._after, "until": self._until}
