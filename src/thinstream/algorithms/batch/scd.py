"""SCD: stochastic coordinate descent for the logistic loss with the l1 norm.

Shalev-Shwartz, Tewari: Stochastic Methods for l1-regularized Loss Minimization (2011); a baseline of P2. Specification
§6.

Scores s_i are kept up to date, so a step costs the non-zeros of column j.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.base import Passes, RepeatingLearner, runs
from thinstream.engine.losses import LOGISTIC, loss_and_slope
from thinstream.engine.parameters import Count, NonNegative, Positive, WholeNumbers
from thinstream.engine.prox import soft
from thinstream.errors import InvalidInputError
from thinstream.jit import compiled


class SCD(NamedTuple):
    """Stochastic coordinate descent for the logistic loss with the l1 norm.

    ::

        minimize (1/m)·Σ ln(1 + e^(−y·w·x)) + λ‖w‖₁,   j drawn at random, n_epochs·d times:
            g = (1/m)·Σ_i ∂ℓ/∂s_i·x_ij;   w_j = soft(w_j − g/β, λ/β)

    A batch method: it needs columns, so it holds the whole matrix in memory, also of a stream, and each ``fit`` starts
    again. Scaled so that |x| ≤ 1 no step raises the objective; otherwise ``beta`` of max x²/4 is safe. It is also a
    selector: ``get_support()``, ``transform``.

    Parameters
    ----------
    l1 : float, default=0.001
        λ: larger is sparser.
    beta : float, default=0.25
        β: bound on the curvature; steps are 1/β long.
    n_epochs : int, default=10
        Steps per coordinate, on average.
    coordinates : sequence of int or None, default=None
        The coordinates to take, in this order, instead of random ones; that of the constant feature is the last.

    Attributes
    ----------
    objective_ : float
        Mean logistic loss plus λ‖w‖₁.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SCD(l1=0.1, coordinates=[0, 1, 0]).fit([[1.0, 0.1], [-1.0, 0.1]], ["no", "yes"]).coef_.round(3)
    array([[-1.872,  0.   ]])

    """

    l1: NonNegative = 0.001
    beta: Positive = 0.25
    n_epochs: Count = 10
    coordinates: Annotated[Any, WholeNumbers()] = None


@compiled()
def _descend(columns: Any, y: Any, c: Any, order: Any, l1: Any, beta: Any, w: Any, s: Any) -> Any:
    """A step for each coordinate of ``order``, c adds up to 1; returns how many moved."""
    indptr, indices, values = columns
    steps = 0
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
            steps += 1
    return steps


@runs(SCD, paper="P2 baseline", order="first")
class SCDLearner(RepeatingLearner):
    """Costs and sample weights enter as weights in the mean loss, so λ and β mean the same with and without them."""

    draws = True
    attributes = {"objective": float}  # noqa: RUF012

    def solve(self, passes: Passes) -> None:
        """A step for each coordinate of the order, from w = 0."""
        rule, order = self.rule, self._order(passes.width)
        rows = passes.block()
        X, y, c = rows.X.tocsc(), rows.y, rows.c / passes.total
        columns = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data)
        w, s = np.zeros(passes.width), np.zeros(len(y))
        moved = _descend(columns, y, c, order, rule.l1, rule.beta, w, s)
        losses = np.logaddexp(0.0, -y * s)
        objective = float(c @ losses + rule.l1 * np.abs(w).sum())
        self.take(passes, w, rows.wrong(s), int(moved), float(rows.c @ losses), objective=objective)

    def _order(self, d: int) -> NDArray[np.int64]:
        coordinates: NDArray[np.int64] | None = self.rule.coordinates
        if coordinates is None:
            drawn: NDArray[np.int64] = (self.random or np.random.RandomState()).randint(
                d, size=self.rule.n_epochs * d, dtype=np.int64
            )
            return drawn
        bad = coordinates[(coordinates < 0) | (coordinates >= d)]
        if bad.size:
            raise InvalidInputError(f"SCD: coordinates must be from 0 to {d - 1}, got {bad[0]}")
        return coordinates
