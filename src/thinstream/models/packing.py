"""A learner as a description and a few arrays, and back.

In full: ``state`` and ``clocks``, a row per coordinate (the intercept is coordinate 0), ``counts``, ``totals`` and the
rule's ``own`` array (of a full covariance the upper triangle, column by column). Where most coordinates were never
touched only the others are stored, with their ``indices``.
Weights only: ``indices`` and ``weights`` of those that are not zero, ``intercept``, ``counts`` and ``loss``.
Batch methods: the arrays they name themselves, after ``batch/``; parameters that are arrays, after ``given/``.

Blends: see `packing_blend`.

Rows that are prepared: ``scales/indices`` of the features learned, and what their scales are made of. A model of
several vectors has them one after another, as if it had so many times the features, and ``scales/k/`` of the k-th kind
of rows.

A budget of features: see `packing_budget`.

Of more than two classes each has these arrays for its own, with its number before the name (``7/state``); the costs are
those of each, and ``mistakes`` counts rows whose class had not the highest score. With classes that come later this is
so of one or two classes as well, and in full the models of classes to come follow, in the order of ``spares``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import blends_of
from thinstream.budget import KeptLearner, budget_of
from thinstream.compact import CompactLearner, compact_learner, narrow_learner
from thinstream.engine.forgetting import declared
from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError
from thinstream.growing import Growing
from thinstream.learners import find, make_learner
from thinstream.learners.frozen import require_array
from thinstream.learners.learner import dtype_of
from thinstream.learners.memory import require_room
from thinstream.learners.protocol import AnyLearner
from thinstream.learners.registry import rule_of
from thinstream.models.container import Arrays, plain
from thinstream.models.packing_blend import blend_of, full_blend, scales_in, scales_out
from thinstream.models.packing_budget import budget_around, kept_numbers, pack_budget
from thinstream.models.packing_compact import in_slots, numbers_to_keep, vectors_of
from thinstream.models.packing_one import Places, common_options, frozen_of, full, learner_of, weights
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import Preparation, Several, described_by, plain_learner, preparation_of, prepared

_BATCH, _GIVEN, _SCALES = "batch/", "given/", "scales/"


def describe(learner: AnyLearner, grade: str = "full") -> dict[str, Any]:
    """What makes a learner, besides its memory."""
    costs = [_costs(Costs(*model.costs)) for model in learner.models]
    short = {name: value for name, value in learner.parameters.items() if not np.ndim(value)}
    if learner.algorithm.kind != "batch":
        short = learner.parameters
    preparation, inner = preparation_of(narrow_learner(learner)), plain_learner(narrow_learner(learner))
    growing, blends = isinstance(inner, Growing), blends_of(learner)
    spares = {"spares": [_costs(each) for each in inner.spare_costs]} if growing else {}
    return spares | {
        "algorithm": learner.algorithm.name,
        "parameters": plain(short, "parameters"),
        "costs": costs if len(costs) > 1 or growing else costs[0],
        "dtype": learner.dtype.name,
        "n_features": int(learner.n_features) * preparation.vectors,
        "fit_intercept": bool(learner.offset),
        "grow": bool(learner.grow),
        **({"preparation": preparation.described} if preparation else {}),
        **({"budget": budget_of(learner) if grade == "full" else {}} if isinstance(learner, KeptLearner) else {}),
        **({"members": [member.described for member in blends[0].record.members]} if blends else {}),
    }


def _costs(costs: Costs) -> dict[str, Any]:
    return {
        "negative": float(costs.negative),
        "positive": float(costs.positive),
        "balanced": bool(costs.balanced),
    }


def pack(learner: AnyLearner, grade: str, places: Places | None = None) -> Arrays:
    """What a learner is, in full or as far as predicting needs it; a compact one as the wide one it stands for."""
    if isinstance(learner, CompactLearner):
        ordered = learner.in_order()
        numbers = np.concatenate([[-1], ordered.table.numbers])
        kept = pack_budget(learner, ordered.table.numbers, grade) if isinstance(learner, KeptLearner) else {}
        return pack(ordered.inner, grade, Places(numbers, learner.n_features)) | kept
    if preparation_of(learner):
        vectors = preparation_of(learner).vectors
        inner = pack(plain_learner(learner), grade, None if places is None else places.several(vectors))
        return inner | _pack_scales(preparation_of(learner), learner, grade, places)
    if learner.algorithm.kind == "batch":
        return _pack_batch(learner, grade)
    one: Any = full if grade == "full" else weights
    one = full_blend if blends_of(learner) else one
    each: list[Arrays] = [one(model, places) for model in learner.models]
    if isinstance(learner, Growing):
        each += [one(spare, places) for spare in learner.spares if grade == "full"]
    elif len(each) == 1:
        return each[0]
    arrays = {f"{k}/{name}": array for k, arrays in enumerate(each) for name, array in arrays.items()}
    return arrays | {"mistakes": np.array([learner.n_mistakes])}


def unpack(head: dict[str, Any], arrays: Arrays) -> AnyLearner:
    """The learner of a file, compact where it would be far wider than what is in it; parameters are checked as any."""
    if "budget" in head:
        return budget_around(_unpack_slots(head, arrays, kept_numbers(head, arrays)), head, arrays)
    numbers = numbers_to_keep(head, arrays)
    if numbers is None:
        return _unpack(head, arrays)
    width = head["n_features"] // vectors_of(head)
    return compact_learner(_unpack_slots(head, arrays, numbers), numbers, width, head["grow"])


def _unpack_slots(head: dict[str, Any], arrays: Arrays, numbers: NDArray[np.int64]) -> AnyLearner:
    """The learner with slots from 1 on for these numbers."""
    slots = {**head, "n_features": vectors_of(head) * (len(numbers) + 1)}
    return _unpack(slots, in_slots(head, arrays, numbers))


def _unpack(head: dict[str, Any], arrays: Arrays) -> AnyLearner:
    if "preparation" in head:
        inner = _unpack({name: value for name, value in head.items() if name != "preparation"}, arrays)
        found: AnyLearner = prepared(inner, _unpack_scales(head["preparation"], arrays, inner.n_features))
        return found
    costs, algorithm = head.get("costs"), head.get("algorithm")
    if type(algorithm) is str and find(algorithm).kind == "batch":
        return _unpack_batch(head, arrays)
    blended = head["grade"] == "full" and "members" in head
    one: Any = blend_of if blended else learner_of if head["grade"] == "full" else frozen_of
    if type(costs) is not list:
        alone: AnyLearner = one(head, arrays)
        return alone
    classes = len(costs)
    if classes != len(head["classes"]) or classes < (1 if "spares" in head else 3):
        raise ModelFileError(f"it has costs for {classes} classes, and {len(head['classes'])} classes")
    spare_costs = head.get("spares", [])
    costs = [*costs, *(spare_costs if head["grade"] == "full" else [])]
    if not blended:
        _require_room({**head, "costs": costs[0]}, len(costs))
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
    usual = [common_options({**head, "costs": cost})["costs"] for cost in spare_costs]
    if not usual:
        raise ModelFileError("it has no model for classes to come")
    return Growing(models[:classes], models[classes:], mistakes, usual)


def _require_room(head: dict[str, Any], models: int) -> None:
    first, rule = common_options(head), rule_of(find(head["algorithm"]), head["parameters"])
    if head["grade"] == "weights":
        rule = rule_of(find("perceptron"), {})  # which they are inside
    width, dtype = first["n_features"] + first["fit_intercept"], dtype_of(first["dtype"], head["algorithm"])
    require_room(declared(type(rule)), rule, width, dtype, models)


def _pack_scales(preparation: Preparation, learner: AnyLearner, grade: str, places: Places | None) -> Arrays:
    """Scales of features that were learned; weights without normalisation need those of non-zero weights only."""
    if isinstance(preparation, Several):
        each = [scales_out(one, learner.n_features, places=places) for one in preparation.each]
        return {f"{_SCALES}{k}/{name}": a for k, own in enumerate(each) for name, a in own.items()}
    needed = None
    if grade == "weights" and preparation.scales is not None and preparation.normalize is None:
        needed = np.logical_or.reduce(np.atleast_2d(plain_learner(learner).weights() != 0))
    return {_SCALES + name: a for name, a in scales_out(preparation, learner.n_features, needed, places).items()}


def _unpack_scales(kinds: Any, arrays: Arrays, n_features: int) -> Preparation:
    preparation = described_by(kinds, n_features)
    if not preparation:
        raise ModelFileError(f"it says that rows are prepared, and not how: {kinds!r}")
    for k, one in enumerate(preparation.each):
        prefix = f"{_SCALES}{k}/" if preparation.vectors > 1 else _SCALES
        scales_in(one, _within(prefix, arrays), n_features // preparation.vectors)
    return preparation


def _within(prefix: str, arrays: Arrays) -> Arrays:
    """Arrays whose names begin like that, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _pack_batch(learner: Any, grade: str) -> Arrays:
    arrays = learner.arrays(weights_only=grade == "weights")
    given = {_GIVEN + name: np.asarray(value) for name, value in learner.parameters.items() if np.ndim(value)}
    return {_BATCH + name: array for name, array in arrays.items()} | given


def _unpack_batch(head: dict[str, Any], arrays: Arrays) -> AnyLearner:
    given, own = _within(_GIVEN, arrays), _within(_BATCH, arrays)
    common = common_options(head)
    kind = dtype_of(common["dtype"], common["algorithm"])
    require_array(own, "w", (common["n_features"] + common["fit_intercept"],), kind)  # before the model gets room
    learner: Any = make_learner(**common, parameters=head["parameters"] | given)
    learner.restore(own) if head["grade"] == "full" else learner.restore_weights(own)
    found: AnyLearner = learner
    return found
