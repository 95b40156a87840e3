"""Choosing groups of features by their scores (P1, Eq. 14), and the rows cut to what was chosen: FGM and SBCW."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import Arrays
from thinstream.algorithms.batch.base import BatchLearner
from thinstream.errors import ModelFileError


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


class GroupLearner(BatchLearner):
    """Common parts of learners that choose groups of features. Some features in a group can end with weight 0."""

    selects = True
    groups: list[NDArray[np.int64]]  # coordinates, in the order of choice

    def support(self) -> NDArray[np.bool_]:
        """The features of the groups."""
        mask = np.zeros(len(self.w), dtype=np.bool_)
        for J in self.groups:
            mask[J] = True
        return mask[self.offset :]

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, groups included."""
        features = np.concatenate([np.empty(0, np.int64), *self.groups])
        own = {"groups.sizes": np.array([len(J) for J in self.groups], dtype=np.int64), "groups.features": features}
        return super().arrays(weights_only=weights_only) | own

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and groups."""
        super().restore_weights(arrays)
        sizes, features = arrays["groups.sizes"], arrays["groups.features"]
        vectors = all(array.ndim == 1 and array.dtype == np.int64 for array in (sizes, features))
        inside = vectors and (len(features) == 0 or (features.min() >= 0 and features.max() < len(self.w)))
        if not inside or sizes.min(initial=0) < 0 or sizes.sum() != len(features):
            raise ModelFileError("its groups of features contradict each other")
        self.groups = np.split(features, np.cumsum(sizes)[:-1]) if len(sizes) else []
