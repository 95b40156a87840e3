"""Estimators that learn from a stream instead of a matrix."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.estimators.undo import as_before_on_error
from thinstream.learners import Classes
from thinstream.models import Names
from thinstream.one_vs_rest import AnyLearner
from thinstream.streams.stream import Stream


def learn_from(learner: AnyLearner, stream: Stream, passes: int) -> None:
    """Takes all batches of the stream, ``passes`` times, growing as it gets wider."""
    grow, learner.grow = learner.grow, True
    try:
        for _ in range(passes):
            for batch in stream.batches():
                batch.require_labels()
                learner.learn(batch, scores=False)
    finally:
        learner.grow = grow
    if learner.t == 0:
        raise InvalidInputError("the stream has no example")


def meaning_of(stream: Stream) -> tuple[dict[str, Any], Names | None]:
    """What the stream's feature numbers mean, and the names it has told."""
    return stream.feature_space, Names.from_stream(stream)


def classes_for(stream: Stream, classes: Any) -> tuple[Classes, Any]:
    """The labels a stream's coded ones stand for, in this order, and ``classes_``: given, told by the stream, or ∓1."""
    told = stream.classes or (-1, 1)
    labels = told if classes is None else tuple(classes)
    if len(labels) != len(told):
        raise InvalidInputError(
            f"classes: the stream was opened with {len(told)} classes, {told!r}, got {labels!r}; "
            "tell it of all: open_stream(…, classes=…)"
        )
    return Classes(*labels), np.array(labels)


def _require_same_classes(classes: Classes, stream: Stream) -> None:
    """Numbers of more than two classes must mean the same."""
    told = stream.classes or (-1, 1)
    if max(len(told), len(classes)) > 2 and tuple(told) != tuple(classes):
        raise InvalidInputError(f"the model has the classes {tuple(classes)!r}, the stream {tuple(told)!r}")


class Streaming:
    """What estimators do with streams (see `thinstream.open_stream`)."""

    def fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Learns from scratch from a stream, ``n_passes`` times, in bounded memory.

        The model grows as the stream gets wider. ``classes`` are the labels its negative and positive rows stand for,
        or all classes it was opened with; by default those, or -1 and 1.
        """
        me: Any = self
        if me.shuffle:
            raise InvalidParameterError(f"{me._algorithm}: a stream is taken in its order, shuffle must be False")
        with as_before_on_error(me):
            me._check_common_parameters()
            return self._begin(stream, classes, me.n_passes)

    def partial_fit_stream(self, stream: Stream, classes: Any = None) -> Self:
        """Goes on learning from a stream, one pass; begins if nothing was learned yet."""
        me: Any = self
        with as_before_on_error(me):
            if not me.__sklearn_is_fitted__():
                me._check_common_parameters()
                return self._begin(stream, classes, 1)
            me._check_unchanged_parameters()
            _require_same_classes(me._classes, stream)
            learn_from(me._learner, stream, 1)
            me.n_features_in_ = me._learner.n_features
        return self

    def predict_stream(self, stream: Stream) -> Iterator[NDArray[Any]]:
        """Predictions for a stream, an array per batch."""
        me: Any = self
        check_is_fitted(me)
        for batch in stream.batches():
            yield me.classes_[me._classes.chosen(me._learner.scores(batch))]

    def _begin(self, stream: Stream, classes: Any, passes: int) -> Self:
        me: Any = self
        known, found = classes_for(stream, classes)
        learner = me._new_learner(known, 0)
        learn_from(learner, stream, passes)
        me._learner, me._classes, me.classes_ = learner, known, found
        me.n_features_in_, me._meaning = learner.n_features, meaning_of(stream)
        me.__dict__.pop("feature_names_in_", None)
        return self
