"""Counts of mistakes and ranks of scores for many models at once."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.training import metrics
from thinstream.training.metrics import (
    BINS,
    EXAMPLES,
    HINGE,
    LOG_LOSS,
    P3,
    PREDICTED,
    RIGHT,
    Report,
    Tally,
    Tradeoff,
    area_under_roc,
    average_precision,
    bin_of,
    is_number,
    mean_of_defined,
)

if TYPE_CHECKING:
    from thinstream.lanes.cuda.kernels import Held, HeldBins


#: The roles of a row for a lane: held out (only scored), learned (scored before), or absent.
HELD_OUT, LEARNED, ABSENT = 0, 1, -1

#: The index of the sum of squared log-losses, for the standard error.
SQUARES = 2


class LaneCounts(NamedTuple):
    """The counts and sums of a `Tally` for each of many models; no bins, so no AUC. Two classes are binary."""

    counts: NDArray[np.int64]  # [examples, predictions or right predictions; class; lane]
    totals: NDArray[np.float64]  # [loss, lane]; zeros unless losses are requested

    @classmethod
    def nothing(cls, lanes: int, classes: int = 2) -> "LaneCounts":
        """Return the counts of models that have seen no row."""
        return cls(np.zeros((3, classes, lanes), np.int64), np.zeros((3, lanes)))

    @property
    def rows(self) -> NDArray[np.int64]:
        """Number of rows of each model."""
        return np.asarray(self.counts[EXAMPLES].sum(axis=0))

    @property
    def mistakes(self) -> NDArray[np.int64]:
        """Number of misclassified rows of each model."""
        return np.asarray((self.counts[EXAMPLES] - self.counts[RIGHT]).sum(axis=0))

    def take(self, lanes: Any) -> "LaneCounts":
        """Return the counts of some lanes."""
        return LaneCounts(np.ascontiguousarray(self.counts[..., lanes]), np.ascontiguousarray(self.totals[:, lanes]))

    def put(self, lanes: Any, these: "LaneCounts") -> None:
        """Set the counts of some lanes."""
        self.counts[..., lanes], self.totals[:, lanes] = these.counts, these.totals

    def minus(self, earlier: "LaneCounts") -> "LaneCounts":
        """Return the counts since another state."""
        return LaneCounts(self.counts - earlier.counts, self.totals - earlier.totals)

    def pooled(self, groups: NDArray[np.int64], n: int) -> "LaneCounts":
        """Return the sums over groups of lanes, without lanes of groups below 0."""
        pooled, member = LaneCounts.nothing(n, self.counts.shape[1]), groups >= 0
        for sums, numbers in zip(pooled, self, strict=True):
            np.add.at(sums.T, groups[member], numbers.T[member])
        return pooled

    def report(self, lane: int, tradeoff: Tradeoff = P3) -> Report:
        """Return all metrics of a lane; the AUC is NaN."""
        losses = self.totals[: SQUARES if self.counts.shape[1] == 2 else 0, lane]
        return Tally.of_counts(self.counts[..., lane], losses).report(tradeoff)


@compiled(Tally.__module__)
def _count_binary(scores: Any, y: Any, roles: Any, counts: Any, totals: Any, losses: Any) -> None:
    """``roles`` has a column per lane; counts are [role, what, class, lane], totals [role, what, lane]."""
    for i in range(len(y)):
        own = np.int64(y[i] > 0)
        for lane in range(scores.shape[1]):
            role, score = roles[i, lane], scores[i, lane]
            learned, held_out = np.int64(role == LEARNED), np.int64(role == HELD_OUT)
            # NaN, the score of a lane that failed, is wrong for either class
            right = np.int64(((score > 0) == (own == 1)) & (score == score))
            counts[LEARNED, EXAMPLES, own, lane] += learned
            counts[HELD_OUT, EXAMPLES, own, lane] += held_out
            counts[LEARNED, RIGHT, own, lane] += learned & right
            counts[HELD_OUT, RIGHT, own, lane] += held_out & right
        if losses:
            for lane in range(scores.shape[1]):
                role = roles[i, lane]
                if role >= 0:
                    margin = y[i] * np.float64(scores[i, lane])
                    totals[role, HINGE, lane] += max(0.0, 1.0 - margin)
                    log_loss = max(0.0, -margin) + np.log1p(np.exp(-np.abs(margin)))
                    totals[role, LOG_LOSS, lane] += log_loss
                    totals[role, SQUARES, lane] += log_loss * log_loss
    for role in range(2):
        for k in range(2):
            for lane in range(scores.shape[1]):
                mistakes = counts[role, EXAMPLES, 1 - k, lane] - counts[role, RIGHT, 1 - k, lane]
                counts[role, PREDICTED, k, lane] = counts[role, RIGHT, k, lane] + mistakes


@scalar
def _log_sigmoid(score: Any) -> Any:
    s = np.float64(score)
    return min(s, 0.0) - np.log1p(np.exp(-np.abs(s)))


@compiled(Tally.__module__)
def _count_multiclass(scores: Any, y: Any, roles: Any, counts: Any, totals: Any, losses: Any) -> None:
    """As `_count_binary`, with scores [row, lane, class]."""
    for i in range(len(y)):
        own = y[i]
        for lane in range(scores.shape[1]):
            role = roles[i, lane]
            if role < 0:
                continue
            predicted, failed = 0, False
            for k in range(scores.shape[2]):
                failed = failed or scores[i, lane, k] != scores[i, lane, k]  # NaN
                if scores[i, lane, k] > scores[i, lane, predicted]:
                    predicted = k
            counts[role, EXAMPLES, own, lane] += 1
            if not failed:  # a lane that failed is wrong for any class
                counts[role, PREDICTED, predicted, lane] += 1
                counts[role, RIGHT, predicted, lane] += predicted == own
            if losses:
                # -log of its class's share of the one-vs-rest probabilities, all computed as logarithms
                highest, total = _log_sigmoid(scores[i, lane, predicted]), 0.0
                for k in range(scores.shape[2]):
                    total += np.exp(_log_sigmoid(scores[i, lane, k]) - highest)
                log_loss = highest + np.log(total) - _log_sigmoid(scores[i, lane, own])
                totals[role, LOG_LOSS, lane] += log_loss
                totals[role, SQUARES, lane] += log_loss * log_loss


class LaneTallies:
    """Counts of many models, updated row by row: bit-identical however the stream is cut.

    Two classes are binary, with one score per model. More classes have a score each, and the highest one decides.

    >>> tallies = LaneTallies(2)
    >>> scores = np.array([[1.0, -1.0], [0.5, -2.0]])
    >>> tallies.update(scores, np.array([1, -1], np.int8), np.array([[1, 0], [1, 0]], np.int8))
    >>> tallies.learned.report(0).error, tallies.held_out.report(1).sensitivity
    (0.5, 0.0)
    >>> tallies = LaneTallies(1, classes=3)
    >>> scores = np.array([[[0.5, 1.0, -1.0]], [[0.5, 0.5, -2.0]]])
    >>> tallies.update(scores, np.array([1, 1], np.int32), np.array([[1], [1]], np.int8))
    >>> tallies.learned.report(0).error, tallies.learned.counts[PREDICTED, :, 0]
    (0.5, array([1, 1, 0]))
    """

    def __init__(self, lanes: int, classes: int = 2, losses: bool = False) -> None:
        self.losses = losses
        self._function = _count_binary if classes == 2 else _count_multiclass  # compiled for the CPU or a device
        nothing = LaneCounts.nothing(lanes, classes)
        self._counts: NDArray[np.int64] = np.stack([nothing.counts] * 2)
        self._totals: NDArray[np.float64] = np.stack([nothing.totals] * 2)
        self._there: Held | None = None  # the counts on a device

    def update(self, scores: NDArray[Any], y: NDArray[Any], roles: NDArray[np.int8]) -> None:
        """Count the next rows. Scores and roles have a column per model, multiclass scores a third axis."""
        with np.errstate(over="ignore", under="ignore"):  # interpreted, numpy would warn where compiled code does not
            self._function(np.ascontiguousarray(scores), y, roles, self._counts, self._totals, self.losses)

    def update_on_device(self, scores: Any, y: Any, roles: Any, role_of: NDArray[np.int32], models: Any) -> None:
        """Count the next rows of some models on a device. ``role_of`` has the column of each model in ``roles``.

        The counts stay on the device until they are requested.
        """
        if self._there is None:
            from thinstream.lanes.cuda.kernels import Held  # which needs an optional package

            self._there = Held(self._counts, self._totals)
        self._there.count(self._function, models, scores, y, roles, role_of, self.losses)

    def _fetch(self) -> None:
        if self._there is not None:
            self._counts, self._totals = self._there.fetch()

    @property
    def learned(self) -> LaneCounts:
        """The progressive counts of learned rows."""
        self._fetch()
        return LaneCounts(self._counts[LEARNED], self._totals[LEARNED])

    @property
    def held_out(self) -> LaneCounts:
        """The counts of held-out rows."""
        self._fetch()
        return LaneCounts(self._counts[HELD_OUT], self._totals[HELD_OUT])

    def forget(self, role: int | None = None) -> None:
        """Set all counts, or those of a role, to zero."""
        self._fetch()
        self._there = None
        which = slice(None) if role is None else role
        self._counts[which], self._totals[which] = 0, 0.0

    def keep(self, lanes: Any) -> None:
        """Keep only the counts of these lanes."""
        self._fetch()
        self._there = None
        self._counts = np.ascontiguousarray(self._counts[..., lanes])
        self._totals = np.ascontiguousarray(self._totals[:, :, lanes])


# How models rank rows: scores in bins, from which AUC and average precision follow, in constant memory.

Numbers = NDArray[np.float64]
#: Rows before and since the last power of two, because progressive scores leave out the first rows.
_AGES = 2
_ITEM = np.dtype(np.int64).itemsize


@compiled(metrics.__name__)
def _count_scores(bits: Any, y: Any, roles: Any, bins: Any, role: Any) -> None:
    """Rows of a role, by scores in 32 bits: ``bits`` are [row, model, class], ``bins`` [model, class, own, bin]."""
    classes = bits.shape[2]
    for i in range(len(y)):
        for model in range(bits.shape[1]):
            if roles[i, model] != role:
                continue
            for k in range(classes):
                own = y[i] == k if classes > 1 else y[i] > 0
                bin_number = 0 if own else BINS - 1  # the score of a model that failed is wrong about either class
                if is_number(bits[i, model, k]):
                    bin_number = bin_of(bits[i, model, k])
                bins[model, k, 1 if own else 0, bin_number] += 1


class LaneRanks:
    """Rows per bin of the score of many models, as `training.metrics` has them for one: the same in any batches.

    Parameters
    ----------
    lanes, classes : int
        The numbers of models and classes. With more than two classes, each has its own bins.
    role : int
        The role of the rows to count.

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
        self._is_empty = True  # all bins are zero
        self._there: HeldBins | None = None  # the bins on a device

    @staticmethod
    def estimate_nbytes(lanes: int, classes: int) -> int:
        """Return the bytes of such bins."""
        return _AGES * lanes * _scores(classes) * 2 * BINS * _ITEM

    def __len__(self) -> int:
        return self._shape[1]

    def update(self, scores: NDArray[Any], y: NDArray[Any], roles: NDArray[np.int8]) -> None:
        """Count the next rows, with the arguments of `LaneTallies.update`."""
        self._come_back()
        with np.errstate(over="ignore"):  # what is too large for 32 bits is in the last bin
            bits = np.ascontiguousarray(scores, np.float32).view(np.uint32)
        _count_scores(bits.reshape(len(y), len(self), self._shape[2]), y, roles, self._bins[-1], self.role)

    def update_on_device(self, scores: Any, y: Any, roles: Any, role_of: NDArray[np.int32], models: Any) -> None:
        """Count on a device, with the arguments of `LaneTallies.update_on_device`. The bins stay there."""
        from thinstream.lanes.cuda.kernels import HeldBins, score_bits  # which needs an optional package

        if self._there is None:
            self._there = HeldBins(self._shape, None if self._is_empty else self._bins)
            self._bins = np.zeros(0, np.int64)
        bits = score_bits(scores).reshape(len(y), len(models), self._shape[2])
        self._there.count(_count_scores, models, bits, y, roles, role_of, self.role)

    def _come_back(self) -> None:
        """Copy the bins from the device, if they are there."""
        if self._there is not None:
            self._bins = np.stack([self._there.of(model) for model in range(len(self))], axis=1)
            self._there = None
        self._is_empty = False

    def turn(self) -> None:
        """At a power of two of rows, forget the counts before the last one."""
        if self._there is not None:
            self._there.turn()
            return
        self._bins[0] = self._bins[-1]
        self._bins[-1] = 0

    def forget(self) -> None:
        """Set all counts to zero."""
        if self._there is not None:
            self._there.forget()
            return
        self._bins[:] = 0

    def keep(self, lanes: Sequence[int]) -> None:
        """Keep only the bins of these models."""
        self._come_back()
        self._bins = np.ascontiguousarray(self._bins[:, list(lanes)])
        self._shape = self._bins.shape

    def counted(self, lane: int) -> NDArray[np.int64]:
        """Return the negatives and positives of a model, per bin of each class's score."""
        bins = self._bins[:, lane] if self._there is None else self._there.of(lane)
        total: NDArray[np.int64] = bins.sum(axis=0)
        return total


