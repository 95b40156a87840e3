"""Model files of batch methods that were written before there was one file format for all stay readable."""

from pathlib import Path

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import WeightsOnlyError

DATA = Path(__file__).parent.parent / "data"
PARAMETERS = {
    "BCW": {"C": 0.5, "batch_size": 8, "class_weight": {"no": 2.0}},
    "SBCW": {"n_features": 4, "n_groups": 2},
    "FGM": {"group_size": 2, "n_groups": 2},
    "SparDCA": {"l1": 0.1, "n_epochs": 3},
    "SCD": {"coordinates": [0, 1, 2, 3, 4, 5, 6, 0, 2], "l1": 0.01},
    "GraDes": {"n_nonzero": 3, "n_iter": 4},
}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(5).normal(size=(30, 6))
    return X, np.where(X[:, 0] - X[:, 2] > 0, "yes", "no")


def learn(name, X, y):
    """The model as it was made when the file was written."""
    model = ts.make(name, fit_intercept=True, **PARAMETERS[name])
    return model.partial_fit(X, y, classes=["no", "yes"]) if name == "BCW" else model.fit(X, y)


@pytest.mark.parametrize("name", PARAMETERS)
def test_in_full(name, data):
    X, y = data
    old, new = ts.load(DATA / f"format-2-{name.lower()}.safetensors"), learn(name, X, y)
    assert type(old) is type(new)
    given = {key: list(value) if np.ndim(value) else value for key, value in old.get_params().items()}
    assert {key: given[key] for key in PARAMETERS[name]} == PARAMETERS[name]
    assert given["fit_intercept"] is True
    assert old.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(old.coef_, new.coef_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(old.intercept_, new.intercept_, rtol=1e-5, atol=1e-6)
    assert (old.t_, old.n_mistakes_, old.n_updates_) == (new.t_, new.n_mistakes_, new.n_updates_)
    assert old.predict(X).tolist() == new.predict(X).tolist()
    for model in (old, new):
        if name == "BCW":  # six rows wait: with these two their batch is full
            assert model.n_waiting_ == 6
            model.partial_fit(X[:2], y[:2])
            assert (model.t_, model.n_waiting_) == (32, 0)
    np.testing.assert_allclose(old.coef_, new.coef_, rtol=1e-5, atol=1e-6)


def test_rows_that_wait_are_learned(data):
    old, new = ts.load(DATA / "format-2-bcw.safetensors"), learn("BCW", *data)
    assert (old.flush().n_waiting_, old.t_) == (0, 30)
    np.testing.assert_allclose(old.coef_, new.flush().coef_, rtol=1e-5, atol=1e-6)


def test_weights_only(data):
    X, y = data
    old, full = (ts.load(DATA / f"format-2-{name}.safetensors") for name in ("sbcw-weights", "sbcw"))
    np.testing.assert_array_equal(old.decision_function(X), full.decision_function(X))
    assert old.get_support().tolist() == full.get_support().tolist()
    for forbidden in (lambda: old.partial_fit(X, y), lambda: old.save("nowhere", weights_only=False)):
        with pytest.raises(WeightsOnlyError):
            forbidden()
