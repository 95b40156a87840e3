"""FGM: groups of its twin, weights that satisfy the conditions of the optimum."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from sklearn.exceptions import ConvergenceWarning

import thinstream as ts
from tests.algorithms.batch.streams import class_weights, make, positive, streams
from tests.algorithms.batch.twins import NaiveFGM, run
from thinstream.algorithms.batch import fgm


@pytest.mark.twin
@settings(max_examples=max(5, settings.default.max_examples // 8))
@given(streams(rows=14, features=7), class_weights)
def test_fgm_equals_its_twin(stream, class_weight):
    X, y, weights, _ = stream
    counted = y if weights is None else y[weights > 0]
    assume(len(set(counted.tolist())) == 2)
    twin = run(NaiveFGM(X.shape[1], class_weight, r=2, n_groups=3), [(X, y, weights)])
    assume(twin.edge > 1e-6)
    model = make("FGM", class_weight, group_size=2, n_groups=3).fit(X, y, sample_weight=weights)
    assert [J.tolist() for J in model._model.learner.outputs.one.groups] == twin.groups
    np.testing.assert_allclose(model.coef_[0], twin.w, rtol=1e-6, atol=1e-6)


@given(streams(), positive, class_weights)
def test_the_weights_are_optimal(stream, C, class_weight):
    """g_k = S·w_k/‖w_k‖ on active groups, ‖g_k‖ ≤ S elsewhere, with g = Σ C_i·ξ_i·y_i·x_i and S = Σ‖w_k‖."""
    X, y, _, _ = stream
    assume(len(set(y.tolist())) == 2)
    model = make("FGM", class_weight, group_size=3, n_groups=4, C=C).fit(X, y)
    w, groups = model.coef_[0], model._model.learner.outputs.one.groups
    assert model._model.learner.outputs.one.converged
    c = NaiveFGM(X.shape[1], class_weight).costs(y, np.ones(len(y)))
    g = X.T @ (C * c * y * np.maximum(0.0, 1.0 - y * (X @ w)))
    S = sum(np.linalg.norm(w[J]) for J in groups)
    for J in groups:
        size = np.linalg.norm(w[J])
        if size > 1e-9:
            np.testing.assert_allclose(g[J], S * w[J] / size, rtol=1e-6, atol=1e-6)
        else:
            assert np.linalg.norm(g[J]) <= S + 1e-6
    assert np.all(np.delete(w, np.concatenate(groups) if groups else []) == 0)


def test_it_says_so_if_it_stops_early(monkeypatch):
    monkeypatch.setattr(fgm, "MOST_STEPS", 2)
    with pytest.warns(ConvergenceWarning, match="FGM stopped before"):
        ts.FGM(n_groups=1).fit([[1.0, 0.5], [0.3, 2.0], [1.0, -1.0]], [0, 1, 1])


def test_it_finds_what_matters_and_selects():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 300))
    y = np.where(X[:, [3, 77]].sum(axis=1) > 0, 1, -1)
    model = ts.FGM(group_size=1, n_groups=2).fit(X, y)
    assert model.get_support(indices=True).tolist() == [3, 77]
    assert model.transform(X).shape == (200, 2)
    assert not hasattr(model, "partial_fit")
    assert (model.t_, model.n_mistakes_) == (200, int((model.predict(X) != y).sum()))
