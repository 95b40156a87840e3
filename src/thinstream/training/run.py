"""The run: batch after batch is scored, learned and counted; lines are told, checkpoints written, signals heeded."""

import signal
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.blend.placing import device_of, lanes_away, place
from thinstream.blend.serving import kinds_of_rows, n_vectors
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.growing import progress_for
from thinstream.evaluate.label_order import LabelOrder, warn_of_sorted
from thinstream.evaluate.observer import FIRST_LINE, Line, NullObserver, Observer, Step
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.evaluate.threshold import Chosen, Goal, RecentScores
from thinstream.learners.growing_classes import GrowingClasses, called, known_before
from thinstream.learners.protocol import AnyLearner
from thinstream.models.model import Model, Names, not_two
from thinstream.streams.options import how_read
from thinstream.streams.stream import START, Stream, batches_from
from thinstream.training.checkpoint import Checkpoints, State
from thinstream.training.drift import DriftWatch
from thinstream.training.stopping import Interrupted, Stopping, stopping

#: Weights that are counted in the time in which a lane comes from a GPU.
FETCH = 10_000

__all__ = ["Interrupted", "Line", "NullObserver", "Observer", "Run", "Step"]


class Run:
    """One model learning from one stream.

    Parameters
    ----------
    stream : Stream
    model : Model
        What learns; its learner is changed in place.
    passes : int
        Over the stream.
    checkpoints : Checkpoints or None
    watch : Observer
        Is told of lines of metrics and of each step; by default nobody is.
    drift : DriftWatch or None
        Is told which predictions were wrong.
    tradeoff : Tradeoff
        Of the weighted sum and the cost in the reports.
    goal : Goal or None
        What the model's threshold is to reach; it is chosen at the end, on scores before each update.

    """

    def __init__(
        self,
        stream: Stream,
        model: Model,
        *,
        passes: int = 1,
        checkpoints: Checkpoints | None = None,
        watch: Observer | None = None,
        drift: DriftWatch | None = None,
        tradeoff: Tradeoff = P3,
        goal: Goal | None = None,
    ) -> None:
        self.stream, self.passes, self.checkpoints = stream, passes, checkpoints
        self.watch, self.drift, self.tradeoff = watch or NullObserver(), drift, tradeoff
        model.require_features(stream.feature_space, "the data")
        self.state = State(model, progress_for(model.classes, model.threshold), 0, START)
        self._source = {**stream.fingerprint(), "passes": passes} if checkpoints else {}
        if checkpoints and drift is not None:
            self._source["monitors"] = [*drift.monitors]
        self.goal, self._recent = goal, None if goal is None else RecentScores()
        self.chosen: Chosen | None = None  # the threshold, once the run is over
        if checkpoints and goal is not None:
            self._source["goal"] = [*goal]
        self._source.pop("on_error", None)  # after a bad record a run may go on past it
        self._since = 0  # rows since the last checkpoint
        self._order = LabelOrder()
        self._most_skipped = 0  # in a pass that is over
        self._away = 0  # lanes on a GPU that somebody was told of
        self._progressive = model.learner.reads == "once"  # others have no score of a row before it is learned
        if goal is not None:
            _require_goal(goal, model)

    def resume(self) -> bool:
        """Goes back to the last checkpoint; False if there is none."""
        assert self.checkpoints is not None
        found = self.checkpoints.read(self._source, self._like())
        if found is None:
            return False
        if found.model.class_weight != self.state.model.class_weight:
            raise InvalidInputError(
                f"{self.checkpoints.path} cannot be resumed: its class weights are {found.model.class_weight!r}, those "
                f"given are {self.state.model.class_weight!r}"
            )
        place(found.model.learner, device_of(self.state.model.learner))
        self.state = found
        if self.stream.skipped is not None:
            self.stream.skipped.count = found.skipped
        if self.stream.names is not None:
            self.stream.names.restore(found.names)
        if self.drift is not None:
            self.drift.restore(found.drift)
        if self._recent is not None:
            self._recent = RecentScores.from_arrays(found.recent)
        return True

    def _like(self) -> AnyLearner | None:
        """What the learner of a checkpoint must be like; None: any."""
        return self.state.model.learner

    def prepare(self) -> None:
        """Loads all compiled code (or compiles it, which takes seconds), before the first byte is read."""
        learner, nothing = self.state.model.learner, self.state.model.classes.coded(np.empty(0))
        warm_up = getattr(self.stream, "warm_up", None)
        if warm_up is not None:
            warm_up()
        if not self._progressive:
            return
        values = np.empty(0, dtype=self.stream.dtype)
        scores = learner.learn(Batch(np.zeros(1, np.int64), np.empty(0, np.int32), values, 0, nothing))
        self.state.progress.update(scores, nothing)

    def run(self) -> Model:
        """Learns what is left of the stream. `Interrupted` if a signal ended it, after a last checkpoint."""
        self.watch.begin()
        with stopping() as asked:
            try:
                self._run(asked)
            except Interrupted:
                if self.checkpoints is not None:
                    self._checkpoint()
                raise
        return self._finished()

    def _finished(self) -> Model:
        """The model, once the last row is learned."""
        if self.watch.lines and self.state.progress.since_mark().rows:  # not if the last row was at a doubling
            self._line()
        if self.goal is not None and self._recent is not None:
            self.chosen = self._recent.choose(self.goal)
        if self.chosen is not None:
            self.state = self.state._replace(model=self.state.model.with_threshold(self.chosen.threshold))
        return self.state.model

    def _run(self, asked: Stopping) -> None:
        learner: Any = self.state.model.learner
        if not self._progressive and (self.checkpoints is not None or self.passes > 1):
            raise InvalidParameterError(
                f"{learner.algorithm.name} takes all rows at once: it has no checkpoints, and learns in one pass"
            )
        if learner.reads == "again":
            learner.learn_from(self.stream.batches)
            self.state = self.state._replace(passes=1)
            self._most_skipped = self.skipped
            return
        while self.state.passes < self.passes:
            if self.stream.skipped is not None and self.state.passes and self.state.position == START:
                self.stream.skipped.count = 0  # a further pass comes by the same records again
            source = batches_from(self.stream, self.state.position)
            while True:
                try:
                    with asked.waiting():
                        found = next(source, None)
                except InvalidInputError:  # a bad record: rows before it are learned
                    if self.checkpoints is not None and self.checkpoints.regular:
                        self._checkpoint()
                    raise
                if found is None:
                    break
                _, batch = found
                self._learn(batch, asked)
                if batch.position is not None:
                    self.state = self.state._replace(position=batch.position, skipped=self._skipped_now())
                self.watch.moved(step_of(self.state, self.passes))
                if self.checkpoints is not None and self.checkpoints.is_late():
                    self._checkpoint()
            self._end_pass()
        learner.finish()

    def _end_pass(self) -> None:
        self.state = self.state._replace(passes=self.state.passes + 1, position=START, skipped=0)
        self._most_skipped = self.skipped

    def _learn(self, batch: Batch, asked: Stopping) -> None:
        """The rows of a batch, halting where a line or a checkpoint is due."""
        lines = self.watch.lines and self._progressive
        while len(batch):
            line = self._next_line()
            rows = min(len(batch), line - self.state.progress.rows) if lines else len(batch)
            due = self.checkpoints.due_in(self._since) if self.checkpoints else None
            if due is not None:
                rows = min(rows, due)
            now = batch if rows == len(batch) else batch.until(rows)
            self._take(now)
            if lines and self.state.progress.rows == line:  # rows of weight 0 do not count
                self._line()
            if due == rows:
                self._checkpoint()
            asked.check()
            batch = batch.after(rows) if rows < len(batch) else batch.until(0)

    def _take(self, rows: Batch) -> None:
        y, model = rows.require_labels(), self.state.model
        classes, known = model.classes, len(model.classes)
        if isinstance(classes, GrowingClasses):
            classes, y = classes.numbered(self.stream.classes or (-1, 1), y)
            rows = rows.labelled(y, rows.weights)
        self._order.update(y)
        model, scores = model.learn(rows, classes, scores=self._progressive)
        if not self._away and (away := lanes_away(model.learner)):
            self._away = away
            self.watch.placed("cuda", away)
        self.state = self.state._replace(model=model)
        if self._progressive:
            scores = self._judged(scores)
            self.state.progress.update(scores, y, rows.weights)
            if self._recent is not None:
                self._recent.update(scores, y, rows.weights)
            if self.drift is not None:
                self._watch_drift(self.drift, scores, rows, known)
        self._since += len(rows)
        self.state = self.state._replace(position=self._position_after(len(rows)))

    def _position_after(self, rows: int) -> Position:
        """Where the source goes on after so many more rows."""
        position = self.state.position
        return position._replace(skip=position.skip + rows)

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        """The scores that metrics count: those that rows got just before they were learned."""
        return scores

    def _watch_drift(self, drift: DriftWatch, scores: NDArray[Any], rows: Batch, known: int) -> None:
        y, model = rows.require_labels(), self.state.model
        right = y > 0 if model.classes.are_two else y
        wrong = (called(scores, known_before(y, known)) if model.classes.grow else model.chosen(scores)) != right
        for told in drift.update(wrong if rows.weights is None else wrong[rows.weights != 0]):
            self.watch.changed(told.monitor, told.change.row, told.change.since)

    def _next_line(self) -> int:
        """The next power of two of examples, 64 or more."""
        return max(1 << self.state.progress.rows.bit_length(), FIRST_LINE)

    def _line(self) -> None:
        progress, learner = self.state.progress, self.state.model.learner
        many = learner.n_weights * n_vectors(learner) + FETCH * lanes_away(learner)
        nnz = learner.nnz if self.watch.wants_nnz(many) else None
        met = None if nnz is None else self.state.model.n_weights_met
        self.watch.line(
            Line(
                progress.report(self.tradeoff),
                progress.since_mark(self.tradeoff),
                nnz,
                learner.n_features,
                met,
                kinds_of_rows(learner),
            )
        )
        progress.mark()

    def _checkpoint(self) -> None:
        assert self.checkpoints is not None
        names = {} if self.stream.names is None else self.stream.names.arrays()
        drift = {} if self.drift is None else self.drift.arrays()
        recent = {} if self._recent is None else self._recent.arrays()
        self.checkpoints.write(self.state._replace(names=names, drift=drift, recent=recent), self._source)
        self._since = 0

    def clear(self) -> None:
        """The run is over and its model safe: no checkpoint stays behind."""
        if self.checkpoints is not None:
            self.checkpoints.remove()

    @property
    def kept(self) -> str:
        """What the checkpoint has of a run that was stopped."""
        return "holds all of it"

    @property
    def skipped(self) -> int:
        """Bad records passed over, counted once however many passes there are."""
        return max(self._most_skipped, self._skipped_now())

    def _skipped_now(self) -> int:
        return 0 if self.stream.skipped is None else self.stream.skipped.count

    def looks_sorted(self) -> bool:
        """Whether labels came in far longer runs than in any random order."""
        return self._order.looks_sorted

    def report(self) -> dict[str, Any] | None:
        """The progressive metrics, as JSON has them; None where no row was scored before it was learned."""
        return self.state.progress.report(self.tradeoff).as_dict() if self.state.progress.rows else None

    def names(self) -> Names | None:
        """Names of features the source has told, for the model file."""
        return self.state.model.names_kept(Names.from_stream(self.stream, self.state.model.names))


