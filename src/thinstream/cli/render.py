"""Rendering of results: tables, CSV, JSON, warnings, progress, predictions, and members of a model."""

import csv
import io
import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.cli.terminal import LINES, printable
from thinstream.errors import InvalidParameterError, near
from thinstream.files import replacing
from thinstream.jit import compile_ahead, watch_compiling
from thinstream.jit.ahead import MESSAGE
from thinstream.jit.ahead import logger as compiling
from thinstream.models.model import Model, probabilities
from thinstream.training.formatting import columns, percent
from thinstream.training.observer import Line, Observer, Step

if TYPE_CHECKING:
    from thinstream.models.model import Model


#: Widths of the table's columns.
WIDTHS = {
    "examples": 11, "error %": 8, "since": 7, "base %": 7, "prec %": 7, "recall %": 9, "F1 %": 7, "spec %": 7,
    "balanced %": 11, "sum %": 7, "cost": 11, "log-loss": 9, "hinge": 9, "AUC": 7, "AP": 7, "non-zeros": 11,
    "sparsity %": 11, "rows/s": 10, "lag": 10,
}  # fmt: skip
#: The number of column names that a warning lists.
FEW = 8
#: Columns to omit on a narrow terminal, the first ones first, unless they are requested. The summary has all of them.
DISPENSABLE = ("sparsity %", "log-loss", "F1 %", "AUC", "since", "prec %", "recall %", "AP")


