"""The error by how many weights are kept is that of the thin models themselves."""

import numpy as np
import pytest

import thinstream as ts
from tests.blend.test_importances import rows_of
from tests.thinning.naive import choice
from tests.thinning.test_thin import PREPARATIONS, batch_of
from thinstream.errors import InvalidInputError
from thinstream.thinning import POWERS, Curve, curve, importance, measured, thin


@pytest.mark.parametrize("options", PREPARATIONS, ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_that_of_thin_models(options, classes):
    X, y = rows_of(rows=300)
    y = np.where(X[:, 2] > 0.1, 2, y) if classes == 3 else y
    model = ts.AROW(**options).fit(X[:200], y[:200])
    if classes == 2:
        model = model.set_threshold(0.1)
    rows = batch_of(X[200:], model._model.classes.coded(y[200:]))
    found = measured(model._model, [rows.until(33), rows.after(33)])
    assert found.rows == 100
    assert found.sizes.tolist() == list(curve.all_sizes(model.nnz_))
    for p, power in enumerate(POWERS):
        for k, n in enumerate(found.sizes.tolist()):
            small = thin(model._model, n, importance(model._model.learner, power))
            wrong = model.classes_[small.predict(rows)] != y[200:]
            assert found.wrong[p, k] == np.count_nonzero(wrong), (power, n)
    n, p = choice(found.sizes.tolist(), found.errors.tolist(), found.rows)
    assert found.choice[:2] == (n, POWERS[p])
    chosen = model.thin(X=X[200:], y=y[200:])
    assert chosen.nnz_ == n
    assert np.mean(chosen.predict(X[200:]) != y[200:]) == pytest.approx(found.choice.error)


def test_pieces_do_not_matter(monkeypatch):
    X, y = rows_of(rows=120)
    model = ts.AROW().fit(X, y)._model
    rows = batch_of(X, model.classes.coded(y))
    whole = measured(model, [rows])
    monkeypatch.setattr(curve, "SCORES", 50)
    np.testing.assert_array_equal(measured(model, [rows]).wrong, whole.wrong)


def test_rows_of_weight_0_are_absent():
    X, y = rows_of(rows=120)
    model = ts.AROW().fit(X, y)._model
    coded, weights = model.classes.coded(y), (np.arange(120) % 3 > 0).astype(np.float64)
    some = weights > 0
    found = measured(model, [batch_of(X).labelled(coded, weights)])
    assert found.rows == 80
    np.testing.assert_array_equal(found.wrong, measured(model, [batch_of(X[some], coded[some])]).wrong)


def test_given_a_number_rows_choose_what_is_important():
    X, y = rows_of(rows=300)
    model = ts.AROW().fit(X[:200], y[:200])
    small = model.thin(2, X=X[200:], y=y[200:])
    rows = batch_of(X[200:], model._model.classes.coded(y[200:]))
    each = [thin(model._model, 2, importance(model._model.learner, power)) for power in POWERS]
    wrong = [np.count_nonzero((one.predict(rows) > 0) != (y[200:] > 0)) for one in each]
    assert np.mean(small.predict(X[200:]) != y[200:]) == min(wrong) / 100


def test_the_smallest_within_one_standard_error_is_taken():
    wrong = np.array([[50, 31, 20, 16], [50, 40, 18, 15], [50, 19, 17, 15]])
    found = Curve(POWERS, np.array([1, 5, 10, 100]), wrong, 100).choice
    assert found[:4] == (10, 1.0, 0.17, 0.15)  # 0.19 is above 0.15 ± 0.036
    assert found[:2] == (10, POWERS[choice([1, 5, 10, 100], (wrong / 100).tolist(), 100)[1]])


def test_no_row():
    X, y = rows_of()
    model = ts.AROW().fit(X, y)._model
    with pytest.raises(InvalidInputError, match="there is no row to choose on"):
        measured(model, [])
