"""Training by examples: each worker learns its own rows, and in rounds their changes are merged into one model.

The driver holds the base model, the position of each worker and the metrics. A checkpoint contains all of this. If a
worker dies, it is replaced, and its round starts again from the base, so no half-learned round is ever merged.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.labels import Classes
from thinstream.data.stream import START
from thinstream.distributed.deltas import Change, apply_delta, combining_for, copy_learner, delta, merge_deltas
from thinstream.distributed.engines.launcher import Launcher
from thinstream.distributed.sources import Cursor, Shard, ShardPosition, Source
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError
from thinstream.models import file
from thinstream.models.container import plain
from thinstream.models.merging import powers_of
from thinstream.models.model import Model
from thinstream.models.pipeline import Pipeline, require_all_features
from thinstream.training.checkpoint import Checkpoints, State, described, require_same
from thinstream.training.job import Job, OpenSource
from thinstream.training.metrics import Progress
from thinstream.training.observer import FIRST_LINE, Line, NullObserver, Observer
from thinstream.training.run import Interrupted, Stopping, step_of, stopping

# Progressive metrics of several workers, counted together.
#
# Counts are integers and can be added in any order. Sums of losses are separate for each worker, and added in the order
# of the workers. So one worker gives a bit-identical result to a run on one machine.

Arrays = dict[str, NDArray[Any]]
_TOTALS, _EACH = "totals", "worker_totals"


def begin_round(classes: int, totals: NDArray[np.float64], threshold: float = 0.0) -> Progress:
    """Return the progress of a worker in a round. Its sums of losses continue, its counts start at 0."""
    return Progress.from_arrays(Progress(classes).arrays() | {_TOTALS: totals}, threshold)


def round_counts(progress: Progress) -> Arrays:
    """Return the counts of a round as a worker sends them. Most bins are empty, so only the others are sent."""
    arrays = {name: array for name, array in progress.arrays().items() if not name.startswith("mark_")}
    bins = arrays.pop("bins").ravel()
    positions = np.flatnonzero(bins)
    return arrays | {"positions": positions, "numbers": bins[positions]}


class Tallies:
    """The metrics of all workers.

    Examples
    --------
    >>> tallies = Tallies(2, workers=2)
    >>> for worker in range(2):
    ...     progress = begin_round(2, tallies.totals(worker))
    ...     progress.update(np.array([-1.0, 0.5]), np.array([-1, -1], np.int8))
    ...     tallies.add(worker, round_counts(progress))
    >>> tallies.progress().report().error
    0.5

    """

    def __init__(self, classes: int, workers: int) -> None:
        self._sum = Progress(classes).arrays()
        self._each = np.zeros((workers, len(self._sum[_TOTALS])))

    def totals(self, worker: int) -> NDArray[np.float64]:
        return np.array(self._each[worker])

    def add(self, worker: int, counts: Arrays) -> None:
        """Add the counts of a worker's round."""
        for name in ("classes", "confusion"):
            self._sum[name] += counts[name]
        self._sum["bins"].reshape(-1)[counts["positions"]] += counts["numbers"]
        self._each[worker] = counts[_TOTALS]
        self._sum[_TOTALS] = np.add.reduce(self._each, axis=0)

    def progress(self) -> Progress:
        return Progress.from_arrays(self._sum)

    def mark(self) -> None:
        """Set the mark to the current state."""
        for name in [name for name in self._sum if not name.startswith("mark_")]:
            self._sum["mark_" + name] = self._sum[name].copy()

    def arrays(self) -> Arrays:
        return {**self._sum, _EACH: self._each}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._each = np.array(arrays[_EACH])
        self._sum = Progress.from_arrays(arrays).arrays()


# In a round, a worker learns a number of rows of its shard and returns the changes.
#
# A process remembers the base of its last round and its position in the shard, so neither must be sent or opened again.
# A new process gets them with the task, or requests them.


class Answer(NamedTuple):
    """The result of a worker's round."""

    change: Change
    reached: ShardPosition
    tally: Arrays
    rows: int  # rows learned in this round
    over: bool  # whether the shard is finished
    skipped: int  # the most bad records in one pass


class NeedsBase(NamedTuple):
    """The reply of a new process, which needs the whole base."""


@dataclass
class _Kept:
    """The state of a worker's last round in its process."""

    job: str
    version: int
    base: Pipeline
    cursor: Cursor


