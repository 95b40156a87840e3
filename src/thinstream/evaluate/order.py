"""Whether rows come in an order that progressive numbers must not be trusted in."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def looks_sorted(rows: int, alternation: float, changes: int) -> bool:
    """Whether labels came in far longer runs than in any random order.

    ``alternation`` is the chance that two rows drawn at random differ, ``changes`` counts neighbours that do.

    >>> looks_sorted(2000, 0.5, 1), looks_sorted(2000, 0.5, 900)
    (True, False)
    """
    return rows >= 1000 and changes < 0.02 * rows * alternation


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
        share = self.positives / max(self.rows, 1)
        return looks_sorted(self.rows, 2.0 * share * (1.0 - share), self.changes)
