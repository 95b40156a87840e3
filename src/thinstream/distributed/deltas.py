"""Changes of workers since their common base, and how they are merged into one model.

A `Delta` has the new records of all coordinates that are not bit-identical to the base, so it restores the worker's
state exactly. Differences from the base are computed when deltas are merged, in 64 bits and in the order of the
workers. So the base, which all workers share, counts once.
"""

import copy
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.covariance import Matrix
from thinstream.engine.forgetting import HALF_LIFE
from thinstream.engine.loop import T
from thinstream.engine.memory import capacity, field_views, kept_width, record_views
from thinstream.engine.records import Memory
from thinstream.engine.rule import MergeRule
from thinstream.errors import InvalidParameterError, MergeError, listed
from thinstream.lanes.learner import Learner
from thinstream.models.blend import Blend
from thinstream.models.head import Head
from thinstream.models.merging import common_scales, copy_wide, keep_common, rescale_to, share_numbers
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline, on_common_slots, on_numbers
from thinstream.models.slots import SlotTable

# The rule of an algorithm declares how changes of several workers are combined (`engine.rule`). docs/distributed.md has
# a table of the ways. A worker decides on its updates without knowing the others. If changes are summed, K workers step
# K times too far if nothing limits a weight. If they are averaged, a rare feature moves K times too little. The
# defaults were measured to be best (`benchmarks/shards.py`).

Array = NDArray[np.float64]


class Increments(NamedTuple):
    """Some coordinates of the base and of each worker after its round, in 64 bits."""

    base: Memory
    workers: Sequence[Memory]
    touched: NDArray[np.bool_]  # workers × coordinates
    share: Array  # share of each worker in the examples; the shares add up to 1


# Ways to combine differences from the base (workers × coordinates).


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


class Combining(NamedTuple):
    """How changes are combined for a model: the declaration of its rule, and the requested way."""

    rule: MergeRule
    way: str

    def totals(self, i: Increments) -> Array:
        """Add the cumulative loss and other totals. Totals that behave like weights are averaged."""
        base, others = i.base.totals, np.stack([worker.totals for worker in i.workers]) - i.base.totals
        totals = base + _sum(others, i)
        if self.rule.totals_like_weights and self.way != "sum":
            totals[1:] = base[1:] + _mean(others[:, 1:], i)
        return totals

    def records(self, model: Learner, i: Increments) -> Memory:
        """Return the base with the combined state and clocks."""
        merged = i.base._replace(state=i.base.state.copy(), clocks=i.base.clocks.copy())
        views = _record(model, merged)._asdict()
        for name, values in self._merged_fields(model, i).items():
            views[name][:] = values
        return merged

    def _merged_fields(self, model: Learner, i: Increments) -> dict[str, Any]:
        rule, base, workers = self.rule, _record(model, i.base), [_record(model, worker) for worker in i.workers]
        fields: dict[str, Any] = {}
        for name in (*rule.sums, *rule.means):
            fields[name] = self._moved(getattr(base, name), [getattr(worker, name) for worker in workers], i)
        for name in rule.greatest:
            fields[name] = np.maximum.reduce([getattr(base, name), *(getattr(worker, name) for worker in workers)])
        if rule.weight:  # after all thresholds
            fields[rule.weight] = self._moved(
                _up_to_date(model, i.base), [_up_to_date(model, worker) for worker in i.workers], i
            )
        if rule.belief:
            smallest = np.finfo(model.dtype).tiny

            def flip(s: Array) -> Array:  # between what is stored and the precision, either way
                return s if rule.stores_precision else np.reciprocal(np.maximum(s, smallest))

            mean, spread = rule.belief
            means, spreads = ([getattr(worker, name) for worker in workers] for name in rule.belief)
            fields[mean], P = _beliefs(
                getattr(base, mean), means, flip(getattr(base, spread)), [flip(s) for s in spreads], self.way, i, model
            )
            fields[spread] = flip(P)
        return fields | rule.clocks(model.t, model.rule.read_totals(model.memory.totals))

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
    # a variance may have become 0: limit precisions so that their sum is finite
    most = np.finfo(m.dtype).max / (2 * len(precisions) + 2)
    base = np.minimum(precision, most)
    after = np.minimum(np.stack(precisions), most)
    gains, moves = after - base, np.stack(means) - mean
    if way in _PLAIN:
        return mean + _PLAIN[way](moves, i), base + _PLAIN[way](gains, i)
    total = base + _sum(gains, i)
    if way == "precision":
        return mean + _sum(moves * (after / total), i), total
    gained = _sum(gains, i)
    weights = np.where(gained > 0, gains, i.touched)  # no precision has grown, but a mean may have moved
    return mean + _sum(moves * weights, i) / _sum(weights, i), total


