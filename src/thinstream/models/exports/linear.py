"""A trained model as what it predicts with: what every export and every picture starts from."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.blend.serving import served
from thinstream.budget import KeptLearner
from thinstream.compact import CompactLearner, narrow_learner
from thinstream.errors import InvalidInputError
from thinstream.learners.protocol import AnyLearner
from thinstream.models.model import NORMALIZED, Model
from thinstream.preparing import Preparation, preparation_of


class Scales(NamedTuple):
    """Of the features that were learned; others are no part of a row's length."""

    indices: NDArray[np.int64]  # columns, sorted
    values: NDArray[np.float64]


class Vector(NamedTuple):
    """Weights, and what rows are divided by before they are multiplied with them."""

    indices: NDArray[np.int64]  # columns of non-zero weights, the first is 0; row after row, sorted in each
    rows: NDArray[np.int64]  # the rows of these weights
    weights: NDArray[Any]  # float32 or float64
    normalize: str | None = None  # "l2": rows are divided by their length
    scales: Scales | None = None  # what values are divided by in that length; None: by nothing

    @property
    def words(self) -> str:
        """What rows it is for."""
        if self.normalize is None:
            return "rows as they are"
        return "rows over their length" if self.scales is None else "rows over their scaled length"

    def check(self, n_features: int) -> None:
        """Raises where an export could not keep its promises."""
        j, w = self.indices, self.weights
        if w.dtype.name not in ("float32", "float64"):
            raise InvalidInputError(f"linear model: weights must be float32 or float64, got {w.dtype.name}")
        if j.shape != w.shape or j.shape != self.rows.shape or j.ndim != 1:
            raise InvalidInputError(f"linear model: one index per weight is needed, got {j.shape} and {w.shape}")
        same_row, next_row = self.rows[1:] == self.rows[:-1], self.rows[1:] > self.rows[:-1]
        ordered = np.all(next_row | (same_row & (j[1:] > j[:-1])))
        if len(j) and not (ordered and j.min() >= 0 and j.max() < n_features):
            raise InvalidInputError(f"linear model: indices must be sorted, unique and from 0 to {n_features - 1}")
        if not (finite := np.isfinite(w)).all():
            k = int(np.flatnonzero(~finite)[0])
            raise InvalidInputError(f"linear model: weights must be finite, got {float(w[k])} at feature {int(j[k])}")

    def each_row(self, rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Columns and weights of each of so many rows."""
        edges = np.searchsorted(self.rows, np.arange(rows + 1))
        for k in range(rows):
            part = slice(edges[k], edges[k + 1])
            yield self.indices[part], self.weights[part]

    def largest_first(self) -> NDArray[np.int64]:
        """Places in ``weights``, by size, ties in their order."""
        return np.argsort(-np.abs(self.weights), kind="stable").astype(np.int64, copy=False)


class LinearModel(NamedTuple):
    """Weights of a model, without what it needs to go on learning.

    There is a row of weights for two classes, whose score speaks for the second, and one for each of more. The row of
    highest score wins, the first of several. A score is weights·x + intercept; of a model that normalises, weights·x
    over the length of x, plus the intercept, where x is divided by ``scales`` first if there are any. What the vectors
    ``beside`` say of their kinds of rows is added.

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
    beside: tuple[Vector, ...] = ()  # further vectors, for rows prepared in other ways
    columns: dict[str, list[str]] = {}  # noqa: RUF012 (of tables, by what they are: features, numeric, others)

    @classmethod
    def of(cls, model: Model) -> Self:
        """That of a model; names of features without a weight or a scale are left out."""
        learner = served(model.learner)
        models, rows = list(learner.models), preparation_of(narrow_learner(learner))
        first, *beside = _vectors([one.sparse_weights() for one in models], rows, learner)
        scaled = [vector.scales.indices for vector in (first, *beside) if vector.scales is not None]
        columns = np.concatenate([*(vector.indices for vector in (first, *beside)), *scaled])
        names = {} if model.names is None else model.names.as_dict()
        return cls(
            algorithm=learner.algorithm.name,
            parameters={name: json_value(value) for name, value in learner.parameters.items()},
            classes=tuple(json_value(label) for label in model.classes),
            n_features=learner.n_features,
            indices=first.indices,
            rows=first.rows,
            weights=first.weights,
            intercepts=np.array([one.intercept for one in models], dtype=first.weights.dtype),
            names={j: str(names[j]) for j in np.unique(columns).tolist() if j in names} if names else {},
            feature_space={name: kept for name, kept in model.feature_space.items() if name != NORMALIZED}
            | _cells(model),
            threshold=model.threshold,
            normalize=first.normalize or model.feature_space.get(NORMALIZED),
            scales=first.scales,
            beside=tuple(beside),
            columns=_columns(model),
        )

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """All of them, its own first."""
        return Vector(self.indices, self.rows, self.weights, self.normalize, self.scales), *self.beside

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes that one row of weights tells apart."""
        return len(self.intercepts) == 1 < len(self.classes)

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not."""
        return self.n_features * len(self.intercepts) * len(self.vectors)

    @property
    def nnz(self) -> int:
        """Non-zero weights of all vectors."""
        return sum(len(vector.weights) for vector in self.vectors)

    def check(self) -> Self:
        """Itself; raises where an export could not keep its promises."""
        for vector in self.vectors:
            vector.check(self.n_features)
        if len(bad := self.intercepts[~np.isfinite(self.intercepts)]):
            raise InvalidInputError(f"linear model: the intercept must be finite, got {bad[0]}")
        if not np.isfinite(self.threshold) or (self.threshold and not self.is_binary):
            raise InvalidInputError(f"linear model: a finite threshold is for two classes, got {self.threshold}")
        return self

    def each_row(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], float]]:
        """Columns, weights and intercept of each row."""
        rows = self.vectors[0].each_row(len(self.intercepts))
        return ((*row, intercept) for row, intercept in zip(rows, self.intercepts, strict=True))

    def together(self) -> tuple[Vector, NDArray[np.int64]]:
        """The weights of all vectors one after another, and the number of the vector of each."""
        each = self.vectors
        joined = [np.concatenate(arrays) for arrays in zip(*(vector[:3] for vector in each), strict=True)]
        numbers = np.repeat(np.arange(len(each)), [len(vector.weights) for vector in each])
        return Vector(joined[0], joined[1], joined[2]), numbers


