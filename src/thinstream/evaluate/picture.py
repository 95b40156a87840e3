"""A picture of how good a model is: precision against recall, ROC, and what scores are worth."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinstream.evaluate.curves import curves_of
from thinstream.evaluate.progress import Progress
from thinstream.evaluate.report import Report
from thinstream.plotting import draw_into, matplotlib

#: Classes that get a curve of their own, those of most rows; and cells of a matrix that have room for their numbers.
SHOWN, WRITTEN = 8, 12
_BLUE, _RED, _GREY = "#2a7f9e", "#c8553d", "0.55"


def draw_curves(
    progress: Progress, classes: Sequence[str], title: str, path: str | os.PathLike[str], *, probabilities: bool
) -> None:
    """Draws into a PNG or SVG file; of more than two classes there is the confusion matrix in place of calibration."""
    draw_into(path, lambda: _figure(progress, classes, title, probabilities))


def _figure(progress: Progress, classes: Sequence[str], title: str, probabilities: bool) -> Any:
    report, found = progress.report(), curves_of(progress, classes, probabilities=probabilities)
    figure = matplotlib().figure.Figure(figsize=(13, 4.6), layout="constrained")
    figure.suptitle(f"{title}: {report.rows:,} rows", fontsize=12, parse_math=False)
    recall, roc, third = figure.subplots(1, 3)
    if report.is_of_two:
        curves = [(found, f"average precision {report.average_precision:.3f}", f"AUC {report.auc:.3f}")]
    else:
        most = sorted(np.argsort(report.examples, kind="stable")[::-1][:SHOWN].tolist()) if found else []
        curves = [(found[k], f"{classes[k]}: {report.average_precisions[k]:.3f}", classes[k]) for k in most]
    for curve, precision_label, roc_label in curves:
        points = curve["precision_recall"]
        first = points["precision"][:1]
        recall.plot([0.0, *points["recall"]], [*first, *points["precision"]], lw=1.6, label=precision_label)
        points = curve["roc"]
        roc.plot([0.0, *points["false_alarms"]], [0.0, *points["recall"]], lw=1.6, label=roc_label)
    _mark_threshold(recall, roc, report)
    if report.is_of_two:
        share = report.examples[1] / max(report.rows, 1)
        recall.axhline(share, color=_GREY, lw=1.0, ls="--", label=f"calling all rows {classes[1]}: {share:.3f}")
        _calibration(third, found["calibration"], classes[1])
    else:
        _matrix(third, report, classes)
    recall.set(title="precision and recall", xlabel="recall: share of the positives found", ylabel="precision")
    roc.plot([0, 1], [0, 1], color=_GREY, lw=1.0, ls="--")
    roc.set(title="ROC", xlabel="false alarms: share of the negatives called positive", ylabel="recall")
    for axes in (recall, roc):
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
        axes.grid(alpha=0.3)
        if curves:
            axes.legend(frameon=False, fontsize=8, loc="best" if axes is recall else "lower right")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _mark_threshold(recall: Any, roc: Any, report: Report) -> None:
    """Where the model decides."""
    if not report.is_of_two or not all(report.examples):
        return
    dot = {"marker": "o", "ms": 6, "color": _RED, "ls": "", "label": "at the model's threshold", "zorder": 3}
    if report.precision[1] == report.precision[1]:
        recall.plot([report.recall[1]], [report.precision[1]], **dot)
    roc.plot([1.0 - report.specificity], [report.recall[1]], **dot)


def _calibration(axes: Any, found: dict[str, Any], positive: str) -> None:
    probabilities = "predicted" in found
    x, y, rows = found["predicted" if probabilities else "score"], found["observed"], np.array(found["rows"])
    sizes = 20 + 160 * rows / max(rows.max(initial=1), 1)
    axes.plot(x, y, color=_BLUE, lw=1.2)
    axes.scatter(x, y, s=sizes, color=_BLUE, zorder=3)
    if probabilities:
        axes.plot([0, 1], [0, 1], color=_GREY, lw=1.0, ls="--")
        title = f"calibration: off by {100 * found['error']:.1f} points (dots grow with rows)"
        axes.set_title(title, fontsize=11)
        axes.set(xlabel="probability predicted", xlim=(-0.02, 1.02))
    else:
        axes.axvline(0.0, color=_GREY, lw=1.0, ls="--")
        axes.set(title="what scores are worth (tenths of the rows)", xlabel="score")
    axes.set_ylabel(f"share of {positive} among these rows", parse_math=False)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _matrix(axes: Any, report: Report, classes: Sequence[str]) -> None:
    """Shares of each class's rows that were called each."""
    axes.set_title("what the rows of each class were called", fontsize=12)
    if not report.confusion:
        axes.text(0.5, 0.5, "no confusion matrix was kept", ha="center", va="center", color="0.4")
        axes.set_axis_off()
        return
    counts = np.array(report.confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(counts))
    axes.set_xticks(places, labels=classes, rotation=60, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks(places, labels=classes, fontsize=8, parse_math=False)
    axes.set(xlabel="called", ylabel="class")
    if len(counts) <= WRITTEN:
        for (row, column), count in np.ndenumerate(counts):
            dark = "white" if shares[row, column] > 0.5 else "0.2"
            axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8, color=dark)
