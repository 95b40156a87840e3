"""A learner that prepares the rows it is given: all above it meet rows and weights in the caller's units."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine import rule as rules
from thinstream.errors import InvalidParameterError, NumericalError
from thinstream.growing import Growing
from thinstream.learners.learner import row_blocks
from thinstream.learners.protocol import AnyLearner, OneModel, ReadsOnce
from thinstream.one_vs_rest import OneVsRest, class_numbers
from thinstream.preparing.preparation import Preparation

#: Non-zeros prepared at a time: they are learned while they are in the cache.
BLOCK = 1 << 17


def _of_inner(name: str) -> Any:
    """What the learner inside has under the name."""
    return property(lambda self: getattr(self.inner, name))


class PreparedLearner(ReadsOnce):
    """An online learner, and how rows are prepared for it; it is taken over, not copied.

    Weights and variances are in the units of the caller: v_j/m_j and σ_j/m_j². With ``normalize`` the score of a row is
    weights·x over the length of the (scaled) row, plus the intercept.

    Examples
    --------
    >>> from thinstream.learners import Learner
    >>> rows = Batch.of(np.arange(3), np.arange(2), np.array([2.0, 400.0]), 2, y=np.array([-1, 1], np.int8))
    >>> model = prepared(Learner("fsol", n_features=2), Preparation("max"))
    >>> _ = model.learn(rows)
    >>> model.inner.weights(), model.weights()
    (array([-1.,  1.], dtype=float32), array([-0.5   ,  0.0025], dtype=float32))

    """

    algorithm: Any = _of_inner("algorithm")
    parameters: Any = _of_inner("parameters")
    dtype: Any = _of_inner("dtype")
    offset: Any = _of_inner("offset")
    weights_only: Any = _of_inner("weights_only")
    has_variance: Any = _of_inner("has_variance")
    n_weights: Any = _of_inner("n_weights")
    nnz: Any = _of_inner("nnz")
    t: Any = _of_inner("t")
    n_mistakes: Any = _of_inner("n_mistakes")
    n_updates: Any = _of_inner("n_updates")
    cumulative_loss: Any = _of_inner("cumulative_loss")

    def __init__(self, inner: Any, preparation: Preparation) -> None:
        self.inner, self.preparation = inner, preparation
        preparation.widen(inner.n_features)
        rule = inner._rule if isinstance(inner, OneVsRest) else inner.rule
        stops = getattr(type(rule), "stopped", None)
        self._may_stop = stops is not None and stops.__module__ != rules.__name__  # for good, in the middle of a stream

    @property
    def n_features(self) -> int:
        """Features of the rows it is given."""
        return int(self.inner.n_features) // self.preparation.vectors

    @property
    def grow(self) -> bool:
        """Whether a wider batch extends the model instead of raising."""
        return bool(self.inner.grow)

    @grow.setter
    def grow(self, grow: bool) -> None:
        self.inner.grow = grow

    @property
    def models(self) -> Iterable["PreparedModel"]:
        """A model for each row of ``coef_``."""
        return (PreparedModel(one, self.preparation) for one in self.inner.models)

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the score of each before its update.

        Bad input raises before anything is learned. Where a row cannot be learned, the scales are those of the rows
        before it, as the model is.
        """
        batch = batch.check()
        if isinstance(self.inner, OneVsRest) and not isinstance(self.inner, Growing):
            class_numbers(batch, len(self.inner))
        if batch.n_features > self.inner.n_features:  # refused, where it is, before the scales get room
            self.inner.learn(replace(batch.until(0), largest=0.0), scores=False)
            self.preparation.widen(self.inner.n_features)
        found = [self._learn(rows, scores) for rows in self._blocks(batch)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _learn(self, rows: Batch, scores: bool) -> NDArray[Any]:
        seen = self.inner.t if self._may_stop else 0
        ready, before = self.preparation.learn(rows, self.dtype)
        try:
            out: NDArray[Any] = self.inner.learn(ready, scores)
        except NumericalError as error:
            row = error.row - rows.first_row
            if isinstance(self.inner, OneVsRest):  # its other models have learned all of the piece
                row = next(stop for _, stop in self.inner._cuts(rows) if row < stop)
            self.preparation.take_back(rows, before, row)
            raise
        except BaseException:
            self.preparation.take_back(rows, before)
            raise
        if self._may_stop:
            present = np.arange(len(rows)) if rows.weights is None else np.flatnonzero(rows.weights)
            done = self.inner.t - seen
            if done < len(present):  # it has stopped for good: rows from here on are scored, no more
                stop = int(present[done])
                self.preparation.take_back(rows, before, stop)
                if scores:
                    out[stop:] = self.scores(rows.after(stop))
        return out

    def _blocks(self, batch: Batch) -> Iterator[Batch]:
        """The rows a piece at a time; classes that come later are met in a batch as a whole."""
        if isinstance(self.inner, Growing):
            yield batch
            return
        for start, stop in row_blocks(batch, BLOCK):
            yield batch if stop - start == len(batch) else batch.until(stop).after(start)

    def scores(self, batch: Batch) -> NDArray[Any]:
        """The score of each row, prepared with the scales as they stand. Nothing changes."""
        found: NDArray[Any] = self.inner.scores(self.preparation.apply(batch.check(), self.dtype))
        return found

    # Reading ----------------------------------------------------------------------------------------------------------

    def weights(self) -> NDArray[Any]:
        """Weights in the caller's units, dense."""
        return self._in_units(self.inner.weights(), self._divisors())

    def variance(self) -> NDArray[Any]:
        """σ of every weight in the caller's units; of a feature never learned as the algorithm begins with it."""
        m = self._divisors()
        m[m == 0.0] = 1.0
        return self._in_units(self.inner.variance(), m, m)

    def _divisors(self) -> NDArray[np.float64]:
        return self.preparation.divisors(self.n_features)

    def _in_units(self, values: NDArray[Any], *divisors: NDArray[np.float64]) -> NDArray[Any]:
        """Values over divisors, 0 where these are."""
        if not self.preparation.is_scaled:
            return values
        found = values.astype(np.float64)
        with np.errstate(over="ignore"):
            for m in divisors:
                found = np.divide(found, m, out=np.zeros_like(found), where=m > 0.0)
            found = found.astype(self.dtype)
        if not np.isfinite(found).all():
            raise NumericalError(
                f"{self.algorithm.name}: in the units of its feature a weight or variance is not finite in "
                f"{self.dtype.name}; dtype='float64' holds it"
            )
        return found


class PreparedModel(PreparedLearner):
    """A `PreparedLearner` of two classes, or of one against the rest."""

    costs: Any = _of_inner("costs")
    intercept: Any = _of_inner("intercept")
    n_positives: Any = _of_inner("n_positives")

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights in the caller's units."""
        where, values = self.inner.sparse_weights()
        return where, self._in_units(values, self._divisors()[where])


def prepared(learner: AnyLearner, preparation: Preparation) -> Any:
    """The learner with rows prepared; itself where nothing is to be done."""
    if not preparation:
        return learner
    if learner.reads != "once" or learner.algorithm.kind == "batch":
        raise InvalidParameterError(
            f"{learner.algorithm.name} takes many rows at once; scale and normalize are for learners that take one "
            "after another"
        )
    kind = PreparedModel if isinstance(learner, OneModel) else PreparedLearner
    return kind(learner, preparation)


def preparation_of(learner: Any) -> Preparation:
    """How rows are prepared for a learner."""
    return learner.preparation if isinstance(learner, PreparedLearner) else Preparation()


def plain_learner(learner: Any) -> Any:
    """The learner without its preparation."""
    return learner.inner if isinstance(learner, PreparedLearner) else learner
