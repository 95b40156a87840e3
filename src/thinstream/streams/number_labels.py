"""Labels that are numbers, positive above 0: more than two different ones may be classes of their own."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Different labels that are named.
MOST = 8


class NumberLabels:
    """The lowest of the labels met.

    >>> labels = NumberLabels()
    >>> labels.add((0.0, 3.0))
    >>> labels.remarks()
    []
    >>> labels.add((1.0, 2.5))
    >>> labels.remarks()
    ['labels are 0, 1, 2.5, 3: those above 0 are positive; if each is a class: --classes, or --grow-classes']
    """

    def __init__(self) -> None:
        self._met: list[float] = []

    def add(self, labels: Iterable[float]) -> None:
        """Takes labels of further rows."""
        self._met = sorted({*self._met, *labels})[: MOST + 1]

    def remarks(self) -> list[str]:
        """That there are more than two, if so."""
        if len(self._met) <= 2:
            return []
        shown = ", ".join(f"{label:g}" for label in self._met[:MOST]) + (", …" if len(self._met) > MOST else "")
        what = "if each is a class: --classes, or --grow-classes"
        return [f"labels are {shown}: those above 0 are positive; {what}"]


def lowest(labels: NDArray[Any]) -> tuple[float, ...]:
    """The lowest of the different labels, a few; NaN is none.

    >>> lowest(np.array([2.0, 0.0, np.nan, 1.0, 2.0]))
    (0.0, 1.0, 2.0)
    """
    low, high = np.fmin.reduce(labels), np.fmax.reduce(labels)
    if np.all((labels == low) | (labels == high) | (labels != labels)):  # the usual case, in linear time
        return (float(low), float(high)) if low < high else (float(low),)
    return tuple(np.unique(labels[labels == labels])[: MOST + 1].tolist())
