"""Merge models that learned from disjoint parts of a stream.

The rule declares how coordinates are merged (`engine.rule`). Sums run in 64 bits, in an order that depends on the
models and not on the order in which they are passed.

Models with different scales are rescaled to common ones first. If a feature's scale becomes r times as large, its
weight is multiplied by r, so that scores do not change, and a variance by r². The rule declares which power of r
applies to which field of a coordinate.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.covariance import Matrix
from thinstream.engine.loop import Costs
from thinstream.engine.memory import field_views, widen
from thinstream.engine.protocol import refuse_learning, require_mergeable
from thinstream.engine.records import Memory
from thinstream.engine.rows import BLOCK
from thinstream.engine.rule import MergeRule
from thinstream.errors import InvalidParameterError, MergeError, NumericalError
from thinstream.lanes.full import online_learner
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models.blend import Blend
from thinstream.models.head import Head
from thinstream.models.importance import feature_importance
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline, budgeted, expand_if_dense, on_common_slots, on_numbers
from thinstream.models.preparation import Preparation, Scales
from thinstream.models.products import factors, n_products
from thinstream.models.slots import merged_table, names_by_number

#: How learners with a full covariance are merged.
FULL = "precisions add (the prior counted once); θ and v add, means are weighted by precision"


class Shard(NamedTuple):
    """A block of one model's coordinates, in 64 bits. Features that did not occur in it are fresh."""

    f: Any  # the coordinates, as a record of arrays
    w: Callable[[], NDArray[np.float64]]  # their weights, with all thresholds applied
    share: float  # share of the model in averages; shares add up to 1


def require_rule(model: Learner, average: bool = False) -> MergeRule:
    """Return how models like this one are merged, or raise a MergeError with the reason and the remedy."""
    rule: MergeRule = model.rule.merge_rule()
    if rule.refused and not (average and rule.declared):
        raise MergeError(f"{model.algorithm.name} cannot be merged: {rule.refused}")
    return rule


def require_distinct(models: Sequence[Any]) -> None:
    """Raise if a model with examples is passed twice: its examples would count twice."""
    seen = [id(model) for model in models if model.t]
    if len(set(seen)) < len(seen):
        raise MergeError(
            f"{models[0].algorithm.name}: a model cannot be merged with itself, because its examples would count "
            "twice. Merge models of disjoint parts of the data"
        )


def merge(learners: Sequence[Learner], weights: Sequence[float] | None = None, *, average: bool = False) -> Any:
    """Return a new model from models that learned from disjoint parts of a stream. The models do not change.

    The order of the models does not matter, and a fresh model does not change the result. Both hold bit for bit.
    Counters add. In a narrower model, the missing features have not occurred. An algorithm that cannot be merged raises
    if at least two models have learned examples.

    Parameters
    ----------
    learners : sequence of Learner
        Models with the same algorithm, parameters, class costs, dtype and intercept.
    weights : sequence of float, optional
        Weights of the models in averages, instead of t.
    average : bool
        Whether to average models of SSOL with ``diagonal="drop"``, which have no merge rule, instead of raising.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> def rows(*labels):
    ...     n = len(labels)
    ...     return Batch.of(np.arange(n + 1), np.arange(n), np.ones(n), n, y=np.array(labels, np.int8))
    >>> one, other = Learner("fsol", n_features=2), Learner("fsol", n_features=3)
    >>> _ = one.learn(rows(1, -1)), other.learn(rows(1, 1, 1))
    >>> both = merge([one, other])
    >>> both.weights(), both.t
    (array([2., 0., 1.], dtype=float32), 5)

    """
    if not learners:
        raise MergeError("merge needs at least one model, got none")
    require_distinct(learners)
    if learners[0].algorithm.kind != "online":
        first: Any = learners[0]
        if any(isinstance(learner, Frozen) for learner in learners):  # weights of a blend
            refuse_learning(first.algorithm.name)
        blends: Any = learners
        merged: Any = merge_blends(blends, average) if isinstance(first, Blend) else first.merge(learners[1:])
        return merged
    for other in learners[1:]:
        require_mergeable(learners[0], other)
    width = max(learner.n_features for learner in learners)
    parts = sorted(
        [pair for pair in zip(learners, _checked(weights, learners), strict=True) if pair[0].t],
        key=lambda pair: (_fingerprint(pair[0]), pair[1]),
    )
    if len(parts) < 2:
        model = copy_wide(parts[0][0] if parts else learners[0], width)
    else:
        rule = None if learners[0].full else require_rule(learners[0], average)
        if weights is not None and (rule is None or not rule.averages):
            name, how = learners[0].algorithm.name, FULL if rule is None else rule.how
            raise MergeError(f"{name}: weights only apply to algorithms whose models are averaged, but here {how}")
        model = _merged(parts, width, rule)
    if not all(np.isfinite(array).all() for array in model.memory):
        raise NumericalError(
            f"{model.algorithm.name}: the merged model would have numbers that are not finite. Use dtype='float64'"
        )
    model.grow = any(learner.grow for learner in learners)
    return model


