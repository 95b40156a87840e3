"""Classes that come later, of rows that are prepared."""

import numpy as np
import pytest

import thinstream as ts
from thinstream.errors import InvalidInputError

KINDS = [("max", None), ("rms", "l2"), (None, "l2")]


def made(seed=0, unit=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(90, 5)) * unit * 10.0 ** np.arange(5)
    return X, np.repeat(["a", "b", "c"], 30)


def bits(model):
    scales = model._model.learner.preparation.scales
    return model.coef_.tobytes(), None if scales is None else scales.state.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_met_late_is_as_if_known_from_the_start(kind, tmp_path):
    X, y = made()
    given = dict(zip(("scale", "normalize"), kind, strict=True))
    known = ts.AROW(**given).partial_fit(X, y, classes=["a", "b", "c"])
    grown, by_row = ts.AROW(grow_classes=True, **given), ts.AROW(grow_classes=True, **given)
    for a, b in ((0, 10), (10, 45), (45, 90)):
        grown.partial_fit(X[a:b], y[a:b])
        if a == 10:
            grown.save(tmp_path / "m.ts")
            grown = ts.load(tmp_path / "m.ts")
    for i in range(90):
        by_row.partial_fit(X[i : i + 1], y[i : i + 1])
    assert bits(known) == bits(grown) == bits(by_row)
    assert grown.get_params()["scale"] == kind[0]
    assert np.array_equal(grown.predict(X), known.predict(X))


def test_bad_rows_leave_no_trace():
    X, y = made()
    model = ts.AROW(grow_classes=True, scale="rms").partial_fit(X[:40], y[:40])
    before = bits(model)
    with pytest.raises(InvalidInputError, match="NaN"):
        model.partial_fit(np.full((3, 5), np.nan), ["x", "y", "z"])
    assert bits(model) == before


def test_models_of_different_classes_and_scales_merge():
    (X, y), (Z, _) = made(), made(1, 20.0)
    one = ts.AROW(grow_classes=True, scale="max").partial_fit(X[:60], y[:60])
    two = ts.AROW(grow_classes=True, scale="max").partial_fit(Z[30:], y[30:])
    both = one.merge(two)
    assert both.classes_.tolist() == ["a", "b", "c"]
    m = both._model.learner.preparation.divisors(5)
    assert np.array_equal(m.astype(np.float32), np.abs(np.vstack([X[:60], Z[30:]])).max(axis=0).astype(np.float32))
    assert both.t_ == 120
