"""A learner whose features have other numbers: its state, column by column, moved into a fresh one."""

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.forgetting import declared
from thinstream.engine.records import Memory
from thinstream.growing import Growing
from thinstream.lanes.block import Block
from thinstream.lanes.single import SingleLane
from thinstream.learners import Learner
from thinstream.learners.memory import allocate, capacity, record_views, touched_coordinates
from thinstream.one_vs_rest import OneVsRest
from thinstream.preparing import Preparation, PreparedLearner, Several, prepared

Places = NDArray[np.int64]


def moved(learner: Any, where: Places, width: int) -> Any:
    """A copy of ``width`` features: feature j becomes ``where[j]``, or is left out where that is −1.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> rows = Batch.of(np.arange(3), np.arange(2), np.ones(2), 2, y=np.array([-1, 1], np.int8))
    >>> model = Learner("fsol", n_features=2)
    >>> _ = model.learn(rows)
    >>> moved(model, np.array([3, 0]), 5).weights()
    array([ 1.,  0.,  0., -1.,  0.], dtype=float32)

    """
    if isinstance(learner, PreparedLearner):
        vectors = range(learner.preparation.vectors)  # of weights, one after another
        places = np.concatenate([np.where(where >= 0, where + k * width, -1) for k in vectors])
        inner = moved(learner.inner, places, width * len(vectors))
        return prepared(inner, moved_preparation(learner.preparation, where, width))
    if isinstance(learner, OneVsRest):
        return _moved_classes(learner, where, width)
    if not isinstance(learner, Learner):  # a blend of some
        return learner.moved(lambda model: moved(model, where, width), where, width)
    new = copy(learner)
    new.parameters, new.n_features = dict(learner.parameters), width
    algorithm = declared(type(learner.rule))  # of weights only another than the learner's
    fresh = allocate(algorithm, learner.rule, width + learner.offset, learner.dtype)
    counters: list[Any] = [array.copy() for array in learner.memory[2:]]
    new.memory = Memory(fresh.state, fresh.clocks, *counters)
    there = np.flatnonzero(where >= 0)
    source = np.concatenate([np.arange(learner.offset), there + learner.offset])
    target = np.concatenate([np.arange(learner.offset), where[there] + learner.offset])
    old = record_views(algorithm, learner.memory, learner.n_features + learner.offset)
    for had, has in zip(old, record_views(algorithm, new.memory, width + learner.offset), strict=True):
        has[target] = had[source]
    return new


def _moved_classes(learner: OneVsRest, where: Places, width: int) -> OneVsRest:
    models = [moved(model, where, width) for model in learner.models]
    if isinstance(learner, Growing):
        spares = [moved(spare, where, width) for spare in learner.spares]
        new: OneVsRest = Growing(models, spares, learner.n_mistakes, learner.spare_costs)
        new.__dict__.update(to_come=dict(learner.to_come), _known=learner._known)
    else:
        new = OneVsRest(models, learner.n_mistakes)
    new._work, new.device = learner._work, learner.device
    return new


def moved_preparation(preparation: Preparation, where: Places, width: int) -> Preparation:
    """The same with scales moved."""
    if isinstance(preparation, Several):
        return Several([moved_preparation(one, where, width) for one in preparation.each], width)
    found = preparation.with_scales(None if preparation.scales is None else type(preparation.scales).fresh())
    found.widen(width)
    if preparation.scales is not None and found.scales is not None:
        there = np.flatnonzero(where >= 0)
        found.scales.put(where[there], preparation.scales.columns(there))
    return found


def reset_features(learner: Any, features: Places) -> None:
    """These features become what one is that nobody has learned, as feature 0 is."""
    if isinstance(learner, PreparedLearner):
        forget_scales(learner.preparation, features)
        reset_features(learner.inner, features)
    elif isinstance(learner, OneVsRest):
        learner.come_home()
        for held in learner._held if isinstance(learner._held, list) else learner._held._blocks:
            reset_features(held, features)
    elif isinstance(learner, Learner):
        learner.version += 1
        algorithm = declared(type(learner.rule))
        for view in record_views(algorithm, learner.memory, capacity(algorithm, learner.memory)):
            view[features + learner.offset] = view[learner.offset]
    elif isinstance(learner, Block):
        for view in learner._views():
            view[features + learner.offset] = view[learner.offset]
    elif isinstance(learner, SingleLane):
        reset_features(learner._model, features)
    else:
        learner.reset(lambda held: reset_features(held, features), features)


def forget_scales(preparation: Preparation, features: Places) -> None:
    """These features have no scale."""
    if preparation.scales is not None:
        preparation.scales.rows[features] = 0.0


def touched_features(learner: Any) -> Places:
    """Features whose state differs from that of one never seen, sorted."""
    marks = np.zeros(learner.n_features, np.bool_)
    _mark(learner, marks)
    return np.flatnonzero(marks)


def _mark(learner: Any, marks: NDArray[np.bool_]) -> None:
    if isinstance(learner, PreparedLearner):
        _mark_learned(learner.preparation, marks)
        _mark(learner.inner, marks)
    elif isinstance(learner, OneVsRest):
        for model in [*learner.models, *(learner.spares if isinstance(learner, Growing) else ())]:
            _mark(model, marks)
    elif isinstance(learner, Learner):
        offset, width = learner.offset, len(marks) + learner.offset
        touched = touched_coordinates(declared(type(learner.rule)), learner.rule, learner.memory, width)
        marks[touched[touched >= offset] - offset] = True
    else:
        for station in learner.stations:
            _mark_learned(station.preparation, marks)
        for part in learner.parts:
            marks |= part.squares[: len(marks)] != 0.0
        for model in learner.lanes:
            _mark(model, marks)


def _mark_learned(preparation: Preparation, marks: NDArray[np.bool_]) -> None:
    if preparation.scales is not None:
        marks |= preparation.scales.learned(len(marks))
