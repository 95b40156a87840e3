"""Checkpoints: the model's full state, where its source goes on, and the metrics so far, in one file."""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from thinstream.atomic import sweep
from thinstream.batch import Position
from thinstream.budget import budget_of
from thinstream.compact import narrow_learner
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.evaluate.growing import GrowingProgress
from thinstream.evaluate.progress import Progress
from thinstream.growing import Growing
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.one_vs_rest import AnyLearner
from thinstream.preparing import plain_learner, preparation_of

_NAMES, _DRIFT, _RECENT = "names.", "drift.", "recent."


class State(NamedTuple):
    """All there is to a run: what a checkpoint holds, as the run needs it."""

    model: Model
    progress: Progress
    passes: int  # done
    position: Position  # in the pass that is not
    skipped: int = 0  # bad records passed over before the position, in that pass
    names: Mapping[str, NDArray[Any]] = MappingProxyType({})  # of features, as the source keeps them
    drift: Mapping[str, NDArray[Any]] = MappingProxyType({})  # what a `DriftWatch` knows
    recent: Mapping[str, NDArray[Any]] = MappingProxyType({})  # `RecentScores`, where a threshold is to be chosen


class Checkpoints:
    """Writes a run's state every so often, and finds it again.

    Parameters
    ----------
    path : path
        Of the file, replaced each time in one step.
    every : int or None
        Examples between two.
    seconds : float or None
        Seconds between two, at the earliest.

    """

    def __init__(self, path: Path, every: int | None = None, seconds: float | None = None) -> None:
        self.path, self.every, self.seconds = path, every, seconds
        self._written = time.monotonic()

    @property
    def regular(self) -> bool:
        """Whether they are written as the run goes on, not only where it is interrupted."""
        return self.every is not None or self.seconds is not None

    def due_in(self, rows: int) -> int | None:
        """Rows until the next, ``rows`` having been taken since the last; None if that does not depend on rows."""
        return None if self.every is None else self.every - rows

    def is_late(self) -> bool:
        """Whether the time is up."""
        return self.seconds is not None and time.monotonic() - self._written >= self.seconds

    def write(self, state: State, source: dict[str, Any]) -> None:
        """The state, with what tells its source from others."""
        run = {
            "passes": state.passes,
            "position": list(state.position),
            "skipped": state.skipped,
            "source": source,
        }
        model = state.model
        extra = {**model.extra, "run": run}
        arrays = state.progress.arrays()
        for prefix, kept in ((_NAMES, state.names), (_DRIFT, state.drift), (_RECENT, state.recent)):
            arrays |= {prefix + key: array for key, array in kept.items()}
        write(self.path, replace(model, extra=extra, arrays=arrays, reading={}, report=None))
        self.wrote()

    def wrote(self) -> None:
        """Now: the time to the next begins."""
        self._written = time.monotonic()

    def read(self, source: dict[str, Any], learner: AnyLearner | None = None) -> State | None:
        """The last state written, or None without one; it must be of the same source, and of a learner like this."""
        if not self.path.exists():
            return None
        model = read(self.path)
        run = model.extra.get("run")
        if run is None:
            raise ModelFileError(f"{self.path} is a model, but not a checkpoint: it has no position in a source")
        require_same(self.path, "source", run["source"], source)
        if learner is not None:
            require_same(self.path, "model", described(model.learner), described(learner))
        kind = GrowingProgress if model.classes.grow else Progress
        progress = kind.from_arrays(model.arrays, model.threshold)
        kept = [
            {key.removeprefix(prefix): array for key, array in model.arrays.items() if key.startswith(prefix)}
            for prefix in (_NAMES, _DRIFT, _RECENT)
        ]
        extra = {key: value for key, value in model.extra.items() if key != "run"}
        model = replace(model, extra=extra, arrays={})
        return State(model, progress, run["passes"], Position(*run["position"]), run["skipped"], *kept)

    def remove(self) -> None:
        """The run is over; nothing stays behind, of killed ones neither."""
        self.path.unlink(missing_ok=True)
        sweep(self.path)


def require_same(path: Path, what: str, stored: dict[str, Any], given: dict[str, Any]) -> None:
    """Raises unless what was stored of a run is what is given now; ``path`` is its checkpoint."""
    for key in given:
        if stored.get(key) != given[key]:
            raise InvalidInputError(
                f"{path} cannot be resumed: the {what} differs in {key}, it was {stored.get(key)!r}, "
                f"is {given[key]!r}; give the command it was made by, or remove {path.name} to start anew"
            )


def described(learner: AnyLearner) -> dict[str, Any]:
    """What must not differ between a run and its continuation."""
    narrow = narrow_learner(learner)
    inner = plain_learner(narrow)
    growing = isinstance(inner, Growing)  # the classes it has met may differ
    costs = inner.spare_costs if growing else [model.costs for model in learner.models]
    return {
        "algorithm": learner.algorithm.name,
        **learner.parameters,
        "grow_classes": growing,
        "costs": [list(each) for each in costs],
        "dtype": learner.dtype.name,
        "fit_intercept": bool(learner.offset),
        **preparation_of(narrow).kinds,
        **budget_of(learner),
    }
