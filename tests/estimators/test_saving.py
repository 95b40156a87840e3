"""Estimators saved and loaded: all they know comes back, and they go on with the same bits."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import thinstream as ts
from tests.algorithms.online.conformance import assert_same_bits
from tests.models.test_models import PARAMETERS, forged
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, ModelFileError, WeightsOnlyError
from thinstream.lanes.learner import Learner
from thinstream.models.file import read, write
from thinstream.models.model import Model, Names

NAMES = [algorithm.name for algorithm in ts.algorithms("online")]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = sp.csr_matrix(rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.4))
    return X, np.where(rng.random(60) < 0.4, "spam", "ham")


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_comes_back_and_goes_on(name, data, tmp_path):
    """Class, parameters, attributes; partial_fit after loading gives the bits of never having stopped."""
    X, y = data
    model = ts.make(name, class_weight="balanced", fit_intercept=True, **PARAMETERS.get(name, {})).fit(X[:40], y[:40])
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert type(found) is type(model)
    assert found.get_params() == model.get_params()
    assert found.classes_.dtype == model.classes_.dtype
    assert found.n_features_in_ == 8
    assert_same_bits(found, model)
    for each in (found, pickle.loads(pickle.dumps(found)), model):
        each.partial_fit(X[40:], y[40:])
        each.save(tmp_path / "again")
        assert_same_bits(each, ts.load(tmp_path / "again"))
    assert_same_bits(found, model)
    found.save(tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "again").read_bytes()
    for attribute in ("t_", "n_mistakes_", "n_updates_", "cumulative_loss_", "nnz_", "density_"):
        assert getattr(found, attribute) == getattr(model, attribute)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "parameters",
    [
        {"class_weight": {"spam": 5}},
        {"class_weight": {"ham": np.float64(0.5), "spam": 2}},
        {"grow": True, "dtype": "float64"},
        {"n_passes": 3, "shuffle": True, "random_state": 7},
        {"random_state": np.int64(7), "eta": np.float32(0.25), "l1": 1},
    ],
)
def test_parameters_come_back(parameters, data, tmp_path):
    """As given, in Python's own types; a copy of the loaded model fits the same."""
    X, y = data
    model = ts.SSOL(**parameters).fit(X, y)
    for weights_only in (False, True):
        model.save(tmp_path / "m", weights_only=weights_only)
        found = ts.load(tmp_path / "m")
        assert found.get_params() == model.get_params()
        assert_same_bits(clone(found).fit(X, y), model)
        np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X))
        assert found.fit(X[:20], y[:20]).t_ == 20 * found.n_passes


def test_a_generator_is_no_seed(data, tmp_path):
    """Its state is not kept."""
    model = ts.FSOL(random_state=np.random.RandomState(3), shuffle=True).fit(*data)
    model.save(tmp_path / "m")
    assert ts.load(tmp_path / "m").random_state is None


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1]),
        np.array([-1, 1], np.int8),
        np.array([3, 4], np.uint16),
        np.array([-1.0, 2.0]),
        np.array([0.0, 1.0], np.float32),
        np.array([False, True]),
        np.array(["a", "b"], "<U9"),
        np.array(["ä", "long"], dtype=object),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_classes_keep_their_type(labels, data, tmp_path):
    """``classes_`` and predictions have the dtype they had, weighted by label or not."""
    X, y = data
    for class_weight in (None, {labels[1]: 2.0}):
        model = ts.AROW(class_weight=class_weight).fit(X, labels[(y == "spam").astype(int)])
        model.save(tmp_path / "m")
        found = ts.load(tmp_path / "m")
        assert found.classes_.dtype == model.classes_.dtype
        assert found.classes_.tolist() == model.classes_.tolist()
        assert found.predict(X).dtype == model.predict(X).dtype
        np.testing.assert_array_equal(found.predict(X), model.predict(X))
        assert found.get_params() == model.get_params()
        found.partial_fit(X, model.predict(X), classes=labels)


def test_weights_only_predicts_and_says_why_it_cannot_learn(data, tmp_path):
    """The same predictions, a smaller file, a clear error; fit starts anew."""
    X, y = data
    model = ts.AROW(fit_intercept=True, class_weight={"spam": 2.0}).fit(X, y)
    model.save(tmp_path / "m", weights_only=True)
    found = ts.load(tmp_path / "m")
    for each in (found, pickle.loads(pickle.dumps(found))):
        assert each.decision_function(X).tobytes() == model.decision_function(X).tobytes()
        np.testing.assert_array_equal(each.coef_, model.coef_)
        np.testing.assert_array_equal(each.sparsify().coef_.toarray(), model.coef_)
        assert each.intercept_ == model.intercept_
        assert each.t_ == 60
        with pytest.raises(WeightsOnlyError, match="this AROW has only its weights"):
            each.partial_fit(X, y)
        with pytest.raises(WeightsOnlyError, match="this AROW has only its weights"):
            each.learn(X, y)
        with pytest.raises(AttributeError, match="saved with weights_only=True, without variances"):
            _ = each.variance_
        with pytest.raises(WeightsOnlyError, match="cannot be saved in full"):
            each.save(tmp_path / "x", weights_only=False)
    found.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert_same_bits(found.fit(X, y), model)


