"""How the error grows as weights are left out, on rows that a model has not learned; and how many to keep."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.importances import POWERS, importance
from thinstream.blend.serving import served
from thinstream.compact import CompactLearner
from thinstream.errors import InvalidInputError
from thinstream.learners.protocol import AnyLearner
from thinstream.models.model import Model
from thinstream.preparing import plain_learner, preparation_of

#: Sizes looked at between n and ten times n.
PER_DECADE = 16
#: Scores (rows × classes × sizes) that are held at a time.
SCORES = 1 << 22


class Choice(NamedTuple):
    """How many weights to keep, and of which importance."""

    n: int
    power: float
    error: float  # of the thin model
    lowest: float  # of the best on the curve
    standard_error: float  # of that


class Curve(NamedTuple):
    """Rows called wrong with the most important weights only.

    The smallest size within one standard error of the best, over all importances, is the one to take; of several
    importances at that size the one with the lowest error.

    >>> Curve((0.0, 1.0), np.array([1, 10, 100]), np.array([[40, 22, 20], [30, 26, 20]]), 100).choice
    Choice(n=10, power=0.0, error=0.22, lowest=0.2, standard_error=0.04)
    """

    powers: tuple[float, ...]
    sizes: NDArray[np.int64]
    wrong: NDArray[np.int64]  # powers × sizes
    rows: int

    @property
    def errors(self) -> NDArray[np.float64]:
        """Shares of rows called wrong, powers × sizes."""
        return self.wrong / self.rows

    @property
    def choice(self) -> Choice:
        """The smallest model within one standard error of the best."""
        errors = self.errors
        lowest = float(errors.min())
        spread = float(np.sqrt(lowest * (1.0 - lowest) / self.rows))
        return self._at(int(np.argmax((errors <= lowest + spread).any(axis=0))), lowest, spread)

    def at(self, n: int) -> Choice:
        """The best importance of that size, one of `sizes`."""
        return self._at(int(np.flatnonzero(self.sizes == n)[0]), float(self.errors.min()), 0.0)

    def _at(self, k: int, lowest: float, spread: float) -> Choice:
        power = int(np.argmin(self.wrong[:, k]))
        return Choice(int(self.sizes[k]), self.powers[power], float(self.errors[power, k]), lowest, spread)


def measured(
    model: Model,
    batches: Iterable[Batch],
    sizes: Iterable[int] | None = None,
    powers: tuple[float, ...] = POWERS,
) -> Curve:
    """The curve of a model on labelled rows, in one pass; by default of sizes from 1 to all non-zero weights.

    Rows of weight 0 are left out, others count alike.
    """
    if isinstance(model.learner, CompactLearner):
        ordered = model.learner.in_order()
        return measured(replace(model, learner=ordered.inner), map(ordered.rows, batches), sizes, powers)
    whole = served(model.learner)
    learner = plain_learner(whole)
    weights = np.atleast_2d(np.asarray(learner.weights(), np.float64))
    looked_at = np.array(list(all_sizes(learner.nnz)) if sizes is None else sorted(sizes), np.int64)
    levels = [_levels(weights, importance(model.learner, power), looked_at) for power in powers]
    intercepts = np.array([one.intercept for one in learner.models])
    wrong, rows = np.zeros((len(powers), len(looked_at)), np.int64), 0
    for batch in _pieces(batches, len(weights) * (len(looked_at) + 1)):
        ready = _as_scored(whole, batch)
        y = _class_numbers(batch)
        for power, level in enumerate(levels):
            scores = _scores(ready, weights, level, len(looked_at)) + intercepts[:, None]
            for k in range(len(looked_at)):
                said = model.chosen(scores[:, 0, k] if model.classes.are_two else scores[:, :, k])
                wrong[power, k] += np.count_nonzero(said != y)
        rows += len(batch)
    if not rows:
        raise InvalidInputError("thin: there is no row to choose on")
    return Curve(powers, looked_at, wrong, rows)


def all_sizes(nnz: int) -> Iterator[int]:
    """From 1 to all non-zero weights, `PER_DECADE` at most between n and ten times n.

    >>> list(all_sizes(20))
    [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 15, 18, 20]
    """
    k, last = 0, 0
    while last < nnz:
        size = min(round(10 ** (k / PER_DECADE)), nnz)
        if size > last:
            yield size
        k, last = k + 1, max(last, size)


def _levels(weights: NDArray[np.float64], found: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each weight the number of the smallest size that has it; that of none is the number of sizes."""
    there = np.flatnonzero(weights)
    order = there[np.argsort(-found.ravel()[there], kind="stable")]
    levels = np.full(weights.size, len(sizes), np.int64)
    levels[order] = np.searchsorted(sizes, np.arange(len(order)), side="right")
    return levels.reshape(weights.shape)


def _pieces(batches: Iterable[Batch], wide: int) -> Iterator[Batch]:
    """Rows that count, not more at a time than there is room for the scores of."""
    step = max(SCORES // wide, 1)
    for batch in batches:
        if batch.weights is not None:
            batch = batch.take(np.flatnonzero(batch.weights))
        for start in range(0, len(batch), step):
            yield batch.until(min(start + step, len(batch))).after(start)


def _as_scored(learner: AnyLearner, batch: Batch) -> Batch:
    """The rows as the learner inside meets them."""
    checked, preparation = batch.check(), preparation_of(learner)
    return (preparation.apply(checked, learner.dtype) if preparation else checked).narrowed(
        plain_learner(learner).n_features
    )


def _class_numbers(batch: Batch) -> NDArray[np.int64]:
    y = batch.require_labels("thin on")
    return np.asarray(y > 0 if y.dtype == np.int8 else y, np.int64)


def _scores(rows: Batch, weights: NDArray[np.float64], levels: NDArray[np.int64], sizes: int) -> NDArray[np.float64]:
    """Without intercept, rows × classes × sizes."""
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr)) * (sizes + 1)
    found = np.empty((len(rows), len(weights), sizes))
    for k, (w, level) in enumerate(zip(weights, levels, strict=True)):
        parts = np.bincount(owner + level[rows.indices], w[rows.indices] * rows.values, len(rows) * (sizes + 1))
        found[:, k] = np.cumsum(parts.reshape(len(rows), sizes + 1)[:, :sizes], axis=1)
    return found