def _vectors(
    models: Sequence[tuple[NDArray[np.int64], NDArray[Any]]], rows: Preparation, learner: AnyLearner
) -> Iterator[Vector]:
    """Out of what models have one after another for each kind of rows."""
    n_features = learner.n_features
    for k, kind in enumerate(rows.each):
        here = [(where >= k * n_features) & (where < (k + 1) * n_features) for where, _ in models]
        yield Vector(
            np.concatenate([where[kept] - k * n_features for (where, _), kept in zip(models, here, strict=True)]),
            np.repeat(np.arange(len(models)), [np.count_nonzero(kept) for kept in here]),
            np.concatenate([weights[kept] for (_, weights), kept in zip(models, here, strict=True)]),
            kind.normalize,
            _scales(learner, kind) if kind.normalize else None,
        )


def _scales(learner: AnyLearner, preparation: Preparation) -> Scales | None:
    if isinstance(learner, KeptLearner) and preparation.scales is None:
        kept = np.unique(learner.table.numbers)
        return Scales(kept[kept >= 0], np.ones(np.count_nonzero(kept >= 0)))
    if preparation.scales is None:
        return None
    m = preparation.divisors(narrow_learner(learner).n_features)
    where = np.flatnonzero(m)
    if not isinstance(learner, CompactLearner):
        return Scales(where, m[where])
    numbers = learner.table.numbers[where - 1]
    order = np.argsort(numbers)
    return Scales(numbers[order], m[where[order]])


def _cells(model: Model) -> dict[str, Any]:
    """What cells of a table become that are no number, text or category: whoever makes rows must know."""
    found = {name: model.reading[name] for name in ("missing", "dates") if model.reading.get(name)}
    return {name: kept for name, kept in found.items() if kept != "as-is"} if "hashing" in model.feature_space else {}


def _columns(model: Model) -> dict[str, list[str]]:
    """Columns of named features, those that must be numbers, and those that are no features."""
    if "hashing" not in model.feature_space:
        return {}
    reading = model.reading
    others = [reading.get("label", "label"), reading.get("weight"), reading.get("id"), *reading.get("ignore", ())]
    return {
        "features": [*reading.get("columns", ())],
        "numeric": [*reading.get("numeric", ())],
        "others": [name for name in others if name],
    }


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
