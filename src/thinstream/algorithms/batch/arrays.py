"""Arrays of batch algorithms: dense, sparse or on a device, with the BLAS routines that work in place."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.memory import physical_memory
from thinstream.engine.protocol import LARGEST
from thinstream.errors import InvalidInputError, ModelFileError

# Arrays that live elsewhere: what the array API shares, and the little it leaves to each library.
#
# PyTorch's tensors and CuPy's arrays multiply, slice and transpose as numpy's do, and nothing else is required of them:
# factors and decisions, which are small, come from the host.


def is_device_array(X: Any) -> bool:
    """Whether X is an array of another library than numpy that can hand its memory on (PyTorch, CuPy, …)."""
    return not isinstance(X, np.ndarray) and hasattr(X, "__dlpack__") and getattr(X, "ndim", 0) >= 1


def to_host(X: Any) -> NDArray[Any]:
    """A copy (or view) of the array in this process's memory."""
    if hasattr(X, "detach"):  # PyTorch
        X = X.detach().cpu()
    elif hasattr(X, "get"):  # CuPy
        X = X.get()
    return X if isinstance(X, np.ndarray) else np.from_dlpack(X)


def like(host: NDArray[Any], X: Any) -> Any:
    """The host's array where X is."""
    if isinstance(X, np.ndarray):
        return host
    if _root(X) == "cupy":
        with X.device:
            return _library(X).asarray(host)
    return _library(X).asarray(host, device=X.device)


def in_precision(X: Any, dtype: Any) -> Any:
    """X in float32 or float64, where it is."""
    name = np.dtype(dtype).name
    if isinstance(X, np.ndarray):
        return X.astype(name, copy=False)
    if str(X.dtype).rpartition(".")[2] == name:
        return X
    if hasattr(X, "astype"):  # CuPy
        return X.astype(name)
    library = _library(X)
    dtype = getattr(library, name)
    return X.to(dtype) if hasattr(X, "detach") else library.astype(X, dtype)


def _library(X: Any) -> Any:
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else sys.modules[_root(X)]


def _root(X: Any) -> str:
    return type(X).__module__.partition(".")[0]


# Examples of a batch: a dense or sparse matrix, labels ±1, how much each row counts and what an error on it costs.

#: Bytes of a block of dense rows: they are made, used and forgotten block by block.
BLOCK = 1 << 24

