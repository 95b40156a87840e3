"""Whether rows come in an order that progressive numbers must not be trusted in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def looks_sorted(rows: int, positives: int, changes: int) -> bool:
    """Whether labels came in far longer runs than in any random order; ``changes`` from one row to the next.

    >>> looks_sorted(2000, 1000, 1), looks_sorted(2000, 1000, 900)
    (True, False)
    """
    share = positives / max(rows, 1)
    return rows >= 1000 and changes < 0.02 * 2.0 * rows * share * (1.0 - share)


class Order:
    """Counts what `looks_sorted` needs."""

    def __init__(self) -> None:
        self.rows = self.positives = self.changes = 0

    def take(self, y: NDArray[Any]) -> None:
        """The next labels."""
        self.rows += len(y)
        self.positives += int(np.count_nonzero(y > 0))
        self.changes += int(np.count_nonzero(y[1:] != y[:-1]))

    @property
    def looks_sorted(self) -> bool:
        """So far."""
        return looks_sorted(self.rows, self.positives, self.changes)
