"""What a worker has learned since the common base, and one model out of the increments of all.

A `Delta` has the records of the coordinates that differ from the base in any bit, as they are now: one delta is that
worker's state, bit for bit, and the increments of several are taken where they are merged, in 64 bits and in the order
of the workers. So the base, which all share, counts once.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import blends_of
from thinstream.compact import CompactLearner, compact_learner, compacted, on_common_slots
from thinstream.compact.learner import merged
from thinstream.distributed.by_examples.blends import WholeBlend, merge_wholes
from thinstream.distributed.by_examples.compacts import CompactChange
from thinstream.distributed.by_examples.increments import Combining, Increments, combining_for
from thinstream.engine.full import Matrix
from thinstream.engine.loop import T
from thinstream.engine.records import Memory
from thinstream.errors import MergeError
from thinstream.learners import Learner
from thinstream.learners.memory import kept_width, record_views
from thinstream.learners.merging import copy_wide
from thinstream.one_vs_rest import AnyLearner, learner_of
from thinstream.preparing import plain_learner, preparation_of, prepared
from thinstream.preparing.merging import bring, common_scales


class Part(NamedTuple):
    """Of one model: the coordinates that changed, with the intercept as number 0 where there is one."""

    indices: NDArray[np.int64]  # sorted
    memory: Memory  # a row of state and clocks for each; counters are of the whole run, the rule's own array is whole


@dataclass(frozen=True, eq=False)
class Delta:
    """Where a model differs from its base; of more than two classes a part for each."""

    n_features: int
    parts: tuple[Part, ...]
    mistakes: int = 0  # of more than two classes: those of the whole run
    scales: tuple[NDArray[np.int64], dict[str, NDArray[np.float64]]] | None = None  # of features: which, and what

    @property
    def nbytes(self) -> int:
        """What it takes to send it."""
        where, columns = self.scales or (np.empty(0, np.int64), {})
        own = (where, *columns.values())
        return sum(array.nbytes for part in self.parts for array in (part.indices, *part.memory, *own))


#: What a worker answers with.
Change = Delta | WholeBlend | CompactChange


def delta(base: AnyLearner, learner: AnyLearner) -> Change:
    """Where ``learner`` differs from ``base``, from which it went on.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> row = Batch.of(np.array([0, 1]), np.array([2], np.int32), np.ones(1), 4, y=np.array([1], np.int8))
    >>> base = Learner("fsol", n_features=4)
    >>> learner = copy_learner(base)
    >>> _ = learner.learn(row)
    >>> delta(base, learner).parts[0].indices
    array([2])

    """
    if isinstance(base, CompactLearner) or isinstance(learner, CompactLearner):
        numbers, both = on_common_slots([base, learner])
        return CompactChange(numbers, learner.n_features, delta(*both))
    if blends_of(base):
        return WholeBlend(learner)
    return _delta(base, learner)


def _delta(base: AnyLearner, learner: AnyLearner) -> Delta:
    pairs = zip(plain_learner(base).models, plain_learner(learner).models, strict=True)
    parts = tuple(_part(one, other) for one, other in pairs)
    return Delta(learner.n_features, parts, learner.n_mistakes, _changed_scales(base, learner))


def _changed_scales(base: AnyLearner, learner: AnyLearner) -> Any:
    now = preparation_of(learner).scales
    if now is None:
        return None
    was = preparation_of(base).copy(learner.n_features).scales
    assert was is not None
    where = now.changed(was, learner.n_features)
    return where, now.columns(where)


def apply_delta(base: AnyLearner, change: Change) -> AnyLearner:
    """A new model: the base with the change, bit for bit the model the change was taken of."""
    if isinstance(change, CompactChange):
        compact = base if isinstance(base, CompactLearner) else compacted(base)
        return change.around(apply_delta(compact.with_numbers(change.numbers), change.change), base.grow)
    if isinstance(change, WholeBlend):
        return deepcopy(change.learner)
    models = []
    for model, part in zip(plain_learner(base).models, change.parts, strict=True):
        new = copy_wide(model, change.n_features)
        for rows, values in zip(_rows(new), part.memory[:2], strict=True):
            rows[part.indices] = values
        counters: list[Any] = [array.copy() for array in part.memory[2:]]
        new.memory = Memory(*new.memory[:2], *counters)
        models.append(new)
    preparation = preparation_of(base).copy(change.n_features)
    if preparation.scales is not None and change.scales is not None:
        preparation.scales.put(*change.scales)
    found: AnyLearner = prepared(learner_of(models, change.mistakes), preparation)
    return found


def copy_learner(model: AnyLearner) -> AnyLearner:
    """A model of its own with the same state."""
    if isinstance(model, CompactLearner):
        return compact_learner(copy_learner(model.inner), model.table.numbers, model.n_features, model.grow)
    if blends_of(model):
        return deepcopy(model)
    models = [copy_wide(each, model.n_features) for each in plain_learner(model).models]
    found: AnyLearner = prepared(learner_of(models, model.n_mistakes), preparation_of(model).copy())
    return found


def merge_deltas(base: AnyLearner, deltas: Sequence[Change], way: str | None = None) -> AnyLearner:
    """A new model out of what several workers learned since the base; counters add.

    Deltas without an example change nothing. If only one has some, the result is that worker's model, bit for bit. The
    order of deltas, which is that of the workers, is the order of summation. ``way``: how increments become one (see
    `increments`); None: the default that the algorithm's rule declares.
    """
    if isinstance(base, CompactLearner) or any(isinstance(change, CompactChange) for change in deltas):
        workers = [apply_delta(base, change) for change in deltas]
        numbers, (first, *others) = on_common_slots([base, *workers])
        inner = merge_deltas(first, [delta(first, other) for other in others], way)
        width = max(learner.n_features for learner in (base, *workers))
        return merged(inner, numbers, width, base.grow)
    if blends_of(base):
        return merge_wholes(base, [change.learner for change in deltas if isinstance(change, WholeBlend)], _joined)
    parted = [change for change in deltas if isinstance(change, Delta)]
    width = max([base.n_features, *(change.n_features for change in parted)])
    seen = [change for change in parted if any(_examples(change, base))]
    if len(seen) < 2:
        return apply_delta(base, seen[0]) if seen else copy_learner(base)
    preparation, scales = preparation_of(base).copy(), None
    if preparation.scales is not None:  # all of them under the scales of all rows
        workers = [apply_delta(base, change) for change in seen]
        scales = common_scales([preparation_of(worker) for worker in workers], preparation, width)
        base, workers = bring(base, scales), [bring(worker, scales) for worker in workers]
        seen = [_delta(base, worker) for worker in workers]
    found: AnyLearner = prepared(_merge_seen(plain_learner(base), seen, width, way), preparation.with_scales(scales))
    return found


def _joined(base: AnyLearner, workers: Sequence[AnyLearner]) -> AnyLearner:
    return merge_deltas(base, [_delta(base, worker) for worker in workers])


def _merge_seen(base: AnyLearner, seen: Sequence[Delta], width: int, way: str | None) -> AnyLearner:
    chosen, models = combining_for(next(iter(base.models)), way), []
    for k, model in enumerate(base.models):
        parts = [change.parts[k] for change in seen]
        models.append(_merge_parts(copy_wide(model, width), parts, chosen))
    return learner_of(models, base.n_mistakes + sum(change.mistakes - base.n_mistakes for change in seen))


def _examples(change: Delta, base: AnyLearner) -> list[int]:
    """Of each model: examples seen since the base."""
    return [int(part.memory.counts[T]) - model.t for part, model in zip(change.parts, base.models, strict=True)]


def _part(base: Learner, learner: Learner) -> Part:
    if base.weights_only or learner.weights_only:
        raise MergeError(f"{learner.algorithm.name}: a model of weights only has no state to take increments of")
    wide = base if base.n_features == learner.n_features else copy_wide(base, learner.n_features)
    (old, old_clocks), (new, new_clocks) = _rows(wide), _rows(learner)
    marks = _differ(old, new) | _differ(old_clocks, new_clocks)
    where = np.flatnonzero(marks)
    counters: list[Any] = [array.copy() for array in learner.memory[2:]]
    return Part(where, Memory(new[where], new_clocks[where], *counters))


def _differ(one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.bool_]:
    """Rows that differ in any bit."""
    bits, found = f"u{one.itemsize}", np.zeros(len(one), np.bool_)
    for k in range(one.shape[1]):  # a few columns; `any` along so short an axis takes several times as long
        found |= one.view(bits)[:, k] != other.view(bits)[:, k]
    return found


def _rows(model: Learner) -> tuple[NDArray[Any], NDArray[np.float64]]:
    return record_views(
        model.algorithm, model.memory, kept_width(model.rule, model.memory, model.n_features + model.offset)
    )


def _merge_parts(model: Learner, parts: Sequence[Part], combining: Combining) -> Learner:
    """``model``, a copy of the base, with the increments of all parts."""
    base = model.memory._replace(counts=model.memory.counts.copy(), totals=model.memory.totals.copy())
    where, place = _union([part.indices for part in parts], model.n_features + model.offset)
    old = [rows[where].astype(np.float64) for rows in _rows(model)]
    new, touched = [], np.zeros((len(parts), len(where)), np.bool_)
    for k, part in enumerate(parts):
        places = place[part.indices]
        touched[k, places] = True
        both = [rows.copy() for rows in old]
        for rows, values in zip(both, part.memory[:2], strict=True):
            rows[places] = values
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
    """Means and full covariances by the examples of each worker.

    Sums of precisions were worse, and matrices that are nearly singular would have to be inverted for them.
    """
    fresh, mean, packed = float(model.rule.variance(model.rule.fresh())), np.zeros(model.sigma.d), 0.0
    for part, own in zip(parts, share, strict=True):
        each = model.belief.mean.astype(np.float64)
        each[part.indices] = part.memory.state[:, 0]
        mean += own * each
        packed = packed + own * Matrix(part.memory.extra).grown(model.sigma.d, fresh).packed.astype(np.float64)
    model.belief.mean[:], model.memory.extra[:] = mean, packed


def _union(parts: Sequence[NDArray[np.int64]], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Coordinates that are in any part, sorted, and the number each has among them."""
    marks = np.zeros(width, np.bool_)
    for indices in parts:
        marks[indices] = True
    where = np.flatnonzero(marks)
    place = np.empty(width, np.int64)
    place[where] = np.arange(len(where))
    return where, place
