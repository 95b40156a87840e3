"""What models are compared by: measures of counts under our names and scikit-learn's, and functions of one's own."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, UnknownNameError, listed
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.evaluate.tally import LOG_LOSS, ROWS
from thinstream.tune.lane_counts import LaneCounts

Numbers = NDArray[np.float64]


class _Seen(NamedTuple):
    """What was counted, an entry per lane."""

    rows: Numbers
    positives: Numbers
    missed: Numbers
    false: Numbers
    log_loss: Numbers  # summed
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

    of: Callable[[_Seen], Numbers]
    sign: int = 1  # -1: less is better, as of an error
    variance: Callable[[_Seen], Numbers] | None = None
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
    "log_loss": Measure(lambda s: s.log_loss / s.rows, -1),
    "neg_log_loss": Measure(lambda s: -s.log_loss / s.rows),
}
NAMES = tuple(MEASURES)
#: Those that a sparsity path has columns of, and all it can be judged by.
COLUMNS, WITH_ERRORS = NAMES[:4], tuple(name for name, measure in MEASURES.items() if measure.variance)


def check_metric(name: str) -> str:
    """The name, if a sparsity path can be judged by it; else raises."""
    if name not in WITH_ERRORS:
        raise UnknownNameError(f"scoring must be {listed(WITH_ERRORS)}, got {name!r}")
    return name


def metric_values(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """A measure of every lane; NaN where nothing was counted, or a class is missing that it needs.

    >>> counts = np.array([[10, 0], [4, 0], [1, 0], [2, 0]])
    >>> metric_values(LaneCounts(counts, np.zeros((2, 2))), "error")
    array([0.3, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = MEASURES[metric].of(_seen(counted, tradeoff))
    return np.where(counted.counts[ROWS] > 0, values, np.nan)


def standard_errors(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """How far chance moves a measure of every lane; NaN for those that counts do not tell it of."""
    variance = MEASURES[metric].variance if metric in MEASURES else None
    if variance is None:
        return np.full(counted.counts.shape[1], math.nan)
    return np.sqrt(variance(_seen(counted, tradeoff)))


def _seen(counted: LaneCounts, tradeoff: Tradeoff) -> _Seen:
    rows, positives, missed, false = counted.counts.astype(np.float64)
    return _Seen(rows, positives, missed, false, counted.totals[LOG_LOSS], tradeoff)


class Scoring(NamedTuple):
    """What candidates are compared by, from counts alone. Scores are greater for the better."""

    name: str
    function: Callable[[Report], float] | None = None  # one's own; None: the measure of this name
    tradeoff: Tradeoff = P3

    @property
    def losses(self) -> bool:
        """Whether sums of losses are needed."""
        return self.function is not None or "log_loss" in self.name

    @property
    def offset(self) -> float:
        """What is added to a score for people to see."""
        return 0.0 if self.function else MEASURES[self.name].offset

    def scores(self, counted: LaneCounts) -> Numbers:
        """Of each lane; NaN where it is undefined, as sensitivity without a positive is."""
        if self.function is None:
            return MEASURES[self.name].sign * metric_values(counted, self.name, self.tradeoff)
        reports = [counted.report(lane, self.tradeoff) for lane in range(counted.counts.shape[1])]
        return np.array([float(self.function(each)) if each.rows else math.nan for each in reports])

    def natural(self, score: Any) -> Any:
        """A score, or an array of them, as people know it: an error without its minus."""
        if self.function is None and MEASURES[self.name].sign < 0 and not self.offset:
            return 0.0 - score  # not -0.0
        return score + self.offset

    def standard_errors(self, counted: LaneCounts) -> Numbers:
        """Of the score of independent rows, of each lane, from counts alone; NaN for losses and one's own functions."""
        return standard_errors(counted, "" if self.function else self.name, self.tradeoff)


class PredictionScoring(NamedTuple):
    """A score that counts cannot tell, as the area under a curve: of scores and labels ±1, greater for the better."""

    name: str
    function: Callable[[NDArray[Any], NDArray[np.int8]], float]
    losses: bool = False
    offset: float = 0.0


def scoring_of(given: Any, tradeoff: Tradeoff = P3) -> Scoring:
    """A scoring by its name, or by a function of a `Report` whose greater values are better.

    >>> scoring_of("error").natural(-0.25), scoring_of(lambda report: report.sensitivity).name
    (0.25, 'score')
    """
    if callable(given):
        return Scoring("score", given, tradeoff)
    if not isinstance(given, str) or given not in MEASURES:
        raise InvalidParameterError(f"scoring must be {listed(NAMES)}, or a function of a Report, got {given!r}")
    return Scoring(given, None, tradeoff)
