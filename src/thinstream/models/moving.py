"""Renumber or reset features in learners, lanes and scales."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.covariance import Matrix
from thinstream.engine.forgetting import declared
from thinstream.engine.memory import allocate, capacity, extra_size, is_full, record_views, touched_coordinates
from thinstream.engine.records import Memory
from thinstream.lanes.block import Block, SingleLane
from thinstream.lanes.learner import Learner
from thinstream.models.preparation import Preparation, Several

Places = NDArray[np.int64]


def moved(learner: Any, where: Places, width: int) -> Any:
    """Return a copy of ``width`` features: feature j becomes ``where[j]``, or is left out if that is -1.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> rows = Batch.of(np.arange(3), np.arange(2), np.ones(2), 2, y=np.array([-1, 1], np.int8))
    >>> model = Learner("fsol", n_features=2)
    >>> _ = model.learn(rows)
    >>> moved(model, np.array([3, 0]), 5).weights()
    array([ 1.,  0.,  0., -1.,  0.], dtype=float32)

    """
    if not isinstance(learner, Learner):
        return learner.moved(lambda one: moved(one, where, width), where, width)
    new = copy(learner)
    new.parameters, new.n_features = dict(learner.parameters), width
    algorithm = declared(type(learner.rule))  # for a learner with weights only, it is not the learner's algorithm
    fresh = allocate(algorithm, learner.rule, width + learner.offset, learner.dtype)
    counters: list[Any] = [array.copy() for array in learner.memory[2:]]
    new.memory = Memory(fresh.state, fresh.clocks, *counters)
    there = np.flatnonzero(where >= 0)
    source = np.concatenate([np.arange(learner.offset), there + learner.offset])
    target = np.concatenate([np.arange(learner.offset), where[there] + learner.offset])
    old = record_views(algorithm, learner.memory, learner.n_features + learner.offset)
    for had, has in zip(old, record_views(algorithm, new.memory, width + learner.offset), strict=True):
        has[target] = had[source]
    if learner.full:
        sigma = Matrix(fresh.extra).dense()
        sigma[np.ix_(target, target)] = Matrix(learner.memory.extra).dense()[np.ix_(source, source)]
        new.memory = new.memory._replace(extra=Matrix.of(sigma).packed)
    return new


def moved_preparation(preparation: Preparation, where: Places, width: int) -> Preparation:
    """Return a copy whose scales are moved in the same way."""
    if isinstance(preparation, Several):
        return Several([moved_preparation(one, where, width) for one in preparation.each], width)
    made = preparation.with_scales(None if preparation.scales is None else type(preparation.scales).fresh())
    made.widen(width)
    if preparation.lengths is not None:
        made.lengths = np.zeros(width, np.float32)
        kept = np.flatnonzero(where[: len(preparation.lengths)] >= 0)
        made.lengths[where[kept]] = preparation.lengths[kept]
    if preparation.scales is not None and made.scales is not None:
        there = np.flatnonzero(where >= 0)
        made.scales.put(where[there], preparation.scales.columns(there))
    return made


def reset_features(learner: Any, features: Places) -> None:
    """Reset features of a learner or a block of lanes to the state of feature 0, which never occurs."""
    if isinstance(learner, SingleLane):
        learner = learner._model
    if isinstance(learner, Learner):
        learner.version += 1
        algorithm = declared(type(learner.rule))
        views: Any = record_views(algorithm, learner.memory, capacity(algorithm, learner.memory))
    elif isinstance(learner, Block):
        views = learner._views()
    else:
        learner.reset(lambda held: reset_features(held, features), features)
        return
    for view in views:
        view[features + learner.offset] = view[learner.offset]


def reset_scales(preparation: Preparation, features: Places) -> None:
    """Remove the scales of features."""
    if preparation.scales is not None:
        preparation.scales.rows[features] = 0.0


def mark_touched(learner: Any, marks: NDArray[np.bool_]) -> None:
    """Mark the features whose state in a learner differs from that of a feature that never occurred."""
    if isinstance(learner, Learner):
        offset, width = learner.offset, len(marks) + learner.offset
        touched = touched_coordinates(declared(type(learner.rule)), learner.rule, learner.memory, width)
        marks[touched[touched >= offset] - offset] = True
        return
    parts = [part for part in learner.parts if not part.products]
    for part in parts:
        marks |= part.squares[: len(marks)] != 0.0
        for view in part.views:
            mark_scaled(view.preparation, marks)
    if learner.few is not None:
        marks[learner.few.numbers] = True
    groups = [group for part in parts for view in part.views for group in view.groups]
    for model in (model for group in groups if group.few is None for model in group):
        mark_touched(model, marks)


def mark_scaled(preparation: Preparation, marks: NDArray[np.bool_]) -> None:
    """Mark the features that have a scale."""
    if preparation.scales is not None:
        marks |= preparation.scales.learned(len(marks))


def is_plain(rule: Any) -> bool:
    """Return whether a rule updates each coordinate independently of its number and of the number of features."""
    return not (rule.needs_dimension() or is_full(rule) or extra_size(rule))
