"""Numbers that follow from counts, of two classes and of more, and how far chance moves them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.report import P3, Tradeoff
from thinstream.evaluate.tally import LOG_LOSS
from thinstream.tune.lane_counts import SQUARES, LaneCounts

Numbers = NDArray[np.float64]


class _Seen(NamedTuple):
    """What was counted, an entry per lane."""

    rows: Numbers
    positives: Numbers
    missed: Numbers
    false: Numbers
    log_loss: Numbers  # summed
    squares: Numbers  # of it, summed
    tradeoff: Tradeoff

    @property
    def hits(self) -> Numbers:
        return self.positives - self.missed

    @property
    def wrong(self) -> Numbers:
        return self.missed + self.false

    @property
    def negatives(self) -> Numbers:
        return self.rows - self.positives


class Measure(NamedTuple):
    """A number that follows from counts, and its variance: how far chance moves it, rows being independent."""

    of: Callable[[Any], Numbers]
    sign: int = 1  # -1: less is better, as of an error
    variance: Callable[[Any], Numbers] | None = None
    offset: float = 0.0  # added to scores that are reported: accuracy is compared as the error, and so has its bits


def _of_both(seen: _Seen, a_p: float, a_n: float) -> Numbers:
    return a_p * (seen.hits / seen.positives) + a_n * ((seen.negatives - seen.false) / seen.negatives)


def _variance_of_both(seen: _Seen, a_p: float, a_n: float) -> Numbers:
    return a_p**2 * _variance(seen.missed, seen.positives) + a_n**2 * _variance(seen.false, seen.negatives)


def _cost_variance(seen: _Seen) -> Numbers:
    c_p, c_n, of = seen.tradeoff.c_p, seen.tradeoff.c_n, seen.rows + 2
    mean = (c_p * (seen.missed + 1) + c_n * (seen.false + 1)) / of
    square = (c_p**2 * (seen.missed + 1) + c_n**2 * (seen.false + 1)) / of
    return (square - mean**2) / of


def _f1_variance(seen: _Seen) -> Numbers:
    """By the delta method."""
    hits, wrong, of = seen.hits + 1, seen.wrong + 1, seen.rows + 2
    return 4 * hits * wrong * (hits + wrong) / (2 * hits + wrong) ** 4 * (1 - 1 / of)


def _variance(hits: Numbers, of: Numbers) -> Numbers:
    """Of a share, binomial; one mistake and one hit are added, so that it is not 0 where no mistake was made."""
    share = (hits + 1) / (of + 2)
    return share * (1 - share) / (of + 2)


def _variance_of_loss(seen: Any) -> Numbers:
    """Of a mean, from the sums of the losses and their squares."""
    mean = seen.log_loss / seen.rows
    return np.asarray(np.maximum(seen.squares / seen.rows - mean**2, 0.0) / seen.rows)


def _share(part: Numbers, whole: Numbers) -> Numbers:
    """0 where there is nothing to share, as scikit-learn has it."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _correlation(seen: _Seen) -> Numbers:
    true_negatives, called = seen.negatives - seen.false, seen.hits + seen.false
    product = called * seen.positives * seen.negatives * (seen.rows - called)
    return _share(seen.hits * true_negatives - seen.false * seen.missed, np.sqrt(product))


#: The first four are columns of a sparsity path. ``cost`` is per row, so that folds of any size compare.
MEASURES: dict[str, Measure] = {
    "error": Measure(lambda s: s.wrong / s.rows, -1, lambda s: _variance(s.wrong, s.rows)),
    "balanced_accuracy": Measure(
        lambda s: (s.hits / s.positives + (s.negatives - s.false) / s.negatives) / 2,
        variance=lambda s: _variance_of_both(s, 0.5, 0.5),
    ),
    "weighted_sum": Measure(
        lambda s: _of_both(s, s.tradeoff.alpha_p, s.tradeoff.alpha_n),
        variance=lambda s: _variance_of_both(s, s.tradeoff.alpha_p, s.tradeoff.alpha_n),
    ),
    "cost": Measure(
        lambda s: (s.tradeoff.c_p * s.missed + s.tradeoff.c_n * s.false) / s.rows, -1, variance=_cost_variance
    ),
    "accuracy": Measure(lambda s: s.wrong / s.rows, -1, lambda s: _variance(s.wrong, s.rows), offset=1.0),
    "f1": Measure(lambda s: _share(2 * s.hits, 2 * s.hits + s.wrong), variance=_f1_variance),
    "precision": Measure(
        lambda s: _share(s.hits, s.hits + s.false), variance=lambda s: _variance(s.false, s.hits + s.false)
    ),
    "recall": Measure(lambda s: _share(s.hits, s.positives), variance=lambda s: _variance(s.missed, s.positives)),
    "jaccard": Measure(
        lambda s: _share(s.hits, s.hits + s.wrong), variance=lambda s: _variance(s.wrong, s.hits + s.wrong)
    ),
    "matthews_corrcoef": Measure(_correlation),
    "log_loss": Measure(lambda s: s.log_loss / s.rows, -1, _variance_of_loss),
    "neg_log_loss": Measure(lambda s: -s.log_loss / s.rows, variance=_variance_of_loss),
}


