"""What batch learners share: weights, counters, scores, and their state as arrays.

They answer to `learners.protocol`: ``learn`` takes batches of a stream, which are held until ``finish``. Below it,
``learn_rows`` and ``row_scores`` take all rows of a matrix at once (numpy's, scipy's, or an array on a device).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.batch_learners.devices import in_precision, is_device_array, like, to_host
from thinstream.batch_learners.rows import Arrays, Examples, of_width
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.engine.rule import Algorithm, register
from thinstream.errors import InvalidInputError, MergeError, NumericalError
from thinstream.learners.frozen import refuse_learning, require_array
from thinstream.learners.learner import EQUAL_COSTS, SingleModel, dtype_of, remedy, require_range
from thinstream.learners.merging import require_mergeable
from thinstream.learners.protocol import Reads
from thinstream.learners.registry import rule_of

Class = TypeVar("Class", bound=type)


def runs(rule: Any, *, paper: str, order: str) -> Callable[[Class], Class]:
    """Declares that the decorated learner runs the algorithm of these parameters; estimator and docs follow from it."""

    def declare(learner: Class) -> Class:
        declared = register(rule, paper=paper, order=order, kind="batch", learner=learner)
        learner.algorithm = declared  # type: ignore[attr-defined]
        return learner

    return declare


class BatchLearner(SingleModel):
    """A batch algorithm, its weights and the counters of its run.

    Parameters
    ----------
    width : int
        Features of the model (not ``n_features``, which is what SBCW calls the number to be chosen).
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
    keeps_variance = False
    no_merge = "it needs all rows at once; fit it on all of them"
    random: Any = None  # a numpy.random.RandomState for those that draw

    def __init__(
        self,
        *,
        width: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        **parameters: Any,
    ) -> None:
        self.rule: Any = rule_of(self.algorithm, parameters)
        self.parameters = {p.name: parameters.get(p.name, p.default) for p in self.algorithm.parameters}
        self.dtype = dtype_of(dtype, self.algorithm.name)
        self.n_features, self.costs, self.grow, self.offset = width, costs, grow, int(fit_intercept)
        self.w = np.zeros(width + self.offset, dtype=self.dtype)
        self.counts = np.zeros(5, dtype=np.int64)
        self.cumulative_loss = 0.0
        self.weights_only = False
        self.version = 0  # rises whenever rows are learned
        self._held: list[Batch] = []
        self.start()

    @property
    def reads(self) -> Reads:
        """How often it needs the rows of a stream."""
        return "held"

    def start(self) -> None:
        """Makes the state of a learner that has seen nothing."""

    @property
    def n_waiting(self) -> int:
        """Rows that wait to be learned."""
        return sum(map(len, self._held))

    # Learning ---------------------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Holds the rows until `finish`; returns their scores under the weights as they are."""
        self._held.append(self._check(batch))
        return self.scores(batch) if scores else np.empty(0, dtype=self.dtype)

    def finish(self) -> None:
        """No more rows will come: learns from what waits."""
        if self._held:
            rows, self._held = Batch.concatenate(self._held), []
            if self.grow:
                self.widen(rows.n_features)
            self.learn_rows(Examples.of(rows, self.n_features), last=True)

    def learn_rows(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Learns from these rows; returns the score of each before its update. ``last``: no more will come."""
        raise NotImplementedError

    def widen(self, n_features: int) -> None:
        """Makes room for further features, which nothing is known of."""
        more = max(0, n_features - self.n_features)
        self.w, self.n_features = np.concatenate([self.w, np.zeros(more, dtype=self.dtype)]), self.n_features + more

    def prepare(self, examples: Examples) -> Examples:
        """The examples as the algorithm sees them: with the constant feature, none of weight 0."""
        self.require_learnable(examples.n_features)
        if not np.all(examples.weights > 0):
            examples = examples.take(np.flatnonzero(examples.weights > 0))
        return examples.with_constant() if self.offset else examples

    def require_learnable(self, n_features: int) -> None:
        """Raises if it cannot learn from rows of this width."""
        if self.weights_only:
            refuse_learning(self.algorithm.name)
        if n_features != self.n_features and not self.grow:
            raise InvalidInputError(f"X has {n_features} features, but the model has {self.n_features}")

    def _check(self, batch: Batch) -> Batch:
        """The batch, if it can be learned from; narrower ones have nothing in the further features."""
        self.require_learnable(max(batch.n_features, self.n_features))
        if batch.require_labels().dtype != np.int8:
            raise InvalidInputError(f"{self.algorithm.name} knows two classes, -1 and +1 in int8")
        batch = batch.check()
        require_range(batch, self.dtype)
        return batch

    # Reading ----------------------------------------------------------------------------------------------------------

    def scores(self, batch: Batch) -> NDArray[Any]:
        """w·x of each row; unknown columns count nothing."""
        return self.finite(self.row_scores(Examples.of(batch.check(), self.n_features).X))

    def finite(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the scores of rows; raise if one is not finite."""
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise NumericalError(
                f"{self.algorithm.name}: the score of row {row} is not finite in {self.dtype.name}; "
                f"{remedy(self.dtype)}"
            )
        return scores

    def row_scores(self, X: Any) -> NDArray[Any]:
        """w·x of each row of a numpy array, a scipy matrix, or an array on a device."""
        weights = self.weights()
        if is_device_array(X):
            found = to_host(in_precision(X, self.dtype) @ like(weights, X))
        elif isinstance(X, np.ndarray):  # in 64 bits: BLAS sums rows differently at different places
            rows = Examples(X, np.empty(len(X), np.int8), np.empty(0))
            w = weights.astype(np.float64)
            found = np.concatenate([np.empty(0), *(block @ w for _, block in rows.blocks(np.float64))])
        else:
            found = np.asarray(of_width(X, self.n_features).astype(self.dtype, copy=False) @ weights)
        with np.errstate(over="ignore"):
            scores: NDArray[Any] = (found + self.intercept).astype(self.dtype, copy=False)
        return scores

    def weights(self) -> NDArray[Any]:
        """w, dense, without the intercept."""
        return self.w[self.offset :].copy()

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""
        w = self.weights()
        where = np.flatnonzero(w)
        return where, w[where]

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
    def has_variance(self) -> bool:
        """Whether it keeps a variance per weight."""
        return self.keeps_variance and not self.weights_only

    def variance(self) -> NDArray[Any]:
        """σ of every feature."""
        raise AttributeError(f"{self.algorithm.name} keeps no variances")

    def _counts(self) -> NDArray[np.int64]:
        return self.counts

    def count(self, scores: NDArray[Any], y: NDArray[np.int8], losses: NDArray[np.float64], updates: int = -1) -> None:
        """Counts rounds with these scores before, and own losses of, each example; by default a loss is an update."""
        positive = y > 0
        self.version += 1
        self.counts[T] += len(y)
        self.counts[POSITIVES] += np.count_nonzero(positive)
        self.counts[FALSE_NEGATIVES] += np.count_nonzero(positive & (scores <= 0))
        self.counts[FALSE_POSITIVES] += np.count_nonzero(~positive & (scores > 0))
        self.counts[UPDATES] += np.count_nonzero(losses > 0) if updates < 0 else updates
        self.cumulative_loss += float(losses.sum())

    # State ------------------------------------------------------------------------------------------------------------

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state by name, for `restore`; ``weights_only``: what `restore_weights` needs.

        Both have "w" (the intercept first), "counts" and "loss", what was chosen ("groups.…") or found ("found.…");
        in full also what it learns with, and rows that wait for their batch ("waiting.…"). Rows held for `finish` are
        not part of it.
        """
        return {"w": self.w, "counts": self.counts, "loss": np.array([self.cumulative_loss])}

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        self.restore_weights(arrays)
        self.weights_only = False

    def restore_weights(self, arrays: Arrays) -> None:
        """Takes back weights and counters only: it predicts, and cannot go on learning."""
        self.weights_only = True
        self.w = require_array(arrays, "w", self.w.shape, self.dtype).copy()
        self.counts = require_array(arrays, "counts", (5,), np.dtype(np.int64)).copy()
        self.cumulative_loss = float(require_array(arrays, "loss", (1,), np.dtype(np.float64))[0])

    def merge(self, others: Sequence[Self]) -> Self:
        """One learner out of several that saw disjoint rows; they are left as they are."""
        for each in (self, *others):
            require_mergeable(self, each)
            each.require_learnable(each.n_features)
            if each.n_waiting:
                rows = f"{self.algorithm.name}: {each.n_waiting} rows wait to be learned"
                raise MergeError(f"{rows}; call flush() (of a learner, finish()) first")
        seen = [each for each in (self, *others) if each.t]
        return self.merge_all(seen) if len(seen) > 1 else copy.deepcopy((seen or [self])[0])

    def merge_all(self, learners: Sequence[Self]) -> Self:
        """The same of several that agree in all they must, and have seen something."""
        raise MergeError(f"{self.algorithm.name} cannot be merged: {self.no_merge}")
