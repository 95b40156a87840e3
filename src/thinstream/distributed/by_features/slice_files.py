"""A folder with the slices of a run by features: a model file per rank, and a manifest, written last.

The manifest names the slices it belongs to and says where the run goes on; slices it does not name are of a segment
that was not finished, and count for nothing.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from thinstream.atomic import replacing, sweep
from thinstream.batch import Position
from thinstream.distributed.by_features.blueprint import Blueprint
from thinstream.distributed.by_features.slices import Slice, assembled
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.learners import Classes
from thinstream.models.container import canonical, digest, get, put, storable
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.models.plain import label, plain

MANIFEST = "manifest.ts"
FORMAT = 1
_ENDING = ".slice"


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
    """What a run by features needs to go on, but its slices."""

    blueprint: Blueprint
    job: str
    workers: int
    place: Place
    run: dict[str, Any]  # source, passes and mini-batch: what must not differ when it goes on
    feature_space: dict[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)  # metrics and names

    def write(self, folder: Path) -> None:
        """Makes the slices of this segment those that count, and removes all others."""
        plan = self.blueprint
        head = {
            "format": FORMAT,
            "job": self.job,
            "workers": self.workers,
            "place": self.place._asdict(),
            "run": plain(self.run, "run"),
            "space": plain(self.feature_space, "space"),
            "blueprint": {
                "algorithm": plan.algorithm,
                "parameters": plain(plan.parameters, "parameters"),
                "costs": [[float(c.negative), float(c.positive), bool(c.balanced)] for c in plan.costs],
                "classes": [label(each) for each in plan.classes],
                "n_features": plan.n_features,
                "dtype": plan.dtype,
                "grow": plan.grow,
                "fit_intercept": plan.fit_intercept,
            },
        }
        arrays = {name: storable(array, name) for name, array in self.arrays.items()}
        text = canonical(head | {"sha256": digest(canonical(head), arrays)})
        with replacing(folder / MANIFEST) as temporary, open(temporary, "wb") as file:
            put(file, text, arrays)
        kept = {slice_path(folder, self.job, self.place.number, rank) for rank in range(self.workers)}
        for path in folder.glob(f"*{_ENDING}"):
            if path not in kept:
                path.unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path) -> "Manifest | None":
        """That of a folder, or None without one."""
        path = folder / MANIFEST
        if not path.exists():
            return None
        try:
            text, arrays = get(path)
            head = json.loads(text)
            found = head.pop("sha256", None)
            if head.get("format") != FORMAT or found != digest(canonical(head), arrays):
                raise ModelFileError("is damaged, or of another version")
            plan = head["blueprint"]
            costs, labels = tuple(Costs(*each) for each in plan["costs"]), [label(each) for each in plan["classes"]]
            classes = Classes(*labels)
            blueprint = Blueprint(**{**plan, "costs": costs, "classes": classes})
            place = Place(**{**head["place"], "position": Position(*head["place"]["position"])})
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from None
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise ModelFileError(f"{path}: is not a manifest this library can read: {error}") from error
        return cls(blueprint, head["job"], head["workers"], place, head["run"], head["space"], arrays)

    def require_same(self, folder: Path, blueprint: Blueprint, workers: int, run: dict[str, Any]) -> None:
        """Raises unless this is a manifest of the same run."""
        pairs: list[tuple[str, Any, Any]] = [("workers", self.workers, workers)]
        pairs += [(key, self.run.get(key), value) for key, value in plain(run, "run").items()]
        before, now = (plain(plan.described(), "model") for plan in (self.blueprint, blueprint))
        pairs += [(key, before.get(key), value) for key, value in now.items()]
        for what, stored, given in pairs:
            if stored != given:
                raise InvalidInputError(
                    f"{folder} cannot be resumed: the run differs in {what}, it was {stored!r}, is {given!r}; give the "
                    "command it was made by, or remove the folder to start anew"
                )


def slice_path(folder: Path, job: str, number: int, rank: int) -> Path:
    """The file of one rank's slice as it was before segment ``number``."""
    return folder / f"{job}-{number}-{rank}{_ENDING}"


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
    part = Slice(blueprint, rank, size)
    part.restore(model.learner, found["n_features"])
    return part


def gather(folder: Path) -> Model:
    """One model out of the slices that a run by features has left in a folder, on a machine where it fits."""
    manifest = Manifest.read(folder)
    if manifest is None:
        raise ModelFileError(f"{folder}: there is no manifest of slices ({MANIFEST})")
    plan, job, number, size = manifest.blueprint, manifest.job, manifest.place.number, manifest.workers
    parts = (read_slice(folder, job, number, plan, rank, size) for rank in range(size))
    return Model(assembled(plan, parts), plan.classes, manifest.feature_space)


def clear(folder: Path) -> None:
    """The run is over; nothing stays behind."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for path in folder.glob(f"*{_ENDING}"):
        path.unlink(missing_ok=True)
    for path in folder.glob(".*.tmp"):  # of writers that were killed
        sweep(folder / path.name[1:].rsplit(".", 3)[0])
    with suppress(OSError):  # there is something else in it
        folder.rmdir()
