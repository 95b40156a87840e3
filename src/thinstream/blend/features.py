"""Features whose weights are read of the models of a blend: all of them, or the few that some rows have."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.group import Group
from thinstream.learners import Learner
from thinstream.preparing import Preparation


class Weights(NamedTuple):
    """What is read of a model."""

    coordinates: NDArray[Any]  # the constant's first, where there is one
    offset: int

    def weights(self) -> NDArray[Any]:
        """Of the features."""
        return self.coordinates[self.offset :]

    @property
    def intercept(self) -> float:
        """Of the constant; 0 without one."""
        return float(self.coordinates[0]) if self.offset else 0.0


class AllFeatures(NamedTuple):
    """All of so many."""

    n_features: int

    def models(self, group: Group) -> Iterator[Learner]:
        """The models, each a copy."""
        return iter(group)

    def divisors(self, preparation: Preparation) -> NDArray[np.float64]:
        """The scales of the features."""
        return preparation.divisors(self.n_features)


class FewFeatures:
    """Those that occur in some rows, which are renumbered; the weights of each have the bits they have among all.

    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([5, 900, 5]), np.ones(3), 1000)
    >>> few = FewFeatures(rows, 0)
    >>> few.features, few.renumbered(rows).indices
    (array([  5, 900]), array([0, 1, 0], dtype=int32))
    """

    def __init__(self, rows: Batch, offset: int) -> None:
        self.features, places = np.unique(rows.indices[: rows.indptr[-1]], return_inverse=True)
        self._places, self.offset, self.n_features = places.astype(np.int32), offset, len(self.features)

    def models(self, group: Group) -> Iterator[Weights]:
        """What the models know of the features."""
        coordinates = np.concatenate([np.zeros(self.offset, np.int64), self.features.astype(np.int64) + self.offset])
        return (Weights(column, self.offset) for column in group.weights_at(coordinates).T)

    def divisors(self, preparation: Preparation) -> NDArray[np.float64]:
        """The scales of the features."""
        return preparation.at(self.features).divisors(self.n_features)

    def renumbered(self, rows: Batch) -> Batch:
        """The rows, or what a preparation made of them, with places in ``features`` for features; in the same order."""
        return replace(rows, indices=self._places, n_features=self.n_features)
