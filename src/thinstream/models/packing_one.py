"""One model of two classes as a few arrays, and back: in full, or its weights only (see `packing`)."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.full import Matrix
from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError
from thinstream.learners import Frozen, Learner, find, make_learner
from thinstream.learners.frozen import require_array
from thinstream.learners.learner import dtype_of
from thinstream.learners.memory import (
    extra_size,
    field_names,
    is_full,
    kept_width,
    record_views,
    require_room,
    touched_coordinates,
)
from thinstream.learners.registry import rule_of
from thinstream.models.container import Arrays


class Places(NamedTuple):
    """Which numbers, sorted, the features of a compact learner have in one of ``n_features``; the first has none."""

    numbers: NDArray[np.int64]
    n_features: int

    def several(self, vectors: int) -> "Places":
        """Those of so many vectors, one after another."""
        each = [np.where(self.numbers >= 0, self.numbers + k * self.n_features, -1) for k in range(vectors)]
        return Places(np.concatenate(each), vectors * self.n_features)

    def coordinates(self, where: NDArray[Any], offset: int) -> NDArray[np.int64]:
        """Coordinates by these numbers; the first ``offset`` are of no feature."""
        return np.where(where < offset, where, self.numbers[np.maximum(where - offset, 0)] + offset)


def full(learner: Learner, places: Places | None = None) -> Arrays:
    """The memory, cut to the model's width: room to grow is not stored. ``places`` are those of its features."""
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    state, clocks = record_views(learner.algorithm, memory, width)
    arrays = {"counts": memory.counts, "totals": memory.totals, "own": memory.extra}
    touched = touched_coordinates(learner.algorithm, learner.rule, memory, width)
    if places is not None:
        indices = narrow(places.coordinates(touched, learner.offset), places.n_features + learner.offset)
        return arrays | {"indices": indices, "state": state[touched], "clocks": clocks[touched]}
    where = narrow(touched, width)
    if where.nbytes + len(where) * (state[:1].nbytes + clocks[:1].nbytes) < state.nbytes + clocks.nbytes:
        arrays["indices"], state, clocks = where, state[where], clocks[where]
    return arrays | {"state": state, "clocks": clocks}


def weights(learner: Learner, places: Places | None = None) -> Arrays:
    """What predicting needs, and the counters."""
    where, values = learner.sparse_weights()
    numbers, width = (where, learner.n_features) if places is None else (places.numbers[where], places.n_features)
    return {
        "indices": narrow(numbers, width),
        "weights": values,
        "intercept": np.array([learner.intercept] * learner.offset, dtype=values.dtype),
        "counts": learner.memory.counts,
        "loss": learner.memory.totals[:1],
    }


def learner_of(head: dict[str, Any], arrays: Arrays) -> Learner:
    """The learner of a full model; its parameters are checked as any."""
    common = common_options(head)
    where = _stored_coordinates(common, head["parameters"], arrays)  # before the model gets room
    learner: Learner = make_learner(**common, **head["parameters"])
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    for name, whole in zip(("state", "clocks"), record_views(learner.algorithm, memory, width), strict=True):
        whole[where] = arrays[name]
    memory.counts[:] = checked_counts(arrays)
    memory.totals[:] = require_array(arrays, "totals", memory.totals.shape, memory.totals.dtype)
    memory.extra[:] = arrays["own"]
    if hasattr(learner.rule, "sound") and not learner.rule.sound(memory):
        raise ModelFileError(f"the state of {learner.algorithm.name} contradicts itself")
    return learner


def _stored_coordinates(common: dict[str, Any], parameters: dict[str, Any], arrays: Arrays) -> Any:
    """Which coordinates state and clocks are of, if they and the rule's own array are as large as they must be."""
    rule = rule_of(find(common["algorithm"]), parameters)
    algorithm, dtype = declared(type(rule)), dtype_of(common["dtype"], common["algorithm"])
    width = common["n_features"] + common["fit_intercept"]
    require_room(algorithm, rule, width, dtype)
    if is_full(rule):
        require_array(arrays, "own", (Matrix.size(width),), dtype)
    else:
        own = extra_size(rule)
        require_array(arrays, "own", (own,), np.dtype(np.float64))
        width = max(width, own)
    where = checked_indices(arrays, width) if "indices" in arrays else slice(None)
    rows = len(where) if isinstance(where, np.ndarray) else width
    for name, fields, kind in zip(
        ("state", "clocks"), field_names(algorithm.coordinate), (dtype, np.float64), strict=True
    ):
        require_array(arrays, name, (rows, len(fields)), kind)
    return where


def frozen_of(head: dict[str, Any], arrays: Arrays) -> Frozen:
    """The model of a file of weights."""
    common = common_options(head)
    where, dtype = checked_indices(arrays, common["n_features"]), np.dtype(common["dtype"])
    intercept = require_array(arrays, "intercept", (int(common["fit_intercept"]),), dtype)
    return Frozen(
        **common,
        parameters=head["parameters"],
        where=where,
        values=require_array(arrays, "weights", where.shape, dtype),
        intercept=float(intercept[0]) if len(intercept) else 0.0,
        counts=checked_counts(arrays),
        loss=float(require_array(arrays, "loss", (1,), np.dtype(np.float64))[0]),
    )


def common_options(head: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a learner besides its parameters, of the types they must have."""
    kinds = {
        "algorithm": str,
        "parameters": dict,
        "costs": dict,
        "dtype": str,
        "n_features": int,
        "fit_intercept": bool,
        "grow": bool,
    }
    for name, kind in kinds.items():
        if type(head.get(name)) is not kind:
            raise ModelFileError(f"its {name} is {head.get(name)!r}, not of type {kind.__name__}")
    costs = Costs(**head["costs"])
    if head["n_features"] < 0 or not (0 < costs.negative < np.inf and 0 < costs.positive < np.inf):
        raise ModelFileError(f"it has {head['n_features']} features and the costs {tuple(costs)}")
    given = {name: head[name] for name in kinds if name not in ("parameters", "costs")}
    return given | {"costs": Costs(float(costs[0]), float(costs[1]), bool(costs[2]))}


def narrow(where: NDArray[np.int64], width: int) -> NDArray[Any]:
    """Numbers of coordinates as they are stored."""
    return where.astype(np.int32 if width < 2**31 else np.int64)


def checked_counts(arrays: Arrays) -> NDArray[np.int64]:
    """The counters of a file."""
    counts = require_array(arrays, "counts", (5,), np.dtype(np.int64))
    if counts.min() < 0:
        raise ModelFileError(f"its counters are {counts.tolist()}, some below 0")
    return counts


def checked_indices(arrays: Arrays, width: int) -> NDArray[np.int64]:
    """Numbers of coordinates of a file."""
    found = arrays.get("indices")
    if found is None or found.ndim != 1 or found.dtype.kind != "i":
        raise ModelFileError("its array 'indices' is missing or not a vector of integers")
    where = found.astype(np.int64)
    if len(where) and (where[0] < 0 or where[-1] >= width or np.any(np.diff(where) <= 0)):
        raise ModelFileError(f"its array 'indices' is not sorted and unique from 0 to {width - 1}")
    return where