def fit_columns(columns: Iterable[str], width: int | None = None) -> dict[str, int]:
    """Return the columns that fit into a terminal, and their widths.

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
    """Return the cells of a line of the table by column. An undefined value is a dash."""
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
    """Print a message to standard error, which may be closed."""
    with suppress(OSError):
        sys.stderr.write(f"{printable(text, keep=LINES)}\n")


def show_json(value: Any) -> None:
    """Print a line of JSON. NumPy's numbers and arrays become Python's."""
    print(json.dumps(value, default=lambda array: array.tolist()), flush=True)


def report_skipped(stream: Any, quiet: bool) -> None:
    """Report skipped invalid records."""
    if stream.skipped is not None and stream.skipped.count and not quiet:
        say_skipped(stream.skipped.count, stream.skipped.reasons[0])


def report_unknown(stream: Any, quiet: bool) -> None:
    """Report columns of the model that no row has, and columns of the rows that the model ignores."""
    if quiet:
        return
    missing = getattr(getattr(stream, "form", None), "unmet_columns", [])
    if missing:
        more = ", …" if len(missing) > FEW else ""
        names = ", ".join(map(repr, missing[:FEW]))
        say(f"thinstream: the model was trained with {names}{more}, but no record has it")
    columns = [*(getattr(getattr(stream, "options", None), "columns", None) or ())]
    unknown = [name for name in getattr(stream, "feature_columns", ()) if name not in columns] if columns else []
    if unknown:
        more = ", …" if len(unknown) > FEW else ""
        hint = near(unknown[0], columns, "; ")
        say(f"thinstream: the model ignores unknown columns: {', '.join(map(repr, unknown[:FEW]))}{more}{hint}")


def say_skipped(count: int, first: str) -> None:
    """Report the number of skipped invalid records, and the first error."""
    records = "1 invalid record" if count == 1 else f"{count:,} invalid records"
    say(f"thinstream: skipped {records}, the first: {first}")


def write_table(head: Sequence[str], rows: Sequence[Sequence[str]], chosen: int | None) -> None:
    """Print a table with an asterisk at the chosen row."""
    widths = [max(len(row[k]) for row in (head, *rows)) + 2 for k in range(len(head))]
    for number, row in enumerate((head, *rows)):
        line = "".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        print(line + (" *" if chosen is not None and number == chosen + 1 else ""))


def write_csv(path: Path, table: Mapping[str, Any]) -> None:
    """Write columns by name to a file. Missing values are empty."""
    with replacing(path) as new, open(new, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(["" if value != value else value for value in row] for row in _rows(table))


def show_json_rows(table: Mapping[str, Any]) -> None:
    """Print an object per row from columns by name. Missing values are null."""
    for row in _rows(table):
        show_json({name: None if value != value else value for name, value in zip(table, row, strict=True)})


def _rows(table: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
    return zip(*(np.asarray(column, dtype=object).tolist() for column in table.values()), strict=True)


def describe_threshold(model: Any) -> str:
    """Return the threshold as a score and, if the model has probabilities, as a probability."""
    score = f"score {model.threshold:.6g}"
    if not model.has_probabilities:
        return score
    return f"{score} (probability {0.5 + 0.5 * math.tanh(model.threshold / 2):.4g})"


#: The minimum number of rows for a warning about the error rate.
ENOUGH = 200


def warn_of_error(report: Any, model: Any) -> None:
    """Warn if a constant prediction has a lower error, unless a threshold or class costs explain it.

    Also warn if class costs seem to have no effect.
    """
    if model.learner.algorithm.name == "ARCSOGD" and model.classes.are_two and report.rows >= ENOUGH:
        costs = model.learner.costs[0]
        if costs.positive > costs.negative and report.recall[1] < 0.5:
            say(
                "thinstream: ARCSOGD: the cost of positive rows raises only the margin that they must reach; "
                "beyond it, a larger cost changes nothing: pass -a arow, or a larger --gamma"
            )
    if model.threshold or report.rows < ENOUGH or not report.error > report.baseline:
        return
    if any(costs.balanced or costs.negative != costs.positive for costs in model.learner.costs):
        return
    most = model.classes[max(range(len(model.classes)), key=report.examples.__getitem__)]
    advice = "Run 'thinstream diagnose' to find out why"
    if model.learner.algorithm.name != "Auto":  # which scales columns itself, and has nothing to tune
        scale = "Pass --scale max if columns have different scales. " if model.preparation.scale is None else ""
        advice = f"{scale}Run 'thinstream tune' to find better parameters, or 'thinstream diagnose' to find out why"
    say(
        f"thinstream: this model misclassified {100 * report.error:.2f}% of the rows; always predicting {most!r} would "
        f"misclassify {100 * report.baseline:.2f}%. {advice}"
    )


def warn_of_labels(rows: int, positives: int | None, looks_sorted: bool) -> bool:
    """Warn if the labels are unusual, and return whether they are."""
    if positives in (0, rows):
        sign = "positive" if positives else "negative"
        say(f"thinstream: all {rows:,} labels are {sign}. Pass --classes NEG,POS or --grow-classes for other labels")
    elif looks_sorted:
        from thinstream.data.labels import SORTED

        say(f"thinstream: {SORTED}. Run 'thinstream shuffle' first")
    else:
        return False
    return True


# Progress of a run: a table with a line at each doubling, a progress bar on a terminal, or JSON.


COMPILING = f"thinstream: {MESSAGE}"


@contextmanager
def report_compiling(quiet: bool) -> Iterator[None]:
    """Report on standard error that functions are compiled, and on a terminal their names."""
    handler = logging.NullHandler() if quiet else _CompilingLine()
    compiling.addHandler(handler)
    before, compiling.propagate, level = compiling.propagate, False, compiling.level
    compiling.setLevel(logging.INFO)
    try:
        with compile_ahead():
            yield
    finally:
        compiling.removeHandler(handler)
        compiling.propagate = before
        compiling.setLevel(level)
        handler.close()


class _CompilingLine(logging.Handler):
    """Print that compilation takes a while. On a terminal, the line then shows the name of each function."""

    def __init__(self) -> None:
        super().__init__()
        self._is_slow, self._width = False, 0

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._is_slow = True
            say(text)
        elif self._is_slow and sys.stderr.isatty():
            sys.stderr.write(f"\r{text:<{self._width}}")
            sys.stderr.flush()
            self._width = len(text)

    def close(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{'':<{self._width}}\r")
            self._width = 0
        super().close()


def say_device(device: str, lanes: int) -> None:
    """Report lanes on the GPU."""
    if device != "cpu":
        say(f"thinstream: {lanes:,} lanes on the GPU")


@contextmanager
def show_steps(title: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on a terminal. Call it with the steps done, the number of steps, and the last one's name."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, of, last: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[last]}"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task(title, total=None, last="")
        yield lambda done, of, last: bar.update(task, completed=done, total=of, last=last)


class LearningClock:
    """The time since the start, without compilation."""

    def __init__(self) -> None:
        self.start()
        self._watching = ExitStack()
        self._watching.enter_context(watch_compiling(self))

    def start(self) -> None:
        self._start, self._compiling = time.monotonic(), 0.0

    def stop(self) -> None:
        self._watching.close()

    @property
    def seconds(self) -> float:
        """The seconds so far, more than 0."""
        return max(time.monotonic() - self._start - self._compiling, 1e-9)

    def __enter__(self) -> None:
        self._entered = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._compiling += time.monotonic() - max(self._entered, self._start)


def lag_of(stream: Any) -> int | None:
    """Return the number of messages of a broker that are not learned yet. None for other sources."""
    return getattr(stream, "lag", None)


class Timed(Observer):
    """Base class of observers that measure the time of learning."""

    def __init__(self) -> None:
        self.clock = LearningClock()
        self._stream: Any = None

    def started(self, run: Any) -> None:
        self._stream = run.stream

    def begin(self) -> None:
        """Start the clock, because loading and compiling are over."""
        self.clock.start()

    def placed(self, device: str, lanes: int) -> None:
        say_device(device, lanes)

    def close(self) -> None:
        self.clock.stop()


class JsonLines(Timed):
    """Print a JSON object for each line of the table. For messages of a broker, it has their lag."""

    def changed(self, monitor: str, row: int, since: int) -> None:
        show_json({"monitor": monitor, "risen_at": row, "since": since})

    def line(self, line: Line) -> None:
        seconds = self.clock.seconds
        fields = {"since": line.since.as_dict(), "non_zeros": line.nnz, "features": line.n_features}
        fields |= {} if line.n_weights_met is None else {"weights_met": line.n_weights_met}
        if (lag := lag_of(self._stream)) is not None:
            fields["lag"] = lag
        show_json({**line.total.as_dict(), **fields, "seconds": round(seconds, 3)})

    def on_message(self, text: str) -> None:
        say(f"thinstream: {text}")


class Table(Timed):
    """Print the table of metrics, and show a progress bar on a terminal.

    ``asked``: the user has requested the ``metrics``, so that a narrow terminal also shows all of them.
    """

    def __init__(self, *, metrics: Sequence[str], asked: bool = False) -> None:
        super().__init__()
        self._metrics, self._asked = metrics, asked
        self._first = -1
        self._bar: Bar | None = None
        self._columns: dict[str, int] = {}

    def started(self, run: Any) -> None:
        super().started(run)
        if sys.stderr.isatty():
            self._bar = Bar(run.stream, run.passes)

    def wants_nnz(self, n_features: int) -> bool:
        # counting takes 10 ns per feature: at most 5% of the time so far
        return n_features * 2e-7 < self.clock.seconds

    def line(self, line: Line) -> None:
        if self._first < 0:
            self._first = line.total.rows - line.since.rows
        texts = cells(line, (line.total.rows - self._first) / self.clock.seconds, self._metrics)
        if hasattr(self._stream, "lag"):
            texts["lag"] = "–" if (lag := lag_of(self._stream)) is None else f"{lag:,}"
        if not self._columns:
            narrow = sys.stdout.isatty() and not self._asked
            width = shutil.get_terminal_size().columns if narrow else None
            self._columns = fit_columns(texts, width)
            self._print("".join(f"{name:>{width}}" for name, width in self._columns.items()))
        self._print("".join(f" {texts[name]:>{width - 1}}" for name, width in self._columns.items()))

    def changed(self, monitor: str, row: int, since: int) -> None:
        self._print(f" {monitor}: the error has risen since about example {since:,} (detected at {row:,})")

    def on_message(self, text: str) -> None:
        say(f"thinstream: {text}")

    def moved(self, step: Step) -> None:
        if self._bar is not None:
            self._bar.move(step.rows, step.position, step.passes)

    def _print(self, text: str) -> None:
        if self._bar is not None and sys.stdout.isatty():
            self._bar.print(text)
        else:
            print(text, flush=True)

    def close(self) -> None:
        super().close()
        if self._bar is not None:
            self._bar.close()


class Bar:
    """A progress bar."""

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
        """Show the progress, and the rows per second since the first batch, which waits for compilation."""
        now = time.monotonic()
        if self._rows < 0:
            self._rows, self._start = rows, now
        rate = (rows - self._rows) / max(now - self._start, 1e-9)
        done = None if position is None else self._stream.done(position)
        done = None if done is None or self._size is None else done + passes * self._size
        rate_text = f"{rate:,.0f} rows/s" if rate else ""
        if (lag := lag_of(self._stream)) is not None:
            rate_text += f"{', ' if rate_text else ''}lag {lag:,}"
        self._progress.update(self._task, completed=done, description=f"{rows:,} rows", rate=rate_text)

    def print(self, text: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        self._progress.stop()


# Predictions, one line per row: labels, scores, probabilities or the best classes.

#: Characters that would end a line or a cell.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Predictions:
    """Format predictions as lines of text, CSV or JSON."""

    model: Model
    labels: Sequence[str]  # the classes as text
    scores: bool = False
    proba: bool = False
    top: int | None = None  # the number of classes per row, the best first; None: only the predicted label
    as_json: bool = False
    as_csv: bool = False

    def check(self, name: str) -> None:
        """Raise if options cannot be used together or with the model, whose file is ``name``."""
        if self.scores and self.proba:
            raise InvalidParameterError("--scores and --proba cannot be used together")
        if self.as_csv and self.as_json:
            raise InvalidParameterError("--json cannot write a .csv file. Pass another extension to --out")
        if self.proba and not self.model.has_probabilities:
            raise InvalidParameterError(
                f"{name} ({self.model.learner.algorithm.name}) has no calibrated probabilities. Use --scores, or train "
                "with -a auto, --calibrate or --loss logistic"
            )

    @property
    def columns(self) -> list[str]:
        """The classes whose scores or probabilities a line has, if there are several."""
        several = (self.scores or self.proba) and self.top is None and not self.as_json
        return [*self.labels] if several and not self.model.classes.are_two else []

    def header(self, row_id: str | None) -> str:
        """Return the first line of a CSV file."""
        number = "probability" if self.proba else "score" if self.scores else None
        if self.top is not None:
            columns = ["label"] if number is None else ["label", number]
            names = [f"{name}_{k}" for k in range(1, min(self.top, len(self.labels)) + 1) for name in columns]
        elif number is None:
            names = ["label"]
        elif self.model.classes.are_two:
            names = [number]
        else:
            names = [f"{number}_{label}" for label in self.labels]
        return _csv_line([*([] if row_id is None else [row_id]), *names])

    def lines(self, scores: NDArray[Any], ids: Sequence[str] | None) -> list[str]:
        """Return a line for each row."""
        numbers = probabilities(scores.astype(np.float64)) if self.proba else scores
        chosen = self.model.chosen(scores)
        write = self._objects if self.as_json else self._texts
        rows = write(numbers, chosen, self._order(scores, chosen))
        if ids is None and self.as_csv:
            return [_csv_line(text) for text in rows]
        if ids is None:
            return [text if isinstance(text, str) else json.dumps(text) for text in rows]
        pairs = zip(ids, rows, strict=True)
        if self.as_csv:
            return [_csv_line([name, *text]) for name, text in pairs]
        if self.as_json:
            return [json.dumps({"id": name, **text}) for name, text in pairs]
        return [f"{name.translate(_ESCAPES)}\t{text}" for name, text in pairs]

    def nothing(self, name: str) -> str:
        """Return the line for an invalid record: its id, if it has one."""
        if self.as_csv:
            return _csv_line([name, *[""] * (self.header(None).count(",") + 1)])
        if not name:
            return ""
        return json.dumps({"id": name}) if self.as_json else f"{name.translate(_ESCAPES)}\t"

    def _order(self, scores: NDArray[Any], chosen: NDArray[np.intp]) -> list[list[int]]:
        """Return the indices of the best classes of each row, the best first."""
        if self.top is None:
            return [[] for _ in chosen]
        two = scores.ndim == 1
        order = np.column_stack([chosen, 1 - chosen]) if two else np.argsort(-scores, axis=1, kind="stable")
        best: list[list[int]] = order[:, : self.top].tolist()
        return best

    def _texts(self, numbers: NDArray[Any], chosen: NDArray[np.intp], best: list[list[int]]) -> list[Any]:
        if self.top is not None:
            write = self._number_of(numbers)
            if not (self.scores or self.proba):
                cells = [[self.labels[k] for k in row] for row in best]
            else:
                cells = [
                    [cell for k in row for cell in (self.labels[k], str(write(i, k)))] for i, row in enumerate(best)
                ]
            return cells if self.as_csv else ["\t".join(row) for row in cells]
        if self.proba and self.model.classes.are_two:
            numbers = numbers[:, 1]
        if self.scores or self.proba:  # the shortest text of exactly this number
            cells = [[str(v)] if numbers.ndim == 1 else [*map(str, v)] for v in numbers]
        else:
            cells = [[self.labels[k]] for k in chosen.tolist()]
        return cells if self.as_csv else ["\t".join(row) for row in cells]

    def _objects(self, numbers: NDArray[Any], chosen: NDArray[np.intp], best: list[list[int]]) -> list[Any]:
        classes, is_binary = self.model.classes, self.model.classes.are_two
        number = "probability" if self.proba else "score"
        key = number if is_binary else "probabilities" if self.proba else "scores"
        values = (numbers[:, 1] if self.proba and is_binary else numbers).tolist()
        objects: list[Any] = [{"label": classes[k], key: v} for k, v in zip(chosen.tolist(), values, strict=True)]
        if self.top is not None:
            write = self._number_of(numbers)
            for i, row in enumerate(best):
                objects[i]["top"] = [{"label": classes[k], number: float(write(i, k))} for k in row]
        return objects

    def _number_of(self, numbers: NDArray[Any]) -> Callable[[int, int], Any]:
        """Return a function of (row, class). With two classes, the score of the first is the negative score."""
        if numbers.ndim == 1:
            return lambda i, k: numbers[i] if k else -numbers[i]
        return lambda i, k: numbers[i, k]


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


# Members of a blend.

#: The number of members to name, and the share of the scores that the weights of a thin model must cover.
SHOWN, COVERED = 3, 0.99
#: A model with fewer weights is small enough.
SMALL = 1000
SHARE = f"{COVERED:.0%} of the effect on the scores"


def lanes_of(model: "Model") -> list[dict[str, Any]]:
    """Return an object for each member. With more than two classes, it has the class."""
    blends = model.blends
    if len(blends) == 1:
        return blends[0].table()
    pairs = zip(model.classes, blends, strict=True)
    return [{"class": label} | line for label, blend in pairs for line in blend.table()]


def largest_shares(model: "Model") -> str:
    """Return the members with the largest shares of Σ|weight|, with − for members that the blend subtracts.

    With more than two classes, a share is the mean over the classes.

    >>> from thinstream.data.labels import Classes
    >>> from thinstream.models.model import Model
    >>> model = Model.fresh("auto", Classes(-1, 1), n_features=3, parameters={"portfolio": ["arow", "fsol"]})
    >>> largest_shares(model)
    'no member has a weight yet'
    """
    blends = model.blends
    total: dict[str, float] = {}
    for blend in blends:
        for member, share in zip(blend.members, blend.head.signed_share().tolist(), strict=True):
            total[str(member)] = total.get(str(member), 0.0) + share / len(blends)
    best = sorted(total, key=lambda name: -abs(total[name]))[:SHOWN]
    if not best or not total[best[0]]:
        return "no member has a weight yet"
    shown = ", ".join(f"{name} {100 * total[name]:.0f}%" for name in best if total[name]).replace(" -", " −")
    initial = len(blends[0].record.members)
    return f"{shown} ({len(total)} of {initial} remain)" if len(total) < initial else f"{shown} (of {initial})"


def few_weights(model: "Model") -> int | None:
    """Return the smallest number of weights that cover 99% of Σ v_j²·Σx_j², which is their effect on the scores.

    Return None for a small model. Most of its features occur in all rows and compensate each other, so a few of them
    are useless without the others.
    """
    from thinstream.models.importance import importance

    if model.learner.nnz < SMALL:
        return None

    carried = np.sort(importance(model.learner, 1.0).ravel() ** 2)[::-1].cumsum()
    return int(np.searchsorted(carried, COVERED * carried[-1])) + 1 if len(carried) else None
