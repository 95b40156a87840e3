"""FGM: the feature generating machine.

Tan, Tsang, Wang: Towards Ultrahigh Dimensional Feature Selection for Big Data (2014); a baseline of P1. Specification
§5.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import Examples
from thinstream.algorithms.batch.base import GroupLearner, best, cut, runs
from thinstream.engine.parameters import Count, Positive

#: When a subproblem counts as solved: the step's largest entry against the largest weight.
TOLERANCE, MOST_STEPS = 1e-11, 50_000


class FGM(NamedTuple):
    """Feature generating machine: groups of features chosen one by one, each time with all weights solved for.

    ::

        group after group:  score_j = (Σ α_i·y_i·x_ij)²,  J = the best features not chosen yet
            minimize ½(Σ_k ‖w_k‖)² + C/2·Σ ξ_i²  over all groups so far;   α_i = C·ξ_i

    A batch method: it needs all rows at once. It is also a selector: ``get_support()`` and ``transform`` keep what was
    chosen, with a weight or without.

    Parameters
    ----------
    group_size : int, default=10
        Features of a group.
    n_groups : int, default=10
        Groups.
    C : float, default=1.0
        Weight of the loss.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.FGM(group_size=1, n_groups=1).fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[0. , 0.4]], dtype=float32)

    """

    group_size: Count = 10
    n_groups: Count = 10
    C: Positive = 1.0


@runs(FGM, paper="P1 baseline", order="first")
class FGMLearner(GroupLearner):
    """The weights of the last subproblem.

    Examples
    --------
    >>> rows = Examples(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1, 1], np.int8), np.ones(2))
    >>> model = FGMLearner(width=2, group_size=1, n_groups=2, dtype="float64")
    >>> _ = model.learn_rows(rows)
    >>> model.groups, model.converged
    ([array([1]), array([0])], True)

    """

    def start(self) -> None:
        """Nothing is chosen."""
        self.groups = []
        self.converged = True
        self.n_iter = 0

    def learn_rows(self, examples: Examples, *, last: bool = True) -> NDArray[Any]:
        """Learns from all rows, from scratch; returns their scores under the final weights."""
        import scipy.sparse as sp

        self.start()
        rows = self.prepare(examples)
        X, y, rule = rows.sparse(np.float64), rows.y.astype(np.float64), self.rule
        Cs = rule.C * rows.all_costs(self.costs)
        slot, alpha, w = np.full(X.shape[1], -1, dtype=np.int64), np.ones(len(y)), np.empty(0)
        if not np.all(Cs == rule.C):
            alpha = Cs / rule.C
        part = sp.csr_matrix((len(y), 0))
        for _ in range(rule.n_groups):
            J = best(X.T @ (alpha * y), rule.group_size, slot >= 0)
            if len(J) == 0:
                break
            first = len(w)
            slot[J] = first + np.arange(len(J))
            chosen = cut(X, slot)
            part = sp.csr_matrix((chosen.values, chosen.slots, chosen.indptr), shape=(len(y), first + len(J)))
            starts = np.array([0, *np.cumsum([len(group) for group in self.groups])])
            self.groups.append(J)
            w, steps = solve(part, y, Cs, starts, np.concatenate([w, np.zeros(len(J))]))
            self.converged = self.converged and steps < MOST_STEPS
            self.n_iter += steps
            alpha = Cs * np.maximum(0.0, 1.0 - y * (part @ w))
        self.w[:] = 0.0
        self.w[slot >= 0] = w[slot[slot >= 0]]
        scores = part @ w
        xi = np.maximum(0.0, 1.0 - y * scores)
        self.counts[:], self.cumulative_loss = 0, 0.0
        self.count(scores, rows.y, 0.5 * Cs / rule.C * xi**2)
        return self.row_scores(examples.X)


def solve(
    X: Any, y: NDArray[np.float64], Cs: NDArray[np.float64], starts: NDArray[np.int64], w: NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """The w that minimizes ½(Σ_k‖w_k‖)² + ½Σ C_i·ξ_i², and the steps it took, by accelerated proximal gradients.

    ``starts`` are the first columns of the groups. Momentum restarts whenever a step opposes it.
    """
    weighted = X.multiply(Cs[:, np.newaxis]).tocsr()
    transposed = weighted.T.tocsr()  # Σ C_i·ξ_i·y_i·x_i is one product
    L = float(np.linalg.norm((X.T @ weighted).toarray(), 2))
    if L == 0.0:
        return w, 0
    v, momentum, sizes = w, 1.0, np.diff([*starts, len(w)])
    for step in range(1, MOST_STEPS + 1):
        xi = np.maximum(0.0, 1.0 - y * (X @ v))
        u = v + (transposed @ (xi * y)) / L
        a = np.sqrt(np.add.reduceat(u * u, starts))
        scale = np.divide(prox(a, 1.0 / L), a, out=np.zeros_like(a), where=a > 0)
        new = u * np.repeat(scale, sizes)
        if np.abs(new - v).max() <= TOLERANCE * np.abs(new).max():
            return new, step
        if (v - new) @ (new - w) > 0:
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        v = new + (momentum - 1.0) / following * (new - w)
        w, momentum = new, following
    return w, MOST_STEPS


def prox(a: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """The norms after the prox of τ/2·(Σ‖w_k‖)² at norms a_k: max(0, a_k − τS), S = Σ_active a/(1 + τm).

    >>> prox(np.array([3.0, 1.0, 0.2]), 1.0)
    array([1.5, 0. , 0. ])
    """
    falling = np.sort(a)[::-1]
    S = np.cumsum(falling) / (1.0 + tau * np.arange(1, len(a) + 1))
    m = int(np.count_nonzero(falling > tau * S))
    result: NDArray[np.float64] = np.maximum(0.0, a - tau * S[m - 1]) if m else np.zeros_like(a)
    return result
