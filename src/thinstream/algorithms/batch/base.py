"""Base classes of batch algorithms: with all rows in memory, block by block, or in several passes."""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import (
    Arrays,
    Examples,
    csr_arrays,
    csr_of_arrays,
    in_precision,
    is_device_array,
    like,
    of_width,
    stack,
    to_host,
)
from thinstream.algorithms.registry import rule_of
from thinstream.batch import Batch
from thinstream.engine.loop import (
    EQUAL_COSTS,
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    POSITIVES,
    UPDATES,
    Costs,
    T,
)
from thinstream.engine.protocol import (
    Reads,
    SingleModel,
    dtype_of,
    refuse_learning,
    remedy,
    require_array,
    require_mergeable,
    require_range,
)
from thinstream.engine.rule import Algorithm, register
from thinstream.errors import InvalidInputError, MergeError, ModelFileError, NumericalError

# Common parts of batch learners: weights, counters, scores, and their state as arrays.
#
# They implement `engine.protocol`: ``learn`` takes batches of a stream, which are held until ``finish``. Below it,
# ``learn_rows`` and ``row_scores`` take all rows of a matrix at once (numpy's, scipy's, or an array on a device).

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
        Whether there is a constant feature 1, as coordinate 0.
    **parameters
        Parameters of the algorithm.

    """

    algorithm: Algorithm
    takes_dense = False  # whether dense rows stay dense
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
        """Hold the rows until `finish`; return their scores with the current weights."""
        self._held.append(self._check(batch))
        return self.scores(batch) if scores else np.empty(0, dtype=self.dtype)

    def finish(self) -> None:
        """Learn the rows that were held, at the end of the stream."""
        if self._held:
            rows, self._held = Batch.concatenate(self._held), []
            if self.grow:
                self.widen(rows.n_features)
            self.learn_rows(Examples.of(rows, self.n_features), last=True)

    def learn_rows(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Learn from these rows and return their scores before the updates. ``last`` is True for the last call."""
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
            sums = to_host(in_precision(X, self.dtype) @ like(weights, X))
        elif isinstance(X, np.ndarray):  # in 64 bits: BLAS sums rows differently at different places
            rows = Examples(X, np.empty(len(X), np.int8), np.empty(0))
            w = weights.astype(np.float64)
            sums = np.concatenate([np.empty(0), *(block @ w for _, block in rows.blocks(np.float64))])
        else:
            sums = np.asarray(of_width(X, self.n_features).astype(self.dtype, copy=False) @ weights)
        with np.errstate(over="ignore"):
            scores: NDArray[Any] = (sums + self.intercept).astype(self.dtype, copy=False)
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
        """Restore only weights and counters. The learner then predicts and cannot learn."""
        self.weights_only = True
        self.w = require_array(arrays, "w", self.w.shape, self.dtype).copy()
        self.counts = require_array(arrays, "counts", (5,), np.dtype(np.int64)).copy()
        self.cumulative_loss = float(require_array(arrays, "loss", (1,), np.dtype(np.float64))[0])

    def merge(self, others: Sequence[Self]) -> Self:
        """Return a new learner from learners of disjoint rows, which do not change."""
        for learner in (self, *others):
            require_mergeable(self, learner)
            learner.require_learnable(learner.n_features)
            if learner.n_waiting:
                rows = f"{self.algorithm.name}: {learner.n_waiting} rows wait to be learned"
                raise MergeError(f"{rows}; call flush() (of a learner, finish()) first")
        seen = [learner for learner in (self, *others) if learner.t]
        return self.merge_all(seen) if len(seen) > 1 else copy.deepcopy((seen or [self])[0])

    def merge_all(self, learners: Sequence[Self]) -> Self:
        """The same of several that agree in all they must, and have seen something."""
        raise MergeError(f"{self.algorithm.name} cannot be merged: {self.no_merge}")


# Learners that take batch after batch: rows wait until theirs is full.


