"""ADWIN: a window that is as long as its two halves, however it is cut, are not significantly different.

Bifet, Gavaldà: Learning from Time-Changing Data with Adaptive Windowing (2007), ADWIN2. The window is kept as an
exponential histogram, M buckets of each size 1, 2, 4 …, so its memory is O(log of its length). It is cut between
buckets: into n₀ older rows and n₁ newer ones of means that differ by more than

    ε = √(2/m·σ²·ln(2/δ')) + 2/(3m)·ln(2/δ'),   1/m = 1/n₀ + 1/n₁,   δ' = δ/ln n

with σ² the variance in the window, p(1 − p) of errors. Then its oldest bucket is dropped, until no cut is left.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar
from thinstream.monitors.monitor import Monitor

#: Sizes of buckets, 1 to 2^47; and how many of each there may be.
SIZES, BUCKETS = 48, 5
#: In a row of the state: how many buckets of its size there are, then the errors in each, oldest first.
MANY = 0
#: The state's last row: rows in the window, errors in it, rows seen, rows when a change was last told.
WIDTH, WRONG, SEEN, TOLD = range(4)


@scalar
def _insert(state: Any, error: Any) -> None:
    """A further bucket of one row; where there are too many of a size, its two oldest become one of the next."""
    carried = error
    for size in range(SIZES):
        many = state[size, MANY]
        state[size, 1 + many] = carried
        state[size, MANY] = many + 1
        if many < BUCKETS:
            return
        carried = state[size, 1] + state[size, 2]
        for k in range(1, many):
            state[size, k] = state[size, k + 2]
        state[size, MANY] = many - 1


@scalar
def _drop_oldest(state: Any) -> None:
    for size in range(SIZES - 1, -1, -1):
        many = state[size, MANY]
        if many:
            state[SIZES, WIDTH] -= 1 << size
            state[SIZES, WRONG] -= state[size, 1]
            for k in range(1, many):
                state[size, k] = state[size, k + 1]
            state[size, MANY] = many - 1
            return


@scalar
def _cut(state: Any, delta: float) -> int:
    """1 or −1 if some cut tells a rise or a fall of the error; else 0."""
    n, wrong = state[SIZES, WIDTH], state[SIZES, WRONG]
    if n < 2:
        return 0
    p = wrong / n
    log = math.log(2.0 * math.log(n) / delta)
    older, wrong_older = 0, 0
    for size in range(SIZES - 1, -1, -1):
        for k in range(1, state[size, MANY] + 1):
            older += 1 << size
            wrong_older += state[size, k]
            newer = n - older
            if newer == 0:
                return 0
            rise = (wrong - wrong_older) / newer - wrong_older / older
            m = 1.0 / (1.0 / older + 1.0 / newer)
            if abs(rise) > math.sqrt(2.0 / m * p * (1.0 - p) * log) + 2.0 / (3.0 * m) * log:
                return 1 if rise > 0.0 else -1
    return 0


@compiled()
def _walk(errors: Any, state: Any, found: Any, delta: float, every: float) -> int:
    many = 0
    for i in range(len(errors)):
        state[SIZES, SEEN] += 1
        state[SIZES, WIDTH] += 1
        state[SIZES, WRONG] += errors[i]
        _insert(state, np.int64(errors[i]))
        if state[SIZES, SEEN] % int(every):
            continue
        first = direction = _cut(state, delta)
        while direction:
            _drop_oldest(state)
            direction = _cut(state, delta)
        begin = state[SIZES, SEEN] - state[SIZES, WIDTH]
        if first > 0 and begin >= state[SIZES, TOLD]:
            found[many, 0] = i
            found[many, 1] = begin
            many += 1
            state[SIZES, TOLD] = state[SIZES, SEEN]
    return many


class ADWIN(Monitor):
    """A window that adapts to the stream.

    A fall of the error shortens the window, too, but is not told: a model that learns gets better. Nor is a change told
    again while its window, getting shorter, still begins before it was told.

    Parameters
    ----------
    delta : float, default=0.002
        δ: how often, at most, it may find a change where there is none.
    every : int, default=32
        Rows between two looks.

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one in ten is wrong
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second one
    >>> ADWIN().update(wrong)
    [Change(row=2048, since=1824)]

    """

    name = "adwin"

    def __init__(self, *, delta: float = 0.002, every: int = 32) -> None:
        super().__init__(delta=delta, every=every)

    @property
    def width(self) -> int:
        """Rows in the window."""
        return int(self._state[SIZES, WIDTH])

    @property
    def error(self) -> float:
        """Share of wrong predictions in the window; 0 before the first row."""
        return float(self._state[SIZES, WRONG] / max(self.width, 1))

    def _fresh(self) -> NDArray[np.int64]:
        return np.zeros((SIZES + 1, BUCKETS + 2), np.int64)

    def _walk(self, errors: NDArray[np.uint8], found: NDArray[np.int64]) -> int:
        return int(_walk(errors, self._state, found, *map(float, self.parameters.values())))
