"""Measures that rank candidates, and how candidates are compared."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, UnknownNameError, listed
from thinstream.training.metrics import LOG_LOSS, P3, Report, Tradeoff
from thinstream.tuning.counts import RANKED, SQUARES, LaneCounts, RankMeasure

# Measures that follow from counts, and their variances.

Numbers = NDArray[np.float64]


class _Counted(NamedTuple):
    """The counts of each class and lane, and the sums of each lane. Two classes are binary."""

    examples: Numbers  # [class, lane]
    predicted: Numbers  # [class, lane]
    right: Numbers  # [class, lane]
    log_loss: Numbers  # summed
    squares: Numbers  # of the log-loss, summed
    tradeoff: Tradeoff

    @property
    def binary(self) -> bool:
        return len(self.examples) == 2

    @property
    def rows(self) -> Numbers:
        return np.asarray(self.examples.sum(axis=0))

    @property
    def wrong(self) -> Numbers:
        return np.asarray(self.rows - self.right.sum(axis=0))

    @property
    def mistakes(self) -> Numbers:
        """False positives and false negatives, if there are two classes."""
        return self.examples - self.right

    @property
    def averaged(self) -> NDArray[np.bool_]:
        """The classes in a mean over classes: the positive one, or those that have occurred if there are more."""
        return np.array([[False], [True]]) if self.binary else self.examples > 0

    def mean(self, values: Numbers) -> Numbers:
        """Mean over classes."""
        return np.asarray(np.where(self.averaged, values, 0.0).sum(axis=0) / self.averaged.sum(axis=0))

    def variance(self, variances: Numbers) -> Numbers:
        """Variance of a mean over classes, if different rows decide the value of each class."""
        return np.asarray(self.mean(variances) / self.averaged.sum(axis=0))


class Measure(NamedTuple):
    """A measure that follows from counts, and its variance for independent rows."""

    of: Callable[[_Counted], Numbers]
    sign: int = 1  # -1: smaller is better, as for an error
    variance: Callable[[_Counted], Numbers] | None = None
    offset: float = 0.0  # added to reported scores; accuracy is compared as the error
    binary: bool = False  # whether it needs two classes


def _variance(hits: Numbers, of: Numbers) -> Numbers:
    """Return the binomial variance of a share. One mistake and one hit are added, so that it is never 0."""
    share = (hits + 1) / (of + 2)
    return share * (1 - share) / (of + 2)


def _share(part: Numbers, whole: Numbers) -> Numbers:
    """Return part / whole, or 0 if the whole is 0, as scikit-learn does."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _weighted_sum(counted: _Counted) -> Numbers:
    specificity, sensitivity = counted.right / counted.examples
    return np.asarray(counted.tradeoff.alpha_p * sensitivity + counted.tradeoff.alpha_n * specificity)


def _weighted_sum_variance(counted: _Counted) -> Numbers:
    of_negatives, of_positives = _variance(counted.mistakes, counted.examples)
    return np.asarray(counted.tradeoff.alpha_p**2 * of_positives + counted.tradeoff.alpha_n**2 * of_negatives)


def _balanced_accuracy(counted: _Counted) -> Numbers:
    """Mean recall. Two classes must both occur."""
    recall = counted.right / counted.examples
    return np.asarray(recall.sum(axis=0) / 2) if counted.binary else counted.mean(recall)


def _balanced_accuracy_variance(counted: _Counted) -> Numbers:
    variances = _variance(counted.mistakes, counted.examples)
    return np.asarray(variances.sum(axis=0) / 4) if counted.binary else counted.variance(variances)


def _cost(counted: _Counted) -> Numbers:
    false, missed = counted.mistakes
    return np.asarray((counted.tradeoff.c_p * missed + counted.tradeoff.c_n * false) / counted.rows)


def _cost_variance(counted: _Counted) -> Numbers:
    c_p, c_n, of, (false, missed) = counted.tradeoff.c_p, counted.tradeoff.c_n, counted.rows + 2, counted.mistakes + 1
    mean = (c_p * missed + c_n * false) / of
    square = (c_p**2 * missed + c_n**2 * false) / of
    return np.asarray((square - mean**2) / of)


