"""2^y for y ≤ 0 in plain arithmetic: the same bits compiled, interpreted and in lanes, and no call in the inner loop.

y = n + f with n whole and |f| ≤ ½. 2^f is a polynomial (interpolated at Chebyshev's points, off by 10⁻¹⁷), 2^n the
exponent of a float: adding 1.5·2⁵² leaves n in the last bits of a number, from where it is shifted into place.
"""

from typing import Any

import numpy as np

from thinstream.jit import scalar

C1, C2, C3, C4 = 0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888
C5, C6, C7, C8 = 0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06
C9, C10, C11 = 1.0178062445845774e-07, 7.072585949269223e-09, 4.4549605981865186e-10
WHOLE, BIAS, MANTISSA = 1.5 * 2.0**52, np.uint64(1023), np.uint64(52)
#: Below it 2^y is taken for 0.
LEAST = -1022.0


@scalar
def exp2(y: Any) -> Any:
    """2^y, to about an ulp."""
    held = max(y, LEAST) + WHOLE
    f = max(y, LEAST) - (held - WHOLE)
    f2 = f * f
    f4 = f2 * f2
    low = (C1 + C2 * f) + (C3 + C4 * f) * f2
    high = ((C5 + C6 * f) + (C7 + C8 * f) * f2) + ((C9 + C10 * f) + C11 * f2) * f4
    bits = (np.float64(held).view(np.uint64) + BIAS) << MANTISSA
    power = np.uint64(bits).view(np.float64)
    return power * (1.0 + f * (low + high * f4)) if y >= LEAST else 0.0
