"""A full covariance Σ under Σ⁻¹ += c·xxᵀ, for learners with a few thousand features.

Only the upper triangle is kept, column after column, so it is symmetric by construction, takes half the room, and grows
by appending. BLAS does the work: Σx is `spmv` (or, where x has few non-zeros, a sum of columns), the rank-one step
`spr`.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.limits import HEAVY, REACH, precision

#: Features from which on BLAS may use all its threads.
LARGE = 1024
#: Below this share of non-zeros Σx is summed up column by column; half of a column is far apart in memory.
FEW = 1 / 32


class Point(NamedTuple):
    """The non-zeros of an example."""

    indices: NDArray[Any]
    values: NDArray[Any]

    def dot(self, vector: NDArray[Any]) -> Any:
        """Its product with a dense vector."""
        return np.dot(vector[self.indices], self.values)


class Matrix:
    """A symmetric d×d matrix in packed form.

    >>> sigma = Matrix(np.empty(0)).grown(3, 2.0)
    >>> x = Point(np.array([0, 2]), np.array([1.0, 3.0]))
    >>> z = sigma.times(x)
    >>> z.tolist()
    [2.0, 0.0, 6.0]
    >>> sigma.shrink(z, 1.0, x.dot(z))
    >>> sigma.diagonal().tolist()
    [1.8095238095238095, 2.0, 0.2857142857142858]
    """

    def __init__(self, packed: NDArray[Any]) -> None:
        self.packed, self.d = packed, (math.isqrt(8 * len(packed) + 1) - 1) // 2

    @staticmethod
    def size(d: int) -> int:
        """Numbers kept for d features."""
        return d * (d + 1) // 2

    def grown(self, d: int, variance: float) -> "Matrix":
        """With further features, of this variance and uncorrelated."""
        if d <= self.d:
            return self
        packed = np.zeros(self.size(d), dtype=self.packed.dtype)
        packed[: len(self.packed)] = self.packed
        packed[_diagonal(d, self.d)] = variance
        return Matrix(packed)

    def times(self, x: Point) -> NDArray[Any]:
        """Σx, dense."""
        if len(x.indices) >= FEW * self.d:
            dense = np.zeros(self.d, dtype=self.packed.dtype)
            dense[x.indices] = x.values
            return self.product(dense)
        out = np.zeros(self.d, dtype=self.packed.dtype)
        for j, value in zip(x.indices.tolist(), x.values, strict=True):
            out += value * self.column(j)
        return out

    def at(self, indices: NDArray[Any], dense: NDArray[Any]) -> NDArray[Any]:
        """Some entries of Σ times a dense vector."""
        if len(indices) >= FEW * self.d:
            return self.product(dense)[indices]
        return np.array([np.dot(self.column(j), dense) for j in indices.tolist()], dtype=self.packed.dtype)

    def column(self, j: int) -> NDArray[Any]:
        """A column, which is also a row: down to the diagonal it stands in one piece, the rest is one per column."""
        start, below = self.size(j), np.arange(j + 1, self.d)
        return np.concatenate([self.packed[start : start + j + 1], self.packed[below * (below + 1) // 2 + j]])

    def product(self, dense: NDArray[Any]) -> NDArray[Any]:
        """Σ times a dense vector."""
        if self.d == 0:
            return dense
        out: NDArray[Any] = _blas(self.packed.dtype, "spmv")(self.d, 1.0, self.packed, np.ascontiguousarray(dense))
        return out

    def variance_along(self, x: Point, z: NDArray[Any]) -> Any:
        """V = xᵀΣx, with z = Σx; rounding must not make it negative."""
        return max(x.dot(z), self.packed.dtype.type(0))

    def shrink(self, z: NDArray[Any], c: float, v: float) -> None:
        """An example of strength c comes in: Σ −= c/(1 + c·v)·zzᵀ with z = Σx, v = x·z of the old Σ.

        FloatingPointError, and nothing changes, where that would leave numbers that are not finite.
        """
        if not self.d:
            return
        share = c / (1.0 + c * float(v))
        if not reaches(share, float(np.dot(z, z)), self.packed):
            raise FloatingPointError
        scale = self.packed.dtype.type(-share)
        left = z * z
        left *= scale
        left += self.diagonal()
        tiny = np.finfo(left.dtype).tiny
        if np.minimum.reduce(left) < tiny:
            z = np.where(left >= tiny, z, 0)
            for j in np.flatnonzero(left < tiny).tolist():
                self._make_certain(j)
        _blas(self.packed.dtype, "spr")(self.d, scale, z, self.packed, overwrite_ap=1)

    def _make_certain(self, j: int) -> None:
        """What is left of a variance is rounding alone: it becomes the least there is, without correlations."""
        start, below = self.size(j), np.arange(j + 1, self.d)
        self.packed[start : start + j] = 0
        self.packed[below * (below + 1) // 2 + j] = 0
        self.packed[start + j] = np.finfo(self.packed.dtype).tiny

    def diagonal(self) -> NDArray[Any]:
        """The variances."""
        return self.packed[_diagonal(self.d)]

    def dense(self) -> NDArray[Any]:
        """All of it, as an array."""
        out = np.zeros((self.d, self.d), dtype=self.packed.dtype)
        out[np.tril_indices(self.d)] = self.packed  # rows of the lower triangle are columns of the upper
        return out + np.tril(out, -1).T

    @classmethod
    def of(cls, dense: NDArray[Any]) -> "Matrix":
        """From a symmetric array."""
        return cls(np.ascontiguousarray(dense[np.tril_indices(len(dense))]))


class Belief(NamedTuple):
    """What a learner with a full covariance knows: its vector (μ, θ or v) and Σ."""

    mean: NDArray[Any]
    sigma: Matrix


def reaches(factor: float, size: float, state: NDArray[Any]) -> bool:
    """Whether numbers of this size, times the factor, can be added to the state for good (see `limits`)."""
    which = precision(state)
    return factor * size <= REACH[which] and factor <= HEAVY


@lru_cache(maxsize=8)
def _diagonal(d: int, first: int = 0) -> NDArray[np.int64]:
    """Where the diagonal stands in the packed form."""
    j = np.arange(first, d)
    return j * (j + 3) // 2


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread(d: int) -> AbstractContextManager[Any]:
    """BLAS on one thread for the length of a block, unless d is large: waking others costs more than they do."""
    return nullcontext() if d >= LARGE else _controller().limit(limits=1, user_api="blas")


def _blas(dtype: np.dtype[Any], name: str) -> Any:
    from scipy.linalg import blas

    return getattr(blas, ("d" if dtype == np.float64 else "s") + name)
