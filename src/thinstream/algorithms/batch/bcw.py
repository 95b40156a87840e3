"""BCW: confidence-weighted learning in batches.

Tan, Yan, Wang, van den Hengel, Tsang, Shi: Learning Sparse Confidence-Weighted Classifier on Very High Dimensional Data
(2016), Algorithm 1 (P1). Specification §5, E9.

Υ of the paper, the root of Σ, is not formed: any root whitens as well, and the mean μ = Υw is kept itself.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.arrays import (
    Arrays,
    Examples,
    add_gram,
    cholesky,
    csr_arrays,
    csr_of_arrays,
    in_precision,
    inverse_of_lower,
    is_device_array,
    like,
    of_width,
    require_finite,
    require_room,
    solve_lower,
    times,
    to_host,
    whiten,
)
from thinstream.algorithms.batch.base import BufferedLearner, runs
from thinstream.engine.parameters import CountOrNone, OneOf, Positive
from thinstream.engine.protocol import require_array
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.jit import compiled, scalar

# Σ = (I + C·AᵀA)⁻¹ of all rows A so far (P1, Eq. 6), by the smaller inverse: rows × rows or features × features.
#
# Neither forms Σ. By rows, K = I + C·AAᵀ = TTᵀ grows row by row, and ΣAᵀ = AᵀK⁻¹ gives all that is asked for without a
# difference of large numbers. By features, the precision P = I + C·AᵀA is a sum, and L of P = LLᵀ whitens: x̂ = L⁻¹x.

#: Above this share of non-zeros rows are multiplied as dense ones.
DENSE = 0.05

#: Columns whose variances are computed at a time.
COLUMNS = 4096


@dataclass(frozen=True, eq=False)
class ByRows:
    """While there are fewer rows than features."""

    A: Any  # CSR, all rows so far
    T: NDArray[Any]

    @classmethod
    def empty(cls, d: int, dtype: Any) -> "ByRows":
        """No row yet: Σ = I."""
        import scipy.sparse as sp

        return cls(sp.csr_matrix((0, d), dtype=dtype), np.zeros((0, 0), dtype=dtype, order="F"))

    def add_rows(self, X: Any, C: float, owner: str) -> tuple["ByRows", NDArray[Any]]:
        """With further rows X (CSR), and their M = XΣXᵀ under the new Σ."""
        import scipy.sparse as sp

        n, old = X.shape[0], self.A.shape[0]
        require_room(4.0 * (n + old) ** 2 * X.dtype.itemsize, owner, f"the products of {n + old:,} rows")
        W = solve_lower(self.T, np.asfortranarray(C * products(self.A, X))).T  # K's new rows, left of the diagonal
        H = products(X, X) - W @ W.T / X.dtype.type(C)  # XΣ̂Xᵀ under the old Σ̂
        S = cholesky(np.asfortranarray(np.eye(n, dtype=X.dtype) + C * H))
        M = solve_lower(S, solve_lower(S, np.asfortranarray(H)), transposed=True).T  # H(I + C·H)⁻¹
        T = np.zeros((old + n, old + n), dtype=X.dtype, order="F")
        T[:old, :old], T[old:, :old], T[old:, old:] = self.T, W, S
        return ByRows(sp.vstack([self.A, X], format="csr"), T), M

    def times(self, sizes: NDArray[np.float64]) -> NDArray[Any]:
        """ΣXᵀa for the last rows X: AᵀK⁻¹a."""
        a = np.zeros(self.A.shape[0], dtype=self.A.dtype)
        a[len(a) - len(sizes) :] = sizes
        return np.asarray(self.A.T @ solve_lower(self.T, solve_lower(self.T, a), transposed=True))

    def widen(self, d: int) -> "ByRows":
        """With further features, of which no row has any."""
        return ByRows(of_width(self.A, d), self.T)

    def precision(self, C: float, owner: str) -> NDArray[Any]:
        """Return a copy of P."""
        d = self.A.shape[1]
        require_room(4.0 * d * d * self.A.dtype.itemsize, owner, f"covariances of {d:,} features")
        P = np.eye(d, dtype=self.A.dtype, order="F")
        rows = Examples(self.A, np.empty(self.A.shape[0], np.int8), np.empty(0))
        for _, block in rows.blocks(self.A.dtype):
            add_gram(P, block, C)
        return P

    def variance(self, C: float) -> NDArray[Any]:
        """The diagonal of Σ."""
        variances, columns = np.ones(self.A.shape[1], dtype=self.A.dtype), self.A.tocsc()
        for start in range(0, len(variances), COLUMNS):
            some = np.asfortranarray(columns[:, start : start + COLUMNS].toarray())
            variances[start : start + COLUMNS] -= C * np.square(solve_lower(self.T, some)).sum(axis=0)
        return variances

    def arrays(self) -> Arrays:
        """Return the arrays to save."""
        return csr_arrays(self.A, "rows") | {"factor": self.T}


@dataclass(frozen=True, eq=False)
class ByFeatures:
    """As soon as there are as many rows as features."""

    P: NDArray[Any]  # Fortran's order, the lower triangle

    def widen(self, d: int) -> "ByFeatures":
        """With further features, of which no row has any."""
        P = np.eye(d, dtype=self.P.dtype, order="F")
        P[: len(self.P), : len(self.P)] = self.P
        return ByFeatures(P)

    def precision(self, C: float, owner: str) -> NDArray[Any]:
        """Return a copy of P."""
        require_room(3.0 * self.P.nbytes, owner, f"covariances of {len(self.P):,} features")
        return self.P.copy(order="F")

    def variance(self, C: float) -> NDArray[Any]:
        """The diagonal of Σ."""
        variances: NDArray[Any] = np.square(self.factor()).sum(axis=0)
        return variances

    def factor(self) -> NDArray[Any]:
        """T = L⁻¹, which whitens: Σ = TᵀT."""
        return inverse_of_lower(cholesky(self.P))

    def arrays(self) -> Arrays:
        """Return the arrays to save."""
        return {"precision": self.P.T}


Covariance = ByRows | ByFeatures


def by_features(old: Covariance, batch: Examples, C: float, dtype: Any, owner: str) -> ByFeatures:
    """The precision with the batch's rows in it; rows that cannot be learned from raise."""
    P = old.precision(C, owner)
    for _, block in batch.blocks(dtype):
        add_gram(P, block, C)
    if not np.all(np.isfinite(np.diagonal(P))):
        require_finite(batch)
        raise InvalidInputError(f"{owner}: sums of squares overflow in {np.dtype(dtype).name}: scale X, or lower C")
    return ByFeatures(P)


