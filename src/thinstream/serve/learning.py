"""A model that learns its journal: after a stop it goes on from its last checkpoint, with the bits it would have."""

import itertools
import secrets
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.dashboard.telling import Telling
from thinstream.errors import FileWriteError, MissingPackageError, ModelFileError, NumericalError, ThinstreamError
from thinstream.evaluate.observer import NullObserver, Step
from thinstream.late_labels.stream import scores_by_class
from thinstream.models.model import Model
from thinstream.serve.archive import Archive
from thinstream.serve.changing import KEEPING, Changes
from thinstream.serve.committing import Busy, Committer
from thinstream.serve.journal_stream import Bell, DamagedEntryError, JournalStream
from thinstream.serve.packed import Change
from thinstream.serve.publishing import Marks, Publisher
from thinstream.serve.sharing import version_of
from thinstream.serve.versions import NoVersion
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.drift import DriftWatch
from thinstream.training.run import Run
from thinstream.training.stopping import Interrupted

#: Seconds between two checkpoints, and rows after which there is one in any case.
CHECKPOINT, ROWS = 60.0, 1_000_000
#: Seconds between two versions of the weights at least, and the share of time that publishing may take.
FRESH, SHARE = 0.05, 0.1
#: Seconds until learning is tried again after a failure, at first and at most.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
#: Told where the error rises.
MONITORS = ("adwin",)


class Unlearnable(Exception):
    """Rows that cannot be learned; the model may have learned a part of them.

    Parameters
    ----------
    error : Exception
    row : int or None
        The row of the last batch, if it is known which one cannot be learned.

    """

    def __init__(self, error: Exception, row: int | None = None) -> None:
        super().__init__(reason_of(error))
        self.row = row


class JournalRun(Run):
    """A `Run` over a journal, which is cut after each checkpoint.

    Metrics count the scores that rows got when they were predicted, where they were.
    """

    def __init__(
        self,
        stream: JournalStream,
        model: Model,
        committer: Committer,
        archive: Archive,
        marks: Marks,
        changes: Changes,
        **options: Any,
    ) -> None:
        super().__init__(stream, model, **options)
        self.journal, self._committer, self._archive, self._marks = stream, committer, archive, marks
        self._changes, self._own = changes, np.empty(0)
        self.careful = False  # whether a copy of the model is made before each batch, to undo it
        self._n_refused = 0  # rows since the last checkpoint that could not be learned
        self.refuse: Callable[[int, str], object] = lambda row, reason: None  # leaves a row of the last batch out
        self.replaced: Callable[[], object] = lambda: None  # called when a copy took the place of the model
        self.saved = -1  # the last entry of the checkpoint on disk
        self.trouble: str | None = None  # why there is no checkpoint

    @property
    def unsaved(self) -> int:
        """Rows learned since the last checkpoint."""
        return self._since

    def resume(self) -> bool:
        """Goes back to the last checkpoint, with the challengers of then; what is left of others goes."""
        self._changes.challengers.each = {}
        if not super().resume():
            return False
        self.saved = self.state.position.offset
        self._changes.challengers.restore(self.saved)
        self.cut()  # the process may have ended before it was
        return True

    def _like(self) -> None:
        """Any: a checkpoint may be of another model than the one that the journal began with, which was promoted."""

    def becomes(self, model: Model) -> None:
        """Another model goes on in this one's place, and is in the next checkpoint whatever comes."""
        self.state.progress.threshold = model.threshold
        self.state = self.state._replace(model=model)
        self._since = max(self._since, 1)

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        self._own = scores
        given = self.journal.taken(len(scores))
        if all(each is None for each in given):
            return scores
        rows = [own if each is None else each for own, each in zip(np.atleast_2d(scores.T).T, given, strict=True)]
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
        """Learn rows one by one, if there is no memory for a copy of the model."""
        for k in range(len(rows)):
            try:
                self._take_all(self.journal.measured(rows.until(k + 1).after(k)))
            except Exception as error:
                raise Unlearnable(error, rows.first_row + k) from error

    def save(self) -> None:
        """A checkpoint now, whether or not rows have come since the last."""
        self._since = max(self._since, 1)
        self._checkpoint()

    def _checkpoint(self) -> None:
        """A checkpoint; where the disk is full the journal stays as it is, and the next one comes in time."""
        if not self._since or self.state.position.skip:
            return
        assert self.checkpoints is not None
        self.checkpoints.wrote()
        try:
            self._changes.challengers.save(self.state.position.offset)
            super()._checkpoint()
            self.saved = self.state.position.offset
            self.careful, self._n_refused = self.careful and self._n_refused > 0, 0
            self.cut()
        except (FileWriteError, MissingPackageError, OSError, sqlite3.Error) as error:
            self.trouble = f"no checkpoint can be written: {error.strerror if isinstance(error, OSError) else error}"
            return
        self.trouble = None

    def cut(self) -> None:
        """What the checkpoint has goes from the journal into the archive."""
        done = self.state.position.offset
        self._changes.versions.unpin(done)
        self._changes.challengers.sweep(done)
        self._archive.keep(done)

        def cut(more: Any) -> None:  # a piece at a time: others are written in between
            if more is True:
                with suppress(Busy):
                    self._committer.put(lambda journal: journal.cut(done), cut)

        cut(True)


