"""Choosing groups of features by their scores (P1, Eq. 14), and the rows cut to what was chosen."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


def best(scores: NDArray[np.float64], r: int, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The r features of largest |score| that are not taken, sorted; ties go to the lower number, 0 is never chosen.

    >>> best(np.array([1.0, -3.0, 3.0, 0.0, 2.0]), 2, np.array([False, True, False, False, False]))
    array([2, 4])
    """
    size = np.where(taken, 0.0, np.abs(scores))
    free = np.flatnonzero(size)
    if len(free) > r:
        limit = np.partition(size[free], len(free) - r)[len(free) - r]
        above = free[size[free] > limit]
        free = np.concatenate([above, free[size[free] == limit][: r - len(above)]])
    return np.sort(free)


class Chosen(NamedTuple):
    """Rows (CSR) cut to the chosen features, which are numbered in the order they were chosen."""

    indptr: NDArray[np.int64]
    slots: NDArray[np.int64]
    values: NDArray[np.float64]


def cut(X: Any, slot: NDArray[np.int64]) -> Chosen:
    """The rows of a CSR matrix cut to the features j with slot[j] ≥ 0, which is their new number."""
    where = slot[X.indices]
    kept = where >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
    return Chosen(indptr.astype(np.int64), where[kept], X.data[kept].astype(np.float64))
