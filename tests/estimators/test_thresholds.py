"""``set_threshold`` and ``threshold_``."""

import numpy as np
import pytest
from sklearn.base import clone

import thinstream as ts
from thinstream.errors import InvalidInputError, InvalidParameterError

rng = np.random.default_rng(0)
y = np.where(rng.random(3000) < 0.3, "yes", "no")
X = rng.normal(size=(3000, 5)) + 0.7 * (y == "yes")[:, None]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_promise_is_kept_on_rows_held_out(dtype):
    model = ts.AROW(dtype=dtype)
    scores = model.learn(X[:2000], y[:2000])
    late = slice(1000, 2000)
    model.set_threshold(recall=0.9, scores=scores[late].tolist(), y=y[late])
    assert np.mean(scores[late][y[late] == "yes"] > model.threshold_) >= 0.9
    found = np.mean(model.predict(X[2000:])[y[2000:] == "yes"] == "yes")
    assert found == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / 150))
    model.set_threshold(false_alarms=0.01, scores=scores[late], y=y[late])
    assert np.mean(model.predict(X[2000:])[y[2000:] == "no"] == "yes") < 0.04
    model.set_threshold(precision=0.8, scores=scores[late], y=y[late])
    assert np.mean(y[late][scores[late] > model.threshold_] == "yes") >= 0.8
    assert np.mean(y[2000:][model.predict(X[2000:]) == "yes"] == "yes") == pytest.approx(0.8, abs=0.15)


def test_saved_streamed_and_learned_on(tmp_path):
    model = ts.FTRLProximal().fit(X, y).set_threshold(0.8)
    assert model.threshold_ == pytest.approx(np.log(4))
    assert model.predict(X).tolist() == np.where(model.predict_proba(X)[:, 1] > 0.8, "yes", "no").tolist()
    model.save(tmp_path / "m.ts")
    again = ts.load(tmp_path / "m.ts")
    assert again.threshold_ == model.threshold_
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.partial_fit(X[:1], y[:1]).threshold_ == model.threshold_
    assert clone(model).fit(X, y).threshold_ == 0.0


def test_batch_methods_have_one():
    model = ts.FGM().fit(X, y).set_threshold(1000.0)
    assert set(model.predict(X)) == {"no"}


def test_refused():
    model = ts.AROW()
    with pytest.raises(AttributeError, match="no threshold_, because it is not fitted"):
        _ = model.threshold_
    model.fit(X, y)
    for given in ({}, {"threshold": 1.0, "recall": 0.5}):
        with pytest.raises(InvalidParameterError, match="one of threshold, recall, false_alarms and precision"):
            model.set_threshold(**given)
    with pytest.raises(InvalidParameterError, match="recall needs scores and y"):
        model.set_threshold(recall=0.5)
    with pytest.raises(InvalidInputError, match="labels must be 'no' or 'yes', got 'maybe'"):
        model.set_threshold(recall=0.5, scores=[1.0], y=["maybe"])
    with pytest.raises(InvalidInputError, match="vectors of one length"):
        model.set_threshold(recall=0.5, scores=[1.0, 2.0], y=["yes"])
    assert model.threshold_ == 0.0
    three = ts.AROW().fit(X, np.arange(3000) % 3)
    with pytest.raises(InvalidParameterError, match="two classes, but this model has 3"):
        three.set_threshold(0.5)
