"""Charts of a run (progressive error and drift) and of an evaluation (curves and the confusion matrix)."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from thinstream.models.blend import Record
from thinstream.plotting import below, draw_into, matplotlib
from thinstream.training.formatting import percent
from thinstream.training.metrics import Progress, Report
from thinstream.training.monitors import DriftWatch
from thinstream.training.threshold import curves_of

#: The maximum number of points of the error curve.
POINTS = 128
_COLOURS = {"adwin": "#c8553d", "ddm": "#b8860b", "page-hinkley": "#6a4c93"}


def draw_run(
    watch: DriftWatch,
    title: str,
    path: str | os.PathLike[str],
    record: Record | None = None,
    baseline: float | None = None,
) -> None:
    """Draw a run to a PNG or SVG file, which is replaced atomically. The same run gives the same bytes.

    With the ``record`` of a blend, the chart also shows the errors and shares of its members. ``baseline`` is the error
    of the best constant prediction.
    """
    draw_into(path, lambda: _training_figure(watch, title, record, baseline))


def _training_figure(watch: DriftWatch, title: str, record: Record | None, baseline: float | None) -> Any:
    many = record is not None and len(record.noted) > 1
    figure = matplotlib().figure.Figure(figsize=(9, 11.0 if many else 4.6), layout="constrained")
    if record is None or not many:
        _draw_error(figure.subplots(), watch, title, baseline)
        return figure
    top, middle, bottom = figure.subplots(3, 1)
    _draw_error(top, watch, title, baseline)
    _draw_models(middle, bottom, record)
    return figure


def _draw_models(errors: Any, shares: Any, record: Record) -> None:
    """Draw the error of each member and of the blend between doublings, and the shares at their ends."""
    rows, mistakes = record.noted.T
    spans, ends = np.diff(rows, prepend=0), rows.astype(float)
    wrong = np.diff(record.noted_mistakes, axis=0, prepend=0) / spans[:, np.newaxis]
    # a member is in the blend until it is dropped, or until the first row that was too wide for it (−2 − t)
    last = [np.inf if until == -1 else until if until >= 0 else -2 - until for until in record.until]
    there = np.array([ends <= until for until in last]).T
    order = np.argsort(-record.noted_shares.sum(axis=0), kind="stable")
    colours = matplotlib().colormaps["tab20"](np.arange(len(order)) % 20)
    for colour, k in zip(colours, order, strict=True):
        if not there[:, k].any():  # it never ran
            continue
        shown = np.where(there[:, k], 100 * wrong[:, k], np.nan)
        errors.plot(ends, shown, color=colour, lw=1.1, label=str(record.members[k]))
    errors.plot(ends, 100 * np.diff(mistakes, prepend=0) / spans, color="black", lw=2.4, label="the blend")
    errors.set(ylabel="error since the doubling before, %")
    below(errors, columns=2, size=7)
    shares.stackplot(ends, 100 * record.noted_shares[:, order].T, colors=colours)
    shares.set(xlabel="examples", ylabel="share in the blend, %", ylim=(0, 100))
    for axes in (errors, shares):
        axes.set_xscale("log", base=2)
        axes.set_xlim(ends[0], ends[-1])
        axes.xaxis.set_major_formatter(matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)


def _draw_error(axes: Any, watch: DriftWatch, title: str, baseline: float | None) -> None:
    stretches = watch.curve.stretches()
    size = -(-len(stretches) // POINTS)
    groups = [stretches[start : start + size] for start in range(0, len(stretches), size or 1)]
    n_rows = [sum(stretch.rows for stretch in group) for group in groups]
    if len(groups) > 1 and 4 * n_rows[-1] < n_rows[0]:
        groups.pop()  # the error of a few rows at the end is meaningless
    ends = np.array([group[-1].until for group in groups])
    wrong, rows = (np.cumsum([sum(stretch[k] for stretch in group) for group in groups]) for k in (2, 1))
    errors = np.diff(wrong, prepend=0) / np.diff(rows, prepend=0)
    axes.step(
        [0, *ends],
        100 * errors[[0, *range(len(errors))]],
        where="pre",
        color="#2a7f9e",
        lw=1.3,
        label="error of each interval",
    )
    axes.plot(ends, 100 * wrong / rows, color="0.55", lw=1.1, ls="--", label="since the start")
    if baseline is not None:
        constant = f"the best constant prediction: {percent(baseline)}%"
        axes.axhline(100 * baseline, color=_RED, lw=1.1, ls=":", label=constant)
    seen = set[str]()
    for monitor, change in watch.detections:
        label = None if monitor in seen else f"{monitor}: the error has risen"
        axes.axvline(change.row, color=_COLOURS.get(monitor, "0.2"), lw=1.1, alpha=0.8, label=label)
        seen.add(monitor)
    axes.set(title=title, xlabel="examples", ylabel="progressive error, %", xlim=(0, stretches[-1].until))
    axes.set_ylim(0, min(100, 110 * max(errors.max(), baseline or 0.0, 0.01)))
    axes.xaxis.set_major_formatter(matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    below(axes)


#: The maximum number of classes with a curve, those with the most rows, and of classes for numbers in matrix cells.
SHOWN, WRITTEN = 8, 12
_BLUE, _RED, _GREY = "#2a7f9e", "#c8553d", "0.55"


def draw_curves(
    progress: Progress, classes: Sequence[str], title: str, path: str | os.PathLike[str], *, probabilities: bool
) -> None:
    """Draw precision and recall, ROC and calibration to a PNG or SVG file.

    With more than two classes, there is a confusion matrix instead of calibration.
    """
    draw_into(path, lambda: _metrics_figure(progress, classes, title, probabilities))


def _metrics_figure(progress: Progress, classes: Sequence[str], title: str, probabilities: bool) -> Any:
    report, curves_by_class = progress.report(), curves_of(progress, classes, probabilities=probabilities)
    figure = matplotlib().figure.Figure(figsize=(13, 4.6), layout="constrained")
    figure.suptitle(f"{title}: {report.rows:,} rows", fontsize=12, parse_math=False)
    recall, roc, third = figure.subplots(1, 3)
    if report.binary:
        curves = [(curves_by_class, f"average precision {report.average_precision:.3f}", f"AUC {report.auc:.3f}")]
    else:
        most = sorted(np.argsort(report.examples, kind="stable")[::-1][:SHOWN].tolist()) if curves_by_class else []
        curves = [(curves_by_class[k], f"{classes[k]}: {report.average_precisions[k]:.3f}", classes[k]) for k in most]
    for curve, precision_label, roc_label in curves:
        points = curve["precision_recall"]
        first = points["precision"][:1]
        recall.plot([0.0, *points["recall"]], [*first, *points["precision"]], lw=1.6, label=precision_label)
        points = curve["roc"]
        roc.plot([0.0, *points["false_alarms"]], [0.0, *points["recall"]], lw=1.6, label=roc_label)
    _mark_threshold(recall, roc, report)
    if report.binary:
        share = report.examples[1] / max(report.rows, 1)
        recall.axhline(share, color=_GREY, lw=1.0, ls="--", label=f"always predicting {classes[1]}: {share:.3f}")
        _calibration(third, curves_by_class["calibration"], classes[1])
    else:
        _matrix(third, report, classes)
    recall.set(title="precision and recall", xlabel="recall", ylabel="precision")
    roc.plot([0, 1], [0, 1], color=_GREY, lw=1.0, ls="--")
    roc.set(title="ROC", xlabel="false positive rate", ylabel="recall")
    for axes in (recall, roc):
        axes.set(xlim=(-0.01, 1.01), ylim=(-0.01, 1.02))
        axes.grid(alpha=0.3)
        if curves:
            below(axes, size=8)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _mark_threshold(recall: Any, roc: Any, report: Report) -> None:
    if not report.binary or not all(report.examples):
        return
    dot = {"marker": "o", "ms": 6, "color": _RED, "ls": "", "label": "at the model's threshold", "zorder": 3}
    if report.precision[1] == report.precision[1]:
        recall.plot([report.recall[1]], [report.precision[1]], **dot)
    roc.plot([1.0 - report.specificity], [report.recall[1]], **dot)


def _calibration(axes: Any, bins: dict[str, Any], positive: str) -> None:
    probabilities = "predicted" in bins
    x, y, rows = bins["predicted" if probabilities else "score"], bins["observed"], np.array(bins["rows"])
    sizes = 20 + 160 * rows / max(rows.max(initial=1), 1)
    axes.plot(x, y, color=_BLUE, lw=1.2)
    axes.scatter(x, y, s=sizes, color=_BLUE, zorder=3)
    if probabilities:
        axes.plot([0, 1], [0, 1], color=_GREY, lw=1.0, ls="--")
        title = f"calibration: error {100 * bins['error']:.1f} points (dot size: rows)"
        axes.set_title(title, fontsize=11)
        axes.set(xlabel="predicted probability", xlim=(-0.02, 1.02))
    else:
        axes.axvline(0.0, color=_GREY, lw=1.0, ls="--")
        axes.set(title="observed frequency by score (deciles)", xlabel="score")
    axes.set_ylabel(f"share of {positive}", parse_math=False)
    axes.set_ylim(-0.02, 1.02)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _matrix(axes: Any, report: Report, classes: Sequence[str]) -> None:
    axes.set_title("confusion matrix (shares per class)", fontsize=12)
    if not report.confusion:
        axes.text(0.5, 0.5, "too many classes for a confusion matrix", ha="center", va="center", color="0.4")
        axes.set_axis_off()
        return
    counts = np.array(report.confusion)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    positions = range(len(counts))
    axes.set_xticks(positions, labels=classes, rotation=60, ha="right", fontsize=8, parse_math=False)
    axes.set_yticks(positions, labels=classes, fontsize=8, parse_math=False)
    axes.set(xlabel="predicted class", ylabel="class")
    if len(counts) <= WRITTEN:
        for (row, column), count in np.ndenumerate(counts):
            dark = "white" if shares[row, column] > 0.5 else "0.2"
            axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=8, color=dark)
