"""FSOL, SSOL and RDA are cases of the general framework of P0 (Algorithm 2), here written from the paper."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import thinstream as ts

Vector = np.ndarray[Any, np.dtype[np.float64]]


class Framework(NamedTuple):
    """Algorithm 2 for a family of strongly convex functions Φ_t, each given by the gradient of its conjugate.

    ``see`` takes x_t into Φ_t. ``conjugate_gradient(t, θ)`` is ∇Φ*_t(θ), and ``threshold(t)`` is λ_t.
    """

    eta: float
    conjugate_gradient: Callable[[int, Vector], Vector]
    threshold: Callable[[int], float]
    see: Callable[[Vector], None] = lambda x: None

    def weights(self, t: int, theta: Vector) -> Vector:
        """Return argmin_w ½‖u − w‖² + λ_t‖w‖₁ for u = ∇Φ*_t(θ)."""
        u = self.conjugate_gradient(t, theta)
        return np.sign(u) * np.maximum(np.abs(u) - self.threshold(t), 0.0)

    def run(self, X: Vector, y: Vector) -> tuple[Vector, Vector]:
        """Return the scores before each update, and the final weights."""
        theta, scores = np.zeros(X.shape[1]), []
        for t, (x, label) in enumerate(zip(X, y, strict=True), 1):
            self.see(x)
            score = float(self.weights(t, theta) @ x)
            scores.append(score)
            if max(0.0, 1.0 - label * score) > 0.0:
                theta = theta + self.eta * label * x
        return np.array(scores), self.weights(len(y) + 1, theta)


class Quadratic:
    """Φ_t(w) = ½·wᵀA_t·w with A_t = I + Σ x·xᵀ/r, or its diagonal."""

    def __init__(self, d: int, r: float, diagonal: bool) -> None:
        self.A, self.r, self.diagonal = np.eye(d), r, diagonal

    def see(self, x: Vector) -> None:
        self.A += (np.diag(x * x) if self.diagonal else np.outer(x, x)) / self.r

    def conjugate_gradient(self, t: int, theta: Vector) -> Vector:
        return np.linalg.solve(self.A, theta)


def stream(seed: int, n: int = 300, d: int = 12) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return X, np.where(X @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def require_equal(model: Any, framework: Framework, X: Vector, y: Vector) -> None:
    scores, weights = framework.run(X, y)
    np.testing.assert_allclose(model.learn(X, y), scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.coef_[0], weights, rtol=1e-9, atol=1e-9)
    assert 0 < model.n_updates_ < len(y)


OPTIONS: dict[str, Any] = {"fit_intercept": False, "dtype": "float64"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("schedule", ["eta", "inv_t"])
def test_fsol_has_the_squared_norm(seed, schedule):
    eta, l1 = 0.3, 0.2
    thresholds = {"eta": lambda t: eta * l1, "inv_t": lambda t: l1 / t}
    model = ts.FSOL(eta=eta, l1=l1, l1_schedule=schedule, **OPTIONS)
    require_equal(model, Framework(eta, lambda t, theta: theta, thresholds[schedule]), *stream(seed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("diagonal", [False, True])
def test_ssol_has_the_norm_of_the_rows_so_far(seed, diagonal):
    eta, l1, r = 0.7, 0.5, 2.0
    X, y = stream(seed)
    phi = Quadratic(X.shape[1], r, diagonal)
    kind = {"diagonal": "exact"} if diagonal else {"covariance": "full"}
    model = ts.SSOL(eta=eta, l1=l1, r=r, l1_schedule="inv_t", **kind, **OPTIONS)
    require_equal(model, Framework(eta, phi.conjugate_gradient, lambda t: l1 / t, phi.see), X, y)


@pytest.mark.parametrize("seed", range(3))
def test_rda_has_a_norm_that_grows_with_t(seed):
    """Φ_t = β_{t−1}/2·‖w‖² with β_t = γ√t, η = 1 and λ_t = (t − 1)·λ/β_{t−1}."""
    gamma, l1 = 2.0, 0.02

    def beta(t):
        return gamma * np.sqrt(max(t - 1, 1))

    framework = Framework(1.0, lambda t, theta: theta / beta(t), lambda t: (t - 1) * l1 / beta(t))
    require_equal(ts.RDA(gamma=gamma, l1=l1, **OPTIONS), framework, *stream(seed))
