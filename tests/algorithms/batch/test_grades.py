"""GraDes against its definition, its potential, and where it diverges."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.batch.naive import naive_grades, naive_hard
from tests.algorithms.batch.test_scd import as_dict, both_classes, costs
from tests.algorithms.online.conformance import class_weights
from tests.algorithms.online.golden import stream as golden_stream
from thinstream.algorithms.batch.base import Passes
from thinstream.algorithms.batch.grades import largest
from thinstream.batch import Batch
from thinstream.errors import InvalidParameterError


@pytest.mark.twin
@given(stream=both_classes, gamma=st.floats(0.5, 50.0), s=st.integers(1, 12), n=st.integers(1, 8), cw=class_weights)
def test_grades(stream, gamma, s, n, cw):
    """Weights and every potential, converging or not; an intercept as a last column."""
    c, ones = costs(stream, cw), np.ones((len(stream.y), 1))
    for intercept, X in ((False, stream.X), (True, np.hstack([stream.X, ones]))):
        w, potentials, edge = naive_grades(X, stream.y, gamma, s, n, c)
        assume(edge > 1e-9 * (1.0 + np.abs(w).max()))
        model = ts.GraDes(gamma=gamma, n_nonzero=s, n_iter=n, class_weight=as_dict(cw), fit_intercept=intercept)
        model.fit(sp.csr_matrix(stream.X), stream.y, sample_weight=stream.weights)
        found = np.append(model.coef_[0], model.intercept_ if intercept else [])
        np.testing.assert_allclose(found, w, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.potential_, potentials, rtol=1e-9, atol=1e-9)
        assert np.count_nonzero(found) <= s


@given(stream=both_classes, s=st.integers(1, 10), cw=class_weights)
def test_the_safe_gamma_never_raises_the_potential(stream, s, cw):
    """‖X‖₂² as the singular values have it, and Ψ falls whatever is kept."""
    model = ts.GraDes(n_nonzero=s, n_iter=15, class_weight=as_dict(cw)).fit(
        stream.X, stream.y, sample_weight=stream.weights
    )
    norm = np.linalg.norm(stream.X * np.sqrt(costs(stream, cw))[:, np.newaxis], 2) ** 2
    assert model.gamma_ == pytest.approx(norm or 1.0, rel=1e-9)
    assert np.all(np.diff(model.potential_) <= 1e-9 * (1.0 + model.potential_[0]))


@given(
    values=st.lists(st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0, 0.5]), min_size=1, max_size=12), s=st.integers(1, 14)
)
def test_what_is_kept(values, s):
    """H(v, s), with many ties."""
    np.testing.assert_array_equal(largest(np.array(values), s), naive_hard(values, s))


def test_a_tenth_of_the_weights_is_kept_by_default():
    X, y, *_ = golden_stream()
    assert ts.GraDes().fit(X, y).nnz_ == 5
    assert ts.GraDes().fit(X[:, :7], y).nnz_ == 1


def test_divergence_says_what_to_do():
    X, y, *_ = golden_stream()
    with pytest.raises(InvalidParameterError, match=r"it diverged, .* at least half of ‖X‖₂² = \d.*, or None, got 0.1"):
        ts.GraDes(gamma=0.1, n_iter=1000).fit(X, y)


GOLDEN = {"nnz": 10, "weights": 4.518340354657502, "first": 100.0, "last": 57.83481218913241}


@pytest.mark.twin
def test_golden_numbers():
    """Neither the twin nor the library may drift."""
    X, y, *_ = golden_stream()
    w, potentials, _ = naive_grades(X, y, 100.0, 10, 10)
    model = ts.GraDes(gamma=100.0, n_nonzero=10).fit(X, y)
    for weights, psi in ((w, potentials), (model.coef_[0], model.potential_)):
        found = {"nnz": np.count_nonzero(weights), "weights": np.abs(weights).sum(), "first": psi[0], "last": psi[-1]}
        assert found == pytest.approx(GOLDEN, rel=1e-9)


def test_a_stream_in_pieces_is_the_matrix():
    """Any batches, read anew for every iteration, in memory that does not hold them all."""
    X, y, *_ = golden_stream()
    rows = sp.csr_matrix(X)
    whole = Batch.of(rows.indptr, rows.indices, rows.data, 50, y=y.astype(np.int8))
    passes = []

    def batches():
        passes.append(1)
        for a in range(0, 200, 30):
            yield whole.after(a).until(min(30, 200 - a))

    class Source:
        classes, names, skipped = ("ham", "spam"), None, None
        feature_space, dtype, size, unit = {}, "float64", None, "rows"

        def batches(self):
            return batches()

    model = ts.GraDes(n_nonzero=10, fit_intercept=True).fit_stream(Source())
    other = ts.GraDes(n_nonzero=10, fit_intercept=True).fit(X, y)
    np.testing.assert_allclose(model.potential_, other.potential_, rtol=1e-9)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    assert model.classes_.tolist() == ["ham", "spam"]
    assert len(passes) >= 11
    np.testing.assert_array_equal(Passes(batches).block().X.toarray(), X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "GraDes: gamma must be a number > 0, or None, got 0.0"),
        ({"n_nonzero": 0}, "GraDes: n_nonzero must be a whole number ≥ 1, or None, got 0"),
        ({"n_iter": 1.5}, "GraDes: n_iter must be a whole number ≥ 1, got 1.5"),
        ({"class_weight": "bad"}, "GraDes: class_weight must be None, 'balanced' or a dict"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        ts.GraDes(**parameters).fit([[1.0], [2.0]], [0, 1])
