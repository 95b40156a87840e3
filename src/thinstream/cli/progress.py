"""What a run shows while it goes: a table whose lines double, a progress bar on a terminal, or JSON."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thinstream.batch import Position
from thinstream.cli.render import cells, fit_columns, say, show_json
from thinstream.jit import watches
from thinstream.training.run import Line, Observer, Step

COMPILING = "thinstream: compiling for the first use on this machine, which takes some seconds …"


@contextmanager
def say_if_compiling(quiet: bool, seconds: float = 1.0) -> Iterator[None]:
    """Says, once, why it takes long, where something is compiled for its first use."""

    class Watch:
        is_told = quiet

        def tell(self) -> None:
            if not self.is_told:
                self.is_told = True
                say(COMPILING)

        def __enter__(self) -> None:
            self.timer = threading.Timer(seconds, self.tell)
            self.timer.daemon = True
            self.timer.start()

        def __exit__(self, *error: object) -> None:
            self.timer.cancel()

    watch = Watch()
    watches.append(watch)
    try:
        yield
    finally:
        watches.remove(watch)


def say_placed(device: str, lanes: int) -> None:
    """Where models are is said where it is not the CPU."""
    if device != "cpu":
        say(f"thinstream: {lanes:,} lanes on the GPU")


@contextmanager
def show_steps(title: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on a terminal, elsewhere nothing: to be told steps done, all steps, and the last one's name."""
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
    """Seconds of learning: since it was started, without those in which something was compiled."""

    def __init__(self) -> None:
        self.start()
        watches.append(self)

    def start(self) -> None:
        """Now."""
        self._start, self._compiling = time.monotonic(), 0.0

    def stop(self) -> None:
        """Compiling is no longer watched."""
        if self in watches:
            watches.remove(self)

    @property
    def seconds(self) -> float:
        """So far, more than 0."""
        return max(time.monotonic() - self._start - self._compiling, 1e-9)

    def __enter__(self) -> None:
        self._entered = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._compiling += time.monotonic() - max(self._entered, self._start)


def lag_of(stream: Any) -> int | None:
    """Messages of a source without an end that are there and not learned yet; None of others."""
    return getattr(stream, "lag", None)


class Timed(Observer):
    """Counts the seconds of learning."""

    def __init__(self) -> None:
        self.clock = LearningClock()

    def begin(self) -> None:
        """Starts the clock: loading and compiling are over."""
        self.clock.start()

    def placed(self, device: str, lanes: int) -> None:
        """Says so, where it is not the CPU."""
        say_placed(device, lanes)

    def close(self) -> None:
        """Ends counting."""
        self.clock.stop()


class JsonLines(Timed):
    """An object per line of the table; of a source without an end with its lag."""

    def __init__(self, stream: Any = None) -> None:
        super().__init__()
        self._stream = stream

    def changed(self, monitor: str, row: int, since: int) -> None:
        """Writes it."""
        show_json({"monitor": monitor, "risen_at": row, "since": since})

    def line(self, line: Line) -> None:
        """Writes it."""
        seconds = self.clock.seconds
        found = {"since": line.since.as_dict(), "non_zeros": line.nnz, "features": line.n_features}
        found |= {} if line.n_weights_met is None else {"weights_met": line.n_weights_met}
        if (lag := lag_of(self._stream)) is not None:
            found["lag"] = lag
        show_json({**line.total.as_dict(), **found, "seconds": round(seconds, 3)})

    def said(self, text: str) -> None:
        """Says it, where it does not mix with data."""
        say(f"thinstream: {text}")


class Table(Timed):
    """The doubling table on standard output, and a progress bar where there is a terminal.

    ``metrics`` are its columns; those that were ``asked`` for are shown however narrow a terminal is.
    """

    def __init__(self, stream: Any, passes: int = 1, *, metrics: Sequence[str], asked: bool = False) -> None:
        super().__init__()
        self._stream, self._metrics, self._asked = stream, metrics, asked
        self._first = -1
        self._bar: Bar | None = None
        self._columns: dict[str, int] = {}
        if sys.stderr.isatty():
            self._bar = Bar(stream, passes)

    def wants_nnz(self, n_features: int) -> bool:
        """If it takes next to no time."""
        # ten nanoseconds a feature: not more than a twentieth of the time so far
        return n_features * 2e-7 < self.clock.seconds

    def line(self, line: Line) -> None:
        """Prints it, the head before the first."""
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
        """Prints it."""
        self._print(f" {monitor}: after {row:,} examples the error has risen, since about {since:,}")

    def said(self, text: str) -> None:
        """Says it."""
        say(f"thinstream: {text}")

    def moved(self, step: Step) -> None:
        """Moves the bar."""
        if self._bar is not None:
            self._bar.move(step.rows, step.position, step.passes)

    def _print(self, text: str) -> None:
        if self._bar is not None and sys.stdout.isatty():
            self._bar.print(text)
        else:
            print(text, flush=True)

    def close(self) -> None:
        """Takes the bar away."""
        super().close()
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
        if (lag := lag_of(self._stream)) is not None:
            rate_text += f"{', ' if rate_text else ''}lag {lag:,}"
        self._progress.update(self._task, completed=done, description=f"{rows:,} rows", rate=rate_text)

    def print(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Takes it away."""
        self._progress.stop()
