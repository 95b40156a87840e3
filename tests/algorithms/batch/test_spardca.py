"""SparDCA against its definition, and against the optimum it climbs to."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.batch.streams import assert_like, class_weights, fewer, losses, make, positive, streams
from tests.algorithms.batch.twins import NaiveSparDCA, run

l1 = st.one_of(st.just(0.0), st.floats(1e-3, 1.0))


@pytest.mark.twin
@fewer
@given(streams(), l1, positive, losses, st.integers(1, 4), class_weights)
def test_spardca_equals_its_twin(stream, tau, C, loss, epochs, class_weight):
    X, y, weights, _ = stream
    counted = y if weights is None else y[weights > 0]
    assume(len(set(counted.tolist())) == 2)
    twin = NaiveSparDCA(X.shape[1], class_weight, l1=tau, C=C, loss_name=loss, n_epochs=epochs)
    run(twin, [(X, y, weights)])
    assume(twin.edge > 1e-9)
    model = make("SparDCA", class_weight, l1=tau, C=C, loss=loss, n_epochs=epochs).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model._model.learner.outputs.one.a, twin.a, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(model.coef_[0], twin.w, rtol=1e-9, atol=1e-9)
    twin.updates = model.n_updates_  # an a_i at its bound moves or not by rounding
    assert_like(model, twin)


@fewer
@given(streams(), l1, positive, losses)
def test_the_gap_between_primal_and_dual_closes(stream, tau, C, loss):
    """After many epochs, on short rows; it is never negative, the dual only rises and stays within its bounds."""
    X, y, _, _ = stream
    assume(len(set(y.tolist())) == 2)
    X = X / max(1.0, np.linalg.norm(X, axis=1).max())
    q = 1 if loss == "hinge" else 2
    gaps, duals = [], []
    for epochs in (1, 400):
        model = make("SparDCA", None, l1=tau, C=C, loss=loss, n_epochs=epochs).fit(X, y)
        w, a = model.coef_[0], model._model.learner.outputs.one.a
        assert np.all(a >= 0)
        assert q == 2 or np.all(a <= C)
        xi = np.maximum(0.0, 1.0 - y * (X @ w))
        primal = 0.5 * w @ w + tau * np.abs(w).sum() + C / q * (xi**q).sum()
        dual = a.sum() - (q - 1) * (a @ a) / (2 * C) - 0.5 * w @ w
        gaps.append((primal - dual) / primal)
        duals.append(dual)
    assert min(gaps) > -1e-9
    assert gaps[1] < 0.02
    assert duals[1] >= duals[0] - 1e-9


def test_a_larger_l1_leaves_fewer_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 50))
    y = np.where(X[:, :3].sum(axis=1) > 0, 1, -1)
    kept = [ts.SparDCA(l1=tau, C=0.1).fit(X, y).nnz_ for tau in (0.0, 0.5, 2.0, 1e6)]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == 50
    assert kept[-1] == 0
    assert ts.SparDCA(l1=2.0, C=0.1).fit(X, y).get_support()[:3].all()


def test_every_visit_is_a_round():
    model = ts.SparDCA(n_epochs=3).fit([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0, 1, 0])
    assert model.t_ == 9
    assert not hasattr(model, "partial_fit")
