"""SBCW against Algorithms 2 and 3 as printed, the map ∇Ω*, and its use as a selector."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import thinstream as ts
from tests.algorithms.batch.streams import (
    assert_like,
    batches,
    class_weights,
    fewer,
    in_calls,
    losses,
    make,
    positive,
    state,
    streams,
)
from tests.algorithms.batch.twins import NaiveSBCW, run
from thinstream.algorithms.batch.fgm import prox
from thinstream.algorithms.batch.sbcw import conjugate_map


@pytest.mark.twin
@given(
    streams(),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
    positive,
    losses,
    st.sampled_from([1e-3, 0.1, 2.0]),
    st.integers(2, 30),
    class_weights,
)
def test_sbcw_equals_its_twin_however_the_rows_are_cut(stream, groups, C, loss, sigma, size, class_weight):
    """Weights, groups, variances and counters over batches; the same bits in any calls, dense or sparse."""
    X, y, weights, cuts = stream
    assume(weights is None or weights.any())
    (r, n_groups), d = groups, X.shape[1]
    twin = NaiveSBCW(d, class_weight, r=r, n_groups=n_groups, C=C, loss_name=loss, sigma=sigma)
    run(twin, batches(X, y, weights, size))
    assume(twin.edge > 1e-9)
    parameters = {"group_size": r, "n_groups": n_groups, "C": C, "loss": loss, "sigma": sigma, "batch_size": size}
    model = make("SBCW", class_weight, **parameters)
    in_calls(model, X, y, weights, [], "sparse")
    assert [J.tolist() for J in model._model.learner.outputs.one.groups] == twin.groups
    assert_like(model, twin)
    other = make("SBCW", class_weight, **parameters)
    in_calls(other, X, y, weights, cuts, "dense")
    assert state(other) == state(model)


@pytest.mark.twin
@fewer
@given(streams(), st.sampled_from([1e-3, 0.05, 0.5]), losses)
def test_choosing_stops_when_the_objective_does(stream, tol, loss):
    X, y, _, _ = stream
    twin = run(NaiveSBCW(X.shape[1], r=2, n_groups=6, tol=tol, loss_name=loss), [(X, y, None)])
    assume(twin.edge > 1e-9)
    model = make("SBCW", None, group_size=2, n_groups=6, tol=tol, loss=loss).partial_fit(X, y, classes=[-1.0, 1.0])
    assert [J.tolist() for J in model._model.learner.outputs.one.groups] == twin.groups
    assert_like(model, twin)


norms = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 10.0)), min_size=1, max_size=8).map(np.array)


def mapped(a, sigma):
    order, c = np.arange(len(a)), np.empty(len(a))
    conjugate_map(a, sigma, order, c)
    return c


@given(norms, st.sampled_from([1e-8, 1e-3, 0.1, 1.0, 30.0]))
def test_the_map_is_stationary(a, sigma):
    """σ·c_k + S = a_k on active groups, a_k ≤ S elsewhere, S = Σc; and Ω*(z) = ½·w·z = Ω(w)."""
    c = mapped(a, sigma)
    S = c.sum()
    assert np.all(c >= 0)
    np.testing.assert_allclose((sigma * c + S)[c > 0], a[c > 0], rtol=1e-9)
    assert np.all(a[c == 0] <= S * (1 + 1e-9))
    np.testing.assert_allclose(0.5 * c @ a, 0.5 * sigma * c @ c + 0.5 * S**2, rtol=1e-7, atol=1e-300)


@fewer
@given(norms, st.integers(0, 2**32 - 1))
def test_the_map_maximises(a, seed):
    """No other w does better in w·z − Ω(w)."""
    c, rng = mapped(a, 0.1), np.random.default_rng(seed)

    def value(c):
        return c @ a - 0.05 * c @ c - 0.5 * c.sum() ** 2

    for _ in range(5):
        other = np.maximum(0.0, c + rng.normal(0.0, 0.1, len(a)))
        assert value(other) <= value(c) + 1e-12
    np.testing.assert_allclose(value(c), 0.5 * c @ a, rtol=1e-9)


def test_one_group_is_a_division():
    np.testing.assert_allclose(mapped(np.array([3.0]), 0.5), [2.0])


@given(norms, st.sampled_from([0.01, 0.5, 3.0]))
def test_the_prox_is_stationary(a, tau):
    """c_k + τ·S = a_k where c_k > 0, a_k ≤ τ·S elsewhere."""
    c = prox(a, tau)
    S = c.sum()
    np.testing.assert_allclose((c + tau * S)[c > 0], a[c > 0], rtol=1e-9)
    assert np.all(a[c == 0] <= tau * S * (1 + 1e-9))


@given(streams(rows=20, features=6), losses)
def test_one_group_of_all_features_is_bcw(stream, loss):
    """With σ → 0."""
    X, y, _, _ = stream
    X = X + 0.01 * np.sign(y)[:, np.newaxis]  # so that no score is 0 and no feature is left out
    one = make("SBCW", None, group_size=X.shape[1], n_groups=1, sigma=1e-13, loss=loss)
    other = make("BCW", None, loss=loss)
    s, t = (model.learn(X, y, classes=[-1.0, 1.0]) for model in (one, other))
    assume(np.abs(y * t - 1.0).min() > 1e-6)
    np.testing.assert_allclose(s, t, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(one.variance_, other.variance_, rtol=1e-9)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    noise = sp.random(300, 1995, 0.02, random_state=rng, data_rvs=rng.standard_normal)
    signal = rng.standard_normal((300, 5))
    return sp.hstack([sp.csr_matrix(signal), noise], format="csr"), np.where(signal.sum(axis=1) > 0, "spam", "ham")


def test_wanted_features_set_the_size_of_groups(data):
    X, y = data
    model = ts.SBCW(n_features=20, n_groups=6).fit(X, y)
    assert [len(J) for J in model._model.learner.outputs.one.groups] == [4] * 6
    assert model.nnz_ <= 24
    chosen = np.concatenate(model._model.learner.outputs.one.groups)
    assert len(np.unique(chosen)) == 24
    assert set(range(5)) <= set(chosen.tolist())


def test_it_selects_in_a_pipeline(data):
    """get_support are the chosen features, weights or not; what follows sees only these columns."""
    X, y = data
    model = ts.SBCW(group_size=5, n_groups=2).fit(X, y)
    chosen = np.sort(np.concatenate(model._model.learner.outputs.one.groups))
    np.testing.assert_array_equal(model.get_support(indices=True), chosen)
    assert set(np.flatnonzero(model.coef_)) <= set(chosen.tolist())
    moved = ts.SBCW(group_size=5, n_groups=2, fit_intercept=True).fit(X, y)  # coordinates are one further
    assert set(np.flatnonzero(moved.coef_)) <= set(moved.get_support(indices=True).tolist())
    assert (model.transform(X) != X[:, model.get_support()]).nnz == 0
    whole = make_pipeline(ts.SBCW(group_size=5, n_groups=2), LogisticRegression()).fit(X, y)
    assert whole[-1].coef_.shape == (1, 10)
    assert whole.score(X, y) > 0.9


def test_weights_sit_on_the_features_that_matter(data):
    X, y = data
    model = ts.SBCW(group_size=5, n_groups=3, sigma=0.1).fit(X, y)
    assert model.score(X, y) > 0.9
    assert set(np.argsort(-np.abs(model.coef_[0]))[:5].tolist()) == set(range(5))


def test_memory_is_that_of_the_non_zeros():
    """A million features: a few vectors of that length, nothing near features × rows."""
    rng = np.random.default_rng(0)
    n, d, per_row = 400, 1_000_000, 30
    indices = np.sort(rng.integers(0, d, (n, per_row)), axis=1)
    indices[:, 0] = np.arange(n) % 3
    X = sp.csr_matrix((np.ones(n * per_row), indices.ravel(), np.arange(n + 1) * per_row), shape=(n, d))
    X.sum_duplicates()
    y = np.where(np.arange(n) % 3 == 1, 1, -1)
    model = ts.SBCW(group_size=10, n_groups=5)
    model.partial_fit(X[:8], y[:8], classes=[-1, 1])
    tracemalloc.start()
    model.partial_fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 * d  # bytes
    assert model.get_support()[1]


def test_empty_rows_and_nothing_to_choose():
    """Rows without features are rows; where every score is 0 no group is chosen."""
    model = ts.SBCW().fit(np.zeros((4, 3)), [0, 1, 0, 1])
    assert model.nnz_ == 0
    assert model._model.learner.outputs.one.groups == []
    assert model.predict(np.zeros((2, 3))).tolist() == [0, 0]
    assert model.t_ == 4
    with_gaps = ts.SBCW(group_size=1, n_groups=2).fit([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 1, 0])
    assert with_gaps.predict([[1.0, 0.0], [0.0, 1.0]]).tolist() == [1, 0]