_kept: dict[int, _Kept] = {}


class RoundStream:
    """The next rows of a worker as a stream of one pass. The cursor has the position and the bad records."""

    unit, size = "rows", None
    names = skipped = None
    run: Any = None  #: the run that learns the rows; its model depends on the pass they are in

    def __init__(self, cursor: Cursor, rows: int) -> None:
        self._cursor, self._rows, self.taken = cursor, rows, 0
        stream = cursor.stream
        self.feature_space, self.dtype, self.classes = stream.feature_space, stream.dtype, stream.classes

    def done(self, position: Position) -> None:
        """Return None: it is not known how much there is."""

    def fingerprint(self) -> dict[str, Any]:
        return self._cursor.stream.fingerprint()

    def batches(self, start: Position = START) -> Iterator[Batch]:
        for batch in self._cursor.take(self._rows):
            self.taken += len(batch)
            if self.run is not None:
                self.run.state.model.begin_pass(self._cursor.reached.passes)
            yield batch


@dataclass(frozen=True)
class Round:
    """A worker's task: learn up to ``rows`` rows from ``reached``, starting from the base with number ``version``.

    The base is whole, or a change of the previous base for processes that still have that one.
    """

    job: str
    worker: int
    shard: Callable[[], Shard]
    reached: ShardPosition
    rows: int
    passes: int
    version: int
    classes: tuple[Any, ...]
    totals: NDArray[np.float64]
    base: Callable[[], Pipeline] | None = None
    change: Callable[[], Change] | None = None
    threshold: float = 0.0  # scores above it are positive, for the metrics

    def __call__(self) -> Answer | NeedsBase:
        base = self._base()
        if base is None:
            return NeedsBase()
        cursor = self._cursor()
        rows = RoundStream(cursor, self.rows)
        classes, space = Classes(*self.classes), cursor.stream.feature_space
        model = Model(copy_learner(base), classes, space, threshold=self.threshold)
        run = rows.run = Job(OpenSource(rows), model).start()
        run.state = run.state._replace(progress=begin_round(len(self.classes), self.totals, self.threshold))
        run.learn(Stopping())  # the driver handles signals
        _kept[self.worker] = _Kept(self.job, self.version, base, cursor)
        change, tally = delta(base, run.state.model.learner), round_counts(run.state.progress)
        return Answer(change, cursor.reached, tally, rows.taken, cursor.over, cursor.most_skipped)

    def _base(self) -> Pipeline | None:
        if self.base is not None:
            return copy_learner(self.base())  # shared values may be read-only
        kept = _kept.get(self.worker)
        if kept is None or kept.job != self.job:
            return None
        if kept.version == self.version:
            return kept.base
        if kept.version == self.version - 1 and self.change is not None:
            return apply_delta(kept.base, self.change())
        return None

    def _cursor(self) -> Cursor:
        kept = _kept.pop(self.worker, None)  # forgotten if this round fails
        if kept is not None and kept.job == self.job and kept.cursor.reached == self.reached:
            return kept.cursor
        return Cursor(self.shard().open(), self.reached, self.passes)


@dataclass(frozen=True)
class Idle:
    def __call__(self) -> None:
        """Do nothing."""


#: The fewest and the most rows of a worker in a round. The most is at least TIMES as many as make a round worthwhile.
FEWEST, MOST, TIMES = 16, 1 << 18, 16
#: The share of rows that other workers may have learned without a worker's knowledge, at first and after STEADY rows
#: per worker, when models are steadier.
UNKNOWN, LATER, STEADY = 0.11, 0.44, 1 << 12

#: The key of a checkpoint's state of the run, and the attributes of the driver that are saved unchanged.
_KEY, _SAVED = "distributed", ("over", "skipped", "taken", "version")


def learn_examples(launcher: Launcher, source: Source, model: Model, *, resume: bool = False, **options: Any) -> State:
    """Train on the shards of all workers and return the state; ``options`` are those of `Driver`.

    ``resume``: whether to continue from the checkpoint, if it exists. The given model is not changed.
    """
    return Driver(launcher, source, model, **options).run(resume)


