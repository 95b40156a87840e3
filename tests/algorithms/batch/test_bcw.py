"""BCW against Algorithm 1 as printed, and what must hold of it anyway."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

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
from tests.algorithms.batch.twins import NaiveBCW, run
from thinstream.algorithms.batch import arrays as blas
from thinstream.algorithms.batch.bcw import ByFeatures, ByRows
from thinstream.errors import InvalidInputError


@pytest.mark.twin
@fewer
@given(streams(), positive, losses, st.integers(1, 12), class_weights)
def test_bcw_equals_its_twin_however_the_rows_are_cut(stream, C, loss, size, class_weight):
    """Batches of a given size: weights, variances, counters; and the same bits in any calls, dense or sparse."""
    X, y, weights, cuts = stream
    assume(weights is None or weights.any())
    twin = run(NaiveBCW(X.shape[1], class_weight, C=C, loss_name=loss), batches(X, y, weights, size))
    assume(twin.edge > 1e-9)
    model = make("BCW", class_weight, C=C, loss=loss, batch_size=size)
    in_calls(model, X, y, weights, [], "dense")
    assert_like(model, twin)
    for form, some in (("dense", cuts), ("sparse", cuts), ("dense", list(range(len(y))))):
        other = make("BCW", class_weight, C=C, loss=loss, batch_size=size)
        in_calls(other, X, y, weights, some, form)
        assert state(other) == state(model)


@pytest.mark.twin
@fewer
@given(streams(), losses, st.booleans())
def test_each_call_is_a_batch_without_a_size(stream, loss, sparse):
    """Scores before each update, and the weights, over three calls."""
    X, y, _, cuts = stream
    parts = [(X[a:b], y[a:b], None) for a, b in pairwise([0, *cuts, len(y)]) if a < b]
    twin = run(NaiveBCW(X.shape[1], loss_name=loss), parts)
    assume(twin.edge > 1e-9)
    model = make("BCW", None, loss=loss)
    scores = in_calls(model, X, y, None, cuts, "sparse" if sparse else "dense")
    np.testing.assert_allclose(scores, twin.scores, rtol=1e-9, atol=1e-9)
    assert_like(model, twin)


def wide_and_tall():
    rng = np.random.default_rng(3)
    for n, d in ((200, 30), (30, 200)):
        X = rng.normal(size=(n, d))
        yield X, np.where(X @ rng.normal(size=d) > 0, 1.0, -1.0)


def test_the_smaller_inverse_is_taken():
    """Rows × rows while there are fewer rows than features, then features × features."""
    for X, y in wide_and_tall():
        model = make("BCW", None, batch_size=20)
        kinds = []
        for start in range(0, len(y), 20):
            model.partial_fit(X[start : start + 20], y[start : start + 20], classes=[-1.0, 1.0])
            kinds.append(type(model._model.learner.outputs.one.covariance))
        fewer = [min(start + 20, len(y)) // 20 * 20 < X.shape[1] for start in range(0, len(y), 20)]
        assert kinds == [ByRows if few else ByFeatures for few in fewer]


@fewer
@given(streams(rows=12), positive)
def test_no_variance_along_a_row_exceeds_its_bound(stream, C):
    """x·Σx ≤ 1/(C + 1/‖x‖²), and an update either reaches the margin or has α = C."""
    X, y, _, _ = stream
    model = make("BCW", None, C=C).partial_fit(X, y, classes=[-1.0, 1.0])
    Sigma = np.linalg.inv(np.eye(X.shape[1]) + C * X.T @ X)
    np.testing.assert_allclose(model.variance_, np.diag(Sigma), rtol=1e-9)
    for x, label in zip(X, y, strict=True):
        if x.any():
            before, bound = model.decision_function(x[np.newaxis])[0], 1.0 / (C + 1.0 / (x @ x))
            assert x @ Sigma @ x <= bound * (1 + 1e-12)
            S = np.linalg.inv(np.linalg.inv(Sigma) + C * np.outer(x, x))
            one = make("BCW", None, C=C).partial_fit(X, y, classes=[-1.0, 1.0]).partial_fit(x[np.newaxis], [label])
            after = one.decision_function(x[np.newaxis])[0]
            reached = before * label + C * (x @ S @ x)
            np.testing.assert_allclose(after * label, max(before * label, min(1.0, reached)), rtol=1e-9, atol=1e-9)


def test_unused_features_stay_exactly_zero():
    """Whichever inverse is used."""
    for X, y in wide_and_tall():
        X[:, 5] = 0.0
        model = ts.BCW().fit(X, y)
        assert model.coef_[0, 5] == 0.0
        assert model.variance_[5] == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_collinear_columns_of_any_size(dtype):
    """Where rounding eats the unit matrix the factorisation goes on all the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) * (1e5 if dtype == "float32" else 1e12)
    X = np.hstack([X, X, 2.0 * X])
    y = np.where(X[:, 0] > 0, 1, -1)
    model = ts.BCW(dtype=dtype).fit(X, y)
    assert np.all(np.isfinite(model.coef_))
    assert model.score(X, y) > 0.8
    assert np.all(np.isfinite(ts.BCW(dtype=dtype).fit(X[:8], y[:8]).coef_))


