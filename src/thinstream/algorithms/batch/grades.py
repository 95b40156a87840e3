"""GraDes: gradient descent with sparsification.

Garg, Khandekar: Gradient Descent with Sparsification (2009); P2 Equation 6. Specification §6, E18.

Costs and sample weights c_i weigh the squares: X and y with rows times √c_i.
"""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch.base import Passes, RepeatingLearner, runs
from thinstream.engine.parameters import Count, CountOrNone, Interval
from thinstream.errors import InvalidParameterError

#: Up to this size a symmetric matrix is formed and solved whole.
SMALL = 200


class GraDes(NamedTuple):
    """Gradient descent with sparsification: least squares on ±1, the s largest weights kept.

    ::

        w = H(w + (1/γ)·Xᵀ(y − Xw), s),   Ψ(w) = ½‖y − Xw‖²,   H keeps the s largest |w_j|

    A batch method: each iteration is a pass over the rows, and one more pass computes the last Ψ. Memory is O(d), so a
    stream that can be read again (files, no pipes) may be of any length. Finding a safe γ takes some dozen passes. With
    a γ below half of ‖X‖₂² it diverges on most data: `thinstream.diagnostics` predicts this. It is also a selector:
    ``get_support()``, ``transform``.

    Parameters
    ----------
    gamma : float or None, default=None
        γ: 1/γ is the learning rate. None uses ‖X‖₂², with which Ψ never rises. Papers use 3 and 100.
    n_nonzero : int or None, default=None
        s: the number of weights kept, including the constant's. None: a tenth of the features, at least one.
    n_iter : int, default=10
        Iterations.

    Attributes
    ----------
    gamma_ : float
        The γ taken.
    potential_ : array of shape (n_iter + 1,)
        Ψ before the first iteration and after each.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.GraDes(gamma=2.0, n_nonzero=1, n_iter=2).fit([[1.0, 0.5], [-1.0, 0.0]], [0, 1]).potential_
    array([1., 0., 0.])

    """

    gamma: Annotated[float, Interval(none=math.inf)] = math.inf
    n_nonzero: CountOrNone = 0
    n_iter: Count = 10


class Iterate(NamedTuple):
    """One w of the path from 0."""

    w: NDArray[np.float64]
    potential: float  # Ψ(w)
    wrong: NDArray[np.int64]  # positives and negatives that w calls wrong


def path(passes: Passes, gamma: float, s: int) -> Iterator[Iterate]:
    """W = 0 and all that follow, without end; a pass over the rows for each.

    Nothing stops it where it diverges: numbers grow until they are infinite.
    """
    w = np.zeros(passes.width)
    while True:
        gradient, potential, wrong = np.zeros(len(w)), 0.0, np.zeros(2, dtype=np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            for rows in passes.blocks():
                X, y, c = rows
                scores = X @ w
                residual = y - scores
                gradient += X.T @ (c * residual)
                potential += float(c @ (residual * residual)) / 2.0
                wrong += rows.wrong(scores)
            yield Iterate(w, potential, wrong)
            w = largest(w + gradient / gamma, s)


def largest(v: NDArray[np.float64], s: int) -> NDArray[np.float64]:
    """H(v, s): all but the s largest |v_j| become 0; among equals the lower index stays.

    >>> largest(np.array([1.0, -3.0, 2.0, -2.0]), 2)
    array([ 0., -3.,  2.,  0.])
    """
    if s >= len(v):
        return v
    size = np.abs(v)
    edge = np.partition(size, len(v) - s)[len(v) - s]
    kept = size > edge
    kept[np.flatnonzero(size == edge)[: s - int(np.count_nonzero(kept))]] = True
    return np.where(kept, v, 0.0)


@runs(GraDes, paper="P2 Eq. 6", order="first")
class GraDesLearner(RepeatingLearner):
    """The weights after the last iteration."""

    attributes = {"gamma": float, "potential": np.ndarray}  # noqa: RUF012

    def solve(self, passes: Passes) -> None:
        """As many iterations as were asked for."""
        rule = self.rule
        gamma = rule.gamma if rule.gamma < math.inf else squared_norm(passes) or 1.0
        kept = rule.n_nonzero or max(1, passes.n_features // 10)
        potentials = []
        for last in islice(path(passes, gamma, kept), rule.n_iter + 1):
            potentials.append(last.potential)
            if not (math.isfinite(last.potential) and np.all(np.isfinite(last.w))):
                raise InvalidParameterError(
                    f"GraDes: it diverged, Ψ was infinite after {len(potentials) - 1} iterations: gamma must be at "
                    f"least half of ‖X‖₂² = {squared_norm(passes):.4g}, or None, got {self.parameters['gamma']!r}"
                )
        attributes = {"gamma": float(gamma), "potential": np.array(potentials)}
        self.take(passes, last.w, last.wrong, rule.n_iter, last.potential, **attributes)


# Extreme eigenvalues, from products with X alone (Lanczos) ------------------------------------------------------------


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
