"""Observers: told how far a run or a study is, and what its metrics are."""

from typing import NamedTuple

from thinstream.batch import Position
from thinstream.evaluate.report import Report

#: Examples of the first line: before, shares say little. Lines follow at each doubling.
FIRST_LINE = 64


class Line(NamedTuple):
    """What is reported of a run now and then: metrics since its start and since the line before."""

    total: Report
    since: Report
    nnz: int | None  # None where counting it would hold up the run
    n_features: int
    n_weights_met: int | None = None  # of hashed features: weights that examples have changed, as far as it is known
    n_vectors: int = 1  # of weights that are read for each class


class Step(NamedTuple):
    """How far a run or a study is."""

    rows: int  # taken, all passes together where one model learns, those of this pass where many do
    position: Position | None  # in this pass
    passes: int  # done
    of: int
    skipped: int = 0  # bad records passed over in this pass


class Observer:
    """Follows a run or a study; the command line has some that show it."""

    lines = True  # whether it wants to be told lines

    def begin(self) -> None:
        """Called when all is compiled and loaded, and learning begins."""

    def line(self, line: Line) -> None:
        """Called at 64, 128, 256 … examples of a run, and at its end."""

    def changed(self, monitor: str, row: int, since: int) -> None:
        """Called when a monitor finds, after so many rows, that the error has risen since so many."""

    def moved(self, step: Step) -> None:
        """Called after each batch."""

    def said(self, text: str) -> None:
        """Called when there is news of the source: it is away, or there again."""

    def split(self, passes: int, needed: int, limit: int) -> None:
        """Called when all models of a study at once would need too many bytes: they go in several passes."""

    def placed(self, device: str, lanes: int) -> None:
        """Called when it is clear where lanes are: "cpu" or "cuda"; of a run, when they have gone to a GPU."""

    def wants_nnz(self, n_features: int) -> bool:
        """Whether the next line is to count the non-zero weights, which takes time for each feature."""
        return True

    def close(self) -> None:
        """Called when it is over, well or not."""


class NullObserver(Observer):
    """Ignores every event."""

    lines = False
