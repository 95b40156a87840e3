"""Estimators that learn from a stream instead of a matrix."""

from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.learners import Classes, Learner
from thinstream.models import Names
from thinstream.streams.stream import Stream


def learn_from(learner: Learner, stream: Stream, passes: int) -> None:
    """Takes all batches of the stream, ``passes`` times, growing as it gets wider."""
    grow, learner.grow = learner.grow, True
    try:
        for _ in range(passes):
            for batch in stream.batches():
                if batch.y is None:
                    raise InvalidInputError(f"the rows to learn from need labels, row {batch.first_row} has none")
                learner.learn(batch, scores=False)
    finally:
        learner.grow = grow
    if learner.t == 0:
        raise InvalidInputError("the stream has no example")


def meaning_of(stream: Stream) -> tuple[dict[str, Any], Names | None]:
    """What the stream's feature numbers mean, and the names it has told."""
    if stream.names is None:
        return stream.space, None
    found = dict(stream.names.items())
    return stream.space, Names.of(list(found.values()), list(found))


def two_classes(classes: Any) -> tuple[Classes, Any]:
    """The labels a stream's −1 and +1 stand for, in this order, and ``classes_``."""
    negative, positive = classes
    return Classes(negative, positive), np.array([negative, positive])