class Regular(Checkpoints):
    """Checkpoints after a time, or many rows."""

    def __init__(self, path: Path, seconds: float = CHECKPOINT, rows: int = ROWS) -> None:
        super().__init__(path, seconds=seconds)
        self._rows, self.run, self.due = rows, None, False

    run: JournalRun | None

    def wrote(self) -> None:
        """Now."""
        super().wrote()
        self.due = False

    def is_late(self) -> bool:
        """Whether one is due."""
        return self.due or super().is_late() or (self.run is not None and self.run.unsaved >= self._rows)


class Learning(NullObserver):
    """The thread in which a model learns its journal and publishes its weights.

    Parameters
    ----------
    model : Model
        As it was before the first entry of the journal.
    folder : path
        Of the model: journal and checkpoint are there.
    weights : path
        Where versions are published.
    committer : Committer
        Of its journal.
    bell : Bell
        Rung when something was written.
    archive : Archive
    changes : Changes
        What happens to the model beside rows.
    seconds : float
        Between two checkpoints.

    """

    def __init__(
        self,
        model: Model,
        folder: Path,
        weights: Path,
        committer: Committer,
        bell: Bell,
        archive: Archive,
        changes: Changes,
        seconds: float = CHECKPOINT,
    ) -> None:
        self._model, self._folder, self._weights = model, folder, weights
        self.publisher = Publisher(weights)
        self._committer, self._bell, self._archive, self._seconds = committer, bell, archive, seconds
        self._changes = changes
        self._name = committer.do(_name)
        committer.do(changes.pin)
        self._published = -1
        self._next = 0.0  # when the next version may be published
        self._floor = version_of(weights, model)  # versions before this one are not published
        self.refused: int = committer.do(lambda journal: journal.n_quarantined)
        self._next_report = 0.0  # when the next row in quarantine may be reported
        self.told: dict[str, Any] = {}  # of the last version
        self.telling = Telling()
        self.challengers: list[dict[str, Any]] = []
        self.trouble: str | None = None  # why there is no newer one
        self.mishap: str | None = None  # a change that could not be made after all
        self.failure: str | None = None  # why it does not learn
        self._failed_at = 0  # the entry at which it failed
        self.run: JournalRun
        self._begin()
        if self.run.saved < 0:
            self.run.save()  # it has the journal's name: a journal that is deleted later is missed
        self.run.prepare()
        self.publish()
        self._sample()
        self._thread = threading.Thread(target=self._learn, name=f"learning {folder.name}", daemon=True)

    def start(self) -> None:
        """Begins to learn what the journal has, and what comes."""
        self._thread.start()

    def close(self) -> None:
        """Ends after the rows being learned, with a checkpoint."""
        self._bell.close()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def state(self) -> Model:
        """The model as it is now."""
        return self.run.state.model

    @property
    def done(self) -> int:
        """The last entry that was learned."""
        return self.run.state.position.offset

    def _begin(self, careful: bool = False) -> None:
        """Start a run from the last checkpoint on, or from the beginning.

        ``careful``: a row could not be learned, so the model is copied before each batch until a checkpoint is written
        without another such row. Learning starts at the checkpoint once, not for each of these rows.
        """
        self.publisher.forget()
        checkpoints = Regular(self._folder / "checkpoint.ts", self._seconds)
        path = self._folder / "journal.sqlite"
        stream = JournalStream(path, self._name, self._model, self._bell, self._tick, self._happens)
        self.run = checkpoints.run = JournalRun(
            stream,
            self._model.copy(),
            self._committer,
            self._archive,
            self.publisher.marks,
            self._changes,
            checkpoints=checkpoints,
            watch=self,
            drift=DriftWatch(MONITORS),
        )
        self.run.careful, self.run.refuse, self.run.replaced = careful, self._refuse, self.publisher.forget
        self.run.resume()
        model = replace(self.run.state.model, reading=self._model.reading, names=self._model.names)
        self.run.state = self.run.state._replace(model=_growing(model))
        self._changes.versions.seen(self.run.state.progress.rows)

    def _happens(self, change: Change, number: int) -> None:
        """A change's turn has come: what the model is without it is kept where it would be lost."""
        if change.what["what"] in KEEPING:
            self._keep(KEEPING[change.what["what"]])
        try:
            model = self._changes.happens(change, number, self.state)
        except (ModelFileError, NoVersion):  # the disk has lost it: the model stays as it is
            what, version = (change.what.get(key) for key in ("what", "version"))
            model, self.mishap = self.state, f"{what} {version} was not possible: its file is damaged or gone"
        if model is not self.state:
            self.publisher.forget()
            model = _growing(model)
        self.run.becomes(model)
        self.telling.hurry()
        checkpoints = self.run.checkpoints
        assert isinstance(checkpoints, Regular)
        checkpoints.due, self._next, self._published = True, 0.0, -1

    def _keep(self, cause: str) -> None:
        """The model of now becomes a version that is kept; where the disk is full, it does not."""
        run, done = self.run, self.done
        self._changes.versions.seen(run.state.progress.rows)
        if done and run.saved != done:
            run.save()
        if not done or run.saved != done:  # as it was given, or there is no room
            return
        report = run.report() or {}
        about = {"rows": run.state.progress.rows, "error": report.get("error"), "auc": report.get("auc")}
        learner = run.state.model.learner
        about |= {"nnz": int(learner.nnz), "algorithm": learner.algorithm.name, "cause": cause}
        with suppress(OSError, ThinstreamError):
            self._changes.versions.keep(self._folder / "checkpoint.ts", done, **about)

    def _tick(self) -> bool:
        """Whether weights are to be published, or a checkpoint written, though nothing comes."""
        state = self.run.state
        return (
            self._published != state.position.row or bool(self.run.unsaved) or self.telling.behind(state.progress.rows)
        )

    def _learn(self) -> None:
        pause, careful, is_begun = FIRST_PAUSE, False, True
        while not self._bell.is_closed or is_begun:
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
                self._bell.wait_closed(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _fail(self, error: Exception) -> None:
        """Learning stops here: predictions continue with the last version, and it is tried again later."""
        reason = reason_of(error)
        if isinstance(error, DamagedEntryError):  # all before it is learned
            self._failed_at = error.number
            self.publish()
        else:
            self._failed_at = min(self.done + 1, self._committer.journal.newest)
        if reason != self.failure:
            sys.stderr.write(f"thinstream: the model {self._folder.name!r} does not learn: {reason}\n")
            if not isinstance(error, ThinstreamError):
                traceback.print_exception(error, file=sys.stderr)
        self.failure = reason

    def _refuse(self, row: int, reason: str) -> None:
        """Put a row of the last batch into quarantine: it is left out now and when the journal is learned again."""
        number, place, data = self.run.journal.entry_of(row)
        self._committer.do(lambda journal: journal.quarantine(number, place, reason, data))
        self.refused += 1
        if time.monotonic() >= self._next_report:  # not a line for each of thousands
            self._next_report = time.monotonic() + 1.0
            sys.stderr.write(
                f"thinstream: the model {self._folder.name!r} cannot learn row {place} of entry {number}, which is in "
                f"quarantine now: {reason} ({self.refused:,} rows so far)\n"
            )

    def moved(self, step: Step) -> None:
        """After each batch: a new version, if it is time for one."""
        if self._published != self.run.state.position.row and time.monotonic() >= self._next:
            self.publish()
        if self._changes.versions.due(step.rows):
            self._keep("regular")
        if self.telling.due(step.rows):
            self._sample()

    def _sample(self) -> None:
        """For the dashboard, and whoever asks how challengers do."""
        told, run = self.told, self.run
        self.telling.sample(self.state, run.state.progress, run.drift, run.report(), told["nnz"])
        self.challengers = self._changes.challengers.told()

    def publish(self) -> None:
        """The weights of now become the ones that are predicted with; where memory is full, later.

        A version that is older than one that was published is not.
        """
        began, row = time.monotonic(), self.run.state.position.row
        if self.done < self._floor and self.told:
            return
        try:
            is_new = self.done >= self._floor
            nnz = self.publisher(self.state, version=self.done) if is_new else int(self.state.learner.nnz)
        except OSError as error:
            self.trouble = f"weights cannot be published: {error.strerror}"
            if not self.told:
                raise FileWriteError(f"{self._weights}: cannot be written: {error.strerror}") from error
            self._next = time.monotonic() + 1.0
            return
        self._published, self._floor, self.trouble, drift = row, max(self._floor, self.done), None, self.run.drift
        if self.done >= self._failed_at:
            self.failure = None
        self.told = {
            "version": self.done,
            "rows": self.run.state.progress.rows,
            "nnz": nnz,
            "features": int(self.state.learner.n_features),
            "refused": self.refused,
            "drift": 0 if drift is None else len(drift.told),
            "progressive": self.run.report() or {},
        }
        now = time.monotonic()
        self._next = now + max(FRESH, (now - began) / SHARE)


def reason_of(error: BaseException) -> str:
    """Why something failed, as it may be shown to anyone."""
    return str(error) if isinstance(error, ThinstreamError) else type(error).__name__


def _growing(model: Model) -> Model:
    """The model, which gets wider with its rows where it can."""
    model.learner.grow = not _fixed(model)
    return model


def _fixed(model: Model) -> bool:
    """Whether its parameters need the number of features beforehand: it cannot get wider."""
    rules: list[Any] = [getattr(one, "rule", None) for one in model.learner.models]
    return any(hasattr(rule, "needs_dimension") and rule.needs_dimension() for rule in rules)


def _name(journal: Any) -> str:
    """What tells this journal from all others."""
    name: str | None = journal.fact("name")
    if name is None:
        name = secrets.token_hex(16)
        journal.note("name", name)
    return name
