"""A model that only predicts: its weights, and the counters of the run it came from."""

from collections.abc import Mapping
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import ModelFileError, WeightsOnlyError
from thinstream.learners.learner import EQUAL_COSTS, Learner
from thinstream.learners.registry import described_by, find, rule_of


def refuse_learning(algorithm: str) -> NoReturn:
    """Raises: a model of weights only has nothing to learn with."""
    raise WeightsOnlyError(
        f"this {algorithm} has its weights only, without the state it learned with: it predicts, and cannot go on "
        "learning; only a model saved in full can"
    )


def require_array(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of a file, if it is what it must be."""
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != dtype:
        got = "is missing" if found is None else f"is {found.dtype.name} of shape {found.shape}"
        raise ModelFileError(f"its array {name!r} {got}, not {np.dtype(dtype).name} of shape {shape}")
    return found


class Frozen(Learner):
    """A `Learner` reduced to its weights: it is read as before, and learns no more.

    Inside it is a perceptron, whose state is its weights and nothing else: so scores go through the same loop, in the
    same order of summation, and have the bits of the learner it came from.

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
    thinstream.errors.WeightsOnlyError: this SSOL has its weights only, without the state it learned with: it
    predicts, and cannot go on learning; only a model saved in full can

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
        super().__init__("perceptron", n_features=n_features, costs=costs, dtype=dtype, fit_intercept=fit_intercept)
        self.memory.state[self.offset + np.asarray(where)] = values
        if fit_intercept:
            self.memory.state[0] = intercept
        self.memory.counts[:], self.memory.totals[0] = counts, loss
        self.algorithm, self.grow = find(algorithm), grow
        rule_of(self.algorithm, parameters)  # checks them
        self.parameters = described_by(self.algorithm, parameters)

    @classmethod
    def of(cls, learner: Learner) -> Self:
        """The learner as it is now, without what it would need to go on."""
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
