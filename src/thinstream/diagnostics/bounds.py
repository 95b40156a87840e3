"""Bounds from the papers (regret, mistakes, generalization), and the convergence of GraDes."""

import math
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.batch import grades
from thinstream.algorithms.batch.arrays import Examples
from thinstream.algorithms.batch.base import Passes
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, InvalidParameterError


def batch_of(X: Any, y: NDArray[np.int8] | None = None) -> Batch:
    """Return the rows of a matrix (scipy, numpy, a frame, lists), checked."""
    import scipy.sparse as sp

    if isinstance(X, Batch):
        return X.check() if y is None else X.check().labelled(y)
    if not sp.issparse(X):
        X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise InvalidInputError(f"X must have two dimensions, rows and features, got {X.ndim}")
    rows = sp.csr_matrix(X)
    if y is not None and len(y) != rows.shape[0]:
        raise InvalidInputError(f"X has {rows.shape[0]} rows, y has {len(y)} labels")
    return Batch.of(rows.indptr, rows.indices, rows.data, rows.shape[1], y=y)


def matrix_of(batch: Batch) -> Any:
    """Return the batch as a scipy matrix."""
    return Examples.of(batch, batch.n_features).X


def signs_of(y: Any, classes: Classes | None = None) -> NDArray[np.int8]:
    """Return labels as ±1: of the given classes, or else the larger of the two labels is positive."""
    labels = np.asarray(y)
    if classes is None and set(np.unique(labels).tolist()) <= {-1, 1}:
        return labels.astype(np.int8)
    return (classes or Classes.of(labels).require_two()).coded(labels)


# The regret bounds of P0 and P3, for any comparator w.
#
# Costs are squared in the second-order terms. As printed, Theorems 5 and 6 of P0 hold only for costs up to 1.


class Bound(NamedTuple):
    """A bound and its terms."""

    comparator: float  # for the distance of the comparator from the start
    second_order: float  # for the steps
    threshold: float = 0.0  # for the thresholds

    @property
    def total(self) -> float:
        """The bound: the sum of its terms."""
        return self.comparator + self.second_order + self.threshold


def framework_bound(
    potential: float,
    dual_norms: Any,
    l1_norms: Any,
    thresholds: Any,
    *,
    eta: float,
    costs: Any = 1.0,
    convexity: float = 1.0,
    growth: float = 0.0,
) -> Bound:
    """Any algorithm of the framework (P0 Corollaries 1 and 4): Φ_T(w)/η + Σ[η/(2δ)‖c·z‖² + λ_t‖c·z‖₁] + ΣΔ*/η.

    Corollary 1 is the case of equal costs. z_t is the gradient of the loss in round t, and zero without a loss.

    Parameters
    ----------
    potential : float
        Φ_T(w) of the comparator w.
    dual_norms : array
        ‖z_t‖ of each round, in the dual norm of Φ_t.
    l1_norms : array
        ‖z_t‖₁ of each round.
    thresholds : array or float
        λ_t of each round.
    eta : float
        η.
    costs : array or float
        c of each round.
    convexity : float
        δ: every Φ_t is δ-strongly convex.
    growth : float
        ΣΔ*_t, the sum of Φ*_t(θ_t) − Φ*_{t−1}(θ_t): 0 if Φ never changes, and at most 0 if it grows.

    Examples
    --------
    >>> framework_bound(12.5, np.ones(100), np.ones(100), 0.125, eta=0.5)
    Bound(comparator=25.0, second_order=25.0, threshold=12.5)

    """
    z, absolute, c = (np.asarray(values, dtype=np.float64) for values in (dual_norms, l1_norms, costs))
    second = eta / (2 * convexity) * float(np.sum((c * z) ** 2)) + growth / eta
    return Bound(potential / eta, second, float(np.sum(np.asarray(thresholds) * c * absolute)))


