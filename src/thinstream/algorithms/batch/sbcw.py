"""SBCW: sparse confidence-weighted learning in batches.

Tan, Yan, Wang, van den Hengel, Tsang, Shi: Learning Sparse Confidence-Weighted Classifier on Very High Dimensional Data
(2016), Algorithms 2 and 3 (P1). Specification §5, D11 to D13, E12.

Σ̂ is block diagonal: a block for each group of features chosen so far, the unit matrix elsewhere. Rows are kept sparse
and whitened as they occur, so memory is that of the blocks and of the non-zeros. For a group of precision P = LLᵀ,
x̂ = L⁻¹x: another root than the paper's symmetric one, with the same lengths and products.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import Arrays, Examples, cholesky, inverse_of_lower
from thinstream.algorithms.batch.base import BufferedLearner, Chosen, GroupLearner, best, cut, runs
from thinstream.engine.parameters import Count, CountOrNone, NonNegative, OneOf, Positive
from thinstream.errors import ModelFileError
from thinstream.jit import compiled, scalar

# One pass of proximal dual coordinate ascent over a batch (P1, Algorithm 3), row by row, on chosen features alone.
#
# Its weights are w = ∇Ω*(z) for the regulariser Ω(w) = σ/2·‖w‖² + ½(Σ_k‖w_k‖)² (Eq. 16), which acts on the norms a_k =
# ‖z_k‖ of the groups alone: w_k = c_k·z_k/a_k. With a sorted, the m largest are active, S = Σ_active a/(σ + m), and c_k
# = max(0, a_k − S)/σ. For small σ that difference is nothing but rounding; written with differences of the norms, c_k =
# (a_k + Σ_active(a_k − a_i)/σ)/(σ + m), it is not.


class Pass(NamedTuple):
    """The result of a pass."""

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


# A covariance matrix of blocks: groups of features that vary together, all others with variance 1 on their own.


class Blocks:
    """Disjoint groups of features and the covariance matrix of each.

    >>> sigma = Blocks()
    >>> sigma.put(np.array([1, 4]), np.array([[0.5, 0.1], [0.1, 0.25]]))
    >>> sigma.put(np.array([4]), np.array([[0.125]]))               # takes feature 4 out of its block
    >>> sigma.diagonal(6)
    array([1.   , 0.5  , 1.   , 1.   , 0.125, 1.   ])
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[NDArray[np.int64], NDArray[np.float64]]] = {}  # by block number
        self._home: dict[int, int] = {}  # feature → its block
        self._next = 0

    def part(self, J: NDArray[np.int64]) -> NDArray[np.float64]:
        """Σ̂_JJ."""
        covariance = np.eye(len(J))
        homes = np.array([self._home.get(int(j), -1) for j in J])
        for home in set(homes.tolist()) - {-1}:
            here, (features, matrix) = np.flatnonzero(homes == home), self._blocks[home]
            places = np.searchsorted(features, J[here])
            covariance[np.ix_(here, here)] = matrix[np.ix_(places, places)]
        return covariance

    def precision(self, J: NDArray[np.int64]) -> NDArray[np.float64]:
        """(Σ̂_JJ)⁻¹."""
        if not any(int(j) in self._home for j in J):
            return np.eye(len(J))
        inverse = np.linalg.inv(self.part(J))
        return np.asarray((inverse + inverse.T) / 2.0)

    def put(self, J: NDArray[np.int64], matrix: NDArray[np.float64]) -> None:
        """Rows and columns J (sorted) become this block; covariances with all other features become 0."""
        for home in {self._home[int(j)] for j in J if int(j) in self._home}:
            features, old = self._blocks.pop(home)
            left = np.flatnonzero(~np.isin(features, J))
            if len(left):
                self._blocks[home] = features[left], old[np.ix_(left, left)].copy()
        self._blocks[self._next] = J.copy(), matrix.copy()
        self._home.update((int(j), self._next) for j in J)
        self._next += 1

    def diagonal(self, d: int) -> NDArray[np.float64]:
        """Variances of d features."""
        variances = np.ones(d)
        for features, matrix in self._blocks.values():
            variances[features] = np.diagonal(matrix)
        return variances

    def arrays(self) -> Arrays:
        """Return the arrays to save: sizes, features and entries of the blocks, one after another."""
        parts = list(self._blocks.values())
        return {
            "blocks.sizes": np.array([len(features) for features, _ in parts], dtype=np.int64),
            "blocks.features": np.concatenate([np.empty(0, np.int64), *(features for features, _ in parts)]),
            "blocks.entries": np.concatenate([np.empty(0), *(matrix.ravel() for _, matrix in parts)]),
        }

    @classmethod
    def of(cls, arrays: Arrays, d: int) -> "Blocks":
        """Restore the saved arrays."""
        sizes, features, entries = (arrays[f"blocks.{name}"] for name in ("sizes", "features", "entries"))
        fits = sizes.sum() == len(features) and np.square(sizes).sum() == len(entries) and np.all(sizes > 0)
        inside = len(features) == 0 or (features.min() >= 0 and features.max() < d)
        if not (fits and inside and len(np.unique(features)) == len(features)):
            raise ModelFileError("the blocks of its covariance matrix contradict each other")
        blocks, a, b = cls(), 0, 0
        for n in sizes.tolist():
            blocks.put(features[a : a + n], entries[b : b + n * n].reshape(n, n))
            a, b = a + n, b + n * n
        return blocks


class SBCW(NamedTuple):
    """Sparse confidence-weighted learning in batches: groups of features, each with its own covariance matrix.

    ::

        group after group:  score_j = (Σ α_i·y_i·x_ij)²,  J = the best features not chosen yet
            Σ_J⁻¹ ← Σ_J⁻¹ + C·X_JᵀX_J;   then, over all groups so far, one pass row by row
            ξ = max(0, 1 − y·Σ_k w_k·x̂_k),  α = min(ξ/(C·‖x̂‖²), 1) (hinge),  ξ/(C·‖x̂‖² + 0.5) (squared_hinge)
            z ← z + C·α·y·x̂,   w = ∇Ω*(z),  Ω(w) = σ/2·‖w‖² + ½(Σ_k ‖w_k‖)²

    It chooses n_groups·group_size features and is also a selector: ``get_support()`` and ``transform`` keep what was
    chosen, with a weight or without. The mean restarts with every batch, and covariances are kept.

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
        Rows of a batch. Rows are held until a batch is full (``fit`` also learns the rest). None: each call is one
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
