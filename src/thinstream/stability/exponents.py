"""How far apart the sizes of weights are, in powers of 2 (P2 Table 3)."""

from typing import Any, NamedTuple

import numpy as np


class Exponents(NamedTuple):
    """Statistics of ⌊log₂|w_j|⌋ over the non-zero weights; NaN and 0 where there are none."""

    nonzero: int  # how many there are
    within: float  # share whose exponent is in [largest − reach, largest]: the others are lost beside the largest
    mean: float
    std: float  # of the population
    largest: int
    smallest: int
    reach: int  # 51 for float64, 22 for float32


def exponents(w: Any, reach: int | None = None) -> Exponents:
    """The exponents of a weight vector.

    ``reach`` is how far below the largest a number still counts in a sum with it: by default one less than the bits of
    the mantissa of w's type, as P2 has it. Numbers that are not finite have no exponent and are left out.

    Examples
    --------
    >>> found = exponents([1.0, -0.3, 0.0, 2.0**-60])
    >>> found.nonzero, found.largest, found.smallest, round(found.within, 2), round(found.std, 2)
    (3, 0, -60, 0.67, 27.82)

    """
    values = np.ravel(np.asarray(w))
    values = values if values.dtype.kind == "f" else values.astype(np.float64)
    steps = int(np.finfo(values.dtype).nmant) - 1 if reach is None else reach
    found = np.frexp(values[np.isfinite(values) & (values != 0)])[1].astype(np.int64) - 1  # exact, unlike log2
    if len(found) == 0:
        return Exponents(0, np.nan, np.nan, np.nan, 0, 0, steps)
    largest, smallest = int(found.max()), int(found.min())
    within = float(np.mean(found >= largest - steps))
    return Exponents(len(found), within, float(found.mean()), float(found.std()), largest, smallest, steps)
