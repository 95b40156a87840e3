"""The papers' bounds (specification §8) on the library's own runs, and how little of each bound can be left out.

A regret is the learner's cumulative loss less the comparator's, plain losses both: no bound charges the comparator its
l1 norm, and none restricts it. Every bound is written as the terms it sums, so that a test can leave one out.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import positive, streams

l1s = st.one_of(st.just(0.0), st.floats(1e-3, 4.0))
costs = st.tuples(st.floats(0.25, 4.0), st.floats(0.25, 4.0))
seeds = st.integers(0, 2**32 - 1)


class Game(NamedTuple):
    """A run: its rows and labels, what was scored and known before each round, and the model after the last."""

    X: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    path: np.ndarray  # coef_ before each round
    model: Any


def play(name: str, X: Any, y: Any = None, class_weight: Any = (1.0, 1.0), **parameters: Any) -> Game:
    """Row by row; without labels an adversary calls every prediction wrong."""
    X, T = np.asarray(X, dtype=float), len(X)
    weights = dict(zip((-1, 1), class_weight, strict=True))
    model = ts.make(name, class_weight=weights, dtype="float64", fit_intercept=False, **parameters)
    labels, scores, path = np.ones(T), np.zeros(T), np.zeros_like(X)
    for t in range(T):
        if t:
            path[t] = model.coef_[0]
        labels[t] = y[t] if y is not None else (-1.0 if path[t] @ X[t] > 0 else 1.0)
        scores[t] = model.learn(X[t : t + 1], labels[t : t + 1], classes=[-1, 1])[0]
    return Game(X, labels, scores, path, model)


@st.composite
def rounds(draw: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Rows, some of them again and again, and their labels, or None for an adversary's."""
    stream, passes = draw(streams()), draw(st.integers(1, 3))
    y = None if draw(st.booleans()) else np.tile(stream.y, passes)
    return np.tile(stream.X, (passes, 1)), y


def comparators(game: Game, seed: int) -> np.ndarray:
    """Zero, random vectors, least squares, the learner's own weights, and the best of a subgradient descent, scaled."""
    X, y, d = game.X, game.y, game.X.shape[1]
    rng, w, best = np.random.default_rng(seed), np.zeros(d), (np.inf, np.zeros(d))
    for k in range(50):
        best = min(best, (np.maximum(0.0, 1.0 - y * (X @ w)).sum(), w), key=lambda found: found[0])
        w = w + X.T @ (y * (y * (X @ w) < 1.0)) / (1.0 + k) / max(1.0, (X**2).sum(1).max())
    good = np.array([np.linalg.lstsq(X, y)[0], game.model.coef_[0], best[1]])
    scaled = [scale * good for scale in (-1.0, 0.3, 1.0, 3.0)]
    return np.vstack([np.zeros(d), *scaled, *(rng.normal(size=(3, d)) * scale for scale in (0.1, 1.0, 10.0))])


def hinge_regret(game: Game, w: np.ndarray, c: Any = 1.0) -> float:
    """Σ c_y·ℓ_t(w_t) − Σ c_y·ℓ_t(w)."""
    return game.model.cumulative_loss_ - float(np.sum(c * np.maximum(0.0, 1.0 - game.y * (game.X @ w))))


def cost_of(game: Game, class_weight: tuple[float, float]) -> np.ndarray:
    return np.where(game.y > 0, class_weight[1], class_weight[0])


def at_most(value: float, bound: float) -> bool:
    return bool(value <= bound + 1e-9 * (1.0 + abs(bound)))


# P0: FSOL, SSOL and their cost-sensitive forms ------------------------------------------------------------------------


def fsol_bound(game: Game, w: np.ndarray, eta: float, l1: float, c: Any = 1.0, power: int = 2) -> np.ndarray:
    """Theorems 2 and 5, the latter with ``power=1`` as printed, with 2 as Corollary 4 has it [E2]."""
    c, X = c * np.ones(len(game.y)), np.abs(game.X).sum(1).max()
    return np.array([w @ w / (2 * eta), eta / 2 * X**2 * np.sum(c**power), eta * l1 * X * c.sum()])


