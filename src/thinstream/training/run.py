"""A training run: a model learns a stream, with progressive metrics, checkpoints and early stopping."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.labels import GrowingClasses, LabelOrder, known_before, predict_known
from thinstream.data.options import how_read
from thinstream.data.stream import START, Stream, batches_from
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.models.file import Grade, write
from thinstream.models.model import Model, Names, not_two
from thinstream.training.checkpoint import Checkpoints, State
from thinstream.training.metrics import P3, Tradeoff, progress_for
from thinstream.training.monitors import DriftWatch
from thinstream.training.observer import FIRST_LINE, Line, NullObserver, Observer, Step
from thinstream.training.threshold import Chosen, Goal, RecentScores


class Interrupted(BaseException):
    """A signal has stopped the run.

    It is not an `Exception`, so that code that handles errors of a message does not handle it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stopping:
    """Records SIGINT and SIGTERM, so that the run stops between two steps or while it waits for input."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._waiting = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:  # the second signal stops the process immediately
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.number = number
        if self._waiting:
            raise Interrupted(number)

    def check(self) -> None:
        """Raise if a signal has arrived."""
        if self.number is not None:
            raise Interrupted(self.number)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a signal interrupt the block, which may wait indefinitely."""
        self.check()
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Handle SIGINT and SIGTERM in a block, if it runs in the main thread."""
    asked = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, asked._take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


#: Counting this number of weights takes as long as copying a lane from a GPU.
FETCH = 10_000


def learn_nothing(model: Model, dtype: str, progress: Any, n_rows: int = 0) -> None:
    """Call every compiled function that learning from a stream calls, with no rows (or one)."""
    labels = np.ones(n_rows, model.classes.coded(np.empty(0)).dtype)
    indices = np.zeros(n_rows, np.int32)
    batch = Batch(np.arange(n_rows + 1), indices, np.ones(n_rows, dtype=dtype), n_rows, labels)
    progress.update(model.learner.learn(batch), labels)


class Run:
    """Train a model on a stream: score each batch, learn it, and count metrics.

    Parameters
    ----------
    stream : Stream
    model : Model
        The model, which is changed in place.
    passes : int
        The number of passes over the stream.
    checkpoints : Checkpoints or None
    watch : Observer
        Receives lines of metrics and progress.
    drift : DriftWatch or None
        Receives which rows were misclassified.
    tradeoff : Tradeoff
        The weights of the weighted sum and the cost.
    goal : Goal or None
        The goal of the threshold, which is chosen at the end on progressive scores.

    """

    #: Whether this process can write a checkpoint by itself.
    _is_alone = True
    #: Writes the trained model to a file.
    write_model: Callable[[Path, Model, Grade], None] = staticmethod(write)

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
        self.state = State(model, progress_for(model.classes, model.threshold, model.has_probabilities), 0, START)
        self._source = {**stream.fingerprint(), "passes": passes} if checkpoints else {}
        if checkpoints and drift is not None:
            self._source["monitors"] = [*drift.monitors]
        self.goal, self._recent = goal, None if goal is None else RecentScores()
        self.chosen: Chosen | None = None  # the threshold, after the run
        self.no_threshold: str | None = None  # or the reason why no threshold reaches the goal
        self.is_resumed = False
        self._reading = model.reading
        if checkpoints and goal is not None:
            self._source["goal"] = [*goal]
        self._source.pop("on_error", None)  # after an error, the user may resume with --on-error skip
        self._since = 0  # rows since the last checkpoint
        self._grain = 1  # rows are learned in multiples of it, except at the end of a batch
        self._order = LabelOrder()
        self._most_skipped = 0  # in a completed pass
        self._lanes_reported = 0  # lanes on a GPU that the observer knows
        self._progressive = model.learner.reads == "once"  # batch methods have no progressive scores
        if goal is not None:
            _require_goal(goal, model)

    def resume(self) -> bool:
        """Continue from the last checkpoint. Return False if there is none."""
        assert self.checkpoints is not None
        state = self.checkpoints.read(self._source, self._like())
        if state is None:
            return False
        if state.model.class_weight != self.state.model.class_weight:
            raise InvalidInputError(
                f"{self.checkpoints.path} cannot be resumed, because its class weights are "
                f"{state.model.class_weight!r}, and the command has {self.state.model.class_weight!r}"
            )
        state.model.learner.outputs.place(self.state.model.learner.outputs.device)
        self.state = state
        if self.stream.skipped is not None:
            self.stream.skipped.count = state.skipped
        if self.stream.names is not None:
            self.stream.names.restore(state.names)
        if self.drift is not None:
            self.drift.restore(state.drift)
        if self._recent is not None:
            self._recent = RecentScores.from_arrays(state.recent)
        return True

    def _like(self) -> Model | None:
        """Return a model with the properties that the checkpoint must have. None: any."""
        return self.state.model

    def prepare(self) -> None:
        """Load all compiled code (or compile it, which takes seconds) before the first byte is read."""
        warm_up = getattr(self.stream, "warm_up", None)
        if warm_up is not None:
            warm_up()
        if not self._progressive:
            return
        learn_nothing(self.state.model, self.stream.dtype, self.state.progress)

    def run(self) -> Model:
        """Learn the rest of the stream. If a signal stops the run, write a checkpoint and raise `Interrupted`."""
        self.watch.begin()
        with stopping() as asked:
            try:
                self.learn(asked)
            except Interrupted:
                if self.checkpoints is not None:
                    self._checkpoint()
                raise
        return self._finished()

    def _finished(self) -> Model:
        """Return the model after the last row, with the chosen threshold."""
        if self.watch.lines and self.state.progress.since_mark().rows:  # not if the last row was at a doubling
            self._line()
        if self.goal is not None and self._recent is not None:
            chosen = self._recent.choose_or_explain(self.goal)
            if isinstance(chosen, str):
                self.no_threshold = chosen
            else:
                self.chosen = chosen
                self.state = self.state._replace(model=self.state.model.with_threshold(chosen.threshold))
        return self.state.model

    def learn(self, asked: Stopping) -> None:
        """Learn the rest of the stream, until a signal arrives."""
        learner: Any = self.state.model.learner
        if not self._progressive and (self.checkpoints is not None or self.passes > 1):
            raise InvalidParameterError(
                f"{learner.algorithm.name} is a batch method: it has no checkpoints, and learns in one pass"
            )
        if learner.reads == "again":
            learner.outputs.one.learn_from(self.stream.batches)
            self.state = self.state._replace(passes=1)
            self._most_skipped = self.skipped
            return
        while self.state.passes < self.passes:
            self.state.model.begin_pass(self.state.passes)
            if self.stream.skipped is not None and self.state.passes and self.state.position == START:
                self.stream.skipped.count = 0  # another pass skips the same records again
            source = self._batches()
            while True:
                try:
                    with asked.waiting():
                        batch = next(source, None)
                except InvalidInputError:  # an invalid record, after learned rows
                    if self._is_alone and self.checkpoints is not None and self.checkpoints.regular:
                        self._checkpoint()
                    raise
                if batch is None:
                    break
                self._learn(batch, asked)
                if batch.position is not None:
                    self.state = self.state._replace(position=batch.position, skipped=self._skipped_now())
                self.watch.moved(step_of(self.state, self.passes))
                if self._is_late():
                    self._checkpoint()
            self._end_pass()
        self.state.model.begin_pass(0)  # later rows are new
        learner.finish()

    def _batches(self) -> Iterator[Batch]:
        """Return the rest of the pass."""
        return (batch for _, batch in batches_from(self.stream, self.state.position))

    def _end_pass(self) -> None:
        self.state = self.state._replace(passes=self.state.passes + 1, position=START, skipped=0)
        self._most_skipped = self.skipped

    def _learn(self, batch: Batch, asked: Stopping) -> None:
        """Learn the rows of a batch, and stop in between when a line or a checkpoint is due."""
        lines = self.watch.lines and self._progressive
        while len(batch):
            line = self._next_line()
            rows = min(len(batch), line - self.state.progress.rows) if lines else len(batch)
            due = self.checkpoints.due_in(self._since) if self.checkpoints else None
            if due is not None:
                rows = min(rows, due)
            rows = min(-(-rows // self._grain) * self._grain, len(batch))
            now = batch if rows == len(batch) else batch.until(rows)
            self._take(now)
            if lines and self.state.progress.rows >= line:  # rows of weight 0 do not count
                self._line()
            if due is not None and rows >= due:
                self._checkpoint()
            asked.check()
            batch = batch.after(rows) if rows < len(batch) else batch.until(0)

    def _take(self, rows: Batch) -> None:
        y, model = rows.require_labels(), self.state.model
        classes, n_known = model.classes, len(model.classes)
        if isinstance(classes, GrowingClasses):
            classes, y = classes.numbered(self.stream.classes or (-1, 1), y)
            rows = rows.labelled(y, rows.weights)
        self._order.update(y)
        model, scores = model.learn(rows, classes, scores=self._progressive)
        if not self._lanes_reported and (n_lanes := model.learner.outputs.n_lanes_on_gpu):
            self._lanes_reported = n_lanes
            self.watch.placed("cuda", n_lanes)
        self.state = self.state._replace(model=model)
        if self._progressive:
            scores = self._judged(scores)
            self.state.progress.update(scores, y, rows.weights)
            if self._recent is not None:
                self._recent.update(scores, y, rows.weights)
            if self.drift is not None:
                self._watch_drift(self.drift, scores, rows, n_known)
        self._since += len(rows)
        self.state = self.state._replace(position=self._position_after(len(rows)))

    def _position_after(self, rows: int) -> Position:
        """Return the position in the source after more rows."""
        position = self.state.position
        return position._replace(skip=position.skip + rows)

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores that metrics count, by default the progressive scores."""
        return scores

    def _watch_drift(self, drift: DriftWatch, scores: NDArray[Any], rows: Batch, n_known: int) -> None:
        y, model = rows.require_labels(), self.state.model
        right = y > 0 if model.classes.are_two else y
        predicted = predict_known(scores, known_before(y, n_known)) if model.classes.grow else model.chosen(scores)
        wrong = predicted != right
        for detection in drift.update(wrong if rows.weights is None else wrong[rows.weights != 0]):
            self.watch.changed(detection.monitor, detection.change.row, detection.change.since)

    def _next_line(self) -> int:
        """Return the number of rows at the next line, a power of two from 64 on."""
        return max(1 << self.state.progress.rows.bit_length(), FIRST_LINE)

    def _line(self) -> None:
        progress, learner = self.state.progress, self.state.model.learner
        many = learner.n_weights * learner.n_members + FETCH * learner.outputs.n_lanes_on_gpu
        nnz = learner.nnz if self._wants_nnz(many) else None
        met = None if nnz is None else self.state.model.n_weights_met
        self.watch.line(
            Line(
                progress.report(self.tradeoff),
                progress.since_mark(self.tradeoff),
                nnz,
                learner.n_features,
                met,
                learner.n_kinds,
            )
        )
        progress.mark()

    def _is_late(self) -> bool:
        return self.checkpoints is not None and self.checkpoints.is_late()

    def _wants_nnz(self, n_weights: int) -> bool:
        return self.watch.wants_nnz(n_weights)

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
        """The state of the checkpoint of a stopped run, for messages."""
        return "holds all of it"

    @property
    def skipped(self) -> int:
        """The number of skipped records, each counted once."""
        return max(self._most_skipped, self._skipped_now())

    def _skipped_now(self) -> int:
        return 0 if self.stream.skipped is None else self.stream.skipped.count

    def looks_sorted(self) -> bool:
        """Return whether labels come in much longer runs than in random order."""
        return self._order.looks_sorted

    def report(self) -> dict[str, Any] | None:
        """Return the progressive metrics for JSON, or None if there are no progressive scores."""
        return self.state.progress.report(self.tradeoff).as_dict() if self.state.progress.rows else None

    def names(self) -> Names | None:
        """Return the feature names of the source, for the model file."""
        return self.state.model.names_kept(Names.from_stream(self.stream, self.state.model.names))

    def result(self) -> Model:
        """The trained model with the names of its features, its progressive metrics and how its rows were read."""
        reading, report = how_read(self.stream, self._reading), self.report()
        if report is not None and self.goal is not None and self.chosen is not None:
            report["goal"] = [*self.goal]  # thinning sets the threshold again
        return replace(self.state.model, names=self.names(), report=report, reading=reading)


