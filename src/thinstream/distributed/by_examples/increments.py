"""How the increments of several workers become one, by what the rule declares (`engine.merge_rule`).

The ways in which increments since a common base can be combined are in a table in docs/distributed.md. A
worker decides on its updates without knowing of the others. Summed, K workers step K times too far where nothing holds
a weight back; averaged over all, a rare feature moves K times too little. Defaults are what was measured to be best
(`benchmarks/shards.py`).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import HALF_LIFE
from thinstream.engine.merge_rule import MergeRule
from thinstream.engine.records import Memory
from thinstream.errors import InvalidParameterError, MergeError, listed
from thinstream.learners import Learner
from thinstream.learners.memory import capacity, field_views

Array = NDArray[np.float64]


class Increments(NamedTuple):
    """The base and what became of it in each worker: some coordinates, in 64 bits."""

    base: Memory
    workers: Sequence[Memory]
    touched: NDArray[np.bool_]  # workers × coordinates
    share: Array  # of each worker in the examples; they add up to 1


# What becomes of differences to the base, workers × coordinates ------------------------------------------------------


def _sum(terms: Array, i: Increments) -> Array:
    return np.asarray(np.add.reduce(terms, axis=0))


def _mean(terms: Array, i: Increments) -> Array:
    return np.asarray(np.add.reduce(i.share[:, np.newaxis] * terms, axis=0))


def _touched(terms: Array, i: Increments) -> Array:
    weight = i.share[:, np.newaxis] * i.touched
    return np.asarray(np.add.reduce(weight * terms, axis=0) / np.add.reduce(weight, axis=0))


def _root(terms: Array, i: Increments) -> Array:
    return np.asarray(_sum(terms, i) / np.sqrt(np.add.reduce(i.touched, axis=0)))


_PLAIN: dict[str, Callable[[Array, Increments], Array]] = {
    "sum": _sum,
    "mean": _mean,
    "touched": _touched,
    "root": _root,
}


# What becomes of records ----------------------------------------------------------------------------------------------


class Combining(NamedTuple):
    """How increments become one for a model: what its rule declares, and the way that was asked for."""

    rule: MergeRule
    way: str

    def totals(self, i: Increments) -> Array:
        """The cumulative loss adds, and so does what else is counted, except what goes as the weights do."""
        base, others = i.base.totals, np.stack([worker.totals for worker in i.workers]) - i.base.totals
        found = base + _sum(others, i)
        if self.rule.totals_like_weights and self.way != "sum":
            found[1:] = base[1:] + _mean(others[:, 1:], i)
        return found

    def records(self, model: Learner, i: Increments) -> Memory:
        """The base with the state and clocks of the result, of a model whose counters are its own."""
        merged = i.base._replace(state=i.base.state.copy(), clocks=i.base.clocks.copy())
        views = _record(model, merged)._asdict()
        for name, values in self._merged_fields(model, i).items():
            views[name][:] = values
        return merged

    def _merged_fields(self, model: Learner, i: Increments) -> dict[str, Any]:
        rule, base, workers = self.rule, _record(model, i.base), [_record(model, worker) for worker in i.workers]
        found: dict[str, Any] = {}
        for name in (*rule.sums, *rule.means):
            found[name] = self._moved(getattr(base, name), [getattr(worker, name) for worker in workers], i)
        for name in rule.greatest:
            found[name] = np.maximum.reduce([getattr(base, name), *(getattr(worker, name) for worker in workers)])
        if rule.weight:  # all thresholds taken
            found[rule.weight] = self._moved(
                _up_to_date(model, i.base), [_up_to_date(model, worker) for worker in i.workers], i
            )
        if rule.belief:
            smallest = np.finfo(model.dtype).tiny

            def flip(s: Array) -> Array:  # between what is stored and the precision, either way
                return s if rule.stores_precision else np.reciprocal(np.maximum(s, smallest))

            mean, spread = rule.belief
            means, spreads = ([getattr(worker, name) for worker in workers] for name in rule.belief)
            found[mean], P = _beliefs(
                getattr(base, mean), means, flip(getattr(base, spread)), [flip(s) for s in spreads], self.way, i, model
            )
            found[spread] = flip(P)
        return found | rule.clocks(model.t, model.rule.read_totals(model.memory.totals))

    def _moved(self, base: Array, workers: Sequence[Array], i: Increments) -> Array:
        return base + _PLAIN[self.way](np.stack([worker - base for worker in workers]), i)


def _beliefs(
    mean: Array,
    means: Sequence[Array],
    precision: Array,
    precisions: Sequence[Array],
    way: str,
    i: Increments,
    m: Learner,
) -> tuple[Array, Array]:
    """Mean and precision after the increments."""
    # a variance may have collapsed to 0: no precision so large that the sum would be infinite
    most = np.finfo(m.dtype).max / (2 * len(precisions) + 2)
    base = np.minimum(precision, most)
    each = np.minimum(np.stack(precisions), most)
    gains, moves = each - base, np.stack(means) - mean
    if way in _PLAIN:
        return mean + _PLAIN[way](moves, i), base + _PLAIN[way](gains, i)
    total = base + _sum(gains, i)
    if way == "precision":
        return mean + _sum(moves * (each / total), i), total
    gained = _sum(gains, i)
    weights = np.where(gained > 0, gains, i.touched)  # nobody is surer than before, yet a mean may have moved
    return mean + _sum(moves * weights, i) / _sum(weights, i), total


def _up_to_date(model: Learner, blocks: Memory) -> Array:
    """Weights of some records of a model, by the loop that all weights come from."""
    alone = copy.copy(model)
    alone.memory = blocks._replace(state=blocks.state.astype(model.dtype), extra=model.memory.extra)
    return alone._weight_block(0, capacity(model.algorithm, blocks)).astype(np.float64)


def _record(model: Learner, blocks: Memory) -> Any:
    return field_views(model.algorithm, blocks, 0, capacity(model.algorithm, blocks))


def combining_for(model: Learner, way: str | None = None) -> Combining:
    """How increments of models like this one become one; None: the default its rule declares.

    Examples
    --------
    >>> combining_for(Learner("fsol", n_features=1)).way
    'touched'
    >>> combining_for(Learner("fsol", n_features=1), "gain")
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: FSOL: merge must be 'touched', 'sum', 'mean' or 'root', got 'gain'

    """
    name = model.algorithm.name
    if model.parameters.get(HALF_LIFE) is not None:
        raise MergeError(
            f"{name} with a half_life cannot be merged in rounds: what workers have learned since would be discounted "
            "by the rows of each alone; learn on one machine, or without half_life"
        )
    rule: MergeRule = model.rule.merge_rule()
    if not rule.declared:
        raise MergeError(f"{name} cannot be merged: {rule.refused}; mode='features' (--mode features) merges nothing")
    if model.full and not rule.belief:
        raise MergeError(f"{name} with covariance='full' cannot be merged in rounds: take covariance='diagonal'")
    ways = ("mean",) if model.full else rule.ways
    if way is not None and way not in ways:
        matrices = " with covariance='full'" if model.full else ""
        raise InvalidParameterError(f"{name}{matrices}: merge must be {listed(ways)}, got {way!r}")
    return Combining(rule, ways[0] if way is None else way)
