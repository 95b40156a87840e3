"""More than two classes: each has the model of a two-class estimator of its own, and all that reads it agrees."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import thinstream as ts
from tests.models.test_models import PARAMETERS, forged
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.engine import memory
from thinstream.engine.loop import Costs
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MergeError,
    ModelFileError,
    WeightsOnlyError,
)
from thinstream.lanes.learner import Learner
from thinstream.models import outputs
from thinstream.models.file import read, write
from thinstream.models.merging import merge_outputs
from thinstream.models.model import Model, make_outputs
from thinstream.models.outputs import Outputs

#: As in the tests of lanes, so that nothing else is compiled.
DAILY = ("SSOL", "FSOL")
NAMES = [
    pytest.param(algorithm.name, marks=() if algorithm.name in DAILY else pytest.mark.slow)
    for algorithm in ts.algorithms("online")
]
COUNTS = ("t_", "n_mistakes_", "nnz_", "density_")
ARRAYS = ("coef_", "intercept_", "n_updates_", "cumulative_loss_")


def made(seed=0, n=120, d=9, classes=("a", "b", "c", "d")):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    y = np.array(classes)[(X[:, : len(classes)] + rng.normal(size=(n, len(classes))) / 2).argmax(axis=1)]
    y[: len(classes)] = classes
    return sp.csr_matrix(X), y


def together(monkeypatch):
    """Models that become lanes at once."""
    monkeypatch.setattr(Outputs, "fewest", 1)
    monkeypatch.setattr(Outputs, "enough", 0)


def made_small():
    """Rows of small numbers, which any text gives back, with their classes."""
    X, y = made(n=200, d=6, classes=(0, 1, 2))
    return sp.csr_matrix(np.round(X.toarray(), 2)), y


def assert_same(one, other):
    for name in COUNTS:
        assert getattr(one, name) == getattr(other, name), name
    for name in ARRAYS:
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes(), name


# A class is a model of its own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [False, True], ids=["one by one", "lanes"])
@pytest.mark.parametrize("name", NAMES)
def test_each_class_has_the_bits_of_a_two_class_estimator(name, lanes):
    """Scores, weights, counters; in any chunks, with costs and sample weights, by lanes or one after another."""

    @settings(deadline=None, max_examples=10)
    @given(
        seed=st.integers(0, 2**32 - 1),
        k=st.integers(3, 6),
        costs=st.sampled_from([None, "balanced", {1: 0.5, 2: 3.0}]),
        intercept=st.booleans(),
        weighted=st.booleans(),
        cuts=st.lists(st.integers(0, 60), max_size=3),
    )
    def check(seed, k, costs, intercept, weighted, cuts):
        rng, labels = np.random.default_rng(seed), np.arange(k)
        X, _ = made(seed, n=60)
        y = rng.integers(0, k, 60)  # not all of them need to occur
        weights = rng.choice([0.0, 0.5, 2.0], 60) if weighted else np.ones(60)
        options = {"fit_intercept": intercept, "dtype": "float64", **PARAMETERS.get(name, {})}
        model, before = ts.make(name, class_weight=costs, **options), []
        for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 60]):
            if b > a:
                before.append(model.learn(X[a:b], y[a:b], classes=labels, sample_weight=weights[a:b]))
        scores, after = np.concatenate(before), model.decision_function(X)
        assert scores.shape == after.shape == (60, k)
        assert model.n_mistakes_ == np.count_nonzero((scores.argmax(axis=1) != y) & (weights > 0))
        np.testing.assert_array_equal(model.predict(X), after.argmax(axis=1))
        for label in labels.tolist():
            cost = {True: costs.get(label, 1.0)} if isinstance(costs, dict) else costs
            alone = ts.make(name, class_weight=cost, **options)
            assert alone.learn(X, y == label, [False, True], weights).tobytes() == scores[:, label].tobytes()
            assert alone.decision_function(X).tobytes() == after[:, label].tobytes()
            assert alone.coef_.tobytes() == model.coef_[label].tobytes()
            assert alone.intercept_[0] == model.intercept_[label]
            assert alone.t_ == model.t_ or name == "StableSparsePerceptron"  # which stops, each class for itself
            assert alone.n_updates_ == model.n_updates_[label]
            assert alone.cumulative_loss_ == model.cumulative_loss_[label]
            if hasattr(alone, "variance_"):
                assert alone.variance_.tobytes() == model.variance_[label].tobytes()
        assert model.nnz_ == np.count_nonzero(model.coef_)
        assert model.density_ == model.nnz_ / model.coef_.size
        assert (model.sparsify().coef_.toarray() == model.densify().coef_).all()

    with pytest.MonkeyPatch.context() as patch:
        if lanes:
            together(patch)
        check()


def test_fit_passes_and_shuffles_as_with_two_classes():
    X, y = made()
    options = {"n_passes": 3, "shuffle": True, "random_state": 3}
    model = ts.FSOL(**options).fit(X, y)
    for k, label in enumerate(model.classes_):
        assert ts.FSOL(**options).fit(X, y == label).coef_.tobytes() == model.coef_[k].tobytes()
    assert model.t_ == 3 * len(y)


def test_two_classes_keep_their_learner():
    X, y = made(classes=("a", "b"))
    model = ts.FSOL().fit(X, y)
    assert type(model._model.learner.outputs.one) is Learner
    assert model.coef_.shape == (1, 9)
    assert model.decision_function(X).shape == (120,)


def test_a_model_turns_into_lanes_where_it_pays(monkeypatch):
    """After enough work, for enough classes; nothing but the time it takes tells."""
    X, y = made()
    monkeypatch.setattr(Outputs, "fewest", 4)
    monkeypatch.setattr(Outputs, "enough", 4 * X.nnz + 1)
    model = ts.SSOL(grow=True, dtype="float64").partial_fit(X, y, classes=[*"abcd"])
    assert isinstance(model._model.learner.outputs._held, list)
    same = pickle.loads(pickle.dumps(model))
    same._model.learner.outputs.__class__ = type("Alone", (Outputs,), {"enough": 1 << 60})
    for each in (model, same):
        each.partial_fit(X[:, :5], y)
        each.partial_fit(sp.hstack([X, X]).tocsr(), y)  # wider: both grow
    assert not isinstance(model._model.learner.outputs._held, list)
    assert isinstance(same._model.learner.outputs._held, list)
    assert_same(model, same)
    assert model.decision_function(X).tobytes() == same.decision_function(X).tobytes()
    assert_same(pickle.loads(pickle.dumps(model)), same)
    few = ts.SSOL().fit(*made(n=1000, classes=[*"abc"]))
    assert isinstance(few._model.learner.outputs._held, list)


# Labels, scores, probabilities ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 1, 2]),
        np.array([0.0, 2.0, -1.0]),
        np.array(["x", "long one", "y"]),
        np.array(["b", "a", "c"], dtype=object),
        np.array([1, 2, 300], np.uint16),
    ],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_of_any_kind(labels, tmp_path):
    X, y = made(classes=(0, 1, 2))
    model = ts.AROW(class_weight={labels[0]: 2.0}).fit(X, labels[y])
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.predict(X).dtype == labels.dtype
    assert model.score(X, labels[y]) > 0.7
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.classes_.dtype == model.classes_.dtype
    assert found.get_params() == model.get_params()
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    found.partial_fit(X, labels[y], classes=labels)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "e"], r"y: labels must be 'a', 'b', 'c' or 'd', got 'e' at row 1"),
        ([1, 2], r"y: labels must be 'a', 'b', 'c' or 'd', got 1 at row 0"),
        (np.array(["d", None], object), r"y contains None at row 1; every row must have a label"),
    ],
)
def test_labels_that_are_none(labels, message):
    X, y = made()
    model = ts.FSOL().partial_fit(X, y, classes=[*"abcd"])
    before = pickle.dumps(model)
    with pytest.raises(InvalidInputError, match=message):
        model.partial_fit(X[:2], labels)
    with pytest.raises(InvalidInputError, match=message):
        ts.FSOL().partial_fit(X[:2], labels, classes=[*"abcd"])
    assert pickle.dumps(model) == before
    with pytest.raises(InvalidInputError, match="must be the same as in the first call"):
        model.partial_fit(X, y, classes=[*"abc"])
    with pytest.raises(InvalidInputError, match=r"must be one of 30 classes such as 0, 1 or 2, got 30 at row 0"):
        ts.FSOL().partial_fit(X[:1], [30], classes=range(30))


def test_ties_are_the_first_class():
    model = ts.FSOL(fit_intercept=False).fit(np.eye(3), [5, 6, 7])
    assert model.predict(np.zeros((1, 3))).tolist() == [5]


def test_probabilities():
    X, y = made()
    model = ts.FOBOS(loss="logistic").fit(X, y)
    found, each = model.predict_proba(X), 1.0 / (1.0 + np.exp(-model.decision_function(X).astype(np.float64)))
    np.testing.assert_allclose(found, each / each.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(found.argmax(axis=1), model.decision_function(X).argmax(axis=1))
    far = model.predict_proba(X * 1e6)
    np.testing.assert_allclose(far.sum(axis=1), 1.0)
    assert not hasattr(ts.FOBOS(), "predict_proba")


def test_costs_that_are_none():
    X, y = made()
    with pytest.raises(
        InvalidParameterError, match="has the label 'z', which is not a class; the classes are 'a', 'b', 'c', 'd'"
    ):
        ts.FSOL(class_weight={"z": 2.0}).fit(X, y)
    with pytest.raises(InvalidParameterError, match=r"class_weight\['a'\] must be"):
        ts.FSOL(class_weight={"a": -1}).fit(X, y)


def test_bad_rows_leave_the_model_as_it_was():
    X, y = made()
    model = ts.FSOL(grow=True).fit(X, y)
    before = pickle.dumps(model._model.learner)
    for bad, message in ((np.nan, "NaN at row 3"), (1e20, "float32 allows 1e")):
        rows = X.toarray()
        rows[3, 2] = bad
        with pytest.raises(InvalidInputError, match=message):
            model.partial_fit(rows, y)
    assert pickle.dumps(model._model.learner) == before
    with pytest.raises(InvalidInputError, match="20 features"):
        ts.FSOL().fit(X, y)._model.learner.learn(
            Batch.of(np.array([0, 1]), np.array([19]), np.ones(1), 20, np.zeros(1, np.int32))
        )


def test_models_too_large_for_the_machine(monkeypatch):
    """Foreseen, also while growing; each class alone would fit."""
    monkeypatch.setattr(memory, "physical_memory", lambda: 100_000)
    Learner("fsol", n_features=10_000)
    with pytest.raises(InvalidInputError, match=r"FSOL of 3 classes needs .* for feature number 9999"):
        make_outputs("fsol", [Costs()] * 3, n_features=10_000)
    model = make_outputs("fsol", [Costs()] * 3, n_features=1, grow=True)
    with pytest.raises(InvalidInputError, match=r"FSOL of 3 classes needs .* for feature number 9999"):
        model.learn(Batch.of(np.array([0, 1]), np.array([9999]), np.ones(1), 10_000, np.zeros(1, np.int32)))
    assert (model.n_features, model.t) == (1, 0)


def test_lanes_are_left_alone_where_they_do_not_fit(monkeypatch):
    """Models and their lanes are both there for a moment."""
    together(monkeypatch)
    monkeypatch.setattr(outputs, "physical_memory", lambda: 1000)
    X, y = made()
    assert isinstance(ts.SSOL(dtype="float64").fit(X, y)._model.learner.outputs._held, list)


def test_labels_of_the_other_kind():
    """±1 is not for more than two classes, nor numbers of classes for two."""
    signs, numbers = (
        Batch.of(np.array([0, 1]), np.array([0]), np.ones(1), 1, np.ones(1, k)) for k in (np.int8, np.int32)
    )
    with pytest.raises(InvalidInputError, match=r"has two classes, so labels must be -1 and \+1"):
        Learner("fsol", n_features=1).learn(numbers)
    model = make_outputs("fsol", [Costs()] * 3, n_features=1)
    with pytest.raises(InvalidInputError, match="this model has 3 classes, so labels must be class numbers"):
        model.learn(signs)
    with pytest.raises(InvalidInputError, match="from 0 to 2, got 3 at row 0"):
        model.learn(numbers.labelled(np.array([3], np.int32)))
    with pytest.raises(InvalidInputError, match="needs labels"):
        model.learn(numbers.labelled(None))
    with pytest.raises(InvalidInputError, match="classes must be two or more different labels"):
        Classes(1, 2, 1)


# Saved, loaded, merged ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_model_comes_back_and_goes_on(name, tmp_path):
    X, y = made()
    model = ts.make(name, class_weight="balanced", fit_intercept=True, **PARAMETERS.get(name, {})).fit(X[:70], y[:70])
    model.save(tmp_path / "m")
    found = ts.load(tmp_path / "m")
    assert found.get_params() == model.get_params()
    assert_same(found, model)
    for each in (found, pickle.loads(pickle.dumps(found)), model):
        each.partial_fit(X[70:], y[70:])
        each.save(tmp_path / "again")
        assert_same(each, ts.load(tmp_path / "again"))
    assert_same(found, model)
    found.save(tmp_path / "one")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "again").read_bytes()
    assert_same(clone(found).fit(X, y), ts.make(name, **model.get_params()).fit(X, y))


def test_weights_only(tmp_path):
    X, y = made()
    model = ts.AROW(fit_intercept=True, class_weight={"b": 2.0}).fit(X, y)
    model.save(tmp_path / "m", weights_only=True)
    found = ts.load(tmp_path / "m")
    assert_same(found, model)
    assert found.get_params() == model.get_params()
    assert found.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    for action in (lambda: found.partial_fit(X, y), lambda: found.save(tmp_path / "x", weights_only=False)):
        with pytest.raises(WeightsOnlyError, match="this AROW has only its weights"):
            action()
    with pytest.raises(AttributeError, match="saved with weights_only=True, without variances"):
        _ = found.variance_


def test_a_model_without_estimator_loads_as_one(tmp_path):
    """Costs become class_weight."""
    X, y = made(classes=(0, 1, 2))
    for costs, weight in (([Costs()] * 3, None), ([Costs(1.0, 2.0), Costs(), Costs()], {"a": 2.0, "b": 1.0, "c": 1.0})):
        learner = make_outputs("fsol", costs, n_features=9)
        learner.learn(Batch.of(X.indptr, X.indices, X.data, 9, y.astype(np.int32)))
        write(tmp_path / "m", Model(learner, Classes(*"abc")))
        found = ts.load(tmp_path / "m")
        assert found.class_weight == weight
        assert_same(found, ts.FSOL(class_weight=weight, fit_intercept=False).fit(X, np.array([*"abc"])[y]))
    with pytest.raises(InvalidInputError, match="a model of 3 classes needs 3 labels, got 2"):
        Model(learner, Classes("a", "b"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "format version 2, but .* supports only version 1"),
        ({"costs": [{"negative": 1.0, "positive": 1.0, "balanced": False}] * 3}, "costs for 3 classes, but 2 classes"),
        ({"classes": ["a", "b", "c"]}, "not a model that this version can load"),
    ],
)
def test_files_that_contradict_themselves(changes, message, tmp_path):
    with pytest.raises(ModelFileError, match=message):
        read(forged(tmp_path / "m", **changes))


def test_merging():
    X, y = made()
    one, other = (ts.AROW().fit(X[rows], y[rows]) for rows in (slice(0, 60), slice(60, 120)))
    both = one.merge(other)
    assert both.n_mistakes_ == one.n_mistakes_ + other.n_mistakes_
    for k, label in enumerate(both.classes_):
        alone = [ts.AROW().fit(X[rows], y[rows] == label) for rows in (slice(0, 60), slice(60, 120))]
        assert alone[0].merge(alone[1]).coef_.tobytes() == both.coef_[k].tobytes()
    assert_same(other.merge(one), both)
    with pytest.raises(MergeError, match="must agree in classes"):
        one.merge(ts.AROW().fit(X, y == "a"))
    with pytest.raises(MergeError, match=r"the same classes, got models with 2 and 4 classes"):
        merge_outputs([one._model.learner.outputs, Outputs([Learner("arow", n_features=9)])])
