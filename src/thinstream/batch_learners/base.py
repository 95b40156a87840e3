"""What batch learners share: weights, counters, scores, and their state as arrays."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.devices import in_precision, is_device_array, like, to_host
from thinstream.batch_learners.rows import Arrays, Examples, Waiting, of_width
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.engine.rule import Algorithm, register
from thinstream.errors import InvalidInputError, ModelFileError, WeightsOnlyError
from thinstream.learners.learner import dtype_of
from thinstream.learners.registry import rule_of

EQUAL_COSTS = Costs()
Class = TypeVar("Class", bound=type)


def runs(rule: Any, *, paper: str, order: str) -> Callable[[Class], Class]:
    """Declares that the decorated learner runs the algorithm of these parameters; estimator and docs follow from it."""

    def declare(learner: Class) -> Class:
        declared = register(rule, paper=paper, order=order, kind="batch", learner=learner)
        learner.algorithm = declared  # type: ignore[attr-defined]
        return learner

    return declare


class BatchLearner:
    """A batch algorithm, its weights and the counters of its run.

    Parameters
    ----------
    n_features : int
        Width of the model.
    costs : Costs
        Class costs c₋, c₊.
    dtype : {"float32", "float64"}
        Precision of state and matrix work; counters and decisions have 64 bits.
    grow : bool
        Whether a wider batch extends the model instead of raising.
    fit_intercept : bool
        Whether a constant feature 1 is learned along, as coordinate 0.
    **parameters
        Of the algorithm.

    """

    algorithm: Algorithm
    takes_dense = False  # whether dense rows are wanted as they are
    selects = False  # whether most weights are zero, so that it chooses features
    merge: Any = None  # makes one learner out of several
    no_merge = "it needs all rows at once; fit it on all of them"

    def __init__(
        self,
        *,
        n_features: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        **parameters: Any,
    ) -> None:
        name = self.algorithm.name
        self.rule: Any = rule_of(self.algorithm, parameters)
        self.parameters = {p.name: parameters.get(p.name, p.default) for p in self.algorithm.parameters}
        self.dtype = dtype_of(dtype, name)
        self.n_features, self.costs, self.offset = n_features, costs, int(fit_intercept)
        self.w = np.zeros(n_features + self.offset, dtype=self.dtype)
        self.counts = np.zeros(5, dtype=np.int64)
        self.loss = 0.0
        self.frozen = False  # whether it has its weights only
        self.grow = grow  # whether rows may be of any width, as in a stream
        self.start()

    def start(self) -> None:
        """Makes the state of a learner that has seen nothing."""

    def widen(self, width: int) -> None:
        """Makes room for further features, which nothing is known of."""
        more = max(0, width - self.n_features)
        self.w, self.n_features = np.concatenate([self.w, np.zeros(more, dtype=self.dtype)]), self.n_features + more

    def learn(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Takes the examples in order; returns each one's score before its update. ``last``: no more will come."""
        raise NotImplementedError

    def admit(self, examples: Examples) -> None:
        """Raises if it cannot learn from them."""
        if self.frozen:
            raise WeightsOnlyError(
                f"this {self.algorithm.name} has its weights only, without the state it learned with: it predicts, and "
                "cannot go on learning; only a model saved in full can"
            )
        if examples.n_features != self.n_features and not self.grow:
            raise InvalidInputError(f"X has {examples.n_features} features, but the model has {self.n_features}")

    def entering(self, examples: Examples) -> Examples:
        """The examples as the algorithm sees them: with the constant feature, none of weight 0."""
        self.admit(examples)
        if not np.all(examples.weights > 0):
            examples = examples.take(np.flatnonzero(examples.weights > 0))
        return examples.with_constant() if self.offset else examples

    def scores(self, X: Any) -> NDArray[Any]:
        """w·x of each row of a numpy array, a scipy matrix, or an array on a device."""
        weights = self.weights()
        if is_device_array(X):
            found = to_host(in_precision(X, self.dtype) @ like(weights, X))
        elif isinstance(X, np.ndarray):  # in 64 bits: BLAS sums rows differently at different places
            rows = Examples(X, np.empty(len(X), np.int8), np.empty(0))
            w = weights.astype(np.float64)
            found = np.concatenate([np.empty(0), *(block @ w for _, block in rows.blocks(np.float64))])
        else:
            found = np.asarray(X.astype(self.dtype, copy=False) @ weights)
        return (found + self.intercept).astype(self.dtype, copy=False)

    def weights(self) -> NDArray[Any]:
        """w, dense, without the intercept."""
        return self.w[self.offset :].copy()

    def support(self) -> NDArray[np.bool_]:
        """Which features it chose: by default those of non-zero weight."""
        return np.asarray(self.w[self.offset :] != 0)

    @property
    def intercept(self) -> float:
        """Weight of the constant feature; 0 without one."""
        return float(self.w[0]) if self.offset else 0.0

    @property
    def nnz(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return int(np.count_nonzero(self.w[self.offset :]))

    @property
    def t(self) -> int:
        """Examples learned from."""
        return int(self.counts[T])

    @property
    def n_mistakes(self) -> int:
        """Examples called wrong before their update."""
        return int(self.counts[FALSE_NEGATIVES] + self.counts[FALSE_POSITIVES])

    @property
    def n_updates(self) -> int:
        """Rounds in which the update condition held."""
        return int(self.counts[UPDATES])

    def count(self, scores: NDArray[Any], y: NDArray[np.int8], losses: NDArray[np.float64], updates: int = -1) -> None:
        """Counts rounds with these scores before, and own losses of, each example; by default a loss is an update."""
        positive = y > 0
        self.counts[T] += len(y)
        self.counts[POSITIVES] += np.count_nonzero(positive)
        self.counts[FALSE_NEGATIVES] += np.count_nonzero(positive & (scores <= 0))
        self.counts[FALSE_POSITIVES] += np.count_nonzero(~positive & (scores > 0))
        self.counts[UPDATES] += np.count_nonzero(losses > 0) if updates < 0 else updates
        self.loss += float(losses.sum())

    def arrays(self) -> Arrays:
        """All of the state, by name; `restore` takes it back."""
        return {"w": self.w, "counts": self.counts, "loss": np.array([self.loss])}

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        self.restore_weights(arrays)
        self.frozen = False

    def restore_weights(self, arrays: Arrays) -> None:
        """Takes back weights and counters only: it predicts, and cannot go on learning."""
        self.frozen = True
        self.w = checked(arrays, "w", self.w.shape, self.dtype).copy()
        self.counts = checked(arrays, "counts", (5,), np.dtype(np.int64)).copy()
        self.loss = float(checked(arrays, "loss", (1,), np.dtype(np.float64))[0])


class Choosing:
    """What learners have that choose groups of features: some of these may end with weight 0."""

    groups: list[NDArray[np.int64]]  # coordinates, in the order of choice

    def support(self) -> NDArray[np.bool_]:
        """The features of the groups."""
        me: Any = self
        found = np.zeros(len(me.w), dtype=np.bool_)
        for J in self.groups:
            found[J] = True
        return found[me.offset :]

    def arrays(self) -> Arrays:
        """The state, groups included."""
        features = np.concatenate([np.empty(0, np.int64), *self.groups])
        own = {"groups.sizes": np.array([len(J) for J in self.groups], dtype=np.int64), "groups.features": features}
        found: Arrays = super().arrays() | own  # type: ignore[misc]
        return found

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and groups."""
        super().restore_weights(arrays)  # type: ignore[misc]
        me: Any = self
        sizes, features = arrays["groups.sizes"], arrays["groups.features"]
        inside = len(features) == 0 or (features.min() >= 0 and features.max() < len(me.w))
        if not inside or sizes.sum() != len(features):
            raise ModelFileError("its groups of features contradict each other")
        self.groups = np.split(features, np.cumsum(sizes)[:-1]) if len(sizes) else []


class BufferedLearner(BatchLearner):
    """A learner that takes batch after batch; rows wait until ``batch_size`` of them are there."""

    def start(self) -> None:
        """Nothing waits."""
        self.waiting = Waiting(self.rule.batch_size)

    def learn(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Learns from every batch that fills; a row that goes on waiting is answered with the weights as they are."""
        chosen = examples.weights > 0
        rows, n_waiting, done = self.entering(examples), len(self.waiting), []
        for batch in self.waiting.batches(rows, last=last):
            if self.grow:  # by what the batch holds, not by what was read so far: reading ahead must change nothing
                self.widen(int(batch.X.indices.max(initial=-1)) + 1 - self.offset)
                batch = Examples(of_width(batch.X, len(self.w)), batch.y, batch.weights)
            done.append(self.absorb(batch))
        learned = np.concatenate([np.empty(0, self.dtype), *done])[n_waiting:]
        if self.grow or len(learned) == len(examples):
            return learned
        found = self.scores(examples.X)
        found[np.flatnonzero(chosen)[: len(learned)]] = learned
        return found

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Learns from one batch; returns the scores before each update."""
        raise NotImplementedError

    def arrays(self) -> Arrays:
        """The state, rows that wait included."""
        return super().arrays() | self.waiting.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.waiting.restore(arrays, len(self.w))


def checked(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of a file, if it is what it must be."""
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != dtype:
        got = "is missing" if found is None else f"is {found.dtype.name} of shape {found.shape}"
        raise ModelFileError(f"its array {name!r} {got}, not {np.dtype(dtype).name} of shape {shape}")
    return found