def _variance_of_overlap(counted: _Counted, by_right: Numbers, by_other: Numbers) -> Numbers:
    """Return the variance of a mean over classes of functions of examples, predictions and right predictions.

    It uses the delta method. A misclassified row is an example of one class and predicted as another, and the two are
    treated as independent. ``by_right`` and ``by_other`` are the derivatives by the counts.
    """
    occurs = counted.averaged
    missed, false = (
        np.where(occurs, counts - counted.right + 1, 0.0) for counts in (counted.examples, counted.predicted)
    )
    inside = np.where(occurs, (counted.right + 1) * (by_right + 2 * by_other) ** 2, 0.0)
    moved, turned = missed * by_other, false * by_other
    alone = (inside + moved * by_other + turned * by_other).sum(axis=0)
    together = 2 * moved.sum(axis=0) * turned.sum(axis=0) / missed.sum(axis=0)
    return np.asarray((alone + together) / occurs.sum(axis=0) ** 2)


def _f1_variance(counted: _Counted) -> Numbers:  # by the delta method
    if counted.binary:
        hits, wrong, of = counted.right[1] + 1, counted.wrong + 1, counted.rows + 2
        return np.asarray(4 * hits * wrong * (hits + wrong) / (2 * hits + wrong) ** 4 * (1 - 1 / of))
    right, both = counted.right + 1, counted.examples + counted.predicted + 4  # a hit and two mistakes more: never 0
    return _variance_of_overlap(counted, 2 / both, -2 * right / both**2)


def _jaccard_variance(counted: _Counted) -> Numbers:
    if counted.binary:
        return _variance(counted.wrong, counted.right[1] + counted.wrong)
    right, both = counted.right + 1, counted.examples + counted.predicted + 4
    either = both - right
    return _variance_of_overlap(counted, both / either**2, -right / either**2)


def _correlation(counted: _Counted) -> Numbers:
    """Return Matthews's correlation or, with more than two classes, Gorodkin's R_K."""
    if counted.binary:
        (negatives, positives), predicted, (false, missed) = counted.examples, counted.predicted[1], counted.mistakes
        true_negatives, hits = counted.right
        product = predicted * positives * negatives * (counted.rows - predicted)
        return _share(hits * true_negatives - false * missed, np.sqrt(product))
    rows, right = counted.rows, counted.right.sum(axis=0)
    product = (rows**2 - (counted.predicted**2).sum(axis=0)) * (rows**2 - (counted.examples**2).sum(axis=0))
    return _share(rows * right - (counted.predicted * counted.examples).sum(axis=0), np.sqrt(product))


def _variance_of_loss(counted: _Counted) -> Numbers:
    """Return the variance of a mean loss, from the sums of the losses and their squares."""
    mean = counted.log_loss / counted.rows
    return np.asarray(np.maximum(counted.squares / counted.rows - mean**2, 0.0) / counted.rows)


_ERROR = Measure(lambda c: c.wrong / c.rows, -1, lambda c: _variance(c.wrong, c.rows))
#: Precision, recall, F1 and Jaccard are those of the positive class, or means over more than two classes.
#: The first four are columns of a sparsity path. ``cost`` is per row, so that folds of any size compare.
MEASURES: dict[str, Measure] = {
    "error": _ERROR,
    "balanced_accuracy": Measure(_balanced_accuracy, variance=_balanced_accuracy_variance),
    "weighted_sum": Measure(_weighted_sum, variance=_weighted_sum_variance, binary=True),
    "cost": Measure(_cost, -1, variance=_cost_variance, binary=True),
    "accuracy": _ERROR._replace(offset=1.0),
    "f1": Measure(lambda c: c.mean(_share(2 * c.right, c.examples + c.predicted)), variance=_f1_variance),
    "precision": Measure(
        lambda c: c.mean(_share(c.right, c.predicted)),
        variance=lambda c: c.variance(_variance(c.predicted - c.right, c.predicted)),
    ),
    "recall": Measure(
        lambda c: c.mean(_share(c.right, c.examples)), variance=lambda c: c.variance(_variance(c.mistakes, c.examples))
    ),
    "jaccard": Measure(
        lambda c: c.mean(_share(c.right, c.examples + c.predicted - c.right)), variance=_jaccard_variance
    ),
    "matthews_corrcoef": Measure(_correlation),
    "log_loss": Measure(lambda c: c.log_loss / c.rows, -1, _variance_of_loss),
    "neg_log_loss": Measure(lambda c: -c.log_loss / c.rows, variance=_variance_of_loss),
}