class _SeenOfMore(NamedTuple):
    """What was counted of more than two classes: class × lane."""

    seen: Numbers  # rows of the class
    called: Numbers
    right: Numbers
    log_loss: Numbers  # summed, lane
    squares: Numbers  # of it, summed

    @property
    def rows(self) -> Numbers:
        return np.asarray(self.seen.sum(axis=0))

    @property
    def wrong(self) -> Numbers:
        return np.asarray(self.rows - self.right.sum(axis=0))

    def mean(self, values: Numbers) -> Numbers:
        """Over the classes that have occurred."""
        return np.asarray(np.where(self.seen > 0, values, 0.0).sum(axis=0) / (self.seen > 0).sum(axis=0))

    def variance(self, variances: Numbers) -> Numbers:
        """Of the mean of what different rows tell of each class."""
        return np.asarray(self.mean(variances) / (self.seen > 0).sum(axis=0))


def _variance_of_overlap(seen: _SeenOfMore, by_right: Numbers, by_other: Numbers) -> Numbers:
    """By the delta method: of a mean of what rows of a class, called it, and both tell, the first two alike.

    A row called wrong is one of its own class and one called another: how often these two meet is taken to be as if by
    chance. ``by_right`` and ``by_other`` are the derivatives by the three counts.
    """
    occurs = seen.seen > 0
    missed, false = (np.where(occurs, each - seen.right + 1, 0.0) for each in (seen.seen, seen.called))
    inside = np.where(occurs, (seen.right + 1) * (by_right + 2 * by_other) ** 2, 0.0)
    moved, turned = missed * by_other, false * by_other
    alone = (inside + moved * by_other + turned * by_other).sum(axis=0)
    together = 2 * moved.sum(axis=0) * turned.sum(axis=0) / missed.sum(axis=0)
    return np.asarray((alone + together) / occurs.sum(axis=0) ** 2)


def _f1_variance_of_more(seen: _SeenOfMore) -> Numbers:
    right, both = seen.right + 1, seen.seen + seen.called + 4  # a hit and two mistakes more, so that it is never 0
    return _variance_of_overlap(seen, 2 / both, -2 * right / both**2)


def _jaccard_variance_of_more(seen: _SeenOfMore) -> Numbers:
    right, both = seen.right + 1, seen.seen + seen.called + 4
    either = both - right
    return _variance_of_overlap(seen, both / either**2, -right / either**2)


def _correlation_of_more(seen: _SeenOfMore) -> Numbers:
    """Gorodkin's R_K."""
    rows, right = seen.rows, seen.right.sum(axis=0)
    product = (rows**2 - (seen.called**2).sum(axis=0)) * (rows**2 - (seen.seen**2).sum(axis=0))
    return _share(rows * right - (seen.called * seen.seen).sum(axis=0), np.sqrt(product))


_ERROR_OF_MORE = Measure(lambda s: s.wrong / s.rows, -1, lambda s: _variance(s.wrong, s.rows))
_RECALL_OF_MORE = Measure(
    lambda s: s.mean(_share(s.right, s.seen)), variance=lambda s: s.variance(_variance(s.seen - s.right, s.seen))
)
#: Of more than two classes: means over those that have occurred, but for the share of rows called wrong.
MEASURES_OF_MORE: dict[str, Measure] = {
    "error": _ERROR_OF_MORE,
    "balanced_accuracy": _RECALL_OF_MORE,
    "accuracy": _ERROR_OF_MORE._replace(offset=1.0),
    "f1": Measure(
        lambda s: s.mean(_share(2 * s.right, s.seen + s.called)),
        variance=_f1_variance_of_more,
    ),
    "precision": Measure(
        lambda s: s.mean(_share(s.right, s.called)),
        variance=lambda s: s.variance(_variance(s.called - s.right, s.called)),
    ),
    "recall": _RECALL_OF_MORE,
    "jaccard": Measure(
        lambda s: s.mean(_share(s.right, s.seen + s.called - s.right)), variance=_jaccard_variance_of_more
    ),
    "matthews_corrcoef": Measure(_correlation_of_more),
    "log_loss": MEASURES["log_loss"],
    "neg_log_loss": MEASURES["neg_log_loss"],
}


def measures_of(classes: int) -> dict[str, Measure]:
    """All there are of so many classes."""
    return MEASURES if classes == 2 else MEASURES_OF_MORE


def metric_values(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """A measure of every lane; NaN where nothing was counted, or a class is missing that it needs.

    >>> counts = np.array([[10, 0], [4, 0], [1, 0], [2, 0]])
    >>> metric_values(LaneCounts(counts, np.zeros((3, 2))), "error")
    array([0.3, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = _measure(counted, metric).of(_seen(counted, tradeoff))
    return np.where(counted.rows > 0, values, np.nan)


def standard_errors(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """How far chance moves a measure of every lane; NaN for those that counts do not tell it of."""
    variance = _measure(counted, metric).variance if metric in MEASURES else None
    if variance is None:
        return np.full(counted.counts.shape[1], math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(variance(_seen(counted, tradeoff))))


def _measure(counted: LaneCounts, metric: str) -> Measure:
    return (MEASURES if counted.are_two else MEASURES_OF_MORE)[metric]


def _seen(counted: LaneCounts, tradeoff: Tradeoff) -> _Seen | _SeenOfMore:
    log_loss, squares = counted.totals[LOG_LOSS], counted.totals[SQUARES]
    if not counted.are_two:
        seen, called, right = counted.by_class.astype(np.float64)
        return _SeenOfMore(seen, called, right, log_loss, squares)
    rows, positives, missed, false = counted.counts.astype(np.float64)
    return _Seen(rows, positives, missed, false, log_loss, squares, tradeoff)
