"""What makes one candidate better than another."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.tune.lane_counts import LaneCounts
from thinstream.tune.selection import METRICS, standard_errors


class Scoring(NamedTuple):
    """A measure of a report. Scores are greater for the better; ``sign`` times a score is the number people know."""

    name: str
    measure: Callable[[Report], float]
    sign: int = 1  # -1: less is better, as of an error
    tradeoff: Tradeoff = P3
    losses: bool = False  # whether sums of losses are needed

    def score(self, counted: LaneCounts, lane: int = 0) -> float:
        """Of what was counted of a lane; NaN where it is undefined, as sensitivity without a positive is."""
        found = counted.report(lane, self.tradeoff)
        return self.sign * float(self.measure(found)) if found.rows else math.nan

    def natural(self, score: Any) -> Any:
        """A score, or an array of them, as people know it."""
        return self.sign * score

    def standard_errors(self, counted: LaneCounts) -> NDArray[np.float64]:
        """Of the score of independent rows, of each lane, from counts alone; NaN for losses and one's own functions."""
        if self.name not in METRICS:
            return np.full(counted.counts.shape[1], math.nan)
        return standard_errors(counted, self.name, self.tradeoff)


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
