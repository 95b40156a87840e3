"""How results are shown: lines of a run, summaries, tables, CSV and JSON, remarks."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thinstream.atomic import replacing
from thinstream.evaluate.report import Report
from thinstream.evaluate.several import ClassReport
from thinstream.training.run import Line

COLUMNS = (
    ("examples", 11),
    ("error %", 8),
    ("since", 7),
    ("sens %", 7),
    ("spec %", 7),
    ("sum %", 7),
    ("cost", 11),
    ("log-loss", 9),
    ("AUC", 7),
    ("non-zeros", 11),
    ("sparsity %", 11),
    ("rows/s", 10),
)


#: What is left out first where a terminal is narrow; the summary at the end has all of it.
DISPENSABLE = ("cost", "sum %", "sparsity %", "log-loss", "spec %", "sens %", "AUC", "since")
#: What is said of more than two classes.
OF_CLASSES = ("examples", "error %", "since", "recall %", "F1 %", "non-zeros", "sparsity %", "rows/s")
Columns = tuple[tuple[str, int], ...]


def columns(width: int | None = None, *, many: bool = False) -> Columns:
    """Names and widths of the columns that fit; ``many``: those of more than two classes.

    >>> len(columns()), len(columns(80)), len(columns(many=True))
    (12, 9, 8)
    """
    shown = {name: dict(COLUMNS).get(name, 9) for name in OF_CLASSES} if many else dict(COLUMNS)
    for name in DISPENSABLE:
        if width is not None and sum(shown.values()) > width:
            shown.pop(name, None)
    return tuple(shown.items())


def head(shown: Columns = COLUMNS) -> str:
    """The table's first line."""
    return "".join(f"{name:>{width}}" for name, width in shown)


def cells(line: Line, rate: float, shown: Columns = COLUMNS) -> str:
    """A line of the table; what is undefined so far is a dash."""
    total = line.total
    width = line.n_features * (1 if isinstance(total, Report) else len(total.examples))
    sparsity = None if line.nnz is None or not width else 100.0 * (1.0 - line.nnz / width)
    texts = {
        "examples": f"{total.rows:,}",
        "error %": _percent(total.error),
        "since": _percent(line.since.error),
        **(_of_two(total) if isinstance(total, Report) else _of_many(total)),
        "non-zeros": "–" if line.nnz is None else f"{line.nnz:,}",
        "sparsity %": "–" if sparsity is None else f"{sparsity:.2f}",
        "rows/s": f"{rate:,.0f}",
    }
    return "".join(f" {texts[name]:>{width - 1}}" for name, width in shown)


def _of_two(total: Report) -> dict[str, str]:
    return {
        "sens %": _percent(total.sensitivity),
        "spec %": _percent(total.specificity),
        "sum %": _percent(total.weighted_sum),
        "cost": f"{total.cost:,.2f}",
        "log-loss": _number(total.log_loss),
        "AUC": _number(total.auc),
    }


def _of_many(total: ClassReport) -> dict[str, str]:
    return {"recall %": _percent(total.balanced_accuracy), "F1 %": _percent(total.macro_f1)}


def _percent(share: float) -> str:
    return "–" if share != share else f"{100.0 * share:.2f}"


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4f}"


def summary(report: Report | ClassReport, classes: Sequence[Any]) -> str:
    """All metrics of a report, a line each; of more than two classes a line for each."""
    if isinstance(report, ClassReport):
        return _class_summary(report, classes)
    shown = {
        "examples": f"{report.rows:,} ({report.positives:,} positive)",
        "error": f"{_percent(report.error)} %",
        "sensitivity": f"{_percent(report.sensitivity)} %",
        "specificity": f"{_percent(report.specificity)} %",
        "balanced accuracy": f"{_percent(report.balanced_accuracy)} %",
        "weighted sum": f"{_percent(report.weighted_sum)} %",
        "cost": f"{report.cost:,.2f}",
        "log-loss": _number(report.log_loss),
        "hinge": _number(report.hinge),
        "AUC": f"{_number(report.auc)} (±{report.auc_bound:.1g}, scores in bins)" if report.auc == report.auc else "–",
    }
    return "\n".join(f"{name:<18} {text}" for name, text in shown.items())


def _class_summary(report: ClassReport, classes: Sequence[Any]) -> str:
    shown = {
        "examples": f"{report.rows:,}",
        "error": f"{_percent(report.error)} %",
        "balanced accuracy": f"{_percent(report.balanced_accuracy)} %",
        "macro F1": f"{_percent(report.macro_f1)} %",
    }
    lines = [f"{name:<18} {text}" for name, text in shown.items()]
    lines += ["", f"{'class':<18} {'examples':>11} {'recall %':>9} {'precision %':>12}"]
    each = zip(classes, report.examples, report.recall, report.precision, strict=True)
    return "\n".join(lines + [f"{label!s:<18} {n:>11,} {_percent(r):>9} {_percent(p):>12}" for label, n, r, p in each])


def say(text: str) -> None:
    """A line for people, where it does not mix with data."""
    sys.stderr.write(f"{text}\n")


def report_skipped(stream: Any, quiet: bool) -> None:
    """Says how many bad records were passed over."""
    if stream.skipped is not None and stream.skipped.count and not quiet:
        say(
            f"thinstream: {stream.skipped.count:,} bad records were passed over, the first: {stream.skipped.reasons[0]}"
        )


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]], chosen: int | None) -> None:
    """To standard output, columns lined up, an asterisk at the row that was chosen."""
    widths = [max(len(row[k]) for row in (head, *rows)) + 2 for k in range(len(head))]
    for number, row in enumerate((head, *rows)):
        line = "".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        print(line + (" *" if chosen is not None and number == chosen + 1 else ""))


def write_csv(path: Path, table: Mapping[str, NDArray[Any]]) -> None:
    """Numbers as they are; what is not there is empty."""
    with replacing(path) as new, open(new, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(table)
        lines.writerows(
            zip(*(["" if v != v else v for v in column.tolist()] for column in table.values()), strict=True)
        )


def write_json(table: Mapping[str, NDArray[Any]]) -> None:
    """An object a row; what is not there is null."""
    for row in zip(*(column.tolist() for column in table.values()), strict=True):
        values = {name: None if value != value else value for name, value in zip(table, row, strict=True)}
        sys.stdout.write(json.dumps(values) + "\n")
