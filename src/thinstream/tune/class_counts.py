"""What is counted of many models of more than two classes at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.tally import CALLED, LOG_LOSS, RIGHT, SEEN, ClassTally
from thinstream.jit import compiled, scalar
from thinstream.tune.lane_counts import SQUARES, LaneTallies


@scalar
def _log_sigmoid(score: Any) -> Any:
    s = np.float64(score)
    return min(s, 0.0) - np.log1p(np.exp(-np.abs(s)))


@compiled(ClassTally.__module__)
def _count(scores: Any, y: Any, roles: Any, counts: Any, totals: Any, losses: Any) -> None:
    """``scores`` are [row, model, class], ``counts`` [role, what, class, model], ``totals`` [role, what, model]."""
    for i in range(len(y)):
        own = y[i]
        for model in range(scores.shape[1]):
            role = roles[i, model]
            if role < 0:
                continue
            called, failed = 0, False
            for k in range(scores.shape[2]):
                failed = failed or scores[i, model, k] != scores[i, model, k]  # NaN
                if scores[i, model, k] > scores[i, model, called]:
                    called = k
            counts[role, SEEN, own, model] += 1
            if not failed:  # one that failed is wrong about any class
                counts[role, CALLED, called, model] += 1
                counts[role, RIGHT, called, model] += called == own
            if losses:
                # -log of its class's share of the one-vs-rest probabilities, all computed as logarithms
                highest, total = _log_sigmoid(scores[i, model, called]), 0.0
                for k in range(scores.shape[2]):
                    total += np.exp(_log_sigmoid(scores[i, model, k]) - highest)
                log_loss = highest + np.log(total) - _log_sigmoid(scores[i, model, own])
                totals[role, LOG_LOSS, model] += log_loss
                totals[role, SQUARES, model] += log_loss * log_loss


class ClassTallies(LaneTallies):
    """`LaneTallies` of more than two classes: a row is called the class of highest score, the first of several.

    >>> tallies = ClassTallies(1, 3)
    >>> scores = np.array([[[0.5, 1.0, -1.0]], [[0.5, 0.5, -2.0]]])
    >>> tallies.update(scores, np.array([1, 1], np.int32), np.array([[1], [1]], np.int8))
    >>> tallies.learned.report(0).error, tallies.learned.by_class[1, :, 0]
    (0.5, array([1, 1, 0]))
    """

    def __init__(self, lanes: int, classes: int, losses: bool = False) -> None:
        self._classes = classes
        super().__init__(lanes, losses)

    def update(self, scores: NDArray[Any], y: NDArray[Any], roles: NDArray[np.int8]) -> None:
        """The next rows: scores and roles with a column per model, scores one for each class on the last axis."""
        with np.errstate(over="ignore", under="ignore"):  # interpreted, numpy would warn where compiled code does not
            _count(np.ascontiguousarray(scores), y, roles, self._by_model(self._counts), self._totals, self.losses)

    _function = _count

    def _by_model(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts.reshape(2, 3, self._classes, -1)

    @property
    def mistakes(self) -> NDArray[np.int64]:
        """Rows that were learned, and called another class before."""
        by_class = self.learned.by_class
        found: NDArray[np.int64] = by_class[SEEN].sum(axis=0) - by_class[RIGHT].sum(axis=0)
        return found


def tallies_of(lanes: int, losses: bool, classes: int) -> LaneTallies:
    """Nothing counted yet, of two classes or more."""
    return LaneTallies(lanes, losses) if classes == 2 else ClassTallies(lanes, classes, losses)