def ssol_bound(game: Game, w: np.ndarray, eta: float, l1: float, r: float, c: Any = 1.0, power: int = 2) -> np.ndarray:
    """Theorems 3 and 6 for the exact diagonal, ``power`` as above."""
    (T, d), X, c = game.X.shape, np.abs(game.X).sum(1).max(), np.max(c)
    A = 1.0 / game.model.variance_
    second_order = c**power * eta / 2 * r * d * np.log(1 + X**2 * T / r)
    return np.array([w @ (A * w) / (2 * eta), second_order, c * l1 * X * (np.log(T) + 1)])


def corollary_4(game: Game, w: np.ndarray, eta: float, A: np.ndarray, thresholds: Any, c: Any = 1.0) -> float:
    """The inequality both theorems are relaxed from: own norms, rounds with loss only, A_t in row t."""
    active = c * (game.y * game.scores < 1.0)
    second_order = eta / 2 * np.sum(active**2 * (game.X**2 / A).sum(1))
    return w @ (A[-1] * w) / (2 * eta) + second_order + np.sum(active * thresholds * np.abs(game.X).sum(1))


@given(game=rounds(), eta=positive, l1=l1s, class_weight=st.just((1.0, 1.0)) | costs, seed=seeds)
def test_fsol_regret(game, eta, l1, class_weight, seed):
    """FSOL and CS-FSOL stay within Theorems 2 and 5 (costs squared), and within the corollary behind them."""
    game = play("FSOL", *game, class_weight=class_weight, eta=eta, l1=l1, l1_schedule="eta")
    c = cost_of(game, class_weight)
    for w in comparators(game, seed):
        sharp = corollary_4(game, w, eta, np.ones_like(game.X), eta * l1, c)
        assert at_most(hinge_regret(game, w, c), sharp)
        assert at_most(sharp, fsol_bound(game, w, eta, l1, c).sum())


@given(game=rounds(), eta=positive, l1=l1s, r=positive, class_weight=st.just((1.0, 1.0)) | costs, seed=seeds)
def test_ssol_regret(game, eta, l1, r, class_weight, seed):
    """SSOL and CS-SSOL with the exact diagonal stay within Theorems 3 and 6 (costs squared)."""
    options = {"r": r, "l1_schedule": "inv_t", "diagonal": "exact"}
    game = play("SSOL", *game, class_weight=class_weight, eta=eta, l1=l1, **options)
    c, A = cost_of(game, class_weight), 1.0 + np.cumsum(game.X**2, axis=0) / r
    np.testing.assert_allclose(1.0 / game.model.variance_, A[-1])
    for w in comparators(game, seed):
        sharp = corollary_4(game, w, eta, A, l1 / np.arange(1, len(A) + 1), c)
        assert at_most(hinge_regret(game, w, c), sharp)
        assert at_most(sharp, ssol_bound(game, w, eta, l1, r, c).sum())


ALTERNATING, SAME = np.tile([1.0, -1.0], 20), np.ones(200)
ZERO, ONE = np.zeros(1), np.ones(1)


def in_one_dimension(name: str, y: np.ndarray, **parameters: Any) -> Game:
    return play(name, np.ones((len(y), 1)), y, **parameters)


@pytest.mark.parametrize(("eta", "c"), [(1.0, 2.0), (0.5, 4.0), (2.0, 1.5)])
def test_costs_enter_theorem_5_squared(eta, c):
    """[E2]: on alternating labels the regret is ηc²T/2 exactly, all of the bound with c² and more than that with c."""
    game = in_one_dimension("FSOL", ALTERNATING, class_weight=(c, c), eta=eta)
    regret, T = hinge_regret(game, ZERO, c), len(ALTERNATING)
    assert regret == eta * c**2 * T / 2
    assert at_most(regret, fsol_bound(game, ZERO, eta, 0.0, c, power=2).sum())
    assert regret > fsol_bound(game, ZERO, eta, 0.0, c, power=1).sum()


