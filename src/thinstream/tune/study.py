"""Many models on one stream, each with the rows it may learn from and those held out from it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError
from thinstream.evaluate.progress import LabelOrder
from thinstream.lanes import Lanes
from thinstream.tune.tallies import ABSENT, HELD_OUT, LEARNED, Tallies

#: Rows × lanes taken at a time, so that scores and masks stay small.
CELLS = 1 << 20


class Lane(NamedTuple):
    """A model of a study."""

    parameters: Mapping[str, Any]  # of the algorithm
    costs: Costs = Costs()
    fit_intercept: bool = False
    split: int = -1  # which split of the rows it follows; -1: it learns from all
    candidate: int = 0  # lanes of one candidate are its splits; they stay together


class Study:
    """Lanes that learn from one stream, with what they got right and wrong on learned and on held-out rows.

    Rows of weight 0 are counted by nobody. Without roles of its own, row i of the stream is held out from the lanes of
    split i mod ``folds``.

    Parameters
    ----------
    algorithm : str
    lanes : sequence of Lane
    folds : int
        Number of splits; 0 without any.
    n_features, dtype, threads
        As of `Lanes`, which grow with the stream.
    losses : bool
        Whether hinge and log-loss are summed, too (slower).

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([1.0, 1.0]), 1, y=np.array([1, 1], np.int8))
    >>> study = Study("fsol", [Lane({}, split=0), Lane({})], folds=2)
    >>> study.take(rows)
    >>> study.tallies.held_out.counts[0], study.tallies.learned.counts[0]
    (array([1, 0]), array([1, 2]))

    """

    def __init__(
        self,
        algorithm: str,
        lanes: Sequence[Lane],
        *,
        folds: int = 0,
        n_features: int = 0,
        dtype: str = "float32",
        threads: int = 1,
        losses: bool = False,
    ) -> None:
        self.folds, self.rows = folds, 0
        self.lanes = Lanes(
            algorithm,
            [lane.parameters for lane in lanes],
            n_features=n_features,
            dtype=dtype,
            grow=True,
            fit_intercept=[lane.fit_intercept for lane in lanes],
            costs=[lane.costs for lane in lanes],
            threads=threads,
        )
        self.tallies, self.order = Tallies(len(lanes), losses), LabelOrder()
        self._again = False
        self._splits = np.array([lane.split for lane in lanes])

    def take(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """The next rows. ``roles`` (see `tallies`) has a column per split; by default row number mod ``folds``."""
        for rows, each in self._pieces(batch, roles):
            assert rows.y is not None
            weights = (each == LEARNED).astype(np.float64)
            if rows.weights is not None:
                weights *= rows.weights[:, np.newaxis]
            scores = self.lanes.learn(rows, weights=weights)
            if self._again:
                each[each == LEARNED] = ABSENT
            else:
                self.order.update(rows.y)
            self.tallies.update(scores, rows.y, each)
            self.rows += len(rows)

    def again(self) -> None:
        """The same rows come once more: held-out rows are counted anew, those learned before no more."""
        self.rows, self._again = 0, True
        self.tallies.forget(HELD_OUT)

    def score(self, batch: Batch, roles: NDArray[np.int8] | None = None) -> None:
        """Counts rows as held out that are (by the roles), learning nothing: for a second pass over the same rows."""
        for rows, each in self._pieces(batch, roles):
            assert rows.y is not None
            each[each == LEARNED] = ABSENT
            self.tallies.update(self.lanes.scores(rows), rows.y, each)
            self.rows += len(rows)

    def keep(self, lanes: Sequence[int]) -> None:
        """Drops all other lanes and returns their memory."""
        self.lanes.keep(lanes)
        self.tallies.keep(lanes)
        self._splits = self._splits[list(lanes)]

    def _pieces(self, batch: Batch, roles: NDArray[np.int8] | None) -> Any:
        """The rows in pieces, with the role of each row for each lane."""
        if batch.y is None:
            raise InvalidInputError(f"the rows to learn from need labels, row {batch.first_row} has none")
        if batch.y.dtype != np.int8:
            raise InvalidInputError("models are compared on two classes only, these labels are numbers of classes")
        batch = batch.check()
        size = max(CELLS // len(self._splits), 1)
        for start in range(0, len(batch), size):
            stop = min(start + size, len(batch))
            rows = batch if stop - start == len(batch) else batch.until(stop).after(start)
            yield rows, self._roles(rows, None if roles is None else roles[start:stop])

    def _roles(self, rows: Batch, given: NDArray[np.int8] | None) -> NDArray[np.int8]:
        if given is None:
            fold = np.arange(self.rows, self.rows + len(rows)) % max(self.folds, 1)
            each = np.where(fold[:, np.newaxis] == self._splits, HELD_OUT, LEARNED).astype(np.int8)
        else:
            each = np.where(self._splits < 0, LEARNED, given[:, self._splits]).astype(np.int8)
        if rows.weights is not None:
            each[rows.weights == 0] = ABSENT
        return each
