"""The interface of the learner of one output, and checks that all learners share.

`Learner`, `FullLearner`, `Frozen`, `Blend` and the batch learners implement it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NoReturn, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MergeError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
    listed,
)

#: How often rows are needed: one after another, all at once, or in several passes over a stream.
Reads = Literal["once", "held", "again"]


@runtime_checkable
class OneModel(Protocol):
    """A linear model of two classes, or of one class against the rest, and what it needs to learn."""

    algorithm: Any  #: the declaration: name, paper, parameters
    parameters: dict[str, Any]
    costs: Any  #: class costs c₋, c₊
    dtype: Any  #: the precision of the weights
    n_features: int
    offset: int  #: 1 with an intercept, else 0
    grow: bool  #: whether a wider batch extends the model instead of raising
    reads: Any  #: how often it needs the rows of a stream
    weights_only: bool  #: whether it only predicts
    has_variance: bool  #: whether it keeps a variance per weight
    intercept: float  #: the weight of the constant feature; 0 without one
    n_weights: int  #: weights, zero or not, without the intercept
    nnz: int  #: non-zero weights, without the intercept
    t: int  #: examples learned
    n_positives: int  #: positive examples learned
    n_mistakes: int  #: examples misclassified before their update
    n_updates: int  #: rounds in which the update condition held
    cumulative_loss: float  #: the sum of the algorithm's own loss

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the score of each before its update."""

    def finish(self) -> None:
        """Learn the rows that were held until the end of the stream."""

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return w·x of each row. Nothing changes."""

    def weights(self) -> NDArray[Any]:
        """Return w, dense."""

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the features of non-zero weight, and their weights."""

    def variance(self) -> NDArray[Any]:
        """Return σ of every weight."""


class ReadsOnce:
    """A learner that learns one row after another."""

    reads: ClassVar[Reads] = "once"

    def finish(self) -> None:
        """Do nothing: no rows are held."""


class SingleModel:
    """A learner of one output."""

    n_features: int

    def _counts(self) -> NDArray[np.int64]:
        """Return the counters of ``Memory.counts``."""
        raise NotImplementedError

    @property
    def models(self) -> Iterable[Self]:
        """The model of each row of ``coef_``: only this one."""
        return (self,)

    @property
    def n_weights(self) -> int:
        """The number of weights, zero or not, without the intercept."""
        return self.n_features

    @property
    def t(self) -> int:
        """Examples seen."""
        return int(self._counts()[T])

    @property
    def n_positives(self) -> int:
        """Positive examples seen."""
        return int(self._counts()[POSITIVES])

    @property
    def false_negatives(self) -> int:
        """Positive examples predicted negative before their update."""
        return int(self._counts()[FALSE_NEGATIVES])

    @property
    def false_positives(self) -> int:
        """Negative examples predicted positive before their update."""
        return int(self._counts()[FALSE_POSITIVES])

    @property
    def n_mistakes(self) -> int:
        """Examples misclassified before their update."""
        return self.false_negatives + self.false_positives

    @property
    def n_updates(self) -> int:
        """Rounds in which the update condition held."""
        return int(self._counts()[UPDATES])


# Checks: precision, the range of values, labels, arrays of model files, models to merge.

DTYPES = ("float32", "float64")
#: Largest allowed |x|: sums of squares over a million such values are still finite.
LARGEST = {"float32": 1e15, "float64": 1e150}
LIMITS = {np.dtype(name): limit for name, limit in LARGEST.items()}  # computing the name of a dtype takes microseconds


def dtype_of(name: Any, owner: str) -> np.dtype[Any]:
    """Return float32 or float64 from a name or a type."""
    dtype: np.dtype[Any]
    try:
        dtype = np.dtype(name)
    except TypeError:
        dtype = np.dtype(object)
    if name is None or dtype.name not in DTYPES:
        raise InvalidParameterError(f"{owner}: dtype must be {listed(DTYPES)}, got {name!r}")
    return dtype


