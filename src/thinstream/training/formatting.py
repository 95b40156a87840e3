"""Metrics as text: columns of a table, and a summary with one metric per line."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from thinstream.errors import InvalidParameterError, listed
from thinstream.training.metrics import Report

#: The maximum number of classes for which a confusion matrix is printed.
MATRIX = 12


def percent(share: float) -> str:
    """Return a share in percent, or a dash if it is undefined."""
    return "–" if math.isnan(share) else f"{100.0 * share:.2f}"


def number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


class Metric(NamedTuple):
    head: str
    show: Callable[[Report], str]
    of_two: bool = False  # whether it needs two classes


#: Columns by name. Precision, recall and F1 are those of the positive class, or means over more than two classes.
METRICS: dict[str, Metric] = {
    "baseline": Metric("base %", lambda r: percent(r.baseline)),
    "precision": Metric("prec %", lambda r: percent(r.precision[1] if r.binary else r.macro_precision)),
    "recall": Metric("recall %", lambda r: percent(r.recall[1] if r.binary else r.balanced_accuracy)),
    "f1": Metric("F1 %", lambda r: percent(r.f1[1] if r.binary else r.macro_f1)),
    "specificity": Metric("spec %", lambda r: percent(r.specificity), of_two=True),
    "balanced": Metric("balanced %", lambda r: percent(r.balanced_accuracy)),
    "sum": Metric("sum %", lambda r: percent(r.weighted_sum), of_two=True),
    "cost": Metric("cost", lambda r: f"{r.cost:,.2f}", of_two=True),
    "log-loss": Metric("log-loss", lambda r: number(r.log_loss)),
    "hinge": Metric("hinge", lambda r: number(r.hinge), of_two=True),
    "auc": Metric("AUC", lambda r: number(r.auc), of_two=True),
    "ap": Metric("AP", lambda r: number(r.average_precision)),
}
#: The default columns.
USUAL = ("baseline", "precision", "recall", "f1", "log-loss", "auc", "ap")


def require_metrics(names: Iterable[str], of_two: bool) -> None:
    """Raise if a metric is unknown, or needs two classes."""
    for name in names:
        if name not in METRICS:
            raise InvalidParameterError(f"--metrics must be {listed(METRICS)}, got {name!r}")
        if METRICS[name].of_two and not of_two:
            raise InvalidParameterError(f"--metrics: {name} needs two classes, got more")


def usual(of_two: bool) -> tuple[str, ...]:
    """Return the default metrics for two or more classes.

    >>> usual(of_two=False)
    ('baseline', 'precision', 'recall', 'f1', 'ap')
    """
    return tuple(name for name in USUAL if of_two or not (METRICS[name].of_two or name == "log-loss"))


def columns(report: Report, names: Iterable[str]) -> dict[str, str]:
    """Return the cells of a line of a table, by column title."""
    return {METRICS[name].head: METRICS[name].show(report) for name in names}


def describe(report: Report, classes: Sequence[str], asked: Iterable[str] = ()) -> str:
    """Return all metrics, one per line, and the confusion matrix. The metrics sum and cost are only included if asked.

    >>> import numpy as np
    >>> from thinstream.training.metrics import Progress
    >>> progress = Progress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> print(describe(progress.report(), ["ham", "news", "spam"]))
    examples           2
    error              50.00% (always predicting news: 50.00%)
    precision          50.00%, recall 50.00%, F1 50.00% (means of the classes)
    average precision  0.7500 (±0, scores in bins)
    <BLANKLINE>
    class                 examples  precision %  recall %      F1 %      AP
    ham                          0         0.00         –      0.00       –
    news                         1       100.00    100.00    100.00  1.0000
    spam                         1            –      0.00      0.00  0.5000
    <BLANKLINE>
    predicted          ham news spam
    ham                  0    0    0
    news                 0    1    0
    spam                 1    0    0
    """
    of_two, asked = report.binary, list(asked)
    rates = ("precision", "recall", "f1")
    shares = [f"{name if name != 'f1' else 'F1'} {METRICS[name].show(report)}%" for name in rates]
    shown = {
        "examples": f"{report.rows:,}" + (f" ({report.positives:,} positive)" if of_two else ""),
        "error": f"{percent(report.error)}%{_constant(report, classes)}",
        "precision": ", ".join(shares).removeprefix("precision ") + ("" if of_two else " (means of the classes)"),
    }
    if of_two:
        shown["specificity"] = f"{percent(report.specificity)}%"
        shown["balanced accuracy"] = f"{percent(report.balanced_accuracy)}%"
        shown |= {"weighted sum": f"{percent(report.weighted_sum)}%"} if "sum" in asked else {}
        shown |= {"cost": f"{report.cost:,.2f}"} if "cost" in asked else {}
        shown |= {"log-loss": number(report.log_loss), "hinge": number(report.hinge)}
        shown["AUC"] = _bounded(report.auc, report.auc_bound)
    elif report.log_loss == report.log_loss:
        shown["log-loss"] = number(report.log_loss)
    shown["average precision"] = _bounded(report.average_precision, report.average_precision_bound)
    lines = [f"{name:<18} {text}" for name, text in shown.items()]
    if not of_two:
        lines += ["", *_by_class(report, classes)]
    if 0 < len(report.confusion) <= MATRIX:
        lines += ["", *_matrix(report, classes)]
    return "\n".join(lines)


def _constant(report: Report, classes: Sequence[str]) -> str:
    """Return the error of the best constant prediction."""
    if not report.rows:
        return ""
    most = report.examples.index(max(report.examples))
    return f" (always predicting {classes[most]}: {percent(report.baseline)}%)"


def _bounded(value: float, bound: float) -> str:
    return number(value) + (f" (±{bound:.1g}, scores in bins)" if value == value else "")


def _by_class(report: Report, classes: Sequence[str]) -> list[str]:
    precisions = report.average_precisions or (math.nan,) * len(classes)
    rows = zip(classes, report.examples, report.precision, report.recall, report.f1, precisions, strict=True)
    wide = max(18, *map(len, classes)) if classes else 18
    return [f"{'class':<{wide}} {'examples':>11} {'precision %':>12} {'recall %':>9} {'F1 %':>9} {'AP':>7}"] + [
        f"{label:<{wide}} {n:>11,} {percent(p):>12} {percent(r):>9} {percent(f):>9} {number(ap):>7}"
        for label, n, p, r, f, ap in rows
    ]


def _matrix(report: Report, classes: Sequence[str]) -> list[str]:
    """Return the lines of the confusion matrix, with a row per class and a column per predicted class."""
    cells = [list(classes), *([f"{n:,}" for n in row] for row in report.confusion)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(classes))]
    wide = max(18, *map(len, classes)) if classes else 18
    return [
        f"{label:<{wide}} " + " ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for label, row in zip(["predicted", *classes], cells, strict=True)
    ]
