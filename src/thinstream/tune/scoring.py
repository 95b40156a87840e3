"""What models are compared by: measures of counts under our names and scikit-learn's, and functions of one's own."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, UnknownNameError, listed
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.tune.lane_counts import LaneCounts
from thinstream.tune.lane_ranks import RANKED, RankMeasure
from thinstream.tune.measures import MEASURES, Numbers, measures_of, metric_values, standard_errors

#: What counts tell.
NAMES = tuple(MEASURES)
#: Those that a sparsity path can be judged by.
WITH_ERRORS = tuple(name for name, measure in MEASURES.items() if measure.variance)


def path_columns(classes: int) -> tuple[str, ...]:
    """What a sparsity path has columns of."""
    every = ("error", "balanced_accuracy", "weighted_sum", "cost")
    return tuple(name for name in every if name in measures_of(classes))


def check_metric(name: str, classes: int = 2) -> str:
    """The name, if a sparsity path can be judged by it; else raises."""
    allowed = [each for each in WITH_ERRORS if each in measures_of(classes)]
    if name not in (*allowed, *RANKED):
        raise UnknownNameError(f"scoring must be {listed([*allowed, *RANKED])}{_of_more(classes)}, got {name!r}")
    return name


def judges_paths(name: str) -> bool:
    """Whether a sparsity path can be judged by a scoring: its standard error is known."""
    return name in WITH_ERRORS or name in RANKED


def _of_more(classes: int) -> str:
    return "" if classes == 2 else f" of {classes} classes"


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


class RankScoring(NamedTuple):
    """What candidates are compared by, from how they rank rows: greater for the better."""

    name: str
    measure: RankMeasure
    losses: bool = False
    offset: float = 0.0

    def natural(self, score: Any) -> Any:
        """As it is."""
        return score


class PredictionScoring(NamedTuple):
    """A score that counts cannot tell, as the area under a curve: of scores and labels, greater for the better."""

    name: str
    function: Callable[[NDArray[Any], NDArray[Any]], float]
    losses: bool = False
    offset: float = 0.0


#: Whatever candidates are compared by.
AnyScoring = Scoring | RankScoring | PredictionScoring


def scoring_of(given: Any, tradeoff: Tradeoff = P3, classes: int = 2) -> Scoring | RankScoring:
    """A scoring by its name, or by a function of a `Report` whose greater values are better.

    >>> scoring_of("error").natural(-0.25), scoring_of(lambda report: report.sensitivity).name
    (0.25, 'score')
    """
    if callable(given):
        return Scoring("score", given, tradeoff)
    allowed = (*measures_of(classes), *RANKED)
    if not isinstance(given, str) or given not in allowed:
        raise InvalidParameterError(
            f"scoring must be {listed(allowed)}{_of_more(classes)}, or a function of a Report, got {given!r}"
        )
    return RankScoring(given, RANKED[given]) if given in RANKED else Scoring(given, None, tradeoff)
