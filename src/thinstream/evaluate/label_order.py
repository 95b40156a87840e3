"""Rows that come sorted by class, which an online learner cannot learn from."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import SortedRowsWarning

#: What is wrong with them; what to do about it depends on who asks.
SORTED = (
    "labels come in long runs, as in rows sorted by class: progressive numbers are too good, and models lean to the "
    "last class"
)

#: Fewer runs of equal labels in random order say too little.
ENOUGH_RUNS = 20
#: The share of those runs below which rows are not in random order; streams whose classes come and go have more.
FEW = 0.1


class LabelOrder:
    """Whether rows come sorted by class, as a whole or in blocks: progressive numbers are then too good.

    Examples
    --------
    >>> import numpy as np
    >>> sorted_, mixed = LabelOrder(), LabelOrder()
    >>> sorted_.update(np.repeat([0, 1], 1000))
    >>> mixed.update(np.tile([0, 1], 1000))
    >>> sorted_.looks_sorted, mixed.looks_sorted
    (True, False)

    """

    def __init__(self) -> None:
        self.examples = np.zeros(2, np.int64)  # of each class
        self._changes, self._last = 0, -2

    def update(self, y: NDArray[Any]) -> None:
        """Takes the next labels: -1 and 1 in int8, or numbers of classes."""
        if not len(y):
            return
        if y.dtype == np.int8:
            positives = np.count_nonzero(y > 0)
            counts = np.array([len(y) - positives, positives])
        else:
            counts = np.bincount(y, minlength=len(self.examples))
        counts[: len(self.examples)] += self.examples
        self._changes += int(np.count_nonzero(y[1:] != y[:-1])) + int(self._last not in (y[0], -2))
        self.examples, self._last = counts, int(y[-1])

    @property
    def looks_sorted(self) -> bool:
        """Whether labels came in far longer runs than in any random order."""
        rows = int(self.examples.sum())
        if not rows:
            return False
        differ = 1.0 - float(np.sum((self.examples / rows) ** 2))  # the chance that two rows differ
        expected = 1.0 + rows * differ  # runs of equal labels in random order: 1 + 2PN/n of two classes
        return expected >= ENOUGH_RUNS and 1 + self._changes < FEW * expected


def warn_of_sorted(do: str, stacklevel: int = 2) -> None:
    """Warns that rows look sorted, and says what to do; ``stacklevel`` counts from the caller."""
    warnings.warn(f"{SORTED}; {do}", SortedRowsWarning, stacklevel=stacklevel + 1)
