"""Batch estimators that learn from a stream instead of a matrix."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thinstream.batch import Batch
from thinstream.batch_learners.base import BatchLearner
from thinstream.batch_learners.rows import Examples, of_width, stacked
from thinstream.errors import InvalidInputError
from thinstream.estimators.streaming import classes_for
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes
from thinstream.streams.stream import Stream


class BatchStreaming:
    """What batch estimators do with streams (see `thinstream.open_stream`)."""

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Learns from scratch from a stream.

        Batch by batch if there is a ``batch_size``; GraDes in several passes, so that it takes files, no pipes; else
        with all rows in memory. ``classes`` are the labels its negative and positive rows stand for; by default those
        the stream was opened with, or -1 and 1.
        """
        me: Any = self
        with as_before_on_error(me):
            me._check_common_parameters()
            every, found = classes_for(stream, classes)
            known = every.require_two()
            learner = self._taught_by(stream, known)
            me._learner, me._classes, me.classes_ = learner, known, found
            me.n_features_in_ = learner.n_features
            me.__dict__.pop("feature_names_in_", None)
        return self

    def predict_stream(self, stream: Stream) -> Iterator[NDArray[Any]]:
        """Predictions for a stream, an array per batch; unknown columns count nothing."""
        me: Any = self
        check_is_fitted(me)
        width = me._learner.n_features
        for batch in stream.batches():
            X = of_width(examples_of(batch.narrowed(width), labelled=False).X, width)
            yield me.classes_[(me._learner.scores(X) > 0).astype(np.intp)]

    def _taught_by(self, stream: Stream, classes: Classes) -> BatchLearner:
        me: Any = self
        learner: BatchLearner = me._new_learner(classes, 0)
        if learner.parameters.get("batch_size") is not None:
            _learn_in_batches(learner, stream)
            return learner
        rows = _all(stream)
        learner = me._new_learner(classes, rows.n_features)
        learner.learn(rows, last=True)
        return learner


def examples_of(batch: Batch, *, labelled: bool = True) -> Examples:
    """The rows of a stream's batch."""
    if labelled and batch.y is None:
        raise InvalidInputError(f"the rows to learn from need labels, row {batch.first_row} has none")
    end, n = int(batch.indptr[-1]), len(batch)
    X = sp.csr_matrix((batch.values[:end], batch.indices[:end], batch.indptr), shape=(n, batch.n_features))
    y = np.empty(n, np.int8) if batch.y is None else batch.y
    return Examples(X, y, np.ones(n) if batch.weights is None else batch.weights)


def _all(stream: Stream) -> Examples:
    pieces = [examples_of(batch) for batch in stream.batches()]
    if not sum(map(len, pieces)):
        raise InvalidInputError("the stream has no example")
    return stacked(pieces)


def _learn_in_batches(learner: BatchLearner, stream: Stream) -> None:
    learner.grow, width, seen = True, 0, 0
    for batch in stream.batches():
        rows = examples_of(batch)
        width, seen = max(width, rows.n_features), seen + len(rows)
        learner.learn(rows)
    if not seen:
        raise InvalidInputError("the stream has no example")
    nothing = Examples(sp.csr_matrix((0, width), dtype=learner.dtype), np.empty(0, np.int8), np.empty(0))
    learner.learn(nothing, last=True)
    learner.grow = False
    learner.widen(width)