def _up_to_date(model: Learner, blocks: Memory) -> Array:
    """Return weights of some records of a model, computed with its own loop."""
    alone = copy.copy(model)
    alone.memory = blocks._replace(state=blocks.state.astype(model.dtype), extra=model.memory.extra)
    return alone._weight_block(0, capacity(model.algorithm, blocks)).astype(np.float64)


def _record(model: Learner, blocks: Memory) -> Any:
    return field_views(model.algorithm, blocks, 0, capacity(model.algorithm, blocks))


def combining_for(model: Learner, way: str | None = None) -> Combining:
    """Return how changes of models like this one are combined; None: the default of its rule.

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
            f"{name} with half_life cannot be merged in rounds, because each worker would discount only by its own "
            "rows. Train on one machine, or without half_life"
        )
    rule: MergeRule = model.rule.merge_rule()
    if not rule.declared:
        raise MergeError(
            f"{name} cannot be merged: {rule.refused}. Use mpiexec -n 2 thinstream train --mode "
            f"features, which does not merge"
        )
    if model.full and not rule.belief:
        raise MergeError(f"{name} with covariance='full' cannot be merged in rounds. Use covariance='diagonal'")
    ways = ("mean",) if model.full else rule.ways
    if way is not None and way not in ways:
        matrices = " with covariance='full'" if model.full else ""
        raise InvalidParameterError(f"{name}{matrices}: merge must be {listed(ways)}, got {way!r}")
    return Combining(rule, ways[0] if way is None else way)


# Blends of workers are merged member by member, with the way of each algorithm. The head is merged by precision: with
# H = P⁻¹, the base b and the workers i, H = H_b + Σ (H_i − H_b), and H·w likewise. Sums, counters and Σx_j² add their
# differences. Members that a worker has dropped in its round are dropped. Blends are sent whole, because most of their
# coordinates change.

#: Merges the learners of workers, given their base.
Join = Callable[[Pipeline, Sequence[Pipeline]], Pipeline]


@dataclass(frozen=True, eq=False)
class WholeBlend:
    """The learner of a worker after its round."""

    learner: Pipeline

    @property
    def n_features(self) -> int:
        return self.learner.n_features


def merge_wholes(base: Pipeline, workers: Sequence[Pipeline], join: Join) -> Pipeline:
    """Merge the blends of workers into a new learner; ``join`` merges the models of one algorithm."""
    seen = [worker for worker in workers if worker.t > base.t]
    if len(seen) < 2:
        return deepcopy(seen[0] if seen else base)
    if base.preparation.scale is not None:
        raise MergeError(
            "Auto: scale= for all members cannot be merged. Leave it out, so that each member uses its own"
        )
    pairs = zip(base.blends, *(worker.blends for worker in seen), strict=True)
    merged = [_merged(one, others, join) for one, *others in pairs]
    mistakes = base.n_mistakes + sum(worker.n_mistakes - base.n_mistakes for worker in seen)
    return Pipeline(Outputs(merged, n_mistakes=mistakes), base.preparation)


def _merged(base: Blend, workers: Sequence[Blend], join: Join) -> Blend:
    blends = [blend.alone() for blend in (base, *workers)]
    keep_common(blends)
    share_numbers(blends)
    base, *workers = blends
    made = base.like(base.members, max(blend.n_features for blend in blends))
    if made.few is not None and base.few is not None:
        made.grid.number_features(base.few.numbers.copy())
    for view, *others in zip(made.views, *(blend.views for blend in blends), strict=True):
        for group, *own in zip(view.groups, *(other.groups for other in others), strict=True):
            memories = []
            for models in zip(*own, strict=True):
                ready = [Pipeline.of(model, other.preparation) for model, other in zip(models, others, strict=True)]
                together = join(ready[0], ready[1:])
                memories.append(together.outputs.one.memory)
                if view.preparation:
                    view.preparation = together.preparation
            group.put(memories)
    _merge_heads(made.head, base.head, [blend.head for blend in workers])
    made.record, made.counts = deepcopy(base.record), _added([blend.counts for blend in blends])
    for name in ("rows", "mistakes"):
        setattr(made.record, name, _added([getattr(blend.record, name) for blend in blends]))
    for k, part in enumerate(made.parts):
        width = part.width(made.n_features)
        squares = [blend.parts[k].squares[:width] for blend in blends]
        part.squares[:width] = _added([np.pad(q, (0, width - len(q))) for q in squares])
    return made


def _merge_heads(made: Head, base: Head, heads: Sequence[Head]) -> None:
    all_heads = [base, *heads]
    precisions = [np.linalg.inv(head.P) for head in all_heads]
    H = _added(precisions)
    made.P = np.linalg.inv((H + H.T) / 2)
    made.w = made.P @ _added([own @ head.w for own, head in zip(precisions, all_heads, strict=True)])
    for name in ("sums", "counts", "loss"):
        setattr(made, name, _added([getattr(head, name) for head in all_heads]))


def _added(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the first array plus the differences of the others from it."""
    base, *others = values
    total: NDArray[Any] = base + np.sum([other - base for other in others], axis=0)
    return total


