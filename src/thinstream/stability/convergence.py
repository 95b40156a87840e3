"""Whether gradient descent on least squares with hard thresholding (GraDes) converges on some data (P2 section 2.1)."""

import math
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch_learners import grades
from thinstream.batch_learners.repeating import Passes
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.stability.data import batch_of, matrix_of, signs_of


class Path(NamedTuple):
    """GraDes from w = 0, an entry per iteration, the start included."""

    potential: NDArray[np.float64]  # Ψ = ½‖y − Xw‖²
    radius: NDArray[np.float64]  # ρ of the iteration matrix of the features kept; of all of them at the start
    nnz: NDArray[np.int64]
    gamma: float


def spectral_radius(X: Any, gamma: float, support: Any = None) -> float:
    """ρ(M) of M = I − XᵀX/γ, or of M cut to the features in ``support`` (numbers, or a mask); M is never formed.

    With more features than rows M has the eigenvalue 1 whatever γ is, so a ρ of 1 is no sign of divergence; a larger
    one is: some error then grows. ρ ≤ 1 holds just where γ ≥ ‖X‖₂²/2.

    Examples
    --------
    >>> X = [[3.0, 0.0], [0.0, 1.0]]
    >>> round(spectral_radius(X, gamma=3.0), 9), round(spectral_radius(X, gamma=10.0, support=[0]), 9)
    (2.0, 0.1)

    """
    _require_gamma(gamma)
    rows = matrix_of(batch_of(X))
    if support is not None:
        given = np.asarray(support)
        if given.dtype == np.bool_ and given.shape != (rows.shape[1],):
            raise InvalidInputError(
                f"support: a mask must have one entry per feature, {rows.shape[1]}, got {given.shape}"
            )
        columns = np.flatnonzero(given) if given.dtype == np.bool_ else np.unique(given.astype(np.int64))
        if len(columns) and not 0 <= columns[0] <= columns[-1] < rows.shape[1]:
            raise InvalidInputError(f"support must be from 0 to {rows.shape[1] - 1}, got {columns[[0, -1]].tolist()}")
        rows = rows.tocsc()[:, columns]
    return grades.iteration_radius(rows, gamma)


def safe_gamma(X: Any) -> float:
    """‖X‖₂²: with this γ and any larger the potential falls in every iteration; below half of it, it may grow.

    >>> round(safe_gamma([[3.0, 0.0], [0.0, 1.0]]), 9)
    9.0
    """
    batch = batch_of(X)
    return grades.squared_norm(Passes.of(batch.labelled(np.ones(len(batch), np.int8))))


def follow(
    X: Any, y: Any, *, gamma: float | None = None, n_nonzero: int | None = None, n_iter: int = 10, radii: bool = False
) -> Path:
    """Ψ along GraDes, and with ``radii`` the spectral radius of every iteration's matrix (P2 Figures 1 to 4).

    Parameters are those of `thinstream.GraDes`. A path that diverges ends where it is no longer finite.

    Examples
    --------
    >>> X, y = [[3.0, 0.0], [0.0, 1.0]], [1, -1]
    >>> follow(X, y, gamma=9.0, n_nonzero=2, n_iter=2).potential.round(3)
    array([1.   , 0.395, 0.312])
    >>> follow(X, y, gamma=3.0, n_nonzero=2, n_iter=2).potential.round(3)
    array([1.   , 2.222, 8.099])

    """
    batch = batch_of(X, signs_of(y))
    examples, rows = Passes.of(batch), matrix_of(batch).tocsc()
    if gamma is None:
        gamma = grades.squared_norm(examples) or 1.0
    _require_gamma(gamma)
    s = max(1, examples.n_features // 10) if n_nonzero is None else n_nonzero
    found: list[tuple[float, float, int]] = []
    for w, potential, _ in islice(grades.path(examples, gamma, s), n_iter + 1):
        if not (math.isfinite(potential) and np.all(np.isfinite(w))):
            break
        kept = np.flatnonzero(w) if found else np.arange(len(w))
        radius = grades.iteration_radius(rows[:, kept], gamma) if radii else np.nan
        found.append((potential, radius, int(np.count_nonzero(w))))
    potentials, radiuses, nnz = zip(*found, strict=True)
    return Path(np.array(potentials), np.array(radiuses), np.array(nnz, dtype=np.int64), float(gamma))


def _require_gamma(gamma: float) -> None:
    if not (math.isfinite(gamma) and gamma > 0):
        raise InvalidParameterError(f"gamma must be a number > 0, got {gamma!r}")
