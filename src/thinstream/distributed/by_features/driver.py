"""Learning by features: every worker has a slice of the coordinates, reads all rows, and sums its share of each score.

For models wider than one machine. With mini-batches of one row the run is the serial one, up to the order of summation.
In larger ones all rows are scored with the weights from before the mini-batch; each row still has its own round t, and
updates are made in order (`loop` has the details). A mini-batch costs one sum over the workers; two for SSOL, whose
variances see a row before it is scored (one with ``diagonal="exact"``), and for StableSparsePerceptron, which counts
its non-zero weights.

A run is made of segments. At the end of each the workers write their slices to a folder and the driver writes a
manifest that makes them count. If a worker is lost, all go back to the last manifest. Without a folder slices stay in
the workers' memory, and all go back to the start.
"""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thinstream.distributed.by_features.blueprint import Blueprint
from thinstream.distributed.by_features.collective import TIMEOUT, new_token
from thinstream.distributed.by_features.slice_files import Manifest, Place, clear, gather
from thinstream.distributed.by_features.slices import Slice, join_slices
from thinstream.distributed.by_features.worker import Answer, Plan, Segment
from thinstream.distributed.engines.launcher import RETRIES, Launcher, require_count
from thinstream.distributed.sources import Source
from thinstream.errors import InvalidParameterError, PeerLostError, WorkerLostError
from thinstream.evaluate.progress import Progress
from thinstream.models.model import Model
from thinstream.training.checkpoint import State
from thinstream.training.run import Line, NullObserver, Observer, step_of
from thinstream.training.stopping import stopping

#: Rows between two checkpoints.
SEGMENT = 1_000_000
_NAMES = "names."


def learn_features(
    launcher: Launcher,
    source: Source,
    model: Model,
    *,
    batch: int = 1,
    passes: int = 1,
    checkpoint: Path | None = None,
    resume: bool = False,
    watch: Observer | None = None,
    segment: int = SEGMENT,
    timeout: float = TIMEOUT,
    n_features: int | None = None,
    assemble: bool = True,
) -> State:
    """The model after the stream, learned by all workers of the launcher, each with a part of the features.

    ``model`` is what to begin with, and is left as it is. ``batch``: rows of a mini-batch; 1 is the serial algorithm.
    ``checkpoint``: a folder for slices and manifest that driver and workers must all see; without one a run that loses
    a worker starts again. ``segment``: rows between two checkpoints and reports, rounded up to whole mini-batches.
    ``timeout``: seconds a worker may be silent before it counts as lost. ``n_features``: the width of the model where
    that of ``model``, which is in the driver's memory, is smaller. Without ``assemble`` the result is not put together
    on the driver: its slices stay in the folder (`gather`).
    """
    batch, passes = require_count(batch, "batch"), require_count(passes, "passes")
    segment = require_count(segment, "segment")
    if not assemble and checkpoint is None:
        raise InvalidParameterError("assemble=False leaves the slices in a folder: checkpoint must name one, got None")
    plan = Plan(
        Blueprint.of(model, n_features),
        source.shards(1)[0],
        launcher.workers,
        batch,
        passes,
        timeout,
        checkpoint,
        launcher.share(model.learner) if model.learner.t else None,
        watch is not None and watch.lines,
        model.threshold,
    )
    run = _Driver(launcher, source, model, plan, watch or NullObserver())
    new = checkpoint is not None and not checkpoint.exists()
    if checkpoint is not None:
        checkpoint.mkdir(parents=True, exist_ok=True)
        if resume:
            run.resume()
    try:
        run.learn(segment)
    except BaseException:
        if checkpoint is not None and new and Manifest.read(checkpoint) is None:  # nothing to go on from
            clear(checkpoint)
        raise
    state = run.result(assemble)
    run.last_line(state, assemble)
    return state


