"""OnlineGridSearchCV: equal to scikit-learn's where both can, and what only it can."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import balanced_accuracy_score, fbeta_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, PredefinedSplit, ShuffleSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import thinstream as ts
from tests.estimators.test_estimators import reason_for
from thinstream.data.in_memory import from_memory
from thinstream.data.stream import START
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.lanes import Lanes
from thinstream.training.metrics import Tradeoff

ROWS, WIDTH = 300, 30
ETA = {"eta": [0.01, 0.1, 1.0], "l1": [0.0, 0.1]}


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(3)
    X = sp.random_array((ROWS, WIDTH), density=0.2, format="csr", rng=generator)
    noise = 0.4 * generator.normal(size=ROWS)
    return X.astype(np.float32), np.where(X @ generator.normal(size=WIDTH) + noise > 0, "yes", "no")


def stream_of(data, rows_per_batch=64):
    return from_memory(*data, classes=("no", "yes"), rows_per_batch=rows_per_batch)


class Pipe:
    """A stream that can be read once."""

    size = None

    def __init__(self, stream):
        self.stream, self.read = stream, False

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def batches(self):
        assert not self.read
        self.read = True
        return self.stream.batches()


def scores(search):
    return np.array([search.cv_results_[f"split{k}_test_score"] for k in range(search.n_splits_)])


@pytest.mark.parametrize(
    ("estimator", "cv"),
    [
        (ts.FSOL(), KFold(4)),
        (ts.FSOL(n_passes=2, fit_intercept=True), KFold(3)),
        (ts.FSOL(class_weight="balanced"), PredefinedSplit(np.arange(ROWS) % 5 - 1)),
        (ts.FSOL(class_weight={"yes": 3.0}), [(np.arange(0, 200), np.arange(250, 300))]),
    ],
    ids=["folds", "passes", "predefined", "iterable"],
)
def test_with_the_final_models_it_is_scikit_learns_grid_search(data, estimator, cv):
    X, y = data
    ours = ts.OnlineGridSearchCV(estimator, ETA, cv=cv).fit(X, y)
    theirs = GridSearchCV(estimator, ETA, cv=cv).fit(X, y)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.n_splits_ == theirs.n_splits_
    for split in range(ours.n_splits_):
        key = f"split{split}_test_score"
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=1e-12)
    for key in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=1e-12)
    assert np.ma.allequal(ours.cv_results_["param_eta"], theirs.cv_results_["param_eta"])
    assert ours.cv_results_["rank_test_score"].min() == 1
    assert np.array_equal(ours.best_estimator_.coef_, clone(estimator).set_params(**ours.best_params_).fit(X, y).coef_)
    assert np.array_equal(ours.predict(X), ours.best_estimator_.predict(X))
    assert ours.score(X, y) == ours.best_estimator_.score(X, y)


WARM = 128  # the largest power of two up to half of the rows


def passing(X, y, estimator, k, fold):
    """Errors on the held-out rows of a fold as they pass, but for the first, by hand."""
    model, wrong = clone(estimator), []
    held = np.arange(len(y)) % k == fold
    for i in range(len(y)):
        if held[i] and i >= WARM:
            wrong.append(model.predict(X[[i]])[0] != y[i])
        elif not held[i]:
            model.partial_fit(X[[i]], y[[i]], classes=["no", "yes"])
    return np.mean(wrong)


def test_by_default_row_i_is_held_out_from_lane_i_mod_k_and_scored_as_it_passes(data):
    X, y = data
    grid = {"eta": [0.1, 1.0]}
    search = ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=3).fit(X, y)
    for fold in range(3):
        expected = [1 - passing(X, y, ts.FSOL(eta=eta), 3, fold) for eta in grid["eta"]]
        assert search.cv_results_[f"split{fold}_test_score"].tolist() == pytest.approx(expected)
    mod = PredefinedSplit(np.arange(ROWS) % 3)
    for other in (
        ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=3, refit=False).fit_stream(stream_of(data)),
        ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=mod, held_out="passing").fit(X, y),
    ):
        np.testing.assert_array_equal(scores(search), scores(other))
    final = ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=3, held_out="final")
    exact = ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=mod).fit(X, y)
    np.testing.assert_array_equal(scores(final.fit(X, y)), scores(exact))
    np.testing.assert_array_equal(scores(final.fit_stream(stream_of(data))), scores(exact))


def test_without_folds_rows_are_scored_before_they_are_learned_and_the_winner_is_the_model(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), ETA, cv=None).fit(X, y)
    runs = [ts.FSOL(**params).partial_fit(X, y, ["no", "yes"]) for params in search.cv_results_["params"]]
    assert search.cv_results_["progressive_score"].tolist() == pytest.approx([1 - r.n_mistakes_ / ROWS for r in runs])
    before = [ts.FSOL(**params).learn(X, y) for params in search.cv_results_["params"]]
    late = [1 - np.mean((scores > 0)[WARM:] != (y == "yes")[WARM:]) for scores in before]
    assert search.cv_results_["mean_test_score"].tolist() == pytest.approx(late)
    assert search.n_splits_ == 0
    assert np.array_equal(search.best_estimator_.coef_, runs[search.best_index_].coef_)
    assert search.best_estimator_.partial_fit(X, y).t_ == 2 * ROWS  # goes on as any other
    error = search.cv_results_["standard_error"]
    p = 1 - search.cv_results_["mean_test_score"]
    np.testing.assert_allclose(error, np.sqrt(p * (1 - p) / (ROWS - WARM)), rtol=0.02)


@pytest.mark.parametrize("cv", [None, 3])
def test_from_a_pipe_the_model_comes_from_the_same_pass(data, cv):
    X, _ = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), ETA, cv=cv)
    piped = clone(search).fit_stream(Pipe(stream_of(data)))
    again = search.fit_stream(stream_of(data))
    assert piped.best_params_ == again.best_params_
    assert np.array_equal(piped.best_estimator_.coef_, again.best_estimator_.coef_)
    assert piped.classes_.tolist() == again.classes_.tolist() == ["no", "yes"]
    assert np.concatenate(list(piped.predict_stream(stream_of(data)))).tolist() == piped.predict(X).tolist()
    assert piped.n_features_in_ == WIDTH


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"held_out": "final"}, InvalidInputError, "scoring with the final models needs rows that can be read again"),
        ({"estimator__n_passes": 2}, InvalidInputError, "several passes needs rows that can be read again"),
        ({"estimator__shuffle": True}, InvalidParameterError, "shuffle of the estimator must be False"),
        ({"cv": KFold(3)}, InvalidParameterError, "cv must be a number of folds or None for a stream"),
        ({"memory": 100}, InvalidInputError, "lanes of FSOL on .* need"),
        ({"scoring": "roc_auc_ovr"}, InvalidParameterError, "scoring for a stream must be .*, got 'roc_auc_ovr'"),
    ],
)
def test_what_a_pipe_cannot_do_is_refused(data, changes, error, message):
    search = ts.OnlineGridSearchCV(ts.FSOL(), ETA).set_params(**changes)
    with pytest.raises(error, match=message):
        search.fit_stream(Pipe(stream_of(data)))
    assert not hasattr(search, "cv_results_")


@pytest.mark.parametrize(
    "scoring",
    [
        *("accuracy", "balanced_accuracy", "f1", "precision", "recall", "jaccard", "matthews_corrcoef"),  # from counts
        *("roc_auc", "average_precision", make_scorer(fbeta_score, beta=2)),  # from predictions
        lambda estimator, X, y: np.mean(estimator.decision_function(X)[y == 1]),
    ],
    ids=lambda scoring: str(scoring).split("(")[0].split(" at ")[0],
)
def test_scorers_are_scikit_learns(data, scoring):
    X, y = data[0], (data[1] == "yes").astype(int)
    model = ts.FSOL(fit_intercept=False)  # with one, a candidate calls nothing positive: precision is undefined
    ours = ts.OnlineGridSearchCV(model, ETA, cv=KFold(3), scoring=scoring).fit(X, y)
    theirs = GridSearchCV(model, ETA, cv=KFold(3), scoring=scoring).fit(X, y)
    for key in ("mean_test_score", "std_test_score", "split1_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], rtol=1e-6, err_msg=key)
    assert ours.best_params_ == theirs.best_params_
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))
    if isinstance(scoring, str):
        weights = np.arange(ROWS) % 3
        assert ours.score(X, y, weights) == pytest.approx(get_scorer(scoring)(ours, X, y, sample_weight=weights))


def test_predictions_are_scored_as_counts_are(data):
    """As rows pass, before they are learned, and in several passes: the first rows count neither here nor there."""

    def share_right(estimator, X, y):
        return np.mean(estimator.predict(X) == y)

    for changes in ({"cv": 3}, {"cv": None}, {"estimator__n_passes": 2}, {"memory": 5000}, {"held_out": "final"}):
        search = ts.OnlineGridSearchCV(ts.FSOL(fit_intercept=False), ETA).set_params(**changes)
        counted, predicted = search.fit(*data), clone(search).set_params(scoring=share_right).fit(*data)
        for key in ("mean_test_score", "rank_test_score"):
            np.testing.assert_allclose(counted.cv_results_[key], predicted.cv_results_[key], err_msg=str(changes))
        assert np.array_equal(counted.best_estimator_.coef_, predicted.best_estimator_.coef_)


def test_score_follows_scoring(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), ETA).fit(X, y)
    right = np.mean(search.predict(X) == y)
    reported = {"accuracy": right, "error": right - 1.0, "cost": None, "log_loss": None}
    for scoring, expected in reported.items():
        found = search.set_params(scoring=scoring).score(X, y)
        assert found == pytest.approx(expected) if expected is not None else found < 0
    assert search.set_params(scoring=lambda report: report.rows).score(X, y) == ROWS
    with pytest.raises(InvalidParameterError, match="sample_weight needs the scoring"):
        search.set_params(scoring="cost").score(X, y, np.ones(ROWS))


@pytest.mark.slow  # lanes of another algorithm are compiled
def test_score_of_probabilities(data):
    X, y = data
    logistic = ts.OnlineGridSearchCV(ts.FOBOS(loss="logistic"), ETA, scoring="neg_log_loss").fit(X, y)
    assert logistic.score(X, y) == pytest.approx(get_scorer("neg_log_loss")(logistic, X, y), rel=1e-5)


@pytest.mark.parametrize("n_jobs", [None, 2, -1])
def test_jobs_change_nothing(data, n_jobs):
    one = ts.OnlineGridSearchCV(ts.FSOL(), ETA).fit(*data)
    many = ts.OnlineGridSearchCV(ts.FSOL(), ETA, n_jobs=n_jobs).fit(*data)
    np.testing.assert_array_equal(scores(one), scores(many))


def test_scorings(data):
    X, y = data
    mod = PredefinedSplit(np.arange(ROWS) % 3)
    models = [(ts.FSOL(eta=0.1).fit(X[train], y[train]), test) for train, test in mod.split()]

    def found(scoring, tradeoff=None):
        search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.1]}, cv=mod, scoring=scoring, tradeoff=tradeoff)
        return scores(search.fit(X, y))[:, 0]

    for k, (model, test) in enumerate(models):
        truth, s = y[test] == "yes", model.decision_function(X[test]).astype(float)
        sensitivity, specificity = np.mean(s[truth] > 0), np.mean(s[~truth] <= 0)
        missed, false = np.sum(truth & (s <= 0)), np.sum(~truth & (s > 0))
        assert found("balanced_accuracy")[k] == pytest.approx(balanced_accuracy_score(y[test], model.predict(X[test])))
        tradeoff = Tradeoff(0.8, 0.2, 0.9, 0.1)
        assert found("weighted_sum", tradeoff)[k] == pytest.approx(0.8 * sensitivity + 0.2 * specificity)
        assert found("cost", tradeoff)[k] == pytest.approx(-(0.9 * missed + 0.1 * false) / len(test))
        assert found("log_loss")[k] == pytest.approx(-np.mean(np.logaddexp(0, np.where(truth, -s, s))))
        assert found(lambda report: report.sensitivity)[k] == pytest.approx(sensitivity)


def test_intercept_costs_schedules_and_kinds_can_be_searched(data):
    X, y = data
    grid = [
        {"fit_intercept": [False, True], "class_weight": [None, "balanced", {"yes": 5.0}]},
        {"l1_schedule": ["const", "sqrt"], "l1": [0.5]},
    ]
    search = ts.OnlineGridSearchCV(ts.FSOL(), grid, cv=None).fit(X, y)
    results = search.cv_results_
    assert len(results["params"]) == 8
    assert results["param_l1"].mask.tolist() == [True] * 6 + [False] * 2
    for params, score in zip(results["params"], results["progressive_score"], strict=True):
        mistakes = ts.FSOL(**params).partial_fit(X, y, ["no", "yes"]).n_mistakes_
        assert score == pytest.approx(1 - mistakes / ROWS)


@pytest.mark.slow
def test_parameters_that_select_code_can_be_searched(data):
    X, y = data
    grid = {"diagonal": ["drop", "exact"], "update_on": ["every", "loss"]}
    results = ts.OnlineGridSearchCV(ts.SSOL(), grid, cv=None).fit(X, y).cv_results_
    for params, score in zip(results["params"], results["progressive_score"], strict=True):
        mistakes = ts.SSOL(**params).partial_fit(X, y, ["no", "yes"]).n_mistakes_
        assert score == pytest.approx(1 - mistakes / ROWS)


def test_shuffling_is_that_of_the_estimator(data):
    X, y = data
    estimator = ts.FSOL(shuffle=True, random_state=5, n_passes=2)
    search = ts.OnlineGridSearchCV(estimator, {"eta": [0.1, 1.0]}, cv=None).fit(X, y)
    assert np.array_equal(
        search.best_estimator_.coef_, clone(estimator).set_params(**search.best_params_).fit(X, y).coef_
    )
    folds = ts.OnlineGridSearchCV(estimator, {"eta": [0.1]}, cv=3).fit(X, y)
    assert scores(folds).shape == (3, 1)


def test_random_candidates_have_a_seed(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": np.geomspace(0.1, 10, 50)}, n_iter=4, random_state=1, refit=False)
    one, same, other = (
        clone(search).set_params(random_state=seed).fit(X, y).cv_results_["params"] for seed in (1, 1, 2)
    )
    assert one == same != other
    assert len(one) == 4


def test_beyond_the_memory_candidates_go_in_several_passes_with_the_same_result(data):
    X, y = data
    grid = {"eta": np.geomspace(0.01, 10, 40)}
    for cv in (3, None):
        search = ts.OnlineGridSearchCV(ts.FSOL(fit_intercept=False), grid, cv=cv)
        limit = Lanes.estimate_nbytes("fsol", [{}] * 40 * (cv or 1), WIDTH) // 3
        whole, parts = clone(search).fit(X, y), clone(search).set_params(memory=limit).fit(X, y)
        assert parts.n_study_passes_ > 1 == whole.n_study_passes_
        assert np.array_equal(whole.cv_results_["mean_test_score"], parts.cv_results_["mean_test_score"])
        assert np.array_equal(whole.best_estimator_.coef_, parts.best_estimator_.coef_)


def test_a_stream_that_turns_out_too_wide_begins_anew_with_the_same_result(data):
    X, y = data
    wide = X.copy()
    wide.indices[: wide.indptr[200]] %= 8  # narrow at first
    wide.sum_duplicates()
    stream = stream_of((wide, y), 50)

    class Growing:
        """Tells of columns as they come."""

        n_features = None

        def __getattr__(self, name):
            return getattr(stream, name)

        def batches(self, start=START):
            return (replace(batch, n_features=int(batch.indices.max()) + 1) for batch in stream.batches(start))

    search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": np.geomspace(0.01, 10, 40)}, cv=3, eliminate=True)
    whole = clone(search).fit_stream(Growing())
    limit = Lanes.estimate_nbytes("fsol", [{}] * 120, WIDTH // 2)
    parts = clone(search).set_params(memory=limit).fit_stream(Growing())
    assert parts.n_study_passes_ > 1 == whole.n_study_passes_
    assert np.array_equal(scores(whole), scores(parts))
    assert np.array_equal(whole.cv_results_["progressive_score"], parts.cv_results_["progressive_score"])
    assert np.array_equal(whole.best_estimator_.coef_, parts.best_estimator_.coef_)


def test_groups_weights_and_overlapping_tests(data):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, ROWS).astype(float)
    groups = np.arange(ROWS) // 30
    search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.1]}, cv=GroupKFold(2)).fit(X, y, weights, groups)
    for (train, test), score in zip(GroupKFold(2).split(X, y, groups), scores(search)[:, 0], strict=True):
        model = ts.FSOL(eta=0.1).fit(X[train], y[train], weights[train])
        counted = test[weights[test] > 0]
        assert score == pytest.approx(model.score(X[counted], y[counted]))
    overlapping = ShuffleSplit(5, test_size=0.5, random_state=0)
    assert ts.OnlineGridSearchCV(ts.FSOL(), ETA, cv=overlapping).fit(X, y).n_splits_ == 5


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cv": 1}, InvalidParameterError, r"cv must be a whole number ≥ 2, .* got 1"),
        ({"cv": 2.5}, InvalidParameterError, r"cv must be a whole number ≥ 2, .* got 2.5"),
        ({"cv": 301}, InvalidInputError, r"cv=301 needs at least 301 rows, got 300"),
        ({"cv": [([0, 0, 1], [2])]}, InvalidInputError, r"split 0 has train rows that occur twice"),
        ({"cv": [([0, 1], [1])]}, InvalidInputError, r"split 0 has test rows that are also train rows"),
        ({"cv": [([0, 1], [300])]}, InvalidInputError, r"split 0 has test rows that are not in X, which has 300 rows"),
        ({"cv": []}, InvalidParameterError, r"cv must have at least one split"),
        ({"scoring": "area"}, InvalidParameterError, r"scoring must be .* got 'area'"),
        ({"scoring": "auc", "eliminate": True}, InvalidParameterError, r"eliminate must be False with .*'auc'"),
        ({"scoring": "roc_auc", "eliminate": True}, InvalidParameterError, r"eliminate must be False with .*'roc_auc'"),
        ({"held_out": "last"}, InvalidParameterError, r"held_out must be 'auto', 'passing' or 'final', got 'last'"),
        ({"param_grid": {"eta": [0]}}, InvalidParameterError, r"FSOL: eta must be a number > 0, got 0"),
        ({"param_grid": {"n_passes": [1]}}, InvalidParameterError, r"can be searched, got 'n_passes'"),
        ({"estimator": KFold(2)}, InvalidParameterError, r"must be an online estimator of thinstream .*, got KFold"),
        ({"memory": "4GB"}, InvalidParameterError, r"memory must be a whole number ≥ 1, got '4GB'"),
        (
            {"n_jobs": 0},
            InvalidParameterError,
            r"n_jobs must be a whole number, -1 for all cores, or None for 1, got 0",
        ),
        ({"memory": 10}, InvalidInputError, r"lanes of FSOL on 30 features need"),
    ],
)
def test_errors_leave_it_as_it_was(data, changes, error, message):
    search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.5]}).fit(*data)
    before = {name: value for name, value in vars(search).items() if name.endswith("_")}
    search.set_params(**changes)
    with pytest.raises(error, match=message):
        search.fit(*data)
    assert {name: value for name, value in vars(search).items() if name.endswith("_")} == before


def test_pickle_clone_refit_and_parameters(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), ETA, eliminate=True)
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert search.get_params()["estimator__eta"] == 1.0
    search.set_params(estimator__l1_schedule="sqrt", cv=2).fit(X, y)
    back = pickle.loads(pickle.dumps(search))
    assert np.array_equal(back.decision_function(X), search.decision_function(X))
    assert back.best_score_ == search.best_score_ == search.cv_results_["mean_test_score"].max()
    assert not hasattr(clone(search), "cv_results_")
    assert search.refit_time_ > 0
    bare = clone(search).set_params(refit=False).fit(X, y)
    assert bare.best_params_ == search.best_params_
    assert not hasattr(bare, "best_estimator_")
    with pytest.raises(AttributeError, match="has no attribute 'predict'"):
        bare.predict(X)
    assert not hasattr(search, "predict_proba")


def test_it_is_an_estimator_among_others(data):
    X, y = data
    search = ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.1, 1.0]}, cv=3)
    assert len(cross_val_score(search, X, y, cv=3)) == 3
    assert make_pipeline(MaxAbsScaler(), search).fit(X, y).score(X, y) > 0.7


def cases():
    for model, check in estimator_checks_generator(ts.OnlineGridSearchCV(ts.FSOL(), {"eta": [0.1, 1.0]}, cv=2)):
        title = check.func.__name__
        reason = reason_for("FSOL()", title)
        marks = [pytest.mark.xfail(reason=f"excused: {reason}", strict=True)] if reason else []
        yield pytest.param(model, check, id=title, marks=marks)


@pytest.mark.parametrize(("model", "check"), list(cases()))
@pytest.mark.filterwarnings("ignore::thinstream.errors.SortedRowsWarning")  # iris is sorted
def test_check_estimator(model, check):
    check(model)
