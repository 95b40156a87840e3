"""Arrays that live elsewhere: what the array API shares, and the little it leaves to each library.

PyTorch's tensors and CuPy's arrays multiply, slice and transpose as numpy's do, and no more is asked of them: factors
and decisions, which are small, come from the host.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    kind = getattr(library, name)
    return X.to(kind) if hasattr(X, "detach") else library.astype(X, kind)


def _library(X: Any) -> Any:
    return X.__array_namespace__() if hasattr(X, "__array_namespace__") else sys.modules[_root(X)]


def _root(X: Any) -> str:
    return type(X).__module__.partition(".")[0]
