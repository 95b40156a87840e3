"""Scores that are log-odds, as probabilities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def probabilities(scores: NDArray[np.float64]) -> NDArray[Any]:
    """Rows × classes, from the scores of the positive class or of each class.

    Those of each class are one-vs-rest probabilities divided by their sum, computed as logarithms: however low they all
    are, a row adds up to 1.

    >>> probabilities(np.array([0.0]))
    array([[0.5, 0.5]])
    >>> probabilities(np.array([[-1000.0, -1000.0, -2000.0]]))
    array([[0.5, 0.5, 0. ]])
    """
    logarithms = -np.logaddexp(0.0, -scores)
    if scores.ndim == 1:
        positive = np.exp(logarithms)
        return np.column_stack([1.0 - positive, positive])
    with np.errstate(under="ignore"):
        found = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(found / found.sum(axis=1, keepdims=True))