#: The same for rows on a device, where every block costs a matrix of features × features that comes to the host.
DEVICE_BLOCK = 1 << 30

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Examples:
    """Rows (a numpy array, a scipy CSR matrix, or an array on a device), labels ±1, weights > 0."""

    X: Any
    y: NDArray[np.int8]
    weights: NDArray[np.float64]

    @classmethod
    def of(cls, batch: Batch, width: int) -> Self:
        """Return the rows of a batch as a matrix with a number of columns. Without labels, y has no meaning."""
        import scipy.sparse as sp

        end, n = int(batch.indptr[-1]), len(batch)
        X = sp.csr_matrix((batch.values[:end], batch.indices[:end], batch.indptr), shape=(n, batch.n_features))
        y = np.empty(n, np.int8) if batch.y is None else batch.y
        return cls(of_width(X, width), y, np.ones(n) if batch.weights is None else batch.weights)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_features(self) -> int:
        """Columns."""
        return int(self.X.shape[1])

    def take(self, rows: Any) -> "Examples":
        """The given rows (a slice, or numbers)."""
        chosen = like(rows, self.X) if isinstance(rows, np.ndarray) and is_device_array(self.X) else rows
        return Examples(self.X[chosen], self.y[rows], self.weights[rows])

    def with_constant(self) -> "Examples":
        """The same rows with a first column of ones."""
        import scipy.sparse as sp

        if is_device_array(self.X):
            raise InvalidInputError(
                "fit_intercept must be False for arrays on a device; give X a column of ones instead"
            )
        ones = np.ones((len(self), 1), dtype=self.X.dtype)
        if sp.issparse(self.X):
            return replace(self, X=sp.hstack([sp.csr_matrix(ones), self.X], format="csr"))
        return replace(self, X=np.hstack([ones, self.X]))

    def sparse(self, dtype: Any) -> Any:
        """The rows as a CSR matrix of that precision, indices sorted and unique, no zeros stored."""
        import scipy.sparse as sp

        X = to_host(self.X) if is_device_array(self.X) else self.X
        matrix = sp.csr_matrix(X, dtype=dtype)
        if not (matrix.has_canonical_format and np.all(matrix.data)):
            matrix = matrix.copy() if matrix is X or matrix.data is getattr(X, "data", None) else matrix
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
        return matrix

    def blocks(self, dtype: Any) -> Iterator[tuple[slice, Any]]:
        """The rows in their order, dense, a block at a time: a view where the precision is right, else a copy."""
        import scipy.sparse as sp

        size = DEVICE_BLOCK if is_device_array(self.X) else BLOCK
        height = max(64, size // max(1, self.n_features * np.dtype(dtype).itemsize))
        for start in range(0, len(self), height):
            rows = slice(start, min(start + height, len(self)))
            block = self.X[rows]
            if sp.issparse(block):
                block = block.toarray()
            if not is_device_array(block):
                block = np.ascontiguousarray(block, dtype=dtype)
            yield rows, block

    def running_costs(self, costs: Costs, positives: int = 0, negatives: int = 0) -> NDArray[np.float64]:
        """c_i, cost of the class times weight; balanced: by the counts up to and including each row.

        ``positives`` and ``negatives`` were before the first.

        >>> rows = Examples(np.ones((4, 1)), np.array([-1, -1, 1, 1], np.int8), np.ones(4))
        >>> rows.running_costs(Costs(balanced=True))
        array([1., 1., 2., 1.])
        """
        y = self.y
        if costs.balanced:
            n_plus, n_minus = positives + np.cumsum(y > 0), negatives + np.cumsum(y < 0)
            return self.weights * np.where(y > 0, np.maximum(n_minus, 1) / np.maximum(n_plus, 1), 1.0)
        return self.weights * np.where(y > 0, costs.positive, costs.negative)

    def all_costs(self, costs: Costs) -> NDArray[np.float64]:
        """The same for learners that have all rows before them; balanced: by the counts of all.

        >>> rows = Examples(np.ones((4, 1)), np.array([-1, -1, 1, -1], np.int8), np.ones(4))
        >>> rows.all_costs(Costs(balanced=True))
        array([1., 1., 3., 1.])
        """
        if not costs.balanced:
            return self.running_costs(costs)
        ratio = max(int(np.count_nonzero(self.y < 0)), 1) / max(int(np.count_nonzero(self.y > 0)), 1)
        return self.weights * np.where(self.y > 0, ratio, 1.0)


def require_finite(examples: Examples) -> None:
    """Raise if a value is NaN or infinite, or if its square is infinite. The message names row and column."""
    import scipy.sparse as sp

    X: Any = to_host(examples.X) if is_device_array(examples.X) else examples.X
    values: Any = X.data if sp.issparse(X) else np.asarray(X)
    limit = LARGEST.get(values.dtype.name, LARGEST["float64"])
    with np.errstate(invalid="ignore"):
        if values.size == 0 or max(values.max(), -values.min()) <= limit:  # false if one is NaN
            return
    rows = sp.csr_matrix(X)
    rows.sum_duplicates()
    checked = Batch.of(rows.indptr, rows.indices, rows.data, rows.shape[1])  # which says where NaN and infinity are
    checked.require_below(limit, f"{values.dtype.name} allows {limit:g}: sums of squares would overflow")


def stack(pieces: Sequence[Examples]) -> Examples:
    """Pieces, one after the other; sparse as soon as one of them is."""
    import scipy.sparse as sp

    if len(pieces) == 1:
        return pieces[0]
    parts = [to_host(piece.X) if is_device_array(piece.X) else piece.X for piece in pieces]
    if any(sp.issparse(part) for part in parts):
        width = max(piece.n_features for piece in pieces)
        X = sp.vstack([of_width(sp.csr_matrix(part), width) for part in parts], format="csr")
    else:
        X = np.concatenate(parts)
    return Examples(X, np.concatenate([p.y for p in pieces]), np.concatenate([p.weights for p in pieces]))


def of_width(X: Any, width: int) -> Any:
    """Return a CSR matrix with a number of columns. Columns are cut off or added, without a copy."""
    import scipy.sparse as sp

    if X.shape[1] > width:
        return X[:, :width]
    return X if X.shape[1] == width else sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def csr_arrays(X: Any, name: str) -> Arrays:
    """A CSR matrix as arrays, for a file."""
    parts = {"indptr": X.indptr.astype(np.int64), "indices": X.indices.astype(np.int64), "values": X.data}
    return {f"{name}.{part}": array for part, array in parts.items()}


def csr_of_arrays(arrays: Arrays, name: str, width: int) -> Any:
    """Return the CSR matrix of that name from a model file, after checking it."""
    import scipy.sparse as sp

    indptr, indices, values = (arrays[f"{name}.{part}"] for part in ("indptr", "indices", "values"))
    require_csr(name, indptr, indices, values, width)
    return sp.csr_matrix((values, indices, indptr), shape=(len(indptr) - 1, width))


def require_csr(name: str, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], width: int) -> None:
    """Raise ModelFileError unless the arrays are a CSR matrix with ``width`` columns and finite values.

    SciPy skips most of its checks if the last row pointer is 0, so a forged matrix could reach memory outside
    its arrays.
    """
    if any(array.ndim != 1 for array in (indptr, indices, values)):
        raise ModelFileError(f"its matrix {name!r} must have arrays of one dimension")
    if indptr.dtype != np.int64 or indices.dtype != np.int64 or values.dtype.name not in LARGEST:
        kinds = f"{indptr.dtype}, {indices.dtype} and {values.dtype}"
        raise ModelFileError(f"its matrix {name!r} must have int64 indptr and indices and float values, got {kinds}")
    if len(indices) != len(values):
        raise ModelFileError(f"its matrix {name!r} has {len(indices)} indices but {len(values)} values")
    if len(indptr) == 0 or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]) or indptr[-1] != len(indices):
        raise ModelFileError(f"its array '{name}.indptr' must rise from 0 to the number of indices, {len(indices)}")
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise ModelFileError(f"its array '{name}.indices' must be between 0 and {width - 1}")
    if not np.isfinite(values).all():
        raise ModelFileError(f"its array '{name}.values' has numbers that are not finite")


