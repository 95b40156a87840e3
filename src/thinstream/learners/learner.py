"""A model that learns from batches: a rule, its memory, two classes and the counters of the run."""

from collections.abc import Iterable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.diagonal import DIAGONAL, FULL
from thinstream.engine.forgetting import declared
from thinstream.engine.limits import ORDINARY
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T, loop_for
from thinstream.engine.records import Memory
from thinstream.engine.rows import Bounds, Rows
from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError, listed
from thinstream.learners.memory import allocate, field_views, is_full, require_room, touched_coordinates, widen
from thinstream.learners.protocol import ReadsOnce
from thinstream.learners.registry import described_by, find, rule_of

#: Non-zeros the loop takes at a time where rows have to be converted first, so that memory stays that of the input.
BLOCK = 1 << 20

EVERY_WEIGHT_1, _EVERY_WEIGHT_0 = np.empty(0), np.zeros(1)
_NO_LABELS = np.empty(0, dtype=np.int8)
DTYPES = ("float32", "float64")
#: Largest |x| taken: rows of a million such values still have finite sums of squares.
LARGEST = {"float32": 1e15, "float64": 1e150}
_LIMITS = {np.dtype(name): limit for name, limit in LARGEST.items()}  # names of dtypes take microseconds
EQUAL_COSTS = Costs()
#: Rows that were checked before.
CHECKED = Bounds(-1, 0.0)


def dtype_of(given: Any, owner: str) -> np.dtype[Any]:
    """float32 or float64, from a name or a type."""
    kind: np.dtype[Any]
    try:
        kind = np.dtype(given)
    except TypeError:
        kind = np.dtype(object)
    if given is None or kind.name not in DTYPES:
        raise InvalidParameterError(f"{owner}: dtype must be {listed(DTYPES)}, got {given!r}")
    return kind


def _require_representable(rule: Any, kind: np.dtype[Any], owner: str) -> None:
    """A parameter that is infinite in the model's precision would leave NaN behind."""
    largest = float(np.finfo(kind).max)
    for name, value in rule._asdict().items():
        if isinstance(value, float) and largest < abs(value) < np.inf:
            raise InvalidParameterError(f"{owner}: {name} must be at most {largest:.3g} in {kind.name}, got {value!r}")
    if not all(abs(number) <= largest for number in rule.fresh()):  # a precision of 1/a
        raise InvalidParameterError(f"{owner}: {kind.name} cannot hold the state these parameters begin with, {rule}")


def require_sound(owner: str, rule: Any, kind: np.dtype[Any], grow: bool, parameters: Any) -> None:
    """Raises if a model of a rule, with these public parameters, cannot begin in a precision, or cannot grow."""
    _require_representable(rule, kind, owner)
    if grow and rule.needs_dimension():
        raise InvalidParameterError(
            f"{owner}: these parameters need the number of features beforehand (--features), so grow=True is not "
            f"possible with them, got {parameters!r}"
        )


def require_range(batch: Batch, dtype: np.dtype[Any]) -> None:
    """Raises if a value is so large that sums of squares would overflow in a model of this precision."""
    limit = _LIMITS[dtype]
    if batch.largest <= limit:
        return
    more = " (dtype='float64' allows 1e+150)" if dtype.name == "float32" else ""
    batch.require_below(limit, f"{dtype.name} allows {limit:g}: sums of squares would overflow{more}")


def require_signs(batch: Batch) -> NDArray[np.int8]:
    """The labels of a batch, if they are those of two classes."""
    if batch.y is None:
        raise InvalidInputError("a batch to learn from needs labels")
    if batch.y.dtype != np.int8:
        raise InvalidInputError(
            f"this model knows two classes, -1 and +1 in int8; the batch's are {batch.y.dtype.name}"
        )
    return batch.y


