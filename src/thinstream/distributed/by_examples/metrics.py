"""Progressive metrics of several workers, counted together.

Counts are whole numbers and add in any order. Sums of losses are kept for each worker by itself, from the first row
on, and added in the order of the workers: so one worker gives the bits of a run on one machine.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.progress import Progress

Arrays = dict[str, NDArray[Any]]
_TOTALS, _EACH = "totals", "worker_totals"


def begin_round(classes: int, totals: NDArray[np.float64] | None, threshold: float = 0.0) -> Progress:
    """What a worker counts a round with: it goes on with its own sums of losses, its counts begin at 0."""
    progress = Progress(classes, threshold)
    return progress if totals is None else Progress.from_arrays(progress.arrays() | {_TOTALS: totals}, threshold)


def round_counts(progress: Progress) -> Arrays:
    """What a worker sends of its round; bins, of which most are empty, by their places."""
    arrays = {name: array for name, array in progress.arrays().items() if not name.startswith("mark_")}
    bins = arrays.pop("bins").ravel()
    places = np.flatnonzero(bins)
    return arrays | {"places": places, "numbers": bins[places]}


class Tallies:
    """The metrics of all workers.

    Examples
    --------
    >>> tallies = Tallies(2, workers=2)
    >>> for worker in range(2):
    ...     progress = begin_round(2, tallies.totals(worker))
    ...     progress.update(np.array([-1.0, 0.5]), np.array([-1, -1], np.int8))
    ...     tallies.add(worker, round_counts(progress))
    >>> tallies.progress().report().error
    0.5

    """

    def __init__(self, classes: int, workers: int) -> None:
        self._sum = Progress(classes).arrays()
        self._each = np.zeros((workers, 2))

    def totals(self, worker: int) -> NDArray[np.float64] | None:
        """Sums of losses of a worker so far."""
        return self._each[worker].copy() if _TOTALS in self._sum else None

    def add(self, worker: int, found: Arrays) -> None:
        """A round of a worker."""
        for name in ("counts", "classes", "confusion"):
            if name in found:
                self._sum[name] += found[name]
        self._sum["bins"].reshape(-1)[found["places"]] += found["numbers"]
        if _TOTALS in self._sum:
            self._each[worker] = found[_TOTALS]
            self._sum[_TOTALS] = np.add.reduce(self._each, axis=0)

    def progress(self) -> Progress:
        """All of it."""
        return Progress.from_arrays(self._sum)

    def mark(self) -> None:
        """Remembers this moment, in place of the last mark."""
        for name in [name for name in self._sum if not name.startswith("mark_")]:
            self._sum["mark_" + name] = self._sum[name].copy()

    def arrays(self) -> Arrays:
        """Everything, the mark included."""
        return {**self._sum, _EACH: self._each}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """What `arrays` gave."""
        self._each = np.array(arrays[_EACH])
        self._sum = Progress.from_arrays(arrays).arrays()
