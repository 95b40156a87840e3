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
from thinstream.distributed.by_features.slices import join_slices
from thinstream.distributed.by_features.worker import Answer, Segment
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
    plan = Blueprint.of(model, n_features)
    run = _Driver(launcher, source, model, plan, batch, passes, checkpoint, timeout, watch or NullObserver())
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
    blueprint: Blueprint
    batch: int
    passes: int
    folder: Path | None
    timeout: float
    watch: Observer

    def __post_init__(self) -> None:
        self.shard = self.source.shards(1)[0]
        self.described = {"source": self.source.fingerprint(), "batch": self.batch, "passes": self.passes}
        self.first = self.launcher.share(self.model.learner) if self.model.learner.t else None
        self.answers = list[Answer]()
        self._restart()

    def resume(self) -> None:
        assert self.folder is not None
        found = Manifest.read(self.folder)
        if found is None:
            return
        found.require_same(self.folder, self.blueprint, self.launcher.workers, self.described)
        arrays = dict(found.arrays)
        names = {key.removeprefix(_NAMES): arrays.pop(key) for key in list(arrays) if key.startswith(_NAMES)}
        self.job = found.job
        self._arrive(found.place, arrays, names)

    def learn(self, segment: int) -> None:
        """Segment after segment; a lost worker sends all back to the last checkpoint, or to the start."""
        with stopping() as asked:
            lost = 0
            while self.place.passes < self.passes:
                try:
                    with asked.waiting():
                        self.answers = self.launcher.run_together(self._tasks(segment))
                except (WorkerLostError, PeerLostError) as error:
                    lost += 1
                    if lost > RETRIES:
                        error.add_note(f"{lost} attempts failed, the last from row {self.place.rows} on")
                        raise
                    if self.folder is None:
                        self._restart()
                    continue
                lost = lost if self.folder is None else 0
                self._take(self.answers[0])

    def result(self, assemble: bool) -> State:
        """The result."""
        if not assemble:
            return self.state
        if self.folder is not None:
            learner = gather(self.folder).learner
        else:
            plan, size = self.blueprint, self.launcher.workers
            packed = [answer.packed for answer in self.answers if answer.packed is not None]
            learner = join_slices(plan, (part.unpack(plan, rank, size) for rank, part in enumerate(packed)))
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
        self.state = State(self.model, Progress(len(self.model.classes)), 0, self.place.position)

    def _tasks(self, segment: int) -> list[Segment]:
        token, size = new_token(), self.launcher.workers
        rows = segment if self.folder is not None or self.launcher.remembers else None
        width = max(self.place.n_features, self.blueprint.n_features)
        return [
            Segment(
                blueprint=self.blueprint,
                shard=self.shard,
                rank=rank,
                size=size,
                job=self.job,
                token=token,
                place=self.place,
                rows=rows,
                batch=self.batch,
                passes=self.passes,
                timeout=self.timeout,
                folder=self.folder,
                first=self.first,
                lines=self.watch.lines,
                count=self.watch.wants_nnz(width * len(self.blueprint.costs)),
                progress=self.state.progress.arrays() if rank == 0 else {},
                names=dict(self.state.names) if rank == 0 else {},
            )
            for rank in range(size)
        ]

    def _take(self, answer: Answer) -> None:
        if self.folder is not None:
            arrays = answer.progress | {_NAMES + key: array for key, array in answer.names.items()}
            size, space = self.launcher.workers, self.model.feature_space
            Manifest(self.blueprint, self.job, size, answer.place, self.described, space, arrays).write(self.folder)
        self._arrive(answer.place, answer.progress, answer.names)
        for line in answer.lines:
            self.watch.line(line)
        self.watch.moved(step_of(self.state, self.passes))

    def _arrive(self, place: Place, progress: dict[str, Any], names: dict[str, Any]) -> None:
        self.place = place
        self.state = self.state._replace(
            progress=Progress.from_arrays(progress),
            passes=place.passes,
            position=place.position,
            skipped=place.skipped,
            names=names,
        )