def covariance_of(arrays: Arrays, d: int, dtype: Any) -> Covariance:
    """Restore the saved arrays."""
    if "precision" in arrays:
        P = require_array(arrays, "precision", (d, d), dtype)
        if not np.all(np.diagonal(P) >= 1):
            raise ModelFileError("its array 'precision' must have a diagonal ≥ 1")
        return ByFeatures(np.asfortranarray(P.T))
    A = csr_of_arrays(arrays, "rows", d)
    T = require_array(arrays, "factor", (A.shape[0], A.shape[0]), dtype)
    return ByRows(A, np.asfortranarray(T))


def products(X: Any, Y: Any) -> NDArray[Any]:
    """XYᵀ of sparse matrices, dense."""
    if max(X.shape[0], Y.shape[0]) and X.nnz + Y.nnz > DENSE * X.shape[1] * (X.shape[0] + Y.shape[0]):
        left = X.toarray()
        return np.asarray(left @ (left if X is Y else Y.toarray()).T)
    return np.asarray((X @ Y.T).toarray())


# The sequential part of Algorithm 1 (P1): PA-I (q = 1) or PA-II (q = 2) over whitened rows.
#
# On the host a compiled loop walks along the rows. On a device only their products are fetched, a stretch of rows at a
# time: decisions need no more.

U0, U1, U2, U3, U4 = (np.uint64(number) for number in range(5))


class Steps(NamedTuple):
    """The decisions of a pass over rows."""

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
    """Return x·v, computed in four sums so that additions are independent."""
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
            # x̂·x̂ < 1/C always: for q = 1 it is not needed if the loss is at least 1
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
    steps = Steps(np.empty(n), np.zeros(n))
    scores = f.astype(np.float64)  # a copy that the loop may write to
    _steps(np.ascontiguousarray(M), scores, y.astype(np.float64), c, float(C), int(q), *steps)
    return steps


#: Rows on a device that are decided on at a time: each time their products come to the host.
STRETCH = 1024


class BCW(NamedTuple):
    """Confidence-weighted learning in batches: one covariance matrix for all rows of a batch.

    ::

        Σ⁻¹ ← Σ⁻¹ + C·XᵀX;   then row by row  ξ = max(0, 1 − y·μ·x),  μ ← μ + α·y·Σx
        α = min(ξ / xᵀΣx, C) (hinge),   ξ / (xᵀΣx + 0.5/C) (squared_hinge)

    Memory is that of a few features × features matrices, or of rows × rows ones as long as there are fewer rows. Rows
    may be on a device (arrays of PyTorch or CuPy): they are then multiplied there.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the data against what was known before.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Loss ξ or ξ².
    batch_size : int or None, default=None
        Rows of a batch. Rows are held until a batch is full (``fit`` also learns the rest). None: each call is one
        batch, and how rows are cut into calls changes the result.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.BCW(dtype="float64").fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[-0.5,  0.4]])

    """

    C: Positive = 1.0
    loss: Annotated[int, OneOf(hinge=1, squared_hinge=2)] = 1
    batch_size: CountOrNone = 0


