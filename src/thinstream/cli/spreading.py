"""``thinstream train --engine``: a run on many workers, with the face of one on this machine."""

from contextlib import closing
from dataclasses import replace
from typing import Any

from thinstream.cli.groups import Reading
from thinstream.cli.opening import require_place
from thinstream.cli.show import Unmeasured, say
from thinstream.distributed.blueprint import require_separable
from thinstream.distributed.fitting import ENGINES, MODES, clear, launcher_for, learn, require_kind, resumable
from thinstream.distributed.shards import FileSource
from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.progress import Progress
from thinstream.models.model import Model
from thinstream.streams.stream import START
from thinstream.training import Observer
from thinstream.training.checkpoint import State

#: What the address is called by each engine that takes one.
_ADDRESS = {"ray": "address", "spark": "master"}


def require_possible(job: Any) -> None:
    """Raises at once where options of the command line do not go together."""
    spread = job.spread
    for name, value, allowed in (("--engine", spread.engine, ENGINES), ("--mode", spread.mode, MODES)):
        if value not in allowed:
            raise InvalidParameterError(f"{name} must be {listed(allowed)}, got {value!r}")
    for name, given in (("--cache", job.cache), ("--names", job.reading.names)):
        if given:
            raise InvalidParameterError(f"{name} is for runs on one machine, it cannot be used with --engine")
    if spread.address is not None and spread.engine not in _ADDRESS:
        raise InvalidParameterError(f"--address is for {listed(_ADDRESS)}, got {spread.engine!r}")
    if spread.mode == "features":
        given = {"--merge": spread.merge, "--merge-every": spread.merge_every}
        for name, value in (given | {"--checkpoint-seconds": job.checkpoint_seconds}).items():
            if value is not None:
                raise InvalidParameterError(f"{name} is for --mode examples, it cannot be used with --mode features")
        if job.start is None:
            require_separable(job.algorithm, job.parameters)
    elif spread.mini_batch != 1:
        raise InvalidParameterError(
            f"--mini-batch is for --mode features; by examples --merge-every says how often, got {spread.mini_batch}"
        )
    if job.checkpoint is not None:
        require_kind(job.checkpoint, spread.mode)
        if not job.checkpoint.is_dir():
            require_place(job.checkpoint)


class SpreadRun:
    """One model learning from files on many workers.

    Parameters
    ----------
    job : Job
        The command line.
    reading : Reading
        How files are read.
    model : Model
        What to begin with.
    watch : Observer
        Is told of the run.
    quiet : bool
        Whether nothing is said.

    """

    def __init__(self, job: Any, reading: Reading, model: Model, watch: Observer, *, quiet: bool = False) -> None:
        self.job, self.stream, self.model, self.watch, self._quiet = job, Unmeasured(), model, watch, quiet
        reading = replace(reading, dtype=model.learner.dtype.name, threads=reading.threads or 0)
        self.source = FileSource(job.data, **reading.given())
        self.state = State(model, Progress(len(model.classes)), 0, START)
        self._resumes = False

    def resume(self) -> bool:
        """Goes back to the last checkpoint; it says so itself."""
        self._resumes = True
        if not self._quiet and resumable(self.job.checkpoint, self.job.spread.mode):
            say(f"going on from {self.job.checkpoint}")
        return False

    def prepare(self) -> None:
        """Workers compile for themselves."""

    def run(self) -> Model:
        """Learns from all files."""
        job, spread = self.job, self.job.spread
        more = {} if spread.address is None else {_ADDRESS[spread.engine]: spread.address}
        with closing(launcher_for(spread.engine, spread.workers, **more)) as launcher:
            self.state = learn(
                launcher,
                self.source,
                self.model,
                mode=spread.mode,
                merge_every=spread.merge_every,
                merge=spread.merge,
                batch=spread.mini_batch,
                passes=job.passes,
                checkpoint=job.checkpoint,
                checkpoint_every=job.checkpoint_every,
                checkpoint_seconds=job.checkpoint_seconds,
                resume=self._resumes,
                watch=self.watch,
            )
        return self.state.model

    def clear(self) -> None:
        """The run is over and its model safe: no checkpoint stays behind."""
        clear(self.job.checkpoint, self.job.spread.mode)

    @property
    def kept(self) -> str:
        """What the checkpoint has of a run that was stopped."""
        if self.job.spread.mode == "examples":
            return "holds all of it"
        return "holds what was learned up to its last segment" * resumable(self.job.checkpoint, "features")

    @property
    def skipped(self) -> int:
        """Bad records passed over by all workers."""
        return self.state.skipped

    def looks_sorted(self) -> bool:
        """Not known: each worker sees only its part."""
        return False

    def names(self) -> Any:
        """Those the model began with."""
        return self.model.names
