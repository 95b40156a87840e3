"""One pass of proximal dual coordinate ascent over a batch (P1, Algorithm 3), row by row, on chosen features alone.

Its weights are w = ∇Ω*(z) for the regulariser Ω(w) = σ/2·‖w‖² + ½(Σ_k‖w_k‖)² (Eq. 16), which acts on the norms
a_k = ‖z_k‖ of the groups alone: w_k = c_k·z_k/a_k. With a sorted, the m largest are active, S = Σ_active a/(σ + m), and
c_k = max(0, a_k − S)/σ. For small σ that difference is nothing but rounding; written with differences of the norms,
c_k = (a_k + Σ_active(a_k − a_i)/σ)/(σ + m), it is not.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.groups import Chosen
from thinstream.jit import compiled, scalar


class Pass(NamedTuple):
    """What a pass leaves behind."""

    alpha: NDArray[np.float64]  # α_i
    scores: NDArray[np.float64]  # before each row's own update
    w: NDArray[np.float64]  # whitened weights, a row per group

    @classmethod
    def none(cls, n: int) -> "Pass":
        """Before the first: α = 1, no weights."""
        return cls(np.ones(n), np.zeros(n), np.empty((0, 0)))


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


@compiled()
def _ascend(rows: Any, y: Any, c: Any, T: Any, C: Any, q: Any, sigma: Any, out: Any) -> None:
    indptr, slots, values = rows
    alpha, scores, w = out
    K, r = T.shape[0], T.shape[1]
    z, x = np.zeros((K, r)), np.zeros((K, r))
    a, share, weight = np.zeros(K), np.zeros(K), np.zeros(K)  # ‖z_k‖, c_k, c_k/a_k
    order, met = np.arange(K), np.zeros(K, dtype=np.int64)
    for i in range(len(y)):
        n_met = 0
        for e in range(indptr[i], indptr[i + 1]):  # x̂_k = T_k x_k, for the groups this row has features of
            k, j = slots[e] // r, slots[e] % r
            fresh = True
            for g in range(n_met):
                fresh = fresh and met[g] != k
            if fresh:
                met[n_met] = k
                n_met += 1
                x[k, :] = 0.0
            for h in range(j, r):
                x[k, h] += values[e] * T[k, h, j]
        s, n2 = 0.0, 0.0
        for g in range(n_met):
            k = met[g]
            product = 0.0
            for h in range(r):
                product += z[k, h] * x[k, h]
                n2 += x[k, h] * x[k, h]
            s += weight[k] * product
        scores[i], alpha[i] = s, 0.0
        xi = 1.0 - y[i] * s
        if xi > 0.0:
            if q == 2:
                alpha[i] = xi / (C * n2 + 0.5)
            else:  # a row without a chosen feature has α = 1: it is for later groups to explain
                alpha[i] = 1.0 if xi >= C * n2 else xi / (C * n2)
            step = C * alpha[i] * c[i] * y[i]
            for g in range(n_met):
                k = met[g]
                length = 0.0
                for h in range(r):
                    z[k, h] += step * x[k, h]
                    length += z[k, h] * z[k, h]
                a[k] = np.sqrt(length)
            conjugate_map(a, sigma, order, share)
            for k in range(K):
                weight[k] = share[k] / a[k] if a[k] > 0.0 else 0.0
    for k in range(K):
        for h in range(r):
            w[k, h] = weight[k] * z[k, h]


def ascend(
    rows: Chosen,
    y: NDArray[np.float64],
    c: NDArray[np.float64],
    whiteners: NDArray[np.float64],
    C: float,
    q: int,
    sigma: float,
) -> Pass:
    """Algorithm 3 from z = 0 over rows whose slots are group·r + place; ``whiteners`` are the T_k, lower triangles."""
    out = Pass(np.empty(len(y)), np.empty(len(y)), np.empty(whiteners.shape[:2]))
    T = np.ascontiguousarray(whiteners)
    _ascend(tuple(rows), y, c, T, float(C), int(q), float(sigma), tuple(out))
    return out
