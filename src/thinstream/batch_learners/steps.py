"""The sequential part of Algorithm 1 (P1), on products of rows: decisions alone, no matrix."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import Compiled, keyed_by


class Steps(NamedTuple):
    """What a pass over rows decided."""

    scores: NDArray[np.float64]  # before each row's own update
    sizes: NDArray[np.float64]  # α_i·y_i·c_i, how far μ moved along Σx_i


def _make(version: str) -> Callable[..., Any]:
    def steps(M: Any, f: Any, y: Any, c: Any, C: Any, q: Any, scores: Any, sizes: Any) -> None:
        """M_ij = x_iᵀΣx_j; f_i = μ·x_i, which changes with every update."""
        keyed_by(version)
        n = len(y)
        for i in range(n):
            s = f[i]
            scores[i] = s
            xi = 1.0 - y[i] * s
            v = np.float64(M[i, i])
            if xi > 0.0:
                if q == 2:
                    alpha = xi / (v + 0.5 / C)
                elif v > 0.0:
                    alpha = min(xi / v, C)
                else:
                    alpha = 0.0
                size = alpha * y[i] * c[i]
                sizes[i] = size
                for j in range(i + 1, n):
                    f[j] += size * M[i, j]

    return steps


_steps = Compiled(_make, __name__)


def take_steps(
    M: NDArray[Any], f: NDArray[Any], y: NDArray[np.int8], c: NDArray[np.float64], C: float, q: int
) -> Steps:
    """PA-I (q = 1) or PA-II (q = 2) over rows of inner products M, and scores f under the mean before the first."""
    n = len(y)
    found = Steps(np.empty(n), np.zeros(n))
    scores = f.astype(np.float64)  # a copy that the loop may write to
    _steps(np.ascontiguousarray(M), scores, y.astype(np.float64), c, float(C), int(q), *found)
    return found
