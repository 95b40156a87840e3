"""What a run finds out about changes of its stream: the error along it, and what monitors say."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.curve import ErrorCurve
from thinstream.monitors import MONITORS, Change

_CURVE = "curve."
_TOLD = "changes."


class Told(NamedTuple):
    """A change, and the monitor that found it."""

    monitor: str
    change: Change


class DriftWatch:
    """The error along a stream, and the changes that monitors (of these names, see `MONITORS`) find in it.

    Examples
    --------
    >>> import numpy as np
    >>> watch = DriftWatch(["adwin"])
    >>> watch.update(np.arange(2000) > 1000)
    [Told(monitor='adwin', change=Change(row=1024, since=976))]

    """

    def __init__(self, monitors: Sequence[str] = ()) -> None:
        self.monitors = {name: MONITORS[name]() for name in monitors}
        self.curve, self.told = ErrorCurve(), list[Told]()

    def update(self, wrong: NDArray[np.bool_]) -> list[Told]:
        """Takes the next rows, True where a prediction was wrong; the changes found, in their order."""
        self.curve.update(wrong)
        found = [Told(name, change) for name, each in self.monitors.items() for change in each.update(wrong)]
        found.sort(key=lambda told: told.change.row)
        self.told += found
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it knows, for a checkpoint."""
        found = {_CURVE + key: array for key, array in self.curve.arrays().items()}
        for name, monitor in self.monitors.items():
            found |= {f"{name}.{key}": array for key, array in monitor.arrays().items()}
            changes = [told.change for told in self.told if told.monitor == name]
            found[_TOLD + name] = np.array(changes, np.int64).reshape(-1, 2)
        return found

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Goes back to where ``arrays`` was called, with the same monitors."""

        def under(prefix: str) -> dict[str, NDArray[Any]]:
            return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

        self.curve = ErrorCurve.from_arrays(under(_CURVE))
        for name, monitor in self.monitors.items():
            monitor.restore(under(f"{name}."))
        changes = [(name, Change(*map(int, row))) for name, rows in under(_TOLD).items() for row in rows]
        self.told = sorted((Told(*pair) for pair in changes), key=lambda told: told.change.row)
