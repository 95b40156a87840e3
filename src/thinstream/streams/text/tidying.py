"""Rows of features as they came made tidy: sorted by index, equal ones summed, zeros dropped."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled
from thinstream.learners.learner import LARGEST
from thinstream.spelling import Spelled, same_spelling
from thinstream.streams.text.sorting import DIGITS, sort_row

_ONE = np.uint64(1)


@compiled("thinstream.streams.text.sorting")
def _collect(indptr: Any, indices: Any, sums: Any, values: Any, limit: Any, once: Any) -> Any:
    """Makes rows tidy in place: see `tidy_rows`."""
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
        row[size] = -1  # no index: it ends the last one
        total, again = 0.0, False
        for k in range(size):  # one loop, few branches: which words a text repeats cannot be guessed
            index, more = row[k], row_sums[k]
            total = total + (0.0 if once else more) if again else more
            again = row[k + _ONE] == index
            if (not again) & (not abs(total) <= limit):
                return i, first, width, largest
            kept = real(total)
            indices[nnz], values[nnz] = index, kept
            stays = (not again) & (kept != 0)
            nnz += np.uint64(stays)
            width = max(width, int(index) + 1) if stays else width
            largest = max(largest, abs(np.float64(kept))) if stays else largest
        start = stop
        indptr[i + 1] = nnz
    return len(indptr) - 1, nnz, width, largest


@compiled("thinstream.spelling", "thinstream.streams.text.sorting")
def _collect_named(
    indptr: Any, indices: Any, places: Any, sums: Any, values: Any, limit: Any, once: Any, names: Any, spans: Any
) -> Any:
    """The same where equal indices are one feature only if their names are equal; ``spans`` takes those of each."""
    longest = 0
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    row, row_places = np.empty(longest, indices.dtype), np.empty(longest, places.dtype)
    counts = np.empty(DIGITS, np.uint64)
    start, nnz, width, largest, real = indptr[0], 0, 0, 0.0, values.dtype.type
    for i in range(len(indptr) - 1):
        stop, first = indptr[i + 1], nnz
        sort_row(indices, places, start, stop, row, row_places, counts)
        k, size = 0, stop - start
        while k < size:
            index, end = row[k], k + 1
            while end < size and row[end] == index:
                end += 1
            while k < end:
                place = row_places[k]
                k += 1
                if place < 0:
                    continue  # it was summed before
                total = sums[place]
                for other in range(k, end):
                    if row_places[other] >= 0 and same_spelling(names.text, names.spans, place, row_places[other]):
                        total += 0.0 if once else sums[row_places[other]]
                        row_places[other] = -1
                if not abs(total) <= limit:
                    return i, first, width, largest
                kept = real(total)
                if kept != 0:
                    for part in range(4):
                        spans[nnz, part] = names.spans[place, part]
                    indices[nnz], values[nnz] = index, kept
                    nnz, width = nnz + 1, max(width, int(index) + 1)
                    largest = max(largest, abs(np.float64(kept)))
        start = stop
        indptr[i + 1] = nnz
    return len(indptr) - 1, nnz, width, largest


def tidy_rows(
    indptr: NDArray[np.int64], indices: NDArray[Any], sums: NDArray[np.float64], dtype: str, once: bool = False
) -> tuple[int, NDArray[np.int64], NDArray[Any], NDArray[Any], int, float]:
    """Each row sorted by index, equal ones summed in the order they came in, zeros dropped; on the given arrays.

    With ``once`` the first of equal ones counts, no other. Returns how many rows are good (one with a value beyond the
    limit ends it), their arrays, width and largest |value|.

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
    """What `tidy_rows` gives, and the names of the features."""

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
    """`tidy_rows`; where features have names those of a row are summed by name, and may have the same number.

    >>> names = Spelled.of([("", "a"), ("", "b"), ("", "a")])
    >>> found = tidy_named_rows(np.array([0, 3]), np.array([7, 7, 7]), np.ones(3), "float32", False, names)
    >>> found.indices, found.values, found.names.texts()
    (array([7, 7]), array([2., 1.], dtype=float32), ['a', 'b'])
    """
    if names is None:
        return Tidy(*tidy_rows(indptr, indices, sums, dtype, once))
    values, places, spans = (
        np.empty(len(indices), dtype),
        np.arange(len(indices), dtype=np.int32),
        np.empty_like(names.spans),
    )
    how = LARGEST[dtype], once, names, spans
    rows, nnz, width, largest = _collect_named(indptr, indices, places, sums, values, *how)
    named = Spelled(names.text, spans[:nnz])
    return Tidy(int(rows), indptr[: rows + 1], indices[:nnz], values[:nnz], int(width), float(largest), named)
