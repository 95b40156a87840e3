"""Compiled sorting of a row's features, and merging of duplicates."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled, same_spelling
from thinstream.engine.protocol import LARGEST
from thinstream.jit import compiled, lowers, scalar

# Sort the features of a row: by counting if there are few, by digits if there are many, by insertion for libsvm.

_RUN = 16  # pairs that are sorted by insertion
BLOCK = 32  # indices that are compared at a time
LONG = 64  # number of pairs from which sorting by digits is faster
DIGITS = 256  # values of a byte
_ONE, _BYTE, _LAST = np.uint64(1), np.uint64(8), np.uint64(DIGITS - 1)


@scalar
def sort_pairs(indices: Any, values: Any, start: Any, stop: Any, spare: Any, spare_values: Any) -> None:
    """Sort pairs by index with a stable sort."""
    for low in range(start, stop, _RUN):
        for k in range(low + 1, min(low + _RUN, stop)):
            index, value, at = indices[k], values[k], k
            while at > low and indices[at - 1] > index:
                indices[at], values[at] = indices[at - 1], values[at - 1]
                at -= 1
            indices[at], values[at] = index, value
    run = _RUN
    while run < stop - start:
        for low in range(start, stop - run, 2 * run):
            for k in range(run):
                spare[k], spare_values[k] = indices[low + k], values[low + k]
            left, right, high, at = 0, low + run, min(low + 2 * run, stop), low
            while left < run:
                if right < high and indices[right] < spare[left]:
                    indices[at], values[at] = indices[right], values[right]
                    right += 1
                else:
                    indices[at], values[at] = spare[left], spare_values[left]
                    left += 1
                at += 1
        run *= 2


def goes_before(indices: Any, i: Any, index: Any, earlier: Any) -> Any:
    """Return a bit for each of the `BLOCK` indices from i on: 1 if it is lower, or equal and ``earlier``."""
    block = indices[int(i) : int(i) + BLOCK].tolist()
    return np.uint64(sum(1 << n for n, other in enumerate(block) if other < int(index) + (int(earlier) >> n & 1)))


@lowers(goes_before, "uint64")
def _goes_before(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    array_type, lanes = signature.args[0], ir.VectorType(ir.IntType(32), BLOCK)
    view = context.make_array(array_type)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, array_type, view, [args[1]], wraparound=False)
    vector = ir.VectorType(pointer.type.pointee, BLOCK)
    block = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=1)
    nothing, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)(0)
    index = builder.insert_element(nothing, args[2], first)
    index = builder.shuffle_vector(index, nothing, ir.Constant(lanes, [0] * BLOCK))
    word = ir.IntType(BLOCK)
    lower = builder.bitcast(builder.icmp_signed("<", block, index), word)
    equal = builder.bitcast(builder.icmp_signed("==", block, index), word)
    result = builder.or_(lower, builder.and_(equal, builder.trunc(args[3], word)))
    return builder.zext(result, ir.IntType(64))


def ones(word: Any) -> Any:
    """Return the number of bits that are set."""
    return np.uint64(int(word).bit_count())


@lowers(ones, "uint64")
def _ones(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ctpop(args[0])


@scalar
def sort_few(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any) -> None:
    """Sort a few pairs into other arrays, without branches: count the pairs that come before each pair.

    `BLOCK` indices are compared at a time, so there must be as many after ``stop``.
    """
    first, count, size = np.uint64(start), np.uint64(stop - start), np.uint64(BLOCK)
    if count <= size:
        within = (_ONE << count) - _ONE
        for k in range(count):
            index = indices[first + k]
            position = ones(goes_before(indices, first, index, (_ONE << k) - _ONE) & within)
            to[position], to_values[position] = index, values[first + k]
        return
    for k in range(count):
        index, position = indices[first + k], np.uint64(0)
        for low in range(np.uint64(0), count, size):
            count_here, passed = min(count - low, size), np.uint64(min(np.uint64(max(k, low)) - low, size))
            within, earlier = (_ONE << count_here) - _ONE, (_ONE << passed) - _ONE
            position += ones(goes_before(indices, first + low, index, earlier) & within)
        to[position], to_values[position] = index, values[first + k]


@scalar
def sort_by_digits(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any, counts: Any) -> None:
    """Sort many pairs with indices ≥ 0 into other arrays, byte by byte; ``counts`` has room for `DIGITS`."""
    first, zero, rest, shift = np.uint64(start), np.uint64(0), np.uint64(0), np.uint64(0)
    count = np.uint64(stop - start)
    for k in range(count):
        rest |= np.uint64(indices[first + k])
    while rest > zero:
        _put_in_order(indices, values, first, to, to_values, zero, count, shift, counts)
        shift, rest = shift + _BYTE, rest >> _BYTE  # a number cannot be shifted by 64 bits at once
        if rest == zero:
            return
        _put_in_order(to, to_values, zero, indices, values, first, count, shift, counts)
        shift, rest = shift + _BYTE, rest >> _BYTE
    for k in range(count):
        to[k], to_values[k] = indices[first + k], values[first + k]


@scalar
def sort_row(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any, counts: Any) -> None:
    """Sort pairs into other arrays with the faster algorithm for their number."""
    if stop - start < LONG and stop + BLOCK <= len(indices):
        sort_few(indices, values, start, stop, to, to_values)
    else:
        sort_by_digits(indices, values, start, stop, to, to_values, counts)


@scalar
def _put_in_order(
    indices: Any, values: Any, start: Any, to: Any, to_values: Any, begin: Any, count: Any, shift: Any, counts: Any
) -> None:
    """Move pairs to other arrays, ordered by a byte of their indices."""
    for digit in range(DIGITS):
        counts[digit] = 0
    for k in range(start, start + count):
        counts[np.uint64(indices[k]) >> shift & _LAST] += _ONE
    before = begin
    for digit in range(DIGITS):
        before, counts[digit] = before + counts[digit], before
    for k in range(start, start + count):
        digit = np.uint64(indices[k]) >> shift & _LAST
        position = counts[digit]
        to[position], to_values[position] = indices[k], values[k]
        counts[digit] = position + _ONE


# Clean rows: sort features by index, add equal ones, drop zeros.


@compiled("thinstream.data.text.sorting")
def _collect(indptr: Any, indices: Any, sums: Any, values: Any, limit: Any, once: Any) -> Any:
    """Clean rows in place: see `tidy_rows`."""
    longest = 0
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    row, row_sums = np.empty(longest + 1, indices.dtype), np.empty(longest, sums.dtype)
    counts = np.empty(DIGITS, np.uint64)
    start, nnz, width, largest, real = indptr[0], np.uint64(0), 0, 0.0, values.dtype.type
    for i in range(len(indptr) - 1):
        stop, first = indptr[i + 1], nnz
        sort_row(indices, sums, start, stop, row, row_sums, counts)
        size = np.uint64(stop - start)
        row[size] = -1  # not an index, it ends the last one
        total, again = 0.0, False
        for k in range(size):  # one loop with few branches, as repetitions cannot be predicted
            index, more = row[k], row_sums[k]
            total = total + (0.0 if once else more) if again else more
            again = row[k + _ONE] == index
            if (not again) & (not abs(total) <= limit):
                return i, first, width, largest
            value = real(total)
            indices[nnz], values[nnz] = index, value
            stays = (not again) & (value != 0)
            nnz += np.uint64(stays)
            width = max(width, int(index) + 1) if stays else width
            largest = max(largest, abs(np.float64(value))) if stays else largest
        start = stop
        indptr[i + 1] = nnz
    return len(indptr) - 1, nnz, width, largest


@compiled("thinstream.batch", "thinstream.data.text.sorting")
def _collect_named(
    indptr: Any, indices: Any, positions: Any, sums: Any, values: Any, limit: Any, once: Any, names: Any, spans: Any
) -> Any:
    """Clean rows in which only equal indices with equal names are one feature; ``spans`` gets the names' spans."""
    longest = 0
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    row, row_places = np.empty(longest, indices.dtype), np.empty(longest, positions.dtype)
    counts = np.empty(DIGITS, np.uint64)
    start, nnz, width, largest, real = indptr[0], 0, 0, 0.0, values.dtype.type
    for i in range(len(indptr) - 1):
        stop, first = indptr[i + 1], nnz
        sort_row(indices, positions, start, stop, row, row_places, counts)
        k, size = 0, stop - start
        while k < size:
            index, end = row[k], k + 1
            while end < size and row[end] == index:
                end += 1
            while k < end:
                position = row_places[k]
                k += 1
                if position < 0:
                    continue  # already added
                total = sums[position]
                for other in range(k, end):
                    if row_places[other] >= 0 and same_spelling(names.text, names.spans, position, row_places[other]):
                        total += 0.0 if once else sums[row_places[other]]
                        row_places[other] = -1
                if not abs(total) <= limit:
                    return i, first, width, largest
                value = real(total)
                if value != 0:
                    for part in range(4):
                        spans[nnz, part] = names.spans[position, part]
                    indices[nnz], values[nnz] = index, value
                    nnz, width = nnz + 1, max(width, int(index) + 1)
                    largest = max(largest, abs(np.float64(value)))
        start = stop
        indptr[i + 1] = nnz
    return len(indptr) - 1, nnz, width, largest


