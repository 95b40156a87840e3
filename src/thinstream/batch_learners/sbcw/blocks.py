"""A covariance matrix of blocks: groups of features that vary together, all others with variance 1 on their own."""

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.rows import Arrays
from thinstream.errors import ModelFileError


class Blocks:
    """Disjoint groups of features and the covariance matrix of each.

    >>> sigma = Blocks()
    >>> sigma.put(np.array([1, 4]), np.array([[0.5, 0.1], [0.1, 0.25]]))
    >>> sigma.put(np.array([4]), np.array([[0.125]]))               # takes feature 4 out of its block
    >>> sigma.diagonal(6)
    array([1.   , 0.5  , 1.   , 1.   , 0.125, 1.   ])
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}  # by a number of its own
        self._home: dict[int, int] = {}  # feature → its block
        self._next = 0

    def part(self, J: NDArray[np.int64]) -> NDArray[np.float64]:
        """Σ̂_JJ."""
        found = np.eye(len(J))
        homes = np.array([self._home.get(int(j), -1) for j in J])
        for home in set(homes.tolist()) - {-1}:
            here, (features, matrix) = np.flatnonzero(homes == home), self._blocks[home]
            places = np.searchsorted(features, J[here])
            found[np.ix_(here, here)] = matrix[np.ix_(places, places)]
        return found

    def precision(self, J: NDArray[np.int64]) -> NDArray[np.float64]:
        """(Σ̂_JJ)⁻¹."""
        if not any(int(j) in self._home for j in J):
            return np.eye(len(J))
        inverse = np.linalg.inv(self.part(J))
        return np.asarray((inverse + inverse.T) / 2.0)

    def put(self, J: NDArray[np.int64], matrix: NDArray[np.float64]) -> None:
        """Rows and columns J (sorted) become this block; covariances with all other features become 0."""
        for home in {self._home[int(j)] for j in J if int(j) in self._home}:
            features, old = self._blocks.pop(home)
            left = np.flatnonzero(~np.isin(features, J))
            if len(left):
                self._blocks[home] = features[left], old[np.ix_(left, left)].copy()
        self._blocks[self._next] = J.copy(), matrix.copy()
        self._home.update((int(j), self._next) for j in J)
        self._next += 1

    def diagonal(self, d: int) -> NDArray[np.float64]:
        """Variances of d features."""
        found = np.ones(d)
        for features, matrix in self._blocks.values():
            found[features] = np.diagonal(matrix)
        return found

    def arrays(self) -> Arrays:
        """What is saved: sizes, features and entries of the blocks, one after the other."""
        parts = list(self._blocks.values())
        return {
            "blocks.sizes": np.array([len(features) for features, _ in parts], dtype=np.int64),
            "blocks.features": np.concatenate([np.empty(0, np.int64), *(features for features, _ in parts)]),
            "blocks.entries": np.concatenate([np.empty(0), *(matrix.ravel() for _, matrix in parts)]),
        }

    @classmethod
    def of(cls, arrays: Arrays, d: int) -> "Blocks":
        """What was saved."""
        sizes, features, entries = (arrays[f"blocks.{name}"] for name in ("sizes", "features", "entries"))
        fits = sizes.sum() == len(features) and np.square(sizes).sum() == len(entries) and np.all(sizes > 0)
        inside = len(features) == 0 or (features.min() >= 0 and features.max() < d)
        if not (fits and inside and len(np.unique(features)) == len(features)):
            raise ModelFileError("the blocks of its covariance matrix contradict each other")
        found, a, b = cls(), 0, 0
        for n in sizes.tolist():
            found.put(features[a : a + n], entries[b : b + n * n].reshape(n, n))
            a, b = a + n, b + n * n
        return found
