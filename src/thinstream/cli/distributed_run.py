"""``thinstream train --engine``: a run on many workers, with the face of one on this machine."""

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from thinstream.cli.io import require_writable
from thinstream.cli.options import Distributed, Reading
from thinstream.cli.progress import Unmeasured
from thinstream.cli.render import say
from thinstream.distributed.by_features.blueprint import NOT_PREPARED, require_separable
from thinstream.distributed.engines.launcher import ENGINES, launcher_for
from thinstream.distributed.fitting import MODES, can_resume, clear, learn, require_checkpoint_kind
from thinstream.distributed.sources import FileSource
from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.progress import Progress
from thinstream.models.model import Model
from thinstream.streams.stream import START
from thinstream.training import Observer
from thinstream.training.checkpoint import State

if TYPE_CHECKING:
    from thinstream.cli.commands.train import Training

#: What the address is called by each engine that takes one.
_ADDRESS = {"ray": "address", "spark": "master"}


def require_possible(
    reading: Reading, distributed: Distributed, training: "Training", algorithm: str | None, parameters: dict[str, Any]
) -> None:
    """Raises at once where options of the command line do not go together."""
    for name, value, allowed in (("--engine", distributed.engine, ENGINES), ("--mode", distributed.mode, MODES)):
        if value not in allowed:
            raise InvalidParameterError(f"{name} must be {listed(allowed)}, got {value!r}")
    for name, is_given in (("--cache", training.cache), ("--names", bool(reading.names))):
        if is_given:
            raise InvalidParameterError(f"{name} is for runs on one machine, it cannot be used with --engine")
    if distributed.address is not None and distributed.engine not in _ADDRESS:
        raise InvalidParameterError(f"--address is for {listed(_ADDRESS)}, got {distributed.engine!r}")
    if distributed.mode == "features":
        given: dict[str, Any] = {"--merge": distributed.merge, "--merge-every": distributed.merge_every}
        for name, set_to in {**given, "--checkpoint-seconds": training.checkpoint_seconds}.items():
            if set_to is not None:
                raise InvalidParameterError(f"{name} is for --mode examples, it cannot be used with --mode features")
        if algorithm is not None:
            require_separable(algorithm, parameters)
        if training.scale or training.normalize:
            raise InvalidParameterError(NOT_PREPARED)
    elif distributed.mini_batch is not None:
        raise InvalidParameterError(
            "--mini-batch is for --mode features; by examples --merge-every says how often, "
            f"got {distributed.mini_batch}"
        )
    place = training.checkpoint_file
    if place is not None:
        require_checkpoint_kind(place, distributed.mode)
        if not place.is_dir():
            require_writable(place)


class DistributedRun:
    """One model learning from files on many workers.

    Parameters
    ----------
    data : list of str
        Files.
    reading, distributed, training : Reading, Distributed, Training
        Options of the command line.
    model : Model
        What to begin with.
    watch : Observer
        Is told of the run.
    quiet : bool
        Whether nothing is said.

    """

    def __init__(
        self,
        data: list[str],
        reading: Reading,
        distributed: Distributed,
        training: "Training",
        model: Model,
        watch: Observer,
        *,
        quiet: bool = False,
    ) -> None:
        self.distributed, self.training, self._place = distributed, training, training.checkpoint_file
        self.stream, self.model, self.watch, self._quiet = Unmeasured(), model, watch, quiet
        reading = replace(reading, dtype=model.learner.dtype.name, threads=reading.threads or 0)
        self.source = FileSource(data, **reading.given())
        self.state = State(model, Progress(len(model.classes)), 0, START)
        self._resumes = False

    def resume(self) -> bool:
        """Goes back to the last checkpoint; it says so itself."""
        self._resumes = True
        if not self._quiet and self._can_resume():
            say(f"going on from {self._place}")
        return False

    def _can_resume(self) -> bool:
        return self._place is not None and can_resume(self._place, self.distributed.mode)

    def prepare(self) -> None:
        """Workers compile for themselves."""

    def run(self) -> Model:
        """Learns from all files."""
        distributed, training = self.distributed, self.training
        engine = distributed.engine or ""
        more = {} if distributed.address is None else {_ADDRESS[engine]: distributed.address}
        if distributed.mode == "features" and not self._quiet:
            say("mode features is experimental: it is no faster than one machine, see docs/distributed.md")
        with closing(launcher_for(engine, distributed.workers, **more)) as launcher:
            self.state = learn(
                launcher,
                self.source,
                self.model,
                mode=distributed.mode,
                merge_every=distributed.merge_every,
                merge=distributed.merge,
                batch=distributed.mini_batch,
                passes=training.passes,
                checkpoint=self._place,
                checkpoint_every=training.checkpoint_every,
                checkpoint_seconds=training.checkpoint_seconds,
                resume=self._resumes,
                watch=self.watch,
            )
        return self.state.model

    def clear(self) -> None:
        """The run is over and its model safe: no checkpoint stays behind."""
        if self._place is not None:
            clear(self._place, self.distributed.mode)

    @property
    def kept(self) -> str:
        """What the checkpoint has of a run that was stopped."""
        if self.distributed.mode == "examples":
            return "holds all of it"
        return "holds what was learned up to its last segment" if self._can_resume() else ""

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
