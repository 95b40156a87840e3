"""Batch estimators that learn from a stream instead of a matrix."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thinstream.batch_learners.base import BatchLearner
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
        for batch in stream.batches():
            yield me.classes_[(me._learner.scores(batch) > 0).astype(np.intp)]

    def _taught_by(self, stream: Stream, classes: Classes) -> BatchLearner:
        me: Any = self
        learner: BatchLearner = me._new_learner(classes, 0, grow=True)
        seen = 0
        for batch in stream.batches():
            seen += len(batch)
            learner.learn(batch, scores=False)
        if not seen:
            raise InvalidInputError("the stream has no example")
        learner.finish()
        learner.grow = False
        return learner
