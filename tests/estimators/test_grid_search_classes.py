"""OnlineGridSearchCV and SparsityPath for more than two classes, and by ranks on streams."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold

import thinstream as ts
from thinstream.data.in_memory import from_memory
from thinstream.errors import InvalidInputError, InvalidParameterError

ROWS, WIDTH = 300, 30
LABELS = ("ant", "bee", "cat")
GRID = {"eta": [0.1, 1.0], "l1": [0.0, 0.1]}


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(3)
    X = sp.random_array((ROWS, WIDTH), density=0.3, format="csr", rng=generator, dtype=np.float32)
    scores = X @ generator.normal(size=(WIDTH, 3)) + 0.4 * generator.normal(size=(ROWS, 3))
    return X, np.array(LABELS)[np.argmax(scores, axis=1)]


def stream_of(data):
    return from_memory(*data, classes=LABELS, rows_per_batch=64)


@pytest.mark.parametrize(
    ("scoring", "theirs"),
    [
        ("accuracy", "accuracy"),
        ("balanced_accuracy", "balanced_accuracy"),
        ("f1", "f1_macro"),
        ("recall", "recall_macro"),
        ("jaccard", "jaccard_macro"),
        ("f1_weighted", "f1_weighted"),  # from predictions
    ],
)
def test_with_the_final_models_it_is_scikit_learns_grid_search(data, scoring, theirs):
    X, y = data
    model = ts.FSOL(class_weight={"cat": 2.0})
    ours = ts.OnlineGridSearchCV(model, GRID, cv=KFold(3), scoring=scoring).fit(X, y)
    exact = GridSearchCV(model, GRID, cv=KFold(3), scoring=theirs).fit(X, y)
    for key in ("mean_test_score", "std_test_score", "split1_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], exact.cv_results_[key], rtol=1e-9, err_msg=key)
    assert np.array_equal(ours.best_estimator_.coef_, clone(model).set_params(**ours.best_params_).fit(X, y).coef_)
    assert ours.score(X, y) == pytest.approx(exact.scorer_(ours, X, y))


@pytest.mark.parametrize("cv", [None, 3])
def test_a_stream_gives_what_a_matrix_does_and_the_model_goes_on(data, cv):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), GRID, cv=cv)
    one, other = clone(search).fit(X, y), clone(search).fit_stream(stream_of(data))
    assert np.array_equal(one.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"])
    alone = ts.FSOL(**one.best_params_).fit(X, y)
    for found in (one, other):
        assert np.array_equal(found.best_estimator_.coef_, alone.coef_)
        assert found.best_estimator_.n_mistakes_ == alone.n_mistakes_
        assert found.classes_.tolist() == list(LABELS)
        assert np.array_equal(found.predict(X), alone.predict(X))
        assert found.best_estimator_.partial_fit(X, y).t_ == 2 * ROWS
    mistakes = ts.FSOL(**one.best_params_).partial_fit(X, y, LABELS).n_mistakes_
    if cv is None:
        assert one.cv_results_["progressive_score"][one.best_index_] == pytest.approx(1 - mistakes / ROWS)


def test_several_passes_over_the_rows(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(n_passes=2), GRID, cv=None).fit(X, y)
    alone = ts.FSOL(n_passes=2, **search.best_params_).fit(X, y)
    assert np.array_equal(search.best_estimator_.coef_, alone.coef_)
    assert search.best_estimator_.n_mistakes_ == alone.n_mistakes_


def test_ranks_on_streams_and_their_score(data):
    X, y = data
    for scoring, exact in (("auc", roc_auc_score), ("average_precision", average_precision_score)):
        search = ts.OnlineGridSearchCV(ts.FSOL(), GRID, cv=3, scoring=scoring).fit_stream(stream_of(data))
        scores = search.decision_function(X)
        mean = np.mean([exact(y == label, scores[:, k]) for k, label in enumerate(LABELS)])
        assert search.set_params(scoring="auc" if scoring == "auc" else scoring).best_score_ > 0.5
        if scoring == "auc":  # scikit-learn knows the other name, and has it exact
            assert search.score(X, y) == pytest.approx(mean, abs=0.005)
    two = (X, np.where(y == "ant", "yes", "no"))
    stream = from_memory(*two, classes=("no", "yes"))
    search = ts.OnlineGridSearchCV(ts.FSOL(), GRID, cv=3, scoring="roc_auc").fit_stream(stream)
    assert search.score(*two) == roc_auc_score(two[1] == "yes", search.decision_function(X))
    same = ts.OnlineGridSearchCV(ts.FSOL(), GRID, cv=3, scoring="auc").fit(*two)
    np.testing.assert_allclose(same.cv_results_["mean_test_score"], search.cv_results_["mean_test_score"])


def test_a_sparsity_path_of_three_classes(data):
    X, y = data
    path = ts.SparsityPath(ts.FSOL(), n=4, l1_min=0.05, l1_max=50.0, scoring="f1").fit(X, y)
    streamed = ts.SparsityPath(ts.FSOL(), n=4, l1_min=0.05, l1_max=50.0).fit_stream(stream_of(data))
    for k, model in enumerate(path.models_):
        alone = ts.FSOL(l1=float(path.path_["l1"][k])).fit(X, y)
        assert np.array_equal(model.coef_, alone.coef_)
        assert path.path_["nnz"][k] == np.count_nonzero(alone.coef_)
        assert np.array_equal(streamed.models_[k].coef_, alone.coef_)
    assert path.path_["density"][0] == path.path_["nnz"][0] / (3 * WIDTH)
    assert path.score(X, y) == pytest.approx(f1_score(y, path.predict(X), average="macro"))
    assert path.classes_.tolist() == list(LABELS)
    tested = ts.SparsityPath(ts.FSOL(), n=3, l1_min=0.05, l1_max=50.0).fit(X, y, test=(X, y))
    wrong = np.mean(tested.models_[0].predict(X) != y)
    assert tested.path_["held_out_error"][0] == pytest.approx(wrong)


@pytest.mark.parametrize("kind", [ts.OnlineGridSearchCV(ts.FSOL(), GRID), ts.SparsityPath(ts.FSOL(), n=3)])
def test_scorings_of_two_classes_are_refused(data, kind):
    with pytest.raises((InvalidParameterError, InvalidInputError), match=r"of 3 classes, .*got 'cost'"):
        clone(kind).set_params(scoring="cost").fit(*data)
    with pytest.raises(InvalidInputError, match="Only binary classification is supported here, got 3 classes"):
        ts.cost_curve(ts.FSOL(), *data)