def test_feature_names(data, tmp_path):
    """Names of columns come back, and are checked against; also those of a model that grew."""
    X, y = data
    frame = pd.DataFrame(X.toarray(), columns=[f"c{i}" for i in range(8)])
    model = ts.FSOL(grow=True).partial_fit(frame.iloc[:, :5], y, classes=["ham", "spam"]).partial_fit(frame, y)
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.feature_names_in_.tolist() == model.feature_names_in_.tolist()
    assert found.feature_names_in_.dtype == object
    found.partial_fit(frame, y)
    with pytest.raises(InvalidInputError, match="column 0 of X must have the name 'c0' as in training, got 'c1'"):
        found.partial_fit(frame.iloc[:, 1:], y)


def test_a_model_without_estimator_loads_as_one(data, tmp_path):
    """Trained by a Learner: costs become class_weight; what numbers mean is kept when it is saved again."""
    X, y = data
    classes = Classes("ham", "spam")
    batch = Batch.of(X.indptr, X.indices, X.data, 8, y=classes.coded(y))
    for costs, class_weight in [
        (Costs(), None),
        (Costs(1.0, 3.0), {"ham": 1.0, "spam": 3.0}),
        (Costs(balanced=True), "balanced"),
    ]:
        learner = Learner("ssol", n_features=8, eta=0.5, costs=costs, fit_intercept=True)
        learner.learn(batch)
        ts.save(Model(learner, classes, {"bits": 3}, Names.of(["x"], [4]), {"row": 60}), tmp_path / "m")
        found = ts.load(tmp_path / "m")
        same = ts.SSOL(eta=0.5, class_weight=class_weight, fit_intercept=True).fit(X, y)
        assert found.get_params() == same.get_params()
        assert not hasattr(found, "feature_names_in_")
        assert_same_bits(found.partial_fit(X, y), same.partial_fit(X, y))
        pickle.loads(pickle.dumps(found)).save(tmp_path / "m")
        assert read(tmp_path / "m").feature_space == {"bits": 3}
        assert read(tmp_path / "m").names.texts == ["x"]
        found.fit(X, y).save(tmp_path / "m")
        assert read(tmp_path / "m").feature_space == {}


def test_changed_parameters_are_still_noticed(data, tmp_path):
    """A loaded model knows what it learned with."""
    X, y = data
    ts.FSOL(eta=0.5).fit(X, y).save(tmp_path / "m")
    with pytest.raises(InvalidParameterError, match=r"eta was changed from 0.5 to 2 after learning began"):
        ts.load(tmp_path / "m").set_params(eta=2).partial_fit(X, y)


def test_what_cannot_be_saved_or_loaded(data, tmp_path):
    """Not fitted, not ours, not a model."""
    with pytest.raises(NotFittedError):
        ts.FSOL().save(tmp_path / "m")
    with pytest.raises(InvalidInputError, match="only thinstream estimators and Models can be saved, got dict"):
        ts.save({}, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ModelFileError, match="does not exist"):
        ts.load(tmp_path / "m")
    for extra in ({"estimator": 3}, {"estimator": {"classes": "M8[s]"}}, {"estimator": {"class_weight": [1]}}):
        with pytest.raises(ModelFileError, match="m: is not a model that this version can load"):
            ts.load(forged(tmp_path / "m", extra=extra))


def test_saving_leaves_the_model_alone(data, tmp_path):
    """Nothing of its memory changes, and a loaded model shares none with it."""
    X, y = data
    model = ts.SOFS(B=3).fit(X, y)
    before = pickle.dumps(model._model.learner)
    model.save(tmp_path / "m")
    ts.load(tmp_path / "m").partial_fit(X, y)
    assert pickle.dumps(model._model.learner) == before
    write(tmp_path / "m", read(tmp_path / "m"))


@pytest.mark.parametrize("model", [ts.AROW(), ts.Auto(), ts.AROW(scale="max")])
def test_a_model_whose_arrays_are_mapped_predicts_and_goes_on(model, data, tmp_path):
    X, y = data
    joblib.dump(clone(model).fit(X, y), tmp_path / "m")
    mapped, own = joblib.load(tmp_path / "m", mmap_mode="r"), clone(model).fit(X, y)
    assert mapped.decision_function(X).tobytes() == own.decision_function(X).tobytes()
    for k, each in enumerate((mapped, own)):
        each.partial_fit(X, y).save(tmp_path / f"{k}.ts")
    assert (tmp_path / "0.ts").read_bytes() == (tmp_path / "1.ts").read_bytes()
