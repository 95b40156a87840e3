"""A model learns its journal. After a stop it resumes from its last checkpoint, with a bit-identical result."""

import itertools
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import FileWriteError, MissingPackageError, ModelFileError, NumericalError, ThinstreamError
from thinstream.models.model import Model
from thinstream.serve.dashboard.state import DashboardSampler
from thinstream.serve.journal import Busy, Committer
from thinstream.serve.journal_stream import Archive, DamagedEntryError, JournalNotifier, JournalStream
from thinstream.serve.log import ERROR, WARNING, log
from thinstream.serve.shared_memory import ChangedFeatures, Publisher, version_of
from thinstream.serve.versions import DONE, KEEPING, Changes, NoVersion
from thinstream.serve.wire import Change
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.delayed_labels import scores_by_class
from thinstream.training.job import Job, OutputFiles, Source
from thinstream.training.metrics import RIGHT, Tally
from thinstream.training.observer import NullObserver, Step
from thinstream.training.run import Interrupted, Run

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
        """Return checkpoints that are also due after many rows, or at once."""
        assert outputs.checkpoint is not None
        return JournalCheckpoints(outputs.checkpoint, outputs.seconds or CHECKPOINT)

    def run(self, stream: JournalStream, model: Model, **options: Any) -> JournalRun:
        """Create the run, whose checkpoints count its rows."""
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
        """The current model."""
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
        if isinstance(error, DamagedEntryError):  # all entries before it are learned
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
