"""SBCW: sparse confidence-weighted learning in batches.

Tan, Yan, Wang, van den Hengel, Tsang, Shi: Learning Sparse Confidence-Weighted Classifier on Very High Dimensional Data
(2016), Algorithms 2 and 3 (P1). Specification §5, D11 to D13, E12.

Σ̂ is block diagonal: a block for each group of features chosen so far, the unit matrix elsewhere. Rows are kept sparse
and whitened as they are met, so memory is that of the blocks and of the non-zeros. For a group of precision P = LLᵀ,
x̂ = L⁻¹x: another root than the paper's symmetric one, with the same lengths and products.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.base import runs
from thinstream.batch_learners.blas import cholesky, inverse_of_lower
from thinstream.batch_learners.buffered import BufferedLearner
from thinstream.batch_learners.groups import Chosen, GroupLearner, best, cut
from thinstream.batch_learners.rows import Arrays, Examples
from thinstream.batch_learners.sbcw.ascent import Pass, ascend
from thinstream.batch_learners.sbcw.blocks import Blocks
from thinstream.engine.parameters import Count, CountOrNone, NonNegative, OneOf, Positive


class SBCW(NamedTuple):
    """Sparse confidence-weighted learning in batches: groups of features, each with its own covariance matrix.

    ::

        group after group:  score_j = (Σ α_i·y_i·x_ij)²,  J = the best features not chosen yet
            Σ_J⁻¹ ← Σ_J⁻¹ + C·X_JᵀX_J;   then, over all groups so far, one pass row by row
            ξ = max(0, 1 − y·Σ_k w_k·x̂_k),  α = min(ξ/(C·‖x̂‖²), 1) (hinge),  ξ/(C·‖x̂‖² + 0.5) (squared_hinge)
            z ← z + C·α·y·x̂,   w = ∇Ω*(z),  Ω(w) = σ/2·‖w‖² + ½(Σ_k ‖w_k‖)²

    It chooses n_groups·group_size features and is also a selector: ``get_support()`` and ``transform`` keep what was
    chosen, with a weight or without. The mean starts anew with every batch, covariances are kept.

    Parameters
    ----------
    n_features : int or None, default=None
        Features wanted; with it group_size is n_features / n_groups, rounded up, so that up to n_groups − 1
        more than wanted may be chosen.
    group_size : int, default=10
        Features of a group.
    n_groups : int, default=15
        Groups.
    C : float, default=1.0
        Weight of the data against what was known before.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss ξ or ξ².
    sigma : float, default=0.001
        σ of Ω: the smaller, the fewer groups share the weight.
    tol : float, default=0.0
        Stop choosing groups when the objective moves by no more than this share of it; 0: never.
    batch_size : int or None, default=None
        Rows of a batch: rows wait until so many are there (``fit`` learns from the rest, too). None: each call is one
        batch, and how rows are cut into calls changes the result.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SBCW(group_size=1, n_groups=1).fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).get_support()
    array([False,  True])

    """

    n_features: CountOrNone = 0
    group_size: Count = 10
    n_groups: Count = 15
    C: Positive = 1.0
    loss: Annotated[int, OneOf(hinge=1, squared_hinge=2)] = 1
    sigma: Positive = 1e-3
    tol: NonNegative = 0.0
    batch_size: CountOrNone = 0

    def size(p) -> int:
        """Features of a group."""
        return math.ceil(p.n_features / p.n_groups) if p.n_features else p.group_size


@runs(SBCW, paper="P1 Alg. 2, 3", order="second")
class SBCWLearner(GroupLearner, BufferedLearner):
    """μ in ``w``, and the blocks of Σ̂.

    Examples
    --------
    >>> rows = Examples(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1, 1], np.int8), np.ones(2))
    >>> model = SBCWLearner(width=2, group_size=1, n_groups=2, dtype="float64", sigma=1.0)
    >>> model.learn_rows(rows)
    array([0., 0.])
    >>> model.groups
    [array([1]), array([0])]

    """

    keeps_variance = True
    no_merge = "the groups of one shard are not those of another; fit it on all rows, or select features by one shard"

    def start(self) -> None:
        """Σ̂ = I."""
        super().start()
        self.blocks = Blocks()
        self.groups = []  # of the last batch

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Algorithm 2 on one batch."""
        X = batch.sparse(self.dtype)
        y, c, rule = batch.y.astype(np.float64), self.row_costs(batch), self.rule
        r, K, transposed = rule.size(), rule.n_groups, X.T.astype(np.float64)
        slot = np.full(X.shape[1], -1, dtype=np.int64)  # number of each chosen feature, group by group
        groups: list[NDArray[np.int64]] = []
        whiteners = np.zeros((K, r, r))
        done, objective = Pass.none(len(y)), 0.0
        for k in range(K):
            J = best(transposed @ (done.alpha * c * y), r, slot >= 0)
            if len(J) == 0:
                break
            slot[J] = k * r + np.arange(len(J))
            rows = cut(X, slot)
            P = self.blocks.precision(J) + rule.C * gram(rows, k * r, len(J))
            whiteners[k, : len(J), : len(J)] = inverse_of_lower(cholesky(np.asfortranarray(P)))
            groups.append(J)
            done = ascend(rows, y, c, whiteners[: k + 1], rule.C, rule.loss, rule.sigma)
            if rule.tol > 0:
                before, objective = objective, self._objective(rows, y, c, whiteners[: k + 1], done)
                if k > 0 and abs(objective - before) <= rule.tol * abs(objective):
                    break
        self.w = np.zeros_like(self.w)
        for J, T_k, w_k in zip(groups, whiteners, done.w, strict=False):
            self.w[J] = (T_k.T @ w_k)[: len(J)]
            self.blocks.put(J, T_k[: len(J), : len(J)].T @ T_k[: len(J), : len(J)])
        self.groups = groups
        self.count(done.scores, batch.y, np.maximum(0.0, 1.0 - y * done.scores))
        return done.scores.astype(self.dtype)

    def _objective(self, rows: Chosen, y: Any, c: Any, whiteners: NDArray[Any], done: Pass) -> float:
        """½(Σ‖w_k‖)² + (C/q)·Σξ^q at the weights of a pass."""
        mean = np.concatenate([T_k.T @ w_k for T_k, w_k in zip(whiteners, done.w, strict=True)])
        terms = np.concatenate([[0.0], np.cumsum(mean[rows.slots] * rows.values)])
        xi = np.maximum(0.0, 1.0 - y * (terms[rows.indptr[1:]] - terms[rows.indptr[:-1]]))
        norms = np.sqrt(np.square(done.w).sum(axis=1)).sum()
        return float(0.5 * norms**2 + self.rule.C / self.rule.loss * (c * xi**self.rule.loss).sum())

    def variance(self) -> NDArray[Any]:
        """σ of every feature: the diagonal of Σ̂."""
        return self.blocks.diagonal(len(self.w)).astype(self.dtype)[self.offset :]

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, Σ̂ included."""
        return super().arrays(weights_only=weights_only) | ({} if weights_only else self.blocks.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.blocks = Blocks.of(arrays, len(self.w))


def gram(rows: Chosen, first: int, size: int) -> NDArray[np.float64]:
    """X_JᵀX_J of the features in slots first … first + size."""
    import scipy.sparse as sp

    kept = (rows.slots >= first) & (rows.slots < first + size)
    indptr = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    X = sp.csr_matrix((rows.values[kept], rows.slots[kept] - first, indptr), shape=(len(indptr) - 1, size))
    return np.asarray((X.T @ X).toarray())
