"""A blend: models of a portfolio learn the same rows in one pass, and a head learns what they are worth together.

Specification §15. A row is scored by all models before any of them learns it; the head makes one score of theirs, z,
learns too, and the models go on. At any time the blend is one linear model, v = Σ (w_k/m_k)·v_k.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.blend.head import Head
from thinstream.blend.portfolio import PORTFOLIO, Member
from thinstream.engine.loop import FALSE_NEGATIVES, FALSE_POSITIVES, POSITIVES, UPDATES, Costs, T
from thinstream.lanes import Lanes
from thinstream.learners import Learner
from thinstream.learners.learner import EQUAL_COSTS, SingleModel, dtype_of, require_range, require_signs
from thinstream.learners.protocol import ReadsOnce

#: Rows after which a model that is worth nothing may be left out for the first time; then whenever they have doubled.
FIRST_LOOK = 1 << 12
#: A share of the blend that is worth nothing, found at two looks in a row.
WORTH = 0.005
#: Non-zeros all models learn before the head does: they are still in the cache, and scores take little room.
BLOCK = 1 << 18


class Blend(ReadsOnce, SingleModel):
    """Models that learn along, and their head.

    Parameters
    ----------
    portfolio : sequence of Member
        The models.
    n_features, costs, dtype, grow, fit_intercept
        As of a `Learner`, for all models; the head has the costs, too.
    drop : bool
        Whether models without a share of the blend are left out as the stream goes on.
    threads : int
        Threads a call may use.

    Examples
    --------
    >>> from thinstream.blend.portfolio import Member
    >>> rows = Batch.of(np.arange(5), np.array([0, 1, 0, 1]), np.ones(4), 2, y=np.array([-1, 1, -1, 1], np.int8))
    >>> model = Blend([Member("fsol", {}), Member("arow", {})], n_features=2, dtype="float64")
    >>> model.learn(rows).round(2)
    array([0., 0., 0., 6.])
    >>> model.weights()[0] < 0 < model.weights()[1]
    np.True_

    """

    weights_only = has_variance = False

    def __init__(
        self,
        portfolio: Sequence[Member] = PORTFOLIO,
        *,
        n_features: int,
        costs: Costs = EQUAL_COSTS,
        dtype: str = "float32",
        grow: bool = False,
        fit_intercept: bool = False,
        drop: bool = True,
        threads: int = 1,
    ) -> None:
        self.dtype, self.costs, self.offset = dtype_of(dtype, "a blend"), costs, int(fit_intercept)
        self.drop, self.threads = drop, threads
        algorithms = list(dict.fromkeys(member.algorithm for member in portfolio))
        self.members = [member for name in algorithms for member in portfolio if member.algorithm == name]
        self._runs = [
            Lanes(
                name,
                [member.parameters for member in self.members if member.algorithm == name],
                n_features=n_features,
                dtype=self.dtype.name,
                grow=grow,
                fit_intercept=fit_intercept,
                costs=[costs] * sum(member.algorithm == name for member in self.members),
            )
            for name in algorithms
        ]
        self.head = Head(len(self.members), costs)
        self.counts = np.zeros(5, np.int64)
        self.mistakes = np.zeros(len(self.members), np.int64)  # of each model
        self.weak = np.zeros(len(self.members), np.bool_)  # which were worth nothing at the last look
        self.version = 0

    # Learning and predicting ------------------------------------------------------------------------------------------

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Takes the examples in order; returns the blend's score of each before its update.

        A model that cannot go on (its numbers would not be finite) is out of the blend from there on.
        """
        batch = batch.check()
        require_signs(batch)
        require_range(batch, self.dtype)
        self.version += 1
        found = [self._learn(rows) for rows in self._pieces(batch)]
        return np.concatenate(found).astype(self.dtype) if scores else np.empty(0, self.dtype)

    def _learn(self, rows: Batch) -> NDArray[np.float64]:
        y = require_signs(rows)
        each = self._each(lambda lanes: lanes.learn(rows), len(rows))
        z = self.head.learn(each, y, rows.weights)
        counts = np.ones(len(rows), np.bool_) if rows.weights is None else rows.weights != 0.0
        positive, called = y[counts] > 0, z[counts] > 0.0
        self.counts[T] += len(positive)
        self.counts[UPDATES] += len(positive)
        self.counts[POSITIVES] += np.count_nonzero(positive)
        self.counts[FALSE_NEGATIVES] += np.count_nonzero(positive & ~called)
        self.counts[FALSE_POSITIVES] += np.count_nonzero(called & ~positive)
        with np.errstate(invalid="ignore"):
            self.mistakes += np.count_nonzero((each[counts] > 0.0) != positive[:, np.newaxis], axis=0)
        if self.drop and self.t == self._next_look(self.t):
            self._look()
        return z

    def _each(self, run: Any, rows: int) -> NDArray[Any]:
        """Scores of every model, rows × models."""
        if self.threads == 1 or len(self._runs) == 1:
            found = [run(lanes) for lanes in self._runs]
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                found = list(pool.map(run, self._runs))
        return np.concatenate(found, axis=1) if found else np.empty((rows, 0))

    def _pieces(self, batch: Batch) -> Iterator[Batch]:
        """The rows in pieces that end where models may be left out."""
        seen = np.arange(len(batch) + 1) if batch.weights is None else np.append(0, np.cumsum(batch.weights != 0.0))
        start, first = 0, self.t
        while True:
            stop = max(int(np.searchsorted(batch.indptr, batch.indptr[start] + BLOCK, side="right")) - 1, start + 1)
            look = self._next_look(first + int(seen[start]) + 1) - first
            stop = min(stop, int(np.searchsorted(seen, look)), len(batch))
            yield batch.until(stop).after(start)
            if stop == len(batch):
                return
            start = stop

    @staticmethod
    def _next_look(t: int) -> int:
        """The first look at or after row t.

        >>> [Blend._next_look(t) for t in (1, 4096, 4097, 9000)]
        [4096, 4096, 8192, 16384]
        """
        return max(FIRST_LOOK, 1 << (t - 1).bit_length()) if t > 0 else FIRST_LOOK

    def _look(self) -> None:
        """Leaves out who is worth nothing, and was when the stream was half as long; one model stays in any case."""
        share = self.head.share()
        worthless = (share < WORTH) | self.head.gone
        going = worthless & self.weak
        going[np.argmax(share)] = False
        self.weak = worthless
        if going.any():
            self.keep(np.flatnonzero(~going))

    def keep(self, models: NDArray[np.intp]) -> None:
        """Goes on with these models alone; the memory of others is returned."""
        runs, first = [], 0
        for lanes in self._runs:
            here = [int(k) - first for k in models if first <= k < first + len(lanes)]
            first += len(lanes)
            if here:
                lanes.keep(here)
                runs.append(lanes)
        self._runs, self.head = runs, self.head.keep(models)
        self.members = [self.members[k] for k in models]
        self.mistakes, self.weak = self.mistakes[models], self.weak[models]

    def scores(self, batch: Batch) -> NDArray[Any]:
        """The blend's, v·x + b. Nothing changes."""
        batch = batch.check().narrowed(self.n_features)
        each = self._each(lambda lanes: lanes.scores(batch), len(batch)).astype(np.float64)
        coefficients = self.head.coefficients()
        there = coefficients != 0.0
        found: NDArray[Any] = each[:, there] @ coefficients[there]
        return found.astype(self.dtype)

    # Reading ----------------------------------------------------------------------------------------------------------

    @property
    def lanes(self) -> Iterator[Learner]:
        """The models, each a copy."""
        return (model for lanes in self._runs for model in lanes)

    def weights(self) -> NDArray[Any]:
        """Of the blend, v, dense."""
        total = np.zeros(self.n_features)
        for coefficient, model in zip(self.head.coefficients(), self.lanes, strict=True):
            if coefficient != 0.0:
                total += coefficient * model.weights()
        return total.astype(self.dtype)

    def sparse_weights(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Features of non-zero weight, and their weights."""
        weights = self.weights()
        where = np.flatnonzero(weights)
        return where, weights[where]

    @property
    def intercept(self) -> float:
        """Of the blend, b."""
        models = zip(self.head.coefficients(), self.lanes, strict=True)
        return float(sum(coefficient * model.intercept for coefficient, model in models if coefficient != 0.0))

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Width of the models."""
        return self._runs[0].n_features

    @property
    def grow(self) -> bool:
        """Whether a wider batch extends the models instead of raising."""
        return self._runs[0].grow

    @grow.setter
    def grow(self, grow: bool) -> None:
        for lanes in self._runs:
            lanes.grow = grow

    @property
    def nnz(self) -> int:
        """Non-zero weights, the intercept not counted."""
        return int(np.count_nonzero(self.weights()))

    @property
    def cumulative_loss(self) -> float:
        """Sum of the logarithmic loss of rows before they were learned, costs and weights included."""
        return float(self.head.loss[0])

    def _counts(self) -> NDArray[np.int64]:
        return self.counts
