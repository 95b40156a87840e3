"""The learner that an algorithm and its parameters ask for."""

from collections.abc import Mapping
from typing import Any

from thinstream.learners.full import FullLearner
from thinstream.learners.learner import Learner
from thinstream.learners.registry import find


def make_learner(
    algorithm: str, *, n_features: int, parameters: Mapping[str, Any] | None = None, **more: Any
) -> Learner:
    """A learner of any algorithm; ``more`` is what `Learner` takes, and further parameters of the algorithm.

    >>> type(make_learner("arow", n_features=2)).__name__
    'Learner'
    >>> type(make_learner("arow", n_features=2, covariance="full")).__name__
    'FullLearner'
    >>> type(make_learner("sbcw", n_features=9, parameters={"n_features": 3})).__name__
    'SBCWLearner'
    """
    declared, given = find(algorithm), dict(parameters or {})
    if declared.learner is not None:
        found: Learner = declared.learner(width=n_features, **more, **given)
        return found
    kind = FullLearner if {**more, **given}.get("covariance") == "full" else Learner
    return kind(algorithm, n_features=n_features, **more, **given)
