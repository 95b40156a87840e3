"""What every export and every picture of a model starts from."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError


class Trained(Protocol):
    """What a portrait is taken of; `Learner` is one."""

    @property
    def algorithm(self) -> Any:
        """What was declared of it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Public ones."""
        ...

    @property
    def n_features(self) -> int:
        """Its width."""
        ...

    @property
    def intercept(self) -> float:
        """Weight of the constant feature."""
        ...

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""
        ...


class Portrait(NamedTuple):
    """A trained model as it stands: its weights, without what it needs to go on learning.

    >>> from thinstream.learners import Classes, Learner
    >>> portrait = Portrait.of(Learner("fsol", n_features=9), Classes("ham", "spam"))
    >>> portrait.algorithm, portrait.positive, portrait.n_features, len(portrait.weights)
    ('FSOL', 'spam', 9, 0)
    """

    algorithm: str
    parameters: dict[str, Any]
    negative: Any
    positive: Any
    n_features: int
    indices: NDArray[np.int64]  # sorted; columns of non-zero weight, the first is 0
    weights: NDArray[Any]  # float32 or float64
    intercept: float
    names: dict[int, str]  # of columns, where known
    feature_space: dict[str, Any] = {}  # noqa: RUF012 (what feature numbers mean; {}: they are column numbers)

    @classmethod
    def of(
        cls,
        learner: Trained,
        classes: tuple[Any, Any],
        names: Mapping[int, str] = {},
        feature_space: Mapping[str, Any] = {},
    ) -> Self:
        """The portrait of a learner with these labels (negative, positive); names of zero weights are left out."""
        indices, weights = learner.sparse_weights()
        kept = {j: str(names[j]) for j in indices.tolist() if j in names} if names else {}
        return cls(
            algorithm=learner.algorithm.name,
            parameters={name: plain(value) for name, value in learner.parameters.items()},
            negative=plain(classes[0]),
            positive=plain(classes[1]),
            n_features=learner.n_features,
            indices=indices,
            weights=weights,
            intercept=learner.intercept,
            names=kept,
            feature_space=dict(feature_space),
        )

    def check(self) -> Self:
        """Itself; raises where an export could not keep its promises."""
        j, w = self.indices, self.weights
        if w.dtype.name not in ("float32", "float64"):
            raise InvalidInputError(f"portrait: weights must be float32 or float64, got {w.dtype.name}")
        if j.shape != w.shape or j.ndim != 1:
            raise InvalidInputError(f"portrait: one index per weight is needed, got {j.shape} and {w.shape}")
        if len(j) and not (j[0] >= 0 and j[-1] < self.n_features and np.all(j[1:] > j[:-1])):
            raise InvalidInputError(f"portrait: indices must be sorted, unique and from 0 to {self.n_features - 1}")
        if not (finite := np.isfinite(w)).all():
            k = int(np.flatnonzero(~finite)[0])
            raise InvalidInputError(f"portrait: weights must be finite, got {float(w[k])} at feature {int(j[k])}")
        if not np.isfinite(self.intercept):
            raise InvalidInputError(f"portrait: the intercept must be finite, got {self.intercept}")
        return self

    def largest_first(self) -> NDArray[np.int64]:
        """Places in ``weights``, by size, ties in the order of the columns."""
        return np.argsort(-np.abs(self.weights), kind="stable").astype(np.int64, copy=False)


def plain(value: Any) -> Any:
    """A number, text, truth value or None of Python itself; anything else as its text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or type(value) in (bool, int, float, str) else str(value)
