"""A learner as a description and a few arrays, and back.

In full: ``state`` and ``clocks``, a row per coordinate (the intercept is coordinate 0), ``counts``, ``totals`` and the
rule's ``own`` array (of a full covariance the upper triangle, column by column). Where most coordinates were never
touched only the others are stored, with their ``indices``.
Weights only: ``indices`` and ``weights`` of those that are not zero, ``intercept``, ``counts`` and ``loss``.
Batch methods: the arrays they name themselves, after ``batch/``; parameters that are arrays, after ``given/``.

Rows that are prepared: ``scales/indices`` of the features learned, and what their scales are made of.

Of more than two classes each has these arrays for its own, with its number before the name (``7/state``); the costs are
those of each, and ``mistakes`` counts rows whose class had not the highest score. With classes that come later this is
so of one or two classes as well, and in full the models of classes to come follow, in the order of ``spares``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.full import Matrix
from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError
from thinstream.growing import Growing
from thinstream.learners import Frozen, Learner, find, make_learner
from thinstream.learners.frozen import require_array
from thinstream.learners.learner import dtype_of
from thinstream.learners.memory import field_names, is_full, kept_width, record_views, require_room, touched_coordinates
from thinstream.learners.protocol import AnyLearner
from thinstream.learners.registry import rule_of
from thinstream.models.container import Arrays, plain
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import Preparation, plain_learner, preparation_of, prepared

_BATCH, _GIVEN, _SCALES = "batch/", "given/", "scales/"


def oldest_format(learner: AnyLearner) -> int:
    """The first version of the format that can hold it."""
    if preparation_of(learner) or isinstance(learner, Growing):
        return 4
    if learner.algorithm.kind == "batch":
        return 3
    return 1 if sum(1 for _ in learner.models) == 1 else 2


def describe(learner: AnyLearner) -> dict[str, Any]:
    """What makes a learner, besides its memory."""
    costs = [_costs(Costs(*model.costs)) for model in learner.models]
    short = {name: value for name, value in learner.parameters.items() if not np.ndim(value)}
    inner = plain_learner(learner)
    growing = isinstance(inner, Growing)
    spares = {"spares": [_costs(each) for each in inner.spare_costs]} if growing else {}
    return spares | {
        "algorithm": learner.algorithm.name,
        "parameters": plain(short, "parameters"),
        "costs": costs if len(costs) > 1 or growing else costs[0],
        "dtype": learner.dtype.name,
        "n_features": int(learner.n_features),
        "fit_intercept": bool(learner.offset),
        "grow": bool(learner.grow),
        **({"preparation": preparation_of(learner).kinds} if preparation_of(learner) else {}),
    }


def _costs(costs: Costs) -> dict[str, Any]:
    return {
        "negative": float(costs.negative),
        "positive": float(costs.positive),
        "balanced": bool(costs.balanced),
    }


def pack(learner: AnyLearner, grade: str) -> Arrays:
    """What a learner is, in full or as far as predicting needs it."""
    if preparation_of(learner):
        inner = pack(plain_learner(learner), grade)
        return inner | _pack_scales(preparation_of(learner), learner, grade)
    if learner.algorithm.kind == "batch":
        return _pack_batch(learner, grade)
    one = full if grade == "full" else weights
    each = [one(model) for model in learner.models]
    if isinstance(learner, Growing):
        each += [full(spare) for spare in learner.spares if grade == "full"]
    elif len(each) == 1:
        return each[0]
    arrays = {f"{k}/{name}": array for k, arrays in enumerate(each) for name, array in arrays.items()}
    return arrays | {"mistakes": np.array([learner.n_mistakes])}


def unpack(head: dict[str, Any], arrays: Arrays) -> AnyLearner:
    """The learner of a file; its parameters are checked as any."""
    if "preparation" in head:
        inner = unpack({name: value for name, value in head.items() if name != "preparation"}, arrays)
        found: AnyLearner = prepared(inner, _unpack_scales(head["preparation"], arrays, inner.n_features))
        return found
    costs, algorithm = head.get("costs"), head.get("algorithm")
    if type(algorithm) is str and find(algorithm).kind == "batch":
        return _unpack_batch(head, arrays)
    one: Any = learner_of if head["grade"] == "full" else frozen_of
    if type(costs) is not list:
        alone: AnyLearner = one(head, arrays)
        return alone
    classes = len(costs)
    if classes != len(head["classes"]) or classes < (1 if "spares" in head else 3):
        raise ModelFileError(f"it has costs for {classes} classes, and {len(head['classes'])} classes")
    spare_costs = head.get("spares", [])
    costs = [*costs, *(spare_costs if head["grade"] == "full" else [])]
    first, rule = _common({**head, "costs": costs[0]}), rule_of(find(head["algorithm"]), head["parameters"])
    width, dtype = first["n_features"] + first["fit_intercept"], dtype_of(first["dtype"], head["algorithm"])
    require_room(declared(type(rule)), rule, width, dtype, len(costs))
    own: list[Arrays] = [{} for _ in costs]
    for name, array in arrays.items():
        number, slash, rest = name.partition("/")
        if slash and number.isdecimal() and int(number) < len(own):
            own[int(number)][rest] = array
    models = [one({**head, "costs": cost}, part) for cost, part in zip(costs, own, strict=True)]
    mistakes = int(require_array(arrays, "mistakes", (1,), np.dtype(np.int64))[0])
    if mistakes < 0:
        raise ModelFileError(f"its mistakes are {mistakes}, below 0")
    if "spares" not in head:
        return OneVsRest(models, mistakes)
    usual = [_common({**head, "costs": cost})["costs"] for cost in spare_costs]
    if not usual:
        raise ModelFileError("it has no model for classes to come")
    return Growing(models[:classes], models[classes:], mistakes, usual)


def _pack_scales(preparation: Preparation, learner: AnyLearner, grade: str) -> Arrays:
    """Scales of features that were learned; weights without normalisation need those of non-zero weights only."""
    if preparation.scales is None:
        return {}
    needed = preparation.scales.learned(learner.n_features)
    if grade == "weights" and preparation.normalize is None:
        needed &= np.logical_or.reduce(np.atleast_2d(plain_learner(learner).weights() != 0))
    where = np.flatnonzero(needed)
    columns = {_SCALES + name: array for name, array in preparation.scales.columns(where).items()}
    return columns | {f"{_SCALES}indices": _indices(where, learner.n_features)}


def _unpack_scales(kinds: Any, arrays: Arrays, n_features: int) -> Preparation:
    preparation = Preparation(**kinds)
    if not preparation:
        raise ModelFileError(f"it says that rows are prepared, and not how: {kinds!r}")
    preparation.widen(n_features)
    if preparation.scales is not None:
        own = {name.removeprefix(_SCALES): array for name, array in arrays.items() if name.startswith(_SCALES)}
        where = _checked_indices(own, n_features)
        columns = {n: require_array(own, n, where.shape, np.dtype(np.float64)) for n in preparation.scales.names}
        if not all((array >= 0.0).all() for array in columns.values()):
            raise ModelFileError("its scales are not all 0 or above")
        preparation.scales.put(where, columns)
    return preparation


def _pack_batch(learner: Any, grade: str) -> Arrays:
    arrays = learner.arrays(weights_only=grade == "weights")
    given = {_GIVEN + name: np.asarray(value) for name, value in learner.parameters.items() if np.ndim(value)}
    return {_BATCH + name: array for name, array in arrays.items()} | given


def _unpack_batch(head: dict[str, Any], arrays: Arrays) -> AnyLearner:
    given = {name.removeprefix(_GIVEN): array for name, array in arrays.items() if name.startswith(_GIVEN)}
    own = {name.removeprefix(_BATCH): array for name, array in arrays.items() if name.startswith(_BATCH)}
    common = _common(head)
    kind = dtype_of(common["dtype"], common["algorithm"])
    require_array(own, "w", (common["n_features"] + common["fit_intercept"],), kind)  # before the model gets room
    learner: Any = make_learner(**common, parameters=head["parameters"] | given)
    learner.restore(own) if head["grade"] == "full" else learner.restore_weights(own)
    found: AnyLearner = learner
    return found


def from_format_2(head: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """The file of a batch method as format 2 had it, in the layout of all others."""
    batch = head["batch"]
    moved = {"arrays/given.": _GIVEN, "arrays/": _BATCH}
    for old, new in moved.items():
        arrays = {new + name.removeprefix(old) if name.startswith(old) else name: a for name, a in arrays.items()}
    known = {name: batch[name] for name in ("class_weight", "shuffle", "random_state")}
    known |= {"classes": batch["classes_dtype"], "named": "names.indices" in arrays}
    described = {name: batch[name] for name in ("algorithm", "parameters", "dtype", "n_features", "fit_intercept")}
    return head | described | {
        "costs": _costs(Costs(*batch["costs"])),
        "grow": False,
        "grade": "weights" if batch["frozen"] else "full",
        "classes": batch["classes"],
        "space": {},
        "extra": {"estimator": known},
    }, arrays


def full(learner: Learner) -> Arrays:
    """The memory, cut to the model's width: room to grow is not stored."""
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    state, clocks = record_views(learner.algorithm, memory, width)
    arrays = {"counts": memory.counts, "totals": memory.totals, "own": memory.extra}
    where = _indices(touched_coordinates(learner.algorithm, learner.rule, memory, width), width)
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
    where = _stored_coordinates(common, head["parameters"], arrays)  # before the model gets room
    learner: Learner = make_learner(**common, **head["parameters"])
    memory = learner.memory
    width = kept_width(learner.rule, memory, learner.n_features + learner.offset)
    for name, whole in zip(("state", "clocks"), record_views(learner.algorithm, memory, width), strict=True):
        whole[where] = arrays[name]
    memory.counts[:] = _counts(arrays)
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
        own = rule.extra_size() if hasattr(rule, "extra_size") else len(rule.extra())
        require_array(arrays, "own", (own,), np.dtype(np.float64))
        width = max(width, own)
    where = _checked_indices(arrays, width) if "indices" in arrays else slice(None)
    rows = len(where) if isinstance(where, np.ndarray) else width
    for name, fields, kind in zip(
        ("state", "clocks"), field_names(algorithm.coordinate), (dtype, np.float64), strict=True
    ):
        require_array(arrays, name, (rows, len(fields)), kind)
    return where


def frozen_of(head: dict[str, Any], arrays: Arrays) -> Frozen:
    """The model of a file of weights."""
    common = _common(head)
    where, dtype = _checked_indices(arrays, common["n_features"]), np.dtype(common["dtype"])
    intercept = require_array(arrays, "intercept", (int(common["fit_intercept"]),), dtype)
    return Frozen(
        **common,
        parameters=head["parameters"],
        where=where,
        values=require_array(arrays, "weights", where.shape, dtype),
        intercept=float(intercept[0]) if len(intercept) else 0.0,
        counts=_counts(arrays),
        loss=float(require_array(arrays, "loss", (1,), np.dtype(np.float64))[0]),
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


def _counts(arrays: Arrays) -> NDArray[np.int64]:
    counts = require_array(arrays, "counts", (5,), np.dtype(np.int64))
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