def fsol_rate(w: Any, *, l1: float, norm: float, costs: Any) -> float:
    """Return the η with the smallest `fsol_bound` (P0 Theorem 2): ‖w‖/√(X²Σc² + 2λXΣc).

    Without class costs, it is the η of the theorem, and the bound is ‖w‖·√((X² + 2λX)·T).

    Examples
    --------
    >>> fsol_rate([3.0, 4.0], l1=0.0, norm=1.0, costs=np.ones(100))
    0.5

    """
    c = np.asarray(costs, dtype=np.float64)
    return float(np.linalg.norm(w)) / math.sqrt(norm**2 * float(c @ c) + 2 * l1 * norm * float(c.sum()))


def fsol_bound(w: Any, *, eta: float, l1: float, norm: float, costs: Any) -> Bound:
    """FSOL and CS-FSOL with λ_t = ηλ (P0 Theorems 2 and 5): ‖w‖²/(2η) + (η/2)X²Σc² + ηλXΣc.

    Parameters
    ----------
    w : array
        The comparator.
    eta, l1 : float
        η and λ.
    norm : float
        X: an upper bound of ‖x_t‖₁.
    costs : array
        c of each round, 1 without class costs.

    Examples
    --------
    >>> fsol_bound([3.0, 4.0], eta=0.5, l1=0.1, norm=1.0, costs=np.ones(100))
    Bound(comparator=25.0, second_order=25.0, threshold=5.0)

    """
    w, c = np.asarray(w, dtype=np.float64), np.asarray(costs, dtype=np.float64)
    return Bound(float(w @ w) / (2 * eta), eta / 2 * norm**2 * float(c @ c), eta * l1 * norm * float(c.sum()))


def ssol_bound(
    w: Any, A: Any, *, eta: float, l1: float, r: float, norm: float, rounds: int, largest_cost: float = 1.0
) -> Bound:
    """SSOL and CS-SSOL with λ_t = λ/t (P0 Theorems 3 and 6): wᵀA_Tw/(2η) + c²(η/2)·r·d·ln(1 + X²T/r) + cλX(ln T + 1).

    The first term grows with T unless w is orthogonal to the data, so this is not a logarithmic bound.

    Parameters
    ----------
    w : array
        The comparator.
    A : array
        A_T, or its diagonal for the exact diagonal (1/``variance_``).
    eta, l1, r : float
        η, λ and r.
    norm : float
        X: an upper bound of ‖x_t‖₁.
    rounds : int
        T.
    largest_cost : float
        c: the largest class cost.

    Examples
    --------
    >>> ssol_bound([1.0, 0.0], [4.0, 1.0], eta=1.0, l1=0.0, r=1.0, norm=1.0, rounds=3)
    Bound(comparator=2.0, second_order=1.3862943611198906, threshold=0.0)

    """
    w, A = np.asarray(w, dtype=np.float64), np.asarray(A, dtype=np.float64)
    quadratic = float(w @ (A * w if A.ndim == 1 else A @ w))
    second = largest_cost**2 * eta / 2 * r * len(w) * math.log1p(norm**2 * rounds / r)
    return Bound(quadratic / (2 * eta), second, largest_cost * l1 * norm * (math.log(rounds) + 1))


def arcsogd_rate(distance: float, precision: Any, *, gamma: float) -> float:
    """Return the η with the smallest `arcsogd_bound` (P3 Theorem 1): D·√(Tr(Σ⁻¹)/(γ·ln|Σ⁻¹|)).

    D and Σ⁻¹ belong to a run with another η, so this is not a guarantee for a run with the returned η [E20].

    Examples
    --------
    >>> round(arcsogd_rate(2.0, [1.0, 4.0], gamma=2.0), 3)
    2.686

    """
    trace, logdet = _trace_and_logdet(precision)
    return distance * math.sqrt(trace / (gamma * logdet))