def measures_of(classes: int) -> tuple[str, ...]:
    """Return the names of the measures of a number of classes."""
    return tuple(name for name, measure in MEASURES.items() if classes == 2 or not measure.binary)


def metric_values(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """Return a measure of every lane. NaN: no rows, or a class that the measure needs is missing.

    >>> counts = np.array([[[6, 0], [4, 0]], [[5, 0], [5, 0]], [[4, 0], [3, 0]]])
    >>> metric_values(LaneCounts(counts, np.zeros((3, 2))), "error")
    array([0.3, nan])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = MEASURES[metric].of(_floats(counted, tradeoff))
    return np.where(counted.rows > 0, values, np.nan)


def standard_errors(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> Numbers:
    """Return the standard error of a measure of every lane. NaN: counts do not determine it."""
    variance = MEASURES[metric].variance if metric in MEASURES else None
    if variance is None:
        return np.full(counted.counts.shape[-1], math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(variance(_floats(counted, tradeoff))))


def _floats(counted: LaneCounts, tradeoff: Tradeoff) -> _Counted:
    examples, predicted, right = counted.counts.astype(np.float64)
    return _Counted(examples, predicted, right, counted.totals[LOG_LOSS], counted.totals[SQUARES], tradeoff)


# Metrics that compare models: measures by thinstream's and scikit-learn's names, and custom functions.

#: Measures from counts.
NAMES = tuple(MEASURES)
#: Measures that can select a model of a sparsity path.
WITH_ERRORS = tuple(name for name, measure in MEASURES.items() if measure.variance)


def default_metric(has_probabilities: bool) -> str:
    """Return the default metric: log-loss, or average precision for models without probabilities.

    Both compare scores, so they distinguish models also on imbalanced data, where few rows decide about the error.
    """
    return "log_loss" if has_probabilities else "average_precision"


def constant_value(name: str, examples: NDArray[Any], tradeoff: Tradeoff = P3) -> float:
    """Return the measure of the best constant prediction, from the number of rows of each class.

    For log-loss, the answer is the shares of the classes. For other counts, it is a class.

    >>> examples = np.array([90, 10])
    >>> constant_value("error", examples), round(constant_value("log_loss", examples), 3)
    (0.1, 0.325)
    >>> constant_value("auc", examples), constant_value("average_precision", examples)
    (0.5, 0.1)
    """
    classes, rows = len(examples), int(examples.sum())
    shares = examples[examples > 0] / max(rows, 1)
    if "log_loss" in name:
        return -MEASURES[name].sign * float(-np.sum(shares * np.log(shares)))
    if name in RANKED:
        precision = float(examples[1] / max(rows, 1)) if classes == 2 else float(np.mean(shares))
        return precision if name == "average_precision" else 0.5
    answers = np.eye(classes, dtype=np.int64)
    counts = np.stack([np.tile(examples[:, np.newaxis], classes), answers * rows, answers * examples])
    values = metric_values(LaneCounts(counts, np.zeros((3, classes))), name, tradeoff)
    return float(np.nanmax(MEASURES[name].sign * values) * MEASURES[name].sign)


def is_constant(name: str, value: float, examples: NDArray[Any], tradeoff: Tradeoff = P3) -> bool:
    """Return whether a measure of a model is not better than that of the best constant prediction.

    >>> is_constant("auc", 0.498, np.array([90, 10])), is_constant("error", 0.05, np.array([90, 10]))
    (True, False)
    """
    sign = MEASURES[name].sign if name in MEASURES else 1
    return bool(sign * value <= sign * constant_value(name, examples, tradeoff))


def path_columns(classes: int) -> tuple[str, ...]:
    """Return the metrics that are columns of a sparsity path."""
    every = ("error", "balanced_accuracy", "weighted_sum", "cost")
    return tuple(name for name in every if name in measures_of(classes))


def check_metric(name: str, classes: int = 2) -> str:
    """Return the name of a metric. Raise if it cannot select a model of a sparsity path."""
    allowed = [measure for measure in WITH_ERRORS if measure in measures_of(classes)]
    if name not in (*allowed, *RANKED):
        raise UnknownNameError(f"scoring must be {listed([*allowed, *RANKED])}{_of_more(classes)}, got {name!r}")
    return name


def judges_paths(name: str) -> bool:
    """Return whether a metric can select a model of a sparsity path, because its standard error is known."""
    return name in WITH_ERRORS or name in RANKED


def _of_more(classes: int) -> str:
    return "" if classes == 2 else f" of {classes} classes"


class Scoring(NamedTuple):
    """A metric from counts that compares candidates. Greater scores are better."""

    name: str
    function: Callable[[Report], float] | None = None  # a custom function; None: the measure of this name
    tradeoff: Tradeoff = P3

    @property
    def losses(self) -> bool:
        """Whether sums of losses are needed."""
        return self.function is not None or "log_loss" in self.name

    @property
    def offset(self) -> float:
        """The number added to scores for display."""
        return 0.0 if self.function else MEASURES[self.name].offset

    def scores(self, counted: LaneCounts) -> Numbers:
        """Return the score of each lane. NaN: undefined, such as sensitivity without a positive."""
        if self.function is None:
            return MEASURES[self.name].sign * metric_values(counted, self.name, self.tradeoff)
        reports = [counted.report(lane, self.tradeoff) for lane in range(counted.counts.shape[-1])]
        return np.array([float(self.function(report)) if report.rows else math.nan for report in reports])

    def natural(self, score: Any) -> Any:
        """Return scores for display: an error without its minus."""
        if self.function is None and MEASURES[self.name].sign < 0 and not self.offset:
            return 0.0 - score  # not -0.0
        return score + self.offset

    def standard_errors(self, counted: LaneCounts) -> Numbers:
        """Return the standard error of each lane's score for independent rows. NaN: losses and custom functions."""
        return standard_errors(counted, "" if self.function else self.name, self.tradeoff)


class RankScoring(NamedTuple):
    """A rank-based metric for comparing candidates. Higher is better."""

    name: str
    measure: RankMeasure
    losses: bool = False
    offset: float = 0.0

    def natural(self, score: Any) -> Any:
        """As it is."""
        return score


class PredictionScoring(NamedTuple):
    """A function of scores and labels that compares candidates. Greater scores are better."""

    name: str
    function: Callable[[NDArray[Any], NDArray[Any]], float]
    losses: bool = False
    offset: float = 0.0


#: Any metric that compares candidates.
AnyScoring = Scoring | RankScoring | PredictionScoring


def scoring_of(scoring: Any, tradeoff: Tradeoff = P3, classes: int = 2) -> Scoring | RankScoring:
    """Return a scoring by its name, or for a function of a `Report` whose greater values are better.

    >>> scoring_of("error").natural(-0.25), scoring_of(lambda report: report.sensitivity).name
    (0.25, 'score')
    """
    if callable(scoring):
        return Scoring("score", scoring, tradeoff)
    allowed = (*measures_of(classes), *RANKED)
    if not isinstance(scoring, str) or scoring not in allowed:
        raise InvalidParameterError(
            f"scoring must be {listed(allowed)}{_of_more(classes)}"
            f"{'' if isinstance(scoring, str) else ', or a function of a Report'}, got {scoring!r}"
        )
    return RankScoring(scoring, RANKED[scoring]) if scoring in RANKED else Scoring(scoring, None, tradeoff)