class BufferedLearner(BatchLearner):
    """A learner that learns as soon as ``batch_size`` rows are there; without one, each call is a batch."""

    def start(self) -> None:
        """Nothing waits."""
        self.waiting = Buffer(self.rule.batch_size)
        self._widest = self.n_features  # of the batches of a stream

    @property
    def reads(self) -> Reads:
        """Once, if it knows the size of a batch."""
        return "once" if self.rule.batch_size else "held"

    @property
    def n_waiting(self) -> int:
        """Rows that wait for their batch."""
        return super().n_waiting + len(self.waiting)

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learns from every batch that fills; without a ``batch_size`` all rows are held until `finish`."""
        if self.reads == "held":
            return super().learn(batch, scores)
        batch = self._check(batch)
        self._widest = max(self._widest, batch.n_features)
        examples = Examples.of(batch, max(self.n_features, batch.n_features))
        if scores:
            return self.learn_rows(examples)
        self._take(examples)
        return np.empty(0, dtype=self.dtype)

    def finish(self) -> None:
        """Learn the remaining rows, as a smaller batch."""
        super().finish()
        for batch in self.waiting.rest():
            self._absorb(batch)
        if self.grow:
            self.widen(self._widest)

    def learn_rows(self, examples: Examples, *, last: bool = False) -> NDArray[Any]:
        """Learn every batch that is full. Rows that are held are scored with the current weights."""
        learned = self._take(examples, last)
        if len(learned) == len(examples):
            return learned
        scores = self.row_scores(examples.X)
        scores[np.flatnonzero(examples.weights > 0)[: len(learned)]] = learned
        return scores

    def _take(self, examples: Examples, last: bool = False) -> NDArray[Any]:
        """The scores of the first of these rows, which were learned; the others wait."""
        rows, n_waiting = self.prepare(examples), len(self.waiting)
        done = [self._absorb(batch) for batch in self.waiting.batches(rows)]
        done += [self._absorb(batch) for batch in self.waiting.rest()] if last else []
        return np.concatenate([np.empty(0, self.dtype), *done])[n_waiting:]

    def _absorb(self, batch: Examples) -> NDArray[Any]:
        if self.grow:  # by the rows of the batch, not by the rows read so far, so that reading ahead changes nothing
            X = batch.sparse(batch.X.dtype)
            self.widen(int(X.indices.max(initial=-1)) + 1 - self.offset)
            batch = replace(batch, X=of_width(X, len(self.w)))
        return self.absorb(batch)

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Learn from one batch and return the scores before each update."""
        raise NotImplementedError

    def row_costs(self, batch: Examples) -> NDArray[np.float64]:
        """c_i of the rows of a batch, after all rows before."""
        positives = int(self.counts[POSITIVES])
        return batch.running_costs(self.costs, positives, int(self.counts[T]) - positives)

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, rows that wait included."""
        return super().arrays(weights_only=weights_only) | ({} if weights_only else self.waiting.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.waiting.restore(arrays, len(self.w))


class Buffer:
    """Rows that wait for their batch to be full: part of a learner's state."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pieces: list[Examples] = []

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def batches(self, examples: Examples) -> Iterator[Examples]:
        """Every batch that these rows fill (size 0: they are one)."""
        if self.size == 0:
            if len(examples):
                yield examples
            return
        start = 0
        while len(self) + len(examples) - start >= self.size:
            stop = start + self.size - len(self)
            yield stack([*self.pieces, examples.take(slice(start, stop))])
            self.pieces, start = [], stop
        if start < len(examples):
            rest = examples.take(slice(start, None))
            self.pieces.append(replace(rest, X=rest.X.copy()) if isinstance(rest.X, np.ndarray) else rest)

    def rest(self) -> Iterator[Examples]:
        """Return the remaining rows as one batch, if there are any, and remove them."""
        if self.pieces:
            yield stack(self.pieces)
            self.pieces = []

    def arrays(self) -> Arrays:
        """Return the arrays to save: the rows as CSR in their original precision."""
        if not self.pieces:
            return {}
        rows = stack(self.pieces)
        X = rows.sparse(rows.X.dtype)
        return csr_arrays(X, "waiting") | {"waiting.y": rows.y, "waiting.weights": rows.weights}

    def restore(self, arrays: Arrays, width: int) -> None:
        """Takes back what was saved."""
        self.pieces = []
        if "waiting.y" in arrays:
            X = csr_of_arrays(arrays, "waiting", width)
            rows = (X.shape[0],)
            y = require_array(arrays, "waiting.y", rows, np.dtype(np.int8))
            weights = require_array(arrays, "waiting.weights", rows, np.dtype(np.float64))
            if not (np.all(np.abs(y) == 1) and np.all(weights >= 0)):
                raise ModelFileError("its waiting rows must have labels -1 or 1 and weights of at least 0")
            self.pieces = [Examples(X, y, weights)]


# Learners that go over all rows again and again: a matrix, or a stream from its start each time.


