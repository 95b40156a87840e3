"""Labels and weights as lanes take them: a column per lane, or one for all."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError


def labels_of(given: Any, rows: int, lanes: int) -> NDArray[np.int8]:
    """Labels ±1 as the loop takes them: a column per lane, or one for all."""
    found = np.asarray(given)
    _require_shape("labels", found, rows, lanes)
    if found.dtype != np.int8:
        found = np.where(found > 0, np.int8(1), np.int8(-1))
    return np.ascontiguousarray(found.reshape(rows, -1) if rows else np.empty((0, 1), np.int8))


def weights_of(given: Any, rows: int, lanes: int) -> NDArray[np.float64]:
    """Weights, finite and not negative; None: all are 1."""
    if given is None:
        return np.ones((rows, 1))
    found = np.asarray(given, dtype=np.float64)
    _require_shape("weights", found, rows, lanes)
    bad = ~((found >= 0) & (found < np.inf))
    if bad.any():
        row = int(np.argmax(bad.reshape(rows, -1).any(axis=1)))
        raise InvalidInputError(f"weights must be finite and ≥ 0, got {found[bad][0]} in row {row}")
    return np.ascontiguousarray(found.reshape(rows, -1) if rows else np.empty((0, 1)))


def _require_shape(what: str, found: NDArray[Any], rows: int, lanes: int) -> None:
    if found.shape not in ((rows,), (rows, lanes)):
        raise InvalidInputError(f"{what} must have shape ({rows},) or ({rows}, {lanes}), got {found.shape}")
