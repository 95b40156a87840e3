"""What commands that take many models over a stream share: a watch, and tables."""

import csv
import gc
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from thinstream.atomic import replacing
from thinstream.cli.groups import Output, Reading
from thinstream.cli.opening import classes_of, opened, require_apart, require_place
from thinstream.cli.show import Bar, patience, say
from thinstream.cli.studies import Studying, bytes_of
from thinstream.errors import InvalidParameterError
from thinstream.evaluate.observer import Observer, Step
from thinstream.streams.sources import resolve
from thinstream.tune import drawing
from thinstream.tune.passes import Terms, in_words

WAITING = "looking at the first rows, and compiling this algorithm where it is used for the first time …"


class _Passes(Observer):
    """Says why there are several passes; shows a bar where there is a terminal."""

    def __init__(self, stream: Any, quiet: bool, waiting: ExitStack) -> None:
        self._stream, self._quiet, self._waiting = stream, quiet, waiting
        self._bar: Bar | None = None
        self._of = self._number = self._rows = self._before = 0

    def split(self, passes: int, needed: int, limit: int) -> None:
        """All lanes at once would need too much memory."""
        if not self._quiet:
            sizes = f"all models at once need {in_words(needed)}, the limit is {in_words(limit)}"
            say(f"thinstream: {sizes}: {passes} passes")

    def moved(self, step: Step) -> None:
        """Moves the bar; a new one, where passes have become more."""
        self._waiting.close()
        if self._quiet or not sys.stderr.isatty():
            return
        rows, position, number, of, _ = step
        if self._bar is None or of != self._of:
            self.close()
            self._bar, self._of = Bar(self._stream, of), of
            self._number = self._rows = self._before = 0
        if number > self._number:
            self._number, self._before = number, self._before + self._rows
        self._rows = rows
        self._bar.move(self._before + rows, position, number)

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()


@contextmanager
def watching(stream: Any, output: Output) -> Iterator[Observer]:
    """A watch for the length of the block."""
    gc.enable()
    with ExitStack() as waiting:
        waiting.enter_context(patience(WAITING, quiet=output.quiet or output.json))
        watch = _Passes(stream, output.quiet, waiting)
        try:
            yield watch
        finally:
            watch.close()


def two_sided(data: list[str], reading: Reading, dtype: str) -> Any:
    """The stream of a study, which compares models of two classes."""
    classes = classes_of(reading)
    if len(classes) > 2:
        raise InvalidParameterError(
            f"models are compared on two classes only, --classes {','.join(map(str, classes))} are {len(classes)}; "
            "label one class against the rest, or `train` with all of them"
        )
    return opened(data, reading, dtype)


def terms(algorithm: str, studying: Studying, stream: Any) -> Terms:
    """How the study is made."""
    return Terms(
        algorithm,
        n_features=getattr(stream, "n_features", None) or 0,
        dtype=studying.dtype,
        threads=studying.lane_threads,
        memory=bytes_of(studying.memory),
    )


def require_places(inputs: list[str], studying: Studying, model: Path | None) -> None:
    """Raises at once where something could not be written in the end."""
    bytes_of(studying.memory)
    if studying.plot is not None:
        drawing.checked_place(studying.plot)
    files = resolve(inputs)
    for path in (model, studying.plot, studying.csv):
        require_place(path)
        require_apart(path, *files)


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


def say_places(studying: Studying, model: Path | None) -> None:
    """Where what was asked for is."""
    for what, path in (("model", model), ("picture", studying.plot), ("table", studying.csv)):
        if path is not None:
            print(f"  {what:<8} {path} ({path.stat().st_size:,} bytes)")


def remark(rows: int, positives: int, looks_sorted: bool) -> None:
    """Says so if the labels look odd."""
    if positives in (0, rows):
        kind = "positive" if positives else "negative"
        say(f"thinstream: all {rows:,} labels are {kind}; if others are meant, say which: --classes NEG,POS")
    elif looks_sorted:
        say(
            "thinstream: labels come in long runs, as in rows sorted by class: progressive numbers are too good, and "
            "models lean to the last class; thinstream shuffle first"
        )
