"""A learner that keeps state for the features that occur only: all above it meet feature numbers, it meets slots."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.compact.moving import moved, touched_features
from thinstream.compact.sizes import require_room
from thinstream.compact.table import SlotTable
from thinstream.errors import InvalidInputError, TooWideError
from thinstream.learners.learner import require_range
from thinstream.learners.limits import physical_memory
from thinstream.learners.protocol import AnyLearner, OneModel, ReadsOnce
from thinstream.preparing import preparation_of


def _of_inner(name: str) -> Any:
    """What the learner inside has under the name."""
    return property(lambda self: getattr(self.inner, name))


class CompactLearner(ReadsOnce):
    """An online learner on slots, and the slots that feature numbers have; it is taken over, not copied.

    Scores, weights and counters have the bits of a learner that is ``n_features`` wide.

    Parameters
    ----------
    inner : AnyLearner
        As wide as there are slots.
    table : SlotTable
    n_features : int
        The width it answers to: all numbers are below it.
    grow : bool
        Whether a wider batch extends it instead of raising.

    Examples
    --------
    >>> from thinstream.learners import Learner
    >>> rows = Batch.of(np.arange(3), np.array([7, 4_000_000]), np.ones(2), 1 << 22, y=np.array([-1, 1], np.int8))
    >>> model = compacted(Learner("fsol", n_features=0, grow=True))
    >>> _ = model.learn(rows)
    >>> model.n_features, model.inner.weights(), next(iter(model.models)).sparse_weights()
    (4194304, array([ 0., -1.,  1.], dtype=float32), (array([      7, 4000000]), array([-1.,  1.], dtype=float32)))

    """

    may_be_whole = True  #: whether it is the same learner without slots

    algorithm: Any = _of_inner("algorithm")
    parameters: Any = _of_inner("parameters")
    dtype: Any = _of_inner("dtype")
    offset: Any = _of_inner("offset")
    weights_only: Any = _of_inner("weights_only")
    has_variance: Any = _of_inner("has_variance")
    nnz: Any = _of_inner("nnz")
    t: Any = _of_inner("t")
    n_mistakes: Any = _of_inner("n_mistakes")
    n_updates: Any = _of_inner("n_updates")
    cumulative_loss: Any = _of_inner("cumulative_loss")

    def __init__(self, inner: Any, table: Any, n_features: int, grow: bool) -> None:
        self.inner, self.table, self.n_features, self.grow = inner, table, n_features, grow
        inner.grow = True

    @property
    def n_weights(self) -> int:
        """Weights there are, zero or not, of features that occurred or not."""
        return int(self.n_features * (self.inner.n_weights // self.inner.n_features))

    @property
    def models(self) -> Iterable["CompactModel"]:
        """A model for each row of ``coef_``."""
        return (CompactModel(one, self.table, self.n_features, self.grow) for one in self.inner.models)

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update.

        Bad input raises before anything is learned.
        """
        batch = self._checked(batch)
        self._require_width(batch)
        rows = self.table.admit(batch)
        if rows.n_features > self.inner.n_features:
            require_room(self.inner, rows.n_features)
        found: NDArray[Any] = self.inner.learn(rows, scores)
        self.n_features = max(self.n_features, batch.n_features)
        return found

    def scores(self, batch: Batch) -> NDArray[Any]:
        """The score of each row. Nothing changes."""
        found: NDArray[Any] = self.inner.scores(self.rows(batch))
        return found

    def rows(self, batch: Batch) -> Batch:
        """The rows as the learner inside scores them."""
        found: Batch = self.table.find(self._checked(batch), self.n_features)
        return found

    def _require_width(self, batch: Batch) -> None:
        if batch.n_features > self.n_features and not self.grow:
            raise InvalidInputError(
                f"X has {batch.n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )

    def _checked(self, batch: Batch) -> Batch:
        """The rows, if they are sound: said of the numbers that the caller knows."""
        batch, preparation = batch.check(), preparation_of(self.inner)
        preparation.require_range(batch, self.dtype) if preparation else require_range(batch, self.dtype)
        return batch

    # Reading ----------------------------------------------------------------------------------------------------------

    def weights(self) -> NDArray[Any]:
        """Weights of all numbers, dense."""
        return self._spread(self.inner.weights())

    def variance(self) -> NDArray[Any]:
        """σ of every number; of one that did not occur as the algorithm begins with it."""
        return self._spread(self.inner.variance())

    def _spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of slots as values of numbers, nobody's for all others."""
        size, have = values.itemsize * self.n_weights, physical_memory()
        if size > 0.7 * have:
            raise TooWideError(
                f"a number for each of {self.n_features:,} features takes {size / 1e9:,.1f} GB, this machine has "
                f"{have / 1e9:,.1f} GB; sparse weights have those that are not 0 only (sparsify(), thinstream export)"
            )
        each = values.reshape(*values.shape[:-1], -1, self.inner.n_features)  # a vector for each kind of rows
        found = np.empty((*each.shape[:-1], self.n_features), values.dtype)
        found[...] = each[..., :1]
        numbers = self._numbers()
        used = numbers >= 0
        found[..., numbers[used]] = each[..., 1:][..., used]
        return found.reshape(*values.shape[:-1], -1)

    def _numbers(self) -> NDArray[np.int64]:
        """Of the slots from 1 on that the learner inside knows of: rows that it refused may have had more."""
        numbers: NDArray[np.int64] = self.table.numbers[: self.inner.n_features - 1]
        return numbers

    def in_order(self) -> "CompactLearner":
        """A copy whose slots are in the order of their numbers."""
        numbers = self._numbers()
        numbers = np.sort(numbers[numbers >= 0])
        return self.around(self.with_numbers(numbers), numbers)

    def with_numbers(self, numbers: NDArray[np.int64]) -> Any:
        """A copy of the learner inside, with the slots that ``numbers``, sorted and its own among them, have there."""
        own = self._numbers()
        where = np.where(own >= 0, 1 + np.searchsorted(numbers, own), -1)
        return moved(self.inner, np.concatenate([[-1], where]), len(numbers) + 1)

    def around(self, inner: Any, numbers: NDArray[np.int64] | None = None) -> "CompactLearner":
        """One like it around another learner, whose slots from 1 on are of these numbers, or of its own."""
        return compact_learner(inner, self.table.numbers if numbers is None else numbers, self.n_features, self.grow)

    def whole(self) -> Any:
        """A copy on feature numbers, as wide as they are."""
        found = moved(self.inner, np.concatenate([[-1], self._numbers()]), self.n_features)
        found.grow = self.grow
        return found


class CompactModel(CompactLearner):
    """A `CompactLearner` of two classes, or of one against the rest."""

    costs: Any = _of_inner("costs")
    intercept: Any = _of_inner("intercept")
    n_positives: Any = _of_inner("n_positives")

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""
        where, values = self.inner.sparse_weights()
        vector, slot = np.divmod(where, self.inner.n_features)
        numbers = vector * self.n_features + self.table.numbers[slot - 1]
        order = np.argsort(numbers)
        return numbers[order], values[order]


def compacted(learner: AnyLearner) -> CompactLearner:
    """A copy that keeps state for the features whose state an example has changed only."""
    numbers = touched_features(learner)
    where = np.full(learner.n_features, -1, np.int64)
    where[numbers] = np.arange(1, len(numbers) + 1)
    return compact_learner(moved(learner, where, len(numbers) + 1), numbers, learner.n_features, learner.grow)


def merged(inner: Any, numbers: NDArray[np.int64], n_features: int, grow: bool) -> CompactLearner:
    """`compact_learner` around what was merged: clocks of a slot that is nobody's are as they begin."""
    where = np.concatenate([[-1], np.arange(1, len(numbers) + 1)])
    return compact_learner(moved(inner, where, len(where)), numbers, n_features, grow)


def compact_learner(inner: Any, numbers: NDArray[np.int64], n_features: int, grow: bool) -> CompactLearner:
    """The learner around one whose slots from 1 on are of these numbers."""
    kind = CompactModel if isinstance(inner, OneModel) else CompactLearner
    return kind(inner, SlotTable.of(numbers), n_features, grow)


def on_common_slots(learners: Sequence[AnyLearner]) -> tuple[NDArray[np.int64], list[Any]]:
    """The numbers that any learner has, sorted, and copies of the learners inside, with slots in that order."""
    each = [learner if isinstance(learner, CompactLearner) else compacted(learner) for learner in learners]
    numbers = np.unique(np.concatenate([learner.table.numbers for learner in each]))
    numbers = numbers[numbers >= 0]
    return numbers, [learner.with_numbers(numbers) for learner in each]


def narrow_learner(learner: Any) -> Any:
    """The learner that keeps the state, on slots where it is compact."""
    return learner.inner if isinstance(learner, CompactLearner) else learner


def whole(learner: Any) -> Any:
    """The learner itself, or one on feature numbers in place of a compact one."""
    return learner.whole() if isinstance(learner, CompactLearner) else learner
