"""Observers of a run, and the curve of its error."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.errors import InvalidInputError
from thinstream.training.metrics import Report

#: The number of rows before the first line of metrics. More lines follow at each doubling.
FIRST_LINE = 64


class Line(NamedTuple):
    """A line of metrics, since the start of the run and since the line before."""

    total: Report
    since: Report
    nnz: int | None  # None if counting would take too long
    n_features: int
    n_weights_met: int | None = None  # with hashing, the number of weights of features that occurred, if known
    n_vectors: int = 1  # weight vectors per class


class Step(NamedTuple):
    """The progress of a run or a study."""

    rows: int  # rows so far: of all passes in a run, of this pass in a study
    position: Position | None  # in this pass
    passes: int  # completed passes
    of: int
    skipped: int = 0  # invalid records skipped in this pass


class Observer:
    """Receives the events of a run or a study."""

    lines = True  # whether it wants lines of metrics

    def started(self, run: Any) -> None:
        """Handle a run that is set up and may resume next."""

    def begin(self) -> None:
        """Handle the start of learning, after loading and compiling."""

    def line(self, line: Line) -> None:
        """Handle a line of metrics, after 64, 128, 256 … rows of a run and at its end."""

    def changed(self, monitor: str, row: int, since: int) -> None:
        """Handle a change that a monitor has detected after ``row`` rows and that began after ``since`` rows."""

    def moved(self, step: Step) -> None:
        """Handle a batch."""

    def on_message(self, text: str) -> None:
        """Handle a message about the source, for example that the connection is lost."""

    def split(self, passes: int, needed: int, limit: int) -> None:
        """Handle a study that needs several passes because of the memory limit."""

    def placed(self, device: str, lanes: int) -> None:
        """Handle the device of the lanes, "cpu" or "cuda". For a run, only a move to a GPU is reported."""

    def wants_nnz(self, n_features: int) -> bool:
        """Return whether the next line should count the non-zero weights, which takes time for each feature."""
        return True

    def close(self) -> None:
        """Handle the end, also after an error."""


class NullObserver(Observer):
    """Ignores every event."""

    lines = False


#: The maximum number of intervals of an error curve. If there are more, pairs of them are merged.
STRETCHES = 512


class Stretch(NamedTuple):
    """A contiguous block of rows."""

    until: int  # the number of rows up to its end
    rows: int
    wrong: int

    @property
    def error(self) -> float:
        """The error rate."""
        return self.wrong / self.rows


class ErrorCurve:
    """The number of mistakes in each of up to 512 intervals of equal length, which doubles as the stream gets longer.

    Examples
    --------
    >>> import numpy as np
    >>> curve = ErrorCurve()
    >>> curve.update(np.arange(1000) < 400)
    >>> [round(stretch.error, 2) for stretch in curve.stretches()[198:202]]
    [1.0, 1.0, 0.0, 0.0]

    """

    def __init__(self) -> None:
        self._wrong = np.zeros(STRETCHES, np.int64)
        self._length, self._rows = 1, 0

    def update(self, wrong: NDArray[np.bool_]) -> None:
        """Count the next rows, with True for each misclassified row."""
        total = self._rows + len(wrong)
        while total > STRETCHES * self._length:
            self._wrong[: STRETCHES // 2] = self._wrong[0::2] + self._wrong[1::2]
            self._wrong[STRETCHES // 2 :] = 0
            self._length *= 2
        intervals = (self._rows + np.flatnonzero(wrong)) // self._length
        self._wrong += np.bincount(intervals, minlength=STRETCHES)
        self._rows = total

    def stretches(self) -> list[Stretch]:
        """Return the intervals with rows. The last may be shorter than the others."""
        starts = range(0, self._rows, self._length)
        ends = [min(start + self._length, self._rows) for start in starts]
        return [Stretch(end, end - start, int(wrong)) for start, end, wrong in zip(starts, ends, self._wrong)]  # noqa: B905

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of the state as named arrays."""
        return {"wrong": self._wrong.copy(), "size": np.array([self._length, self._rows])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Return the curve from the arrays of `arrays`."""
        curve, wrong, size = cls(), arrays["wrong"], arrays["size"]
        if wrong.shape != (STRETCHES,) or size.shape != (2,) or not 0 <= wrong.sum() <= size[1] <= size[0] * STRETCHES:
            raise InvalidInputError("the arrays of an error curve contradict each other")
        curve._wrong, curve._length, curve._rows = wrong.astype(np.int64), int(size[0]), int(size[1])
        return curve
