"""How good a model is by the number of features that are kept: the numbers of the thin models themselves."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, log_loss

import thinstream as ts
from tests.models.naive_thin import choice
from tests.models.test_importances import rows_of
from tests.models.test_thin import PREPARATIONS, batch_of
from thinstream.errors import InvalidInputError
from thinstream.models.importance import POWERS, importance
from thinstream.models.thin import thin
from thinstream.tuning import thin_curve
from thinstream.tuning.thin_curve import Curve, compare_sizes, measured


@pytest.mark.parametrize("options", PREPARATIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_that_of_thin_models(options, classes):
    X, y = rows_of(rows=300)
    y = np.where(X[:, 2] > 0.1, 2, y) if classes == 3 else y
    model = ts.AROW(**options).fit(X[:200], y[:200])
    if classes == 2:
        model = model.set_threshold(0.1)
    rows = batch_of(X[200:], model._model.classes.coded(y[200:]))
    found = measured(model._model, [rows.until(33), rows.after(33)], scoring="error")
    assert found.examples.sum() == 100
    assert found.sizes.tolist() == list(thin_curve.all_sizes(6))
    for p, power in enumerate(POWERS):
        for k, n in enumerate(found.sizes.tolist()):
            small = thin(model._model, n, importance(model._model.learner, power))
            wrong = model.classes_[small.predict(rows)] != y[200:]
            assert found.values[p, k] == found.errors[p, k] == np.count_nonzero(wrong) / 100, (power, n)
    n, p = choice(found.sizes.tolist(), found.values.tolist(), found.standard_errors.tolist())
    assert found.choice[:2] == (n, POWERS[p])
    chosen = model.thin(X_val=X[200:], y_val=y[200:], scoring="error")
    assert np.count_nonzero(chosen.coef_.any(axis=0)) == n
    assert np.mean(chosen.predict(X[200:]) != y[200:]) == pytest.approx(found.choice.error)


def test_models_with_probabilities_are_compared_by_log_loss():
    X, y = rows_of(rows=300)
    model = ts.AdaRDA(loss="logistic").fit(X[:200], y[:200])
    found = measured(model._model, [batch_of(X[200:], model._model.classes.coded(y[200:]))])
    assert found.scoring == "log_loss"
    for k, n in enumerate(found.sizes.tolist()):
        losses = [log_loss(y[200:], self_thin(model, n, power).predict_proba(X[200:])) for power in POWERS]
        np.testing.assert_allclose(found.values[:, k], losses, rtol=1e-4)


def self_thin(model, n, power):
    return model.thin(n)._adopt(thin(model._model, n, importance(model._model.learner, power)))


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_that_of_thin_models_with_products_of_features(classes):
    X, y = rows_of(rows=300)
    y = np.where(X[:, 2] > 0.1, 2, y) if classes == 3 else y
    model = ts.Auto().fit(X[:200], y[:200])
    assert model._model.learner.served().products is not None
    found = measured(model._model, [batch_of(X[200:], model._model.classes.coded(y[200:]))], [2, 5], scoring="error")
    for k, n in enumerate(found.sizes.tolist()):
        for p, power in enumerate(POWERS):
            wrong = self_thin(model, n, power).predict(X[200:]) != y[200:]
            assert found.values[p, k] == np.count_nonzero(wrong) / 100, (power, n)


def test_others_are_compared_by_average_precision():
    X, y = rows_of(rows=300)
    model = ts.AROW().fit(X[:200], y[:200])
    found = measured(model._model, [batch_of(X[200:], model._model.classes.coded(y[200:]))])
    assert found.scoring == "average_precision"
    for k, n in enumerate(found.sizes.tolist()):
        scores = self_thin(model, n, 0.5).decision_function(X[200:])
        assert found.values[1, k] == pytest.approx(average_precision_score(y[200:], scores), abs=0.03)  # scores in bins


def test_pieces_do_not_matter(monkeypatch):
    X, y = rows_of(rows=120)
    model = ts.AdaRDA(loss="logistic").fit(X, y)._model
    rows = batch_of(X, model.classes.coded(y))
    whole = measured(model, [rows])
    monkeypatch.setattr(thin_curve, "SCORES", 50)
    parts = measured(model, [rows.until(7), rows.after(7)])
    assert parts.values.tobytes() == whole.values.tobytes()
    assert parts.standard_errors.tobytes() == whole.standard_errors.tobytes()


def test_rows_of_weight_0_are_absent():
    X, y = rows_of(rows=120)
    model = ts.AROW().fit(X, y)._model
    coded, weights = model.classes.coded(y), (np.arange(120) % 3 > 0).astype(np.float64)
    some = weights > 0
    found = measured(model, [batch_of(X).labelled(coded, weights)])
    assert found.examples.sum() == 80
    np.testing.assert_array_equal(found.values, measured(model, [batch_of(X[some], coded[some])]).values)


def test_given_a_number_rows_choose_what_is_important():
    X, y = rows_of(rows=300)
    model = ts.AROW().fit(X[:200], y[:200])
    small = model.thin(2, X_val=X[200:], y_val=y[200:], scoring="error")
    rows = batch_of(X[200:], model._model.classes.coded(y[200:]))
    candidates = [thin(model._model, 2, importance(model._model.learner, power)) for power in POWERS]
    wrong = [np.count_nonzero((one.predict(rows) > 0) != (y[200:] > 0)) for one in candidates]
    assert np.mean(small.predict(X[200:]) != y[200:]) == min(wrong) / 100


def test_the_smallest_within_one_standard_error_is_taken():
    values = np.array([[0.50, 0.31, 0.20, 0.16], [0.50, 0.40, 0.18, 0.15], [0.50, 0.19, 0.17, 0.15]])
    errors = np.full(values.shape, 0.036)
    found = Curve("error", POWERS, np.array([1, 5, 10, 100]), values, errors, values, np.array([50, 50])).choice
    assert found[:4] == (10, 1.0, 0.17, 0.15)  # 0.19 is above 0.15 + 0.036
    assert found[:2] == (10, POWERS[choice([1, 5, 10, 100], values.tolist(), errors.tolist())[1]])


def test_a_model_that_is_no_better_than_a_constant_answer_is_reported():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 3)).astype(np.float32), rng.integers(0, 2, 600)
    model = ts.AdaRDA(loss="logistic").fit(X[:300], y[:300])
    with pytest.warns(UserWarning, match="not better than a constant prediction on held-out rows, by log_loss"):
        model.thin(X_val=X[300:], y_val=y[300:])


def test_the_first_of_equally_good_sizes_is_taken():
    X, y = rows_of(rows=300)
    model = ts.AdaRDA(loss="logistic").fit(X[:200], y[:200])
    rows = batch_of(X[200:], model._model.classes.coded(y[200:]))
    models = [thin(model._model, n) for n in (1, 3, 6)]
    chosen, curve = compare_sizes(models, lambda: [rows])
    losses = [measured(small, [rows], powers=(0.0,)).values[0, -1] for small in models]
    spreads = [measured(small, [rows], powers=(0.0,)).standard_errors[0, -1] for small in models]
    best = int(np.argmin(losses))
    assert chosen == next(k for k, loss in enumerate(losses) if loss <= losses[best] + spreads[best])
    assert curve.values[0, 0] == losses[chosen]


def test_no_row():
    X, y = rows_of()
    model = ts.AROW().fit(X, y)._model
    with pytest.raises(InvalidInputError, match="there is no row to choose on"):
        measured(model, [])
