"""A folder with the slices of a run by features: a model file per rank, and a manifest, written last.

The manifest names the slices it belongs to and says where the run goes on; slices it does not name are of a segment
that was not finished, and count for nothing.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from thinstream.atomic import sweep
from thinstream.batch import Position
from thinstream.distributed.by_features.blueprint import Blueprint
from thinstream.distributed.by_features.slices import Slice, join_slices
from thinstream.errors import ModelFileError
from thinstream.models.container import plain
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.training.checkpoint import described, require_same

MANIFEST = "manifest.ts"
_ENDING, _KEY = ".slice", "slices"


class Place(NamedTuple):
    """How far a run has come."""

    number: int = 0  # of the segment
    passes: int = 0  # done
    position: Position = Position()  # in the pass that is not
    skipped: int = 0  # bad records passed over before the position, in that pass
    rows: int = 0  # learned, in all passes
    n_features: int = 0


@dataclass(frozen=True)
class Manifest:
    """What a run by features needs to go on, but its slices; stored as a model that has seen nothing."""

    blueprint: Blueprint
    job: str
    workers: int
    place: Place
    run: dict[str, Any]  # source, passes and mini-batch: what must not differ when it goes on
    feature_space: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)  # metrics and names

    def write(self, folder: Path) -> None:
        """Makes the slices of this segment those that count, and removes all others."""
        plan, run = self.blueprint, {"job": self.job, "workers": self.workers, "run": self.run}
        extra = {_KEY: run | {"place": self.place._asdict(), "n_features": plan.n_features}}
        write(
            folder / MANIFEST, Model(plan.whole(1), plan.classes, self.feature_space, extra=extra, arrays=self.arrays)
        )
        kept = {slice_path(folder, self.job, self.place.number, rank) for rank in range(self.workers)}
        for path in set(_slices(folder)) - kept:
            path.unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """That of a folder, or None without one."""
        path = folder / MANIFEST
        if not path.exists():
            return None
        model = read(path)
        found = model.extra.get(_KEY)
        if found is None:
            raise ModelFileError(f"{path}: is a model, but no manifest of slices")
        place = Place(**{**found["place"], "position": Position(*found["place"]["position"])})
        plan = Blueprint.of(model, found["n_features"])
        return cls(plan, found["job"], found["workers"], place, found["run"], model.feature_space, model.arrays)

    def require_same(self, folder: Path, blueprint: Blueprint, workers: int, run: dict[str, Any]) -> None:
        """Raises unless this is a manifest of the same run."""
        require_same(folder, "run", self.run | {"workers": self.workers}, plain(run, "run") | {"workers": workers})
        require_same(folder, "model", described(self.blueprint.whole(1)), described(blueprint.whole(1)))


def slice_path(folder: Path, job: str, number: int, rank: int) -> Path:
    """The file of one rank's slice as it was before segment ``number``."""
    return folder / f"{job}-{number}-{rank}{_ENDING}"


def _slices(folder: Path) -> list[Path]:
    """The slices of any run; other files, whatever they end with, are somebody else's."""
    return [path for path in folder.iterdir() if re.fullmatch(rf"[0-9a-f]{{8}}-\d+-\d+{re.escape(_ENDING)}", path.name)]


def write_slice(folder: Path, job: str, number: int, part: Slice) -> None:
    """A slice as a model file, replaced in one step."""
    extra = {"slice": {"rank": part.rank, "size": part.size, "n_features": part.n_features}}
    write(slice_path(folder, job, number, part.rank), Model(part.learner(), part.blueprint.classes, extra=extra))


def read_slice(folder: Path, job: str, number: int, blueprint: Blueprint, rank: int, size: int) -> Slice:
    """The slice of that file."""
    path = slice_path(folder, job, number, rank)
    model = read(path)
    found = model.extra.get("slice", {})
    if (found.get("rank"), found.get("size")) != (rank, size):
        raise ModelFileError(f"{path}: is not slice {rank} of {size}")
    return Slice.of(blueprint, rank, size, model.learner, found["n_features"])


def gather(folder: Path) -> Model:
    """One model out of the slices that a run by features has left in a folder, on a machine where it fits."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ModelFileError(f"{folder}: there is no manifest of slices ({MANIFEST})")
    plan, job, number, size = manifest.blueprint, manifest.job, manifest.place.number, manifest.workers
    parts = (read_slice(folder, job, number, plan, rank, size) for rank in range(size))
    return Model(join_slices(plan, parts), plan.classes, manifest.feature_space)


def clear(folder: Path) -> None:
    """The run is over; nothing stays behind."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in _slices(folder):
        path.unlink(missing_ok=True)
    for path in folder.glob(".*.tmp"):  # of writers that were killed
        sweep(folder / path.name[1:].rsplit(".", 3)[0])
    with suppress(OSError):  # there is something else in it
        folder.rmdir()
