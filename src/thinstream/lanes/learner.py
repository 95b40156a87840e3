"""A model that learns from batches: a rule, its memory, two classes and the counters of the run."""

from collections.abc import Iterator
from copy import copy
from functools import cache
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import described_by, find, rule_of
from thinstream.batch import Batch
from thinstream.engine.covariance import DIAGONAL, FULL, Matrix
from thinstream.engine.forgetting import declared
from thinstream.engine.loop import EQUAL_COSTS, Costs, loop_for
from thinstream.engine.memory import (
    allocate,
    capacity,
    field_views,
    is_full,
    record_views,
    require_room,
    touched_coordinates,
    widen,
)
from thinstream.engine.protocol import (
    ReadsOnce,
    SingleModel,
    dtype_of,
    not_finite,
    refuse_learning,
    remedy,
    require_range,
    require_signs,
    require_sound,
)
from thinstream.engine.records import Memory
from thinstream.engine.rows import (
    BLOCK,
    CHECKED,
    EVERY_WEIGHT_1,
    ORDINARY,
    Bounds,
    Rows,
    is_ready,
    make_rows,
    row_blocks,
    unit_vectors,
)
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError, WeightsOnlyError


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
        Whether there is a constant feature 1, as coordinate 0 of the memory.
    **parameters
        Parameters of the algorithm.

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
        if self.algorithm.kind != "online" or (getattr(rule, "covariance", DIAGONAL) == FULL) != self.full:
            raise InvalidParameterError(f"{self.algorithm.name}: use make_learner to create its learner")
        precision = dtype_of(dtype, self.algorithm.name)
        require_sound(self.algorithm.name, rule, precision, grow, parameters)
        self.parameters = described_by(self.algorithm, parameters)
        self.algorithm, self.rule = declared(type(rule)), rule.for_width(n_features)
        self.costs, self.grow, self.n_features = costs, grow, n_features
        self.offset = int(fit_intercept)
        self.memory = allocate(self.algorithm, self.rule, n_features + self.offset, precision)
        self.version = 0  # changes whenever rows are learned, so readers can cache what they computed for a version

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the score of each before its update (empty without ``scores``).

        Invalid input raises before anything is learned. In an unchecked batch, it raises at its row.
        """
        if not is_ready(batch, self.dtype):
            batch = batch.check()
        y, weights = require_signs(batch), EVERY_WEIGHT_1 if batch.weights is None else batch.weights
        require_range(batch, self.dtype)
        self.version += 1
        self._widen(batch.n_features)
        out = np.empty(len(batch) if scores else 0, dtype=self.dtype)
        bounds = Bounds(-1, float(batch.largest)) if batch.checked else Bounds(batch.n_features, ORDINARY)
        for start, stop in row_blocks(batch):
            rows = make_rows(batch, start, stop, self.dtype, self.offset, y[start:stop], weights[start:stop])
            learned = self._run(rows, self.memory, out[start:stop], bounds)
            if learned < 0:
                raise not_finite(self, batch.first_row + start - 1 - learned)
            done = start + learned
            if done < stop:  # a row is out of bounds: it is invalid, or has to be sorted first
                rest = self.learn(batch.after(done).check(), scores)
                return np.concatenate([out[:done], rest]) if scores else out
        return out

    def scores(self, batch: Batch) -> NDArray[Any]:
        """Return w·x of each row with the current weights, in O(non-zeros). Nothing changes."""
        batch = batch.check().narrowed(self.n_features)
        require_range(batch, self.dtype)
        out = np.empty(len(batch), dtype=self.dtype)
        # a row of weight 0 is scored and otherwise absent; copies, because another thread may be learning
        frozen = self.memory._replace(counts=self.memory.counts.copy(), totals=self.memory.totals.copy())
        for start, stop in row_blocks(batch):
            scored = self._run(make_rows(batch, start, stop, self.dtype, self.offset), frozen, out[start:stop])
            if scored < 0:
                row = batch.first_row + start - 1 - scored
                raise NumericalError(
                    f"{self.algorithm.name}: the score of row {row} is not finite in {self.dtype.name}; "
                    f"{remedy(self.dtype)}"
                )
        return out

    def weights(self) -> NDArray[Any]:
        """Return w, dense: the scores of the unit vectors."""
        return self.all_weights()[self.offset :]

    def all_weights(self) -> NDArray[Any]:
        """Return the weights of all coordinates: that of the constant feature, if there is one, then w."""
        return np.concatenate([block for _, block in self._weights(0)] or [self._weight_block(0, 0)])

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the features of non-zero weight, and their weights."""
        blocks = [(start + np.flatnonzero(w), w[w != 0]) for start, w in self._weights(self.offset)]
        where = np.concatenate([np.empty(0, dtype=np.int64), *(j - self.offset for j, _ in blocks)])
        return where, np.concatenate([self._weight_block(0, 0), *(w for _, w in blocks)])

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
        """The number of features whose record an example has changed, or None if it is not known."""
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

    # Changing features ------------------------------------------------------------------------------------------------

    def moved(self, where: NDArray[np.int64], width: int) -> Self:
        """Return a copy of ``width`` features: feature j becomes ``where[j]``, or is left out if that is -1.

        Examples
        --------
        >>> from thinstream.batch import Batch
        >>> rows = Batch.of(np.arange(3), np.arange(2), np.ones(2), 2, y=np.array([-1, 1], np.int8))
        >>> model = Learner("fsol", n_features=2)
        >>> _ = model.learn(rows)
        >>> model.moved(np.array([3, 0]), 5).weights()
        array([ 1.,  0.,  0., -1.,  0.], dtype=float32)

        """
        new, algorithm, offset = copy(self), self._coordinate_algorithm, np.arange(self.offset)
        new.parameters, new.n_features = dict(self.parameters), width
        fresh = allocate(algorithm, self.rule, width + self.offset, self.dtype)
        counters: list[Any] = [array.copy() for array in self.memory[2:]]
        new.memory = Memory(fresh.state, fresh.clocks, *counters)
        kept = np.flatnonzero(where >= 0)
        source = np.concatenate([offset, kept + self.offset])
        target = np.concatenate([offset, where[kept] + self.offset])
        before = record_views(algorithm, self.memory, self.n_features + self.offset)
        for old, view in zip(before, record_views(algorithm, new.memory, width + self.offset), strict=True):
            view[target] = old[source]
        if self.full:
            sigma = Matrix(fresh.extra).dense()
            sigma[np.ix_(target, target)] = Matrix(self.memory.extra).dense()[np.ix_(source, source)]
            new.memory = new.memory._replace(extra=Matrix.of(sigma).packed)
        return new

    def reset_features(self, features: NDArray[np.int64]) -> None:
        """Reset features to the state of feature 0, which never occurs."""
        self.version += 1
        algorithm = self._coordinate_algorithm
        for view in record_views(algorithm, self.memory, capacity(algorithm, self.memory)):
            view[features + self.offset] = view[self.offset]

    def mark_touched(self, marks: NDArray[np.bool_]) -> None:
        """Mark the features whose state differs from that of a feature that never occurred."""
        width = len(marks) + self.offset
        touched = touched_coordinates(self._coordinate_algorithm, self.rule, self.memory, width)
        marks[touched[touched >= self.offset] - self.offset] = True

    @property
    def _coordinate_algorithm(self) -> Algorithm:
        """The algorithm of the memory, which is not the learner's if it has its weights only."""
        return declared(type(self.rule))

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


