"""The error along a stream, in constant memory."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError

#: Stretches at most; where there would be more, two become one.
STRETCHES = 512


class Stretch(NamedTuple):
    """Some rows in a row."""

    until: int  # rows up to its end
    rows: int
    wrong: int

    @property
    def error(self) -> float:
        """Share of wrong predictions."""
        return self.wrong / self.rows


class ErrorCurve:
    """How many predictions were wrong in each of up to 512 stretches of equal length, which double as rows go on.

    Examples
    --------
    >>> import numpy as np
    >>> curve = ErrorCurve()
    >>> curve.update(np.arange(1000) < 400)
    >>> [round(stretch.error, 2) for stretch in curve.stretches()[198:202]]
    [1.0, 1.0, 0.0, 0.0]

    """

    def __init__(self) -> None:
        self._wrong = np.zeros(STRETCHES, np.int64)
        self._length, self._rows = 1, 0

    def update(self, wrong: NDArray[np.bool_]) -> None:
        """Takes the next rows, True where a prediction was wrong."""
        total = self._rows + len(wrong)
        while total > STRETCHES * self._length:
            self._wrong[: STRETCHES // 2] = self._wrong[0::2] + self._wrong[1::2]
            self._wrong[STRETCHES // 2 :] = 0
            self._length *= 2
        places = (self._rows + np.flatnonzero(wrong)) // self._length
        self._wrong += np.bincount(places, minlength=STRETCHES)
        self._rows = total

    def stretches(self) -> list[Stretch]:
        """All that have rows; the last may be shorter than the others."""
        starts = range(0, self._rows, self._length)
        ends = [min(start + self._length, self._rows) for start in starts]
        return [Stretch(end, end - start, int(wrong)) for start, end, wrong in zip(starts, ends, self._wrong)]  # noqa: B905

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it knows (copies)."""
        return {"wrong": self._wrong.copy(), "size": np.array([self._length, self._rows])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The curve `arrays` was called on."""
        curve, wrong, size = cls(), arrays["wrong"], arrays["size"]
        if wrong.shape != (STRETCHES,) or size.shape != (2,) or not 0 <= wrong.sum() <= size[1] <= size[0] * STRETCHES:
            raise InvalidInputError("the arrays of an error curve contradict each other")
        curve._wrong, curve._length, curve._rows = wrong.astype(np.int64), int(size[0]), int(size[1])
        return curve
