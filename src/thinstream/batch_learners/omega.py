"""The regulariser Ω(w) = σ/2·‖w‖² + ½(Σ_k‖w_k‖)² of P1 (Eq. 16): the gradient of its conjugate, and its prox.

Both act on the norms a_k = ‖z_k‖ of the groups alone: w_k = c_k·z_k/a_k. With a sorted, the m largest are active,
S = Σ_active a/(σ + m), and c_k = max(0, a_k − S)/σ. For small σ that difference is nothing but rounding; written with
differences of the norms, c_k = (a_k + Σ_active(a_k − a_i)/σ)/(σ + m), it is not. Specification §5, E12.
"""

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import scalar


@scalar
def order_descending(a: NDArray[np.float64], order: NDArray[np.int64]) -> None:
    """Sorts ``order`` by falling a, ties by number; quick where little has changed since last time."""
    for i in range(1, len(order)):
        k, j = order[i], i - 1
        while j >= 0 and (a[order[j]] < a[k] or (a[order[j]] == a[k] and order[j] > k)):
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = k


@scalar
def conjugate_map(a: NDArray[np.float64], sigma: float, order: NDArray[np.int64], c: NDArray[np.float64]) -> None:
    """c_k of w = ∇Ω*(z) for the norms a_k; ``order`` is room to work in (a permutation before and after)."""
    order_descending(a, order)
    m, total = 0, 0.0
    while m < len(order) and a[order[m]] * (sigma + m) > total:  # a > (total + a)/(σ + m + 1)
        total += a[order[m]]
        m += 1
    c[:] = 0.0
    if m == 0:
        return
    top, spread = a[order[0]], 0.0
    for i in range(m):
        spread += a[order[i]] - top
    for i in range(m):
        k = order[i]
        c[k] = max(0.0, (a[k] + (m * (a[k] - top) - spread) / sigma) / (sigma + m))


def prox(a: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """c_k of the prox of τ/2·(Σ‖w_k‖)² at norms a_k: max(0, a_k − τS), S = Σ_active a/(1 + τm).

    >>> prox(np.array([3.0, 1.0, 0.2]), 1.0)
    array([1.5, 0. , 0. ])
    """
    falling = np.sort(a)[::-1]
    S = np.cumsum(falling) / (1.0 + tau * np.arange(1, len(a) + 1))
    m = int(np.count_nonzero(falling > tau * S))
    found: NDArray[np.float64] = np.maximum(0.0, a - tau * S[m - 1]) if m else np.zeros_like(a)
    return found
