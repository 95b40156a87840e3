"""What a blend says: scores, weights, its models and their shares. Nothing changes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.features import AllFeatures, FewFeatures
from thinstream.blend.group import Group
from thinstream.blend.head import Head
from thinstream.blend.linear import Kind, Part, Station, frozen, preparation_of_kinds, vectors_of
from thinstream.blend.member import Member
from thinstream.blend.record import Record
from thinstream.learners import Learner
from thinstream.learners.learner import SingleModel, require_range
from thinstream.preparing import prepared, side_by_side

#: Weights that could be read in the time that reading a few takes in any case.
A_CALL = 1 << 12


class Readable(SingleModel):
    """A blend as it is read."""

    parameters: dict[str, Any]
    dtype: np.dtype[Any]
    offset: int
    stations: list[Station]
    parts: list[Part]
    record: Record
    head: Head
    version: int  # another one after every change
    _linear: tuple[int, Any, Any]  # of a version: weights and intercept of each part, and the model they are
    _read: tuple[int, int]  # of a version: weights read of few features at a time

    def scores(self, batch: Batch) -> NDArray[Any]:
        """The blend's, v·x + b. Nothing changes."""
        found: NDArray[Any] = self._few_scores(batch.check()) if self._is_few(batch) else self.linear().scores(batch)
        return found

    def _is_few(self, batch: Batch) -> bool:
        """Whether reading weights of the rows' features only has cost less, since rows were learned, than all would."""
        if self._linear[0] == self.version or self.most is not None:
            return False
        before = self._read[1] if self._read[0] == self.version else 0
        self._read = (self.version, before + batch.nnz + A_CALL)
        return self._read[1] <= self.n_features

    def _few_scores(self, batch: Batch) -> NDArray[Any]:
        """With the bits that all weights would give."""
        features = FewFeatures(batch.narrowed(self.n_features), self.offset)
        vectors = vectors_of(self.parts, self.head.coefficients(), features, self.dtype)
        few = []
        for part in self.parts:
            ready = part.preparation.apply(batch, self.dtype) if part.preparation else batch
            require_range(ready, self.dtype)  # as long as columns have their numbers
            few.append(features.renumbered(ready.narrowed(self.n_features)))
        rows = few[0] if len(few) == 1 else side_by_side(few, features.n_features, self.dtype)
        return frozen(self, vectors).scores(rows)

    @property
    def members(self) -> list[Member]:
        """What the models are."""
        return [self.record.members[k] for k in self.record.places]

    @property
    def groups(self) -> Iterator[Group]:
        """The models of each algorithm on each kind of rows."""
        return (group for station in self.stations for group in station.groups)

    @property
    def lanes(self) -> Iterator[Learner]:
        """The models, each a copy."""
        return (model for station in self.stations for model in station.models)

    def table(self) -> list[dict[str, Any]]:
        """A line for each model: learner, parameters, progressive error, share, and why it is out where it is."""
        return self.record.table(self.head.share(), self.head.gone)

    def history(self) -> Record:
        """A record of its own, in which today's shares are noted, too."""
        return self.record.until_now(self.t, self.n_mistakes, self.head.share())

    def linear(self) -> Any:
        """What it predicts with: a model of weights, a vector for each kind of rows one after another."""
        return self._cached_linear()[2]

    def _cached_linear(self) -> tuple[int, Any, Any]:
        """Return the version, the vectors and the linear model made of them, computed if the blend has changed.

        The version is read first: if another thread learns meanwhile, what was computed here is computed again.
        """
        cached, version = self._linear, self.version
        if cached[0] != version:
            every, kinds = AllFeatures(self.n_features), preparation_of_kinds([self.parts], self.n_features)
            vectors = vectors_of(self.parts, self.head.coefficients(), every, self.dtype, self.most)
            cached = self._linear = version, vectors, prepared(frozen(self, vectors), kinds)
        return cached

    def vector_of(self, kind: Kind) -> tuple[NDArray[Any], float]:
        """Weights and intercept of the part for rows of a kind, zeros where it has none."""
        vectors = self._cached_linear()[1]
        by_kind: dict[Kind, tuple[NDArray[Any], float]] = {
            part.kind: vector for part, vector in zip(self.parts, vectors, strict=True)
        }
        return by_kind.get(kind, (np.zeros(self.n_features, self.dtype), 0.0))

    def squares_of(self, kind: Kind) -> NDArray[np.float64]:
        """Σx_j² of rows of a kind."""
        found = {part.kind: part.squares[: self.n_features] for part in self.parts}
        return found.get(kind, np.zeros(self.n_features))

    @property
    def most(self) -> int | None:
        """Weights the linear model may have; None: all."""
        counts = [self.parameters["max_nnz"]]
        if self.parameters["max_density"] is not None:
            counts.append(int(self.parameters["max_density"] * self.n_weights))
        return min((count for count in counts if count is not None), default=None)

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not: one of each feature for each kind of rows."""
        return self.n_features * len(self.parts)

    def weights(self) -> NDArray[Any]:
        """Of the blend, v, dense; of several kinds of rows one after another."""
        found: NDArray[Any] = self.linear().weights()
        return found

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Where `weights` are not zero, and those."""
        found: tuple[NDArray[np.int64], NDArray[Any]] = self.linear().sparse_weights()
        return found

    def variance(self) -> NDArray[Any]:
        """Raises: those of its models are of other weights."""
        raise AttributeError("Auto keeps no variances")

    @property
    def intercept(self) -> float:
        """Of the blend, b."""
        return float(self.linear().intercept)

    @property
    def nnz(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return int(self.linear().nnz)

    @property
    def n_met(self) -> int:
        """Weights that examples have changed."""
        return sum(int(np.count_nonzero(part.squares)) for part in self.parts)

    @property
    def cumulative_loss(self) -> float:
        """Sum of the logarithmic loss of rows before they were learned, costs and weights included."""
        return float(self.head.loss[0])
