"""What each row of a batch costs: its class's cost times its weight."""

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.loop import Costs


def running_costs(
    costs: Costs, y: NDArray[np.int8], weights: NDArray[np.float64], positives: int = 0, negatives: int = 0
) -> NDArray[np.float64]:
    """c_i of rows in their order; balanced: by the counts up to and including each row, ``positives`` … before it.

    >>> running_costs(Costs(balanced=True), np.array([-1, -1, 1, 1], np.int8), np.ones(4))
    array([1., 1., 2., 1.])
    """
    if costs.balanced:
        n_plus = positives + np.cumsum(y > 0)
        n_minus = negatives + np.cumsum(y < 0)
        return weights * np.where(y > 0, np.maximum(n_minus, 1) / np.maximum(n_plus, 1), 1.0)
    return weights * np.where(y > 0, costs.positive, costs.negative)


def batch_costs(costs: Costs, y: NDArray[np.int8], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """c_i for learners that have all rows before them; balanced: by the counts of all.

    >>> batch_costs(Costs(balanced=True), np.array([-1, -1, 1, -1], np.int8), np.ones(4))
    array([1., 1., 3., 1.])
    """
    if not costs.balanced:
        return running_costs(costs, y, weights)
    ratio = max(int(np.count_nonzero(y < 0)), 1) / max(int(np.count_nonzero(y > 0)), 1)
    return weights * np.where(y > 0, ratio, 1.0)