# The matrix work, in place and through BLAS and LAPACK: threads are theirs.
#
# Only SciPy's BLAS is used: NumPy has a separate copy, and the threads of both would compete for the cores.

_LAPACK = ("potrf", "trtri", "trtrs")


def add_gram(P: NDArray[Any], X: Any, C: float) -> None:
    """P += C·XᵀX, the lower triangle (an array on a device: all of it)."""
    if is_device_array(X):
        P += C * to_host(X.T @ X)
        return
    _function("syrk", P)(C, X.T, beta=1.0, c=P, lower=1, overwrite_c=1)


def cholesky(P: NDArray[Any]) -> NDArray[Any]:
    """L of P = LLᵀ, from the lower triangle of P, which is not changed.

    Every P here is a unit matrix plus something semi-definite. If rounding has absorbed the unit matrix, the least
    multiple of it that makes P positive again is put back: a change within the rounding of P.
    """
    potrf = _function("potrf", P)
    L, failed = potrf(P, lower=1, clean=1)
    ridge = float(np.finfo(P.dtype).eps * np.abs(np.diagonal(P)).max(initial=1.0))
    while failed:
        if not np.isfinite(ridge):
            raise InvalidInputError("X has values whose products overflow: scale it, or use dtype='float64'")
        lifted = P.copy(order="F")
        lifted[np.diag_indices_from(lifted)] += P.dtype.type(ridge)
        L, failed = potrf(lifted, lower=1, clean=1)
        ridge *= 4.0
    return np.asarray(L)


def inverse_of_lower(L: NDArray[Any]) -> NDArray[Any]:
    """L⁻¹, in the memory of L."""
    T, _ = _function("trtri", L)(L, lower=1, overwrite_c=1)
    return np.asarray(T)


def solve_lower(L: NDArray[Any], B: NDArray[Any], *, transposed: bool = False) -> NDArray[Any]:
    """L⁻¹B, or L⁻ᵀB."""
    if L.shape[0] == 0 or B.size == 0:
        return np.zeros_like(B)
    matrix, _ = _function("trtrs", L, B)(L, B, lower=1, trans=int(transposed))
    return np.asarray(matrix).reshape(B.shape)


def whiten(X: NDArray[Any], T: NDArray[Any], workspace: NDArray[Any]) -> NDArray[Any]:
    """Rows x̂ = Tx of the rows x, in a workspace of their shape."""
    workspace[...] = X
    return np.asarray(_function("trmm", T)(1.0, T, workspace.T, lower=1, overwrite_b=1).T)


def times(X: Any, v: Any) -> NDArray[Any]:
    """Xv on the host; v is where X is."""
    if is_device_array(X):
        return to_host(X @ v)
    return np.asarray(_function("gemv", X)(1.0, X.T, v, trans=1))


def require_room(needed: float, owner: str, what: str) -> None:
    """Raises if so many bytes would not fit into this machine."""
    have = physical_memory()
    if needed > 0.7 * have:
        raise InvalidInputError(
            f"{owner} needs {needed / 1e9:,.1f} GB for {what}, this machine has {have / 1e9:,.1f} GB; SBCW works on a "
            "few features at a time"
        )


def _function(name: str, *arrays: NDArray[Any]) -> Any:
    """A function of BLAS or LAPACK in the precision of these arrays."""
    from scipy.linalg import get_blas_funcs, get_lapack_funcs

    return (get_lapack_funcs if name in _LAPACK else get_blas_funcs)(name, arrays)
