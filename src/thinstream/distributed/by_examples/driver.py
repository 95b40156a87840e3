"""Each worker learns its own part of the examples; now and then what they learned becomes one model, their new base.

The driver holds the base, where each worker goes on, and the metrics: all that a checkpoint has. A worker that died is
replaced and begins its round anew from the base, so nothing is ever merged by half.
"""

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from thinstream.batch import Position
from thinstream.blend.serving import blends_of, kinds_of_rows
from thinstream.budget.learner import require_all_features
from thinstream.compact import narrow_learner
from thinstream.distributed.by_examples.deltas import Change, delta, merge_deltas
from thinstream.distributed.by_examples.increments import combining_for
from thinstream.distributed.by_examples.metrics import Tallies
from thinstream.distributed.by_examples.worker import Answer, Idle, NeedsBase, Round
from thinstream.distributed.cursor import Place
from thinstream.distributed.engines.launcher import Launcher
from thinstream.distributed.sources import Source
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError
from thinstream.evaluate.observer import FIRST_LINE
from thinstream.models import file
from thinstream.models.container import plain
from thinstream.models.model import Model
from thinstream.one_vs_rest import AnyLearner
from thinstream.preparing import plain_learner
from thinstream.preparing.merging import powers_of
from thinstream.streams.stream import START
from thinstream.training.checkpoint import Checkpoints, State, described, require_same
from thinstream.training.run import Interrupted, Line, NullObserver, Observer, step_of
from thinstream.training.stopping import Stopping, stopping

#: The fewest rows of a worker in a round that all learn in, and the most; of the latter at least so many times as many
#: as make a round worth its cost.
FEWEST, MOST, TIMES = 16, 1 << 18, 16
#: What the others may have learned, unknown to a worker, as a share of what it knows; from so many rows of each worker
#: on, when models are steadier, it may be more.
UNKNOWN, LATER, STEADY = 0.11, 0.44, 1 << 12

#: Where a checkpoint says how far the run is, and what of the driver goes there as it is.
_KEY, _SAVED = "distributed", ("over", "skipped", "taken", "version")


def learn_examples(launcher: Launcher, source: Source, model: Model, *, resume: bool = False, **options: Any) -> State:
    """The model after all workers have learned their shards of the source; ``options`` are those of `Driver`.

    ``resume``: whether to go on from the checkpoint, if there is one. The given model is left as it is.
    """
    return Driver(launcher, source, model, **options).run(resume)


