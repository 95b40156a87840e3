"""Tiles of rows in shared memory: how they get there, and how their terms are added up."""

from typing import Any

import numpy as np

from thinstream.jit import scalar

# Numbers within a row are of 32 bits and have no sign: those of 64 take two instructions, those with one a comparison.
U0, U1, U4, U8, U12, U16 = (np.uint32(number) for number in (0, 1, 4, 8, 12, 16))


@scalar
def added(total: Any, terms: Any, me: Any, first: Any, size: Any) -> Any:
    """The sum with every fourth of a tile's terms, from the first; what is left of a row goes to sum 0."""
    k, grouped = np.uint32(first), np.uint32(size // U4 * U4)
    while k + U12 < grouped:  # four are on their way at a time; they are added one by one
        t0, t1 = terms[k, me], terms[np.uint32(k + U4), me]
        t2, t3 = terms[np.uint32(k + U8), me], terms[np.uint32(k + U12), me]
        total = (((total + t0) + t1) + t2) + t3
        k = np.uint32(k + U16)
    while k < grouped:
        total += terms[k, me]
        k = np.uint32(k + U4)
    if first == U0:
        k = grouped
        while k < size:
            total += terms[k, me]
            k = np.uint32(k + U1)
    return total


@scalar
def sum_of(sums: Any, first: Any, me: Any) -> Any:
    """The four sums, from the first, as one."""
    second, third, fourth = np.uint32(first + 1), np.uint32(first + 2), np.uint32(first + 3)
    return (sums[first, me] + sums[second, me]) + (sums[third, me] + sums[fourth, me])


@scalar
def fetched(rows: Any, a: Any, k: Any, length: Any) -> Any:
    """Index and value of number k of the row that begins at a, if it has so many; the constant has neither."""
    zero = rows.values.dtype.type(0)
    if k >= length or k < np.uint32(rows.offset):
        return U0, zero
    place = np.uint64(a + np.int64(k) - rows.offset)
    return np.uint32(rows.indices[place]), rows.values[place]


@scalar
def put(
    places: Any, numbers: Any, here: Any, start: Any, thread: Any, index: Any, value: Any, rows: Any, length: Any
) -> None:
    """Puts coordinate and value of number start + thread down in shared memory; behind a row's end the value is 0."""
    one, k = rows.values.dtype.type(1), np.uint32(start + thread)
    constant, inside = k < np.uint32(rows.offset), k < length
    places[here, thread] = np.uint32(index + rows.offset) if inside and not constant else U0
    numbers[here, thread] = one if inside and constant else value