def arcsogd_bound(distance: float, precision: Any, *, eta: float, gamma: float) -> Bound:
    """ARCSOGD (P3 Theorem 1, first inequality): D²·Tr(Σ⁻¹)/(2η) + (ηγ/2)·ln|Σ⁻¹|.

    Parameters
    ----------
    distance : float
        D: the largest distance of the weights, before any round, from the comparator.
    precision : array
        Σ⁻¹ after the last round, or its diagonal (1/``variance_``).
    eta, gamma : float
        η and γ.

    Examples
    --------
    >>> arcsogd_bound(2.0, [1.0, 4.0], eta=1.0, gamma=2.0)
    Bound(comparator=10.0, second_order=1.3862943611198906, threshold=0.0)

    """
    trace, logdet = _trace_and_logdet(precision)
    return Bound(distance**2 * trace / (2 * eta), eta * gamma / 2 * logdet)


def _trace_and_logdet(precision: Any) -> tuple[float, float]:
    P = np.asarray(precision, dtype=np.float64)
    if P.ndim == 1:
        return float(P.sum()), float(np.log(P).sum())
    return float(np.trace(P)), float(np.linalg.slogdet(P)[1])


# The theorems of P2 on the stable sparse perceptron, as numbers.


def norm_rounds(shrinkage: float, R: float, margin: float = 0.0, precision: float = 2.0**-53) -> float:
    """P2 Theorem 1: the number of updates up to which ‖w‖² ≤ tR² holds in this floating-point precision (η = 1).

    t ≤ (ε* − 2τ)/(2ε₂R²) − 2τ/R², or 0 if that is negative.

    Parameters
    ----------
    shrinkage : float
        ε*, the smallest reduction of ‖w‖² by a threshold in any update: λ·Σ|w̃_j| over touched features with |w̃_j| ≥ λ,
        plus Σ w̃_j² over the others, where w̃ is w before the threshold.
    R : float
        Bound on ‖x‖.
    margin : float
        τ.
    precision : float
        ε₂: 2⁻⁵³ for float64, 2⁻²⁴ for float32; 0 for exact arithmetic.

    Examples
    --------
    >>> norm_rounds(shrinkage=0.01, R=1.0, precision=2.0**-24)
    83886.08

    """
    if not (R > 0 and margin >= 0 and precision >= 0):
        raise InvalidParameterError(f"R must be > 0, margin and precision ≥ 0, got {R!r}, {margin!r}, {precision!r}")
    spare = shrinkage - 2 * margin
    if precision == 0:
        return math.inf if spare >= 0 else 0.0
    return max(0.0, spare / (2 * precision * R**2) - 2 * margin / R**2)


def mistake_bound(X: Any, y: Any, u: Any, l1: float = 0.0) -> float:
    """P2 Theorem 2: (R/((1−ε)γ))², the most updates of the stable sparse perceptron in any number of passes.

    (1−ε)γ is the smallest y·u·x − λ‖u‖₁ of a row, for u scaled to length 1. The bound is infinite if a row has no
    positive margin. It holds for η = 1 and τ = 0.

    Examples
    --------
    >>> round(mistake_bound([[2.0, 0.0], [0.0, -2.0]], [1, -1], u=[1.0, 1.0]), 9)
    2.0

    """
    signs, w = signs_of(y), np.asarray(u, dtype=np.float64).ravel()
    rows, length = matrix_of(batch_of(X, signs)), float(np.linalg.norm(w))
    if w.shape != (rows.shape[1],) or length == 0:
        raise InvalidParameterError(f"u must have one number for each of {rows.shape[1]} features, and not only zeros")
    margin = float(np.min(signs * (rows @ w))) / length - l1 * float(np.abs(w).sum()) / length
    squares = float(rows.multiply(rows).sum(axis=1).max())
    return squares / margin**2 if margin > 0 else math.inf


