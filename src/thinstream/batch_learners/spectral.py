"""Extreme eigenvalues of XᵀX and of GraDes' iteration matrix, from products with X alone (Lanczos)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners.passes import Passes

#: Up to this size a symmetric matrix is formed and solved whole.
SMALL = 200


def squared_norm(passes: Passes) -> float:
    """‖X‖₂², rows times the roots of their costs: the smallest γ that is safe for GraDes whatever it keeps."""
    if not passes.in_memory or len(passes) >= passes.width:
        return top(passes.gram, passes.width)
    X, _, c = passes.block()
    root = np.sqrt(c)  # the smaller of the two matrices that share their eigenvalues
    return top(lambda v: root * (X @ (X.T @ (root * v))), len(c))


def iteration_radius(X: Any, gamma: float) -> float:
    """ρ(I − XᵀX/γ) of a scipy matrix; with more columns than rows it is never below 1."""
    m, d = X.shape
    if d == 0:
        return 0.0
    highest = top(lambda v: X.T @ (X @ v), d) if d <= m else top(lambda v: X @ (X.T @ v), m)
    above = highest / gamma - 1.0
    if d > m or above >= 1.0:  # XᵀX has the eigenvalue 0, or whatever it is, 1 − 0/γ is not above
        return max(1.0, above)
    # the lower end of XᵀX is crowded: all digits would take minutes
    return max(above, top(lambda v: v - X.T @ (X @ v) / gamma, d, tolerance=1e-8))


def top(product: Callable[[NDArray[np.float64]], NDArray[np.float64]], n: int, tolerance: float = 0.0) -> float:
    """The largest eigenvalue of the symmetric matrix of order n that ``product`` multiplies by.

    Tolerance 0 asks for all digits.

    >>> round(top(lambda v: np.arange(500.0) * v, 500), 9)
    499.0
    """
    if n == 0:
        return 0.0
    if n <= SMALL:
        return float(np.linalg.eigvalsh(np.column_stack([product(column) for column in np.eye(n)]))[-1])
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    start = np.random.default_rng(0).normal(size=n)  # the same for the same matrix, and at right angles to nothing
    if not product(start).any():
        return 0.0
    operator = LinearOperator((n, n), matvec=lambda v: product(np.ravel(v)), dtype=np.float64)
    options = {"k": 1, "which": "LA", "v0": start, "return_eigenvectors": False}
    try:
        return float(eigsh(operator, **options, tol=tolerance, ncv=min(n, 60 if tolerance else 20))[0])
    except ArpackNoConvergence:  # many nearly equal ones at the top: a larger space, fewer digits
        return float(eigsh(operator, **options, tol=max(tolerance, 1e-10), ncv=min(n, 100), maxiter=100 * n)[0])
