"""How models rank rows: their scores in bins, from which AUC and average precision follow, in memory that stays."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate import score_bins
from thinstream.evaluate.score_bins import BINS, area_under_roc, average_precision, bin_of, is_number
from thinstream.jit import compiled

if TYPE_CHECKING:
    from thinstream.lanes.cuda.counting import HeldBins

Numbers = NDArray[np.float64]
#: Rows before and since the last power of two: the first rows do not count where models are judged as rows pass.
_AGES = 2
_ITEM = np.dtype(np.int64).itemsize


@compiled(score_bins.__name__)
def _count(bits: Any, y: Any, roles: Any, bins: Any, role: Any) -> None:
    """Rows of a role, by scores in 32 bits: ``bits`` are [row, model, class], ``bins`` [model, class, own, bin]."""
    classes = bits.shape[2]
    for i in range(len(y)):
        for model in range(bits.shape[1]):
            if roles[i, model] != role:
                continue
            for k in range(classes):
                own = y[i] == k if classes > 1 else y[i] > 0
                place = 0 if own else BINS - 1  # the score of a model that failed is wrong about either class
                if is_number(bits[i, model, k]):
                    place = bin_of(bits[i, model, k])
                bins[model, k, 1 if own else 0, place] += 1


class LaneRanks:
    """Rows per bin of the score of many models, as `evaluate.tally` has them for one: the same in any batches.

    Parameters
    ----------
    lanes, classes : int
        Models, and their classes; of more than two every class has bins of its own.
    role : int
        Of the rows that count (see `lane_counts`).

    Examples
    --------
    >>> ranks = LaneRanks(1, 2, role=0)
    >>> ranks.update(np.array([[1.0], [2.0], [0.5]]), np.array([-1, 1, 1], np.int8), np.zeros((3, 1), np.int8))
    >>> RANKED["auc"].values(ranks)
    array([0.5])

    """

    def __init__(self, lanes: int, classes: int, role: int) -> None:
        self.role = role
        self._shape: tuple[int, ...] = (_AGES, lanes, _scores(classes), 2, BINS)
        self._bins: NDArray[np.int64] = np.zeros(self._shape, np.int64)
        self._is_empty = True  # as bins begin, which need not be looked at
        self._there: HeldBins | None = None  # the bins, where they are on a device

    @staticmethod
    def estimate_nbytes(lanes: int, classes: int) -> int:
        """Bytes such bins take."""
        return _AGES * lanes * _scores(classes) * 2 * BINS * _ITEM

    def __len__(self) -> int:
        return self._shape[1]

    def update(self, scores: NDArray[Any], y: NDArray[Any], roles: NDArray[np.int8]) -> None:
        """The next rows, as `LaneTallies.update` and `ClassTallies.update` take them."""
        self._come_back()
        with np.errstate(over="ignore"):  # what is too large for 32 bits is in the last bin
            bits = np.ascontiguousarray(scores, np.float32).view(np.uint32)
        _count(bits.reshape(len(y), len(self), self._shape[2]), y, roles, self._bins[-1], self.role)

    def update_on_device(self, scores: Any, y: Any, roles: Any, role_of: NDArray[np.int32], models: Any) -> None:
        """The same of some models, as `LaneTallies.update_on_device` takes them; bins are there, and stay."""
        from thinstream.lanes.cuda.counting import HeldBins, score_bits  # which needs an optional package

        if self._there is None:
            self._there = HeldBins(self._shape, None if self._is_empty else self._bins)
            self._bins = np.zeros(0, np.int64)
        bits = score_bits(scores).reshape(len(y), len(models), self._shape[2])
        self._there.count(_count, models, bits, y, roles, role_of, self.role)

    def _come_back(self) -> None:
        """From the device, if they are there."""
        if self._there is not None:
            self._bins = np.stack([self._there.of(model) for model in range(len(self))], axis=1)
            self._there = None
        self._is_empty = False

    def turn(self) -> None:
        """The number of rows is a power of two: what was counted before the last one is forgotten."""
        if self._there is not None:
            self._there.turn()
            return
        self._bins[0] = self._bins[-1]
        self._bins[-1] = 0

    def forget(self) -> None:
        """Counting begins again."""
        if self._there is not None:
            self._there.forget()
            return
        self._bins[:] = 0

    def keep(self, lanes: Sequence[int]) -> None:
        """Forgets all other models."""
        self._come_back()
        self._bins = np.ascontiguousarray(self._bins[:, list(lanes)])
        self._shape = self._bins.shape

    def counted(self, lane: int) -> NDArray[np.int64]:
        """Of a model, negatives and positives per bin of each class's score."""
        bins = self._bins[:, lane] if self._there is None else self._there.of(lane)
        found: NDArray[np.int64] = bins.sum(axis=0)
        return found