# Workers with slots for the features that occur may have different features, so their changes contain the feature
# numbers. Before a comparison or a merge, all learners get slots for all features that any of them has.


@dataclass(frozen=True, eq=False)
class CompactChange:
    """A change of a learner on slots, and the features of the slots."""

    numbers: NDArray[np.int64]  # features of the slots from 1, sorted, including those of the base
    n_features: int
    change: Any

    def around(self, inner: Pipeline, grow: bool) -> Pipeline:
        """Return ``inner`` as a learner on these slots."""
        return inner.encoded(SlotTable.of(self.numbers), self.n_features, grow)


class Part(NamedTuple):
    """The changed coordinates of one model. The intercept, if there is one, is coordinate 0."""

    indices: NDArray[np.int64]  # sorted
    memory: Memory  # state and clocks of these coordinates; counters and the rule's own array are complete


@dataclass(frozen=True, eq=False)
class Delta:
    """The difference of a model from its base. With several classes, it has a part for each."""

    n_features: int
    parts: tuple[Part, ...]
    mistakes: int = 0  # with several classes: mistakes of the whole run
    scales: tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]] | None = None  # changed features and their scales


#: The change that a worker returns.
Change = Delta | WholeBlend | CompactChange


def delta(base: Pipeline, learner: Pipeline) -> Change:
    """Return the difference of ``learner`` from ``base``, from which it was trained.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> row = Batch.of(np.array([0, 1]), np.array([2], np.int32), np.ones(1), 4, y=np.array([1], np.int8))
    >>> base = Pipeline.of(Learner("fsol", n_features=4))
    >>> learner = copy_learner(base)
    >>> _ = learner.learn(row)
    >>> delta(base, learner).parts[0].indices
    array([2])

    """
    if base.encoder is not None or learner.encoder is not None:
        numbers, both = on_common_slots([base, learner])
        return CompactChange(numbers, learner.n_features, delta(*both))
    if base.blends:
        return WholeBlend(learner)
    return _delta(base, learner)


def _delta(base: Pipeline, learner: Pipeline) -> Delta:
    pairs = zip(base.outputs, learner.outputs, strict=True)
    parts = tuple(_part(one, other) for one, other in pairs)
    return Delta(learner.n_features, parts, learner.n_mistakes, _changed_scales(base, learner))


