"""The sequential part of Algorithm 1 (P1): PA-I (q = 1) or PA-II (q = 2) over whitened rows.

On the host a compiled loop walks along the rows. On a device only their products are fetched, a stretch of rows at a
time: decisions need no more.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar

U0, U1, U2, U3, U4 = (np.uint64(number) for number in range(5))


class Steps(NamedTuple):
    """What a pass over rows decided."""

    scores: NDArray[np.float64]  # before each row's own update
    sizes: NDArray[np.float64]  # α_i·y_i·c_i, how far μ moved along Σx_i


@scalar
def step_size(xi: float, v: float, C: float, q: int) -> float:
    """α for a loss ξ > 0 and v = xᵀΣx."""
    if q == 2:
        return xi / (v + 0.5 / C)
    return min(xi / v, C) if v > 0.0 else 0.0


@scalar
def dot(x: NDArray[Any], v: NDArray[Any]) -> Any:
    """x·v in four sums, so that additions need not wait for one another."""
    d = np.uint64(len(x))
    a = b = c = e = x.dtype.type(0)
    for j in range(U0, d - d % U4, U4):
        a += x[j] * v[j]
        b += x[j + U1] * v[j + U1]
        c += x[j + U2] * v[j + U2]
        e += x[j + U3] * v[j + U3]
    for j in range(d - d % U4, d):
        a += x[j] * v[j]
    return (a + b) + (c + e)


@compiled()
def _walk(X: Any, f: Any, y: Any, c: Any, C: Any, q: Any, move: Any, scores: Any) -> None:
    """Rows x̂; f_i = μ̂·x_i under the mean before all of them; ``move`` is how far it has gone, whitened."""
    for i in range(len(y)):
        x = X[i]
        s = np.float64(f[i]) + np.float64(dot(x, move))
        scores[i] = s
        xi = 1.0 - y[i] * s
        if xi > 0.0:
            # x̂·x̂ < 1/C always: for q = 1 a loss of 1 or more need not know it
            v = 0.5 / C if q == 1 and xi >= 1.0 else np.float64(dot(x, x))
            size = X.dtype.type(step_size(xi, v, C, q) * y[i] * c[i])
            for j in range(U0, np.uint64(len(x))):
                move[j] += size * x[j]


@compiled()
def _steps(M: Any, f: Any, y: Any, c: Any, C: Any, q: Any, scores: Any, sizes: Any) -> None:
    """M_ij = x_iᵀΣx_j; f_i = μ·x_i, which changes with every update."""
    n = len(y)
    for i in range(n):
        s = f[i]
        scores[i] = s
        xi = 1.0 - y[i] * s
        if xi > 0.0:
            sizes[i] = step_size(xi, np.float64(M[i, i]), C, q) * y[i] * c[i]
            for j in range(i + 1, n):
                f[j] += sizes[i] * M[i, j]


def walk(
    X: NDArray[Any],
    f: NDArray[Any],
    y: NDArray[np.int8],
    c: NDArray[np.float64],
    C: float,
    q: int,
    move: NDArray[Any],
) -> NDArray[np.float64]:
    """Goes along whitened rows, adding to ``move``; returns the scores before each one's own update."""
    scores = np.empty(len(y))
    _walk(np.ascontiguousarray(X), f, y.astype(np.float64), c, float(C), int(q), move, scores)
    return scores


def take_steps(
    M: NDArray[Any], f: NDArray[Any], y: NDArray[np.int8], c: NDArray[np.float64], C: float, q: int
) -> Steps:
    """Decisions from the inner products M of rows, and their scores f under the mean before the first."""
    n = len(y)
    found = Steps(np.empty(n), np.zeros(n))
    scores = f.astype(np.float64)  # a copy that the loop may write to
    _steps(np.ascontiguousarray(M), scores, y.astype(np.float64), c, float(C), int(q), *found)
    return found
