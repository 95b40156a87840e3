"""One pass of proximal dual coordinate ascent over a batch (P1, Algorithm 3), row by row, on chosen features alone."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.groups import Chosen
from thinstream.batch_learners.omega import conjugate_map
from thinstream.jit import Compiled, keyed_by


class Pass(NamedTuple):
    """What a pass leaves behind."""

    alpha: NDArray[np.float64]  # α_i
    scores: NDArray[np.float64]  # before each row's own update
    w: NDArray[np.float64]  # whitened weights, a row per group

    @classmethod
    def none(cls, n: int) -> "Pass":
        """Before the first: α = 1, no weights."""
        return cls(np.ones(n), np.zeros(n), np.empty((0, 0)))


def _make(version: str) -> Callable[..., Any]:
    def ascend(rows: Any, y: Any, c: Any, T: Any, C: Any, q: Any, sigma: Any, out: Any) -> None:
        keyed_by(version)
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

    return ascend


_ascend = Compiled(_make, __name__, "thinstream.batch_learners.omega")


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
