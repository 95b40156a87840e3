"""What a run says while it goes: a table whose lines double, a progress bar on a terminal, or JSON."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from thinstream.evaluate.report import Report
from thinstream.training.checkpoint import State
from thinstream.training.run import Line, Watch

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


def head() -> str:
    """The table's first line."""
    return "".join(f"{name:>{width}}" for name, width in COLUMNS)


def cells(line: Line, rate: float) -> str:
    """A line of the table; what is undefined so far is a dash."""
    total, since = line.total, line.since
    sparsity = None if line.nnz is None or not line.n_features else 100.0 * (1.0 - line.nnz / line.n_features)
    texts = (
        f"{total.rows:,}",
        _percent(total.error),
        _percent(since.error),
        _percent(total.sensitivity),
        _percent(total.specificity),
        _percent(total.weighted_sum),
        f"{total.cost:,.2f}",
        _number(total.log_loss),
        _number(total.auc),
        "–" if line.nnz is None else f"{line.nnz:,}",
        "–" if sparsity is None else f"{sparsity:.2f}",
        f"{rate:,.0f}",
    )
    return "".join(f"{text:>{width}}" for text, (_, width) in zip(texts, COLUMNS, strict=True))


def _percent(share: float) -> str:
    return "–" if share != share else f"{100.0 * share:.2f}"


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4f}"


def summary(report: Report) -> str:
    """All metrics of a report, a line each."""
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


def say(text: str) -> None:
    """A line for people, where it does not mix with data."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def patience(text: str, *, quiet: bool, seconds: float = 1.5) -> Iterator[None]:
    """Says why it takes long, if it takes long."""
    timer = threading.Timer(seconds, say, [f"thinstream: {text}"])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


class Silent(Watch):
    """Follows a run without a word."""

    def wants_nnz(self, n_features: int) -> bool:
        """Never."""
        return False


class JsonLines(Watch):
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


class Table(Watch):
    """The doubling table on standard output, and a progress bar where there is a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._start, self._rows = stream, time.monotonic(), 0
        self._headed, self._first, self._bar = False, -1, None
        if sys.stderr.isatty():
            self._bar = _Bar(stream)

    def wants_nnz(self, n_features: int) -> bool:
        """If it takes next to no time."""
        # ten nanoseconds a feature: not more than a twentieth of the time so far
        return n_features * 2e-7 < time.monotonic() - self._start

    def line(self, line: Line) -> None:
        """Prints it, the head before the first."""
        if not self._headed:
            self._print(head())
            self._headed, self._first = True, line.total.rows - line.since.rows
        seconds = max(time.monotonic() - self._start, 1e-9)
        self._print(cells(line, (line.total.rows - self._first) / seconds))

    def moved(self, state: State) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.move(self._stream.done(state.position))

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


class _Bar:
    """Rich's progress bar, loaded only where it is seen."""

    def __init__(self, stream: Any) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        size = stream.size
        rate: list[Any] = (
            [DownloadColumn(), TransferSpeedColumn()] if stream.unit == "bytes" else [MofNCompleteColumn()]
        )
        ends: list[Any] = [TextColumn("{task.description}"), BarColumn(), *rate]
        self._progress = Progress(
            *ends,
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            refresh_per_second=4,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("learning", total=size)
        self._progress.start()

    def move(self, done: int | None) -> None:
        if done is not None:
            self._progress.update(self._task, completed=done)

    def print(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        self._progress.stop()