def test_float32_is_close_to_float64():
    for X, y in wide_and_tall():
        one, other = (ts.BCW(dtype=dtype).fit(X, y) for dtype in ("float32", "float64"))
        assert one.coef_.dtype == np.float32
        assert np.mean(one.predict(X) == other.predict(X)) > 0.97


def test_rows_that_wait():
    """They are counted, answered with the weights as they are, and flushed."""
    X, y = next(wide_and_tall())
    model = make("BCW", None, batch_size=60)
    scores = model.learn(X[:100], y[:100])
    assert (model.t_, model.n_waiting_) == (60, 40)
    np.testing.assert_array_equal(scores[60:], model.decision_function(X[60:100]))
    rest = model.learn(X[100:130], y[100:130])
    assert (model.t_, model.n_waiting_) == (120, 10)
    assert not np.array_equal(rest, model.decision_function(X[100:130]))
    model.flush()
    assert (model.t_, model.n_waiting_) == (130, 0)
    assert state(model) == state(make("BCW", None, batch_size=60).fit(X[:130], y[:130]))
    assert state(model.flush()) == state(model)


def test_memory_is_checked_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr(blas, "physical_memory", lambda: 10_000)
    X, y = next(wide_and_tall())
    with pytest.raises(InvalidInputError, match=r"BCW needs 0\.0 GB for covariances of 30 features.*SBCW"):
        ts.BCW().fit(X, y)
    with pytest.raises(InvalidInputError, match="products of 25 rows"):
        ts.BCW().fit(X[:25], y[:25])


@pytest.mark.parametrize("n", [10, 150])
@pytest.mark.parametrize(("value", "named"), [(np.nan, "NaN"), (np.inf, "infinity"), (1e200, "overflow")])
def test_bad_values_are_named_and_change_nothing(n, value, named):
    X, y = next(wide_and_tall())
    model = make("BCW", None).fit(X[150:], y[150:])
    before = state(model)
    X[3, 2] = value
    for rows in (X[:n], sp.csr_matrix(X[:n])):
        with pytest.raises(InvalidInputError, match=f"({named}.*row 3, column 2|at row 3, column 2.*{named})"):
            model.partial_fit(rows, y[:n])
    assert state(model) == before


def test_bad_rows_do_not_wait():
    X, y = next(wide_and_tall())
    model = make("BCW", None, batch_size=100).partial_fit(X[:10], y[:10], classes=[-1.0, 1.0])
    X[11, 0] = np.nan
    with pytest.raises(InvalidInputError, match="NaN at row 1, column 0"):
        model.partial_fit(X[10:20], y[10:20])
    assert model.n_waiting_ == 10


def test_shuffling_is_a_permutation_of_the_rows():
    X, y = next(wide_and_tall())
    order = np.random.RandomState(7).permutation(len(y))
    one, other = ts.BCW(shuffle=True, random_state=7).fit(X, y), ts.BCW().fit(X[order], y[order])
    assert state(one) == state(other)


def test_an_intercept_is_a_constant_feature():
    X, y = next(wide_and_tall())
    one, other = ts.BCW(fit_intercept=True, dtype="float64").fit(X, y), ts.BCW(dtype="float64")
    other.fit(np.hstack([np.ones((len(y), 1)), X]), y)
    np.testing.assert_array_equal(one.coef_[0], other.coef_[0, 1:])
    assert one.intercept_[0] == other.coef_[0, 0]
    assert state(one) == state(ts.BCW(fit_intercept=True, dtype="float64").fit(sp.csr_matrix(X), y))
