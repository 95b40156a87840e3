"""A model learns its journal. After a stop it resumes from its last checkpoint, with a bit-identical result.

`JournalStream` reads the journal, `JournalRun` learns it and writes checkpoints, and `LearningThread` runs it and
publishes the weights.
"""

import itertools
import secrets
import signal
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.labels import ClassBook
from thinstream.data.stream import START
from thinstream.errors import (
    FileWriteError,
    InvalidInputError,
    MissingPackageError,
    ModelFileError,
    NumericalError,
    ThinstreamError,
)
from thinstream.models.model import Model
from thinstream.serve.dashboard import DashboardSampler
from thinstream.serve.journal import WHOLE_ENTRY, Busy, Committer, Entry, Reader
from thinstream.serve.log import ERROR, WARNING, log
from thinstream.serve.shared_memory import ChangedFeatures, Publisher, version_of
from thinstream.serve.versions import DONE, KEEPING, Changes, NoVersion
from thinstream.serve.wire import Change, change_of, is_sound, n_rows, pack, unpack
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.delayed_labels import scores_by_class
from thinstream.training.job import Job, OutputFiles, Source
from thinstream.training.metrics import RIGHT, Tally
from thinstream.training.observer import NullObserver, Step
from thinstream.training.run import Interrupted, Run

#: Rows per batch.
BATCH_ROWS = 4096
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
                recent = self._notifier.after(number, BATCH_ROWS)
                entries = recent or reader.after(number, BATCH_ROWS)
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
            while entries := reader.after(number, BATCH_ROWS, self._until):
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


#: A checkpoint is due after this many seconds, or this many rows.
CHECKPOINT, ROWS = 60.0, 1_000_000
#: The least seconds between two published versions, and the share of time that publishing may take.
FRESH, SHARE = 0.05, 0.1
#: Seconds until learning is tried again after a failure, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Rows that the recent error covers.
RECENT = 10_000
#: The monitors that report rises of the error.
MONITORS = ("adwin",)


class Unlearnable(Exception):
    """Rows that cannot be learned. The model may have learned some of them.

    ``row`` is the row of the last batch that cannot be learned, if it is known.
    """

    def __init__(self, error: Exception, row: int | None = None) -> None:
        super().__init__(reason_of(error))
        self.row = row