def _scores(classes: int) -> int:
    """Of each row."""
    return 1 if classes == 2 else classes


class RankMeasure(NamedTuple):
    """A number that follows from bins; of more than two classes the mean of each class against the rest."""

    of: Callable[[Any, Any], tuple[float, float]]  # bins of negatives and positives: the number, and its bound
    influence: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]  # of one more negative or positive in each bin

    def values(self, ranks: LaneRanks) -> Numbers:
        """Of each model; NaN where a class is missing."""
        return np.array([_mean([self.of(*bins)[0] for bins in ranks.counted(k)]) for k in range(len(ranks))])

    def errors(self, ranks: LaneRanks) -> Numbers:
        """Standard errors, rows being independent; those of classes are taken to be, too, though they share rows."""
        return np.array([_of_mean([self._error(*bins) for bins in ranks.counted(k)]) for k in range(len(ranks))])

    def _error(self, negatives: NDArray[np.int64], positives: NDArray[np.int64]) -> float:
        if not negatives.any() or not positives.any():
            return float("nan")
        met = np.flatnonzero(negatives + positives)
        n, p = negatives[met].astype(np.float64), positives[met].astype(np.float64)
        of_negative, of_positive = self.influence(n, p)
        return float(np.sqrt(np.sum(n * of_negative**2 + p * of_positive**2)))


def _mean(values: list[float]) -> float:
    """Of those that are defined."""
    found = [value for value in values if value == value]
    return float(np.mean(found)) if found else float("nan")


def _of_mean(errors: list[float]) -> float:
    """The standard error of a mean, from those of its parts."""
    found = np.array([error for error in errors if error == error])
    return float(np.sqrt(np.sum(found**2)) / len(found)) if len(found) else float("nan")


def _auc_influence(n: Numbers, p: Numbers) -> tuple[Numbers, Numbers]:
    """How much one more row moves the AUC: what DeLong's variance is made of."""
    below = (np.cumsum(n) - n / 2) / n.sum()  # share of the negatives below a positive of the bin
    above = (p.sum() - np.cumsum(p) + p / 2) / p.sum()
    auc = float(np.sum(p * below) / p.sum())
    return (above - auc) / n.sum(), (below - auc) / p.sum()


def _precision_influence(n: Numbers, p: Numbers) -> tuple[Numbers, Numbers]:
    """How much one more row moves the average precision, to first order.

    With T positives and F negatives at or above each bin, it is Σ p·T/(T + F) over Σ p; a row changes T or F of all
    bins at and below its own.
    """
    above, false = np.cumsum(p[::-1])[::-1], np.cumsum(n[::-1])[::-1]
    called = above + false
    precision = above / called
    average = float(np.sum(p * precision) / p.sum())
    by_positive = np.cumsum(p * false / called**2)
    by_negative = -np.cumsum(p * above / called**2)
    return by_negative / p.sum(), (precision - average + by_positive) / p.sum()


#: By name: ours, and scikit-learn's for the same.
RANKED: dict[str, RankMeasure] = {
    "auc": RankMeasure(area_under_roc, _auc_influence),
    "roc_auc": RankMeasure(area_under_roc, _auc_influence),
    "average_precision": RankMeasure(average_precision, _precision_influence),
}
