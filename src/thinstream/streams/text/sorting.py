"""The features of a row put in order, compiled: few by counting, many by digits, those of libsvm by insertion."""

from typing import Any

import numpy as np

from thinstream.jit import lowers, scalar

_RUN = 16  # pairs sorted by insertion
BLOCK = 32  # indices compared at a time
LONG = 64  # pairs from which on digits are faster
DIGITS = 256  # of one byte
_ONE, _BYTE, _LAST = np.uint64(1), np.uint64(8), np.uint64(DIGITS - 1)


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


def goes_before(indices: Any, i: Any, index: Any, earlier: Any) -> Any:
    """A bit for each of the `BLOCK` indices from ``indices[i]`` on: 1 where it is lower, or equal and ``earlier``."""
    block = indices[int(i) : int(i) + BLOCK].tolist()
    return np.uint64(sum(1 << n for n, other in enumerate(block) if other < int(index) + (int(earlier) >> n & 1)))


@lowers(goes_before, "uint64")
def _goes_before(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir
    from numba.core import cgutils

    kind, lanes = signature.args[0], ir.VectorType(ir.IntType(32), BLOCK)
    view = context.make_array(kind)(context, builder, args[0])
    pointer = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
    vector = ir.VectorType(pointer.type.pointee, BLOCK)
    block = builder.load(builder.bitcast(pointer, vector.as_pointer()), align=1)
    nothing, first = ir.Constant(vector, ir.Undefined), ir.IntType(32)(0)
    index = builder.insert_element(nothing, args[2], first)
    index = builder.shuffle_vector(index, nothing, ir.Constant(lanes, [0] * BLOCK))
    word = ir.IntType(BLOCK)
    lower = builder.bitcast(builder.icmp_signed("<", block, index), word)
    equal = builder.bitcast(builder.icmp_signed("==", block, index), word)
    found = builder.or_(lower, builder.and_(equal, builder.trunc(args[3], word)))
    return builder.zext(found, ir.IntType(64))


def ones(word: Any) -> Any:
    """How many bits are set."""
    return np.uint64(int(word).bit_count())


@lowers(ones, "uint64")
def _ones(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.ctpop(args[0])


@scalar
def sort_few(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any) -> None:
    """The same for a few, to another place: each goes behind those before it; without branches.

    `BLOCK` of them are compared at a time, so ``indices`` must go on for so many behind ``stop``.
    """
    first, count, size = np.uint64(start), np.uint64(stop - start), np.uint64(BLOCK)
    if count <= size:
        within = (_ONE << count) - _ONE
        for k in range(count):
            index = indices[first + k]
            place = ones(goes_before(indices, first, index, (_ONE << k) - _ONE) & within)
            to[place], to_values[place] = index, values[first + k]
        return
    for k in range(count):
        index, place = indices[first + k], np.uint64(0)
        for low in range(np.uint64(0), count, size):
            there, passed = min(count - low, size), np.uint64(min(np.uint64(max(k, low)) - low, size))
            within, earlier = (_ONE << there) - _ONE, (_ONE << passed) - _ONE
            place += ones(goes_before(indices, first + low, index, earlier) & within)
        to[place], to_values[place] = index, values[first + k]


@scalar
def sort_by_digits(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any, counts: Any) -> None:
    """The same for many pairs of indices ≥ 0, a byte of the index after another; ``counts`` is room for `DIGITS`."""
    first, zero, rest, shift = np.uint64(start), np.uint64(0), np.uint64(0), np.uint64(0)
    count = np.uint64(stop - start)
    for k in range(count):
        rest |= np.uint64(indices[first + k])
    while rest > zero:
        _put_in_order(indices, values, first, to, to_values, zero, count, shift, counts)
        shift, rest = shift + _BYTE, rest >> _BYTE  # not all at once: no number can be shifted by 64 bits
        if rest == zero:
            return
        _put_in_order(to, to_values, zero, indices, values, first, count, shift, counts)
        shift, rest = shift + _BYTE, rest >> _BYTE
    for k in range(count):
        to[k], to_values[k] = indices[first + k], values[first + k]


@scalar
def sort_row(indices: Any, values: Any, start: Any, stop: Any, to: Any, to_values: Any, counts: Any) -> None:
    """The same in the way that is faster for so many."""
    if stop - start < LONG and stop + BLOCK <= len(indices):
        sort_few(indices, values, start, stop, to, to_values)
    else:
        sort_by_digits(indices, values, start, stop, to, to_values, counts)


@scalar
def _put_in_order(
    indices: Any, values: Any, start: Any, to: Any, to_values: Any, begin: Any, count: Any, shift: Any, counts: Any
) -> None:
    """Pairs from one place to another, by a byte of their indices."""
    for digit in range(DIGITS):
        counts[digit] = 0
    for k in range(start, start + count):
        counts[np.uint64(indices[k]) >> shift & _LAST] += _ONE
    before = begin
    for digit in range(DIGITS):
        before, counts[digit] = before + counts[digit], before
    for k in range(start, start + count):
        digit = np.uint64(indices[k]) >> shift & _LAST
        place = counts[digit]
        to[place], to_values[place] = indices[k], values[k]
        counts[digit] = place + _ONE
