"""DDM: the error rate against the lowest it has had.

Gama, Medas, Castillo, Rodrigues: Learning with Drift Detection (2004). p is the error rate of the rows so far, s its
standard deviation √(p(1 − p)/i). Where p + s is lowest, p_min and s_min are kept. A change is found when p + s exceeds
p_min + 3·s_min, and everything begins anew; it began where p + s first exceeded p_min + 2·s_min for good.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled
from thinstream.monitors.monitor import Monitor

ROWS, WRONG, P_MIN, S_MIN, WARNED, SEEN = range(6)
NEVER = -1.0


@compiled()
def _walk(errors: Any, state: Any, found: Any, warm_up: float, warning: float, drift: float) -> int:
    many = 0
    for i in range(len(errors)):
        state[SEEN] += 1.0
        state[ROWS] += 1.0
        state[WRONG] += errors[i]
        n = state[ROWS]
        if n <= warm_up:
            continue
        p = state[WRONG] / n
        s = math.sqrt(p * (1.0 - p) / n)
        if p + s <= state[P_MIN] + state[S_MIN]:
            state[P_MIN], state[S_MIN] = p, s
        if p + s > state[P_MIN] + drift * state[S_MIN]:
            found[many, 0] = i
            found[many, 1] = int(state[WARNED] if state[WARNED] != NEVER else state[SEEN])
            many += 1
            state[ROWS] = state[WRONG] = 0.0
            state[P_MIN] = state[S_MIN] = math.inf
            state[WARNED] = NEVER
        elif p + s > state[P_MIN] + warning * state[S_MIN]:
            if state[WARNED] == NEVER:
                state[WARNED] = state[SEEN]
        else:
            state[WARNED] = NEVER
    return many


class DDM(Monitor):
    """The error rate against the lowest it has had.

    Parameters
    ----------
    warm_up : int, default=30
        Rows before it judges.
    warning, drift : float, default=2 and 3
        Standard deviations above the lowest rate: where a change may have begun, and where one is found.

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one in ten is wrong
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second one
    >>> DDM().update(wrong)
    [Change(row=2067, since=2033)]

    """

    name = "ddm"

    def __init__(self, *, warm_up: int = 30, warning: float = 2.0, drift: float = 3.0) -> None:
        super().__init__(warm_up=warm_up, warning=warning, drift=drift)

    def _fresh(self) -> NDArray[np.float64]:
        return np.array([0.0, 0.0, math.inf, math.inf, NEVER, 0.0])

    def _walk(self, errors: NDArray[np.uint8], found: NDArray[np.int64]) -> int:
        return int(_walk(errors, self._state, found, *map(float, self.parameters.values())))
