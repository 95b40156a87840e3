"""Drift monitors: they read progressive errors and report when the error rate has risen.

An error is 1 if a row was misclassified before the model learned it, else 0. A monitor needs constant memory (ADWIN:
logarithmic memory), and reports the same changes however a stream is cut into batches.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.jit import compiled, scalar
from thinstream.training.observer import ErrorCurve


class Change(NamedTuple):
    """A rise of the error rate."""

    row: int  # the number of rows when the monitor detected it
    since: int  # the number of rows when it began, as the monitor estimates


class Monitor(ABC):
    """Base class of drift monitors: a vector of numbers, and a compiled loop over errors.

    Attributes
    ----------
    rows : int
        The number of rows so far.

    """

    name: ClassVar[str]

    def __init__(self, **parameters: float) -> None:
        for name, value in parameters.items():
            if isinstance(value, bool) or not (np.isfinite(value) and value > 0):
                raise InvalidParameterError(f"{self.name}: {name} must be a finite number > 0, got {value!r}")
        self.parameters = parameters
        self.rows = 0
        self._state = self._fresh()

    def update(self, wrong: Any) -> list[Change]:
        """Process the next rows, with True (or 1) for each misclassified row. Return the changes in them."""
        errors = np.asarray(wrong)
        if errors.ndim != 1 or not (errors.dtype.kind == "b" or np.all((errors == 0) | (errors == 1))):
            raise InvalidInputError(
                f"{self.name}: errors must be a vector of True and False (or 1 and 0), got shape {errors.shape} of "
                f"{errors.dtype}"
            )
        detected = np.empty((len(errors), 2), np.int64)
        n_changes = self._loop(errors.astype(np.uint8), detected)
        changes = [Change(self.rows + 1 + int(row), max(int(since), 0)) for row, since in detected[:n_changes]]
        self.rows += len(errors)
        return changes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return copies of the state as named arrays, to save them."""
        return {"state": self._state.copy(), "rows": np.array([self.rows])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Restore the state that `arrays` returned, in a monitor with the same parameters."""
        state, rows = arrays["state"], arrays["rows"]
        if state.shape != self._state.shape or state.dtype != self._state.dtype or rows.shape != (1,):
            raise InvalidInputError(f"{self.name}: the arrays are not the state of this monitor")
        self._state, self.rows = state.copy(), int(rows[0])
        return self

    @abstractmethod
    def _fresh(self) -> NDArray[Any]:
        """Return the state before the first row."""

    @abstractmethod
    def _loop(self, errors: NDArray[np.uint8], changes: NDArray[np.int64]) -> int:
        """Process errors and return the number of changes; write (index of the error, ``since``) of each."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.parameters.items())})"


# ADWIN. Bifet, Gavaldà: Learning from Time-Changing Data with Adaptive Windowing (2007), ADWIN2. The window is an
# exponential histogram with at most M buckets of each size 1, 2, 4 …, so its memory is O(log of its length). A cut
# between two buckets gives n₀ older rows and n₁ newer rows. The means of the two parts differ significantly if they
# differ by more than
#
#     ε = √(2/m·σ²·ln(2/δ')) + 2/(3m)·ln(2/δ'),   1/m = 1/n₀ + 1/n₁,   δ' = δ/ln n
#
# with σ² the variance in the window, p(1 − p) for errors. Then the oldest bucket is dropped, until no cut is left.

#: The number of bucket sizes, 1 to 2^47, and the maximum number of buckets of each size.
SIZES, BUCKETS = 48, 5
#: A row of the state has the number of buckets of its size, then the errors in each bucket, the oldest first.
COUNT = 0
#: The last row of the state: rows in the window, errors in it, rows so far, rows when the last change was reported.
WIDTH, ERRORS, TOTAL, REPORTED = range(4)


@scalar
def _insert(state: Any, error: Any) -> None:
    """Add a bucket of one row. If there are too many buckets of a size, merge the two oldest."""
    carried = error
    for size in range(SIZES):
        count = state[size, COUNT]
        state[size, 1 + count] = carried
        state[size, COUNT] = count + 1
        if count < BUCKETS:
            return
        carried = state[size, 1] + state[size, 2]
        for k in range(1, count):
            state[size, k] = state[size, k + 2]
        state[size, COUNT] = count - 1


@scalar
def _drop_oldest(state: Any) -> None:
    for size in range(SIZES - 1, -1, -1):
        count = state[size, COUNT]
        if count:
            state[SIZES, WIDTH] -= 1 << size
            state[SIZES, ERRORS] -= state[size, 1]
            for k in range(1, count):
                state[size, k] = state[size, k + 1]
            state[size, COUNT] = count - 1
            return


@scalar
def _cut(state: Any, delta: float) -> int:
    """Return 1 or −1 if the error rises or falls significantly at some cut, else 0."""
    n, wrong = state[SIZES, WIDTH], state[SIZES, ERRORS]
    if n < 2:
        return 0
    p = wrong / n
    log = math.log(2.0 * math.log(n) / delta)
    older, wrong_older = 0, 0
    for size in range(SIZES - 1, -1, -1):
        for k in range(1, state[size, COUNT] + 1):
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
def _adwin_loop(errors: Any, state: Any, changes: Any, delta: float, every: float) -> int:
    n_changes = 0
    for i in range(len(errors)):
        state[SIZES, TOTAL] += 1
        state[SIZES, WIDTH] += 1
        state[SIZES, ERRORS] += errors[i]
        _insert(state, np.int64(errors[i]))
        if state[SIZES, TOTAL] % int(every):
            continue
        first = direction = _cut(state, delta)
        while direction:
            _drop_oldest(state)
            direction = _cut(state, delta)
        begin = state[SIZES, TOTAL] - state[SIZES, WIDTH]
        if first > 0 and begin >= state[SIZES, REPORTED]:
            changes[n_changes, 0] = i
            changes[n_changes, 1] = begin
            n_changes += 1
            state[SIZES, REPORTED] = state[SIZES, TOTAL]
    return n_changes


class ADWIN(Monitor):
    """Compare the halves of a window that grows until they differ significantly.

    A fall of the error rate also shortens the window, but is not reported, because models improve as they learn. A
    change is reported once: again only if the window begins after the last report.

    Parameters
    ----------
    delta : float, default=0.002
        δ, an upper limit on the rate of false alarms.
    every : int, default=32
        The number of rows between two tests.

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one row in ten is misclassified
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second row
    >>> ADWIN().update(wrong)
    [Change(row=2048, since=1824)]

    """

    name = "adwin"

    def __init__(self, *, delta: float = 0.002, every: int = 32) -> None:
        super().__init__(delta=delta, every=every)

    @property
    def width(self) -> int:
        """The number of rows in the window."""
        return int(self._state[SIZES, WIDTH])

    @property
    def error(self) -> float:
        """The error rate in the window; 0 before the first row."""
        return float(self._state[SIZES, ERRORS] / max(self.width, 1))

    def _fresh(self) -> NDArray[np.int64]:
        return np.zeros((SIZES + 1, BUCKETS + 2), np.int64)

    def _loop(self, errors: NDArray[np.uint8], changes: NDArray[np.int64]) -> int:
        return int(_adwin_loop(errors, self._state, changes, *map(float, self.parameters.values())))


# DDM. Gama, Medas, Castillo, Rodrigues: Learning with Drift Detection (2004). p is the error rate of the rows so far,
# and s its standard deviation √(p(1 − p)/i). p_min and s_min are the values at which p + s was lowest. A change is
# detected when p + s exceeds p_min + 3·s_min, and then the statistics restart. It began when p + s last rose above
# p_min + 2·s_min.

#: Elements of the state. `SEEN`, the number of rows in all, comes last in both monitors.
ROWS, WRONG, P_MIN, S_MIN, WARNED, SEEN = range(6)
NEVER = -1.0


@compiled()
def _ddm_loop(errors: Any, state: Any, changes: Any, warm_up: float, warning: float, drift: float) -> int:
    n_changes = 0
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
            changes[n_changes, 0] = i
            changes[n_changes, 1] = int(state[WARNED] if state[WARNED] != NEVER else state[SEEN])
            n_changes += 1
            state[ROWS] = state[WRONG] = 0.0
            state[P_MIN] = state[S_MIN] = math.inf
            state[WARNED] = NEVER
        elif p + s > state[P_MIN] + warning * state[S_MIN]:
            if state[WARNED] == NEVER:
                state[WARNED] = state[SEEN]
        else:
            state[WARNED] = NEVER
    return n_changes


class DDM(Monitor):
    """Compare the error rate with its lowest value so far.

    Parameters
    ----------
    warm_up : int, default=30
        The number of rows before the first test.
    warning, drift : float, default=2 and 3
        Standard deviations above the lowest error rate. Above ``warning`` a change may have begun. Above ``drift`` it
        is detected.

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one row in ten is misclassified
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second row
    >>> DDM().update(wrong)
    [Change(row=2067, since=2033)]

    """

    name = "ddm"

    def __init__(self, *, warm_up: int = 30, warning: float = 2.0, drift: float = 3.0) -> None:
        super().__init__(warm_up=warm_up, warning=warning, drift=drift)

    def _fresh(self) -> NDArray[np.float64]:
        return np.array([0.0, 0.0, math.inf, math.inf, NEVER, 0.0])

    def _loop(self, errors: NDArray[np.uint8], changes: NDArray[np.int64]) -> int:
        return int(_ddm_loop(errors, self._state, changes, *map(float, self.parameters.values())))


# Page–Hinkley. Page: Continuous Inspection Schemes (1954), as in Gama, Žliobaitė, Bifet, Pechenizkiy, Bouchachia: A
# Survey on Concept Drift Adaptation (2014). With m ← α·m + (x − mean of all x − δ), a change is detected when m exceeds
# its minimum by more than the threshold. It began at the minimum. Then the statistics restart.

#: Elements of the state after `ROWS`.
MEAN, SUM, LOWEST, LOWEST_AT = range(1, 5)


@compiled()
def _page_hinkley_loop(
    errors: Any, state: Any, changes: Any, warm_up: float, delta: float, threshold: float, alpha: float
) -> int:
    n_changes = 0
    for i in range(len(errors)):
        state[SEEN] += 1.0
        state[ROWS] += 1.0
        state[MEAN] += (errors[i] - state[MEAN]) / state[ROWS]
        state[SUM] = alpha * state[SUM] + (errors[i] - state[MEAN] - delta)
        if state[SUM] < state[LOWEST]:
            state[LOWEST], state[LOWEST_AT] = state[SUM], state[SEEN]
        if state[ROWS] >= warm_up and state[SUM] - state[LOWEST] > threshold:
            changes[n_changes, 0] = i
            changes[n_changes, 1] = int(state[LOWEST_AT])
            n_changes += 1
            state[ROWS] = state[MEAN] = state[SUM] = 0.0
            state[LOWEST] = math.inf
    return n_changes


class PageHinkley(Monitor):
    """Sum how far the errors exceed their mean.

    Parameters
    ----------
    warm_up : int, default=30
        The number of rows before the first test.
    delta : float, default=0.005
        δ, changes of the error rate to tolerate.
    threshold : float, default=50
        A larger threshold gives fewer false alarms and detects changes later.
    alpha : float, default=0.9999
        α, how slowly old errors are forgotten (1: never).

    Examples
    --------
    >>> import numpy as np
    >>> wrong = np.arange(3000) % 10 == 0              # one row in ten is misclassified
    >>> wrong[2000:] = np.arange(1000) % 2 == 0        # then every second row
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

    def _loop(self, errors: NDArray[np.uint8], changes: NDArray[np.int64]) -> int:
        return int(_page_hinkley_loop(errors, self._state, changes, *map(float, self.parameters.values())))


#: Monitors by their name on the command line (``--monitor``).
MONITORS: dict[str, type[Monitor]] = {"adwin": ADWIN, "ddm": DDM, "page-hinkley": PageHinkley}

_CURVE = "curve."
_CHANGES = "changes."


class Detection(NamedTuple):
    """A change, and the monitor that detected it."""

    monitor: str
    change: Change


class DriftWatch:
    """The error along a stream, and the changes that monitors detect in it.

    Parameters
    ----------
    monitors : sequence of str
        Keys of `MONITORS`.

    Examples
    --------
    >>> import numpy as np
    >>> watch = DriftWatch(["adwin"])
    >>> watch.update(np.arange(2000) > 1000)
    [Detection(monitor='adwin', change=Change(row=1024, since=976))]

    """

    def __init__(self, monitors: Sequence[str] = ()) -> None:
        self.monitors = {name: MONITORS[name]() for name in monitors}
        self.curve, self.detections = ErrorCurve(), list[Detection]()

    def update(self, wrong: NDArray[np.bool_]) -> list[Detection]:
        """Process the next rows, with True for each misclassified row. Return the changes in their order."""
        self.curve.update(wrong)
        detections = [
            Detection(name, change) for name, monitor in self.monitors.items() for change in monitor.update(wrong)
        ]
        detections.sort(key=_row)
        self.detections += detections
        return detections

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named arrays, for a checkpoint."""
        arrays = {_CURVE + key: array for key, array in self.curve.arrays().items()}
        for name, monitor in self.monitors.items():
            arrays |= {f"{name}.{key}": array for key, array in monitor.arrays().items()}
            changes = [detection.change for detection in self.detections if detection.monitor == name]
            arrays[_CHANGES + name] = np.array(changes, np.int64).reshape(-1, 2)
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state that `arrays` returned, with the same monitors."""

        def under(prefix: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

        self.curve = ErrorCurve.from_arrays(under(_CURVE))
        for name, monitor in self.monitors.items():
            monitor.restore(under(f"{name}."))
        changes = [(name, Change(*map(int, row))) for name, rows in under(_CHANGES).items() for row in rows]
        self.detections = sorted((Detection(*pair) for pair in changes), key=_row)


def _row(detection: Detection) -> int:
    return detection.change.row
