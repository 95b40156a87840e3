"""Checkpoints of runs that learn by examples: the base, where each worker goes on, and the metrics, in one file."""

from pathlib import Path
from typing import Any, NamedTuple

from thinstream.batch import Position
from thinstream.distributed.by_examples.metrics import Arrays
from thinstream.distributed.by_examples.worker import Place
from thinstream.errors import ModelFileError
from thinstream.models import file
from thinstream.models.model import Model
from thinstream.models.plain import plain
from thinstream.one_vs_rest import AnyLearner
from thinstream.training.checkpoint import Checkpoints, require_same

_KEY = "distributed"


class Saved(NamedTuple):
    """All there is to a run between two rounds."""

    base: AnyLearner
    places: list[Place]
    over: list[bool]
    skipped: list[int]
    taken: int  # rows asked of each worker so far
    version: int  # of the base
    arrays: Arrays  # the metrics


def write(to: Checkpoints, model: Model, saved: Saved, run: dict[str, Any]) -> None:
    """The state of the run ``run``, replacing the file in one step."""
    extra = {
        "run": run,
        "places": [[p.passes, list(p.position), p.skipped] for p in saved.places],
        "over": saved.over,
        "skipped": saved.skipped,
        "taken": saved.taken,
        "version": saved.version,
    }
    kept = Model(
        saved.base, model.classes, model.feature_space, model.names, {**model.extra, _KEY: extra}, saved.arrays
    )
    file.write(to.path, kept)
    to.wrote()


def read(path: Path, run: dict[str, Any]) -> Saved | None:
    """The last state written, or None without one; it must be of the same run."""
    if not path.exists():
        return None
    model = file.read(path)
    found = model.extra.get(_KEY)
    if found is None:
        raise ModelFileError(f"{path} is no checkpoint of a distributed run: it does not say where workers go on")
    require_same(path, "run", found["run"], plain(run, "run"))
    places = [Place(passes, Position(*position), skipped) for passes, position, skipped in found["places"]]
    return Saved(model.learner, places, found["over"], found["skipped"], found["taken"], found["version"], model.arrays)
