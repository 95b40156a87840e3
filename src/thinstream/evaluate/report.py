"""The metrics of a stream of labelled rows."""

import math
from dataclasses import dataclass
from typing import Any

from thinstream.errors import InvalidParameterError

_OF_TWO = (
    "rows", "positives", "error", "sensitivity", "specificity", "weighted_sum", "cost", "balanced_accuracy",
    "log_loss", "hinge", "auc", "auc_bound", "baseline", "average_precision", "average_precision_bound",
)  # fmt: skip
_OF_MORE = (
    "rows", "error", "balanced_accuracy", "macro_f1", "examples", "recall", "precision", "f1", "macro_precision",
    "baseline", "average_precision", "average_precision_bound", "average_precisions",
)  # fmt: skip
_OF_POSITIVES = ("recall", "precision", "f1")


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """What the two kinds of mistakes weigh in `Report.weighted_sum` (α) and `Report.cost` (c).

    The defaults are those of paper P3. α_p + α_n and c_p + c_n must be 1.

    Examples
    --------
    >>> Tradeoff(c_p=0.9, c_n=0.1)
    Tradeoff(alpha_p=0.5, alpha_n=0.5, c_p=0.9, c_n=0.1)

    """

    alpha_p: float = 0.5
    alpha_n: float = 0.5
    c_p: float = 0.95
    c_n: float = 0.05

    def __post_init__(self) -> None:
        for first, second in (("alpha_p", "alpha_n"), ("c_p", "c_n")):
            p, n = getattr(self, first), getattr(self, second)
            try:
                fine = p >= 0 and n >= 0 and abs(p + n - 1) < 1e-9
            except TypeError:
                fine = False
            if not fine:
                raise InvalidParameterError(
                    f"Tradeoff: {first} and {second} must be numbers >= 0 whose sum is 1, got {p!r} and {n!r}"
                )


P3 = Tradeoff()


@dataclass(frozen=True, slots=True)
class Report:
    """Metrics of a stream of two or more classes; what is undefined is NaN.

    Of two classes the second is positive, and a row is called positive if its score is above the threshold (0 unless
    the model has another). Of more, a row is called the class of highest score, the first of several.

    Examples
    --------
    >>> import numpy as np
    >>> from thinstream.evaluate import Progress
    >>> progress = Progress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> progress.report().error, progress.report().baseline, progress.report().recall
    (0.5, 0.5, (nan, 1.0, 0.0))

    """

    rows: int
    error: float  # share of rows called wrong
    baseline: float  # the error of the best constant answer: always the class that most rows are of
    balanced_accuracy: float  # mean recall of the classes; of more than two, of those that have occurred
    macro_f1: float  # mean F1 of the classes that have occurred
    macro_precision: float  # mean precision of the classes that have occurred, 0 of one that was never called
    examples: tuple[int, ...]  # of each class
    recall: tuple[float, ...]  # share of each class's rows called it
    precision: tuple[float, ...]  # share of the rows called each class that are of it
    f1: tuple[float, ...]  # their harmonic mean, of each class
    confusion: tuple[tuple[int, ...], ...] = ()  # rows of each class called each; () of too many classes
    # of the positive class, or the mean over the classes that have occurred; scores of one bin being equal
    average_precision: float = math.nan  # mean precision at the scores of the rows of a class
    average_precision_bound: float = math.nan  # the exact one is no further than this from it
    average_precisions: tuple[float, ...] = ()  # of each of more than two classes
    # of two classes only:
    weighted_sum: float = math.nan  # α_p·sensitivity + α_n·specificity
    cost: float = math.nan  # c_p·false negatives + c_n·false positives, not divided by the rows
    log_loss: float = math.nan  # mean of log(1 + e^(−y·score)), in nats
    hinge: float = math.nan  # mean of max(0, 1 − y·score)
    auc: float = math.nan  # P(score of a positive > score of a negative) + ½·P(equal), one bin's scores being equal
    auc_bound: float = math.nan  # the exact AUC is no further than this from ``auc``
    each: bool = False  # whether every class has a score of its own, of one or two as well

    @property
    def n_models(self) -> int:
        """Weight vectors of a linear model of so many classes: one for two."""
        return 1 if self.is_of_two else len(self.examples)

    @property
    def positives(self) -> int | None:
        """Rows of the positive class; None of more than two classes."""
        return self.examples[1] if self.is_of_two else None

    @property
    def sensitivity(self) -> float:
        """Share of the positives called positive."""
        return self.recall[1] if self.is_of_two else math.nan

    @property
    def specificity(self) -> float:
        """Share of the negatives called negative."""
        return self.recall[0] if self.is_of_two else math.nan

    @property
    def is_of_two(self) -> bool:
        """Whether there are two classes, and will be."""
        return len(self.examples) == 2 and not self.each

    def as_dict(self) -> dict[str, Any]:
        """Names and numbers, ready for JSON: None in place of what is not finite.

        Of two classes recall, precision and F1 are those of the positive one.
        """
        found = {name: getattr(self, name) for name in (_OF_TWO if self.is_of_two else _OF_MORE)}
        found |= {name: getattr(self, name)[1] for name in _OF_POSITIVES} if self.is_of_two else {}
        return {name: _finite(value) for name, value in found.items()}


def _finite(value: Any) -> Any:
    """A number, or None where it is not finite; of several a list of them."""
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return value if math.isfinite(value) else None
