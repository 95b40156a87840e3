"""The features of a row put in order, compiled: few by counting, many by digits, those of libsvm by insertion."""

from typing import Any

import numpy as np

from thinstream.jit import scalar

_RUN = 16  # pairs sorted by insertion
LONG = 48  # pairs from which on digits are faster
DIGITS = 256  # of one byte
_ALL = 64  # bits of the longest index


@scalar
def sort_pairs(indices: Any, values: Any, start: Any, stop: Any, spare: Any, spare_values: Any) -> None:
    """Sorts pairs by index; equal ones stay in the order they came in."""
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


@scalar
def sort_few(indices: Any, values: Any, start: Any, stop: Any, spare: Any, spare_values: Any) -> None:
    """The same for a few: each goes behind those before it; without branches, which would be guessed wrong."""
    first, count = np.uint64(start), np.uint64(stop - start)
    for k in range(count):
        index, place = indices[first + k], np.uint64(0)
        for j in range(count):
            place += np.uint64(indices[first + j] < index)
        for j in range(k):
            place += np.uint64(indices[first + j] == index)
        spare[place], spare_values[place] = index, values[first + k]
    for k in range(count):
        indices[first + k], values[first + k] = spare[k], spare_values[k]


@scalar
def sort_by_digits(
    indices: Any, values: Any, start: Any, stop: Any, spare: Any, spare_values: Any, counts: Any
) -> None:
    """The same for many pairs of indices ≥ 0, a byte of the index after another; ``counts`` is room for `DIGITS`."""
    union, shift, count = 0, 0, stop - start
    for k in range(start, stop):
        union |= indices[k]
    while shift < _ALL and union >> shift > 0:  # processors shift by 64 as by 0
        _put_in_order(indices, values, start, spare, spare_values, 0, count, shift, counts)
        shift += 8
        if shift < _ALL and union >> shift > 0:
            _put_in_order(spare, spare_values, 0, indices, values, start, count, shift, counts)
            shift += 8
        else:
            for k in range(count):
                indices[start + k], values[start + k] = spare[k], spare_values[k]


@scalar
def _put_in_order(
    indices: Any, values: Any, start: Any, to: Any, to_values: Any, begin: Any, count: Any, shift: Any, counts: Any
) -> None:
    """Pairs from one place to another, by a byte of their indices."""
    for digit in range(DIGITS):
        counts[digit] = 0
    for k in range(start, start + count):
        counts[indices[k] >> shift & 255] += 1
    before = begin
    for digit in range(DIGITS):
        before, counts[digit] = before + counts[digit], before
    for k in range(start, start + count):
        digit = indices[k] >> shift & 255
        to[counts[digit]], to_values[counts[digit]] = indices[k], values[k]
        counts[digit] += 1