# A model that only predicts: its weights, and the counters of the run it came from.


@cache
def _perceptron() -> Any:
    """Return the rule of models with weights only."""
    return rule_of(find("perceptron"), {})


class Frozen(Learner):
    """A `Learner` reduced to its weights: it can be read as before but no longer learns.

    Inside it is a perceptron, whose state is its weights and nothing else: so scores go through the same loop, in the
    same order of summation, so they are bit-identical to those of the original learner.

    Parameters
    ----------
    algorithm, parameters, n_features, costs, dtype, grow, fit_intercept
        Those of the learner.
    where, values : arrays
        Features of non-zero weight, and their weights.
    intercept : float
        Weight of the constant feature.
    counts, loss : array of 5, float
        The counters of ``Memory.counts``, and the cumulative loss.

    Examples
    --------
    >>> from thinstream.batch import Batch
    >>> rows = Batch.of(np.arange(3), np.arange(2, dtype=np.int32), np.ones(2), 2, y=np.array([-1, 1], np.int8))
    >>> model = Learner("ssol", n_features=2)
    >>> before = model.learn(rows)
    >>> frozen = Frozen.of(model)
    >>> np.array_equal(frozen.scores(rows), model.scores(rows)), frozen.t
    (True, 2)
    >>> frozen.learn(rows)
    Traceback (most recent call last):
    thinstream.errors.WeightsOnlyError: this SSOL has only its weights, without the state of the algorithm,
    so it predicts but cannot learn. Use a model that was saved in full

    """

    weights_only = True

    def __init__(
        self,
        algorithm: str,
        parameters: dict[str, Any],
        *,
        n_features: int,
        where: NDArray[Any],
        values: NDArray[Any],
        intercept: float = 0.0,
        counts: NDArray[np.int64],
        loss: float = 0.0,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
    ) -> None:
        self.algorithm = find(algorithm)
        rule_of(self.algorithm, parameters)  # checks them
        self.parameters = described_by(self.algorithm, parameters)
        self.rule, self.version = _perceptron(), 0
        self.costs, self.grow, self.n_features, self.offset = costs, grow, n_features, int(fit_intercept)
        width, precision = n_features + self.offset, dtype_of(dtype, self.algorithm.name)
        self.memory = allocate(declared(type(self.rule)), self.rule, width, precision)
        self.memory.state[self.offset + np.asarray(where)] = values
        if fit_intercept:
            self.memory.state[0] = intercept
        self.memory.counts[:], self.memory.totals[0] = counts, loss

    @classmethod
    def of(cls, learner: Learner) -> Self:
        """Return the current weights of a learner, without the state for learning."""
        where, values = learner.sparse_weights()
        return cls(
            learner.algorithm.name,
            learner.parameters,
            n_features=learner.n_features,
            where=where,
            values=values,
            intercept=learner.intercept,
            counts=learner.memory.counts,
            loss=learner.cumulative_loss,
            costs=learner.costs,
            dtype=learner.memory.state.dtype.name,
            grow=learner.grow,
            fit_intercept=bool(learner.offset),
        )

    def learn(self, batch: Batch, scores: bool = True) -> NoReturn:
        """Raises: there is nothing to learn with."""
        refuse_learning(self.algorithm.name)

    def variance(self) -> NoReturn:
        """Raises: variances belong to the state that was left out."""
        raise WeightsOnlyError(f"this {self.algorithm.name} has its weights only, its variances were not saved")
