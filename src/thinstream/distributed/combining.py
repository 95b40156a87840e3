"""How the increments of several workers become one, for each algorithm.

Increments since a common base can be combined in these ways:

    sum        as if every worker's updates had been made one after the other
    mean       averaged, by the examples of each worker
    touched    averaged over those workers that met the feature: what one worker alone has met stays as it learned it
    root       summed, divided by the root of the number of workers that met the feature: between sum and touched
    precision  Gaussian beliefs: precisions add, and so do precision × mean, the base counted once
    gain       Gaussian beliefs: precisions add, means move by the average weighted by the precision each worker gained

A worker decides on its updates without knowing of the others. Summed, K workers step K times too far where nothing
holds a weight back; averaged over all, a rare feature moves K times too little. Defaults are what was measured to be
best (`benchmarks/shards.py`, docs/distributed.md).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.diagonal import Exact
from thinstream.engine.records import Memory, split
from thinstream.errors import InvalidParameterError, MergeError, listed
from thinstream.learners import Learner
from thinstream.learners.merge_rules import MERGES, REFUSALS

Array = NDArray[np.float64]


class Blocks(NamedTuple):
    """Records of some coordinates in 64 bits, a row for each, and the counters of their model."""

    state: Array
    clocks: Array
    counts: NDArray[np.int64]
    totals: Array


class Increments(NamedTuple):
    """The base and what became of it in each worker."""

    base: Blocks
    workers: Sequence[Blocks]
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


def _fields(model: Learner, i: Increments, way: str) -> Any:
    """Every field by itself."""
    base, workers = _record(model, i.base), [_record(model, worker) for worker in i.workers]
    return type(base)(
        *(
            start + _PLAIN[way](np.stack([term - start for term in terms]), i)
            for start, *terms in zip(base, *workers, strict=True)
        )
    )


def _gaussian(model: Learner, i: Increments, way: str) -> Any:
    """Mean and variance, or precision."""
    smallest = np.finfo(model.dtype).tiny

    def flip(s: Array) -> Array:  # between what is stored and the precision, either way
        return s if isinstance(model.rule.diagonal, Exact) else np.reciprocal(np.maximum(s, smallest))

    base, workers = _record(model, i.base), [_record(model, worker) for worker in i.workers]
    mu, P = _beliefs(base.mu, [f.mu for f in workers], flip(base.s), [flip(f.s) for f in workers], way, i, model)
    return base._replace(mu=mu, s=flip(P))


def _ranked(model: Learner, i: Increments, way: str) -> Any:
    """SOFS; which features are kept is seen to at the end."""
    base, workers = _record(model, i.base), [_record(model, worker) for worker in i.workers]
    mu, A = _beliefs(base.mu, [f.mu for f in workers], base.A, [f.A for f in workers], way, i, model)
    return base._replace(mu=mu, A=A)


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


def _weights(model: Learner, i: Increments, way: str) -> Array:
    """Weights, all thresholds taken."""
    base = _up_to_date(model, i.base)
    return base + _PLAIN[way](np.stack([_up_to_date(model, worker) - base for worker in i.workers]), i)


def _truncated(model: Learner, i: Increments, way: str) -> Any:
    """The weights are up to date, so each has taken all of the new model's P."""
    return _record(model, i.base)._replace(w=_weights(model, i, way), P=model.memory.totals[1])


def _adaptive(model: Learner, i: Increments, way: str) -> Any:
    """The weights are up to date, so each has taken the thresholds of all rounds."""
    return _fields(model, i, way)._replace(w=_weights(model, i, way), n=float(model.t))


def _up_to_date(model: Learner, blocks: Blocks) -> Array:
    """Weights of some records of a model, by the loop that all weights come from."""
    alone = copy.copy(model)
    state = blocks.state.astype(model.dtype).ravel()
    alone.memory = Memory(state, blocks.clocks.ravel(), blocks.counts, blocks.totals, model.memory.extra)
    return alone._weight_block(0, len(blocks.state)).astype(np.float64)


def _record(model: Learner, blocks: Blocks) -> Any:
    fields, clocks = split(model.algorithm.coordinate)
    views = {name: blocks.state[:, k] for k, name in enumerate(fields)}
    views |= {name: blocks.clocks[:, k] for k, name in enumerate(clocks)}
    return model.algorithm.coordinate(**views)


# What each algorithm does ---------------------------------------------------------------------------------------------