def rows_of_round(taken: int, workers: int, worthwhile: int = 1 << 12) -> int:
    """Rows of each worker in the round after each has learned ``taken``, or all together as many.

    Of the first round it is what one worker learns alone: increments of models that know next to nothing would gain
    little, and cost dozens of rounds.

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
    """One run, as the driver sees it.

    ``merge_every``: rows of each worker between two merges; None: one begins alone, then all learn so many that no more
    than a ninth of what is known is unknown to a worker, later, when models are steadier, four times as many.
    ``merge``: how increments become one (see `increments`). ``passes``: over each shard. Checkpoints are written at
    merges, if they are due.
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
        first = next(iter(plain_learner(narrow_learner(model.learner)).models))
        if blends_of(model.learner):
            if merge is not None:
                raise InvalidParameterError(f"merge: each model of Auto has its own way, got {merge!r}")
        elif launcher.workers > 1 or merge is not None:
            merge = combining_for(first, merge).way  # refuses at once
            if model.preparation.scale is not None:
                powers_of(first)
        self.launcher, self.model, self.way, self.passes = launcher, model, merge, passes
        self.merge_every, self.checkpoints, self.watch = merge_every, checkpoints, watch or NullObserver()
        self.job, self.base, self.version = secrets.token_hex(8), model.learner, 0
        workers = launcher.workers
        self.places, self.over, self.skipped = [Place()] * workers, [False] * workers, [0] * workers
        self.taken, self.tallies = model.learner.t // workers, Tallies(len(model.classes), workers)
        self.shards = [launcher.share(shard) for shard in source.shards(workers)]
        self.source = source.fingerprint() if checkpoints else {}
        self._whole: tuple[int, Callable[[], AnyLearner]] | None = None  # a base that was shared, by its number
        self._change: Callable[[], Change] | None = None
        self._since, self._lined = 0, 0

    def run(self, resume: bool) -> State:
        """Round after round, until all shards are learned."""
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
            raise InvalidInputError("the source has no example")
        return self._state()

    def _run(self, asked: Stopping) -> None:
        while not all(self.over):
            rows = self.merge_every or rows_of_round(self.taken, self.launcher.workers, self.launcher.worthwhile)
            alone = self.merge_every is None and not self.taken
            answers = self._answers(rows, alone)
            before, self.base = self.base, self._merge_answers(answers)
            known = max(self.base.t // self.launcher.workers, 1)  # of each, as if all had learned it
            self.version, self.taken = self.version + 1, known if alone else self.taken + rows
            change = None
            if self.launcher.remembers and not alone and not all(self.over):  # others have no base of the first round
                change = delta(before, self.base)
            self._change = None if change is None else self.launcher.share(change)
            self.watch.moved(step_of(self._state(), self.passes))
            self._report()
            asked.check()

    def _answers(self, rows: int, alone: bool) -> list[Answer | None]:
        """Of all workers, in their order; None of one that has nothing to do."""
        tasks = [Idle() if alone and worker else self._task(worker, rows) for worker in range(self.launcher.workers)]
        found: list[Any] = self.launcher.run_tasks(tasks)
        lost = [worker for worker, answer in enumerate(found) if isinstance(answer, NeedsBase)]
        if lost:
            again = [self._task(worker, rows, whole=True) if worker in lost else Idle() for worker in range(len(tasks))]
            second: list[Any] = self.launcher.run_tasks(again)
            for worker in lost:
                found[worker] = second[worker]
        return found

    def _task(self, worker: int, rows: int, whole: bool = False) -> Round | Idle:
        if self.over[worker]:
            return Idle()
        if whole or self._change is None:
            if self._whole is None or self._whole[0] != self.version:
                self._whole = self.version, self.launcher.share(self.base)
            base, change = self._whole[1], None
        else:
            base, change = None, self._change
        more = self.passes, self.version, len(self.model.classes), self.tallies.totals(worker), base, change
        return Round(self.job, worker, self.shards[worker], self.places[worker], rows, *more, self.model.threshold)

    def _merge_answers(self, answers: list[Answer | None]) -> AnyLearner:
        """The new base; places and metrics go along with it."""
        found = {worker: answer for worker, answer in enumerate(answers) if answer is not None}
        for worker, answer in found.items():
            self.places[worker], self.over[worker] = answer.place, answer.over
            self.skipped[worker] = max(self.skipped[worker], answer.skipped)
            self.tallies.add(worker, answer.tally)
            self._since += answer.rows
        return merge_deltas(self.base, [answer.change for answer in found.values()], self.way)

    def _report(self) -> None:
        """A line where the number of examples has doubled, a checkpoint where one is due."""
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
        met = None if nnz is None else replace(self.model, learner=learner).n_weights_met
        self.watch.line(
            Line(progress.report(), progress.since_mark(), nnz, learner.n_features, met, kinds_of_rows(learner))
        )
        self.tallies.mark()

    def _state(self) -> State:
        now = replace(self.model, learner=self.base)
        return State(now, self.tallies.progress(), min(p.passes for p in self.places), START, sum(self.skipped))

    # Checkpoints ------------------------------------------------------------------------------------------------------

    def _described(self) -> dict[str, Any]:
        return {
            **described(self.model.learner),
            "source": self.source,
            "workers": self.launcher.workers,
            "merge": self.way,
            "merge_every": self.merge_every,
            "passes": self.passes,
        }

    def _checkpoint(self) -> None:
        """The base, where each worker goes on, and the metrics, replacing the file in one step."""
        if self.checkpoints is None:
            return
        saved = {
            "run": self._described(),
            "places": [[p.passes, list(p.position), p.skipped] for p in self.places],
            **{name: getattr(self, name) for name in _SAVED},
        }
        model = replace(self.model, learner=self.base, arrays=self.tallies.arrays())
        file.write(self.checkpoints.path, replace(model, extra={**model.extra, _KEY: saved}))
        self.checkpoints.wrote()
        self._since = 0

    def _resume(self) -> None:
        """Goes back to the last state written, if there is one; it must be of the same run."""
        if self.checkpoints is None:
            raise InvalidParameterError("resume needs the place of a checkpoint")
        path = self.checkpoints.path
        if not path.exists():
            return
        model = file.read(path)
        saved = model.extra.get(_KEY)
        if saved is None:
            raise ModelFileError(f"{path} is no checkpoint of a distributed run: it does not say where workers go on")
        require_same(path, "run", saved["run"], plain(self._described(), "run"))
        self.base = model.learner
        self.places = [Place(passes, Position(*position), skipped) for passes, position, skipped in saved["places"]]
        for name in _SAVED:
            setattr(self, name, saved[name])
        self.tallies.restore(model.arrays)
        self._lined = self.tallies.progress().rows.bit_length()
