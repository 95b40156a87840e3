"""A trained model as what it predicts with: what every export and every picture starts from."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import served
from thinstream.errors import InvalidInputError
from thinstream.models.model import NORMALIZED, Model
from thinstream.preparing import Preparation, preparation_of


class Scales(NamedTuple):
    """Of the features that were learned; others are no part of a row's length."""

    indices: NDArray[np.int64]  # columns, sorted
    values: NDArray[np.float64]


class LinearModel(NamedTuple):
    """Weights of a model, without what it needs to go on learning.

    There is a row of weights for two classes, whose score speaks for the second, and one for each of more. The row of
    highest score wins, the first of several. A score is weights·x + intercept; of a model that normalises, weights·x
    over the length of x, plus the intercept, where x is divided by ``scales`` first if there are any.

    Examples
    --------
    >>> from thinstream.learners import Classes
    >>> linear = LinearModel.of(Model.fresh("fsol", Classes("ham", "spam"), n_features=9))
    >>> linear.algorithm, linear.classes, linear.n_features, len(linear.weights), linear.intercepts
    ('FSOL', ('ham', 'spam'), 9, 0, array([0.], dtype=float32))

    """

    algorithm: str
    parameters: dict[str, Any]
    classes: tuple[Any, ...]  # labels
    n_features: int
    indices: NDArray[np.int64]  # columns of non-zero weights, the first is 0; row after row, sorted in each
    rows: NDArray[np.int64]  # the rows of these weights
    weights: NDArray[Any]  # float32 or float64
    intercepts: NDArray[Any]  # of each row
    names: dict[int, str]  # of columns, where known
    feature_space: dict[str, Any] = {}  # noqa: RUF012 (what feature numbers mean; {}: they are column numbers)
    threshold: float = 0.0  # of two classes: a score above it is positive
    normalize: str | None = None  # "l2": rows are divided by their length
    scales: Scales | None = None  # what values are divided by in that length; None: by nothing

    @classmethod
    def of(cls, model: Model) -> Self:
        """That of a model; names of features without a weight are left out."""
        learner = served(model.learner)
        models, preparation = list(learner.models), preparation_of(learner)
        indices, weights = zip(*(one.sparse_weights() for one in models), strict=True)
        columns = np.concatenate(indices)
        names = {} if model.names is None else model.names.as_dict()
        return cls(
            algorithm=learner.algorithm.name,
            parameters={name: json_value(value) for name, value in learner.parameters.items()},
            classes=tuple(json_value(label) for label in model.classes),
            n_features=learner.n_features,
            indices=columns,
            rows=np.repeat(np.arange(len(models)), [len(row) for row in indices]),
            weights=np.concatenate(weights),
            intercepts=np.array([one.intercept for one in models], dtype=weights[0].dtype),
            names={j: str(names[j]) for j in np.unique(columns).tolist() if j in names} if names else {},
            feature_space={name: kept for name, kept in model.feature_space.items() if name != NORMALIZED},
            threshold=model.threshold,
            normalize=preparation.normalize or model.feature_space.get(NORMALIZED),
            scales=_scales(preparation, learner.n_features) if preparation.normalize else None,
        )

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes that one row of weights tells apart."""
        return len(self.intercepts) == 1 < len(self.classes)

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not."""
        return self.n_features * len(self.intercepts)

    def check(self) -> Self:
        """Itself; raises where an export could not keep its promises."""
        j, w = self.indices, self.weights
        if w.dtype.name not in ("float32", "float64"):
            raise InvalidInputError(f"linear model: weights must be float32 or float64, got {w.dtype.name}")
        if j.shape != w.shape or j.shape != self.rows.shape or j.ndim != 1:
            raise InvalidInputError(f"linear model: one index per weight is needed, got {j.shape} and {w.shape}")
        same_row, next_row = self.rows[1:] == self.rows[:-1], self.rows[1:] > self.rows[:-1]
        ordered = np.all(next_row | (same_row & (j[1:] > j[:-1])))
        if len(j) and not (ordered and j.min() >= 0 and j.max() < self.n_features):
            raise InvalidInputError(f"linear model: indices must be sorted, unique and from 0 to {self.n_features - 1}")
        if not (finite := np.isfinite(w)).all():
            k = int(np.flatnonzero(~finite)[0])
            raise InvalidInputError(f"linear model: weights must be finite, got {float(w[k])} at feature {int(j[k])}")
        if len(bad := self.intercepts[~np.isfinite(self.intercepts)]):
            raise InvalidInputError(f"linear model: the intercept must be finite, got {bad[0]}")
        if not np.isfinite(self.threshold) or (self.threshold and not self.is_binary):
            raise InvalidInputError(f"linear model: a finite threshold is for two classes, got {self.threshold}")
        return self

    def each_row(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], float]]:
        """Columns, weights and intercept of each row."""
        edges = np.searchsorted(self.rows, np.arange(len(self.intercepts) + 1))
        for k, intercept in enumerate(self.intercepts):
            part = slice(edges[k], edges[k + 1])
            yield self.indices[part], self.weights[part], intercept

    def largest_first(self) -> NDArray[np.int64]:
        """Places in ``weights``, by size, ties in their order."""
        return np.argsort(-np.abs(self.weights), kind="stable").astype(np.int64, copy=False)


def _scales(preparation: Preparation, n_features: int) -> Scales | None:
    if preparation.scales is None:
        return None
    m = preparation.divisors(n_features)
    where = np.flatnonzero(m)
    return Scales(where, m[where])


def json_value(value: Any) -> Any:
    """A number, text, truth value or None of Python itself; anything else as its text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or type(value) in (bool, int, float, str) else str(value)


def decimals(numbers: NDArray[Any]) -> list[str]:
    """The shortest decimal of each finite number that gives its bits again, also to readers that know doubles only.

    >>> decimals(np.array([0.1, -2.0, 1e-10], dtype=np.float32))
    ['0.1', '-2.0', '1e-10']
    """
    shown = numbers.astype(np.str_)
    # most readers go through a double; rounded twice, a few decimals become the neighbouring float32
    twice = shown.astype(np.float64).astype(numbers.dtype)
    found: list[str] = shown.tolist()
    for k in np.flatnonzero(twice != numbers):
        found[k] = repr(float(numbers[k]))
    return found
