"""Corollaries 1 and 4 of the framework for sparse online learning, and the rates that minimize the bounds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.online.conformance import positive
from thinstream.diagnostics import arcsogd_bound, arcsogd_rate, framework_bound, fsol_bound, fsol_rate


def rounds(seed, T=40, d=4):
    """Rows, noisy labels, costs and a comparator."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T, d)) * (rng.random((T, d)) < 0.7)
    y = np.where(rng.random(T) < 0.4, 1.0, -1.0)
    return X, y, rng.uniform(0.3, 3.0, T), rng.normal(size=d)


def play(X, y, c, eta, l1, r):
    """Run Algorithm 2 with Φ_t(w) = ½wᵀA_tw, A_t = I + Σxxᵀ/r (r = 0: A_t = I); return what its corollaries need."""
    T, d = X.shape
    A, theta, loss = np.eye(d), np.zeros(d), 0.0
    dual, absolute, growth = np.zeros(T), np.zeros(T), 0.0
    for t in range(T):
        before = theta @ np.linalg.solve(A, theta) / 2
        if r:
            A = A + np.outer(X[t], X[t]) / r
        u = np.linalg.solve(A, theta)
        growth += theta @ u / 2 - before
        w = np.sign(u) * np.maximum(np.abs(u) - l1[t], 0.0)
        own = max(0.0, 1.0 - y[t] * (w @ X[t]))
        loss += c[t] * own
        if own > 0:
            dual[t] = np.sqrt(X[t] @ np.linalg.solve(A, X[t]))
            absolute[t] = np.abs(X[t]).sum()
            theta = theta + eta * c[t] * y[t] * X[t]
    return A, loss, dual, absolute, growth


@pytest.mark.parametrize("r", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("equal", [True, False])
@given(seed=st.integers(0, 9999), eta=positive, l1=st.sampled_from([0.0, 0.05, 0.5]))
def test_the_corollaries_hold(r, equal, seed, eta, l1):
    """For a constant function, as in FSOL, and for one that grows, as in SSOL."""
    X, y, c, w = rounds(seed)
    c = np.ones(len(y)) if equal else c
    thresholds = l1 / np.arange(1, len(y) + 1) if r else np.full(len(y), eta * l1)
    A, loss, dual, absolute, growth = play(X, y, c, eta, thresholds, r)
    bound = framework_bound(w @ A @ w / 2, dual, absolute, thresholds, eta=eta, costs=c, growth=growth)
    other = float(c @ np.maximum(0.0, 1.0 - y * (X @ w)))
    assert loss - other <= bound.total + 1e-9 * (1.0 + abs(bound.total))
    assert growth <= 1e-9
    if not r:
        norm = np.abs(X).sum(axis=1).max()
        assert bound.total <= fsol_bound(w, eta=eta, l1=l1, norm=norm, costs=c).total + 1e-9


def test_every_term_of_the_corollaries_is_needed():
    """A larger η needs the second-order term, a smaller one the comparator's term."""
    X, y = np.ones((40, 1)), np.tile([1.0, -1.0], 20)
    _, loss, dual, absolute, _ = play(X, y, np.ones(40), 2.0, np.zeros(40), 0.0)
    bound = framework_bound(0.0, dual, absolute, 0.0, eta=2.0)
    assert loss - 40.0 > bound.total - bound.second_order
    _, loss, dual, absolute, _ = play(X, np.ones(40), np.ones(40), 0.01, np.zeros(40), 0.0)
    bound = framework_bound(0.5, dual, absolute, 0.0, eta=0.01)
    assert loss > bound.total - bound.comparator


@given(seed=st.integers(0, 9999), l1=st.sampled_from([0.0, 0.1, 1.0]), factor=st.floats(0.1, 10.0))
def test_no_other_rate_has_a_smaller_bound(seed, l1, factor):
    _, _, c, w = rounds(seed)
    best = fsol_rate(w, l1=l1, norm=2.0, costs=c)
    smallest = fsol_bound(w, eta=best, l1=l1, norm=2.0, costs=c).total
    assert smallest <= fsol_bound(w, eta=best * factor, l1=l1, norm=2.0, costs=c).total * (1 + 1e-12)
    ones = np.ones(50)
    tuned = fsol_bound(w, eta=fsol_rate(w, l1=l1, norm=2.0, costs=ones), l1=l1, norm=2.0, costs=ones).total
    assert tuned == pytest.approx(np.linalg.norm(w) * np.sqrt((4.0 + 4.0 * l1) * 50))
    precision = 1.0 + c
    best = arcsogd_rate(1.5, precision, gamma=0.7)
    smallest = arcsogd_bound(1.5, precision, eta=best, gamma=0.7).total
    assert smallest <= arcsogd_bound(1.5, precision, eta=best * factor, gamma=0.7).total * (1 + 1e-12)
    assert smallest == pytest.approx(1.5 * np.sqrt(0.7 * precision.sum() * np.log(precision).sum()))
