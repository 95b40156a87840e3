"""What all monitors share: a vector of numbers, and a compiled walk over the errors of further rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError


class Change(NamedTuple):
    """A rise of the error."""

    row: int  # how many rows there were when it was found
    since: int  # and when, by the monitor's own reckoning, it began


class Monitor(ABC):
    """Watches the errors of a stream.

    Attributes
    ----------
    rows : int
        Rows seen.

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
        """Takes the next rows, True (or 1) where a prediction was wrong; returns the changes found on the way."""
        errors = np.asarray(wrong)
        if errors.ndim != 1 or not (errors.dtype.kind == "b" or np.all((errors == 0) | (errors == 1))):
            raise InvalidInputError(
                f"{self.name}: errors must be a vector of True and False (or 1 and 0), got shape {errors.shape} of "
                f"{errors.dtype}"
            )
        found = np.empty((len(errors), 2), np.int64)
        many = self._walk(errors.astype(np.uint8), found)
        changes = [Change(self.rows + 1 + int(row), max(int(since), 0)) for row, since in found[:many]]
        self.rows += len(errors)
        return changes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it knows, as named arrays (copies), to be saved."""
        return {"state": self._state.copy(), "rows": np.array([self.rows])}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Goes back to where ``arrays`` was called; the parameters are the same."""
        state, rows = arrays["state"], arrays["rows"]
        if state.shape != self._state.shape or state.dtype != self._state.dtype or rows.shape != (1,):
            raise InvalidInputError(f"{self.name}: these are not the arrays of such a monitor")
        self._state, self.rows = state.copy(), int(rows[0])
        return self

    @abstractmethod
    def _fresh(self) -> NDArray[Any]:
        """The state before the first row."""

    @abstractmethod
    def _walk(self, errors: NDArray[np.uint8], found: NDArray[np.int64]) -> int:
        """Takes the errors; changes go into ``found`` (place in the errors, rows at its beginning); how many."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.parameters.items())})"