def test_costs_enter_theorem_6_squared():
    """[E2] for CS-SSOL, whose A hardly moves at a large r."""
    game = in_one_dimension("SSOL", ALTERNATING, class_weight=(4.0, 4.0), eta=0.5, r=1e6, diagonal="exact")
    regret = hinge_regret(game, ZERO, 4.0)
    assert at_most(regret, ssol_bound(game, ZERO, 0.5, 0.0, 1e6, 4.0, power=2).sum())
    assert regret > ssol_bound(game, ZERO, 0.5, 0.0, 1e6, 4.0, power=1).sum()


@pytest.mark.parametrize(
    ("labels", "w", "eta", "l1", "left_out"),
    [(SAME, ONE, 1 / 64, 0.0, 0), (ALTERNATING, ZERO, 1.0, 0.0, 1), (SAME[:72], ONE, 1 / 64, 8.0, 2)],
    ids=["comparator", "second order", "threshold"],
)
def test_no_term_can_be_left_out_of_fsol(labels, w, eta, l1, left_out):
    """Each of the three terms of Theorem 2 is needed on some stream, where all of them are nearly reached."""
    game = in_one_dimension("FSOL", labels, eta=eta, l1=l1)
    terms, regret = fsol_bound(game, w, eta, l1), hinge_regret(game, w)
    assert np.delete(terms, left_out).sum() < regret <= terms.sum() < 1.05 * regret


@pytest.mark.parametrize(
    ("labels", "w", "eta", "l1", "left_out"),
    [(SAME, ONE, 1 / 64, 0.0, 0), (ALTERNATING, ZERO, 1.0, 0.0, 1), (SAME[:40], ONE, 1 / 8, 512.0, 2)],
    ids=["comparator", "second order", "threshold"],
)
def test_no_term_can_be_left_out_of_ssol(labels, w, eta, l1, left_out):
    """Each of the three terms of Theorem 3 is needed on some stream."""
    game = in_one_dimension("SSOL", labels, eta=eta, l1=l1, r=1e6, diagonal="exact")
    terms = ssol_bound(game, w, eta, l1, 1e6)
    assert np.delete(terms, left_out).sum() < hinge_regret(game, w) <= terms.sum()


def test_ssol_is_not_logarithmic():
    """[E1]: wᵀA_Tw cannot be read as a constant ‖w‖²; with ηr < 1 the weight stalls and the regret is linear in T."""
    eta, r, regrets = 0.5, 1.0, []
    for T in (100, 200, 400):
        game = in_one_dimension("SSOL", np.ones(T), eta=eta, r=r, diagonal="exact")
        terms = ssol_bound(game, ONE, eta, 0.0, r)
        regrets.append(hinge_regret(game, ONE))
        assert ONE @ ONE / (2 * eta) + terms[1:].sum() < regrets[-1] <= terms.sum()
    assert regrets[2] - regrets[1] > 1.9 * (regrets[1] - regrets[0])


# P3: ARCSOGD ----------------------------------------------------------------------------------------------------------


def margins(y: np.ndarray, rho: float) -> np.ndarray:
    return np.where(y > 0, rho, 1.0)


def arcsogd_loss(game: Game, w: np.ndarray, rho: float) -> float:
    return float(np.maximum(0.0, margins(game.y, rho) - game.y * (game.X @ w)).sum())


def arcsogd_bound(game: Game, w: np.ndarray, eta: float, gamma: float) -> np.ndarray:
    """Theorem 1, first inequality [E20], of a diagonal Σ: its trace and determinant are a sum and a product."""
    A, D = 1.0 / game.model.variance_, np.linalg.norm(game.path - w, axis=1).max()
    return np.array([D**2 * A.sum() / (2 * eta), eta * gamma / 2 * np.log(A).sum()])


