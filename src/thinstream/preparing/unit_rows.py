"""Rows of unit length, compiled."""

from typing import Any

import numpy as np

from thinstream.jit import compiled


@compiled()
def _unit_rows(indptr: Any, values: Any, out: Any) -> None:
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])  # unsigned: no checks, so that divisions are SIMD
        total = 0.0
        for k in range(first, last):
            total += np.float64(values[k]) * np.float64(values[k])
        length = np.sqrt(total)
        by = length if 0.0 < length < np.inf else 1.0
        for k in range(first, last):
            out[k] = values[k] / by


def unit_rows(indptr: Any, values: Any, out: Any = None) -> None:
    """Divides each row by its Euclidean length, in place or into ``out``; rows without values stay as they are.

    >>> values = np.array([3.0, 4.0, 2.0])
    >>> unit_rows(np.array([0, 2, 3]), values)
    >>> values
    array([0.6, 0.8, 1. ])
    """
    _unit_rows(indptr, values, values if out is None else out)