def tidy_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], sums: NDArray[np.float64], dtype: str, once: bool = False
) -> tuple[int, NDArray[np.int64], NDArray[Any], NDArray[Any], int, float]:
    """Sort each row by index, sum duplicate features in their original order, and drop zeros, all in the given arrays.

    With ``once``, only the first of equal features counts. Return the number of good rows (up to one with a value
    beyond the limit), their arrays, the width and the largest |value|.

    Examples
    --------
    >>> rows, indptr, indices, values, width, largest = tidy_rows(
    ...     np.array([0, 3, 5]), np.array([7, 2, 7, 3, 3], np.int32), np.array([1.0, 0.5, 1.0, 1.0, -1.0]), "float32"
    ... )
    >>> indptr, indices, values
    (array([0, 2, 2]), array([2, 7], dtype=int32), array([0.5, 2. ], dtype=float32))

    """
    values = np.empty(len(indices), dtype)
    rows, nnz, width, largest = _collect(indptr, indices, sums, values, LARGEST[dtype], once)
    return int(rows), indptr[: rows + 1], indices[:nnz], values[:nnz], int(width), float(largest)


class Tidy(NamedTuple):
    """The results of `tidy_rows`, and the names of the features."""

    rows: int
    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    width: int
    largest: float
    names: Spelled | None = None


def tidy_named_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    sums: NDArray[np.float64],
    dtype: str,
    once: bool,
    names: Spelled | None,
) -> Tidy:
    """Clean rows as `tidy_rows`; if features have names, those with the same index and different names stay separate.

    >>> names = Spelled.of([("", "a"), ("", "b"), ("", "a")])
    >>> rows = tidy_named_rows(np.array([0, 3]), np.array([7, 7, 7]), np.ones(3), "float32", False, names)
    >>> rows.indices, rows.values, rows.names.texts()
    (array([7, 7]), array([2., 1.], dtype=float32), ['a', 'b'])
    """
    if names is None:
        return Tidy(*tidy_rows(indptr, indices, sums, dtype, once))
    values, positions, spans = (
        np.empty(len(indices), dtype),
        np.arange(len(indices), dtype=np.int32),
        np.empty_like(names.spans),
    )
    how = LARGEST[dtype], once, names, spans
    rows, nnz, width, largest = _collect_named(indptr, indices, positions, sums, values, *how)
    named = Spelled(names.text, spans[:nnz])
    return Tidy(int(rows), indptr[: rows + 1], indices[:nnz], values[:nnz], int(width), float(largest), named)