@given(game=rounds(), eta=positive, gamma=positive, class_weight=costs, seed=seeds)
def test_arcsogd_regret(game, eta, gamma, class_weight, seed):
    """ARCSOGD stays within Theorem 1, and within inequality (4) of its proof, for any ρ = c₊/c₋."""
    game = play("ARCSOGD", *game, class_weight=class_weight, eta=eta, gamma=gamma)
    rho = class_weight[1] / class_weight[0]
    active = (game.y * game.scores < margins(game.y, rho))[:, None]
    A = 1.0 + np.vstack([np.zeros(game.X.shape[1]), np.cumsum(active * game.X**2, axis=0)]) / gamma  # Σ_t⁻¹ in row t
    np.testing.assert_allclose(1.0 / game.model.variance_, A[-1])
    for w in comparators(game, seed):
        start, moved = w @ (A[0] * w), np.sum(np.diff(A, axis=0) * (game.path - w) ** 2)
        sharp = (start + moved) / (2 * eta) + eta / 2 * np.sum(active * game.X**2 / A[1:])
        assert at_most(game.model.cumulative_loss_ - arcsogd_loss(game, w, rho), sharp)
        assert at_most(sharp, arcsogd_bound(game, w, eta, gamma).sum())


@given(game=rounds(), eta=positive, gamma=positive, alpha=st.floats(0.05, 0.95), prices=costs, seed=seeds)
def test_arcsogd_sum_and_cost(game, eta, gamma, alpha, prices, seed):
    """Theorems 2 and 3: with ρ = α_pT_n/(α_nT_p) the sum, with ρ = c_p/c_n the cost are bounded by loss and regret."""
    X, y = game
    assume(y is not None and len(np.unique(y)) == 2)
    T_p, T_n = np.sum(y > 0), np.sum(y < 0)
    for measure, (c_n, c_p) in [("sum", (1.0, alpha * T_n / ((1 - alpha) * T_p))), ("cost", prices)]:
        played = play("ARCSOGD", X, y, class_weight=(c_n, c_p), eta=eta, gamma=gamma)
        M_p, M_n = np.sum((y > 0) & (played.scores <= 0)), np.sum((y < 0) & (played.scores > 0))
        for w in comparators(played, seed):
            loss = arcsogd_loss(played, w, c_p / c_n)
            total = loss + arcsogd_bound(played, w, eta, gamma).sum()
            for most in (played.model.cumulative_loss_, total):  # the step before the regret bound, and with it
                if measure == "sum":
                    found = alpha * (T_p - M_p) / T_p + (1 - alpha) * (T_n - M_n) / T_n
                    assert at_most(1 - (1 - alpha) / T_n * most, found)
                else:
                    assert at_most(c_p * M_p + c_n * M_n, c_n * most)


def test_arcsogd_cost_can_reach_its_bound():
    """New features only: every positive is missed at score 0, and at a small γ the bound on the cost is the cost."""
    game = play("ARCSOGD", np.eye(10), np.ones(10), class_weight=(2.0, 6.0), gamma=1e-6)
    bound = 2.0 * (arcsogd_loss(game, np.zeros(10), 3.0) + arcsogd_bound(game, np.zeros(10), 1.0, 1e-6).sum())
    assert game.model.n_mistakes_ == 10
    assert 2.0 * game.model.cumulative_loss_ == 6.0 * 10
    assert 6.0 * 10 <= bound < 6.001 * 10


@pytest.mark.parametrize(
    ("labels", "w", "eta", "left_out"),
    [(SAME, ONE, 1 / 64, 0), (ALTERNATING, ZERO, 1.0, 1)],
    ids=["comparator", "second order"],
)
def test_no_term_can_be_left_out_of_arcsogd(labels, w, eta, left_out):
    """Both terms of Theorem 1 are needed on some stream."""
    game = in_one_dimension("ARCSOGD", labels, eta=eta, gamma=1e6)
    terms, regret = arcsogd_bound(game, w, eta, 1e6), game.model.cumulative_loss_ - arcsogd_loss(game, w, 1.0)
    assert np.delete(terms, left_out).sum() < regret <= terms.sum()


# Mistake bounds: P2 and passive-aggressive learning -------------------------------------------------------------------