def learn_stream(model: Model, stream: Stream, passes: int = 1) -> Model:
    """The model after ``passes`` over a stream, with the names it has told; its learner is changed in place.

    It grows as the stream gets wider. A stream whose features mean something else is refused.
    """
    first = model.learner
    grow, first.grow = first.grow, True
    run = Run(stream, model, passes=passes)
    try:
        model = run.run()
    except Interrupted as stopped:
        raise KeyboardInterrupt if stopped.number == signal.SIGINT else SystemExit(128 + stopped.number) from None
    finally:
        first.grow = run.state.model.learner.grow = grow
    if model.learner.t == 0:
        raise InvalidInputError("the stream has no example")
    for remark in getattr(stream, "remarks", []):
        warnings.warn(remark, UserWarning, stacklevel=3)
    if run.looks_sorted():
        warn_of_sorted("shuffle them first (thinstream shuffle)", stacklevel=3)
    return replace(model, names=run.names(), report=run.report(), reading=how_read(stream, model.reading))


def require_stream(given: Any) -> None:
    """Raises on what is no stream: a path, say."""
    if not hasattr(given, "feature_space"):
        raise InvalidInputError(f"a stream is needed, got {given!r}; thinstream.open_stream makes one of files")


def score_stream(model: Model, stream: Stream, named: str = "the model") -> Iterator[tuple[Batch, NDArray[Any]]]:
    """Batches of a stream with their scores. A stream whose features mean something else is refused at once.

    ``named`` is what messages call the model: its file, say.
    """
    require_stream(stream)
    model.require_features(stream.feature_space, "the data", named)
    return ((batch, model.learner.scores(batch)) for batch in stream.batches())


def step_of(state: State, passes: int) -> Step:
    """How far a run of so many passes is."""
    return Step(state.progress.rows, state.position, state.passes, passes, state.skipped)


def _require_goal(goal: Goal, model: Model) -> None:
    """Raises where no threshold can be chosen."""
    if not model.classes.are_two:
        raise InvalidParameterError(not_two(model.classes, f"a threshold for {goal.kind.replace('_', ' ')}"))
    if model.learner.reads != "once":
        raise InvalidParameterError(
            f"{model.learner.algorithm.name} holds its rows: it has no scores before each update to choose a threshold "
            "on; give it as a score"
        )
