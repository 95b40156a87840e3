"""Metrics as people read them: columns of a table by name, and all of them in lines."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from thinstream.errors import InvalidParameterError, listed
from thinstream.evaluate.report import Report

#: Classes of which a confusion matrix is shown; of more it would not fit a line.
MATRIX = 12


def percent(share: float) -> str:
    """A share as a table has it; what is undefined is a dash."""
    return "–" if math.isnan(share) else f"{100.0 * share:.2f}"


def number(value: float) -> str:
    """A number as a table has it."""
    return "–" if math.isnan(value) else f"{value:.4f}"


class Metric(NamedTuple):
    """A column."""

    head: str
    show: Callable[[Report], str]
    of_two: bool = False  # whether more than two classes do not have it


#: Columns by name. Of two classes precision, recall and F1 are those of the positive one, of more means.
METRICS: dict[str, Metric] = {
    "baseline": Metric("base %", lambda r: percent(r.baseline)),
    "precision": Metric("prec %", lambda r: percent(r.precision[1] if r.is_of_two else r.macro_precision)),
    "recall": Metric("recall %", lambda r: percent(r.recall[1] if r.is_of_two else r.balanced_accuracy)),
    "f1": Metric("F1 %", lambda r: percent(r.f1[1] if r.is_of_two else r.macro_f1)),
    "specificity": Metric("spec %", lambda r: percent(r.specificity), of_two=True),
    "balanced": Metric("balanced %", lambda r: percent(r.balanced_accuracy)),
    "sum": Metric("sum %", lambda r: percent(r.weighted_sum), of_two=True),
    "cost": Metric("cost", lambda r: f"{r.cost:,.2f}", of_two=True),
    "log-loss": Metric("log-loss", lambda r: number(r.log_loss), of_two=True),
    "hinge": Metric("hinge", lambda r: number(r.hinge), of_two=True),
    "auc": Metric("AUC", lambda r: number(r.auc), of_two=True),
    "ap": Metric("AP", lambda r: number(r.average_precision)),
}
#: What tables show where nothing is asked for.
USUAL = ("baseline", "precision", "recall", "f1", "log-loss", "auc", "ap")


def require_metrics(names: Iterable[str], of_two: bool) -> None:
    """Raises where a name is none of a metric, or is of one that only two classes have."""
    for name in names:
        if name not in METRICS:
            raise InvalidParameterError(f"--metrics must be of {listed(METRICS)}, got {name!r}")
        if METRICS[name].of_two and not of_two:
            raise InvalidParameterError(f"--metrics: {name} is for two classes, there are more")


def usual(of_two: bool) -> tuple[str, ...]:
    """The metrics shown of two classes, or more, where nothing is asked for.

    >>> usual(of_two=False)
    ('baseline', 'precision', 'recall', 'f1', 'ap')
    """
    return tuple(name for name in USUAL if of_two or not METRICS[name].of_two)


def columns(report: Report, names: Iterable[str]) -> dict[str, str]:
    """What a line of a table says, by the heads of its columns."""
    return {METRICS[name].head: METRICS[name].show(report) for name in names}


def describe(report: Report, classes: Sequence[str], asked: Iterable[str] = ()) -> str:
    """All metrics, a line each, and how many rows of each class were called what; sum and cost only if ``asked``.

    >>> import numpy as np
    >>> from thinstream.evaluate import Progress
    >>> progress = Progress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> print(describe(progress.report(), ["ham", "news", "spam"]))
    examples           2
    error              50.00 % (always answering news: 50.00 %)
    precision          50.00 %, recall 50.00 %, F1 50.00 % (means of the classes)
    average precision  0.7500 (±0, scores in bins)
    <BLANKLINE>
    class                 examples  precision %  recall %      F1 %      AP
    ham                          0         0.00         –      0.00       –
    news                         1       100.00    100.00    100.00  1.0000
    spam                         1            –      0.00      0.00  0.5000
    <BLANKLINE>
    called             ham news spam
    ham                  0    0    0
    news                 0    1    0
    spam                 1    0    0
    """
    of_two, asked = report.is_of_two, list(asked)
    rates = ("precision", "recall", "f1")
    shares = [f"{name if name != 'f1' else 'F1'} {METRICS[name].show(report)} %" for name in rates]
    shown = {
        "examples": f"{report.rows:,}" + (f" ({report.positives:,} positive)" if of_two else ""),
        "error": f"{percent(report.error)} %{_constant(report, classes)}",
        "precision": ", ".join(shares).removeprefix("precision ") + ("" if of_two else " (means of the classes)"),
    }
    if of_two:
        shown["specificity"] = f"{percent(report.specificity)} %"
        shown["balanced accuracy"] = f"{percent(report.balanced_accuracy)} %"
        shown |= {"weighted sum": f"{percent(report.weighted_sum)} %"} if "sum" in asked else {}
        shown |= {"cost": f"{report.cost:,.2f}"} if "cost" in asked else {}
        shown |= {"log-loss": number(report.log_loss), "hinge": number(report.hinge)}
        shown["AUC"] = _bounded(report.auc, report.auc_bound)
    shown["average precision"] = _bounded(report.average_precision, report.average_precision_bound)
    lines = [f"{name:<18} {text}" for name, text in shown.items()]
    if not of_two:
        lines += ["", *_by_class(report, classes)]
    if 0 < len(report.confusion) <= MATRIX:
        lines += ["", *_matrix(report, classes)]
    return "\n".join(lines)


def _constant(report: Report, classes: Sequence[str]) -> str:
    """The error of the best constant answer."""
    if not report.rows:
        return ""
    most = report.examples.index(max(report.examples))
    return f" (always answering {classes[most]}: {percent(report.baseline)} %)"


def _bounded(value: float, bound: float) -> str:
    return number(value) + (f" (±{bound:.1g}, scores in bins)" if value == value else "")


def _by_class(report: Report, classes: Sequence[str]) -> list[str]:
    precisions = report.average_precisions or (math.nan,) * len(classes)
    each = zip(classes, report.examples, report.precision, report.recall, report.f1, precisions, strict=True)
    return [f"{'class':<18} {'examples':>11} {'precision %':>12} {'recall %':>9} {'F1 %':>9} {'AP':>7}"] + [
        f"{label:<18} {n:>11,} {percent(p):>12} {percent(r):>9} {percent(f):>9} {number(ap):>7}"
        for label, n, p, r, f, ap in each
    ]


def _matrix(report: Report, classes: Sequence[str]) -> list[str]:
    """Rows are what examples are, columns what they were called."""
    cells = [list(classes), *([f"{n:,}" for n in row] for row in report.confusion)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(classes))]
    return [
        f"{label:<18} " + " ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for label, row in zip(["called", *classes], cells, strict=True)
    ]
