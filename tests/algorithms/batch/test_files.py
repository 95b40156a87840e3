"""Batch estimators saved, loaded, pickled and merged."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import thinstream as ts
from tests.algorithms.batch.streams import fewer, state, streams
from tests.models.test_models import reforged
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MergeError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
)
from thinstream.models.file import read

SMALL = {"SBCW": {"group_size": 2, "n_groups": 3}, "FGM": {"group_size": 2, "n_groups": 3}}
NAMES = [algorithm.name for algorithm in ts.algorithms("batch")]
BUFFERED = ["BCW", "SBCW"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = sp.csr_matrix(rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.4))
    return X, np.where(rng.random(60) < 0.4, "spam", "ham")


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_comes_back(name, data, tmp_path):
    X, y = data
    costs = {"spam": 2.0, "ham": 0.5}
    model = ts.make(name, class_weight=costs, fit_intercept=True, **SMALL.get(name, {})).fit(X, y)
    ts.save(model, tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert type(found) is type(model)
    assert found.get_params() == model.get_params()
    assert found.classes_.dtype == model.classes_.dtype
    assert state(found) == state(model)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    if hasattr(model, "get_support"):
        np.testing.assert_array_equal(found.get_support(), model.get_support())
    found.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()
    assert state(pickle.loads(pickle.dumps(model))) == state(model)
    assert not hasattr(clone(model), "classes_")


@pytest.mark.parametrize("name", BUFFERED)
@pytest.mark.parametrize("size", [None, 7, 25])
def test_a_loaded_model_goes_on_with_the_same_bits(name, size, data, tmp_path):
    """Rows that wait are part of the state, dense as well as sparse ones."""
    X, y = data
    model = ts.make(name, batch_size=size, class_weight="balanced", **SMALL.get(name, {}))
    model.partial_fit(X[:20], y[:20], classes=["ham", "spam"]).partial_fit(X[20:30].toarray(), y[20:30])
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.n_waiting_ == model.n_waiting_ == (30 % size if size else 0)
    for each in (model, found):
        each.partial_fit(X[30:], y[30:])
    assert state(found) == state(model)
    assert state(found.flush()) == state(model.flush())


@pytest.mark.parametrize("name", NAMES)
def test_weights_only_predicts_and_learns_no_more(name, data, tmp_path):
    X, y = data
    model = ts.make(name, **SMALL.get(name, {})).fit(X, y)
    model.save(tmp_path / "w", weights_only=True)
    found = ts.load(tmp_path / "w")
    np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X))
    if name in BUFFERED:
        with pytest.raises(WeightsOnlyError, match="predicts but cannot learn"):
            found.partial_fit(X, y)
    with pytest.raises(
        AttributeError, match="weights_only=True, without variances" if name in BUFFERED else "no variances"
    ):
        _ = found.variance_
    with pytest.raises(WeightsOnlyError, match="has only its weights and cannot be saved in full"):
        found.save(tmp_path / "full", weights_only=False)
    found.save(tmp_path / "w2", weights_only=True)
    assert (tmp_path / "w").read_bytes() == (tmp_path / "w2").read_bytes()


@pytest.mark.parametrize("weights_only", [False, True])
def test_what_was_found_comes_back(weights_only, data, tmp_path):
    """What is found beside the weights, and coordinates that may be too many for a header."""
    X, y = data
    order = np.arange(16) % 8
    models = [ts.SCD(coordinates=order, random_state=3).fit(X, y), ts.GraDes(n_iter=4).fit(X, y)]
    for model in models:
        model.save(tmp_path / "m", weights_only=weights_only)
        found = ts.load(tmp_path / "m")
        for each in (found, pickle.loads(pickle.dumps(model)), pickle.loads(pickle.dumps(found))):
            assert state(each) == state(model)
            for name in ("objective_", "gamma_", "potential_"):
                assert hasattr(each, name) == hasattr(model, name)
                np.testing.assert_array_equal(getattr(each, name, 0.0), getattr(model, name, 0.0))
            np.testing.assert_array_equal(each.coef_, model.coef_)
    ts.save(models[0], tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.random_state == 3
    np.testing.assert_array_equal(found.coordinates, order)
    assert state(clone(found).fit(X, y)) == state(models[0])
    assert isinstance(ts.load(tmp_path / "m").objective_, float)


def test_files_that_lack_what_was_found_are_refused(data, tmp_path):
    model = ts.GraDes().fit(*data)
    for array in (None, np.zeros((2, 2)), np.zeros(3, dtype=np.int64)):
        model.save(tmp_path / "m")
        reforged(tmp_path / "m", {"batch/found.potential": array})
        with pytest.raises(ModelFileError, match=r"found\.potential"):
            ts.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["SCD", "GraDes"])
def test_few_weights_are_a_choice_of_features(name, data):
    X, y = data
    model = ts.make(name, **{"l1": 0.03, "random_state": 0} if name == "SCD" else {"n_nonzero": 3}).fit(X, y)
    assert 0 < model.nnz_ < 8
    np.testing.assert_array_equal(model.get_support(), model.coef_[0] != 0)
    np.testing.assert_array_equal(model.transform(X).toarray(), X[:, model.get_support()].toarray())
    dense = model.coef_
    np.testing.assert_array_equal(model.sparsify().coef_.toarray(), dense)
    np.testing.assert_array_equal(model.densify().coef_, dense)


def test_names_of_columns_come_back(data, tmp_path):
    X, y = data
    frame = pd.DataFrame(X.toarray(), columns=[f"word {i}" for i in range(8)])
    model = ts.SBCW().fit(frame, y)
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.feature_names_in_.tolist() == list(frame.columns)
    assert found.get_feature_names_out().tolist() == [n for n, used in zip(frame.columns, model.get_support()) if used]


def test_damaged_files_are_refused(data, tmp_path):
    X, y = data
    ts.BCW().fit(X, y).save(tmp_path / "m")
    raw = bytearray((tmp_path / "m").read_bytes())
    for place in (len(raw) - 3, len(raw) // 2):
        broken = raw.copy()
        broken[place] ^= 1
        (tmp_path / "broken").write_bytes(broken)
        with pytest.raises(ModelFileError, match=r"damaged|safetensors"):
            ts.load(tmp_path / "broken")
    assert read(tmp_path / "m").learner.algorithm.name == "BCW"
    with pytest.raises(NotFittedError):
        ts.BCW().save(tmp_path / "n")


FORGED = {
    "indptr": [
        np.array([0, 7, 14, 21, 28, 10**6, 0]),
        np.array([0, 7, 14, 21, 28, 10**6, 42]),
        np.array([7, 7, 14, 21, 28, 35, 42]),
        np.array([0, 7, 14, 21, 28, 35, 41]),
        np.array([0, 7, 14, 21, 28, 35, 42], np.int32),
        np.empty(0, np.int64),
        np.zeros((7, 1), np.int64),
    ],
    "indices": [np.full(42, 7), np.full(42, -1), np.zeros(41, np.int64), np.zeros(42)],
    "values": [np.ones(41), np.full(42, np.nan), np.ones(42, np.int64)],
    "y": [np.ones(5, np.int8), np.zeros(6, np.int8), np.ones(6, np.int64)],
    "weights": [np.ones(7), np.full(6, -1.0), np.ones(6, np.float32)],
}


@pytest.mark.parametrize("part", FORGED)
@pytest.mark.parametrize("matrix", ["waiting", "rows"])
def test_forged_matrices_are_refused(matrix, part, tmp_path):
    """No matrix of a model file may point outside its arrays, even if the checksum is correct."""
    if matrix == "rows" and part in ("y", "weights"):
        pytest.skip("rows of a covariance have neither labels nor weights")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 7)), np.arange(6) % 2
    model = ts.BCW(batch_size=50 if matrix == "waiting" else 6, dtype="float64")
    model.partial_fit(sp.csr_matrix(X), y, classes=[0, 1])
    for array in FORGED[part]:
        model.save(tmp_path / "m")
        reforged(tmp_path / "m", {f"batch/{matrix}.{part}": array})
        with pytest.raises(ModelFileError, match=rf"{matrix}"):
            ts.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("part", "array"),
    [
        ("features", np.zeros((2, 1), np.int64)),
        ("features", np.zeros(2)),
        ("sizes", np.array([-1, 3])),
        ("sizes", np.array([[2]])),
    ],
)
def test_forged_groups_are_refused(part, array, data, tmp_path):
    X, y = data
    ts.FGM(group_size=2, n_groups=1).fit(X, y).save(tmp_path / "m")
    reforged(tmp_path / "m", {f"batch/groups.{part}": array})
    with pytest.raises(ModelFileError, match="groups"):
        ts.load(tmp_path / "m")


def test_scores_that_are_not_finite_raise(data, tmp_path):
    X, y = data
    ts.BCW().fit(X, y).save(tmp_path / "m")
    reforged(tmp_path / "m", {"batch/w": np.full(X.shape[1], 3e38, np.float32)})
    with pytest.raises(NumericalError, match="score of row 1 is not finite"):
        ts.load(tmp_path / "m").predict(np.vstack([np.zeros(X.shape[1]), np.ones(X.shape[1])]))


@fewer
@given(streams())
def test_merged_precisions_are_those_of_all_rows(stream):
    """Exact for Σ; the mean solves the weighted normal equations; the order does not matter."""
    X, y, _, _ = stream
    half = len(y) // 2
    parts = [ts.BCW(dtype="float64") for _ in range(2)]
    for part, rows in zip(parts, (slice(half), slice(half, None))):
        if len(y[rows]):
            part.partial_fit(X[rows], y[rows], classes=[-1.0, 1.0])
        else:
            part.partial_fit(X[:1], y[:1], classes=[-1.0, 1.0], sample_weight=[0.0])
    one, other = parts[0].merge(parts[1]), parts[1].merge(parts[0])
    assert state(one) == state(other)
    P = [np.eye(X.shape[1]) + X[rows].T @ X[rows] for rows in (slice(half), slice(half, None))]
    total = P[0] + P[1] - np.eye(X.shape[1])
    np.testing.assert_allclose(one.variance_, np.diag(np.linalg.inv(total)), rtol=1e-9)
    mean = np.linalg.solve(total, sum(p @ part.coef_[0] for p, part in zip(P, parts)))
    np.testing.assert_allclose(one.coef_[0], mean, rtol=1e-9, atol=1e-9)
    assert one.t_ == len(y)
    one.partial_fit(X, y)


def test_what_cannot_be_merged_says_why(data):
    X, y = data
    for name, reason in (
        ("SBCW", ""),
        ("FGM", "it needs all rows at once"),
        ("SparDCA", "it needs all rows at once"),
        ("SCD", "it goes over all rows again and again; fit it on all of them"),
        ("GraDes", "it goes over all rows again and again; fit it on all of them"),
    ):
        model = ts.make(name).fit(X, y)
        with pytest.raises(MergeError, match=f"{name} cannot be merged: {reason}"):
            model.merge(copy.deepcopy(model))
    model = ts.BCW().fit(X, y)
    for other, reason in (
        (ts.BCW(C=2.0).fit(X, y), "agree in C, got 1.0 and 2.0"),
        (ts.BCW().fit(X[:, :4], y), "agree in n_features_in_, got 8 and 4"),
        (ts.BCW().fit(X, np.where(y == "ham", "a", "b")), "agree in classes"),
        (ts.FSOL(), "can only be merged with the same kind"),
    ):
        with pytest.raises(MergeError, match=reason):
            model.merge(other)
    waiting = ts.BCW(batch_size=50).partial_fit(X, y, classes=["ham", "spam"])
    with pytest.raises(MergeError, match=r"10 rows wait to be learned; call flush\(\)"):
        waiting.merge(copy.deepcopy(waiting))


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("BCW", {"C": 0}, r"BCW: C must be a number > 0, got 0"),
        ("BCW", {"loss": "log"}, r"BCW: loss must be 'hinge' or 'squared_hinge', got 'log'"),
        ("BCW", {"batch_size": 0}, r"BCW: batch_size must be a whole number ≥ 1, or None, got 0"),
        ("BCW", {"batch_size": "many"}, r"BCW: batch_size must be a whole number ≥ 1, or None, got 'many'"),
        ("BCW", {"dtype": "int8"}, r"BCW: dtype must be 'float32' or 'float64', got 'int8'"),
        ("BCW", {"shuffle": 1}, r"BCW: shuffle must be True or False, got 1"),
        ("SBCW", {"sigma": 0.0}, r"SBCW: sigma must be a number > 0, got 0.0"),
        ("SBCW", {"n_groups": 2.5}, r"SBCW: n_groups must be a whole number ≥ 1, got 2.5"),
        ("FGM", {"group_size": 0}, r"FGM: group_size must be a whole number ≥ 1, got 0"),
        ("SparDCA", {"l1": -1}, r"SparDCA: l1 must be a number ≥ 0, got -1"),
        ("FGM", {"class_weight": {"eggs": 1.0}}, r"FGM: class_weight has the label 'eggs'"),
    ],
)
def test_wrong_parameters_are_named(name, parameters, message, data):
    with pytest.raises(InvalidParameterError, match=message):
        ts.make(name, **parameters).fit(*data)


def test_wrong_calls_are_named(data):
    X, y = data
    with pytest.raises(TypeError, match="BCW has no parameter 'eta'; it has C, loss, batch_size"):
        ts.BCW(eta=1.0)
    with pytest.raises(ValueError, match="classes= must be passed on the first call to partial_fit"):
        ts.BCW().partial_fit(X, y)
    model = ts.BCW().fit(X, y)
    with pytest.raises(InvalidInputError, match="labels must be 'ham' or 'spam', got 'eggs' at row 0"):
        model.partial_fit(X[:1], ["eggs"])
    with pytest.raises(InvalidParameterError, match=r"C was changed from 1.0 to 3.0 after learning began"):
        model.set_params(C=3.0).partial_fit(X, y)
    with pytest.raises(AttributeError, match="FGM has no variances"):
        _ = ts.FGM().fit(X, y).variance_
    with pytest.raises(AttributeError, match="FGM has no coef_, because it is not fitted"):
        _ = ts.FGM().coef_


def test_they_are_found_by_name():
    names = [algorithm.name for algorithm in ts.algorithms()]
    assert {"BCW", "SBCW", "FGM", "SparDCA", "SCD", "GraDes", "FSOL"} <= set(names)
    assert names == sorted(names, key=str.lower)
    assert repr(ts.make("sparDCA", l1=0.5)) == "SparDCA(l1=0.5)"
    assert repr(ts.make("grades", n_iter=3)) == "GraDes(n_iter=3)"
    assert "SBCW" in dir(ts)
    assert not {"BCW", "SBCW"} & {algorithm.name for algorithm in ts.algorithms("online")}
    with pytest.raises(InvalidParameterError, match="kind must be 'all', 'online' or 'batch', got 'both'"):
        ts.algorithms("both")