def _require_representable(rule: Any, dtype: np.dtype[Any], owner: str) -> None:
    """Raise if a parameter is too large for the model's precision: an infinite one would lead to NaN."""
    largest = float(np.finfo(dtype).max)
    for name, value in rule._asdict().items():
        if isinstance(value, float) and largest < abs(value) < np.inf:
            raise InvalidParameterError(f"{owner}: {name} must be at most {largest:.3g} in {dtype.name}, got {value!r}")
    if not all(abs(number) <= largest for number in rule.fresh()):  # a precision of 1/a
        raise InvalidParameterError(
            f"{owner}: the initial state of {rule} does not fit into {dtype.name}. Use less extreme parameters, or "
            "dtype='float64'"
        )


def require_sound(owner: str, rule: Any, dtype: np.dtype[Any], grow: bool, parameters: Any) -> None:
    """Raise if a fresh model of a rule with these public parameters does not fit into a dtype, or cannot grow."""
    _require_representable(rule, dtype, owner)
    if grow and rule.needs_dimension():
        raise InvalidParameterError(
            f"{owner}: these parameters need the number of features in advance, so grow=True is not possible, got "
            f"{parameters!r}. Pass the number of features (--features)"
        )


def require_range(batch: Batch, dtype: np.dtype[Any]) -> None:
    """Raise if a value is so large that sums of squares would overflow in a model of this precision."""
    limit = LIMITS[dtype]
    if batch.largest <= limit:
        return
    more = " (dtype='float64' allows 1e+150)" if dtype.name == "float32" else ""
    batch.require_below(limit, f"{dtype.name} allows {limit:g}: sums of squares would overflow{more}")


def require_signs(batch: Batch) -> NDArray[np.int8]:
    """Return the labels of a batch of two classes, or raise."""
    if batch.y is None:
        raise InvalidInputError("a batch to learn from needs labels")
    if batch.y.dtype != np.int8:
        raise InvalidInputError(
            f"this model has two classes, so labels must be -1 and +1 in int8, got {batch.y.dtype.name}"
        )
    return batch.y


def not_finite(model: Any, row: int, left: str = "the model ends with the rows before it") -> NumericalError:
    """Return the error for a row that cannot be learned."""
    error = NumericalError(
        f"{model.algorithm.name}: row {row} cannot be learned, because numbers would not be finite in "
        f"{model.dtype.name}; {left}. {remedy(model.dtype)}"
    )
    error.row = row
    return error


def remedy(dtype: np.dtype[Any]) -> str:
    """Return advice on numbers that are not finite."""
    wider = "use dtype='float64', or " if dtype.itemsize == 4 else ""
    return f"Scale features to about 1, use rows of unit length (normalize='l2'), {wider}smaller weights or parameters"


def refuse_learning(algorithm: str) -> NoReturn:
    """Raise: a model with its weights only cannot learn."""
    raise WeightsOnlyError(
        f"this {algorithm} has only its weights, without the state of the algorithm, so it predicts but cannot learn. "
        "Use a model that was saved in full"
    )


def require_array(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of a file if it has this shape and dtype, or raise."""
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != dtype:
        got = "is missing" if array is None else f"is {array.dtype.name} of shape {array.shape}"
        raise ModelFileError(f"its array {name!r} {got}, not {np.dtype(dtype).name} of shape {shape}")
    return array


def require_mergeable(first: Any, other: Any) -> None:
    """Raise a MergeError with the first property in which two models must agree and don't, and both values."""
    name = first.algorithm.name
    pairs: list[tuple[str, Any, Any]] = [("algorithm", name, other.algorithm.name)]
    if name == other.algorithm.name:
        names = {**first.parameters, **other.parameters}
        pairs += [(key, first.parameters.get(key), other.parameters.get(key)) for key in names]
        if first.algorithm.kind == "batch" or (first.algorithm.kind == "online" and first.rule.needs_dimension()):
            pairs.append(("n_features", first.n_features, other.n_features))
    pairs += [
        ("class costs", _shown(first.costs), _shown(other.costs)),
        ("dtype", first.dtype.name, other.dtype.name),
        ("fit_intercept", bool(first.offset), bool(other.offset)),
    ]
    for name_of_property, one, two in pairs:
        if one != two:
            raise MergeError(f"{name}: models to merge must agree in {name_of_property}, got {one!r} and {two!r}")


def _shown(costs: Costs) -> str:
    return "balanced" if costs.balanced else f"{costs.negative} : {costs.positive}"
