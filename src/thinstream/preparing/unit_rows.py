"""Rows of unit length, compiled."""

from typing import Any

import numpy as np

from thinstream.jit import compiled, scalar


@scalar
def length_of(values: Any, first: Any, last: Any) -> float:
    """Of a row, summed from left to right; 1 of one that is to stay as it is."""
    total = 0.0
    for k in range(first, last):
        total += np.float64(values[k]) * np.float64(values[k])
    length = np.sqrt(total)
    return float(length) if 0.0 < length < np.inf else 1.0


# Places are unsigned and the array is one and the same, or a loop of its own has two: so that divisions run as SIMD.


@compiled()
def _divide(indptr: Any, values: Any) -> None:
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        length = length_of(values, first, last)
        for k in range(first, last):
            values[k] = values[k] / length


@compiled()
def _divide_into(indptr: Any, values: Any, out: Any) -> None:
    for i in range(len(indptr) - 1):
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        length = length_of(values, first, last)
        for k in range(first, last):
            out[k] = values[k] / length


def unit_rows(indptr: Any, values: Any, out: Any = None) -> None:
    """Divides each row by its Euclidean length, in place or into ``out``; rows without values stay as they are.

    >>> values = np.array([3.0, 4.0, 2.0])
    >>> unit_rows(np.array([0, 2, 3]), values)
    >>> values
    array([0.6, 0.8, 1. ])
    """
    _divide(indptr, values) if out is None else _divide_into(indptr, values, out)