@dataclass(eq=False)
class _Driver:
    """A run by features, as the driver sees it."""

    launcher: Launcher
    source: Source
    model: Model
    plan: Plan
    watch: Observer

    def __post_init__(self) -> None:
        self.described = {"source": self.source.fingerprint(), "batch": self.plan.batch, "passes": self.plan.passes}
        self.answers = list[Answer]()
        self._restart()

    def resume(self) -> None:
        assert self.plan.folder is not None
        found = Manifest.read(self.plan.folder)
        if found is None:
            return
        found.require_same(self.plan.folder, self.plan.blueprint, self.plan.size, self.described)
        arrays = dict(found.arrays)
        names = {key.removeprefix(_NAMES): arrays.pop(key) for key in list(arrays) if key.startswith(_NAMES)}
        self.job = found.job
        self.place, self.progress, self.names = found.place, Progress.from_arrays(arrays), names

    def learn(self, segment: int) -> None:
        """Segment after segment; a lost worker sends all back to the last checkpoint, or to the start."""
        with stopping() as asked:
            lost = 0
            while self.place.passes < self.plan.passes:
                try:
                    with asked.waiting():
                        self.answers = self.launcher.run_together(self._tasks(segment))
                except (WorkerLostError, PeerLostError) as error:
                    lost += 1
                    if lost > RETRIES:
                        error.add_note(f"{lost} attempts failed, the last from row {self.place.rows} on")
                        raise
                    if self.plan.folder is None:
                        self._restart()
                    continue
                lost = lost if self.plan.folder is None else 0
                self._take(self.answers[0])

    def result(self, assemble: bool) -> State:
        """The result."""
        if not assemble:
            return self.state
        if self.plan.folder is not None:
            learner = gather(self.plan.folder).learner
        else:
            plan = self.plan
            learners = [answer.learner for answer in self.answers if answer.learner is not None]
            parts = [
                Slice.of(plan.blueprint, k, plan.size, each, self.place.n_features) for k, each in enumerate(learners)
            ]
            learner = join_slices(plan.blueprint, parts)
        return self.state._replace(model=replace(self.model, learner=learner))

    def last_line(self, state: State, assembled: bool) -> None:
        """What came after the last line, if anything did; weights are counted where the driver has them."""
        progress, learner = state.progress, state.model.learner
        if self.watch.lines and progress.since_mark().rows:
            nnz = learner.nnz if assembled and self.watch.wants_nnz(learner.n_weights) else None
            self.watch.line(Line(progress.report(), progress.since_mark(), nnz, self.place.n_features))
            progress.mark()

    def _restart(self) -> None:
        """Nothing is left of what was learned."""
        self.job, self.place = secrets.token_hex(4), Place()
        self.progress, self.names = Progress(len(self.model.classes)), dict[str, Any]()

    @property
    def state(self) -> State:
        """As far as it is known here: the learner is the one to begin with."""
        place = self.place
        return State(self.model, self.progress, place.passes, place.position, place.skipped, self.names)

    def _tasks(self, segment: int) -> list[Segment]:
        plan = self.plan
        rows = segment if plan.folder is not None or self.launcher.remembers else None
        width = max(self.place.n_features, plan.blueprint.n_features)
        count = self.watch.wants_nnz(width * len(plan.blueprint.learners))
        first = Segment(plan, 0, self.job, new_token(), self.place, rows, count)
        told = replace(first, progress=self.progress.arrays(), names=self.names)
        return [told, *(replace(first, rank=rank) for rank in range(1, plan.size))]

    def _take(self, answer: Answer) -> None:
        plan = self.plan
        if plan.folder is not None:
            arrays = answer.progress | {_NAMES + key: array for key, array in answer.names.items()}
            more = self.described, self.model.feature_space, arrays
            Manifest(plan.blueprint, self.job, plan.size, answer.place, *more).write(plan.folder)
        self.place, self.progress, self.names = answer.place, Progress.from_arrays(answer.progress), answer.names
        for line in answer.lines:
            self.watch.line(line)
        self.watch.moved(step_of(self.state, plan.passes))