def _changed_scales(base: Pipeline, learner: Pipeline) -> Any:
    now = learner.preparation.scales
    if now is None:
        return None
    was = base.preparation.copy(learner.n_features).scales
    assert was is not None
    where = now.changed(was, learner.n_features)
    return where, now.columns(where)


def apply_delta(base: Pipeline, change: Change) -> Pipeline:
    """Return a copy of the base with the change applied, bit-identical to the model that the change came from."""
    if isinstance(change, CompactChange):
        compact = base if base.encoder is not None else base.compacted()
        return change.around(apply_delta(compact.on_slots_of(change.numbers), change.change), base.grow)
    if isinstance(change, WholeBlend):
        return deepcopy(change.learner)
    models = []
    for model, part in zip(base.outputs, change.parts, strict=True):
        new = copy_wide(model, change.n_features)
        for rows, values in zip(_rows(new), part.memory[:2], strict=True):
            rows[part.indices] = values
        counters: list[Any] = [array.copy() for array in part.memory[2:]]
        new.memory = Memory(*new.memory[:2], *counters)
        models.append(new)
    preparation = base.preparation.copy(change.n_features)
    if preparation.scales is not None and change.scales is not None:
        preparation.scales.put(*change.scales)
    return Pipeline(Outputs(models, n_mistakes=change.mistakes), preparation)


def copy_learner(model: Pipeline) -> Pipeline:
    if model.encoder is not None:
        inner = copy_learner(model.decoded())
        return inner.encoded(SlotTable.of(model.encoder.numbers), model.n_features, model.grow)
    if model.blends:
        return deepcopy(model)
    return Pipeline(model.outputs.mapped(lambda one: copy_wide(one, one.n_features)), model.preparation.copy())


def merge_deltas(base: Pipeline, deltas: Sequence[Change], way: str | None = None) -> Pipeline:
    """Merge what several workers learned since the base into a new model; counters are added.

    Deltas without an example change nothing. If only one has examples, the result is bit-identical to that worker's
    model. The order of deltas, which is the order of the workers, is the order of summation. ``way``: how changes are
    combined (see docs/distributed.md); None: the default of the algorithm's rule.
    """
    if base.encoder is not None or any(isinstance(change, CompactChange) for change in deltas):
        workers = [apply_delta(base, change) for change in deltas]
        numbers, (first, *others) = on_common_slots([base, *workers])
        inner = merge_deltas(first, [delta(first, other) for other in others], way)
        width = max(learner.n_features for learner in (base, *workers))
        return on_numbers(inner, numbers, width, base.grow)
    if base.blends:
        return merge_wholes(base, [change.learner for change in deltas if isinstance(change, WholeBlend)], _joined)
    parted = [change for change in deltas if isinstance(change, Delta)]
    width = max([base.n_features, *(change.n_features for change in parted)])
    seen = [change for change in parted if any(_examples(change, base))]
    if len(seen) < 2:
        return apply_delta(base, seen[0]) if seen else copy_learner(base)
    preparation, scales = base.preparation.copy(), None
    if preparation.scales is not None:  # rescale all to the scales of all rows
        workers = [apply_delta(base, change) for change in seen]
        scales = common_scales([worker.preparation for worker in workers], preparation, width)
        base, *workers = (Pipeline(rescale_to(one, scales)) for one in (base, *workers))
        seen = [_delta(base, worker) for worker in workers]
    return Pipeline(_merge_seen(base.outputs, seen, width, way), preparation.with_scales(scales))


def _joined(base: Pipeline, workers: Sequence[Pipeline]) -> Pipeline:
    return merge_deltas(base, [_delta(base, worker) for worker in workers])


def _merge_seen(base: Outputs, seen: Sequence[Delta], width: int, way: str | None) -> Outputs:
    chosen, models = combining_for(next(iter(base)), way), []
    for k, model in enumerate(base):
        parts = [change.parts[k] for change in seen]
        models.append(_merge_parts(copy_wide(model, width), parts, chosen))
    mistakes = base.n_mistakes + sum(change.mistakes - base.n_mistakes for change in seen)
    return Outputs(models, n_mistakes=mistakes)


