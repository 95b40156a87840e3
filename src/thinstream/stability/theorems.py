"""The theorems of P2 on the stable sparse perceptron, as numbers."""

import math
from typing import Any

import numpy as np

from thinstream.errors import InvalidParameterError
from thinstream.stability.data import batch_of, matrix_of, signs_of


def norm_rounds(shrinkage: float, R: float, margin: float = 0.0, precision: float = 2.0**-53) -> float:
    """P2 Theorem 1: up to how many updates ‖w‖² ≤ tR² holds in arithmetic of this precision (η = 1).

    t ≤ (ε* − 2τ)/(2ε₂R²) − 2τ/R², 0 where that is negative.

    Parameters
    ----------
    shrinkage : float
        ε*, the least a threshold took off ‖w‖² in any update: λ·Σ|w̃_j| over touched features with |w̃_j| ≥ λ, plus
        Σ w̃_j² over the others, w̃ being w before the threshold.
    R : float
        Bound on ‖x‖.
    margin : float
        τ.
    precision : float
        ε₂: 2⁻⁵³ for float64, 2⁻²⁴ for float32; 0 for exact arithmetic.

    Examples
    --------
    >>> norm_rounds(shrinkage=0.01, R=1.0, precision=2.0**-24)
    83886.08

    """
    if not (R > 0 and margin >= 0 and precision >= 0):
        raise InvalidParameterError(f"R must be > 0, margin and precision ≥ 0, got {R!r}, {margin!r}, {precision!r}")
    spare = shrinkage - 2 * margin
    if precision == 0:
        return math.inf if spare >= 0 else 0.0
    return max(0.0, spare / (2 * precision * R**2) - 2 * margin / R**2)


def mistake_bound(X: Any, y: Any, u: Any, l1: float = 0.0) -> float:
    """P2 Theorem 2: (R/((1−ε)γ))², the most updates the stable sparse perceptron makes in any number of passes.

    (1−ε)γ is the least y·u·x − λ‖u‖₁ over the rows, for u of length 1 (any other is scaled). Infinite where some row
    has no such margin. It is for η = 1 and τ = 0.

    Examples
    --------
    >>> round(mistake_bound([[2.0, 0.0], [0.0, -2.0]], [1, -1], u=[1.0, 1.0]), 9)
    2.0

    """
    signs, w = signs_of(y), np.asarray(u, dtype=np.float64).ravel()
    rows, length = matrix_of(batch_of(X, signs)), float(np.linalg.norm(w))
    if w.shape != (rows.shape[1],) or length == 0:
        raise InvalidParameterError(f"u must have a number for each of {rows.shape[1]} features, and not only zeros")
    margin = float(np.min(signs * (rows @ w))) / length - l1 * float(np.abs(w).sum()) / length
    squares = float(rows.multiply(rows).sum(axis=1).max())
    return squares / margin**2 if margin > 0 else math.inf


def generalisation_bound(m: int, k: float, delta: float = 0.05) -> float:
    """P2 Theorem 3: bound on the error on new examples, with probability 1 − δ, after k updates on m examples.

    (ln C(m, k) + ln m + ln 1/δ)/(m − k). It is for a model that calls all m right; k may be the bound of Theorem 2, so
    it need not be whole.

    Examples
    --------
    >>> round(generalisation_bound(m=10_000, k=100), 3)
    0.057

    """
    if not (0 <= k < m and 0 < delta < 1):
        raise InvalidParameterError(f"k must be from 0 to below m, delta between 0 and 1, got {m!r}, {k!r}, {delta!r}")
    choices = math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1)
    return (choices + math.log(m) + math.log(1 / delta)) / (m - k)
