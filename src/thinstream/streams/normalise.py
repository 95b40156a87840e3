"""Rows scaled to unit length, compiled."""

from collections.abc import Callable
from typing import Any

import numpy as np

from thinstream.jit import Compiled, keyed_by


def _make_unit_rows(version: str) -> Callable[..., Any]:
    def scale(indptr: Any, values: Any) -> None:
        keyed_by(version)
        for i in range(len(indptr) - 1):
            total = 0.0
            for k in range(indptr[i], indptr[i + 1]):
                total += np.float64(values[k]) * np.float64(values[k])
            length = np.sqrt(total)
            if 0.0 < length < np.inf:
                for k in range(indptr[i], indptr[i + 1]):
                    values[k] = values[k] / length

    return scale


_unit_rows = Compiled(_make_unit_rows, __name__)


def unit_rows(indptr: Any, values: Any) -> None:
    """Divides each row by its Euclidean length, in place; rows without values stay as they are.

    >>> values = np.array([3.0, 4.0, 2.0])
    >>> unit_rows(np.array([0, 2, 3]), values)
    >>> values
    array([0.6, 0.8, 1. ])
    """
    _unit_rows(indptr, values)
