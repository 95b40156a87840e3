"""The matrix work, in place and through BLAS and LAPACK: threads are theirs.

scipy's BLAS alone: numpy has a copy of its own, whose threads would fight those of the other for the cores.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.devices import is_device_array, to_host
from thinstream.errors import InvalidInputError
from thinstream.learners.limits import physical_memory

_LAPACK = ("potrf", "trtri", "trtrs")


def add_gram(P: NDArray[Any], X: Any, C: float) -> None:
    """P += C·XᵀX, the lower triangle (an array on a device: all of it)."""
    if is_device_array(X):
        P += C * to_host(X.T @ X)
        return
    _function("syrk", P)(C, X.T, beta=1.0, c=P, lower=1, overwrite_c=1)


def cholesky(P: NDArray[Any]) -> NDArray[Any]:
    """L of P = LLᵀ, from the lower triangle of a P that is left as it is.

    Every P here is a unit matrix plus something semi-definite. Where rounding has eaten the unit matrix, the least
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
    found, _ = _function("trtrs", L, B)(L, B, lower=1, trans=int(transposed))
    return np.asarray(found).reshape(B.shape)


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