def generalisation_bound(m: int, k: float, delta: float = 0.05) -> float:
    """P2 Theorem 3: a bound of the error on new rows with probability 1 − δ, after k updates on m rows.

    (ln C(m, k) + ln m + ln 1/δ)/(m − k). It holds for a model that classifies all m rows correctly. k may be the bound
    of Theorem 2, which is not always an integer.

    Examples
    --------
    >>> round(generalisation_bound(m=10_000, k=100), 3)
    0.057

    """
    if not (0 <= k < m and 0 < delta < 1):
        raise InvalidParameterError(
            f"k must be at least 0 and less than m, and delta between 0 and 1, got m={m!r}, k={k!r}, delta={delta!r}"
        )
    choices = math.lgamma(m + 1) - math.lgamma(k + 1) - math.lgamma(m - k + 1)
    return (choices + math.log(m) + math.log(1 / delta)) / (m - k)


class Path(NamedTuple):
    """The path of GraDes from w = 0, with an entry per iteration, including the start."""

    potential: NDArray[np.float64]  # Ψ = ½‖y − Xw‖²
    radius: NDArray[np.float64]  # ρ of the iteration matrix of the selected features, of all features at the start
    nnz: NDArray[np.int64]
    gamma: float


def spectral_radius(X: Any, gamma: float, support: Any = None) -> float:
    """Return ρ(M) of M = I − XᵀX/γ, or of M restricted to the features in ``support``; M is never formed.

    ``support`` has feature indices, or is a mask. With more features than rows, M always has the eigenvalue 1, so ρ = 1
    does not mean divergence. A larger ρ does. ρ ≤ 1 holds if and only if γ ≥ ‖X‖₂²/2.

    Examples
    --------
    >>> X = [[3.0, 0.0], [0.0, 1.0]]
    >>> round(spectral_radius(X, gamma=3.0), 9), round(spectral_radius(X, gamma=10.0, support=[0]), 9)
    (2.0, 0.1)

    """
    _require_gamma(gamma)
    rows = matrix_of(batch_of(X))
    if support is not None:
        selected = np.asarray(support)
        if selected.dtype == np.bool_ and selected.shape != (rows.shape[1],):
            raise InvalidInputError(
                f"support: a mask must have one entry per feature ({rows.shape[1]}), got shape {selected.shape}"
            )
        columns = np.flatnonzero(selected) if selected.dtype == np.bool_ else np.unique(selected.astype(np.int64))
        if len(columns) and not 0 <= columns[0] <= columns[-1] < rows.shape[1]:
            raise InvalidInputError(f"support must be from 0 to {rows.shape[1] - 1}, got {columns[[0, -1]].tolist()}")
        rows = rows.tocsc()[:, columns]
    return grades.iteration_radius(rows, gamma)


def safe_gamma(X: Any) -> float:
    """Return ‖X‖₂²: with at least this γ the potential falls in every iteration; below half of it, it may grow.

    >>> round(safe_gamma([[3.0, 0.0], [0.0, 1.0]]), 9)
    9.0
    """
    batch = batch_of(X)
    return grades.squared_norm(Passes.of(batch.labelled(np.ones(len(batch), np.int8))))


def follow(
    X: Any, y: Any, *, gamma: float | None = None, n_nonzero: int | None = None, n_iter: int = 10, radii: bool = False
) -> Path:
    """Return Ψ along GraDes, and with ``radii`` the spectral radius of each iteration's matrix (P2 Figures 1 to 4).

    The parameters are those of `thinstream.GraDes`. A divergent path ends with the last finite value.

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
    entries: list[tuple[float, float, int]] = []
    for w, potential, _ in islice(grades.path(examples, gamma, s), n_iter + 1):
        if not (math.isfinite(potential) and np.all(np.isfinite(w))):
            break
        selected = np.flatnonzero(w) if entries else np.arange(len(w))
        radius = grades.iteration_radius(rows[:, selected], gamma) if radii else np.nan
        entries.append((potential, radius, int(np.count_nonzero(w))))
    potentials, radiuses, nnz = zip(*entries, strict=True)
    return Path(np.array(potentials), np.array(radiuses), np.array(nnz, dtype=np.int64), float(gamma))


def _require_gamma(gamma: float) -> None:
    if not (math.isfinite(gamma) and gamma > 0):
        raise InvalidParameterError(f"gamma must be a number > 0, got {gamma!r}")
