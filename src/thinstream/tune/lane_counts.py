"""What is counted of many lanes at once: mistakes on rows before they were learned, and on rows held out."""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.evaluate.tally import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    HINGE,
    LOG_LOSS,
    POSITIVES,
    ROWS,
    SEEN,
    ClassTally,
    Tally,
)
from thinstream.jit import compiled

if TYPE_CHECKING:
    from thinstream.lanes.cuda.counting import Held

#: What a row is to a lane: held out (scored only), learned (scored before), or not there at all.
HELD_OUT, LEARNED, ABSENT = 0, 1, -1

#: Beside the sums of losses: that of the squares of the logarithmic one, for its standard error.
SQUARES = 2

_NO_BINS = np.zeros((2, 0), dtype=np.int64)


class LaneCounts(NamedTuple):
    """Counts and sums per model, as `Tally` and `ClassTally` have them for one; no bins, so no AUC.

    Of two classes a model has four counts, of more three for each class: rows of it, called it, and both.
    """

    counts: NDArray[np.int64]  # [count, lane]
    totals: NDArray[np.float64]  # [loss, lane]; zeros unless losses were asked for

    @classmethod
    def nothing(cls, lanes: int, classes: int = 2) -> "LaneCounts":
        """For models that have seen no row."""
        return cls(np.zeros((4 if classes == 2 else 3 * classes, lanes), np.int64), np.zeros((3, lanes)))

    @property
    def are_two(self) -> bool:
        """Whether there are two classes."""
        return len(self.counts) == 4

    @property
    def rows(self) -> NDArray[np.int64]:
        """How many each model was counted on."""
        found: NDArray[np.int64] = self.counts[ROWS] if self.are_two else self.by_class[SEEN].sum(axis=0)
        return found

    @property
    def by_class(self) -> NDArray[np.int64]:
        """Of more than two classes: [rows of it, called it, both; class; lane]."""
        return self.counts.reshape(3, -1, self.counts.shape[1])

    def take(self, lanes: Any) -> "LaneCounts":
        """Those of some lanes."""
        return LaneCounts(np.ascontiguousarray(self.counts[:, lanes]), np.ascontiguousarray(self.totals[:, lanes]))

    def put(self, lanes: Any, these: "LaneCounts") -> None:
        """Some lanes get these."""
        self.counts[:, lanes], self.totals[:, lanes] = these.counts, these.totals

    def minus(self, earlier: "LaneCounts") -> "LaneCounts":
        """What was counted since."""
        return LaneCounts(self.counts - earlier.counts, self.totals - earlier.totals)

    def pooled(self, groups: NDArray[np.int64], n: int) -> "LaneCounts":
        """The sums over groups of lanes; a group below 0 counts nowhere."""
        found = LaneCounts(np.zeros((len(self.counts), n), np.int64), np.zeros((len(self.totals), n)))
        member = groups >= 0
        for sums, numbers in zip(found, self, strict=True):
            for total, row in zip(sums, numbers, strict=True):
                np.add.at(total, groups[member], row[member])
        return found

    def report(self, lane: int, tradeoff: Tradeoff = P3) -> Report:
        """All metrics of a lane; the AUC is NaN."""
        if not self.are_two:
            return ClassTally.of_counts(self.by_class[:, :, lane]).report(tradeoff)
        return Tally(self.counts[:, lane], self.totals[:SQUARES, lane], _NO_BINS).report(tradeoff)


