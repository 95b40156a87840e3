"""SparsityPath, the estimator: its models are those of single fits, it picks, scores and predicts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.utils.estimator_checks import estimator_checks_generator

import thinstream as ts
from tests.estimators.test_estimators import EXCUSED
from tests.tuning.sweeps import drawn, streamed
from thinstream.errors import EdgeWarning, InvalidInputError, InvalidParameterError

X, Y = drawn()
LABELS = np.where(Y > 0, "spam", "ham")


@pytest.mark.parametrize("scoring", ["f1", "roc_auc", lambda estimator, X, y: np.mean(estimator.predict(X) == y)])
def test_other_scorings_pick_and_score(scoring):
    path = ts.SparsityPath(ts.FSOL(), n=6, l1_min=0.02, l1_max=1e4, scoring=scoring).fit(X, LABELS)
    best = path.choose("best").best_index_
    other = ts.SparsityPath(ts.FSOL(), n=6, l1_min=0.02, l1_max=1e4, pick="best").fit(X, LABELS)
    assert np.array_equal(other.path_["nnz"], path.path_["nnz"])
    if callable(scoring):
        assert best == other.best_index_
        assert path.score(X, LABELS) == np.mean(path.predict(X) == LABELS)
        with pytest.raises(InvalidParameterError, match="needs held-out rows"):
            path.set_params(holdout=0).fit(X, LABELS)
    elif scoring == "roc_auc":
        assert path.score(X, LABELS) == get_scorer("roc_auc")(path.best_estimator_, X, LABELS)
        streaming = path.fit_stream(streamed(X, Y))  # by bins, as predictions are not held
        assert streaming.score(X, Y) == get_scorer("roc_auc")(streaming.best_estimator_, X, Y)
    with pytest.raises(InvalidParameterError, match="this path has no scoring 'average_precision'"):
        path.choose(scoring="average_precision")


@pytest.fixture(scope="module")
def fitted():
    return ts.SparsityPath(ts.FSOL(eta=0.5), n=6, l1_min=0.02, l1_max=200.0).fit(X, LABELS)


def test_models_are_those_of_single_fits(fitted):
    for model in fitted.models_:
        single = ts.FSOL(eta=0.5, l1=model.l1).fit(X, LABELS)
        assert np.array_equal(model.coef_, single.coef_)
        assert model.get_params() == single.get_params()
    assert len(fitted.models_[1:3]) == 2
    assert fitted.models_[-1] is fitted.models_[5]


def test_the_picked_model_predicts(fitted):
    best = fitted.models_[fitted.best_index_]
    assert fitted.best_estimator_ is best
    assert np.array_equal(fitted.predict(X), best.predict(X))
    assert np.array_equal(fitted.decision_function(X), best.decision_function(X))
    assert fitted.score(X, LABELS) == best.score(X, LABELS) > 0.8
    assert fitted.classes_.tolist() == ["ham", "spam"]
    assert not hasattr(fitted, "predict_proba")
    assert {len(column) for column in fitted.path_.values()} == {6}


def test_another_model_can_be_chosen_without_learning_anew(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    with pytest.warns(UserWarning, match="not better than a constant prediction, by average_precision"):
        assert again.choose(max_nnz=3).best_estimator_.nnz_ <= 3
    table = fitted.path_
    best = again.choose("best", scoring="error").best_index_
    assert table["held_out_error"][best] == table["held_out_error"].min()
    best = again.choose("best", scoring="balanced_accuracy").best_index_
    assert table["held_out_balanced_accuracy"][best] == table["held_out_balanced_accuracy"].max()
    assert again.best_estimator_.partial_fit(X, LABELS).t_ == 2 * len(Y)
    assert fitted.best_estimator_.t_ == len(Y)


def test_a_target_that_no_model_meets_is_an_error_after_which_the_path_is_there():
    path = ts.SparsityPath(ts.FSOL(), n=3, l1_min=1e-4, l1_max=1e-3, max_nnz=5)
    with pytest.raises(InvalidInputError, match=r"at most 5 non-zero weights\. The sparsest has 40"):
        path.fit(X, Y)
    assert path.path_["nnz"].min() == 40
    with pytest.raises(ValueError, match="not fitted"):
        path.predict(X)
    with pytest.warns(EdgeWarning, match="highest l1"):
        path.choose()
    assert path.predict(X).shape == Y.shape


def test_a_stream_a_matrix_and_a_test_set(tmp_path):
    model = ts.SparsityPath(ts.FSOL(), n=4, l1_min=0.02, l1_max=200.0)
    one, other = (
        clone(model).fit(X, Y, test=(X[:200], Y[:200])),
        clone(model).fit_stream(streamed(X, Y), test=streamed(X[:200], Y[:200])),
    )
    for name, column in one.path_.items():
        assert np.array_equal(column, other.path_[name], equal_nan=True)
    assert other.classes_.tolist() == [-1, 1]
    other.best_estimator_.save(tmp_path / "best.ts")
    assert np.array_equal(ts.load(tmp_path / "best.ts").predict(X), one.predict(X))


def test_shuffling_and_weights_are_those_of_the_estimator():
    weights = np.random.default_rng(0).integers(0, 3, len(Y))
    base = ts.FSOL(shuffle=True, random_state=7, fit_intercept=True, class_weight={1: 2.0})
    path = ts.SparsityPath(base, n=2, l1_min=0.1, l1_max=1.0, holdout=0).fit(X, Y, weights)
    single = clone(base).set_params(l1=path.models_[1].l1).fit(X, Y, weights)
    assert np.array_equal(path.models_[1].coef_, single.coef_)
    assert path.models_[1].intercept_ == single.intercept_


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"estimator": ts.FSOL(n_passes=2)}, "n_passes must be 1"),
        ({"estimator": "fsol"}, "an online estimator of thinstream"),
        ({"estimator": ts.Perceptron()}, "has no l1"),
        ({"estimator": ts.FSOL(), "pick": "worst"}, "pick must be"),
        ({"estimator": ts.FSOL(), "n": 2.5}, "whole number"),
    ],
)
def test_bad_parameters_leave_nothing_behind(parameters, words):
    path = ts.SparsityPath(**parameters)
    with pytest.raises(InvalidParameterError, match=words):
        path.fit(X, Y)
    assert not hasattr(path, "path_")
    assert not hasattr(path, "n_features_in_")


def test_a_stream_is_not_shuffled():
    with pytest.raises(InvalidParameterError, match="shuffle must be False"):
        ts.SparsityPath(ts.FSOL(shuffle=True)).fit_stream(streamed(X, Y))


CHECKS = [
    pytest.param(model, check, id=check.func.__name__)
    for model, check in estimator_checks_generator(ts.SparsityPath(ts.FSOL(), n=3))
    if check.func.__name__ not in EXCUSED
]


@pytest.mark.parametrize(("model", "check"), CHECKS)
@pytest.mark.filterwarnings("ignore::thinstream.errors.SortedRowsWarning")  # iris is sorted
def test_check_estimator(model, check):
    check(model)
