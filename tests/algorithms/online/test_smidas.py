"""SMIDAS (P2 Equations 8 and 9) against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
import thinstream.errors
from tests.algorithms.online.conformance import conforms, positive, streams
from tests.algorithms.online.twin import Round, Twin, soft


class NaiveSMIDAS(Twin):
    eta, l1, p, threshold = 0.1, 0.0, None, "l1"
    averages = ("theta",)

    def start(self):
        self.theta = np.zeros(self.d)

    def weights(self):
        p = max(2.0, 2.0 * np.log(self.d)) if self.p is None else self.p
        norm = np.sum(np.abs(self.theta) ** p) ** (1.0 / p)
        if norm == 0.0:
            return np.zeros(self.d)
        return np.sign(self.theta) * np.abs(self.theta) ** (p - 1.0) / norm ** (p - 2.0)

    def round(self, x, e):
        s = self.weights() @ x
        c = e.c * e.weight
        gradient = -c * e.y * x * np.exp(-np.logaddexp(0.0, e.y * s))
        a = {"l1": self.l1, "eta_l1": self.eta * self.l1}[self.threshold]  # [E17]
        v = self.theta - self.eta * gradient
        self.theta = soft(v, a)
        return Round(s, c * np.logaddexp(0.0, -e.y * s), True)


test_smidas = conforms(
    "SMIDAS",
    NaiveSMIDAS,
    eta=positive,
    l1=st.just(0.0) | st.floats(1e-4, 0.3),
    p=st.just(2.0) | st.floats(2.0, 12.0),  # None needs the width, see below
    threshold=st.sampled_from(["l1", "eta_l1"]),
)


def fitted(stream, **parameters):
    model = ts.SMIDAS(dtype="float64", fit_intercept=False, **parameters)
    return model.partial_fit(stream.X, stream.y, classes=[-1, 1])


@given(stream=streams(), eta=positive, l1=st.floats(0.0, 0.3), p=st.floats(2.0, 12.0))
def test_the_list_holds_what_is_not_zero(stream, eta, l1, p):
    model = fitted(stream, eta=eta, l1=l1, p=p)
    memory, rule = model._model.learner.outputs.one.memory, model._model.learner.outputs.one.rule
    assert rule.sound(memory)
    before = [array.copy() for array in memory]
    rule.rebuild(memory)
    assert rule.sound(memory)
    np.testing.assert_allclose(memory.state, before[0], rtol=1e-12)


@given(stream=streams(), eta=positive, l1=st.floats(0.0, 0.3))
def test_p_2_is_stochastic_gradient_descent_with_a_threshold(stream, eta, l1):
    other = ts.FOBOS(eta=eta, l1=l1, rate="const", loss="logistic", dtype="float64", fit_intercept=False)
    other.partial_fit(stream.X, stream.y, classes=[-1, 1])
    model = fitted(stream, eta=eta, l1=l1, p=2, threshold="eta_l1")
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_powers_of_extreme_numbers_stay_finite(scale):
    """|θ|^p would underflow or overflow at p = 30; scaled by the largest it does neither."""
    X = np.array([[1.0, 0.5], [0.25, -1.0]]) * scale
    model = ts.SMIDAS(p=30, dtype="float64", fit_intercept=False).fit(X, [0, 1])
    assert np.all(np.isfinite(model.coef_))
    assert model.nnz_ == 2


def test_what_underflows_is_zero():
    """θ has two entries, w one: 1e-9 to the power of 99 is nothing."""
    model = ts.SMIDAS(p=100, dtype="float64", fit_intercept=False).fit([[1.0, 1e-9], [0.0, 0.0]], [1, 0])
    assert model.nnz_ == 1
    assert np.count_nonzero(model._model.learner.outputs.one.memory.state[::2]) == 2


@given(stream=streams(), l1=st.floats(0.0, 0.01))
def test_p_is_2_ln_d_by_default(stream, l1):
    d = stream.X.shape[1]
    model, told = fitted(stream, l1=l1), fitted(stream, l1=l1, p=max(2.0, 2.0 * np.log(d)))
    np.testing.assert_array_equal(model.coef_, told.coef_)


def test_p_needs_the_number_of_features():
    with pytest.raises(ts.errors.InvalidParameterError, match="need the number of features in advance"):
        ts.SMIDAS(grow=True, fit_intercept=False).partial_fit([[1.0]], [1], classes=[0, 1])
    with pytest.raises(ts.errors.InvalidParameterError, match=r"p must be a number ≥ 2, or None, got 1\.5"):
        ts.SMIDAS(p=1.5, fit_intercept=False).fit([[1.0], [2.0]], [0, 1])
    assert ts.SMIDAS(grow=True, p=3, fit_intercept=False).partial_fit([[1.0]], [1], classes=[0, 1]).t_ == 1


@pytest.mark.parametrize(
    ("head", "links"),
    [(-1.0, [0, 0, 0]), (1.0, [2, 1, 0]), (1.0, [3, 0, -1]), (1.0, [9, -1, 0]), (1.5, [2, -1, 0]), (1.0, [2, -1, -1])],
    ids=["empty", "circle", "a zero in it", "outside", "between", "a stray link"],
)
def test_a_foreign_list_is_not_sound(head, links):
    """θ = (1, 1, 0) has the list 1 → 2 → end, or 2 → 1 → end, and no other."""
    model = ts.SMIDAS(p=3, fit_intercept=False).fit([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [1, 0])
    memory, rule = model._model.learner.outputs.one.memory, model._model.learner.outputs.one.rule
    for fine in ((1.0, [2, -1, 0]), (2.0, [-1, 1, 0])):
        memory.extra[0], memory.clocks[:] = fine
        assert rule.sound(memory)
    memory.extra[0], memory.clocks[:] = head, links
    assert not rule.sound(memory)


def test_a_stream_needs_p(tmp_path):
    (tmp_path / "a.svm").write_text("+1 1:1\n-1 2:1\n")
    stream = ts.open_stream(tmp_path / "a.svm")
    with pytest.raises(ts.errors.InvalidParameterError, match="give p as a number"):
        ts.SMIDAS(fit_intercept=False).fit_stream(stream)
    assert ts.SMIDAS(p=3, fit_intercept=False).fit_stream(stream).nnz_ == 2