@compiled(Tally.__module__)
def _count(scores: Any, y: Any, roles: Any, counts: Any, totals: Any, losses: Any) -> None:
    """``roles`` has a column per lane; counts and totals are [role, what, lane]."""
    for i in range(len(y)):
        positive = y[i] > 0
        for lane in range(scores.shape[1]):
            role = roles[i, lane]
            learned, held_out = np.int64(role == LEARNED), np.int64(role == HELD_OUT)
            # NaN, the score of a lane that failed, is wrong about either class
            missed = np.int64(positive & (not scores[i, lane] > 0))
            false = np.int64((not positive) & (not scores[i, lane] <= 0))
            counts[LEARNED, ROWS, lane] += learned
            counts[HELD_OUT, ROWS, lane] += held_out
            counts[LEARNED, POSITIVES, lane] += learned & positive
            counts[HELD_OUT, POSITIVES, lane] += held_out & positive
            counts[LEARNED, FALSE_NEGATIVES, lane] += learned & missed
            counts[HELD_OUT, FALSE_NEGATIVES, lane] += held_out & missed
            counts[LEARNED, FALSE_POSITIVES, lane] += learned & false
            counts[HELD_OUT, FALSE_POSITIVES, lane] += held_out & false
        if losses:
            for lane in range(scores.shape[1]):
                role = roles[i, lane]
                if role >= 0:
                    margin = y[i] * np.float64(scores[i, lane])
                    totals[role, HINGE, lane] += max(0.0, 1.0 - margin)
                    log_loss = max(0.0, -margin) + np.log1p(np.exp(-np.abs(margin)))
                    totals[role, LOG_LOSS, lane] += log_loss
                    totals[role, SQUARES, lane] += log_loss * log_loss


class LaneTallies:
    """The counts of models of two classes, kept up to date row by row: any way of cutting a stream gives the same bits.

    >>> tallies = LaneTallies(2)
    >>> scores = np.array([[1.0, -1.0], [0.5, -2.0]])
    >>> tallies.update(scores, np.array([1, -1], np.int8), np.array([[1, 0], [1, 0]], np.int8))
    >>> tallies.learned.report(0).error, tallies.held_out.report(1).sensitivity
    (0.5, 0.0)
    """

    _classes = 2

    def __init__(self, lanes: int, losses: bool = False) -> None:
        self.losses = losses
        nothing = LaneCounts.nothing(lanes, self._classes)
        self._counts: NDArray[np.int64] = np.stack([nothing.counts] * 2)
        self._totals: NDArray[np.float64] = np.stack([nothing.totals] * 2)
        self._there: Held | None = None  # the same on a device, where they are counted there

    def update(self, scores: NDArray[Any], y: NDArray[np.int8], roles: NDArray[np.int8]) -> None:
        """The next rows: scores and roles with a column per lane."""
        _count(np.ascontiguousarray(scores), y, roles, self._counts, self._totals, self.losses)

    def update_on_device(self, scores: Any, y: Any, roles: Any, role_of: NDArray[np.int32], models: Any) -> None:
        """The same of some models, with arrays on a device; ``role_of`` has the column of each there is in ``roles``.

        What was counted stays there until it is asked for.
        """
        if self._there is None:
            from thinstream.lanes.cuda.counting import Held  # which needs an optional package

            self._there = Held(self._by_model(self._counts), self._totals)
        self._there.count(self._function, models, scores, y, roles, role_of, self.losses)

    #: What counts rows, compiled for the CPU or a device.
    _function = _count

    def _by_model(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts as the function takes them."""
        return counts

    def _fetch(self) -> None:
        if self._there is not None:
            counts, self._totals = self._there.fetch()
            self._counts = counts.reshape(self._counts.shape)

    @property
    def learned(self) -> LaneCounts:
        """Of rows that were learned, as scored before."""
        self._fetch()
        return LaneCounts(self._counts[LEARNED], self._totals[LEARNED])

    @property
    def held_out(self) -> LaneCounts:
        """Of rows that were held out."""
        self._fetch()
        return LaneCounts(self._counts[HELD_OUT], self._totals[HELD_OUT])

    def forget(self, role: int | None = None) -> None:
        """All counts, or those of a role, begin again."""
        self._fetch()
        self._there = None
        which = slice(None) if role is None else role
        self._counts[which], self._totals[which] = 0, 0.0

    def keep(self, lanes: Any) -> None:
        """Forgets all other lanes."""
        self._fetch()
        self._there = None
        self._counts = np.ascontiguousarray(self._counts[:, :, lanes])
        self._totals = np.ascontiguousarray(self._totals[:, :, lanes])
