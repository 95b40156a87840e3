"""The metrics of a stream of labelled rows, and how they are shown."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thinstream.errors import InvalidParameterError

_OF_TWO = (
    "rows", "positives", "error", "sensitivity", "specificity", "weighted_sum", "cost", "balanced_accuracy",
    "log_loss", "hinge", "auc", "auc_bound",
)  # fmt: skip
_OF_MORE = ("rows", "error", "balanced_accuracy", "macro_f1", "examples", "recall", "precision")


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

    Of two classes the second is positive, and a row is called positive if its score is above 0. Of more, a row is
    called the class of highest score, the first of several.

    Examples
    --------
    >>> import numpy as np
    >>> from thinstream.evaluate import Progress
    >>> progress = Progress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> print(progress.report().describe(["ham", "news", "spam"]))
    examples           2
    error              50.00 %
    balanced accuracy  50.00 %
    macro F1           50.00 %
    <BLANKLINE>
    class                 examples  recall %  precision %
    ham                          0         –         0.00
    news                         1    100.00       100.00
    spam                         1      0.00            –

    """

    rows: int
    error: float  # share of rows called wrong
    balanced_accuracy: float  # mean recall of the classes; of more than two, of those that have occurred
    macro_f1: float  # mean F1 of the classes that have occurred
    examples: tuple[int, ...]  # of each class
    recall: tuple[float, ...]  # share of each class's rows called it
    precision: tuple[float, ...]  # share of the rows called each class that are of it
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
        return 1 if self._two else len(self.examples)

    @property
    def positives(self) -> int | None:
        """Rows of the positive class; None of more than two classes."""
        return self.examples[1] if self._two else None

    @property
    def sensitivity(self) -> float:
        """Share of the positives called positive."""
        return self.recall[1] if self._two else math.nan

    @property
    def specificity(self) -> float:
        """Share of the negatives called negative."""
        return self.recall[0] if self._two else math.nan

    @property
    def _two(self) -> bool:
        return len(self.examples) == 2 and not self.each

    def as_dict(self) -> dict[str, Any]:
        """Names and numbers, ready for JSON: None in place of what is not finite."""
        return {name: _finite(getattr(self, name)) for name in (_OF_TWO if self._two else _OF_MORE)}

    def columns(self) -> dict[str, str]:
        """What a line of a table says of it beside rows and error, by the heads of the columns."""
        if not self._two:
            return {"recall %": _percent(self.balanced_accuracy), "F1 %": _percent(self.macro_f1)}
        return {
            "sens %": _percent(self.sensitivity),
            "spec %": _percent(self.specificity),
            "sum %": _percent(self.weighted_sum),
            "cost": f"{self.cost:,.2f}",
            "log-loss": _number(self.log_loss),
            "AUC": _number(self.auc),
        }

    def describe(self, classes: Sequence[Any]) -> str:
        """All metrics, a line each; of more than two classes, whose labels are needed, a line for each as well."""
        shown = {
            "examples": f"{self.rows:,}",
            "error": f"{_percent(self.error)} %",
            "balanced accuracy": f"{_percent(self.balanced_accuracy)} %",
        }
        if not self._two:
            shown["macro F1"] = f"{_percent(self.macro_f1)} %"
            table = [f"{'class':<18} {'examples':>11} {'recall %':>9} {'precision %':>12}"]
            for label, n, r, p in zip(classes, self.examples, self.recall, self.precision, strict=True):
                table.append(f"{label!s:<18} {n:>11,} {_percent(r):>9} {_percent(p):>12}")
            return "\n".join([*_lines(shown), "", *table])
        bound = f" (±{self.auc_bound:.1g}, scores in bins)" if self.auc == self.auc else ""
        shown = {
            "examples": f"{self.rows:,} ({self.positives:,} positive)",
            "error": shown["error"],
            "sensitivity": f"{_percent(self.sensitivity)} %",
            "specificity": f"{_percent(self.specificity)} %",
            "balanced accuracy": shown["balanced accuracy"],
            "weighted sum": f"{_percent(self.weighted_sum)} %",
            "cost": f"{self.cost:,.2f}",
            "log-loss": _number(self.log_loss),
            "hinge": _number(self.hinge),
            "AUC": f"{_number(self.auc)}{bound}",
        }
        return "\n".join(_lines(shown))


def _lines(texts: dict[str, str]) -> list[str]:
    return [f"{name:<18} {text}" for name, text in texts.items()]


def _percent(share: float) -> str:
    return "–" if math.isnan(share) else f"{100.0 * share:.2f}"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _finite(value: Any) -> Any:
    """A number, or None where it is not finite; of several a list of them."""
    if isinstance(value, tuple):
        return [_finite(each) for each in value]
    return value if math.isfinite(value) else None
