"""SCD: stochastic coordinate descent for the logistic loss with the l1 norm.

Shalev-Shwartz, Tewari: Stochastic Methods for l1-regularized Loss Minimization (2011); a baseline of P2.

    min (1/m)·Σ ln(1 + e^(−y·w·x)) + λ‖w‖₁,   one coordinate j at a time:
    g = (1/m)·Σ_i ∂ℓ/∂s_i·x_ij;   w_j = soft(w_j − g/β, λ/β)

Scores s_i are kept up to date, so a step costs the non-zeros of column j. With β ≥ max x²/4 no step raises the
objective.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.losses import LOGISTIC, loss_and_slope
from thinstream.engine.prox import soft
from thinstream.jit import Compiled, keyed_by
from thinstream.solvers.examples import Examples


class Solution(NamedTuple):
    """Weights, and the objective they reach."""

    w: NDArray[np.float64]
    objective: float


def _make_descend(version: str) -> Callable[..., None]:
    def descend(columns: Any, y: Any, c: Any, order: Any, l1: Any, beta: Any, w: Any, s: Any) -> None:
        """A step for each coordinate of ``order``; c adds up to 1."""
        keyed_by(version)
        indptr, indices, values = columns
        for j in order:
            g = 0.0
            for k in range(indptr[j], indptr[j + 1]):
                i = indices[k]
                _, slope = loss_and_slope(LOGISTIC, s[i], y[i])
                g -= c[i] * slope * y[i] * values[k]
            moved = soft(w[j] - g / beta, l1 / beta)
            if moved != w[j]:
                for k in range(indptr[j], indptr[j + 1]):
                    s[indices[k]] += (moved - w[j]) * values[k]
                w[j] = moved

    return descend


_descend = Compiled(_make_descend, __name__)


def solve(examples: Examples, order: NDArray[np.int64], l1: float, beta: float) -> Solution:
    """The weights after a step for each coordinate of ``order``, from w = 0.

    Costs and sample weights weigh the losses in the mean, so λ and β mean the same with and without them.
    """
    X, y, c = examples.block()
    X, c = X.tocsc(), c / examples.total
    columns = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
    w, s = np.zeros(examples.width), np.zeros(len(y))
    _descend(columns, y, c, order, l1, beta, w, s)
    return Solution(w, float(c @ np.logaddexp(0.0, -y * s) + l1 * np.abs(w).sum()))
