"""One model out of several that learned from disjoint parts of a stream.

What becomes of the coordinates is declared by the rule (`engine.merge_rule`). Sums run in 64 bits and in an order that
follows from the models, not from the order they are given in.
"""

import copy
import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.full import Matrix
from thinstream.engine.loop import Costs
from thinstream.engine.merge_rule import MergeRule
from thinstream.engine.records import Memory
from thinstream.errors import InvalidParameterError, MergeError, NumericalError
from thinstream.learners.frozen import refuse_learning
from thinstream.learners.learner import BLOCK, Learner
from thinstream.learners.memory import field_views, widen
from thinstream.learners.registry import make_learner_like

#: How learners with a full covariance are merged.
FULL = "precisions add (the prior counted once); θ and v add, means are weighted by precision"


class Shard(NamedTuple):
    """A block of one model's coordinates, in 64 bits; features it has never seen are fresh."""

    f: Any  # the coordinates, a record of arrays
    w: Callable[[], NDArray[np.float64]]  # their weights, all thresholds taken
    share: float  # of the model in averages; shares add up to 1


def require_rule(model: Learner, average: bool = False) -> MergeRule:
    """How models like this one are merged; MergeError says why where they are not, and what can be done."""
    rule: MergeRule = model.rule.merge_rule()
    if rule.refused and not (average and rule.declared):
        raise MergeError(f"{model.algorithm.name} cannot be merged: {rule.refused}")
    return rule


def require_mergeable(first: Any, other: Any) -> None:
    """Raises a MergeError that names the first thing two models differ in and must not, with both values."""
    name = first.algorithm.name
    pairs: list[tuple[str, Any, Any]] = [("algorithm", name, other.algorithm.name)]
    if name == other.algorithm.name:
        names = {**first.parameters, **other.parameters}
        pairs += [(key, first.parameters.get(key), other.parameters.get(key)) for key in names]
        if first.algorithm.kind == "batch" or (first.algorithm.kind == "online" and first.rule.needs_dimension()):
            pairs.append(("n_features", first.n_features, other.n_features))
    pairs += [
        ("class costs", _shown(first.costs), _shown(other.costs)),
        ("dtype", first.dtype.name, other.dtype.name),
        ("fit_intercept", bool(first.offset), bool(other.offset)),
    ]
    for what, one, two in pairs:
        if one != two:
            raise MergeError(f"{name}: models to merge must agree in {what}, got {one!r} and {two!r}")


def require_distinct(models: Sequence[Any]) -> None:
    """Raises where a model that has seen something is among the others twice: its examples would count twice."""
    seen = [id(model) for model in models if model.t]
    if len(set(seen)) < len(seen):
        raise MergeError(
            f"{models[0].algorithm.name}: a model cannot be merged with itself, its examples would count twice; models "
            "to merge are of disjoint parts of the data"
        )


def merge(learners: Sequence[Learner], weights: Sequence[float] | None = None, *, average: bool = False) -> Learner:
    """A new model out of models that learned from disjoint parts of a stream; they are left as they are.

    The order of the models does not matter, and one that has seen nothing changes nothing, bit for bit. Counters add.
    A narrower model is taken as one that never saw the further features. An algorithm that cannot be merged raises as
    soon as two models have seen something.

    Parameters
    ----------
    learners : sequence of Learner
        Of the same algorithm, parameters, class costs, dtype and intercept.
    weights : sequence of float, optional
        Weights of the models where weights are averaged, instead of t.
    average : bool
        Whether SSOL with ``diagonal="drop"``, which has no rule of its own, is averaged instead of refused.

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
        first: Any = next((learner for learner in learners if not hasattr(learner, "merge")), learners[0])
        if not hasattr(first, "merge"):  # weights of a blend
            refuse_learning(first.algorithm.name)
        options: dict[str, Any] = {} if first.algorithm.kind == "batch" else {"average": average}
        together: Learner = first.merge(learners[1:], **options)
        return together
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
            raise MergeError(f"{name}: weights of models are for algorithms that average, but here {how}")
        model = _merged(parts, width, rule)
    if not all(np.isfinite(array).all() for array in model.memory):
        raise NumericalError(f"{model.algorithm.name}: the merged model would have numbers that are not finite")
    model.grow = any(learner.grow for learner in learners)
    return model


def _merged(parts: Sequence[tuple[Learner, float]], width: int, rule: MergeRule | None) -> Learner:
    total = sum(weight for _, weight in parts)
    if not 0 < total < math.inf:
        raise InvalidParameterError(
            f"merge: weights of the models that have seen something must have a finite sum > 0, got {total}"
        )
    model: Learner = make_learner_like(parts[0][0], n_features=width)
    for learner, _ in parts:
        model.memory.counts[:] += learner.memory.counts
        model.memory.totals[:] += learner.memory.totals
    if rule is None:
        _merge_full([part for part, _ in parts], model)
        return model
    for start in range(0, width + model.offset, BLOCK):  # so that copies in 64 bits stay small
        stop = min(start + BLOCK, width + model.offset)
        merged = _coordinates(rule, [_shard(part, start, stop, weight / total) for part, weight in parts], model)
        for view, values in zip(field_views(model.algorithm, model.memory, start, stop), merged, strict=True):
            view[:] = values
    model.rule.rebuild(model.memory)
    return model


def _coordinates(rule: MergeRule, shards: Sequence[Shard], model: Learner) -> Any:
    """What becomes of the shards' coordinates in the new model, whose counters are already added."""
    new = _fresh(model)._asdict()
    found: dict[str, Any] = {}
    for name in rule.sums:
        found[name] = _sum([getattr(shard.f, name) for shard in shards], new[name])
    for name in rule.means:
        found[name] = _mean(shards, [getattr(shard.f, name) for shard in shards])
    for name in rule.greatest:
        found[name] = np.maximum.reduce([getattr(shard.f, name) for shard in shards])
    if rule.weight:
        found[rule.weight] = _mean(shards, [shard.w() for shard in shards])
    if rule.belief:
        mean, spread = rule.belief
        found[mean], found[spread] = _multiplied(
            [getattr(shard.f, mean) for shard in shards],
            [getattr(shard.f, spread) for shard in shards],
            new[spread],
            rule.stores_precision,
            model.memory.state.dtype,
        )
    found |= rule.clocks(model.t, model.rule.read_totals(model.memory.totals))
    return shards[0].f._replace(**found)


