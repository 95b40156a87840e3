"""A blend as a few arrays, and back.

Each model that is still there has the arrays of a full model, after ``models/k/``; all that the blend began with are
named in the description, under ``members``. The head has ``w``, ``P``, ``sums``, ``gone`` and its counters, after
``head/``, and how much rows count in it (``counting``, unless all alike); what became of each model stands after
``record/``. ``squares/k`` has Σx_j² of the rows a vector of weights is multiplied with (``squares/k.indices`` where
most are 0), ``scales/k/`` the scales of the k-th kind of rows.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.head import ALIKE, Counting
from thinstream.blend.learner import Blend
from thinstream.blend.member import members_of
from thinstream.blend.record import Record
from thinstream.engine.full import Matrix
from thinstream.errors import ModelFileError
from thinstream.learners.frozen import require_array
from thinstream.models.container import Arrays
from thinstream.models.packing_one import (
    Places,
    checked_counts,
    checked_indices,
    common_options,
    full,
    learner_of,
    narrow,
)
from thinstream.preparing import Preparation

_HEAD = ("w", "P", "sums", "gone", "counts", "loss")
_FLAGS = np.dtype(np.uint8)


def full_blend(blend: Blend, places: Places | None = None) -> Arrays:
    """Everything, so that it can go on."""
    found: Arrays = {"counts": blend.counts, "weak": blend.weak.astype(_FLAGS)}
    for k, model in enumerate(blend.lanes):
        found |= {f"models/{k}/{name}": array for name, array in full(model, places).items()}
    found["out"] = np.concatenate([group.out() for group in blend.groups]).astype(_FLAGS)
    for name in _HEAD:
        array = getattr(blend.head, name)
        found[f"head/{name}"] = array.astype(_FLAGS) if array.dtype == np.bool_ else array
    if blend.counting != ALIKE:
        found["head/counting"] = np.array(blend.counting)
    found |= {f"record/{name}": array for name, array in blend.record.arrays().items()}
    for k, part in enumerate(blend.parts):
        found |= {
            f"squares/{k}{name}": array for name, array in _sparse(part.squares[: blend.n_features], places).items()
        }
    for k, station in enumerate(blend.stations):
        found |= {
            f"scales/{k}/{n}": a for n, a in scales_out(station.preparation, blend.n_features, places=places).items()
        }
    return found


def blend_of(head: dict[str, Any], arrays: Arrays) -> Blend:
    """The blend of a full model."""
    common, members = common_options(head), members_of(head["members"])
    record = Record(members)
    for name, array in record.arrays().items():
        shape = arrays[f"record/{name}"].shape if name.startswith(("noted", "places")) else array.shape
        setattr(record, name, require_array(arrays, f"record/{name}", shape, array.dtype).copy())
    _check(record)
    present = [members[k] for k in record.places]
    require_array(arrays, "head/P", (len(present), len(present)), np.dtype(np.float64))  # before there is room for it
    options = {name: value for name, value in common.items() if name != "algorithm"}
    parameters = {name: value for name, value in head["parameters"].items() if name != "portfolio"}
    blend = Blend(present, **options, **parameters)
    blend.parameters["portfolio"] = head["parameters"].get("portfolio")
    blend.record, blend.counts = record, checked_counts(arrays).copy()
    _restore_models(blend, common, arrays)
    for name in _HEAD:
        own = getattr(blend.head, name)
        setattr(blend.head, name, _flags_or_numbers(arrays, f"head/{name}", own))
    blend.counting = blend.head.counting = _counting(arrays)
    blend.weak = _flags_or_numbers(arrays, "weak", blend.weak)
    for k, part in enumerate(blend.parts):
        part.squares = _dense(arrays, f"squares/{k}", blend.n_features)
    for k, station in enumerate(blend.stations):
        prefix = f"scales/{k}/"
        own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        scales_in(station.preparation, own, blend.n_features)
    return blend


def _counting(arrays: Arrays) -> Counting:
    """How much rows count in the head: all alike, unless the file says otherwise."""
    if "head/counting" not in arrays:
        return ALIKE
    later, flat = require_array(arrays, "head/counting", (2,), np.dtype(np.float64)).tolist()
    if not (0.0 < later < math.inf and 0.0 < flat <= 0.25):
        raise ModelFileError(f"rows of its head count by {later} and {flat}, which are no such numbers")
    return Counting(later, flat)


def _restore_models(blend: Blend, common: dict[str, Any], arrays: Arrays) -> None:
    out = _flags_or_numbers(arrays, "out", np.zeros(len(blend.head), np.bool_))
    of_model: list[Arrays] = [{} for _ in blend.members]
    for name, array in arrays.items():
        parts = name.split("/", 2)
        if parts[0] == "models" and len(parts) == 3 and parts[1].isdecimal() and int(parts[1]) < len(of_model):
            of_model[int(parts[1])][parts[2]] = array
    costs = dict(zip(("negative", "positive", "balanced"), common["costs"], strict=True))
    k = 0
    for group in blend.groups:
        memories = []
        for lane in range(len(group)):
            member = blend.members[k]
            described = {**common, "costs": costs, "algorithm": member.algorithm, "parameters": member.parameters}
            if group.max_features is not None:
                group.make_room(_room_of(of_model[k], common["fit_intercept"], group.max_features))
                described["n_features"] = group.n_features
            memories.append(learner_of(described, of_model[k]).memory)
            if out[k]:
                group.fail(lane)
            k += 1
        group.put(memories)


def _room_of(arrays: Arrays, offset: bool, most: int) -> int:
    """Features that a model for few features has room for."""
    own = arrays.get("own")
    room = 0 if own is None else Matrix(own).d - offset
    if not 0 < room <= most:
        raise ModelFileError(f"a model for {most} features at most has room for {room}")
    return room


def _check(record: Record) -> None:
    """Raises where a record contradicts itself."""
    places, many, noted = record.places, len(record.members), len(record.noted)
    sound = places.ndim == 1 and len(places) and np.all(np.diff(places) > 0) and places[0] >= 0 and places[-1] < many
    shapes = record.noted.shape == (noted, 2) and record.noted_mistakes.shape == (noted, many)
    if not (sound and shapes and record.noted_shares.shape == (noted, many)):
        raise ModelFileError("what it says of its models contradicts itself")


def _flags_or_numbers(arrays: Arrays, name: str, like: NDArray[Any]) -> NDArray[Any]:
    """An array of a file as large as the one given, and of its kind."""
    stored = _FLAGS if like.dtype == np.bool_ else like.dtype
    return require_array(arrays, name, like.shape, stored).astype(like.dtype)


def _sparse(values: NDArray[np.float64], places: Places | None) -> Arrays:
    where = np.flatnonzero(values)
    if places is not None:
        return {".indices": narrow(places.numbers[where], places.n_features), "": values[where]}
    if 2 * len(where) < len(values):
        return {".indices": narrow(where, len(values)), "": values[where]}
    return {"": values}


def _dense(arrays: Arrays, name: str, width: int) -> NDArray[np.float64]:
    found, numbers = np.zeros(width), np.dtype(np.float64)
    if f"{name}.indices" in arrays:
        where = checked_indices({"indices": arrays[f"{name}.indices"]}, width)
        found[where] = require_array(arrays, name, where.shape, numbers)
    else:
        found[:] = require_array(arrays, name, (width,), numbers)
    if len(found) and found.min() < 0.0:
        raise ModelFileError(f"its array {name!r} has sums of squares below 0")
    return found


def scales_out(
    preparation: Preparation,
    n_features: int,
    needed: NDArray[np.bool_] | None = None,
    places: Places | None = None,
) -> Arrays:
    """Scales of features that were learned, or of those of them that are needed."""
    if preparation.scales is None:
        return {}
    learned = preparation.scales.learned(n_features)
    where = np.flatnonzero(learned if needed is None else learned & needed)
    columns = preparation.scales.columns(where)
    numbers, width = (where, n_features) if places is None else (places.numbers[where], places.n_features)
    return columns | {"indices": narrow(numbers, width)}


def scales_in(preparation: Preparation, own: Arrays, n_features: int) -> None:
    """What `scales_out` gave."""
    preparation.widen(n_features)
    if preparation.scales is None:
        return
    where = checked_indices(own, n_features)
    shapes = dict.fromkeys(preparation.scales.names, where.shape) | dict.fromkeys(preparation.scales.shared, (1,))
    columns = {n: require_array(own, n, shape, np.dtype(np.float64)) for n, shape in shapes.items()}
    if not all((array >= 0.0).all() for array in columns.values()):
        raise ModelFileError("its scales are not all 0 or above")
    preparation.scales.put(where, columns)