class Block(NamedTuple):
    """Some of the rows."""

    X: Any  # scipy CSR, float64
    y: NDArray[np.float64]  # ±1
    c: NDArray[np.float64]  # cost of the class times sample weight

    def wrong(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count the misclassified positives and negatives. Rows of weight 0 do not count."""
        positive, called = self.y > 0, scores > 0
        missed = (positive & ~called, ~positive & called)
        return np.array([np.count_nonzero(rows & (self.c > 0)) for rows in missed], dtype=np.int64)


class Passes:
    """All rows of a source, a block at a time.

    Making one takes a pass: width and class counts must be known before the first step.

    Parameters
    ----------
    batches : callable
        Returns the labelled batches from the first on, whenever it is called.
    costs : Costs
        Class costs; balanced: c₊ is the ratio of the class counts, n₋/n₊, and c₋ is 1.
    fit_intercept : bool
        Whether a last column of ones is added.
    n_features : int
        Width, if more columns than the rows show.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 3]), np.array([1.0, 2.0]), 4, y=np.array([-1, 1], np.int8))
    >>> passes = Passes.of(rows)
    >>> len(passes), passes.n_features, passes.total
    (2, 4, 2.0)
    >>> next(passes.blocks()).X.toarray()
    array([[1., 0., 0., 0.],
           [0., 0., 0., 2.]])

    """

    def __init__(
        self,
        batches: Callable[[], Iterable[Batch]],
        *,
        costs: Costs = EQUAL_COSTS,
        fit_intercept: bool = False,
        n_features: int = 0,
    ) -> None:
        self._batches = batches
        self._kept: Block | None = None
        self.n_features, self.offset = n_features, int(fit_intercept)
        rows = positives = negatives = 0
        for batch in batches():
            y = batch.require_labels()
            there = np.ones(len(batch), np.bool_) if batch.weights is None else batch.weights > 0
            rows += len(batch)
            positives += int(np.count_nonzero(there & (y > 0)))
            negatives += int(np.count_nonzero(there & (y < 0)))
            self.n_features = max(self.n_features, batch.n_features)
        if positives + negatives == 0:
            raise InvalidInputError("there is no example to learn from" + (", all weights are zero" if rows else ""))
        self.rows, self.positives, self.negatives = rows, positives, negatives
        balanced = max(negatives, 1) / max(positives, 1)
        self._costs = (1.0, balanced) if costs.balanced else (costs.negative, costs.positive)
        self.total = sum(float(block.c.sum()) for block in self.blocks())

    @classmethod
    def of(cls, batch: Batch, costs: Costs = EQUAL_COSTS, fit_intercept: bool = False) -> Self:
        """The rows of one batch, converted once."""
        rows = cls(lambda: [batch], costs=costs, fit_intercept=fit_intercept)
        rows._kept = rows.block()
        return rows

    @property
    def width(self) -> int:
        """Coordinates, the constant one included."""
        return self.n_features + self.offset

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory, so that a pass needs no reading."""
        return self._kept is not None

    def __len__(self) -> int:
        return self.rows

    def blocks(self) -> Iterator[Block]:
        """One pass."""
        if self._kept is not None:
            yield self._kept
            return
        for batch in self._batches():
            yield self._block(batch)

    def block(self) -> Block:
        """All rows in one block, in memory."""
        import scipy.sparse as sp

        if self._kept is not None:
            return self._kept
        parts = [part for part in self.blocks() if part.X.shape[0]]
        if len(parts) == 1:
            return parts[0]
        X, y, c = zip(*parts, strict=True)
        return Block(sp.vstack(X, format="csr"), np.concatenate(y), np.concatenate(c))

    def gram(self, v: NDArray[np.float64]) -> NDArray[np.float64]:
        """XᵀCXv, in one pass."""
        out = np.zeros(self.width)
        for X, _, c in self.blocks():
            out += X.T @ (c * (X @ v))
        return out

    def _block(self, batch: Batch) -> Block:
        import scipy.sparse as sp

        batch = batch.check()
        n, end, indptr, width = len(batch), int(batch.indptr[-1]), batch.indptr, self.n_features
        indices, values = batch.indices[:end], batch.values[:end].astype(np.float64, copy=False)
        if self.offset:
            indices, values = np.insert(indices, indptr[1:], width), np.insert(values, indptr[1:], 1.0)
            indptr = indptr + np.arange(n + 1)
        X = sp.csr_matrix((values, indices, indptr), shape=(n, width + self.offset))
        y = np.asarray(batch.y, dtype=np.float64)
        weights = 1.0 if batch.weights is None else batch.weights
        return Block(X, y, np.where(y > 0, self._costs[1], self._costs[0]) * weights)


