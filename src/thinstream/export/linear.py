"""A trained model in the form from which exports and pictures are made."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.models.model import NORMALIZED, Model
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.models.products import Products


class Scales(NamedTuple):
    """Scales of the learned features. Other features do not count in a row's length."""

    indices: NDArray[np.int64]  # columns, sorted
    values: NDArray[np.float64]


class Vector(NamedTuple):
    """Weights, and how rows are divided before they are multiplied with the weights."""

    indices: NDArray[np.int64]  # columns (from 0) of non-zero weights, row by row, sorted in each row
    rows: NDArray[np.int64]  # rows of these weights
    weights: NDArray[Any]  # float32 or float64
    normalize: str | None = None  # "l2": rows are divided by their length
    scales: Scales | None = None  # divisors of values in that length; None: no scaling

    @property
    def words(self) -> str:
        """The kind of rows for which these weights are."""
        if self.normalize is None:
            return "unscaled rows"
        return "rows divided by their length" if self.scales is None else "rows divided by their scaled length"

    def check(self, n_features: int) -> None:
        """Raise if the weights cannot be exported."""
        j, w = self.indices, self.weights
        if w.dtype.name not in ("float32", "float64"):
            raise InvalidInputError(f"linear model: weights must be float32 or float64, got {w.dtype.name}")
        if j.shape != w.shape or j.shape != self.rows.shape or j.ndim != 1:
            raise InvalidInputError(f"linear model: there must be one index per weight, got {j.shape} and {w.shape}")
        same_row, next_row = self.rows[1:] == self.rows[:-1], self.rows[1:] > self.rows[:-1]
        ordered = np.all(next_row | (same_row & (j[1:] > j[:-1])))
        if len(j) and not (ordered and j.min() >= 0 and j.max() < n_features):
            raise InvalidInputError(f"linear model: indices must be sorted, unique and from 0 to {n_features - 1}")
        if not (finite := np.isfinite(w)).all():
            k = int(np.flatnonzero(~finite)[0])
            raise InvalidInputError(f"linear model: weights must be finite, got {float(w[k])} at feature {int(j[k])}")

    def each_row(self, rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        """Yield the columns and weights of each of N rows."""
        edges = np.searchsorted(self.rows, np.arange(rows + 1))
        for k in range(rows):
            part = slice(edges[k], edges[k + 1])
            yield self.indices[part], self.weights[part]

    def largest_first(self) -> NDArray[np.int64]:
        """Return positions in ``weights`` by size, with ties in order."""
        return np.argsort(-np.abs(self.weights), kind="stable").astype(np.int64, copy=False)


class LinearModel(NamedTuple):
    """Weights of a model, without the state that it needs for training.

    With two classes, there is one row of weights, and a high score predicts the second class. With more, there is a row
    per class, and the first row with the highest score wins. A score is weights·x + intercept. If rows are normalized,
    it is weights·x / length + intercept, with x divided by ``scales`` (if any) for the length. The sums of the vectors
    in ``others`` are added.

    Examples
    --------
    >>> from thinstream.data.labels import Classes
    >>> linear = LinearModel.of(Model.fresh("fsol", Classes("ham", "spam"), n_features=9))
    >>> linear.algorithm, linear.classes, linear.n_features, len(linear.weights), linear.intercepts
    ('FSOL', ('ham', 'spam'), 9, 0, array([0.], dtype=float32))

    """

    algorithm: str
    parameters: dict[str, Any]
    classes: tuple[Any, ...]  # labels
    n_features: int
    indices: NDArray[np.int64]  # columns (from 0) of non-zero weights, row by row, sorted in each row
    rows: NDArray[np.int64]  # rows of these weights
    weights: NDArray[Any]  # float32 or float64
    intercepts: NDArray[Any]  # of each row
    names: dict[int, str]  # of columns, if known
    feature_space: dict[str, Any] = {}  # noqa: RUF012 (meaning of feature indices; {}: columns)
    threshold: float = 0.0  # with two classes, a score above it is positive
    normalize: str | None = None  # "l2": rows are divided by their length
    scales: Scales | None = None  # divisors of values in that length; None: no scaling
    others: tuple[Vector, ...] = ()  # further vectors, for rows prepared in other ways
    columns: dict[str, list[str]] = {}  # noqa: RUF012 (of tables, by role: features, numeric, others)
    per_feature: Vector | None = None  # one weight per feature, or product, if there are several vectors
    has_probabilities: bool = False  # whether scores are log-odds
    products: Products | None = None  # products of features that are added to rows first

    @classmethod
    def of(cls, model: Model) -> Self:
        """Convert a model; names of features without a weight or a scale are left out."""
        learner = model.learner.served()
        models = list(learner.models)
        vectors = list(_vectors([one.sparse_weights() for one in models], learner))
        of_products = [view.products for view in learner.preparation.each]
        products = learner.products
        if not any(len(vector.weights) for vector, has in zip(vectors, of_products, strict=True) if has):
            vectors = [
                _without_scales(vector) if has else vector for vector, has in zip(vectors, of_products, strict=True)
            ]
            while len(vectors) > 1 and of_products.pop():
                vectors.pop()
            products = None
        first, *others = vectors
        scaled = [vector.scales.indices for vector in (first, *others) if vector.scales is not None]
        columns = np.concatenate([*(vector.indices for vector in (first, *others)), *scaled])
        names = {} if model.names is None else model.names.as_dict()
        effects = list(learner.sparse_feature_weights(products=True)) if learner.preparation.length or others else []
        if products is not None:
            columns = np.concatenate([columns, products.numbers])
        return cls(
            algorithm=learner.algorithm.name,
            parameters={name: json_value(value) for name, value in learner.parameters.items()},
            classes=tuple(json_value(label) for label in model.classes),
            n_features=learner.n_features if products is None else learner.n_columns,
            indices=first.indices,
            rows=first.rows,
            weights=first.weights,
            intercepts=np.array([one.intercept for one in models], dtype=first.weights.dtype),
            names={j: str(names[j]) for j in np.unique(columns).tolist() if j in names}
            | ({} if products is None else products.names(columns, names)),
            feature_space={name: value for name, value in model.feature_space.items() if name != NORMALIZED}
            | _cells(model),
            threshold=model.threshold,
            normalize=first.normalize or model.feature_space.get(NORMALIZED),
            scales=first.scales,
            others=tuple(others),
            columns=_columns(model),
            per_feature=_joined(effects) if effects else None,
            has_probabilities=model.has_probabilities,
            products=products,
        )

    @property
    def vectors(self) -> tuple[Vector, ...]:
        """All vectors, the model's first."""
        return Vector(self.indices, self.rows, self.weights, self.normalize, self.scales), *self.others

    @property
    def n_inputs(self) -> int:
        """The number of features of a row. Products of features have the indices from there on."""
        return self.n_features if self.products is None else self.products.base

    @property
    def is_binary(self) -> bool:
        """Whether there are two classes with one row of weights."""
        return len(self.intercepts) == 1 < len(self.classes)

    @property
    def n_weights(self) -> int:
        """The number of weights, including zeros."""
        return self.n_features * len(self.intercepts) * len(self.vectors)

    @property
    def nnz(self) -> int:
        """The number of non-zero weights of all vectors."""
        return sum(len(vector.weights) for vector in self.vectors)

    def check(self) -> Self:
        """Return the model, or raise if it cannot be exported."""
        for vector in self.vectors:
            vector.check(self.n_features)
        if len(bad := self.intercepts[~np.isfinite(self.intercepts)]):
            raise InvalidInputError(f"linear model: the intercept must be finite, got {bad[0]}")
        if not np.isfinite(self.threshold) or (self.threshold and not self.is_binary):
            raise InvalidInputError(
                f"linear model: the threshold must be finite, and 0 unless there are two classes, got {self.threshold}"
            )
        return self

    def each_row(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], float]]:
        """Yield the columns, weights and intercept of each row."""
        rows = self.vectors[0].each_row(len(self.intercepts))
        return ((*row, intercept) for row, intercept in zip(rows, self.intercepts, strict=True))

    @property
    def effects(self) -> Vector:
        """One weight per feature or product: the mean effect of one unit on the scores of rows that have it."""
        return self.per_feature or Vector(self.indices, self.rows, self.weights)


