"""How results are shown: lines of a run, tables, CSV and JSON, remarks."""

import csv
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.atomic import replacing
from thinstream.cli.terminal import LINES, printable
from thinstream.errors import near
from thinstream.evaluate.showing import columns, percent
from thinstream.training.run import Line

#: Widths of the table's columns.
WIDTHS = {
    "examples": 11, "error %": 8, "since": 7, "base %": 7, "prec %": 7, "recall %": 9, "F1 %": 7, "spec %": 7,
    "balanced %": 11, "sum %": 7, "cost": 11, "log-loss": 9, "hinge": 9, "AUC": 7, "AP": 7, "non-zeros": 11,
    "sparsity %": 11, "rows/s": 10, "lag": 10,
}  # fmt: skip
#: Columns that are named.
FEW = 8
#: What is left out first where a terminal is narrow; the summary at the end has all of it. What was asked for stays.
DISPENSABLE = ("sparsity %", "log-loss", "F1 %", "AUC", "since", "prec %", "recall %", "AP")


def fit_columns(columns: Iterable[str], width: int | None = None) -> dict[str, int]:
    """The columns that a terminal has room for, and their widths.

    >>> usual = ("examples", "error %", "since", "base %", "AUC", "AP", "non-zeros", "sparsity %", "rows/s")
    >>> len(fit_columns(usual)), len(fit_columns(usual, 70))
    (9, 8)
    """
    shown = {name: WIDTHS[name] for name in columns}
    for name in DISPENSABLE:
        if width is not None and sum(shown.values()) > width:
            shown.pop(name, None)
    return shown


def cells(line: Line, rate: float, metrics: Iterable[str]) -> dict[str, str]:
    """A line of the table with these metrics, by column; what is undefined so far is a dash."""
    total, since = line.total, line.since.error
    weights = line.n_features * total.n_models * line.n_vectors if line.n_weights_met is None else line.n_weights_met
    sparsity = None if line.nnz is None or not weights else 100.0 * (1.0 - line.nnz / weights)
    return {
        "examples": f"{total.rows:,}",
        "error %": percent(total.error),
        "since": percent(since),
        **columns(total, metrics),
        "non-zeros": "–" if line.nnz is None else f"{line.nnz:,}",
        "sparsity %": "–" if sparsity is None else f"{sparsity:.2f}",
        "rows/s": f"{rate:,.0f}",
    }


def say(text: str) -> None:
    """A line for people, where it does not mix with data; nobody may be there to read it."""
    with suppress(OSError):
        sys.stderr.write(f"{printable(text, keep=LINES)}\n")


def show_json(found: Any) -> None:
    """An object on a line of standard output; numpy's numbers and arrays as Python's."""
    print(json.dumps(found, default=lambda value: value.tolist()), flush=True)


def report_skipped(stream: Any, quiet: bool) -> None:
    """Says how many bad records were passed over."""
    if stream.skipped is not None and stream.skipped.count and not quiet:
        say_skipped(stream.skipped.count, stream.skipped.reasons[0])


def report_unknown(stream: Any, quiet: bool) -> None:
    """Says which columns of the data the model has not learned from (they count nothing), and which no row has."""
    if quiet:
        return
    gone = getattr(getattr(stream, "form", None), "unmet_columns", [])
    if gone:
        more = ", …" if len(gone) > FEW else ""
        say(f"thinstream: no record has {', '.join(map(repr, gone[:FEW]))}{more}, which the model has learned from")
    known = [*(getattr(getattr(stream, "options", None), "columns", None) or ())]
    unknown = [name for name in getattr(stream, "feature_columns", ()) if name not in known] if known else []
    if unknown:
        more = ", …" if len(unknown) > FEW else ""
        hint = near(unknown[0], known, "; ")
        say(f"thinstream: the model has not learned from {', '.join(map(repr, unknown[:FEW]))}{more}{hint}")


def say_skipped(count: int, first: str) -> None:
    """Says how many bad records were passed over, and why the first was."""
    many = "1 bad record was" if count == 1 else f"{count:,} bad records were"
    say(f"thinstream: {many} passed over, the first: {first}")


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]], chosen: int | None) -> None:
    """To standard output, columns lined up, an asterisk at the row that was chosen."""
    widths = [max(len(row[k]) for row in (head, *rows)) + 2 for k in range(len(head))]
    for number, row in enumerate((head, *rows)):
        line = "".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        print(line + (" *" if chosen is not None and number == chosen + 1 else ""))


def write_csv(path: Path, table: Mapping[str, Any]) -> None:
    """Columns by name, numbers as they are; what is not there is empty."""
    with replacing(path) as new, open(new, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(["" if value != value else value for value in row] for row in _rows(table))


def show_json_rows(table: Mapping[str, Any]) -> None:
    """Columns by name as an object a row; what is not there is null."""
    for row in _rows(table):
        show_json({name: None if value != value else value for name, value in zip(table, row, strict=True)})


def _rows(table: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    return zip(*(np.asarray(column, dtype=object).tolist() for column in table.values()), strict=True)


def threshold_in_words(model: Any) -> str:
    """The score above which a row is positive, and the probability that it is where there is one."""
    score = f"score {model.threshold:.6g}"
    if not model.has_probabilities:
        return score
    return f"{score} (probability {0.5 + 0.5 * math.tanh(model.threshold / 2):.4g})"


#: Rows from which on a share of mistakes says something.
ENOUGH = 200


def remark_on_error(report: Any, model: Any) -> None:
    """Says so if always answering the same would have been wrong less often, unless a threshold asks for that."""
    if model.threshold or report.rows < ENOUGH or not report.error > report.baseline:
        return
    most = model.classes[max(range(len(model.classes)), key=report.examples.__getitem__)]
    advice = "thinstream diagnose tells what is wrong"
    if model.learner.algorithm.name != "Auto":  # which scales columns itself, and has nothing to tune
        scale = "--scale max helps where columns are of different size, " if model.preparation.scale is None else ""
        advice = f"{scale}thinstream tune finds parameters, {advice}"
    say(
        f"thinstream: always answering {most!r} would be wrong in {100 * report.baseline:.2f} % of all rows, this "
        f"model was in {100 * report.error:.2f} %; {advice}"
    )


def remark_on_labels(rows: int, positives: int | None, looks_sorted: bool) -> bool:
    """Says so if the labels look odd; returns whether it did."""
    if positives in (0, rows):
        kind = "positive" if positives else "negative"
        which = "if others are meant, say which: --classes NEG,POS, or --grow-classes"
        say(f"thinstream: all {rows:,} labels are {kind}; {which}")
    elif looks_sorted:
        from thinstream.evaluate.label_order import SORTED

        say(f"thinstream: {SORTED}; thinstream shuffle first")
    else:
        return False
    return True
