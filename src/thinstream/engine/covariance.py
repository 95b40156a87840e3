"""Full and diagonal covariances Σ under Σ⁻¹ += c·xxᵀ.

A full covariance is for learners with up to a few thousand features. Only its upper triangle is stored, column after
column, so it is symmetric by construction, needs half the memory, and grows by appending. BLAS computes Σx with `spmv`
(or as a sum of columns if x has few non-zeros) and the rank-one step with `spr`.
"""

import math
from contextlib import AbstractContextManager, nullcontext
from functools import cache, lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.hooks import hook
from thinstream.engine.parameters import OneOf
from thinstream.engine.prox import like
from thinstream.engine.rows import HEAVY, REACH, precision

#: Features from which on BLAS may use all its threads.
LARGE = 1024
#: With a smaller share of non-zeros, Σx is summed column by column. Half of a column is scattered in memory.
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
        """Return how many numbers are stored for d features."""
        return d * (d + 1) // 2

    def grown(self, d: int, variance: float) -> "Matrix":
        """Return the matrix with further features, which have this variance and no correlations."""
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
        """Return some entries of Σ times a dense vector."""
        if len(indices) >= FEW * self.d:
            return self.product(dense)[indices]
        return np.array([np.dot(self.column(j), dense) for j in indices.tolist()], dtype=self.packed.dtype)

    def column(self, j: int) -> NDArray[Any]:
        """Return a column, which is also a row.

        It is contiguous down to the diagonal; the rest is one number per column.
        """
        start, below = self.size(j), np.arange(j + 1, self.d)
        return np.concatenate([self.packed[start : start + j + 1], self.packed[below * (below + 1) // 2 + j]])

    def product(self, dense: NDArray[Any]) -> NDArray[Any]:
        """Σ times a dense vector."""
        if self.d == 0:
            return dense
        out: NDArray[Any] = _blas(self.packed.dtype, "spmv")(self.d, 1.0, self.packed, np.ascontiguousarray(dense))
        return out

    def variance_along(self, x: Point, z: NDArray[Any]) -> Any:
        """Return xᵀΣx for z = Σx. Rounding must not make it negative."""
        return max(x.dot(z), self.packed.dtype.type(0))

    def shrink(self, z: NDArray[Any], c: float, v: float) -> None:
        """Add an example of strength c: Σ −= c/(1 + c·v)·zzᵀ, with z = Σx and v = x·z of the old Σ.

        If the result would not be finite, raise FloatingPointError and change nothing.
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
        """Set a variance that is only rounding noise to the smallest positive number, without correlations."""
        start, below = self.size(j), np.arange(j + 1, self.d)
        self.packed[start : start + j] = 0
        self.packed[below * (below + 1) // 2 + j] = 0
        self.packed[start + j] = np.finfo(self.packed.dtype).tiny

    def diagonal(self) -> NDArray[Any]:
        """The variances."""
        return self.packed[_diagonal(self.d)]

    def dense(self) -> NDArray[Any]:
        out = np.zeros((self.d, self.d), dtype=self.packed.dtype)
        out[np.tril_indices(self.d)] = self.packed  # rows of the lower triangle are columns of the upper
        return out + np.tril(out, -1).T

    @classmethod
    def of(cls, dense: NDArray[Any]) -> "Matrix":
        return cls(np.ascontiguousarray(dense[np.tril_indices(len(dense))]))


class Belief(NamedTuple):
    """The state of a learner with a full covariance: its vector (μ, θ or v) and Σ."""

    mean: NDArray[Any]
    sigma: Matrix


def reaches(factor: float, size: float, state: NDArray[Any]) -> bool:
    """Return whether numbers of this size, times the factor, can be added indefinitely (see `limits`)."""
    which = precision(state)
    return factor * size <= REACH[which] and factor <= HEAVY


@lru_cache(maxsize=8)
def _diagonal(d: int, first: int = 0) -> NDArray[np.int64]:
    """Return the positions of the diagonal in the packed form."""
    j = np.arange(first, d)
    return j * (j + 3) // 2


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread(d: int) -> AbstractContextManager[Any]:
    """Let BLAS use one thread in a block, unless d is large: waking other threads costs more than it gains."""
    return nullcontext() if d >= LARGE else _controller().limit(limits=1, user_api="blas")


def _blas(dtype: np.dtype[Any], name: str) -> Any:
    from scipy.linalg import blas

    return getattr(blas, ("d" if dtype == np.float64 else "s") + name)


# Two ways to store a diagonal covariance Σ under Σ⁻¹ += c·xxᵀ.
#
# `Exact` stores the precision A_j = 1/σ_j, a sum that only grows. `Drop` stores σ_j: the diagonal of the full rank-one
# update, in the form that rounding cannot turn negative (specification §2, D5).
#
# An example enters Σ either always, before its prediction (`EveryExample`), or only on an update (`OnUpdate`).

Number = TypeVar("Number", float, NDArray[Any])


class Exact(NamedTuple):
    """1/σ_j += c·x_j²."""

    def spread(k, sigma: float) -> float:
        return 1.0 / sigma

    def variance(k, s: Number) -> Number:
        return np.reciprocal(s)

    def spread_after(k, s: float, x: float, c: float, v: float) -> float:
        return s + c * x * x


class Drop(NamedTuple):
    """σ_j −= c/(1 + c·v)·σ_j²x_j², with v = Σ σ_k x_k² before the change."""

    def spread(k, sigma: float) -> float:
        return sigma

    def variance(k, s: Number) -> Number:
        return s

    def spread_after(k, s: float, x: float, c: float, v: float) -> float:
        quotient = like(1.0, s) / (like(1.0, s) + c * v)  # equal for the whole row
        return s * (quotient + c * quotient * (v - s * x * x))


@hook
def spread(k: Any, sigma: float) -> float:
    """Return the stored number for variance σ."""


@hook
def variance(k: Any, s: Number) -> Number:
    """Return σ of a stored number."""


@hook
def spread_after(k: Any, s: float, x: float, c: float, v: float) -> float:
    """Return the stored number after an example with value x and strength c."""


ExactOrDrop = Annotated[Exact | Drop, OneOf(exact=Exact(), drop=Drop())]

#: Which covariance a learner keeps. The full matrix has a separate loop (`lanes.full`).
DIAGONAL, FULL = range(2)
Covariance = Annotated[int, OneOf(diagonal=DIAGONAL, full=FULL)]


class EveryExample(NamedTuple):
    """Every example enters, before its prediction."""

    def always(k) -> bool:
        return True


class OnUpdate(NamedTuple):
    """An example enters only if the update condition holds."""

    def always(k) -> bool:
        return False


@hook
def always(k: Any) -> bool:
    """Return whether every example enters."""