def _scores(classes: int) -> int:
    """Return the number of scores of a row."""
    return 1 if classes == 2 else classes


class RankMeasure(NamedTuple):
    """A measure that follows from bins. With more than two classes, it is the mean of each class against the rest."""

    of: Callable[[Any, Any], tuple[float, float]]  # bins of negatives and positives: the number, and its bound
    influence: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]  # of one more negative or positive in each bin

    def values(self, ranks: LaneRanks) -> Numbers:
        """Return the measure of each model. NaN: a class is missing."""
        return np.array([mean_of_defined(self.of(*bins)[0] for bins in ranks.counted(k)) for k in range(len(ranks))])

    def errors(self, ranks: LaneRanks) -> Numbers:
        """Return standard errors for independent rows. Classes count as independent, although they share rows."""
        return np.array([_of_mean([self._error(*bins) for bins in ranks.counted(k)]) for k in range(len(ranks))])

    def _error(self, negatives: NDArray[np.int64], positives: NDArray[np.int64]) -> float:
        if not negatives.any() or not positives.any():
            return float("nan")
        met = np.flatnonzero(negatives + positives)
        n, p = negatives[met].astype(np.float64), positives[met].astype(np.float64)
        of_negative, of_positive = self.influence(n, p)
        return float(np.sqrt(np.sum(n * of_negative**2 + p * of_positive**2)))


def _of_mean(errors: list[float]) -> float:
    """Return the standard error of a mean from the standard errors of its parts."""
    defined = np.array([error for error in errors if error == error])
    return float(np.sqrt(np.sum(defined**2)) / len(defined)) if len(defined) else float("nan")


def _auc_influence(n: Numbers, p: Numbers) -> tuple[Numbers, Numbers]:
    """Return how much one more row changes the AUC, for DeLong's variance."""
    below = (np.cumsum(n) - n / 2) / n.sum()  # share of the negatives below a positive of the bin
    above = (p.sum() - np.cumsum(p) + p / 2) / p.sum()
    auc = float(np.sum(p * below) / p.sum())
    return (above - auc) / n.sum(), (below - auc) / p.sum()


def _precision_influence(n: Numbers, p: Numbers) -> tuple[Numbers, Numbers]:
    """Return how much one more row changes the average precision, to first order.

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


#: Measures by our name, and by scikit-learn's name.
RANKED: dict[str, RankMeasure] = {
    "auc": RankMeasure(area_under_roc, _auc_influence),
    "roc_auc": RankMeasure(area_under_roc, _auc_influence),
    "average_precision": RankMeasure(average_precision, _precision_influence),
}