def _sum(terms: Sequence[NDArray[np.float64]], fresh: float = 0.0) -> NDArray[np.float64]:
    """What all shards have added to a fresh coordinate."""
    found = np.asarray(sum(terms[1:], start=terms[0]) - (len(terms) - 1) * fresh)
    if (
        fresh > 0.0
    ):  # precisions: brought to other scales they may be below the prior, and then not even the sum above 0
        least = np.minimum.reduce(terms)
        found = np.where(least < fresh, np.maximum(found, least), found)
    return found


def _mean(shards: Sequence[Shard], terms: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return _sum([shard.share * term for shard, term in zip(shards, terms, strict=True)])


def _multiplied(means: Any, spreads: Any, prior: float, precise: bool, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Mean and spread of the product of Gaussian beliefs, the prior counted once."""

    def flip(s: Any) -> Any:  # between what is stored and the precision, either way
        return s if precise else np.reciprocal(np.maximum(s, np.finfo(dtype).tiny))

    # a variance may have collapsed to 0: no precision so large that the sum would be infinite
    most = np.finfo(dtype).max / (2 * len(spreads))
    precisions = [np.minimum(flip(s), most) for s in spreads]
    total = _sum(precisions, flip(prior))
    return _sum([mu * (P / total) for mu, P in zip(means, precisions, strict=True)]), flip(total)


def _merge_full(parts: Sequence[Any], model: Any) -> None:
    """What the parts know goes into the fresh model, which is as wide as the widest and has their counters.

    P = Σ P_k − (n − 1)·P₀ and, for a mean, μ = P⁻¹ Σ P_k μ_k (of AROW: the belief with the updates of all parts).
    """
    width = model.sigma.d
    prior = 1.0 / float(model.rule.variance(model.rule.fresh()))
    P, b = -(len(parts) - 1) * prior * np.eye(width), np.zeros(width)
    sums = model.rule.merge_rule().belief is None  # the vector is a sum over examples, else the mean of a belief
    for part in parts:
        d = part.sigma.d
        mean, one = part.belief.mean.astype(np.float64), _inverse(part.sigma.dense(), part.algorithm.name)
        P[:d, :d] += one
        P[range(d, width), range(d, width)] += prior  # features it never saw
        b[:d] += mean if sums else one @ mean
    sigma = _inverse(P, model.algorithm.name)
    model.memory.extra[:] = Matrix.of(sigma.astype(model.memory.state.dtype)).packed
    model.belief.mean[:] = b if sums else sigma @ b


def _inverse(matrix: NDArray[np.float64], owner: str) -> NDArray[np.float64]:
    """Of a symmetric positive matrix, in 64 bits."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        factor = cho_factor(matrix.astype(np.float64))
    except LinAlgError:
        raise MergeError(f"{owner}: a covariance has lost its positive definiteness and cannot be merged") from None
    found: NDArray[np.float64] = cho_solve(factor, np.eye(len(matrix)))
    return (found + found.T) / 2


def _fresh(model: Learner) -> Any:
    """A feature never seen, as it is stored: unseen features come out of a merge bit for bit as they were."""
    record = model.rule.fresh()
    return type(record)(*np.array(record, dtype=model.memory.state.dtype).tolist())


def _shard(learner: Learner, start: int, stop: int, share: float) -> Shard:
    end = max(start, min(stop, learner.n_features + learner.offset))
    seen = learner.coordinates(start, end)

    def filled(values: Any, rest: float) -> NDArray[np.float64]:
        return np.concatenate([values, np.full(stop - end, rest)])

    return Shard(
        type(seen)(*map(filled, seen, _fresh(learner))),
        lambda: filled(learner._weight_block(start, end), 0.0),
        share,
    )


def copy_wide(learner: Learner, n_features: int) -> Learner:
    """A copy, for so many features."""
    model, width = copy.copy(learner), max(n_features, learner.n_features)
    memory: list[Any] = [array.copy() for array in learner.memory]
    model.parameters = dict(learner.parameters)
    model.memory = widen(learner.algorithm, learner.rule, Memory(*memory), width + learner.offset)
    model.n_features = width
    return model


def _fingerprint(learner: Learner) -> bytes:
    """The same for the same model only; its order is as good as any."""
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
    for place, weight in enumerate(weights):
        if not (math.isfinite(weight) and weight >= 0):
            raise InvalidParameterError(f"merge: weights must be finite and not negative, got {weight!r} at {place}")
    return [float(weight) for weight in weights]


def _shown(costs: Costs) -> str:
    return "balanced" if costs.balanced else f"{costs.negative} : {costs.positive}"
