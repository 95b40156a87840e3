"""How often a number was seen, about: a count-min sketch of bytes, in which counts are halved now and then.

Four rows of counters; a number has one in each, and the smallest of them is at least how often it was seen. Only those
that are the smallest are raised. Whenever half as many numbers were counted as a row has counters, all are halved: what
came once, long ago, is forgotten, and the sketch never fills up.
"""

from typing import Any

import numpy as np

from thinstream.jit import scalar

DEPTH, MOST = 4, 255
_ODD = (np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D), np.uint64(0x27D4EB2F))
_LOW, _15, _32 = np.uint64(2**32 - 1), np.uint64(15), np.uint64(32)


def sketch_shape(features: int) -> tuple[int, int]:
    """Return the shape of the sketch for a budget of ``features``: four to eight counters per feature in each row."""
    return DEPTH, 1 << max(4 * features - 1, 15).bit_length()


@scalar
def cell(number: Any, row: Any, width: Any) -> Any:
    """The counter of a number in a row."""
    long = np.uint64(number)
    return np.int64((((long ^ long >> _32) & _LOW) * _ODD[row] >> _15) & np.uint64(width - 1))


@scalar
def count_of(number: Any, sketch: Any) -> Any:
    """How often a number was seen; it may be less."""
    found: Any = MOST
    for row in range(DEPTH):
        found = min(found, np.int64(sketch[row, cell(number, row, sketch.shape[1])]))
    return found


@scalar
def count(number: Any, sketch: Any) -> Any:
    """One more sight of a number: how often it was seen now."""
    before = count_of(number, sketch)
    if before < MOST:
        for row in range(DEPTH):
            place = cell(number, row, sketch.shape[1])
            if sketch[row, place] == before:
                sketch[row, place] = before + 1
    return before + 1


@scalar
def halve(sketch: Any) -> Any:
    """All counts become half."""
    for row in range(DEPTH):
        for place in range(sketch.shape[1]):
            sketch[row, place] //= 2
    return 0
