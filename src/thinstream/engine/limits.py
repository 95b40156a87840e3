"""How a state stays finite without a look at every number of it.

A rule says how far one example can move a number (`hooks.reach`). Where that is at most REACH, rounding does the rest:
a number 2²⁵ (in float64 2⁵⁴) times as large no longer moves at all, so nothing comes near the end of what its type
holds, however long the stream. An example that reaches farther is tried before it is learned, coordinate by coordinate,
and refused if a number would be lost.
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
#: What values, and their inverses, usually are below.
ORDINARY = 2.0**20


@scalar
def precision(state: Any) -> int:
    """Which of each pair is for this state."""
    return 0 if state.itemsize == 4 else 1


@scalar
def finite(number: Any) -> Any:
    """Whether a number is neither NaN nor infinite."""
    return number - number == 0


@apart
def bound_of(values: Any, a: Any, b: Any) -> Any:
    """ORDINARY if all |x| of the row a:b are from 1/ORDINARY to it, else infinity; without branches, as SIMD."""
    least, most, odd = values.dtype.type(1.0 / ORDINARY), values.dtype.type(ORDINARY), np.int32(0)
    for k in range(a, b):
        size = abs(values[k])
        odd |= np.int32((size > most) | (size < least))
    return ORDINARY if odd == 0 else np.inf
