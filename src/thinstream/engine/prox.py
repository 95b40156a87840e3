"""Thresholds and schedules shared by the rules."""

import math
from typing import Annotated, Any

import numpy as np

from thinstream.engine.parameters import OneOf
from thinstream.jit import compiles, scalar

#: λ_t of the dual-averaging family (P0 Theorems 2, 3, 5, 6; const, sqrt and linear are extensions).
ETA, CONST, SQRT, LINEAR, INV_T = range(5)
L1Schedule = Annotated[int, OneOf(eta=ETA, const=CONST, sqrt=SQRT, linear=LINEAR, inv_t=INV_T)]

#: η_t of the gradient learners.
RATE_INV_SQRT, RATE_CONST, RATE_INV_T = range(3)
Rate = Annotated[int, OneOf(inv_sqrt=RATE_INV_SQRT, const=RATE_CONST, inv_t=RATE_INV_T)]


def like(value: Any, reference: Any) -> Any:
    """Return the value in the reference's precision. A bare literal would turn float32 arithmetic into float64."""
    if isinstance(reference, np.ndarray):
        return np.asarray(value, dtype=reference.dtype)
    return type(reference)(value)


@compiles(like)
def _like_compiled(value: Any, reference: Any) -> Any:
    real = reference
    return lambda value, reference: real(value)


@scalar
def soft(v: float, a: float) -> float:
    """Return sign(v)·max(|v| − a, 0) without branches and literals. For a = 0, it is exactly v."""
    return v - max(-a, min(v, a))


@scalar
def threshold(schedule: int, eta: float, l1: float, t: int) -> float:
    """λ_t."""
    if schedule == ETA:
        return eta * l1
    if schedule == CONST:
        return l1
    if schedule == SQRT:
        return eta * l1 * math.sqrt(t)
    if schedule == LINEAR:
        return eta * l1 * t
    return l1 / t


@scalar
def rate_at(rate: int, eta: float, t: int) -> float:
    """η_t."""
    if rate == RATE_INV_SQRT:
        return eta / math.sqrt(t)
    if rate == RATE_CONST:
        return eta
    return eta / t


# 2^y for y ≤ 0 in plain arithmetic: bit-identical compiled, interpreted and in lanes, without a call in the inner loop.
#
# y = n + f with n whole and |f| ≤ ½. 2^f is a polynomial (interpolated at the Chebyshev nodes, error 10⁻¹⁷), and 2^n is
# the exponent of a float: adding 1.5·2⁵² leaves n in the last bits of a number. From there it is shifted to the
# exponent.

C1, C2, C3, C4 = 0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888
C5, C6, C7, C8 = 0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06
C9, C10, C11 = 1.0178062445845774e-07, 7.072585949269223e-09, 4.4549605981865186e-10
WHOLE, BIAS, MANTISSA = 1.5 * 2.0**52, np.uint64(1023), np.uint64(52)
#: For smaller y, 2^y counts as 0.
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
