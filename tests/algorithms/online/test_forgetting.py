"""Forgetting (§17): lazily, a coordinate when it is met, against its definition, all of them after every row."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import (
    TWINS,
    Stream,
    assert_same_bits,
    check,
    class_weights,
    streams,
)
from tests.algorithms.online.golden import can_forget, daily, twins
from tests.algorithms.online.test_adarda import NaiveAdaRDA
from thinstream.errors import InvalidParameterError, ModelFileError
from thinstream.models.model import make_learner

FORGETFUL = sorted(name for name, (twin, _) in twins().items() if can_forget(twin))
some = settings(max_examples=settings.default.max_examples // 2)
OTHERS = sorted(algorithm.name for algorithm in ts.algorithms() if algorithm.name not in FORGETFUL)


def own(name, **parameters):
    """Parameters with the one kind of covariance that can be discounted."""
    return {**parameters, "diagonal": "exact"} if "diagonal" in TWINS[name][1] else parameters


@pytest.mark.parametrize("name", [*map(daily, FORGETFUL)])
@settings(
    max_examples=settings.default.max_examples // 2,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data(), stream=streams(), class_weight=class_weights)
def test_lazy_is_dense_in_any_chunks(name, data, stream, class_weight):
    twin, strategies = TWINS[name]
    drawn = data.draw(st.fixed_dictionaries(strategies))
    half_life = data.draw(st.one_of(st.floats(1.0, 60.0), st.sampled_from([1.0, 1e6])))
    check(name, twin, stream, own(name, **drawn | {"half_life": half_life}), class_weight)


def long_stream(n, d=30):
    """A noisy concept that turns around halfway; a few features are in every row, some are rare."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < np.linspace(0.004, 1.0, d) ** 2)
    concept = rng.normal(size=d)
    y = np.sign(X @ concept + 0.3 * rng.normal(size=n)) * np.where(np.arange(n) < n // 2, 1.0, -1.0)
    return Stream(X, np.where(y == 0, 1.0, y), None, [])


def assert_lazy_is_dense(name, n, half_life):
    stream, (twin, _) = long_stream(n), TWINS[name]
    parameters = own(name, half_life=half_life, **({"l1": 1e-3} if hasattr(twin, "l1") else {}))
    naive = twin(stream.X.shape[1], **parameters)
    for x, y in zip(stream.X, stream.y, strict=True):
        naive.learn(x, y)
    assert naive.edge > 1e-10  # no decision that rounding could turn
    model = ts.make(name, dtype="float64", fit_intercept=False, **parameters)
    scores = model.learn(sp.csr_matrix(stream.X), stream.y, classes=[-1, 1])
    for found, expected in ((scores, naive.scores), (model.coef_[0], naive.weights())):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())
    assert (model.n_mistakes_, model.n_updates_) == (naive.mistakes, naive.updates)
    if hasattr(naive, "variance"):
        np.testing.assert_allclose(model.variance_, naive.variance(), rtol=1e-12)


@pytest.mark.parametrize("half_life", [1.0, 50.0, 1e6])
@pytest.mark.parametrize("name", [*map(daily, FORGETFUL)])
def test_lazy_is_dense_over_many_rows(name, half_life):
    assert_lazy_is_dense(name, 400, half_life)