def _joined(rows: Sequence[tuple[NDArray[np.int64], NDArray[Any]]]) -> Vector:
    """Return the columns and weights of several rows as a vector."""
    columns, weights = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
    return Vector(columns, np.repeat(np.arange(len(rows)), [len(where) for where, _ in rows]), weights)


def _vectors(models: Sequence[tuple[NDArray[np.int64], NDArray[Any]]], learner: Pipeline) -> Iterator[Vector]:
    """Split concatenated weights into one vector for each view of the rows."""
    n_features = learner.n_columns
    for k, view in enumerate(learner.preparation.each):
        here = [(where >= k * n_features) & (where < (k + 1) * n_features) for where, _ in models]
        yield Vector(
            np.concatenate([where[kept] - k * n_features for (where, _), kept in zip(models, here, strict=True)]),
            np.repeat(np.arange(len(models)), [np.count_nonzero(kept) for kept in here]),
            np.concatenate([weights[kept] for (_, weights), kept in zip(models, here, strict=True)]),
            view.normalize,
            _scales(learner, view) if view.normalize else None,
        )


def _without_scales(vector: Vector) -> Vector:
    """Return a vector without weights, for unscaled rows."""
    return vector._replace(normalize=None, scales=None)


def _scales(learner: Pipeline, preparation: Preparation) -> Scales | None:
    if learner.drops_unknown and preparation.scales is None:
        kept = np.unique(learner.numbers)
        return Scales(kept[kept >= 0], np.ones(np.count_nonzero(kept >= 0)))
    if preparation.scales is None:
        return None
    m = preparation.divisors(learner.n_slots)
    where = np.flatnonzero(m)
    if learner.encoder is None:
        return Scales(where, m[where])
    numbers = learner.numbers[where - 1]
    order = np.argsort(numbers)
    return Scales(numbers[order], m[where[order]])


def _cells(model: Model) -> dict[str, Any]:
    """Return how cells of a table become features, if they are not numbers, text or categories."""
    options = {name: model.reading[name] for name in ("missing", "dates") if model.reading.get(name)}
    return (
        {name: value for name, value in options.items() if value != "as-is"} if "hashing" in model.feature_space else {}
    )


def _columns(model: Model) -> dict[str, list[str]]:
    """Return the columns of named features, those that must be numbers, and those that are not features."""
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
    """Return a number, string, boolean or None as a Python object; anything else as a string."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or type(value) in (bool, int, float, str) else str(value)


def decimals(numbers: NDArray[Any]) -> list[str]:
    """Return the shortest decimal of each finite number that is read back bit-identically, also by way of a double.

    >>> decimals(np.array([0.1, -2.0, 1e-10], dtype=np.float32))
    ['0.1', '-2.0', '1e-10']
    """
    shown = numbers.astype(np.str_)
    # most readers convert to double first; rounded twice, a few decimals become the neighboring float32
    twice = shown.astype(np.float64).astype(numbers.dtype)
    texts: list[str] = shown.tolist()
    for k in np.flatnonzero(twice != numbers):
        texts[k] = repr(float(numbers[k]))
    return texts