class RepeatingLearner(BatchLearner):
    """A learner that starts from scratch each time. Subclasses have ``solve``, which ends with ``take``.

    To the solver the constant feature is the last coordinate; kept, as by the others, it is the first.
    """

    selects = True
    draws = False  # whether it needs random numbers
    attributes: ClassVar[dict[str, Any]] = {}  # results in addition to the weights: name → float or np.ndarray
    no_merge = "it goes over all rows again and again; fit it on all of them"

    def start(self) -> None:
        """Nothing is found."""
        self.found: dict[str, Any] = {}

    @property
    def reads(self) -> Reads:
        """In several passes (`learn_from`); rows that cannot be read again may also be held (`learn`, `finish`)."""
        return "again"

    def learn_rows(self, examples: Examples, *, last: bool = True) -> NDArray[Any]:
        """Learns from all rows, from scratch; returns their scores under the final weights."""
        self.require_learnable(examples.n_features)
        X = examples.sparse(np.float64)
        rows = Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=examples.y, weights=examples.weights)
        self.solve(Passes.of(rows, self.costs, bool(self.offset)))
        return self.row_scores(X)

    def learn_from(self, batches: Callable[[], Iterable[Batch]]) -> None:
        """Learn from rows that are read again from the start for each pass."""
        passes = Passes(batches, costs=self.costs, fit_intercept=bool(self.offset), n_features=self.n_features)
        self.require_learnable(passes.n_features)
        self.widen(passes.n_features)
        self.solve(passes)

    def solve(self, passes: Passes) -> None:
        """Finds the weights."""
        raise NotImplementedError

    def take(
        self, passes: Passes, w: NDArray[np.float64], wrong: Any, updates: int, loss: float, **attributes: Any
    ) -> None:
        """Store the weights, the misclassified rows (positives, negatives), the number of updates, and the loss."""
        self.version += 1
        self.w = (np.roll(w, 1) if self.offset else w).astype(self.dtype)
        self.counts[T], self.counts[POSITIVES] = passes.positives + passes.negatives, passes.positives
        self.counts[FALSE_NEGATIVES], self.counts[FALSE_POSITIVES] = wrong
        self.counts[UPDATES], self.cumulative_loss, self.found = updates, loss, attributes

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, what was found included."""
        attributes = {f"found.{name}": np.atleast_1d(value) for name, value in self.found.items()}
        return super().arrays(weights_only=weights_only) | attributes

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and results are the whole state."""
        super().restore_weights(arrays)
        for name, attribute_type in self.attributes.items():
            shape = (1,) if attribute_type is float else arrays[f"found.{name}"].shape[:1]
            array = require_array(arrays, f"found.{name}", shape, np.dtype(np.float64))
            self.found[name] = float(array[0]) if attribute_type is float else array.copy()


# Choosing groups of features by their scores (P1, Eq. 14), and the rows cut to what was chosen: FGM and SBCW.


def best(scores: NDArray[np.float64], r: int, taken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The r features of largest |score| that are not taken, sorted; ties go to the lower number, 0 is never chosen.

    >>> best(np.array([1.0, -3.0, 3.0, 0.0, 2.0]), 2, np.array([False, True, False, False, False]))
    array([2, 4])
    """
    size = np.where(taken, 0.0, np.abs(scores))
    free = np.flatnonzero(size)
    if len(free) > r:
        limit = np.partition(size[free], len(free) - r)[len(free) - r]
        above = free[size[free] > limit]
        free = np.concatenate([above, free[size[free] == limit][: r - len(above)]])
    return np.sort(free)


class Chosen(NamedTuple):
    """Rows (CSR) cut to the chosen features, which are numbered in the order they were chosen."""

    indptr: NDArray[np.int64]
    slots: NDArray[np.int64]
    values: NDArray[np.float64]


def cut(X: Any, slot: NDArray[np.int64]) -> Chosen:
    """The rows of a CSR matrix cut to the features j with slot[j] ≥ 0, which is their new number."""
    where = slot[X.indices]
    kept = where >= 0
    indptr = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
    return Chosen(indptr.astype(np.int64), where[kept], X.data[kept].astype(np.float64))


class GroupLearner(BatchLearner):
    """Common parts of learners that choose groups of features. Some features in a group can end with weight 0."""

    selects = True
    groups: list[NDArray[np.int64]]  # coordinates, in the order of choice

    def support(self) -> NDArray[np.bool_]:
        """The features of the groups."""
        mask = np.zeros(len(self.w), dtype=np.bool_)
        for J in self.groups:
            mask[J] = True
        return mask[self.offset :]

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, groups included."""
        features = np.concatenate([np.empty(0, np.int64), *self.groups])
        own = {"groups.sizes": np.array([len(J) for J in self.groups], dtype=np.int64), "groups.features": features}
        return super().arrays(weights_only=weights_only) | own

    def restore_weights(self, arrays: Arrays) -> None:
        """Weights, counters and groups."""
        super().restore_weights(arrays)
        sizes, features = arrays["groups.sizes"], arrays["groups.features"]
        vectors = all(array.ndim == 1 and array.dtype == np.int64 for array in (sizes, features))
        inside = vectors and (len(features) == 0 or (features.min() >= 0 and features.max() < len(self.w)))
        if not inside or sizes.min(initial=0) < 0 or sizes.sum() != len(features):
            raise ModelFileError("its groups of features contradict each other")
        self.groups = np.split(features, np.cumsum(sizes)[:-1]) if len(sizes) else []
