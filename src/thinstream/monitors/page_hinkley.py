"""Page–Hinkley: the sum of the errors above their mean.

Page: Continuous Inspection Schemes (1954), as in Gama, Žliobaitė, Bifet, Pechenizkiy, Bouchachia: A Survey on Concept
Drift Adaptation (2014). m ← α·m + (x − mean of all x − δ); a change is found when m exceeds the lowest it has been by
more than the threshold, and began where it was lowest. Everything begins anew then.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled
from thinstream.monitors.monitor import Monitor

ROWS, MEAN, SUM, LOWEST, LOWEST_AT, SEEN = range(6)


@compiled()
def _walk(errors: Any, state: Any, found: Any, warm_up: float, delta: float, threshold: float, alpha: float) -> int:
    many = 0
    for i in range(len(errors)):
        state[SEEN] += 1.0
        state[ROWS] += 1.0
        state[MEAN] += (errors[i] - state[MEAN]) / state[ROWS]
        state[SUM] = alpha * state[SUM] + (errors[i] - state[MEAN] - delta)
        if state[SUM] < state[LOWEST]:
            state[LOWEST], state[LOWEST_AT] = state[SUM], state[SEEN]
        if state[ROWS] >= warm_up and state[SUM] - state[LOWEST] > threshold:
            found[many, 0] = i
            found[many, 1] = int(state[LOWEST_AT])
            many += 1
            state[ROWS] = state[MEAN] = state[SUM] = 0.0
            state[LOWEST] = math.inf
    return many


class PageHinkley(Monitor):
    """The sum of the errors above their mean.

    Parameters
    ----------
    warm_up : int, default=30
        Rows before it judges.
    delta : float, default=0.005
        δ: changes of the error rate that do not matter.
    threshold : float, default=50
        The larger, the fewer false alarms, and the later true ones.
    alpha : float, default=0.9999
        α: how slowly the past is forgotten; 1 is never.

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one in ten is wrong
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second one
    >>> PageHinkley().update(wrong)
    [Change(row=2131, since=2000)]

    """

    name = "page-hinkley"

    def __init__(
        self, *, warm_up: int = 30, delta: float = 0.005, threshold: float = 50.0, alpha: float = 0.9999
    ) -> None:
        super().__init__(warm_up=warm_up, delta=delta, threshold=threshold, alpha=alpha)

    def _fresh(self) -> NDArray[np.float64]:
        return np.array([0.0, 0.0, 0.0, math.inf, 0.0, 0.0])

    def _walk(self, errors: NDArray[np.uint8], found: NDArray[np.int64]) -> int:
        return int(_walk(errors, self._state, found, *map(float, self.parameters.values())))
