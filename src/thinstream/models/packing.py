"""A learner as a description and a few arrays, and back.

In full: ``state`` and ``clocks``, a row per coordinate (the intercept is coordinate 0), ``counts``, ``totals`` and the
rule's ``own`` array (of a full covariance the upper triangle, column by column). Where most coordinates were never
touched only the others are stored, with their ``indices``.
Weights only: ``indices`` and ``weights`` of those that are not zero, ``intercept``, ``counts`` and ``loss``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError
from thinstream.learners import Frozen, Learner, make_learner
from thinstream.learners.memory import kept, records, touched
from thinstream.models.container import Arrays
from thinstream.models.plain import plain


def described(learner: Learner) -> dict[str, Any]:
    """What makes a learner, besides its memory."""
    costs = Costs(*learner.costs)
    return {
        "algorithm": learner.algorithm.name,
        "parameters": plain(learner.parameters, "parameters"),
        "costs": {
            "negative": float(costs.negative),
            "positive": float(costs.positive),
            "balanced": bool(costs.balanced),
        },
        "dtype": learner.memory.state.dtype.name,
        "n_features": int(learner.n_features),
        "fit_intercept": bool(learner.offset),
        "grow": bool(learner.grow),
    }


def full(learner: Learner) -> Arrays:
    """The memory, cut to the model's width: room to grow is not stored."""
    memory = learner.memory
    width = kept(learner.rule, memory, learner.n_features + learner.offset)
    state, clocks = records(learner.algorithm, memory, width)
    arrays = {"counts": memory.counts, "totals": memory.totals, "own": memory.extra}
    where = _indices(touched(learner.algorithm, learner.rule, memory, width), width)
    if where.nbytes + len(where) * (state[:1].nbytes + clocks[:1].nbytes) < state.nbytes + clocks.nbytes:
        arrays["indices"], state, clocks = where, state[where], clocks[where]
    return arrays | {"state": state, "clocks": clocks}


def weights(learner: Learner) -> Arrays:
    """What predicting needs, and the counters."""
    where, values = learner.sparse_weights()
    return {
        "indices": _indices(where, learner.n_features),
        "weights": values,
        "intercept": np.array([learner.intercept] * learner.offset, dtype=values.dtype),
        "counts": learner.memory.counts,
        "loss": learner.memory.totals[:1],
    }


def learner_of(head: dict[str, Any], arrays: Arrays) -> Learner:
    """The learner of a full model; its parameters are checked as any."""
    common = _common(head)
    learner = make_learner(**common, **head["parameters"])
    memory, n = learner.memory, learner.n_features + learner.offset
    width = kept(learner.rule, memory, n)
    where = _checked_indices(arrays, width) if "indices" in arrays else None
    rows = width if where is None else len(where)
    for name, whole in zip(("state", "clocks"), records(learner.algorithm, memory, width), strict=True):
        whole[slice(None) if where is None else where] = _array(arrays, name, (rows, whole.shape[1]), whole.dtype)
    memory.counts[:] = _counts(arrays)
    memory.totals[:] = _array(arrays, "totals", memory.totals.shape, memory.totals.dtype)
    memory.extra[:] = _array(arrays, "own", memory.extra.shape, memory.extra.dtype)
    if hasattr(learner.rule, "sound") and not learner.rule.sound(memory):
        raise ModelFileError(f"the state of {learner.algorithm.name} contradicts itself")
    return learner


def frozen_of(head: dict[str, Any], arrays: Arrays) -> Frozen:
    """The model of a file of weights."""
    common = _common(head)
    where, dtype = _checked_indices(arrays, common["n_features"]), np.dtype(common["dtype"])
    intercept = _array(arrays, "intercept", (int(common["fit_intercept"]),), dtype)
    return Frozen(
        **common,
        parameters=head["parameters"],
        where=where,
        values=_array(arrays, "weights", where.shape, dtype),
        intercept=float(intercept[0]) if len(intercept) else 0.0,
        counts=_counts(arrays),
        loss=float(_array(arrays, "loss", (1,), np.dtype(np.float64))[0]),
    )


def _common(head: dict[str, Any]) -> dict[str, Any]:
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


def _indices(where: NDArray[np.int64], width: int) -> NDArray[Any]:
    return where.astype(np.int32 if width < 2**31 else np.int64)


def _array(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != dtype:
        got = "is missing" if found is None else f"is {found.dtype.name} of shape {found.shape}"
        raise ModelFileError(f"its array {name!r} {got}, not {dtype.name} of shape {shape}")
    return found


def _counts(arrays: Arrays) -> NDArray[np.int64]:
    counts = _array(arrays, "counts", (5,), np.dtype(np.int64))
    if counts.min() < 0:
        raise ModelFileError(f"its counters are {counts.tolist()}, some below 0")
    return counts


def _checked_indices(arrays: Arrays, width: int) -> NDArray[np.int64]:
    found = arrays.get("indices")
    if found is None or found.ndim != 1 or found.dtype.kind != "i":
        raise ModelFileError("its array 'indices' is missing or not a vector of integers")
    where = found.astype(np.int64)
    if len(where) and (where[0] < 0 or where[-1] >= width or np.any(np.diff(where) <= 0)):
        raise ModelFileError(f"its array 'indices' is not sorted and unique from 0 to {width - 1}")
    return where