@runs(BCW, paper="P1 Alg. 1", order="second")
class BCWLearner(BufferedLearner):
    """μ in ``w``, and Σ.

    Examples
    --------
    >>> rows = Examples(np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([-1, 1], np.int8), np.ones(2))
    >>> model = BCWLearner(width=2, dtype="float64")
    >>> model.learn_rows(rows)
    array([0., 0.])
    >>> model.weights(), model.variance()
    (array([-0.5,  0.4]), array([0.5, 0.2]))

    """

    takes_dense = True
    keeps_variance = True

    def start(self) -> None:
        """Σ = I."""
        super().start()
        self.covariance: Covariance = ByRows.empty(len(self.w), self.dtype)

    def absorb(self, batch: Examples) -> NDArray[Any]:
        """Algorithm 1 on one batch."""
        c, old, d = self.row_costs(batch), self.covariance, len(self.w)
        few = isinstance(old, ByRows) and old.A.shape[0] + len(batch) < d
        w, scores = self._by_rows(batch, c) if few else self._by_features(batch, c)
        self.w = w
        self.count(scores, batch.y, np.maximum(0.0, 1.0 - batch.y * scores))
        return scores.astype(self.dtype)

    def _by_rows(self, batch: Examples, c: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        assert isinstance(self.covariance, ByRows)
        require_finite(batch)
        X = batch.sparse(self.dtype)
        new, M = self.covariance.add_rows(X, self.rule.C, self.algorithm.name)
        steps = take_steps(M, X @ self.w, batch.y, c, self.rule.C, self.rule.loss)
        self.covariance = new
        return self.w + new.times(steps.sizes), steps.scores

    def _by_features(self, batch: Examples, c: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        if is_device_array(batch.X):
            batch = Examples(in_precision(batch.X, self.dtype), batch.y, batch.weights)
        new = by_features(self.covariance, batch, self.rule.C, self.dtype, self.algorithm.name)
        whitener, scores, move = new.factor(), np.empty(len(batch)), np.zeros_like(self.w)
        room: Any = None
        has_weights = bool(self.w.any())  # false in the first batch, which saves a pass over the rows
        for rows, block in batch.blocks(self.dtype):
            f = times(block, like(self.w, block)) if has_weights else np.zeros(len(block), dtype=self.dtype)
            y, costs = batch.y[rows], c[rows]
            if is_device_array(block):
                scores[rows], move = self._on_device(block @ like(whitener.T, block), f, y, costs, move)
                continue
            room = np.empty_like(block) if room is None else room
            white = whiten(block, whitener, room[: len(block)])
            scores[rows] = walk(white, f, y, costs, self.rule.C, self.rule.loss, move)
        self.covariance = new
        return self.w + times(whitener.T, move), scores

    def _on_device(self, white: Any, f: Any, y: Any, c: Any, move: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
        """Scores of whitened rows on a device, and the move after them; products come to the host by stretches."""
        scores, there = [], like(move, white)
        for start in range(0, len(y), STRETCH):
            part = slice(start, start + STRETCH)
            x = white[part]
            before = f[part] + to_host(x @ there)
            steps = take_steps(to_host(x @ x.T), before, y[part], c[part], self.rule.C, self.rule.loss)
            there = there + x.T @ like(steps.sizes.astype(self.dtype), x)
            scores.append(steps.scores)
        return np.concatenate(scores), to_host(there)

    def widen(self, n_features: int) -> None:
        """Makes room for further features, each with variance 1."""
        before = len(self.w)
        super().widen(n_features)
        if len(self.w) > before:
            self.covariance = self.covariance.widen(len(self.w))

    def variance(self) -> NDArray[Any]:
        """σ of every feature: the diagonal of Σ."""
        return self.covariance.variance(self.rule.C)[self.offset :]

    def arrays(self, *, weights_only: bool = False) -> Arrays:
        """The state, Σ included."""
        return super().arrays(weights_only=weights_only) | ({} if weights_only else self.covariance.arrays())

    def restore(self, arrays: Arrays) -> None:
        """Becomes the learner these arrays were taken from."""
        super().restore(arrays)
        self.covariance = covariance_of(arrays, len(self.w), self.dtype)

    def merge_all(self, learners: Sequence["BCWLearner"]) -> "BCWLearner":
        """Precisions add, which is exact; means are weighted by them."""
        from scipy.linalg import cho_solve

        model = copy.deepcopy(learners[0])
        model.counts[:], model.cumulative_loss = 0, 0.0
        d, C, name = len(self.w), self.rule.C, self.algorithm.name
        P, b = np.zeros((d, d), dtype=self.dtype, order="F"), np.zeros(d)
        for learner in sorted(learners, key=lambda e: (e.t, e.w.tobytes(), e.cumulative_loss)):
            own = learner.covariance.precision(C, name)
            own = np.tril(own) + np.tril(own, -1).T
            b += own.astype(np.float64) @ learner.w.astype(np.float64)
            P += own
            model.counts += learner.counts
            model.cumulative_loss += learner.cumulative_loss
        P[np.diag_indices_from(P)] -= P.dtype.type(len(learners) - 1)
        model.covariance = ByFeatures(P)
        model.w = cho_solve((cholesky(P), True), b).astype(self.dtype)
        return model
