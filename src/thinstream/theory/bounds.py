"""The regret bounds of P0 and P3, for any comparator w.

Costs enter the second-order terms squared: as printed, Theorems 5 and 6 of P0 hold for costs up to 1 only.
"""

import math
from typing import Any, NamedTuple

import numpy as np


class Bound(NamedTuple):
    """A bound and the terms it sums."""

    comparator: float  # what a good comparator far from the start costs
    second_order: float  # what the steps cost
    threshold: float = 0.0  # what the thresholds cost

    @property
    def total(self) -> float:
        """Their sum, the bound."""
        return self.comparator + self.second_order + self.threshold


def fsol_bound(w: Any, *, eta: float, l1: float, norm: float, costs: Any) -> Bound:
    """FSOL and CS-FSOL with λ_t = ηλ (P0 Theorems 2 and 5): ‖w‖²/(2η) + (η/2)X²Σc² + ηλXΣc.

    Parameters
    ----------
    w : array
        The comparator.
    eta, l1 : float
        η and λ.
    norm : float
        X: no ‖x_t‖₁ is above it.
    costs : array
        c of each round; all 1 without class costs.

    Examples
    --------
    >>> fsol_bound([3.0, 4.0], eta=0.5, l1=0.1, norm=1.0, costs=np.ones(100))
    Bound(comparator=25.0, second_order=25.0, threshold=5.0)

    """
    w, c = np.asarray(w, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    return Bound(float(w @ w) / (2 * eta), eta / 2 * norm**2 * float(c @ c), eta * l1 * norm * float(c.sum()))


def ssol_bound(
    w: Any, A: Any, *, eta: float, l1: float, r: float, norm: float, rounds: int, largest_cost: float = 1.0
) -> Bound:
    """SSOL and CS-SSOL with λ_t = λ/t (P0 Theorems 3 and 6): wᵀA_Tw/(2η) + c²(η/2)·r·d·ln(1 + X²T/r) + cλX(ln T + 1).

    The first term grows with T for any w that is not at right angles to the data: this is not a logarithmic bound.

    Parameters
    ----------
    w : array
        The comparator.
    A : array
        A_T, or its diagonal for the exact diagonal (1/``variance_``).
    eta, l1, r : float
        η, λ and r.
    norm : float
        X: no ‖x_t‖₁ is above it.
    rounds : int
        T.
    largest_cost : float
        c: the largest class cost.

    Examples
    --------
    >>> ssol_bound([1.0, 0.0], [4.0, 1.0], eta=1.0, l1=0.0, r=1.0, norm=1.0, rounds=3)
    Bound(comparator=2.0, second_order=1.3862943611198906, threshold=0.0)

    """
    w, A = np.asarray(w, dtype=np.float64), np.asarray(A, dtype=np.float64)
    quadratic = float(w @ (A * w if A.ndim == 1 else A @ w))
    second = largest_cost**2 * eta / 2 * r * len(w) * math.log1p(norm**2 * rounds / r)
    return Bound(quadratic / (2 * eta), second, largest_cost * l1 * norm * (math.log(rounds) + 1))


def arcsogd_bound(distance: float, precision: Any, *, eta: float, gamma: float) -> Bound:
    """ARCSOGD (P3 Theorem 1, first inequality): D²·Tr(Σ⁻¹)/(2η) + (ηγ/2)·ln|Σ⁻¹|.

    Parameters
    ----------
    distance : float
        D: the largest distance of the weights, before any round, from the comparator.
    precision : array
        Σ⁻¹ after the last round, or its diagonal (1/``variance_``).
    eta, gamma : float
        η and γ.

    Examples
    --------
    >>> arcsogd_bound(2.0, [1.0, 4.0], eta=1.0, gamma=2.0)
    Bound(comparator=10.0, second_order=1.3862943611198906, threshold=0.0)

    """
    P = np.asarray(precision, dtype=np.float64)
    if P.ndim == 1:
        trace, logdet = float(P.sum()), float(np.log(P).sum())
    else:
        trace, logdet = float(np.trace(P)), float(np.linalg.slogdet(P)[1])
    return Bound(distance**2 * trace / (2 * eta), eta * gamma / 2 * logdet)