_SUMS, _BELIEFS = ("sum", "mean", "touched", "root"), ("precision", "gain", "mean", "touched")


class Rule(NamedTuple):
    """How increments become one for an algorithm; the first way is the default."""

    function: Callable[[Learner, Increments, str], Any]
    ways: tuple[str, ...]
    way: str = ""
    truncates: bool = False  # whether totals hold the truncations so far, which go as the weights do

    def totals(self, i: Increments) -> Array:
        """The cumulative loss adds, and so does what else is counted, except what goes as the weights do."""
        base, others = i.base.totals, np.stack([worker.totals for worker in i.workers]) - i.base.totals
        found = base + _sum(others, i)
        if self.truncates and self.way != "sum":
            found[1:] = base[1:] + _mean(others[:, 1:], i)
        return found

    def records(self, model: Learner, i: Increments) -> tuple[Array, Array]:
        """Rows of state and of clocks."""
        fields, clocks = split(model.algorithm.coordinate)
        found, rows = self.function(model, i, self.way)._asdict(), len(i.base.state)
        both = [np.empty((rows, len(names))) for names in (fields, clocks)]
        for block, names in zip(both, (fields, clocks), strict=True):
            for k, name in enumerate(names):
                block[:, k] = found[name]
        return both[0], both[1]

    def finish(self, model: Learner) -> None:
        """What a rule keeps beside its records follows from them."""
        MERGES[model.algorithm.name].finish(model)


def _first(default: str, ways: Sequence[str]) -> tuple[str, ...]:
    return (default, *(way for way in ways if way != default))


RULES: dict[str, Rule] = {
    "FSOL": Rule(_fields, _first("touched", _SUMS)),
    "SSOL": Rule(_fields, _first("root", _SUMS)),
    "RDA": Rule(_fields, _first("root", _SUMS)),
    "AdaRDA": Rule(_fields, _first("touched", _SUMS)),
    "SOP": Rule(_fields, _first("touched", _SUMS)),
    "Perceptron": Rule(_fields, _first("mean", _SUMS)),
    "AdaFOBOS": Rule(_adaptive, _first("touched", _SUMS)),
    "STG": Rule(_truncated, _first("touched", _SUMS), truncates=True),
    "FOBOS": Rule(_truncated, _first("touched", _SUMS), truncates=True),
    "SMIDAS": Rule(_fields, _first("mean", _SUMS)),
    "CPA": Rule(_fields, _first("touched", _SUMS)),
    "CSOGD": Rule(_fields, _first("touched", _SUMS)),
    "PA": Rule(_fields, _first("touched", _SUMS)),
    "PAUM": Rule(_fields, _first("mean", _SUMS)),
    "ARCSOGD": Rule(_gaussian, _first("gain", _BELIEFS)),
    "AROW": Rule(_gaussian, _first("touched", _BELIEFS)),
    "CW": Rule(_gaussian, _first("gain", _BELIEFS)),
    "NAROW": Rule(_gaussian, _first("touched", _BELIEFS)),
    "SCW": Rule(_gaussian, _first("gain", _BELIEFS)),
    "SOFS": Rule(_ranked, _first("precision", _BELIEFS)),
}
#: SSOL as printed: σ is no sum over examples, so that only averages mean anything.
_DROP = Rule(_fields, ("touched", "mean"))


def rule_for(model: Learner, way: str | None = None) -> Rule:
    """How increments of models like this one become one; None: the default of its algorithm.

    Examples
    --------
    >>> rule_for(Learner("fsol", n_features=1)).way
    'touched'
    >>> rule_for(Learner("fsol", n_features=1), "gain")
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: FSOL: merge must be 'touched', 'sum', 'mean' or 'root', got 'gain'

    """
    name = model.algorithm.name
    if model.full:
        raise MergeError(f"{name} with covariance='full' cannot be merged in rounds: take covariance='diagonal'")
    dropping = name == "SSOL" and model.parameters["diagonal"] == "drop"
    rule = _DROP if dropping else RULES.get(name)
    if rule is None:
        why = REFUSALS.get(name, "no rule is declared for it")
        raise MergeError(f"{name} cannot be merged: {why}; that is mode='features', --mode features")
    if way is not None and way not in rule.ways:
        raise InvalidParameterError(f"{name}: merge must be {listed(rule.ways)}, got {way!r}")
    return rule._replace(way=rule.ways[0] if way is None else way)