def rows_of_round(taken: int, workers: int, worthwhile: int = 1 << 12) -> int:
    """Return the rows of each worker in the next round, after each has learned ``taken``, or all together as many.

    In the first round, one worker learns alone: changes of models that have learned almost nothing would gain little,
    and cost dozens of rounds.

    >>> [rows_of_round(taken, 8) for taken in (0, 160, 4000, 5000, 1_000_000)]
    [32768, 20, 502, 2514, 262144]
    >>> rows_of_round(160, 2), rows_of_round(160, 1)
    (35, 262144)
    """
    most = max(MOST, TIMES * worthwhile)
    if workers == 1:
        return most
    if not taken:
        return workers * worthwhile
    share = (UNKNOWN if taken < STEADY else LATER) * workers / (workers - 1)
    return max(FEWEST, min(int(share * taken), most))


class Driver:
    """A distributed run, in the driver process.

    ``merge_every`` is the number of rows of each worker between two merges. None: one worker begins alone. Then each
    round is so short that a worker misses at most a ninth of all rows, and later, when models are steadier, four times
    as much. ``merge`` is the way to combine changes, see `deltas`. Checkpoints are written at merges, if they are due.
    """

    def __init__(
        self,
        launcher: Launcher,
        source: Source,
        model: Model,
        *,
        merge_every: int | None = None,
        merge: str | None = None,
        passes: int = 1,
        checkpoints: Checkpoints | None = None,
        watch: Observer | None = None,
    ) -> None:
        if merge_every is not None and merge_every < 1:
            raise InvalidParameterError(f"merge_every must be a whole number > 0, or None, got {merge_every!r}")
        require_all_features(model.learner)
        first = next(iter(model.learner.outputs))
        if model.blends:
            if merge is not None:
                raise InvalidParameterError(
                    f"merge must be None for Auto, because each of its members has its own way, got {merge!r}"
                )
        elif launcher.workers > 1 or merge is not None:
            merge = combining_for(first, merge).way  # raises at once if the algorithm cannot be merged
            if model.preparation.scale is not None:
                powers_of(first)
        self.launcher, self.model, self.way, self.passes = launcher, model, merge, passes
        self.merge_every, self.checkpoints, self.watch = merge_every, checkpoints, watch or NullObserver()
        self.job, self.base, self.version = secrets.token_hex(8), model.learner, 0
        workers = launcher.workers
        self.positions, self.over, self.skipped = [ShardPosition()] * workers, [False] * workers, [0] * workers
        self.taken, self.tallies = model.learner.t // workers, Tallies(len(model.classes), workers)
        self.shards = [launcher.share(shard) for shard in source.shards(workers)]
        self.source = source.fingerprint() if checkpoints else {}
        self._whole: tuple[int, Callable[[], Pipeline]] | None = None  # the last shared base and its number
        self._change: Callable[[], Change] | None = None
        self._since, self._lined = 0, 0

    def run(self, resume: bool) -> State:
        """Run rounds until all shards are learned."""
        if resume:
            self._resume()
        self.watch.begin()
        with stopping() as asked:
            try:
                self._run(asked)
            except Interrupted:
                self._checkpoint()
                raise
        if self.watch.lines and self.tallies.progress().since_mark().rows:
            self._line()
        if not self.base.t:
            raise InvalidInputError("the source has no examples")
        return self._state()

    def _run(self, asked: Stopping) -> None:
        while not all(self.over):
            rows = self.merge_every or rows_of_round(self.taken, self.launcher.workers, self.launcher.worthwhile)
            alone = self.merge_every is None and not self.taken
            answers = self._answers(rows, alone)
            before, self.base = self.base, self._merge_answers(answers)
            taken = max(self.base.t // self.launcher.workers, 1)  # per worker, as if all had learned it
            self.version, self.taken = self.version + 1, taken if alone else self.taken + rows
            change = None
            if (
                self.launcher.remembers and not alone and not all(self.over)
            ):  # the other workers do not have the first base
                change = delta(before, self.base)
            self._change = None if change is None else self.launcher.share(change)
            self.watch.moved(step_of(self._state(), self.passes))
            self._report()
            asked.check()

    def _answers(self, rows: int, alone: bool) -> list[Answer | None]:
        """Return the answers of all workers in order; None for a worker that has nothing to do."""
        tasks = [Idle() if alone and worker else self._task(worker, rows) for worker in range(self.launcher.workers)]
        answers: list[Any] = self.launcher.run_tasks(tasks)
        lost = [worker for worker, answer in enumerate(answers) if isinstance(answer, NeedsBase)]
        if lost:
            again = [self._task(worker, rows, whole=True) if worker in lost else Idle() for worker in range(len(tasks))]
            second: list[Any] = self.launcher.run_tasks(again)
            for worker in lost:
                answers[worker] = second[worker]
        return answers

    def _task(self, worker: int, rows: int, whole: bool = False) -> Round | Idle:
        if self.over[worker]:
            return Idle()
        if whole or self._change is None:
            if self._whole is None or self._whole[0] != self.version:
                self._whole = self.version, self.launcher.share(self.base)
            base, change = self._whole[1], None
        else:
            base, change = None, self._change
        context = self.passes, self.version, tuple(self.model.classes), self.tallies.totals(worker), base, change
        return Round(
            self.job, worker, self.shards[worker], self.positions[worker], rows, *context, self.model.threshold
        )

    def _merge_answers(self, answers: list[Answer | None]) -> Pipeline:
        """Return the new base; update positions and metrics."""
        answered = {worker: answer for worker, answer in enumerate(answers) if answer is not None}
        for worker, answer in answered.items():
            self.positions[worker], self.over[worker] = answer.reached, answer.over
            self.skipped[worker] = max(self.skipped[worker], answer.skipped)
            self.tallies.add(worker, answer.tally)
            self._since += answer.rows
        return merge_deltas(self.base, [answer.change for answer in answered.values()], self.way)

    def _report(self) -> None:
        """Print a line if the number of examples has doubled; write a checkpoint if it is due."""
        rows = self.tallies.progress().rows if self.watch.lines else 0
        if rows >= FIRST_LINE and rows.bit_length() > self._lined:
            self._lined = rows.bit_length()
            self._line()
        if self.checkpoints is not None:
            due = self.checkpoints.due_in(self._since)
            if (due is not None and due <= 0) or self.checkpoints.is_late():
                self._checkpoint()

    def _line(self) -> None:
        progress, learner = self.tallies.progress(), self.base
        nnz = learner.nnz if self.watch.wants_nnz(learner.n_weights) else None
        n_met = None if nnz is None else replace(self.model, learner=learner).n_weights_met
        self.watch.line(Line(progress.report(), progress.since_mark(), nnz, learner.n_features, n_met, learner.n_kinds))
        self.tallies.mark()

    def _state(self) -> State:
        now = replace(self.model, learner=self.base)
        return State(now, self.tallies.progress(), min(p.passes for p in self.positions), START, sum(self.skipped))

    def _described(self) -> dict[str, Any]:
        return {
            **described(self.model),
            "source": self.source,
            "workers": self.launcher.workers,
            "merge": self.way,
            "merge_every": self.merge_every,
            "passes": self.passes,
        }

    def _checkpoint(self) -> None:
        """Write the base, the positions and the metrics, atomically."""
        if self.checkpoints is None:
            return
        saved = {
            "run": self._described(),
            "positions": [[p.passes, list(p.position), p.skipped] for p in self.positions],
            **{name: getattr(self, name) for name in _SAVED},
        }
        model = replace(self.model, learner=self.base, arrays=self.tallies.arrays())
        file.write(self.checkpoints.path, replace(model, extra={**model.extra, _KEY: saved}))
        self.checkpoints.wrote()
        self._since = 0

    def _resume(self) -> None:
        """Load the last checkpoint, if it exists. It must belong to the same run."""
        if self.checkpoints is None:
            raise InvalidParameterError("resume needs the path of a checkpoint. Pass checkpoint=")
        path = self.checkpoints.path
        if not path.exists():
            return
        model = file.read(path)
        saved = model.extra.get(_KEY)
        if saved is None:
            raise ModelFileError(
                f"{path} is not a checkpoint of a distributed run. Give the checkpoint of this run, or "
                f"start without resume"
            )
        require_same(path, "run", saved["run"], plain(self._described(), "run"))
        self.base = model.learner
        self.positions = [
            ShardPosition(passes, Position(*position), skipped) for passes, position, skipped in saved["positions"]
        ]
        for name in _SAVED:
            setattr(self, name, saved[name])
        self.tallies.restore(model.arrays)
        self._lined = self.tallies.progress().rows.bit_length()
