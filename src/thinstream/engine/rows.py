"""Examples as the loop takes them, and the check of those nobody has checked before."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import scalar

U1 = np.uint64(1)


class Rows(NamedTuple):
    """Examples as the loop takes them: CSR, labels ±1, weights (empty: all 1; one number: the same for all)."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]  # int32 or int64; sorted and unique within a row
    values: NDArray[Any]  # the state's dtype; finite, no zeros
    y: NDArray[np.int8]
    weights: NDArray[np.float64]
    offset: int = 0  # 1: before each row stands the constant 1 of coordinate 0, and index j is coordinate j + 1


@scalar
def coordinate(rows: Any, a: int, k: int) -> int:
    """Number k of the ``b - a + rows.offset`` coordinates of the row a:b; first comes the constant, if there is one."""
    return int(rows.indices[a + k - rows.offset]) + rows.offset if k >= rows.offset else 0


class Bounds(NamedTuple):
    """What the loop checks of each row before it takes it: indices sorted and below width, 0 < |values| ≤ limit.

    With a width of −1 rows were checked before, and limit is known of them.
    """

    width: int
    limit: float


#: Rows checked at a time, just before they are learned, and fetched ahead.
STRETCH = 64


@scalar
def _fine(rows: Any, first: Any, last: Any, bounds: Any) -> Any:
    """Whether the rows first:last are as the rules may take them; in loops without branches, which run as SIMD."""
    a, b = np.uint64(rows.indptr[first]), np.uint64(rows.indptr[last])
    limit, zero = rows.values.dtype.type(bounds.limit), rows.values.dtype.type(0)
    bad = np.int32(0)
    for k in range(a, b):
        size = abs(rows.values[k])
        bad |= np.int32(0) if (size <= limit) & (size > zero) else np.int32(1)  # NaN compares false
    falls = np.int32(0)
    for k in range(a + U1, b):
        falls += np.int32(rows.indices[k] <= rows.indices[k - U1])
    for i in range(first, last):
        start, stop = np.uint64(rows.indptr[i]), np.uint64(rows.indptr[i + 1])
        if start < stop:
            # only where a row begins may an index fall; its first and last are its lowest and highest
            falls -= np.int32(start > a and rows.indices[start] <= rows.indices[start - U1])
            bad |= np.int32(rows.indices[start] < 0 or rows.indices[stop - U1] >= bounds.width)
    return bad == 0 and falls == 0


@scalar
def fine_until(rows: Any, i: Any, bounds: Any) -> Any:
    """The first row from i on that is not fine, or the end of the stretch."""
    last = min(i + STRETCH, len(rows.indptr) - 1)
    if not _fine(rows, i, last, bounds):
        last = i
        while _fine(rows, last, last + 1, bounds):
            last += 1
    return last
