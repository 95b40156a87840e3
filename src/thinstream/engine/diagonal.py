"""Two ways to keep a diagonal covariance Σ under Σ⁻¹ += c·xxᵀ.

Exact keeps the precision A_j = 1/σ_j, a sum that only grows. Drop keeps σ_j: the diagonal of the full rank-one update
with everything off the diagonal dropped, in the form that cannot turn negative by rounding (specification §2, D5).

And when an example enters it: each one before it is predicted, or only on an update.
"""

from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.hooks import hook
from thinstream.engine.parameters import OneOf
from thinstream.engine.prox import like

Number = TypeVar("Number", float, NDArray[Any])


class Exact(NamedTuple):
    """1/σ_j += c·x_j²."""

    def spread(k, sigma: float) -> float:
        return 1.0 / sigma

    def variance(k, s: Number) -> Number:
        return np.reciprocal(s)

    def spread_after(k, s: float, x: float, c: float, v: float) -> float:
        return s + c * x * x


class Drop(NamedTuple):
    """σ_j −= c/(1 + c·v)·σ_j²x_j², with v = Σ σ_k x_k² before the change."""

    def spread(k, sigma: float) -> float:
        return sigma

    def variance(k, s: Number) -> Number:
        return s

    def spread_after(k, s: float, x: float, c: float, v: float) -> float:
        quotient = like(1.0, s) / (like(1.0, s) + c * v)  # the same for all of the row
        return s * (quotient + c * quotient * (v - s * x * x))


@hook
def spread(k: Any, sigma: float) -> float:
    """What is stored for variance σ."""


@hook
def variance(k: Any, s: Number) -> Number:
    """σ of what is stored."""


@hook
def spread_after(k: Any, s: float, x: float, c: float, v: float) -> float:
    """What is stored after an example with value x here came in with strength c."""


ExactOrDrop = Annotated[Exact | Drop, OneOf(exact=Exact(), drop=Drop())]

#: Which of the two a learner keeps; the full matrix has its own loop (`learners.full`).
DIAGONAL, FULL = range(2)
Covariance = Annotated[int, OneOf(diagonal=DIAGONAL, full=FULL)]


class EveryExample(NamedTuple):
    """Before predicting, whatever comes of it."""

    def always(k) -> bool:
        return True


class OnUpdate(NamedTuple):
    """Only if the update condition holds."""

    def always(k) -> bool:
        return False


@hook
def always(k: Any) -> bool:
    """Whether every example is taken in."""
