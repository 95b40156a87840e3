"""A model that predicts with the most important of its weights."""

import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.blend import importances
from thinstream.blend.serving import served
from thinstream.compact import CompactLearner, narrow_learner
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.learners.protocol import AnyLearner
from thinstream.models import packing
from thinstream.models.container import Arrays
from thinstream.models.model import Model, Names
from thinstream.models.packing_scales import with_short_scales
from thinstream.preparing import plain_learner


def thin(model: Model, n: int, importance: NDArray[Any] | None = None) -> Model:
    """A new model of the n most important weights, all classes together; it predicts, and cannot go on learning.

    Weights, intercept, preparation of rows, classes and threshold are those of the model, which is left as it is. Of
    equally important weights the first is kept, of fewer than n all.

    Parameters
    ----------
    model : Model
        Of any algorithm, of two classes or more.
    n : int
        How many weights to keep, intercepts not counted.
    importance : array like the model's weights
        By default what `thinning.importance` finds.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> from thinstream.learners import Classes
    >>> rows = Batch.of(np.arange(4), np.arange(3), np.array([1.0, 3.0, 2.0]), 3, y=np.array([1, -1, 1], np.int8))
    >>> model = Model.fresh("fsol", Classes("ham", "spam"), n_features=3)
    >>> _ = model.learner.learn(rows)
    >>> model.learner.weights(), thin(model, 2).learner.weights()
    (array([ 1., -3.,  2.], dtype=float32), array([ 0., -3.,  2.], dtype=float32))

    """
    whole = model.learner.in_order() if isinstance(model.learner, CompactLearner) else model.learner
    narrow = replace(model, learner=narrow_learner(whole))
    kept, learner = most_important(narrow, require_count(n), _of_narrow(whole, importance)), served(narrow.learner)
    head = packing.describe(learner) | {"grade": "weights", "classes": list(model.classes)}
    arrays = _left(packing.pack(learner, "weights"), kept, learner.offset)
    by_vector = kept.reshape(len(kept), -1, narrow.learner.n_features)
    each = np.asarray(by_vector.any(axis=0))  # of all classes, a row for each vector
    small = packing.unpack(head, with_short_scales(arrays, head.get("preparation", {}), each))
    there = np.flatnonzero(each.any(axis=0))
    if isinstance(whole, CompactLearner):
        small, there = whole.around(small), whole.table.numbers[there - 1]
    return replace(model, learner=small, names=_names_of(model, there), arrays={})


def _of_narrow(learner: AnyLearner, importance: NDArray[Any] | None) -> NDArray[Any] | None:
    """An importance of all numbers as one of slots, where a learner has these."""
    if importance is None or not isinstance(learner, CompactLearner) or np.size(importance) != learner.n_weights:
        return importance
    each = np.reshape(importance, (-1, learner.n_features))[:, learner.table.numbers]
    return np.hstack([np.zeros((len(each), 1)), each])


def require_count(n: Any) -> int:
    """How many weights to keep, if it is a number of weights."""
    if not isinstance(n, numbers.Integral) or isinstance(n, bool) or n < 1:
        raise InvalidParameterError(f"thin: the number of weights to keep must be an integer ≥ 1, got {n!r}")
    return int(n)


def most_important(model: Model, n: int, importance: NDArray[Any] | None = None) -> NDArray[np.bool_]:
    """Which weights are kept, a row for each row of ``coef_``."""
    weights = np.atleast_2d(plain_learner(served(model.learner)).weights())
    shape = weights.shape
    found = np.asarray(importances.importance(model.learner) if importance is None else importance, np.float64)
    if found.size != shape[0] * shape[1] or not np.isfinite(found).all():
        raise InvalidInputError(
            f"thin: an importance is a finite number for each of {shape} weights, got {found.shape}"
        )
    there = np.flatnonzero(weights)
    order = there[np.argsort(-found.ravel()[there], kind="stable")]
    kept = np.zeros(shape[0] * shape[1], np.bool_)
    kept[order[:n]] = True
    return kept.reshape(shape)


def _left(arrays: Arrays, kept: NDArray[np.bool_], offset: int) -> Arrays:
    """What a file of weights has, without those that are not kept."""
    if "batch/w" in arrays:
        w = arrays["batch/w"].copy()
        w[offset:][~kept[0]] = 0
        return arrays | {"batch/w": w}
    for k, row in enumerate(kept):
        name = f"{k}/" if f"{k}/indices" in arrays else ""
        where = row[arrays[f"{name}indices"]]
        arrays = arrays | {f"{name}{each}": arrays[f"{name}{each}"][where] for each in ("indices", "weights")}
    return arrays


def _names_of(model: Model, kept: NDArray[np.int64]) -> Names | None:
    """Of the features that are kept; columns that an estimator checks by name keep all of theirs."""
    names = model.names
    if names is None or model.extra.get("estimator", {}).get("named"):
        return names
    there = np.isin(names.indices, kept)
    return Names(names.indices[there], [text for text, left in zip(names.texts, there, strict=True) if left])
