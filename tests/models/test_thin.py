"""Thin models predict with the most important weights, of every algorithm, and are models like any other."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

import thinstream as ts
from tests.models.naive_thin import kept
from tests.models.test_importances import rows_of
from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.export import LinearModel
from thinstream.models.file import read, write
from thinstream.models.importance import importance
from thinstream.models.model import Model
from thinstream.models.thin import thin

PREPARATIONS = [{}, {"scale": "max"}, {"scale": "rms", "normalize": "l2"}]
NAMES = sorted(algorithm.name for algorithm in algorithms() if algorithm.name != "Auto")


def batch_of(X, y=None):
    rows, columns = X.shape
    whole = np.tile(np.arange(columns, dtype=np.int32), rows)
    return Batch.of(np.arange(0, rows * columns + 1, columns), whole, X.astype(np.float32).ravel(), columns, y)


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm(name, tmp_path):
    X, y = rows_of()
    model = ts.make(name).fit(X, y)
    small = model.thin(3)
    expected = kept(np.asarray(model.coef_), importance(model._model.learner), 3)
    np.testing.assert_array_equal(small.coef_, expected)
    assert small.nnz_ == min(3, model.nnz_)
    assert small.intercept_ == model.intercept_
    assert small.get_params() == model.get_params()
    np.testing.assert_allclose(small.decision_function(X), X @ small.coef_[0] + small.intercept_, rtol=1e-4, atol=1e-5)
    with pytest.raises(WeightsOnlyError, match=f"this {name} has only its weights"):
        small.partial_fit(X, y) if hasattr(small, "partial_fit") else write(tmp_path / "full.ts", small._model)
    small.save(tmp_path / "small.ts")
    found = ts.load(tmp_path / "small.ts")
    assert found.decision_function(X).tobytes() == small.decision_function(X).tobytes()
    assert found.thin(3).coef_.tobytes() == small.coef_.tobytes()
    write(tmp_path / "again.ts", read(tmp_path / "small.ts"), "weights")
    assert (tmp_path / "again.ts").read_bytes() == (tmp_path / "small.ts").read_bytes()


@pytest.mark.parametrize("options", PREPARATIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_rows_are_prepared_as_before(options, classes, tmp_path):
    X, y = rows_of(rows=200)
    y = np.where(X[:, 2] > 0.1, 2, y) if classes == 3 else y
    model = ts.AROW(**options).fit(X, y)
    small = model.thin(4)
    inner = model._model.learner.outputs
    weights = kept(np.atleast_2d(inner.weights()), importance(model._model.learner), 4)
    rows = model._model.preparation.apply(batch_of(X), np.dtype(np.float32)) if options else batch_of(X)
    dense = np.zeros(X.shape)
    dense[np.repeat(np.arange(len(X)), np.diff(rows.indptr)), rows.indices] = rows.values
    expected = dense @ weights.T + model.intercept_
    np.testing.assert_allclose(
        np.atleast_2d(small.decision_function(X).T).T.reshape(expected.shape), expected, atol=1e-5
    )
    small.save(tmp_path / "small.ts", weights_only=True)
    linear = LinearModel.of(read(tmp_path / "small.ts"))
    assert len(linear.weights) == np.count_nonzero(weights) == (4 if classes == 2 else 12)
    assert ts.load(tmp_path / "small.ts").predict(X).tolist() == small.predict(X).tolist()


def test_what_belongs_to_the_model_goes_along(tmp_path):
    Path(tmp_path / "d.csv").write_text("label,colour,size\n" + "spam,red,3\nham,blue,1\nspam,green,2\n" * 30)
    stream = ts.open_stream(tmp_path / "d.csv", classes=("ham", "spam"), names=100)
    model = ts.AdaRDA(loss="logistic").fit_stream(stream).set_threshold(0.7)
    small = model.thin(2)
    assert small.threshold_ == model.threshold_
    assert small.classes_.tolist() == ["ham", "spam"]
    assert small._model.feature_space == model._model.feature_space
    names, where = small._model.names, np.flatnonzero(small.coef_[0])
    assert sorted(names.indices.tolist()) == where.tolist()
    assert set(names.texts) < {"colour=red", "colour=blue", "colour=green", "size"}
    row = [{"colour": "red", "size": 3}]
    assert small.predict_proba(row).shape == (1, 2)


def test_columns_known_by_name_stay_known():
    pandas = pytest.importorskip("pandas")
    X, y = rows_of()
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    small = ts.AROW().fit(frame, y).thin(2)
    assert small.feature_names_in_.tolist() == list("abcdef")
    assert len(small.predict(frame)) == len(y)


def test_classes_that_come_later():
    X, y = rows_of(rows=120)
    y = np.where(X[:, 2] > 0.1, 2, y)
    model = ts.AROW(grow_classes=True).partial_fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    small = model.thin(5)
    assert small.classes_.tolist() == model.classes_.tolist()
    assert np.count_nonzero(small.coef_.any(axis=0)) == 5
    with pytest.raises(WeightsOnlyError):
        small.partial_fit(X, y)


def test_a_blend_is_thinned_as_its_own_limit_does():
    X, y = rows_of(rows=300, columns=12)
    portfolio = [ts.AROW(), ts.FSOL(scale="max")]
    full, limited = (ts.Auto(portfolio=portfolio, max_nnz=most).fit(X, y) for most in (None, 5))
    small = full.thin(5)
    assert small.coef_.tobytes() == limited.coef_.tobytes()
    np.testing.assert_allclose(small.predict_proba(X), limited.predict_proba(X))
    with pytest.raises(WeightsOnlyError, match="this Auto has only its weights"):
        small.partial_fit(X, y)


@pytest.mark.parametrize("scale", ["idf", "rms"])
def test_a_blend_of_rows_prepared_for_all_knows_them(scale):
    """Importance is weight and rows: a column of tiny values that tells nothing goes before the ones that tell."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(400, 4)), 1e-3 * rng.normal(size=400)]).astype(np.float32)
    model = ts.Auto(portfolio=[ts.AROW()], scale=scale).fit(X, X[:, 0] + X[:, 1] > 0)
    found = importance(model._model.learner, 1.0).ravel()
    assert (found[model.coef_.ravel() != 0] > 0).all()
    assert {*np.flatnonzero(model.thin(2).coef_.ravel()).tolist()} == {0, 1}


