"""CW, diagonal, variance and standard-deviation form, against its definition."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.online.conformance import conforms, positive
from tests.algorithms.online.test_arow import GaussianTwin
from tests.algorithms.online.twin import Round
from thinstream.batch import Batch
from thinstream.engine.loop import loop
from thinstream.lanes.full import full_loop
from thinstream.lanes.lanes import Lanes
from thinstream.models.model import make_learner


def stdev_alpha(m, v, phi):
    """CW's step in the standard-deviation form."""
    psi, zeta = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    return max(0.0, (-m * psi + np.sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * zeta)) / (v * zeta))


def root_u(alpha, v, phi):
    """√u, u = xᵀΣx after the step, in the form of section 11.3: the printed one cancels at α·φ·√v ≫ 1."""
    return 2.0 * v / (alpha * v * phi + np.sqrt((alpha * v * phi) ** 2 + 4.0 * v))


class NaiveCW(GaussianTwin):
    phi, form = 0.5244005127080407, "variance"

    def round(self, x, e):
        phi = self.phi
        s = self.mu @ x
        m = e.y * s
        v = self.confidence(x)
        bound = phi * v if self.form == "variance" else phi * np.sqrt(v)
        updated = m < bound
        self.decide(m, bound)
        if m == bound and v > 0:  # the step aims at m = bound: even an exact tie is an accident of rounding
            self.edge = 0.0
        part = min(e.weight, 1.0) * e.c / e.c_max
        if updated and self.form == "variance":
            b = 1.0 + 2.0 * phi * m
            alpha = max(0.0, (-b + np.sqrt(b**2 - 8.0 * phi * (m - phi * v))) / (4.0 * phi * v))
            self.step(x, e, alpha, 2.0 * alpha * phi, part)
        elif updated:
            alpha = stdev_alpha(m, v, phi)
            before = self.mu, self.sigma
            self.step(x, e, alpha, alpha * phi / root_u(alpha, v, phi), part)
            finite = np.isfinite(self.mu) & np.isfinite(1.0 / self.sigma)
            self.mu, self.sigma = np.where(finite, (self.mu, self.sigma), before)  # the others stand still
        return Round(s, max(0.0, bound - m), updated)


test_cw = conforms(
    "CW",
    NaiveCW,
    phi=st.floats(0.05, 1.0),
    a=positive,
    form=st.sampled_from(["variance", "stdev"]),
    diagonal=st.sampled_from(["exact", "drop"]),
)


def contradicting(seed, n, d, scale, dtype):
    """A batch of positive values, with labels that are noise."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=0.8, format="csr", rng=rng) * scale
    y = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
    return Batch.of(X.indptr, X.indices.astype(np.int32), X.data.astype(dtype), d, y)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{"diagonal": "exact"}, {"diagonal": "drop"}, {"covariance": "full"}])
@given(
    seed=st.integers(0, 999),
    d=st.integers(1, 3),
    scale=st.sampled_from([1e-6, 0.1, 1.0, 1e6]),
    phi=st.floats(0.05, 3.0),
    constant=st.booleans(),
)
def test_contradicting_labels_are_never_refused(dtype, options, seed, d, scale, phi, constant):
    """The variance falls to the smallest number there is. The weight then stands still."""
    batch = contradicting(seed, 60, d, scale, dtype)
    options = {"n_features": d, "dtype": dtype, "fit_intercept": constant, "form": "stdev", "phi": phi, **options}
    model = make_learner("cw", **options)
    scores = np.concatenate([model.learn(batch), model.learn(batch)])
    assert np.isfinite(scores).all()
    assert all(np.isfinite(array).all() for array in model.memory)
    assert model.variance().min() >= 0
    assert model.t == 120


@pytest.mark.parametrize("diagonal", ["exact", "drop"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_standing_still_is_the_same_in_lanes_and_in_chunks(diagonal, dtype):
    batch = contradicting(3, 60, 2, 0.3, dtype)
    options = {"n_features": 2, "dtype": dtype}
    own = [{"form": "stdev", "diagonal": diagonal, "phi": phi} for phi in (0.5, 1.0, 2.0)]
    lanes = Lanes("cw", own, **options)
    scores = lanes.learn(batch)
    for k, parameters in enumerate(own):
        alone, rows = make_learner("cw", **options, **parameters), make_learner("cw", **options, **parameters)
        np.testing.assert_array_equal(scores[:, k], alone.learn(batch))
        for i in range(len(batch)):
            rows.learn(batch.after(i).until(1))
        for a, b, c in zip(lanes[k].memory, alone.memory, rows.memory, strict=True):
            assert a.tobytes() == b.tobytes() == c.tobytes()


@pytest.mark.parametrize("options", [{"diagonal": "exact"}, {"diagonal": "drop"}, {"covariance": "full"}])
def test_standing_still_is_the_same_compiled_and_interpreted(options, monkeypatch):
    batch = contradicting(3, 60, 2, 0.3, "float64")
    compiled = make_learner("cw", n_features=2, dtype="float64", form="stdev", phi=1.0, **options)
    interpreted = copy.deepcopy(compiled)
    expected = compiled.learn(batch)
    monkeypatch.setattr("thinstream.lanes.learner.loop_for", lambda rule: loop)
    monkeypatch.setattr("thinstream.lanes.full.full_loop_for", lambda rule: full_loop)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(interpreted.learn(batch), expected)
    for a, b in zip(interpreted.memory, compiled.memory, strict=True):
        assert a.tobytes() == b.tobytes()
