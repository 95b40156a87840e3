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
    """The value in the reference's precision: a bare literal would lift a float32 rule to float64."""
    if isinstance(reference, np.ndarray):
        return np.asarray(value, dtype=reference.dtype)
    return type(reference)(value)


@compiles(like)
def _like_compiled(value: Any, reference: Any) -> Any:
    real = reference
    return lambda value, reference: real(value)


@scalar
def soft(v: float, a: float) -> float:
    """sign(v)·max(|v| − a, 0), without branches and without a literal; v itself at a = 0."""
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
