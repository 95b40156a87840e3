"""The learner that parameters ask for."""

from typing import Any

from thinstream.learners.full import FullLearner
from thinstream.learners.learner import Learner


def make_learner(algorithm: str, **more: Any) -> Learner:
    """A `Learner`, or one with a full matrix where ``covariance="full"``.

    >>> type(make_learner("arow", n_features=2, covariance="full")).__name__
    'FullLearner'
    """
    return (FullLearner if more.get("covariance") == "full" else Learner)(algorithm, **more)