def require_stream(stream: Any) -> None:
    """Raise if something is not a stream, for example a path."""
    if not hasattr(stream, "feature_space"):
        raise InvalidInputError(f"stream must be a stream, got {stream!r}. Open files with thinstream.open_stream")


def score_stream(model: Model, stream: Stream, named: str = "the model") -> Iterator[tuple[Batch, NDArray[Any]]]:
    """Batches of a stream with their scores. A stream whose features mean something else is refused at once.

    ``named`` is how messages refer to the model, such as its file name.
    """
    require_stream(stream)
    model.require_features(stream.feature_space, "the data", named)
    return ((batch, model.learner.scores(batch)) for batch in stream.batches())


def step_of(state: State, passes: int) -> Step:
    """Return the progress of a run with this number of passes."""
    return Step(state.progress.rows, state.position, state.passes, passes, state.skipped)


def _require_goal(goal: Goal, model: Model) -> None:
    """Raise if no threshold can be chosen."""
    if not model.classes.are_two:
        raise InvalidParameterError(not_two(model.classes, f"a threshold for {goal.metric.replace('_', ' ')}"))
    if model.learner.reads != "once":
        raise InvalidParameterError(
            f"{model.learner.algorithm.name} holds its rows: it has no scores before each update to choose a threshold "
            "on; give it as a score"
        )
