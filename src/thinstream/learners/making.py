"""The learner that an algorithm and its parameters ask for."""

from typing import Any

from thinstream.learners.full import FullLearner
from thinstream.learners.learner import Learner
from thinstream.learners.registry import find


def make_learner(algorithm: str, **more: Any) -> Learner:
    """A learner of any algorithm; ``more`` is what `Learner` takes, and the parameters of the algorithm.

    >>> type(make_learner("arow", n_features=2)).__name__
    'Learner'
    >>> type(make_learner("arow", n_features=2, covariance="full")).__name__
    'FullLearner'
    >>> type(make_learner("bcw", n_features=2, C=0.5)).__name__
    'BCWLearner'
    """
    declared = find(algorithm)
    if declared.learner is not None:
        found: Learner = declared.learner(**more)
        return found
    return (FullLearner if more.get("covariance") == "full" else Learner)(algorithm, **more)