@pytest.mark.slow
@pytest.mark.parametrize("half_life", [1.0, 3.5, 100.0, 1e3, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("name", FORGETFUL)
def test_lazy_is_dense_over_ten_thousand_rows(name, half_life):
    assert_lazy_is_dense(name, 10_000, half_life)


def standing(n=20_000, d=20):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4)
    return X, np.where(X @ rng.normal(size=d) > 0, 1, -1)


def test_a_model_with_l1_does_not_die():
    """T saturates as G and S do; were tλ to grow on, no weight would be left of a concept that stands still."""
    X, y = standing()
    model = ts.AdaRDA(l1=0.02, half_life=500, fit_intercept=False)
    wrong = (model.learn(X, y, classes=[-1, 1]) > 0) != (y > 0)
    assert model.nnz_ > 10
    assert wrong[-5000:].mean() < 0.12
    assert wrong[-5000:].mean() <= wrong[2000:7000].mean() + 0.01

    class Dying(NaiveAdaRDA):
        def forget(self, rho):
            super().forget(rho)
            self.T = float(self.t)

    dying = Dying(20, l1=0.02, half_life=500.0)
    for x, label in zip(X, y, strict=True):
        dying.learn(x, label)
    assert not dying.weights().any()


def test_what_turned_around_is_learned_again():
    """A concept that turns around: with a half-life its weights change sign in time, without they do not."""
    X, y = standing(4000)
    y[2000:] *= -1
    late = slice(2500, 4000)
    errors = {}
    for half_life in (None, 200):
        scores = ts.AROW(half_life=half_life, dtype="float64").learn(X, y, classes=[-1, 1])
        errors[half_life] = np.mean((scores[late] > 0) != (y[late] > 0))
    assert errors[200] < 0.15 < errors[None]


@pytest.mark.parametrize("name", [*map(daily, ["FSOL", "SSOL", "AROW"])])
def test_saved_and_resumed_pickled_and_grown(name, tmp_path):
    X, y = standing(300)
    parameters = own(name, half_life=20, class_weight="balanced", dtype="float64", grow=True)
    whole, parts = ts.make(name, **parameters), ts.make(name, **parameters)
    whole.learn(X[:100, :7], y[:100], classes=[-1, 1])
    whole.learn(X[100:], y[100:])
    parts.learn(X[:40, :7], y[:40], classes=[-1, 1])
    parts.save(tmp_path / "model")
    parts = ts.load(tmp_path / "model")
    assert parts.get_params()["half_life"] == 20
    parts.learn(X[40:100, :7], y[40:100])
    parts = pickle.loads(pickle.dumps(parts))
    parts.learn(X[100:], y[100:])
    assert_same_bits(whole, parts)
    for model in (whole, parts):
        model.save(tmp_path / f"{model is whole}")
    assert (tmp_path / "True").read_bytes() == (tmp_path / "False").read_bytes()
    before = pickle.dumps(whole)
    whole.coef_, whole.predict(X), whole.variance_ if name != "FSOL" else None
    assert pickle.dumps(whole) == before  # reading forgets without writing it down


def test_clocks_of_rounds_that_never_were_are_not_believed(tmp_path):
    X, y = standing(30)
    for name, value in (("clocks", 31.0), ("clocks", -1.0), ("totals", 31.0)):
        model = ts.FSOL(half_life=10).fit(X, y)
        getattr(model._model.learner.outputs.one.memory, name)[-1] = value
        model.save(tmp_path / "model")
        with pytest.raises(ModelFileError, match="the state of FSOL is inconsistent"):
            ts.load(tmp_path / "model")


def test_a_model_of_its_weights_predicts_the_same(tmp_path):
    X, y = standing(300)
    model = ts.FSOL(half_life=10, l1=0.01).fit(X, y)
    model.save(tmp_path / "weights", weights_only=True)
    frozen = pickle.loads(pickle.dumps(ts.load(tmp_path / "weights")))
    assert frozen.half_life == 10
    assert np.array_equal(frozen.decision_function(X), model.decision_function(X))


def test_more_than_two_classes():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(200, 5)), rng.integers(0, 3, 200)
    model = ts.AROW(half_life=30, dtype="float64").fit(X, y)
    for k in range(3):
        alone = ts.AROW(half_life=30, dtype="float64").fit(X, (y == k).astype(int))
        assert np.array_equal(alone.coef_[0], model.coef_[k])
        assert np.array_equal(alone.variance_, model.variance_[k])


def test_a_model_that_does_not_forget_is_what_it_was(tmp_path):
    """None: no clocks, and a file that does not know of half-lives."""
    X, y = standing(50)
    for name in FORGETFUL:
        model = ts.make(name).fit(X, y)
        assert model._model.learner.outputs.one.memory.clocks.size == 0
        assert len(model._model.learner.outputs.one.memory.totals) == 1
        model.save(tmp_path / name)
        assert b"half_life" not in (tmp_path / name).read_bytes()
        assert ts.load(tmp_path / name).half_life is None


def test_what_cannot_forget_says_so():
    for name in OTHERS:
        can = "AdaRDA, AROW, CW, FSOL, NAROW, RDA, SCW and SSOL have it"
        with pytest.raises(TypeError, match=f"{name} has no parameter 'half_life'; {can}"):
            ts.make(name, half_life=5)
        with pytest.raises(InvalidParameterError, match=f"{name} has no parameter 'half_life'; {can}"):
            make_learner(name, n_features=1, parameters={"half_life": 5})
    for name, kind in [("SSOL", {}), ("AROW", {"diagonal": "drop"}), ("CW", {"covariance": "full"})]:
        with pytest.raises(InvalidParameterError, match=f"{name}: half_life needs covariance='diagonal'"):
            ts.make(name, half_life=5, **kind).fit([[1.0], [2.0]], [0, 1])
    for bad in (0, 0.5, -3, "five", np.inf, np.nan, True):
        with pytest.raises(InvalidParameterError, match="FSOL: half_life must be a number ≥ 1, or None, got"):
            ts.FSOL(half_life=bad).fit([[1.0], [2.0]], [0, 1])


def test_a_half_life_cannot_change_under_way():
    model = ts.FSOL().fit([[1.0], [2.0]], [0, 1]).set_params(half_life=3)
    with pytest.raises(InvalidParameterError, match="half_life"):
        model.partial_fit([[1.0]], [0])