def not_finite(model: Any, row: int, left: str = "the model is as the rows before it left it") -> NumericalError:
    """What is said of a row that cannot be learned."""
    error = NumericalError(
        f"{model.algorithm.name}: row {row} cannot be learned, it would leave numbers that are not finite in "
        f"{model.dtype.name}; {left}; {remedy(model.dtype)}"
    )
    error.row = row
    return error


def remedy(dtype: np.dtype[Any]) -> str:
    """Return what a user can do about numbers that are not finite."""
    wider = ", dtype='float64'" if dtype.itemsize == 4 else ""
    return f"features scaled to about 1, unit rows (normalize='l2'){wider}, smaller weights or parameters help"


def row_blocks(batch: Batch, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Row ranges of about ``size`` non-zeros each, so that what has to be converted is converted a block at a time."""
    start, n = 0, len(batch)
    while True:
        stop = n
        if batch.indptr[n] - batch.indptr[start] > size:
            stop = int(np.searchsorted(batch.indptr, batch.indptr[start] + size, side="right")) - 1
            stop = max(stop, start + 1)
        yield start, stop
        if stop == n:
            return
        start = stop


def make_rows(
    batch: Batch,
    start: int,
    stop: int,
    dtype: np.dtype[Any],
    offset: int,
    y: NDArray[np.int8] = _NO_LABELS,
    weights: NDArray[np.float64] = _EVERY_WEIGHT_0,
) -> Rows:
    """The rows start:stop as the loop takes them, copied only where the model's precision, or indices', is another."""
    if batch.names is not None:  # two of which may have one number
        raise InvalidInputError(
            "rows whose names travel with them (Hashing with exact=True or more than 31 bits) are for models with "
            "max_features, and this one has none"
        )
    indptr = batch.indptr[start : stop + 1].astype(np.int64, copy=False)
    indices, values = batch.indices, batch.values
    if not _is_ready(batch, dtype):
        used, kind = slice(indptr[0], indptr[-1]), np.int32 if batch.n_features < 2**31 else indices.dtype
        indptr = indptr - indptr[0]
        indices, values = indices[used].astype(kind, copy=False), values[used].astype(dtype, copy=False)
    return Rows(indptr, indices, values, y, weights, offset)


def unit_vectors(coordinates: NDArray[Any], dtype: np.dtype[Any]) -> Rows:
    """Rows whose scores are the weights of these coordinates."""
    n, kind = len(coordinates), np.int32 if np.max(coordinates, initial=0) < 2**31 - 1 else np.int64
    ones = np.ones(n, dtype)
    return Rows(np.arange(n + 1), coordinates.astype(kind, copy=False), ones, _NO_LABELS, _EVERY_WEIGHT_0)


def _is_ready(batch: Batch, dtype: np.dtype[Any]) -> bool:
    """Whether the loop takes the arrays as they are; for long indices of narrow rows it is not compiled once more."""
    return batch.values.dtype == dtype and (batch.indices.itemsize == 4 or batch.n_features >= 2**31)


class SingleModel:
    """What learners share that are one model, of two classes or of one against the rest."""

    n_features: int

    def _counts(self) -> NDArray[np.int64]:
        """The counters of ``Memory.counts``."""
        raise NotImplementedError

    @property
    def models(self) -> Iterable[Self]:
        """A model for each row of ``coef_``: this one."""
        return (self,)

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not; the intercept is none of them."""
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
        """Positives called negative before their update."""
        return int(self._counts()[FALSE_NEGATIVES])

    @property
    def false_positives(self) -> int:
        """Negatives called positive before their update."""
        return int(self._counts()[FALSE_POSITIVES])

    @property
    def n_mistakes(self) -> int:
        """Examples called wrong before their update."""
        return self.false_negatives + self.false_positives

    @property
    def n_updates(self) -> int:
        """Rounds in which the update condition held."""
        return int(self._counts()[UPDATES])


class Learner(ReadsOnce, SingleModel):
    """One model and its run so far.

    Parameters
    ----------
    algorithm : str
        Name of the algorithm, in any case.
    n_features : int
        Width of the model.
    costs : Costs
        Class costs c₋, c₊ (see `class_costs`).
    dtype : {"float32", "float64"}
        Precision of state, values and row sums.
    grow : bool
        Whether a wider batch extends the model instead of raising.
    fit_intercept : bool
        Whether a constant feature 1 is learned along, as coordinate 0 of the memory.
    **parameters
        Of the algorithm.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 1.0]), 2, y=np.array([-1, 1], np.int8))
    >>> model = Learner("fsol", n_features=2, eta=0.5)
    >>> model.learn(rows)
    array([0., 0.], dtype=float32)
    >>> model.weights()
    array([-0.5,  0.5], dtype=float32)

    """

    full = False  # whether its covariance is a full matrix
    weights_only = False  # whether it predicts only

    def __init__(
        self,
        algorithm: str,
        *,
        n_features: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        **parameters: Any,
    ) -> None:
        self.algorithm = find(algorithm)
        rule = rule_of(self.algorithm, parameters)
        if self.algorithm.kind == "batch" or (getattr(rule, "covariance", DIAGONAL) == FULL) != self.full:
            raise InvalidParameterError(f"{self.algorithm.name}: make_learner makes the learner that can run it")
        kind = dtype_of(dtype, self.algorithm.name)
        require_sound(self.algorithm.name, rule, kind, grow, parameters)
        self.parameters = described_by(self.algorithm, parameters)
        self.algorithm, self.rule = declared(type(rule)), rule.for_width(n_features)
        self.costs, self.grow, self.n_features = costs, grow, n_features
        self.offset = int(fit_intercept)
        self.memory = allocate(self.algorithm, self.rule, n_features + self.offset, kind)
        self.version = 0  # rises whenever rows are learned: what was read of a model of the same version still holds

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update (empty if not asked for).

        Bad input raises before anything is learned; in an unchecked batch only when its row is reached.
        """
        if not _is_ready(batch, self.dtype):
            batch = batch.check()
        y, weights = require_signs(batch), EVERY_WEIGHT_1 if batch.weights is None else batch.weights
        require_range(batch, self.dtype)
        self.version += 1
        self._widen(batch.n_features)
        out = np.empty(len(batch) if scores else 0, dtype=self.dtype)
        bounds = Bounds(-1, float(batch.largest)) if batch.checked else Bounds(batch.n_features, ORDINARY)
        for start, stop in row_blocks(batch):
            rows = make_rows(batch, start, stop, self.dtype, self.offset, y[start:stop], weights[start:stop])
            found = self._run(rows, self.memory, out[start:stop], bounds)
            if found < 0:
                raise not_finite(self, batch.first_row + start - 1 - found)
            done = start + found
            if done < stop:  # a row is out of bounds: an error, or to be tidied or looked at first
                rest = self.learn(batch.after(done).check(), scores)
                return np.concatenate([out[:done], rest]) if scores else out
        return out

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x with the weights the next unseen example would meet. Nothing changes; O(non-zeros)."""
        batch = batch.check().narrowed(self.n_features)
        require_range(batch, self.dtype)
        out = np.empty(len(batch), dtype=self.dtype)
        # a row of weight 0 is scored and otherwise absent; copies, because another thread may be learning
        frozen = self.memory._replace(counts=self.memory.counts.copy(), totals=self.memory.totals.copy())
        for start, stop in row_blocks(batch):
            found = self._run(make_rows(batch, start, stop, self.dtype, self.offset), frozen, out[start:stop])
            if found < 0:
                row = batch.first_row + start - 1 - found
                raise NumericalError(
                    f"{self.algorithm.name}: the score of row {row} is not finite in {self.dtype.name}; "
                    f"{remedy(self.dtype)}"
                )
        return out

    def weights(self) -> NDArray[Any]:
        """w, dense: the scores of the unit vectors."""
        return np.concatenate([block for _, block in self._weights(self.offset)] or [self._weight_block(0, 0)])

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""
        found = [(start + np.flatnonzero(w), w[w != 0]) for start, w in self._weights(self.offset)]
        where = np.concatenate([np.empty(0, dtype=np.int64), *(j - self.offset for j, _ in found)])
        return where, np.concatenate([self._weight_block(0, 0), *(w for _, w in found)])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of state, values and row sums."""
        return self.memory.state.dtype

    @property
    def intercept(self) -> float:
        """Weight of the constant feature; 0 without one."""
        return float(self._weight_block(0, 1)[0]) if self.offset else 0.0

    @property
    def nnz(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return sum(int(np.count_nonzero(block)) for _, block in self._weights(self.offset))

    @property
    def n_met(self) -> int | None:
        """Features whose record an example has changed, the weight of any other is 0; None where there is none."""
        if self.weights_only or is_full(self.rule):
            return None
        touched = touched_coordinates(self.algorithm, self.rule, self.memory, self.n_features + self.offset)
        return int(np.count_nonzero(touched >= self.offset))

    @property
    def has_variance(self) -> bool:
        """Whether the algorithm keeps a variance per weight."""
        return hasattr(self.rule, "variance")

    def variance(self) -> NDArray[Any]:
        """σ of every feature."""
        return np.array(self.rule.variance(self.coordinates(self.offset, self.n_features + self.offset)))

    def coordinates(self, start: int, stop: int) -> Any:
        """The record of coordinates start:stop, a record of arrays, all that has to be forgotten by now forgotten."""
        return self.rule.current(field_views(self.algorithm, self.memory, start, stop), self.t)

    def _counts(self) -> NDArray[np.int64]:
        return self.memory.counts

    @property
    def cumulative_loss(self) -> float:
        """Sum of the algorithm's own loss."""
        return float(self.memory.totals[0])

    def require_room(self, n_features: int, models: int = 1) -> None:
        """Raises if so many models like it, this wide, would not fit into the machine."""
        require_room(self.algorithm, self.rule, n_features + self.offset, self.dtype, models)

    def _widen(self, n_features: int) -> None:
        if n_features <= self.n_features:
            return
        if not self.grow:
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        self.memory = widen(self.algorithm, self.rule, self.memory, n_features + self.offset)
        self.n_features = n_features

    def _run(self, rows: Rows, memory: Memory, out: NDArray[Any], bounds: Bounds = CHECKED) -> int:
        done: int = loop_for(type(self.rule))(self.rule, rows, bounds, self.costs, memory, out)
        return done

    def _weights(self, first: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Weights of the coordinates from ``first`` on, in blocks."""
        width = self.n_features + self.offset
        for start in range(first, width, BLOCK):
            yield start, self._weight_block(start, min(start + BLOCK, width))

    def _weight_block(self, start: int, stop: int) -> NDArray[Any]:
        return self.weights_at(np.arange(start, stop))

    def weights_at(self, coordinates: NDArray[Any]) -> NDArray[Any]:
        """Weights of these coordinates of the memory: j + 1 is feature j's where 0 is the constant's, else j."""
        out = np.empty(len(coordinates), dtype=self.dtype)
        frozen = self.memory._replace(counts=self.memory.counts.copy(), totals=self.memory.totals.copy())
        if self._run(unit_vectors(coordinates, self.dtype), frozen, out) < 0:
            raise NumericalError(
                f"{self.algorithm.name}: a weight is not finite in {self.dtype.name}; {remedy(self.dtype)}"
            )
        return out

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["algorithm"] = self.algorithm.name  # classes of a rule are found by name
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.algorithm = find(state["algorithm"]) if self.weights_only else declared(type(self.rule))
        # arrays may come back read-only, mapped from a file
        arrays: list[Any] = [array if array.flags.writeable else np.array(array) for array in self.memory]
        self.memory = Memory(*arrays)
