"""SparDCA: dual coordinate ascent with the l1 norm.

Shalev-Shwartz, Zhang: Proximal Stochastic Dual Coordinate Ascent (2012); "sparDCA", a baseline of P1. Specification §5.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import Examples
from thinstream.algorithms.batch.base import BatchLearner, runs
from thinstream.engine.parameters import Count, NonNegative, OneOf, Positive
from thinstream.engine.prox import soft
from thinstream.jit import compiled


class SparDCA(NamedTuple):
    """Dual coordinate ascent for a support vector machine with the l1 norm.

    ::

        minimize ½‖w‖² + τ‖w‖₁ + (C/q)·Σ ξ_i^q,   q = 1 (hinge) or 2 (squared_hinge)
        row after row, again and again:  w = soft(Σ a_i·y_i·x_i, τ)
            a_i ← clip(a_i + (1 − y_i·w·x_i)/‖x_i‖², 0, C)                              (hinge)
            a_i ← max(0, a_i + (1 − y_i·w·x_i − a_i/C)/(‖x_i‖² + 1/C))                  (squared_hinge)

    A batch method: it needs all rows at once. It is also a selector: ``get_support()``, ``transform``.

    Parameters
    ----------
    l1 : float, default=0.0
        τ, the weight of the l1 norm.
    C : float, default=1.0
        Weight of the loss.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss ξ or ξ².
    n_epochs : int, default=10
        Times that all rows are taken, always in the given order.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SparDCA(l1=0.6).fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[-0.4,  0.5]], dtype=float32)

    """

    l1: NonNegative = 0.0
    C: Positive = 1.0
    loss: Annotated[int, OneOf(hinge=1, squared_hinge=2)] = 1
    n_epochs: Count = 10


@compiled()
def _epoch(indptr: Any, indices: Any, values: Any, y: Any, Cs: Any, tau: Any, q: Any, z: Any, a: Any, s: Any) -> Any:
    """All rows once; fills the scores s before each step, returns how many a_i moved."""
    moved = 0
    for i in range(len(y)):
        score, square = 0.0, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            score += soft(z[indices[e]], tau) * values[e]
            square += values[e] * values[e]
        s[i] = score
        gain = 1.0 - y[i] * score
        if q == 2:
            new = max(0.0, a[i] + (gain - a[i] / Cs[i]) / (square + 1.0 / Cs[i]))
        elif square > 0.0:
            new = min(max(a[i] + gain / square, 0.0), Cs[i])
        else:
            new = Cs[i]  # an empty row: as far as it goes, and no weight changes
        step = (new - a[i]) * y[i]
        if step != 0.0:
            moved += 1
            a[i] = new
            for e in range(indptr[i], indptr[i + 1]):
                z[indices[e]] += step * values[e]
    return moved


@runs(SparDCA, paper="P1 baseline", order="first")
class SparDCALearner(BatchLearner):
    """The weights, and the dual variables a of the rows they were learned from.

    Examples
    --------
    >>> rows = Examples(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1, 1], np.int8), np.ones(2))
    >>> model = SparDCALearner(width=2, dtype="float64", l1=0.6)
    >>> _ = model.learn_rows(rows)
    >>> model.a
    array([1.  , 0.55])

    """

    selects = True

    def learn_rows(self, examples: Examples, *, last: bool = True) -> NDArray[Any]:
        """Learns from all rows, from scratch; returns their scores under the final weights."""
        rows, rule = self.prepare(examples), self.rule
        X, y = rows.sparse(np.float64), rows.y.astype(np.float64)
        Cs = rule.C * rows.all_costs(self.costs)
        z, a, scores = np.zeros(X.shape[1]), np.zeros(len(y)), np.empty(len(y))
        self.counts[:], self.cumulative_loss = 0, 0.0
        indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
        for _ in range(rule.n_epochs):
            moved = _epoch(indptr, indices, X.data, y, Cs, float(rule.l1), int(rule.loss), z, a, scores)
            self.count(scores, rows.y, np.maximum(0.0, 1.0 - y * scores), int(moved))
        self.w = (np.sign(z) * np.maximum(np.abs(z) - rule.l1, 0.0)).astype(self.dtype)
        self.a = a
        return self.row_scores(examples.X)
