"""Limits that keep the state finite without a check of every number.

A rule bounds how far one example can move a number (`hooks.reach`). If the bound is at most REACH, rounding does the
rest: a number 2²⁵ (in float64 2⁵⁴) times as large no longer moves, so no number comes near the end of its type, however
long the stream is. If an example exceeds the bound, its update is computed for every coordinate before anything is
written, and the example is refused if a number would not be finite.
"""

from typing import Any

import numpy as np

from thinstream.jit import apart, scalar

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
