"""Rows as the loops read them: made from batches, checked, and scaled to unit length."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.jit import apart, compiled, scalar

# Limits that keep the state finite without a check of every number.
#
# A rule bounds how far one example can move a number (`hooks.reach`). If the bound is at most REACH, rounding does
# the rest: a number 2²⁵ (in float64 2⁵⁴) times as large no longer moves, so no number comes near the end of its type,
# however long the stream is. If an example exceeds the bound, its update is computed for every coordinate before
# anything is written, and the example is refused if a number would not be finite.

#: Farthest an example may move a number unchecked, in float32 and float64, and the largest weight-like number kept.
REACH, LARGE = (2.0**60, 2.0**600), (2.0**86, 2.0**655)
#: Largest Σ|x_j|·gain unchecked: times LARGE it is still finite.
SPAN = (2.0**41, 2.0**200)
#: Largest weight of an example unchecked, and largest loss of one: a sum of such losses is finite.
HEAVY, MUCH = 2.0**100, 2.0**960
#: Usual upper bound of values and of their inverses.
ORDINARY = 2.0**20


@scalar
def precision(state: Any) -> int:
    """Return the position of this state's precision in each of the pairs above."""
    return 0 if state.itemsize == 4 else 1


@scalar
def finite(number: Any) -> Any:
    """Return whether a number is neither NaN nor infinite."""
    return number - number == 0


@apart
def bound_of(values: Any, a: Any, b: Any) -> Any:
    """Return ORDINARY if all |x| of the row a:b are from 1/ORDINARY to ORDINARY, else infinity. It runs as SIMD."""
    least, most, unusual = values.dtype.type(1.0 / ORDINARY), values.dtype.type(ORDINARY), np.int32(0)
    for k in range(a, b):
        size = abs(values[k])
        unusual |= np.int32((size > most) | (size < least))
    return ORDINARY if unusual == 0 else np.inf


# Rows in the form the loop reads: their conversion from batches, and the check of unchecked rows.

U1 = np.uint64(1)
#: Non-zeros per block if rows have to be converted first, so that the copies stay small.
BLOCK = 1 << 20
EVERY_WEIGHT_1, _EVERY_WEIGHT_0 = np.empty(0), np.zeros(1)
_NO_LABELS = np.empty(0, dtype=np.int8)


class Rows(NamedTuple):
    """Examples for the loop: CSR, labels ±1, weights (empty: all 1; one number: equal for all)."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]  # int32 or int64; sorted and unique within a row
    values: NDArray[Any]  # the state's dtype; finite, no zeros
    y: NDArray[np.int8]
    weights: NDArray[np.float64]
    offset: int = 0  # 1: each row starts with the constant 1 of coordinate 0, and index j is coordinate j + 1


@scalar
def coordinate(rows: Any, a: int, k: int) -> int:
    """Return coordinate number k of the row a:b, which has ``b - a + rows.offset``. The constant is the first."""
    return int(rows.indices[a + k - rows.offset]) + rows.offset if k >= rows.offset else 0


class Bounds(NamedTuple):
    """Bounds that the loop checks before it learns a row: indices sorted and below width, 0 < |values| ≤ limit.

    With a width of −1, rows were checked before, and limit holds for them.
    """

    width: int
    limit: float


#: The bounds of rows that were checked before.
CHECKED = Bounds(-1, 0.0)
#: Number of rows that are checked together, just before learning them, and prefetched.
CHECKED_ROWS = 64


@scalar
def _within_bounds(rows: Any, first: Any, last: Any, bounds: Any) -> Any:
    """Return whether the rows first:last are within the bounds. Loops without branches run as SIMD."""
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
            # an index may fall only at the start of a row; its first and last are its lowest and highest
            falls -= np.int32(start > a and rows.indices[start] <= rows.indices[start - U1])
            bad |= np.int32(rows.indices[start] < 0 or rows.indices[stop - U1] >= bounds.width)
    return bad == 0 and falls == 0


@scalar
def checked_until(rows: Any, i: Any, bounds: Any) -> Any:
    """Return the first row from i on that is out of bounds, or the end of the rows checked together."""
    last = min(i + CHECKED_ROWS, len(rows.indptr) - 1)
    if not _within_bounds(rows, i, last, bounds):
        last = i
        while _within_bounds(rows, last, last + 1, bounds):
            last += 1
    return last


def row_blocks(batch: Batch, size: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Yield row ranges of about ``size`` non-zeros, so that rows are converted block by block."""
    start, n = 0, len(batch)
    while True:
        stop = n
        if batch.indptr[n] - batch.indptr[start] > size:
            stop = int(np.searchsorted(batch.indptr, batch.indptr[start] + size, side="right")) - 1
            stop = max(stop, start + 1)
        yield start, stop
        if stop == n:
            return
        start = stop


def make_rows(
    batch: Batch,
    start: int,
    stop: int,
    dtype: np.dtype[Any],
    offset: int,
    y: NDArray[np.int8] = _NO_LABELS,
    weights: NDArray[np.float64] = _EVERY_WEIGHT_0,
) -> Rows:
    """Return the rows start:stop for the loop. They are only copied if their precision or index type differs."""
    if batch.names is not None:  # two names may have the same number
        raise InvalidInputError(
            "rows that contain their feature names (Hashing with exact=True or more than 31 bits) need a model with "
            "max_features, but this model has none"
        )
    indptr = batch.indptr[start : stop + 1].astype(np.int64, copy=False)
    indices, values = batch.indices, batch.values
    if not is_ready(batch, dtype):
        used, index_type = slice(indptr[0], indptr[-1]), np.int32 if batch.n_features < 2**31 else indices.dtype
        indptr = indptr - indptr[0]
        indices, values = indices[used].astype(index_type, copy=False), values[used].astype(dtype, copy=False)
    return Rows(indptr, indices, values, y, weights, offset)


def unit_vectors(coordinates: NDArray[Any], dtype: np.dtype[Any]) -> Rows:
    """Return rows whose scores are the weights of these coordinates."""
    n, index_type = len(coordinates), np.int32 if np.max(coordinates, initial=0) < 2**31 - 1 else np.int64
    ones = np.ones(n, dtype)
    return Rows(np.arange(n + 1), coordinates.astype(index_type, copy=False), ones, _NO_LABELS, _EVERY_WEIGHT_0)


def is_ready(batch: Batch, dtype: np.dtype[Any]) -> bool:
    """Return whether the loop can use the arrays directly. It is not compiled again for long indices of narrow rows."""
    return batch.values.dtype == dtype and (batch.indices.itemsize == 4 or batch.n_features >= 2**31)


# Rows of unit length, compiled.


@scalar
def length_of(values: Any, first: Any, last: Any) -> float:
    """Return the length of a row, summed from left to right; 1 if the row cannot be divided by it."""
    total = 0.0
    for k in range(first, last):
        total += np.float64(values[k]) * np.float64(values[k])
    length = np.sqrt(total)
    return float(length) if 0.0 < length < np.inf else 1.0


# Positions are unsigned, and in-place division has a separate loop, so that divisions run as SIMD.


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
    """Divide each row by its Euclidean length, in place or into ``out``. Rows without values do not change.

    >>> values = np.array([3.0, 4.0, 2.0])
    >>> unit_rows(np.array([0, 2, 3]), values)
    >>> values
    array([0.6, 0.8, 1. ])
    """
    _divide(indptr, values) if out is None else _divide_into(indptr, values, out)