def _merged(parts: Sequence[tuple[Learner, float]], width: int, rule: MergeRule | None) -> Learner:
    total = sum(weight for _, weight in parts)
    if not 0 < total < math.inf:
        raise InvalidParameterError(
            f"merge: the weights of models that have learned examples must have a finite sum > 0, got {total}"
        )
    first = parts[0][0]
    model = online_learner(
        first.algorithm.name,
        n_features=width,
        costs=first.costs,
        dtype=first.dtype.name,
        fit_intercept=bool(first.offset),
        **first.parameters,
    )
    for learner, _ in parts:
        model.memory.counts[:] += learner.memory.counts
        model.memory.totals[:] += learner.memory.totals
    if rule is None:
        _merge_full([part for part, _ in parts], model)
        return model
    for start in range(0, width + model.offset, BLOCK):  # blocks keep the copies in 64 bits small
        stop = min(start + BLOCK, width + model.offset)
        merged = _coordinates(rule, [_shard(part, start, stop, weight / total) for part, weight in parts], model)
        for view, values in zip(field_views(model.algorithm, model.memory, start, stop), merged, strict=True):
            view[:] = values
    model.rule.rebuild(model.memory)
    return model


def _coordinates(rule: MergeRule, shards: Sequence[Shard], model: Learner) -> Any:
    """Return the merged coordinates for the new model, whose counters are already added."""
    new = _fresh(model)._asdict()
    merged: dict[str, Any] = {}
    for name in rule.sums:
        merged[name] = _sum([getattr(shard.f, name) for shard in shards], new[name])
    for name in rule.means:
        merged[name] = _mean(shards, [getattr(shard.f, name) for shard in shards])
    for name in rule.greatest:
        merged[name] = np.maximum.reduce([getattr(shard.f, name) for shard in shards])
    if rule.weight:
        merged[rule.weight] = _mean(shards, [shard.w() for shard in shards])
    if rule.belief:
        mean, spread = rule.belief
        merged[mean], merged[spread] = _multiplied(
            [getattr(shard.f, mean) for shard in shards],
            [getattr(shard.f, spread) for shard in shards],
            new[spread],
            rule.stores_precision,
            model.memory.state.dtype,
        )
    merged |= rule.clocks(model.t, model.rule.read_totals(model.memory.totals))
    return shards[0].f._replace(**merged)


def _sum(terms: Sequence[NDArray[np.float64]], fresh: float = 0.0) -> NDArray[np.float64]:
    """Return a fresh coordinate plus the changes of all shards."""
    total = np.asarray(sum(terms[1:], start=terms[0]) - (len(terms) - 1) * fresh)
    if fresh > 0.0:  # after rescaling, precisions can be below the prior, and even their sum can be ≤ 0
        least = np.minimum.reduce(terms)
        total = np.where(least < fresh, np.maximum(total, least), total)
    return total


