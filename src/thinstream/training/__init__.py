"""A learner going over a stream: scores, metrics, checkpoints, and going on after a stop."""

from thinstream.training.checkpoint import Checkpoints
from thinstream.training.run import (
    Interrupted,
    Line,
    NullObserver,
    Observer,
    Run,
    Step,
    learn_stream,
    require_stream,
    score_stream,
)

__all__ = [
    "Checkpoints",
    "Interrupted",
    "Line",
    "NullObserver",
    "Observer",
    "Run",
    "Step",
    "learn_stream",
    "require_stream",
    "score_stream",
]
