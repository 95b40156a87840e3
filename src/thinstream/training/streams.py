"""Teaching a model from a stream and asking one about a stream: what every face of a model does with streams."""

import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.models.model import Model
from thinstream.streams.stream import Stream
from thinstream.training.run import Run
from thinstream.training.stopping import Interrupted


def learn_stream(model: Model, stream: Stream, passes: int = 1) -> Model:
    """The model after ``passes`` over a stream, with the names it has told; its learner is changed in place.

    It grows as the stream gets wider. A stream whose features mean something else is refused.
    """
    learner = model.learner
    grow, learner.grow = learner.grow, True
    run = Run(stream, model, passes=passes)
    try:
        model = run.run()
    except Interrupted as stopped:
        raise KeyboardInterrupt if stopped.number == signal.SIGINT else SystemExit(128 + stopped.number) from None
    finally:
        learner.grow = grow
    if learner.t == 0:
        raise InvalidInputError("the stream has no example")
    return replace(model, names=run.names(), report=run.report())


def score_stream(model: Model, stream: Stream, named: str = "the model") -> Iterator[tuple[Batch, NDArray[Any]]]:
    """Batches of a stream with their scores. A stream whose features mean something else is refused at once.

    ``named`` is what messages call the model: its file, say.
    """
    model.require_features(stream.feature_space, "the data", named)
    return ((batch, model.learner.scores(batch)) for batch in stream.batches())