def _mean(shards: Sequence[Shard], terms: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return _sum([shard.share * term for shard, term in zip(shards, terms, strict=True)])


def _multiplied(means: Any, spreads: Any, prior: float, precise: bool, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return mean and spread of the product of Gaussian beliefs. The prior counts once."""

    def flip(s: Any) -> Any:  # from the stored number to the precision, or back
        return s if precise else np.reciprocal(np.maximum(s, np.finfo(dtype).tiny))

    # a variance can be 0: limit the precisions so that their sum is finite
    most = np.finfo(dtype).max / (2 * len(spreads))
    precisions = [np.minimum(flip(s), most) for s in spreads]
    total = _sum(precisions, flip(prior))
    return _sum([mu * (P / total) for mu, P in zip(means, precisions, strict=True)]), flip(total)


def _merge_full(parts: Sequence[Any], model: Any) -> None:
    """Merge the parts into the fresh model, which is as wide as the widest part and has their counters.

    P = Σ P_k − (n − 1)·P₀ and, for a mean, μ = P⁻¹ Σ P_k μ_k. For AROW, this is the belief with the updates of all
    parts.
    """
    width = model.sigma.d
    prior = 1.0 / float(model.rule.variance(model.rule.fresh()))
    P, b = -(len(parts) - 1) * prior * np.eye(width), np.zeros(width)
    sums = model.rule.merge_rule().belief is None  # is the vector a sum over examples, or a mean?
    for part in parts:
        d = part.sigma.d
        mean, one = part.belief.mean.astype(np.float64), _inverse(part.sigma.dense(), part.algorithm.name)
        P[:d, :d] += one
        P[range(d, width), range(d, width)] += prior  # features that did not occur in the part
        b[:d] += mean if sums else one @ mean
    sigma = _inverse(P, model.algorithm.name)
    model.memory.extra[:] = Matrix.of(sigma.astype(model.memory.state.dtype)).packed
    model.belief.mean[:] = b if sums else sigma @ b


def _inverse(matrix: NDArray[np.float64], owner: str) -> NDArray[np.float64]:
    """Return the inverse of a symmetric positive matrix, in 64 bits."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(matrix.astype(np.float64))
    except LinAlgError:
        raise MergeError(
            f"{owner}: models cannot be merged, because a covariance is no longer positive definite"
        ) from None
    inverse: NDArray[np.float64] = cho_solve(factor, np.eye(len(matrix)))
    return (inverse + inverse.T) / 2


def _fresh(model: Learner) -> Any:
    """Return the stored form of a fresh feature, so that merging leaves such features bit-identical."""
    record = model.rule.fresh()
    return type(record)(*np.array(record, dtype=model.memory.state.dtype).tolist())


def _shard(learner: Learner, start: int, stop: int, share: float) -> Shard:
    end = max(start, min(stop, learner.n_features + learner.offset))
    record = learner.coordinates(start, end)

    def filled(values: Any, rest: float) -> NDArray[np.float64]:
        return np.concatenate([values, np.full(stop - end, rest)])

    return Shard(
        type(record)(*map(filled, record, _fresh(learner))),
        lambda: filled(learner._weight_block(start, end), 0.0),
        share,
    )


def copy_wide(learner: Learner, n_features: int) -> Learner:
    """Return a copy that has at least this many features."""
    model, width = copy.copy(learner), max(n_features, learner.n_features)
    memory: list[Any] = [array.copy() for array in learner.memory]
    model.parameters = dict(learner.parameters)
    model.memory = widen(learner.algorithm, learner.rule, Memory(*memory), width + learner.offset)
    model.n_features = width
    return model


def _fingerprint(learner: Learner) -> bytes:
    """Return a digest of a model, which defines the order of sums."""
    digest = blake2b()
    width = learner.n_features + learner.offset
    for values in (
        learner.memory.counts,
        learner.memory.totals,
        *field_views(learner.algorithm, learner.memory, 0, width),
    ):
        digest.update(np.ascontiguousarray(values).data)
    if learner.full:
        digest.update(learner.memory.extra.data)
    return digest.digest()


def _checked(weights: Sequence[float] | None, learners: Sequence[Learner]) -> Sequence[float]:
    if weights is None:
        return [learner.t for learner in learners]
    if len(weights) != len(learners):
        raise InvalidParameterError(f"merge: weights must be one per model, got {len(weights)} for {len(learners)}")
    for position, weight in enumerate(weights):
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidParameterError(
                f"merge: weights must be finite and not negative, got {weight!r} at position {position}"
            )
    return [float(weight) for weight in weights]


# Merging outputs and pipelines.

#: A function that merges the outputs of several pipelines.
Join = Callable[[Sequence[Outputs]], Outputs]


def merge_outputs(shards: Sequence[Outputs], *, average: bool = False) -> Outputs:
    """Merge the outputs of models, class by class."""
    sizes = {max(len(outputs), 2) for outputs in shards}
    if len(sizes) > 1:
        raise MergeError(
            f"models to merge must have the same classes, got models with {' and '.join(map(str, sorted(sizes)))} "
            "classes"
        )
    require_distinct(shards)  # lanes return copies of their learners
    merged = [merge(learners, average=average) for learners in zip(*shards, strict=True)]
    return Outputs(merged, n_mistakes=sum(outputs.n_mistakes for outputs in shards))


def merge_growing(
    parts: Sequence[Outputs], numbers: Sequence[Sequence[int]], costs: Sequence[Costs], *, average: bool = False
) -> Outputs:
    """Merge outputs with classes that appear later.

    For each class of the result, ``numbers`` has its number in each of the parts, or -1 if it has not appeared there.
    In this case the spare is used as its learner.
    """
    require_distinct(parts)
    spare_costs = parts[0].spare_costs
    assert spare_costs is not None
    if any(outputs.spare_costs != spare_costs for outputs in parts):
        raise MergeError("models to merge must agree in class_weight")
    learners, spares = [list(outputs) for outputs in parts], [outputs.spares for outputs in parts]

    def merged(own: Sequence[int], cost: Costs) -> Any:
        spare = spare_costs.index(cost)
        shards = [mine[k] if k >= 0 else rest[spare] for mine, rest, k in zip(learners, spares, own, strict=True)]
        return merge(shards, average=average)

    absent = [-1] * len(parts)
    return Outputs(
        [merged(own, cost) for own, cost in zip(numbers, costs, strict=True)],
        spares=[merged(absent, cost) for cost in spare_costs],
        n_mistakes=sum(outputs.n_mistakes for outputs in parts),
    )


def merge_pipelines(models: Sequence[Pipeline], join: Join = merge_outputs) -> Pipeline:
    """Merge pipelines that learned from disjoint parts of the data. ``join`` merges their outputs."""
    if not any(model.encoder is not None for model in models):
        return _merge_prepared(models, join)
    first = models[0]
    if first.drops_unknown:
        models = _without_other_names(models)
    numbers, aligned = on_common_slots(models)
    merged, width = _merge_prepared(aligned, join), max(model.n_features for model in models)
    if not first.drops_unknown:
        return expand_if_dense(on_numbers(merged, numbers, width, first.grow))
    tables: list[Any] = [model.encoder for model in models]
    table, where = merged_table(tables, numbers, feature_importance(merged))
    return budgeted(merged.moved(where, len(table)), table, width, first.grow)


def _without_other_names(models: Sequence[Pipeline]) -> list[Pipeline]:
    """Return models with a budget, without features whose number has another name in an earlier model."""
    names, cleaned = dict[int, tuple[int, bytes]](), list[Pipeline]()
    for model in models:
        own = names_by_number(model.encoder)  # type: ignore[arg-type]
        others = [number for number, name in own.items() if names.setdefault(number, name) != name]
        if others:
            model = copy.deepcopy(model)
            table: Any = model.encoder
            gone = 1 + np.flatnonzero(np.isin(table.numbers, others))
            model.reset_features(gone)
            table.release(gone)
        cleaned.append(model)
    return cleaned


def _merge_prepared(models: Sequence[Pipeline], join: Join) -> Pipeline:
    """Merge pipelines without encoder."""
    first = models[0].preparation
    for other in models[1:]:
        for name, one in first.kinds.items():
            two = other.preparation.kinds[name]
            if one != two:
                raise MergeError(
                    f"{models[0].algorithm.name}: models to merge must agree in {name}, got {one!r} and {two!r}"
                )
    if first.scales is None:
        return Pipeline(join([model.outputs for model in models]), first)
    width = max(model.n_features for model in models)
    scales = type(first.scales).merged(_as_wide([model.preparation for model in models], width))
    rescaled = [rescale_to(model, scales) if model.t else model.outputs for model in models]
    return Pipeline(join(rescaled), first.with_scales(scales))


def _as_wide(preparations: Sequence[Preparation], width: int) -> list[Scales]:
    """Return copies of scales, all cut to one width."""
    return [one.scales.copy(width).cut(width) for one in preparations if one.scales is not None]


def rescale_to(model: Pipeline, scales: Scales) -> Outputs:
    """Return the outputs as if they had learned with these scales, copied if the scales differ."""
    width = model.n_slots
    was, now = model.preparation.divisors(width), scales.divisors(width)
    ratio = np.divide(now, was, out=np.ones(width), where=was > 0.0)
    if np.all(ratio == 1.0):
        return model.outputs
    rescaled: Any = _rescaled_blend if model.blends else _rescaled
    return model.outputs.mapped(lambda one: rescaled(one, ratio))


def powers_of(model: Learner) -> Mapping[str, int]:
    """Return how the fields of a model change with the scales, or raise a MergeError."""
    rule: MergeRule = model.rule.merge_rule()
    if rule.powers is None:
        raise MergeError(f"{model.algorithm.name} with scale cannot be merged, because its state cannot be rescaled")
    return rule.powers


def _rescaled(model: Learner, ratio: NDArray[np.float64]) -> Learner:
    rule, powers = model.rule.merge_rule(), powers_of(model)
    new, r = copy_wide(model, model.n_features), np.concatenate([np.ones(model.offset), ratio])
    fields: dict[str, Any] = field_views(new.algorithm, new.memory, 0, len(r))._asdict()
    for name, values in model.coordinates(0, len(r))._asdict().items():  # with all discounts applied
        fields[name][:] = values
    if rule.weight:  # with all thresholds applied
        fields[rule.weight][:] = model._weight_block(0, len(r))
        for name, value in rule.clocks(model.t, model.rule.read_totals(model.memory.totals)).items():
            fields[name][:] = value
    for name, power in powers.items():
        if not (model.full and name != model.algorithm.coordinate._fields[0]):  # there the matrix has the variances
            fields[name][:] *= r**power
    if model.full:
        new.memory.extra[:] = Matrix.of((new.sigma.dense() * np.outer(r, r)).astype(new.dtype)).packed  # type: ignore[attr-defined]
    return new


def common_scales(preparations: Sequence[Preparation], base: Preparation, width: int) -> Scales:
    """Return the scales after several workers have learned since a common base."""
    first, *others = _as_wide([base, *preparations], width)
    return type(first).merged(others, first)


# Merging blends that learned from disjoint parts of the data (specification §15).
#
# Members merge by the rules of their algorithms, heads by their precisions. With H_i = P_i⁻¹ and n shards,
#
#     H = Σ H_i − (n − 1)·I/c;   w = H⁻¹(Σ H_i·w_i − (n − 1)·w₀/c);   P = H⁻¹
#
# The prior, of precision I/c (c is `Counting.prior`) around w₀ = 2/K, counts once.
#
# Sums, counters and Σx_j² add. Members that were dropped from one of the shards, or failed there, are left out.


def merge_blends(blends: Sequence[Blend], average: bool = False) -> Blend:
    """Return a new blend. The order of the blends does not matter, and they do not change."""
    for other in blends[1:]:
        require_mergeable(blends[0], other)
        if (other.record.members, other.counting) != (blends[0].record.members, blends[0].counting):
            raise MergeError("Auto: models to merge must have the same portfolio")
    shards = sorted((blend.alone() for blend in blends if blend.t), key=_blend_fingerprint)
    if len(shards) < 2:
        return shards[0] if shards else blends[0].alone()
    keep_common(shards)
    share_numbers(shards)
    made = shards[0].like(shards[0].members, max(blend.n_features for blend in shards))
    if made.few is not None and shards[0].few is not None:
        made.grid.number_features(shards[0].few.numbers.copy())
    _merge_models(made, shards, average)
    _merge_heads(made.head, [blend.head for blend in shards], 2.0 / len(shards[0].record.members))
    made.record = deepcopy(shards[0].record)
    for name in ("rows", "mistakes"):
        setattr(made.record, name, np.sum([getattr(blend.record, name) for blend in shards], axis=0))
    made.record.forget_history()
    made.counts = np.sum([blend.counts for blend in shards], axis=0)
    for k, part in enumerate(made.parts):
        width = part.width(made.n_features)
        squares = np.zeros((len(shards), width))
        for own, blend in zip(squares, shards, strict=True):
            width_there = part.width(blend.n_features)
            own[:width_there] = blend.parts[k].squares[:width_there]
        part.squares[:width] = np.add.reduce(np.sort(squares, axis=0), axis=0)  # the same for all outputs
    return made


def keep_common(blends: Sequence[Blend]) -> list[int]:
    """Keep only the members that all blends still have; return their numbers."""
    common = [k for k in range(len(blends[0].record.members)) if all(_has(blend, k) for blend in blends)]
    if not common:
        raise MergeError("Auto: models cannot be merged, because no member is left in all of them")
    for blend in blends:
        blend.keep(np.flatnonzero(np.isin(blend.record.places, common)))
    return common


def share_numbers(blends: Sequence[Blend]) -> None:
    """Number the features of members for few features alike in all blends; drop members with too many."""
    if blends[0].few is None:
        return
    numbers = np.concatenate([blend.few.numbers for blend in blends if blend.few is not None])
    numbers = np.unique(numbers)  # sorted, because outputs share them, but pass blends in different orders
    for blend in blends:
        blend.make_narrow_room(len(numbers))
        for group in blend.groups:
            if group.few is not None:
                where = np.full(group.n_features, -1)
                where[: len(group.few)] = [numbers.tolist().index(number) for number in group.few.numbers.tolist()]
                group.put([model.moved(where, group.n_features).memory for model in group])
        if blend.few is not None:
            before = blend.few.numbers.copy()
            blend.grid.number_features(numbers)
            _renumber_products(blend, before)


def _renumber_products(blend: Blend, before: Any) -> None:
    """Move members with products from the slots of the features ``before`` to those of more features."""
    assert blend.few is not None
    slots = np.concatenate([[0], blend.few.find(before)]).astype(np.int64)
    larger, smaller = factors(np.arange(n_products(len(before))))
    one, two = np.maximum(slots[larger], slots[smaller]), np.minimum(slots[larger], slots[smaller])
    where, width = one * (one + 1) // 2 + two, n_products(len(blend.few))
    every = np.concatenate([where, np.full(width - len(where), -1)])
    for part in blend.parts:
        if part.products:
            squares = np.zeros(width)
            squares[where] = part.squares[: len(where)]
            part.squares = squares
            for view in part.views:
                view.preparation = view.preparation.moved(where, width)
                for group in view.groups:
                    group.put([model.moved(every, width).memory for model in group])


def _rescaled_blend(blend: Blend, ratio: NDArray[np.float64]) -> Blend:
    """Return a copy whose members are changed as if their rows had been divided by ``ratio``."""
    made = blend.alone()
    for group in made.groups:
        own = ratio
        if group.few is not None:
            own = np.ones(group.n_features)
            own[: len(group.few)] = ratio[group.few.numbers]
        group.put([_rescaled(model, own).memory for model in group])
    for part in made.parts:
        part.squares[: len(ratio)] /= ratio**2
    made.version += 1
    return made


def _has(blend: Blend, member: int) -> bool:
    return member in blend.record.places[~blend.head.gone]


def _merge_models(made: Blend, shards: Sequence[Blend], average: bool) -> None:
    join = partial(merge_outputs, average=average)
    for view, *parts in zip(made.views, *(blend.views for blend in shards), strict=True):
        for group, *own in zip(view.groups, *(part.groups for part in parts), strict=True):
            memories = []
            for models in zip(*own, strict=True):
                ready = [Pipeline.of(model, part.preparation) for model, part in zip(models, parts, strict=True)]
                together = merge_pipelines(ready, join)
                memories.append(next(iter(together.outputs)).memory)
                if view.preparation:
                    view.preparation = together.preparation
            group.put(memories)


def _merge_heads(made: Head, heads: Sequence[Head], first: float) -> None:
    more = (len(heads) - 1) / made.counting.prior
    H: Any = -more * np.eye(len(made))
    b: Any = np.full(len(made), -more * first)
    for head in heads:
        own = np.linalg.inv(head.P)
        H += own
        b += own @ head.w
        made.sums += head.sums
        made.counts += head.counts
        made.loss += head.loss
    made.P = np.linalg.inv((H + H.T) / 2)
    made.w = made.P @ b


def _blend_fingerprint(blend: Blend) -> bytes:
    digest = blake2b()
    for array in (blend.counts, blend.head.w, blend.head.P, blend.head.sums, *(part.squares for part in blend.parts)):
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()
