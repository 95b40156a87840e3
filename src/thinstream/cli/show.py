"""What a run says while it goes: a table whose lines double, a progress bar on a terminal, or JSON."""

import json
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thinstream.batch import Position
from thinstream.evaluate.report import Report
from thinstream.evaluate.several import ClassReport
from thinstream.training.run import Line, Observer, Step

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


@contextmanager
def patience(text: str, *, quiet: bool, seconds: float = 1.5) -> Iterator[None]:
    """Says why it takes long, if it takes long and somebody watches."""
    timer = threading.Timer(seconds, say, [f"thinstream: {text}"])
    timer.daemon = True
    if not quiet and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class JsonLines(Observer):
    """An object per line of the table."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def line(self, line: Line) -> None:
        """Writes it."""
        seconds = time.monotonic() - self._start
        found: dict[str, Any] = {
            **line.total.as_dict(),
            "since": line.since.as_dict(),
            "non_zeros": line.nnz,
            "features": line.n_features,
            "seconds": round(seconds, 3),
        }
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


class Table(Observer):
    """The doubling table on standard output, and a progress bar where there is a terminal."""

    def __init__(self, stream: Any, passes: int = 1) -> None:
        self._stream, self._start = stream, time.monotonic()
        self._headed, self._first = False, -1
        self._bar: Bar | None = None
        self._columns: Columns = COLUMNS
        if sys.stderr.isatty():
            self._bar = Bar(stream, passes)

    def wants_nnz(self, n_features: int) -> bool:
        """If it takes next to no time."""
        # ten nanoseconds a feature: not more than a twentieth of the time so far
        return n_features * 2e-7 < time.monotonic() - self._start

    def line(self, line: Line) -> None:
        """Prints it, the head before the first."""
        if not self._headed:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            self._columns = columns(width, many=isinstance(line.total, ClassReport))
            self._print(head(self._columns))
            self._headed, self._first = True, line.total.rows - line.since.rows
        seconds = max(time.monotonic() - self._start, 1e-9)
        self._print(cells(line, (line.total.rows - self._first) / seconds, self._columns))

    def moved(self, step: Step) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.move(step.rows, step.position, step.passes)

    def _print(self, text: str) -> None:
        if self._bar is not None and sys.stdout.isatty():
            self._bar.print(text)
        else:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()


class Unmeasured:
    """A source that others read: here nobody knows how much there is, and what is in it."""

    size, unit = None, "rows"
    names = skipped = None

    def done(self, position: Position) -> None:
        """Nobody knows."""


class Bar:
    """Rich's progress bar, loaded only where it is seen."""

    def __init__(self, stream: Any, passes: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._stream, self._size, self._rows, self._start = stream, stream.size, -1, time.monotonic()
        amount: list[Any] = [DownloadColumn()] if self._size and stream.unit == "bytes" else []
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *amount,
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("learning", total=self._size and self._size * passes, rate="")
        self._progress.start()

    def move(self, rows: int, position: Position | None, passes: int) -> None:
        """What is done, and how fast: rows per second since the first batch, which waits for compilation."""
        now = time.monotonic()
        if self._rows < 0:
            self._rows, self._start = rows, now
        rate = (rows - self._rows) / max(now - self._start, 1e-9)
        done = None if position is None else self._stream.done(position)
        done = None if done is None or self._size is None else done + passes * self._size
        rate_text = f"{rate:,.0f} rows/s" if rate else ""
        self._progress.update(self._task, completed=done, description=f"{rows:,} rows", rate=rate_text)

    def print(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Takes it away."""
        self._progress.stop()