@given(arrays(np.float32, 8, elements=some.sampled_from([0.0, 0.5, -0.5, 1.0, 2.0, -2.0])), some.integers(1, 9))
def test_the_largest_are_kept_and_ties_go_to_the_first(weights, n):
    model = Model.fresh("perceptron", Classes(0, 1), n_features=8)
    model.learner.outputs.one.memory.state[:] = weights
    small = thin(model, n).learner.weights()
    np.testing.assert_array_equal(small, kept(weights, np.abs(weights), n))
    by_place = thin(model, n, np.arange(8.0)).learner.weights()
    np.testing.assert_array_equal(by_place, kept(weights, np.arange(8.0), n))
    np.testing.assert_array_equal(model.learner.weights(), weights)


def test_errors():
    X, y = rows_of()
    model = ts.AROW().fit(X, y)
    for bad in (0, -3, 2.5, "many", True):
        with pytest.raises(InvalidParameterError, match=f"must be an integer ≥ 1, got {bad!r}"):
            model.thin(bad)
    with pytest.raises(InvalidParameterError, match=r"needs n, a number of features, or X_val and y_val"):
        model.thin()
    with pytest.raises(InvalidParameterError, match="pass both X and y, or none of them"):
        model.thin(3, X=X)
    with pytest.raises(InvalidParameterError, match="pass both X_val and y_val, or none of them"):
        model.thin(3, X_val=X)
    with pytest.raises(InvalidParameterError, match="one or several numbers of features, to refit on X and y"):
        model.thin(X=X, y=y)
    with pytest.raises(InvalidInputError, match=r"a finite number per weight, in the shape \(1, 6\)"):
        thin(model._model, 3, np.ones(4))
