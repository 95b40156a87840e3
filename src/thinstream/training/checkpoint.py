"""Checkpoints: the full state of a model, the position in its source, and the metrics so far, in one file."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.files import sweep
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.training.metrics import GrowingProgress, Progress

_NAMES, _DRIFT, _RECENT = "names.", "drift.", "recent."


class State(NamedTuple):
    """The state of a run, which a checkpoint stores."""

    model: Model
    progress: Progress
    passes: int  # completed passes
    position: Position  # in the current pass
    skipped: int = 0  # invalid records skipped before the position, in the current pass
    names: Mapping[str, NDArray[Any]] = MappingProxyType({})  # feature names, as the source stores them
    drift: Mapping[str, NDArray[Any]] = MappingProxyType({})  # the state of a `DriftWatch`
    recent: Mapping[str, NDArray[Any]] = MappingProxyType({})  # `RecentScores`, to choose a threshold


class Checkpoints:
    """Write the state of a run at regular intervals, and read it back.

    Parameters
    ----------
    path : path
        The file, which is replaced atomically.
    every : int or None
        Rows between two checkpoints.
    seconds : float or None
        The minimum number of seconds between two checkpoints.
    read, write : callable
        Read and write the file.

    """

    def __init__(
        self,
        path: Path,
        every: int | None = None,
        seconds: float | None = None,
        read: Callable[[Path], Model] = read,
        write: Callable[[Path, Model], None] = write,
    ) -> None:
        self.path, self.every, self.seconds, self._read, self._write = path, every, seconds, read, write
        self._written = time.monotonic()

    @property
    def regular(self) -> bool:
        """Whether checkpoints are written during the run, and not only when it is interrupted."""
        return self.every is not None or self.seconds is not None

    def due_in(self, rows: int) -> int | None:
        """Return the number of rows until the next checkpoint, ``rows`` rows after the last. None: no interval."""
        return None if self.every is None else self.every - rows

    def is_late(self) -> bool:
        return self.seconds is not None and time.monotonic() - self._written >= self.seconds

    def write(self, state: State, source: dict[str, Any]) -> None:
        """Write the state. ``source`` identifies the data and options of the run."""
        run = {"passes": state.passes, "position": list(state.position), "skipped": state.skipped, "source": source}
        model = state.model
        extra = {**model.extra, "run": run}
        arrays = state.progress.arrays()
        for prefix, kept in ((_NAMES, state.names), (_DRIFT, state.drift), (_RECENT, state.recent)):
            arrays |= {prefix + key: array for key, array in kept.items()}
        self._write(self.path, replace(model, extra=extra, arrays=arrays, reading={}, report=None))
        self.wrote()

    def wrote(self) -> None:
        """Restart the time until the next checkpoint."""
        self._written = time.monotonic()

    def read(self, source: dict[str, Any], like: Model | None = None) -> State | None:
        """Return the last state, or None if there is none. Raise if it has another source or another kind of model."""
        if not self.path.exists():
            return None
        model = self._read(self.path)
        run = model.extra.get("run")
        if run is None:
            raise ModelFileError(f"{self.path} is a model file, but not a checkpoint")
        require_same(self.path, "source", run["source"], source)
        if like is not None:
            require_same(self.path, "model", described(model), described(like))
        progress_class = GrowingProgress if model.classes.grow else Progress
        progress = progress_class.from_arrays(model.arrays, model.threshold)
        mappings = [
            {key.removeprefix(prefix): array for key, array in model.arrays.items() if key.startswith(prefix)}
            for prefix in (_NAMES, _DRIFT, _RECENT)
        ]
        extra = {key: value for key, value in model.extra.items() if key != "run"}
        model = replace(model, extra=extra, arrays={})
        return State(model, progress, run["passes"], Position(*run["position"]), run["skipped"], *mappings)

    def remove(self) -> None:
        """Remove the checkpoint after the run, and temporary files of killed runs."""
        self.path.unlink(missing_ok=True)
        sweep(self.path)


def require_same(path: Path, name: str, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise if a checkpoint differs from the current run."""
    for key in expected:
        if stored.get(key) != expected[key]:
            raise InvalidInputError(
                f"{path} cannot be resumed, because the {name} differs in {key}: it was {stored.get(key)!r} and is now "
                f"{expected[key]!r}. Repeat the original command, or delete {path.name} to start from scratch"
            )


def described(model: Model) -> dict[str, Any]:
    """Return the properties of a model that must not change between a run and its continuation."""
    learner, outputs = model.learner, model.learner.outputs
    costs = outputs.costs if outputs.spare_costs is None else outputs.spare_costs  # the known classes may differ
    return {
        "algorithm": learner.algorithm.name,
        **learner.parameters,
        "grow_classes": outputs.grows,
        "costs": [list(cost) for cost in costs],
        "dtype": learner.dtype.name,
        "fit_intercept": bool(learner.offset),
        **model.preparation.kinds,
        **model.budget,
    }
