"""Σ = (I + C·AᵀA)⁻¹ of all rows A so far (P1, Eq. 6), by the smaller inverse: rows × rows or features × features.

Neither forms Σ. By rows, K = I + C·AAᵀ = TTᵀ grows row by row, and ΣAᵀ = AᵀK⁻¹ gives all that is asked for without a
difference of large numbers. By features, the precision P = I + C·AᵀA is a sum, and L of P = LLᵀ whitens: x̂ = L⁻¹x.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.blas import add_gram, cholesky, inverse_of_lower, require_room, solve_lower
from thinstream.batch_learners.rows import Arrays, Examples, csr_arrays, csr_of_arrays, of_width, require_finite
from thinstream.errors import InvalidInputError, ModelFileError
from thinstream.learners.frozen import require_array

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
        """P, in memory of its own."""
        d = self.A.shape[1]
        require_room(4.0 * d * d * self.A.dtype.itemsize, owner, f"covariances of {d:,} features")
        P = np.eye(d, dtype=self.A.dtype, order="F")
        rows = Examples(self.A, np.empty(self.A.shape[0], np.int8), np.empty(0))
        for _, block in rows.blocks(self.A.dtype):
            add_gram(P, block, C)
        return P

    def variance(self, C: float) -> NDArray[Any]:
        """The diagonal of Σ."""
        found, columns = np.ones(self.A.shape[1], dtype=self.A.dtype), self.A.tocsc()
        for start in range(0, len(found), COLUMNS):
            some = np.asfortranarray(columns[:, start : start + COLUMNS].toarray())
            found[start : start + COLUMNS] -= C * np.square(solve_lower(self.T, some)).sum(axis=0)
        return found

    def arrays(self) -> Arrays:
        """What is saved."""
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
        """P, in memory of its own."""
        require_room(3.0 * self.P.nbytes, owner, f"covariances of {len(self.P):,} features")
        return self.P.copy(order="F")

    def variance(self, C: float) -> NDArray[Any]:
        """The diagonal of Σ."""
        found: NDArray[Any] = np.square(self.factor()).sum(axis=0)
        return found

    def factor(self) -> NDArray[Any]:
        """T = L⁻¹, which whitens: Σ = TᵀT."""
        return inverse_of_lower(cholesky(self.P))

    def arrays(self) -> Arrays:
        """What is saved."""
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
    """What was saved."""
    if "precision" in arrays:
        P = require_array(arrays, "precision", (d, d), dtype)
        if not np.all(np.diagonal(P) >= 1):
            raise ModelFileError("its array 'precision' is no precision: its diagonal must be ≥ 1")
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
