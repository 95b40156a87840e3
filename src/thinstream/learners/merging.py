"""One model out of several that learned from disjoint parts of a stream.

`merge_rules` says what becomes of the coordinates. Sums run in 64 bits and in an order that follows from the models,
not from the order they are given in.
"""

import copy
import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs
from thinstream.engine.records import Memory
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.learners import full_merging
from thinstream.learners.full import FullLearner
from thinstream.learners.learner import BLOCK, Learner
from thinstream.learners.making import make_learner
from thinstream.learners.memory import columns, grown
from thinstream.learners.merge_rules import Merge, Shard, fresh, merge_table, rule_for

__all__ = ["merge", "merge_table", "require_mergeable", "rule_for"]


def require_mergeable(first: Learner, other: Learner) -> None:
    """Raises a MergeError that names the first thing two models differ in and must not, with both values."""
    name = first.algorithm.name
    pairs: list[tuple[str, Any, Any]] = [("algorithm", name, other.algorithm.name)]
    if name == other.algorithm.name:
        pairs += [(key, value, other.parameters[key]) for key, value in first.parameters.items()]
        if first.rule.needs_dimension():
            pairs.append(("n_features", first.n_features, other.n_features))
    pairs += [
        ("class costs", _shown(first.costs), _shown(other.costs)),
        ("dtype", first.memory.state.dtype.name, other.memory.state.dtype.name),
        ("fit_intercept", bool(first.offset), bool(other.offset)),
    ]
    for what, one, two in pairs:
        if one != two:
            raise MergeError(f"{name}: models to merge must agree in {what}, got {one!r} and {two!r}")


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
    for other in learners[1:]:
        require_mergeable(learners[0], other)
    width = max(learner.n_features for learner in learners)
    parts = sorted(
        [pair for pair in zip(learners, _checked(weights, learners), strict=True) if pair[0].t],
        key=lambda pair: (_fingerprint(pair[0]), pair[1]),
    )
    if len(parts) < 2:
        model = _copied(parts[0][0] if parts else learners[0], width)
    else:
        rule = None if learners[0].full else rule_for(learners[0], average)
        if weights is not None and (rule is None or not rule.averages):
            name, how = learners[0].algorithm.name, full_merging.HOW if rule is None else rule.how
            raise MergeError(f"{name}: weights of models are for algorithms that average, but here {how}")
        model = _merged(parts, width, rule)
    model.grow = any(learner.grow for learner in learners)
    return model


def _merged(parts: Sequence[tuple[Learner, float]], width: int, rule: Merge | None) -> Learner:
    total = sum(weight for _, weight in parts)
    if not 0 < total < math.inf:
        raise InvalidParameterError(
            f"merge: weights of the models that have seen something must have a finite sum > 0, got {total}"
        )
    like = parts[0][0]
    model = make_learner(
        like.algorithm.name,
        n_features=width,
        costs=like.costs,
        dtype=like.memory.state.dtype.name,
        fit_intercept=bool(like.offset),
        **like.parameters,
    )
    for learner, _ in parts:
        model.memory.counts[:] += learner.memory.counts
        model.memory.totals[:] += learner.memory.totals
    if rule is None:
        full_merging.merge_full(
            [part for part, _ in parts if isinstance(part, FullLearner)], cast("FullLearner", model)
        )
        return model
    for start in range(0, width + model.offset, BLOCK):  # so that copies in 64 bits stay small
        stop = min(start + BLOCK, width + model.offset)
        merged = rule.function([_shard(part, start, stop, weight / total) for part, weight in parts], model)
        for view, values in zip(columns(model.algorithm, model.memory, start, stop), merged, strict=True):
            view[:] = values
    rule.finish(model)
    return model


def _shard(learner: Learner, start: int, stop: int, share: float) -> Shard:
    end = max(start, min(stop, learner.n_features + learner.offset))
    seen = columns(learner.algorithm, learner.memory, start, end)

    def filled(values: Any, rest: float) -> NDArray[np.float64]:
        return np.concatenate([values, np.full(stop - end, rest)])

    return Shard(
        type(seen)(*map(filled, seen, fresh(learner))),
        lambda: filled(learner._weight_block(start, end), 0.0),
        share,
    )


def _copied(learner: Learner, width: int) -> Learner:
    model = copy.copy(learner)
    memory: list[Any] = [array.copy() for array in learner.memory]
    model.parameters = dict(learner.parameters)
    model.memory = grown(learner.algorithm, learner.rule, Memory(*memory), width + learner.offset)
    model.n_features = width
    return model


def _fingerprint(learner: Learner) -> bytes:
    """The same for the same model only; its order is as good as any."""
    digest = blake2b()
    width = learner.n_features + learner.offset
    for values in (learner.memory.counts, learner.memory.totals, *columns(learner.algorithm, learner.memory, 0, width)):
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
