"""What makes one candidate better than another."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.tune.tallies import Counted


class Scoring(NamedTuple):
    """A measure of a report. Scores are greater for the better; ``sign`` times a score is the number people know."""

    name: str
    measure: Callable[[Report], float]
    sign: int = 1  # -1: less is better, as of an error
    tradeoff: Tradeoff = P3
    losses: bool = False  # whether sums of losses are needed

    def score(self, counted: Counted, lane: int = 0) -> float:
        """Of what was counted of a lane; NaN where it is undefined, as sensitivity without a positive is."""
        found = counted.report(lane, self.tradeoff)
        return self.sign * float(self.measure(found)) if found.rows else math.nan

    def natural(self, score: Any) -> Any:
        """A score, or an array of them, as people know it."""
        return self.sign * score

    def standard_error(self, counted: Counted, lane: int = 0) -> float:
        """Of the score of independent rows, from their counts alone; NaN for losses and functions of one's own."""
        variance = _VARIANCES.get(self.name)
        return math.nan if variance is None else math.sqrt(variance(counted.counts[:, lane], self.tradeoff))


def _cost(report: Report) -> float:
    return report.cost / report.rows


_MEASURES: dict[str, tuple[Callable[[Report], float], int]] = {
    "error": (lambda report: report.error, -1),
    "balanced_accuracy": (lambda report: report.balanced_accuracy, 1),
    "weighted_sum": (lambda report: report.weighted_sum, 1),
    "cost": (_cost, -1),
    "log_loss": (lambda report: report.log_loss, -1),
}
NAMES = tuple(_MEASURES)


def scoring_of(given: Any, tradeoff: Tradeoff = P3) -> Scoring:
    """A scoring by its name, or by a function of a `Report` whose greater values are better.

    ``cost`` is per row, so that folds of any size compare. AUC is not among them: it is not counted lane by lane.

    >>> scoring_of("error").sign, scoring_of(lambda report: report.sensitivity).name
    (-1, 'score')
    """
    if isinstance(given, Scoring):
        return given
    if callable(given):
        return Scoring("score", given, tradeoff=tradeoff, losses=True)
    if not isinstance(given, str) or given not in _MEASURES:
        raise InvalidParameterError(f"scoring must be {listed(NAMES)}, or a function of a Report, got {given!r}")
    measure, sign = _MEASURES[given]
    return Scoring(given, measure, sign, tradeoff, losses=given == "log_loss")


def _error_variance(counts: NDArray[np.int64], tradeoff: Tradeoff) -> float:
    rows, _, missed, false = counts.tolist()
    share = float(missed + false) / max(rows, 1)
    return float(share * (1.0 - share) / max(rows, 1))


def _sum_variance(counts: NDArray[np.int64], tradeoff: Tradeoff) -> float:
    rows, positives, missed, false = counts.tolist()
    found = 0.0
    for alpha, wrong, n in ((tradeoff.alpha_p, missed, positives), (tradeoff.alpha_n, false, rows - positives)):
        share = wrong / max(n, 1)
        found += alpha**2 * share * (1.0 - share) / max(n, 1)
    return found


def _cost_variance(counts: NDArray[np.int64], tradeoff: Tradeoff) -> float:
    rows, _, missed, false = counts.tolist()
    n = max(int(rows), 1)
    mean = (tradeoff.c_p * missed + tradeoff.c_n * false) / n
    square = (tradeoff.c_p**2 * missed + tradeoff.c_n**2 * false) / n
    return float(max(square - mean**2, 0.0) / n)


_VARIANCES: dict[str, Callable[[NDArray[np.int64], Tradeoff], float]] = {
    "error": _error_variance,
    "balanced_accuracy": lambda counts, _: _sum_variance(counts, P3),  # P3's α are one half each
    "weighted_sum": _sum_variance,
    "cost": _cost_variance,
}