class JournalRun(Run):
    """A `Run` over a journal. After each checkpoint, the entries that it contains are deleted from the journal.

    For rows that were predicted before, metrics count the scores of that time.
    """

    def __init__(
        self,
        stream: JournalStream,
        model: Model,
        committer: Committer,
        archive: Archive | None,
        marks: ChangedFeatures,
        changes: Changes,
        **options: Any,
    ) -> None:
        super().__init__(stream, model, **options)
        self.journal, self._committer, self._archive, self._marks = stream, committer, archive, marks
        self._changes, self._own = changes, np.empty(0)
        self.careful = False  # whether to copy the model before each batch, to undo it
        self._n_refused = 0  # rows since the last checkpoint that could not be learned
        self.refuse: Callable[[int, str], object] = lambda row, reason: (
            None
        )  # puts a row of the last batch into quarantine
        self.replaced: Callable[[], object] = lambda: None  # called when a copy has replaced the model
        self.saved = -1  # the last entry of the checkpoint on disk
        self._saved_at = time.time()
        self.trouble: str | None = None  # why no checkpoint could be written

    @property
    def unsaved(self) -> int:
        """Rows learned since the last checkpoint."""
        return self._since

    @property
    def checkpoint_age(self) -> float:
        """Seconds since the last checkpoint was written, or since the start if this process has written none."""
        return max(time.time() - self._saved_at, 0.0)

    def resume(self) -> bool:
        """Load the last checkpoint with its challengers."""
        self._changes.challengers.each = {}
        if not super().resume():
            return False
        self.saved = self.state.position.offset
        self._changes.challengers.restore(self.saved)
        self.cut()  # the process may have ended before this
        return True

    def _like(self) -> None:
        """Accept any model: a promoted model may differ from the model that the journal began with."""

    def replace_model(self, model: Model) -> None:
        """Replace the model, and make sure that a checkpoint follows."""
        self.state.progress.threshold = model.threshold
        self.state = self.state._replace(model=model)
        self._since = max(self._since, 1)

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        self._own = scores
        predicted = self.journal.taken(len(scores))
        if all(score is None for score in predicted):
            return scores
        rows = [
            own if score is None else score for own, score in zip(np.atleast_2d(scores.T).T, predicted, strict=True)
        ]
        return scores_by_class(rows, scores.shape)

    def _take(self, rows: Batch) -> None:
        if self.careful:
            self._take_carefully(rows)
            return
        try:
            self._take_all(rows)
        except Exception as error:
            raise Unlearnable(error) from error

    def _take_all(self, rows: Batch) -> None:
        super()._take(rows)
        self._marks.add(rows.indices[: rows.indptr[-1]], self.state.model.learner.n_features)
        self._changes.challengers.take(rows, self._own)

    def _take_carefully(self, rows: Batch) -> None:
        """Learn the rows except those that cannot be learned after all accepted rows before them.

        The model is copied first. If something fails, the copy takes its place, and smaller parts are tried.
        """
        parts = [rows]
        while parts:
            part, state, scores = self.journal.measured(parts.pop()), self.state, self.journal.scores()
            try:
                undo = state.model.copy()
            except MemoryError:
                self._take_singly(part)
                continue
            try:
                self._take_all(part)
            except Exception as error:
                self.state = state._replace(model=undo)
                self.journal.restore_scores(scores)
                self.replaced()
                row = error.row - part.first_row if isinstance(error, NumericalError) else -1
                if row == 0 or len(part) == 1:
                    self.journal.taken(1)
                    self.refuse(part.first_row, reason_of(error).replace(f" row {part.first_row} ", " this row "))
                    self._n_refused, cuts = self._n_refused + 1, [1]
                else:
                    cuts = [0, row, row + 1] if 0 < row < len(part) else [0, len(part) // 2]
                pieces = [part.until(b).after(a) for a, b in itertools.pairwise([*cuts, len(part)]) if a < b]
                parts += reversed(pieces)

    def _take_singly(self, rows: Batch) -> None:
        """Learn rows one by one, because there is no memory for a copy of the model."""
        for k in range(len(rows)):
            try:
                self._take_all(self.journal.measured(rows.until(k + 1).after(k)))
            except Exception as error:
                raise Unlearnable(error, rows.first_row + k) from error

    def save(self) -> None:
        """Write a checkpoint now, even if no rows have come since the last."""
        self._since = max(self._since, 1)
        self._checkpoint()

    def _checkpoint(self) -> None:
        """Write a checkpoint. If the disk is full, the journal stays unchanged, and the next checkpoint tries again."""
        if not self._since or self.state.position.skip:
            return
        assert self.checkpoints is not None
        self.checkpoints.wrote()
        rows = self.state.progress.rows
        try:
            self._changes.challengers.save(self.state.position.offset)
            super()._checkpoint()
            self.saved, self._saved_at = self.state.position.offset, time.time()
            log("checkpoint written", model=self._committer.journal.path.parent.name, version=self.saved, rows=rows)
            self.careful, self._n_refused = self.careful and self._n_refused > 0, 0
            self.cut()
        except (FileWriteError, MissingPackageError, OSError, sqlite3.Error) as error:
            trouble = f"cannot write a checkpoint: {error.strerror if isinstance(error, OSError) else error}"
            if trouble != self.trouble:
                log(trouble, ERROR, model=self._committer.journal.path.parent.name)
            self.trouble = trouble
            return
        self.trouble = None

    def cut(self) -> None:
        """Move the entries that the checkpoint contains from the journal to the archive."""
        done = self.state.position.offset
        self._changes.versions.unpin(done)
        self._changes.challengers.sweep(done)
        if self._archive is not None:
            self._archive.keep(done)

        def cut(more: Any) -> None:  # in parts, so that requests are written in between
            if more is True:
                with suppress(Busy):
                    self._committer.put(lambda journal: journal.cut(done), cut)

        cut(True)


class JournalCheckpoints(Checkpoints):
    """Checkpoints after some time, or many rows."""

    def __init__(self, path: Path, seconds: float = CHECKPOINT, rows: int = ROWS) -> None:
        super().__init__(path, seconds=seconds)
        self._rows, self.run, self.due = rows, None, False

    run: JournalRun | None

    def wrote(self) -> None:
        super().wrote()
        self.due = False

    def is_late(self) -> bool:
        return self.due or super().is_late() or (self.run is not None and self.run.unsaved >= self._rows)


@dataclass(frozen=True)
class JournalSource(Source):
    """The journal of a model."""

    stream: JournalStream
    committer: Committer
    archive: Archive | None
    marks: ChangedFeatures
    changes: Changes

    def open(self, model: Model) -> JournalStream:
        return self.stream

    def checkpoints(self, outputs: OutputFiles, model: Model) -> JournalCheckpoints:
        assert outputs.checkpoint is not None
        return JournalCheckpoints(outputs.checkpoint, outputs.seconds or CHECKPOINT)

    def run(self, stream: JournalStream, model: Model, **options: Any) -> JournalRun:
        run = JournalRun(stream, model, self.committer, self.archive, self.marks, self.changes, **options)
        options["checkpoints"].run = run
        return run


class LearningThread(NullObserver):
    """The thread in which a model learns its journal and publishes its weights.

    ``model`` is the model before the first entry of the journal, ``folder`` has its journal and checkpoint, ``weights``
    is the published file, and ``seconds`` is the time between two checkpoints.
    """

    def __init__(
        self,
        model: Model,
        folder: Path,
        weights: Path,
        committer: Committer,
        notifier: JournalNotifier,
        archive: Archive | None,
        changes: Changes,
        seconds: float = CHECKPOINT,
    ) -> None:
        self._model, self._folder, self._weights = model, folder, weights
        self.publisher = Publisher(weights)
        self._committer, self._notifier, self._archive, self._seconds = committer, notifier, archive, seconds
        self._changes = changes
        self._name = committer.do(_name)
        committer.do(changes.pin)
        self._published = -1
        self._next = 0.0  # earliest time of the next version
        self._floor = version_of(weights, model)  # versions before this one are not published
        self.refused: int = committer.do(lambda journal: journal.n_quarantined)
        self._next_report = 0.0  # earliest time of the next log line about quarantine
        self.status: dict[str, Any] = {}  # the status at the last published version
        self.sampler = DashboardSampler()
        self.challengers: list[dict[str, Any]] = []
        self.trouble: str | None = None  # why no newer version could be published
        self.mishap: str | None = None  # a change that turned out to be impossible
        self.failure: str | None = None  # why the model does not learn
        self._failed_at = 0  # the entry at which it failed
        self.run: JournalRun
        self._begin()
        if self.run.saved < 0:
            self.run.save()  # it has the journal's name, so a deleted journal is noticed
        self.run.prepare()
        self.publish()
        self._sample()
        self._thread = threading.Thread(target=self._learn, name=f"learning {folder.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop after the rows that are being learned, with a checkpoint."""
        self._notifier.close()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def state(self) -> Model:
        return self.run.state.model

    @property
    def done(self) -> int:
        """The last entry that was learned."""
        return self.run.state.position.offset

    def _begin(self, careful: bool = False) -> None:
        """Start a run from the last checkpoint, or from the beginning.

        ``careful``: a row could not be learned, so the model is copied before each batch until a checkpoint is written
        without another such row. So learning goes back to the checkpoint once, not for each such row.
        """
        self.publisher.forget()
        path = self._folder / "journal.sqlite"
        stream = JournalStream(path, self._name, self._model, self._notifier, self._tick, self._apply_change)
        source = JournalSource(stream, self._committer, self._archive, self.publisher.marks, self._changes)
        outputs = OutputFiles(checkpoint=self._folder / "checkpoint.ts", seconds=self._seconds, resume=True)
        self.run = Job(source, self._model.copy(), outputs, observer=self, monitors=MONITORS).start()
        self.run.careful, self.run.refuse, self.run.replaced = careful, self._refuse, self.publisher.forget
        model = replace(self.run.state.model, reading=self._model.reading, names=self._model.names)
        self.run.state = self.run.state._replace(model=_growing(model))
        self._changes.versions.seen(self.run.state.progress.rows)
        self.recent = Recent()
        self.recent.add(self.run.state.progress.counted)

    def _apply_change(self, change: Change, number: int) -> None:
        """Apply a change at its position in the journal. A model that it replaces is saved as a version first."""
        if change.what["what"] in KEEPING:
            self._keep(KEEPING[change.what["what"]])
        try:
            model = self._changes.apply(change, number, self.state)
        except (ModelFileError, NoVersion):  # the file is lost: the model does not change
            what, version = (change.what.get(key) for key in ("what", "version"))
            model, self.mishap = self.state, f"{what} {version} failed: its file is damaged or missing"
            log(self.mishap, ERROR, model=self._folder.name, entry=number)
        else:
            name = change.what.get("name", change.what.get("version"))
            log(DONE[change.what["what"]].format(name), model=self._folder.name, entry=number)
        if model is not self.state:
            self.publisher.forget()
            model = _growing(model)
        self.run.replace_model(model)
        self.sampler.hurry()
        checkpoints = self.run.checkpoints
        assert isinstance(checkpoints, JournalCheckpoints)
        checkpoints.due, self._next, self._published = True, 0.0, -1

    def _keep(self, cause: str) -> None:
        """Save the current model as a version, unless the disk is full."""
        run, done = self.run, self.done
        self._changes.versions.seen(run.state.progress.rows)
        if done and run.saved != done:
            run.save()
        if not done or run.saved != done:  # the model is unchanged, or the disk is full
            return
        report = run.report() or {}
        about = {"rows": run.state.progress.rows, "error": report.get("error"), "auc": report.get("auc")}
        learner = run.state.model.learner
        about |= {"nnz": int(learner.nnz), "algorithm": learner.algorithm.name, "cause": cause}
        with suppress(OSError, ThinstreamError):
            self._changes.versions.keep(self._folder / "checkpoint.ts", done, **about)

    def _tick(self) -> bool:
        """Return whether to publish weights, sample the model or write a checkpoint although no rows come."""
        state = self.run.state
        return (
            self._published != state.position.row or bool(self.run.unsaved) or self.sampler.behind(state.progress.rows)
        )

    def _learn(self) -> None:
        pause, careful, is_begun = FIRST_PAUSE, False, True
        while not self._notifier.is_closed or is_begun:
            try:
                if not is_begun:
                    self._begin(careful)
                    is_begun = True
                self.run.run()
            except Interrupted:
                return
            except Unlearnable as error:
                if error.row is not None:
                    self._refuse(error.row, str(error))
                careful, is_begun = True, False
            except Exception as error:
                self._fail(error)
                careful, is_begun = False, False
                self._notifier.wait_closed(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _fail(self, error: Exception) -> None:
        """Stop learning for now. Predictions continue with the last version, and learning is tried again later."""
        reason = reason_of(error)
        if isinstance(error, DamagedEntryError):  # it comes after all learned entries
            self._failed_at = error.number
            self.publish()
        else:
            self._failed_at = min(self.done + 1, self._committer.journal.newest)
        if reason != self.failure:
            unexpected = None if isinstance(error, ThinstreamError) else error
            log(f"the model has stopped learning: {reason}", ERROR, error=unexpected, model=self._folder.name)
        self.failure = reason

    def _refuse(self, row: int, reason: str) -> None:
        """Put a row of the last batch into quarantine, so that it is skipped now and when the journal is replayed."""
        number, position, data = self.run.journal.entry_of(row)
        self._committer.do(lambda journal: journal.quarantine(number, position, reason, data))
        self.refused += 1
        if time.monotonic() >= self._next_report:  # there may be thousands
            self._next_report = time.monotonic() + 1.0
            log(
                f"row {position} of entry {number} cannot be learned and is in quarantine: {reason}",
                WARNING,
                model=self._folder.name,
                rows=self.refused,
            )

    def moved(self, step: Step) -> None:
        """After a batch, publish weights, save a version or sample the model if it is time for that."""
        self.recent.add(self.run.state.progress.counted)
        if self._published != self.run.state.position.row and time.monotonic() >= self._next:
            self.publish()
        if self._changes.versions.due(step.rows):
            self._keep("regular")
        if self.sampler.due(step.rows):
            self._sample()

    def _sample(self) -> None:
        """Sample the model and its challengers for the dashboard and the API."""
        status, run = self.status, self.run
        self.sampler.sample(self.state, run.state.progress, run.drift, run.report(), status["nnz"])
        self.challengers = self._changes.challengers.report()

    def publish(self) -> None:
        """Publish the current weights for predictions. If memory is full, try again later.

        A version older than one that was published before is not published.
        """
        began, row = time.monotonic(), self.run.state.position.row
        if self.done < self._floor and self.status:
            return
        try:
            is_new = self.done >= self._floor
            nnz = self.publisher(self.state, version=self.done) if is_new else int(self.state.learner.nnz)
        except OSError as error:
            self.trouble = f"cannot publish weights: {error.strerror}"
            if not self.status:
                raise FileWriteError(f"{self._weights}: cannot be written: {error.strerror}") from error
            self._next = time.monotonic() + 1.0
            return
        self._published, self._floor, self.trouble, drift = row, max(self._floor, self.done), None, self.run.drift
        if self.done >= self._failed_at:
            self.failure = None
        self.status = {
            "version": self.done,
            "rows": self.run.state.progress.rows,
            "nnz": nnz,
            "features": int(self.state.learner.n_features),
            "refused": self.refused,
            "drift": 0 if drift is None else len(drift.detections),
            "progressive": self.run.report() or {},
            "recent": self.recent.report(),
        }
        now = time.monotonic()
        self._next = now + max(FRESH, (now - began) / SHARE)


class Recent:
    """The progressive error of the most recent rows, from counts at several times.

    >>> recent = Recent(rows=10)
    >>> for right in (0, 0, 10, 20):
    ...     recent.add(Tally.of_counts(np.array([[right, 10], [right, 10], [right, 0]])))
    >>> recent.report()
    {'rows': 10, 'error': 0.0}
    """

    def __init__(self, rows: int = RECENT) -> None:
        self._rows, self._counts = rows, deque[tuple[int, int]]()

    def add(self, counted: Tally) -> None:
        """Remember the current counts, if enough rows have come since the last time."""
        rows, right = counted.rows, int(counted.classes[RIGHT].sum())
        if len(self._counts) > 1 and rows - self._counts[-2][0] < self._rows // 100:
            self._counts.pop()
        self._counts.append((rows, right))
        while len(self._counts) > 2 and rows - self._counts[1][0] >= self._rows:
            self._counts.popleft()

    def report(self) -> dict[str, Any]:
        """Return the number of rows and their error; {} before the first."""
        if not self._counts:
            return {}
        (rows, right), (now, right_now) = self._counts[0], self._counts[-1]
        return {"rows": now - rows, "error": 1 - (right_now - right) / (now - rows)} if now > rows else {}


def reason_of(error: BaseException) -> str:
    """Return why something failed, without details that only the operator may see."""
    return str(error) if isinstance(error, ThinstreamError) else type(error).__name__


def _growing(model: Model) -> Model:
    """Let the model grow with its rows, if it can."""
    model.learner.grow = not _fixed(model)
    return model


def _fixed(model: Model) -> bool:
    """Return whether the parameters depend on the number of features, so that the model cannot grow."""
    rule: Any = model.learner.outputs.rule
    return hasattr(rule, "needs_dimension") and bool(rule.needs_dimension())


def _name(journal: Any) -> str:
    """Return a name that identifies this journal."""
    name: str | None = journal.fact("name")
    if name is None:
        name = secrets.token_hex(16)
        journal.note("name", name)
    return name
