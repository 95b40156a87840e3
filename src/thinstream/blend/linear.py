"""The one linear model that a blend is, v = Σ (w_k/m_k)·v_k, and its weights by importance.

Models that learn rows as they are, or of scaled features, add up to one vector in the units of the caller. On rows of
unit length a score is no linear function of the row: such models add up to a vector of their own, for prepared rows.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.features import AllFeatures, FewFeatures
from thinstream.blend.group import Group
from thinstream.errors import NumericalError
from thinstream.jit import compiled
from thinstream.learners import Frozen, Learner
from thinstream.learners.learner import EVERY_WEIGHT_1
from thinstream.preparing import Preparation, Several

#: How rows are scaled and normalised before they are multiplied with a vector.
Kind = tuple[str | None, str | None]


class Station:
    """Models whose rows are prepared in the same way, in groups of one algorithm each."""

    def __init__(self, preparation: Preparation, groups: Sequence[Group]) -> None:
        self.preparation, self.groups = preparation, list(groups)

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)

    @property
    def models(self) -> Iterator[Learner]:
        """Each a copy."""
        return (model for group in self.groups for model in group)


class Part:
    """Stations that add up to one vector, and Σx_j² of the rows it is multiplied with."""

    def __init__(self, stations: Sequence[Station]) -> None:
        self.stations, self.squares = list(stations), np.zeros(0)

    @property
    def preparation(self) -> Preparation:
        """What is done to rows before they are multiplied with the vector."""
        first = self.stations[0].preparation
        return first if first.normalize else Preparation()

    @property
    def kind(self) -> Kind:
        """Of its rows."""
        return self.preparation.scale, self.preparation.normalize

    def widen(self, n_features: int) -> None:
        """Room for so many features."""
        if n_features > len(self.squares):
            room = max(n_features, len(self.squares) + len(self.squares) // 2)
            self.squares = np.concatenate([self.squares, np.zeros(room - len(self.squares))])

    def needed(self, n_features: int) -> int:
        """Bytes of it this wide: its models, scales of their features, Σx_j², and the vector itself."""
        scales = [station.preparation.scales for station in self.stations]
        numbers = 2 + sum(each.width for each in scales if each is not None)
        groups = [group for station in self.stations for group in station.groups]
        return sum(group.needed(n_features) for group in groups) + 8 * numbers * n_features

    def add(self, rows: Batch) -> None:
        """Rows that were learned, prepared for this part."""
        weights = EVERY_WEIGHT_1 if rows.weights is None else rows.weights
        _add_squares(rows.indptr.astype(np.int64, copy=False), rows.indices, rows.values, weights, self.squares)

    def vector(
        self, coefficients: Iterator[float], features: AllFeatures | FewFeatures
    ) -> tuple[NDArray[np.float64], float]:
        """The sum of its models, v (of these features) and b; takes the coefficients it needs."""
        total, intercept = np.zeros(features.n_features), 0.0
        for station in self.stations:
            m = None if self.preparation or not station.preparation else features.divisors(station.preparation)
            for model in (model for group in station.groups for model in features.models(group)):
                coefficient = next(coefficients)
                if coefficient != 0.0:
                    weights = model.weights()[: features.n_features].astype(np.float64)
                    total[: len(weights)] += coefficient * (weights if m is None else _over(weights, m[: len(weights)]))
                    intercept += coefficient * model.intercept
        return total, intercept


def vectors_of(
    parts: Sequence[Part],
    coefficients: NDArray[np.float64],
    features: AllFeatures | FewFeatures,
    dtype: np.dtype[Any],
    most: int | None = None,
) -> list[tuple[NDArray[Any], float]]:
    """Weights and intercept of each part, of all together the ``most`` important; coefficients are in their order."""
    each = iter(coefficients.tolist())
    found = [part.vector(each, features) for part in parts]
    with np.errstate(over="ignore"):
        vectors = [vector.astype(dtype) for vector, _ in found]
    if not all(np.isfinite(vector).all() for vector in vectors):
        raise NumericalError(
            f"Auto: in the units of its feature a weight is not finite in {dtype.name}; dtype='float64' holds it"
        )
    if most is not None:
        most_important(vectors, [part.squares for part in parts], most)
    return [(vector, intercept) for vector, (_, intercept) in zip(vectors, found, strict=True)]


def frozen(blend: Any, vectors: Sequence[tuple[NDArray[Any], float]]) -> Frozen:
    """A model of these weights and intercepts, one vector after another, all else as of the blend."""
    weights = np.concatenate([vector for vector, _ in vectors])
    where = np.flatnonzero(weights)
    return Frozen(
        blend.algorithm.name,
        blend.parameters,
        n_features=len(weights),
        where=where,
        values=weights[where],
        intercept=float(sum(intercept for _, intercept in vectors)),
        counts=blend.counts,
        loss=blend.cumulative_loss,
        costs=blend.costs,
        dtype=blend.dtype.name,
        grow=blend.grow,
        fit_intercept=bool(blend.offset),
    )


def parts_of(stations: Sequence[Station]) -> list[Part]:
    """The fewest vectors that these stations, those without normalisation first, add up to."""
    plain = [station for station in stations if station.preparation.normalize is None]
    unit = [Part([station]) for station in stations if station.preparation.normalize is not None]
    return [*([Part(plain)] if plain else []), *unit]


def preparation_of_kinds(blends: Sequence[Sequence[Part]], n_features: int) -> Preparation:
    """How rows are prepared for the vectors of all these blends; several kinds stand side by side."""
    each: dict[Kind, Preparation] = {}
    for part in sorted(chain(*blends), key=lambda part: part.kind[1] is not None):
        each.setdefault(part.kind, part.preparation)
    return next(iter(each.values())) if len(each) == 1 else Several(list(each.values()), n_features)


def most_important(vectors: Sequence[NDArray[Any]], squares: Sequence[NDArray[np.float64]], most: int) -> None:
    """Leaves so many weights of all vectors, those of largest |v_j|·q_j^½, q_j = √Σx_j²; others become 0."""
    sizes = [np.abs(v) * q[: len(v)] ** 0.25 for v, q in zip(vectors, squares, strict=True)]
    importance = np.concatenate(sizes)
    if np.count_nonzero(importance) <= most:
        return
    kept = np.zeros(len(importance), np.bool_)
    kept[np.argsort(-importance, kind="stable")[:most]] = True
    first = 0
    for v in vectors:
        v[~kept[first : first + len(v)]] = 0.0
        first += len(v)


def _over(weights: NDArray[np.float64], m: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.divide(weights, m, out=np.zeros_like(weights), where=m > 0.0)


@compiled()
def _add_squares(indptr: Any, indices: Any, values: Any, weights: Any, squares: Any) -> None:
    """Rows of weight 0 count nothing."""
    for i in range(len(indptr) - 1):
        if weights.size == 0 or weights[i] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                x = np.float64(values[k])
                squares[np.uint64(indices[k])] += x * x
