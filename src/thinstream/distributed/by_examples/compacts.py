"""Workers that keep state for the features that occur: each meets others, so their changes name them by number.

Before anything is compared or merged, learners get the slots of all numbers that any of them has.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.compact import CompactLearner, compact_learner


@dataclass(frozen=True, eq=False)
class CompactChange:
    """A change of a learner on slots, and what it takes to know which features these are."""

    numbers: NDArray[np.int64]  # of the slots from 1 on, sorted; those of the base are among them
    n_features: int
    change: Any

    @property
    def nbytes(self) -> int:
        """What it takes to send it."""
        return int(self.numbers.nbytes + self.change.nbytes)

    def around(self, inner: Any, grow: bool) -> CompactLearner:
        """The learner that ``inner`` is one of slots of."""
        return compact_learner(inner, self.numbers, self.n_features, grow)
