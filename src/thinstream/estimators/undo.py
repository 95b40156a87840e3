"""Calls that fail leave an estimator as it was."""

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.base import BaseEstimator


@contextmanager
def as_before_on_error(estimator: BaseEstimator) -> Iterator[None]:
    """Takes back what was set on the estimator (its width, its feature names) if a call fails."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