def _examples(change: Delta, base: Pipeline) -> list[int]:
    """Return, for each model, the examples since the base."""
    return [int(part.memory.counts[T]) - model.t for part, model in zip(change.parts, base.outputs, strict=True)]


def _part(base: Learner, learner: Learner) -> Part:
    if base.weights_only or learner.weights_only:
        raise MergeError(f"{learner.algorithm.name}: a model saved with only its weights has no state to merge")
    wide = base if base.n_features == learner.n_features else copy_wide(base, learner.n_features)
    (old, old_clocks), (new, new_clocks) = _rows(wide), _rows(learner)
    marks = _differ(old, new) | _differ(old_clocks, new_clocks)
    where = np.flatnonzero(marks)
    counters: list[Any] = [array.copy() for array in learner.memory[2:]]
    return Part(where, Memory(new[where], new_clocks[where], *counters))


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark rows that are not bit-identical."""
    bits, differs = f"u{one.itemsize}", np.zeros(len(one), np.bool_)
    for k in range(one.shape[1]):  # `any` along such a short axis is several times slower
        differs |= one.view(bits)[:, k] != other.view(bits)[:, k]
    return differs


def _rows(model: Learner) -> tuple[NDArray[Any], NDArray[np.float64]]:
    return record_views(
        model.algorithm, model.memory, kept_width(model.rule, model.memory, model.n_features + model.offset)
    )


def _merge_parts(model: Learner, parts: Sequence[Part], combining: Combining) -> Learner:
    """Add the changes of all parts to ``model``, a copy of the base."""
    base = model.memory._replace(counts=model.memory.counts.copy(), totals=model.memory.totals.copy())
    where, number_of = _union([part.indices for part in parts], model.n_features + model.offset)
    old = [rows[where].astype(np.float64) for rows in _rows(model)]
    new, touched = [], np.zeros((len(parts), len(where)), np.bool_)
    for k, part in enumerate(parts):
        numbers = number_of[part.indices]
        touched[k, numbers] = True
        both = [rows.copy() for rows in old]
        for rows, values in zip(both, part.memory[:2], strict=True):
            rows[numbers] = values
        new.append(part.memory._replace(state=both[0].ravel(), clocks=both[1].ravel()))
    seen = np.array([part.memory.counts[T] - base.counts[T] for part in parts], np.float64)
    for part in parts:
        model.memory.counts[:] += part.memory.counts - base.counts
    base = base._replace(state=old[0].ravel(), clocks=old[1].ravel())
    increments = Increments(base, new, touched, seen / seen.sum())
    model.memory.totals[:] = combining.totals(increments)
    if model.full:
        _average_matrices(model, parts, increments.share)
        return model
    for rows, values in zip(_rows(model), combining.records(model, increments)[:2], strict=True):
        rows[where] = values.reshape(len(where), rows.shape[1])
    model.rule.rebuild(model.memory)
    return model


def _average_matrices(model: Any, parts: Sequence[Part], share: NDArray[np.float64]) -> None:
    """Average means and full covariances, weighted by the examples of each worker.

    Sums of precisions were worse, and would need the inverse of matrices that are nearly singular.
    """
    fresh, mean, packed = float(model.rule.variance(model.rule.fresh())), np.zeros(model.sigma.d), 0.0
    for part, share_of_worker in zip(parts, share, strict=True):
        mean_of_worker = model.belief.mean.astype(np.float64)
        mean_of_worker[part.indices] = part.memory.state[:, 0]
        mean += share_of_worker * mean_of_worker
        packed = packed + share_of_worker * Matrix(part.memory.extra).grown(model.sigma.d, fresh).packed.astype(
            np.float64
        )
    model.belief.mean[:], model.memory.extra[:] = mean, packed


def _union(parts: Sequence[NDArray[np.int64]], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the coordinates in any part, sorted, and the number of each among them."""
    marks = np.zeros(width, np.bool_)
    for indices in parts:
        marks[indices] = True
    where = np.flatnonzero(marks)
    number_of = np.empty(width, np.int64)
    number_of[where] = np.arange(len(where))
    return where, number_of