@st.composite
def separable(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and a unit vector u with y·u·x well above 0."""
    n, d = draw(st.integers(1, 24)), draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(seeds))
    u = rng.normal(size=d)
    u /= np.linalg.norm(u)
    X = rng.normal(size=(n, d))
    y = np.where(X @ u > 0, 1.0, -1.0)
    return X + draw(st.sampled_from([0.03, 0.3, 3.0])) * np.outer(y, u), y, u


def passes(name: str, X: Any, y: Any, n: int, **parameters: Any) -> Any:
    return ts.make(name, n_passes=n, dtype="float64", fit_intercept=False, **parameters).fit(X, y)


@given(data=separable(), share=st.floats(0.0, 0.95))
def test_perceptron_mistakes(data, share):
    """P2 Theorem 2: at most (R/((1−ε)γ))² updates, where y·u·x − λ‖u‖₁ ≥ (1−ε)γ, in however many passes."""
    X, y, u = data
    assume(len(np.unique(y)) == 2)
    margin, R = np.min(y * (X @ u)), np.linalg.norm(X, axis=1).max()
    l1 = share * margin / np.abs(u).sum()
    for n in (1, 30):
        found = passes("StableSparsePerceptron", X, y, n, l1=l1).n_updates_
        assert at_most(found, (R / (margin - l1 * np.abs(u).sum())) ** 2)
        assert at_most(passes("Perceptron", X, y, n).n_updates_, (R / margin) ** 2)


def test_perceptron_mistakes_can_reach_the_bound():
    """Orthonormal positives: as many updates as (R/γ)² allows."""
    for name in ("Perceptron", "StableSparsePerceptron"):
        assert play(name, np.eye(9), np.ones(9)).model.n_updates_ == 9  # u = 1/3 everywhere: R = 1, γ = 1/3


def test_threshold_costs_the_perceptron_mistakes():
    """P2 Theorem 2 needs λ‖u‖₁: here the perceptron's own bound allows one update and λ = 1 makes two."""
    X, u = np.array([[1.0, 3.0], [3.0, 0.0]]), np.array([3.0, 2.0]) / np.sqrt(13.0)
    updates, R, margin = play("StableSparsePerceptron", X, [1.0, 1.0], l1=1.0).model.n_updates_, np.sqrt(10), min(X @ u)
    assert (R / margin) ** 2 < updates <= (R / (margin - u.sum())) ** 2


@given(data=separable())
def test_pa_losses(data):
    """Crammer et al., Theorem 2: Σℓ² ≤ R²‖u‖² if y·u·x ≥ 1 everywhere; its proof has Σℓ²/‖x‖² ≤ ‖u‖²."""
    X, y, u = data
    u = u / np.min(y * (X @ u))
    X, y = np.tile(X, (20, 1)), np.tile(y, 20)
    scores = ts.make("PA", variant="PA", dtype="float64", fit_intercept=False).learn(X, y, classes=[-1, 1])
    losses, squares = np.maximum(0.0, 1.0 - y * scores), (X**2).sum(1)
    assert at_most(np.sum(losses**2 / squares), u @ u)
    assert at_most(np.sum(losses**2), squares.max() * (u @ u))


@given(game=rounds(), C=positive, seed=seeds)
def test_pa_i_and_pa_ii(game, C, seed):
    """Crammer et al., Theorems 4 and 5: mistakes of PA-I and squared losses of PA-II against any u."""
    one, two = (play("PA", *game, variant=variant, C=C) for variant in ("PA-I", "PA-II"))
    R2 = (one.X**2).sum(1).max()
    losses = np.maximum(0.0, 1.0 - two.y * two.scores)
    for u in comparators(one, seed):
        misses = np.maximum(0.0, 1.0 - one.y * (one.X @ u)).sum()
        assert at_most(one.model.n_mistakes_, max(R2, 1 / C) * (u @ u + 2 * C * misses))
        squares = np.sum(np.maximum(0.0, 1.0 - two.y * (two.X @ u)) ** 2)
        assert at_most(np.sum(losses**2), (R2 + 1 / (2 * C)) * (u @ u + 2 * C * squares))


def test_pa_losses_can_reach_the_bound():
    """Orthonormal positives, two passes: every loss is 1, then 0, and Σℓ² = 9 = R²‖u‖² with u = 1 everywhere."""
    scores = play("PA", np.tile(np.eye(9), (2, 1)), np.ones(18), variant="PA").scores
    assert np.sum(np.maximum(0.0, 1.0 - scores) ** 2) == 9
