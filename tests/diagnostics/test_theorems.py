"""The theorems of P2 hold on random streams, and their numbers are those of the formulas."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import thinstream as ts
from thinstream.diagnostics.bounds import generalisation_bound, mistake_bound, norm_rounds
from thinstream.errors import InvalidParameterError

seeds = st.integers(0, 2**32 - 1)


def naive_perceptron(X, y, l1, margin, dtype):
    """P2 Algorithm 1 (η = 1), and of every update ‖w‖² after it and what the threshold took, ε_λ of Lemma 2."""
    w, norms, shrinkages = np.zeros(X.shape[1], dtype), [], []
    for x, label in zip(X.astype(dtype), y):
        if label * float(w @ x) <= margin:
            touched = x != 0
            moved = (w + dtype(label) * x)[touched].astype(dtype)
            sizes = np.abs(moved.astype(float))
            shrinkages.append(l1 * sizes[sizes >= l1].sum() + (sizes[sizes < l1] ** 2).sum())
            w[touched] = np.sign(moved) * np.maximum(np.abs(moved) - dtype(l1), 0)
            norms.append(float(w.astype(float) @ w.astype(float)))
    return norms, shrinkages


@given(seed=seeds, l1=st.floats(0.01, 1.0), margin=st.sampled_from([0.0, 1e-3, 0.05]), wide=st.booleans())
def test_theorem_1(seed, l1, margin, wide):
    """‖w‖² ≤ tR² for as many updates as the bound allows, in float32 and float64."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.6)
    y, dtype = np.where(rng.random(60) < 0.5, 1.0, -1.0), np.float64 if wide else np.float32
    X = X[X.any(axis=1)].astype(np.float32).astype(float)
    norms, shrinkages = naive_perceptron(X, y[: len(X)], l1, margin, dtype)
    R = np.linalg.norm(X, axis=1).max()
    rounds = norm_rounds(min(shrinkages), R, margin, 2.0**-53 if wide else 2.0**-24)
    for t, norm in enumerate(norms, start=1):
        assert t > rounds or norm <= t * R**2 * (1 + 1e-6)


def test_theorem_1_needs_its_condition():
    """A margin larger than what the threshold takes back: the bound allows nothing, and ‖w‖² does pass tR²."""
    X, y = np.ones((30, 1)), np.ones(30)
    norms, shrinkages = naive_perceptron(X, y, 0.0, 10.0, np.float64)
    assert norm_rounds(min(shrinkages), 1.0, 10.0) == 0.0
    assert norms[5] > 6


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((0.5, 2.0, 0.1, 0.01), 0.3 / (2 * 0.01 * 4) - 0.2 / 4),
        ((0.1, 1.0, 0.5, 0.01), 0.0),
        ((0.5, 1.0, 0.0, 0.0), math.inf),
        ((0.5, 1.0, 0.5, 0.0), 0.0),
    ],
)
def test_norm_rounds(arguments, expected):
    assert norm_rounds(*arguments) == pytest.approx(expected)


@given(seed=seeds, push=st.sampled_from([0.03, 0.3, 3.0]), share=st.floats(0.0, 0.95), length=st.floats(0.1, 10.0))
def test_theorem_2(seed, push, share, length):
    """No more updates than the bound, in one pass or thirty; the length of u plays no part."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=6)
    u /= np.linalg.norm(u)
    X = rng.normal(size=(20, 6))
    y = np.where(X @ u > 0, 1.0, -1.0)
    assume(len(np.unique(y)) == 2)
    X += push * np.outer(y, u)
    l1 = share * np.min(y * (X @ u)) / np.abs(u).sum()
    bound = mistake_bound(X, y, length * u, l1)
    naive = np.linalg.norm(X, axis=1).max() / (np.min(y * (X @ u)) - l1 * np.abs(u).sum())
    assert bound == pytest.approx(naive**2)
    for n in (1, 30):
        model = ts.StableSparsePerceptron(l1=l1, n_passes=n, dtype="float64", fit_intercept=False).fit(X, y)
        assert model.n_updates_ <= bound * (1 + 1e-9)


def test_theorem_2_without_a_margin():
    assert mistake_bound([[1.0], [1.0]], [1, -1], [1.0]) == math.inf
    assert mistake_bound([[1.0], [-1.0]], [1, -1], [1.0], l1=1.0) == math.inf


@given(m=st.integers(2, 5000), share=st.floats(0.0, 0.99), delta=st.floats(1e-6, 0.5))
def test_theorem_3(m, share, delta):
    """Equation 17; Lemma 3 at that error says δ/m at most, and the number of choices is exact for whole k."""
    k = int(share * m)
    error = generalisation_bound(m, k, delta)
    assert error == pytest.approx((math.log(math.comb(m, k)) + math.log(m) - math.log(delta)) / (m - k), rel=1e-9)
    if error < 1:
        chance = math.log(math.comb(m, k)) + (m - k) * math.log1p(-error)
        assert chance <= math.log(delta / m) + 1e-6 * (1 + abs(chance))
    assert generalisation_bound(m, share * (m - 1), delta) > 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: norm_rounds(1.0, 0.0), "R must be > 0"),
        (lambda: mistake_bound([[1.0]], [1], [0.0]), "u must have one number for each of 1 features"),
        (lambda: generalisation_bound(10, 10), "k must be at least 0 and less than m"),
        (lambda: generalisation_bound(10, 2, 1.0), "delta between 0 and 1"),
    ],
)
def test_bad_parameters(call, message):
    with pytest.raises(InvalidParameterError, match=message):
        call()
