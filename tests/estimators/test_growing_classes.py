"""Estimators whose classes come with the rows: none need be told, labels come back as they were."""

import numpy as np
import pytest
from sklearn.base import clone

import thinstream as ts
from tests.models.test_one_vs_rest import made
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError


def test_an_estimator_needs_no_classes_and_keeps_them_sorted():
    X, y = made(seed=3)
    order = np.argsort(np.where(y == "a", 1, 0), kind="stable")  # "a" comes last
    X, y = X[order], y[order]
    model = ts.AROW(grow_classes=True, dtype="float64")
    scores = []
    for a in range(0, len(y), 25):
        scores.append(model.learn(X[a : a + 25], y[a : a + 25]))
        assert model.classes_.tolist() == sorted({*y[: a + 25]})
        assert scores[-1].shape[1] == len(model.classes_)
    whole = ts.AROW(dtype="float64")
    wanted = whole.learn(X, y)
    for name in ("classes_", "coef_", "intercept_", "n_updates_", "cumulative_loss_", "variance_"):
        assert getattr(model, name).tolist() == getattr(whole, name).tolist(), name
    assert (model.decision_function(X) == whole.decision_function(X)).all()
    assert (model.predict(X) == whole.predict(X)).all()
    assert (model.sparsify().coef_.toarray() == whole.coef_).all()
    assert (scores[-1] == wanted[-len(scores[-1]) :]).all()
    first = [sorted({*whole.classes_}).index(label) for label in sorted({*y[:25]})]
    assert (scores[0] == wanted[:25, first]).all()


def test_two_classes_have_two_models_and_one_has_one():
    X, y = made(classes=("no", "yes"))
    model = ts.SSOL(grow_classes=True).partial_fit(X[:1], y[:1])
    assert model.coef_.shape == (1, 9)
    assert model.predict(X[:2]).tolist() == [y[0]] * 2
    model.partial_fit(X[1:], y[1:])
    assert model.coef_.shape == (2, 9)
    assert model.decision_function(X).shape == (len(y), 2)
    alone = ts.SSOL().fit(X, y == "no")
    assert model.coef_[0].tobytes() == alone.coef_[0].tobytes()
    fitted = ts.SSOL(grow_classes=True).fit(X, y)
    assert fitted.coef_.tobytes() == model.coef_.tobytes()
    assert ts.AdaRDA(loss="logistic", grow_classes=True).fit(X, y).predict_proba(X).shape == (len(y), 2)


def test_a_first_row_is_a_mistake():
    model = ts.FSOL(grow_classes=True)
    for label in ("x", "y", "z"):
        model.partial_fit([[1.0]], [label])
    assert model.n_mistakes_ == 3


@pytest.mark.parametrize(
    "labels", [["b", "a", "long name"], [3, -1, 300], [0.5, -2.0, 7.25], [True, False]], ids=["U", "i", "f", "b"]
)
def test_labels_come_back_as_they_were(tmp_path, labels):
    X = np.eye(len(labels))
    model = ts.FSOL(grow_classes=True, grow=True)
    for row, label in zip(X, labels):
        model.partial_fit([row], np.array([label]))
    assert model.predict(X).tolist() == labels
    assert model.classes_.tolist() == sorted(labels)
    model.save(tmp_path / "m")
    back = ts.load(tmp_path / "m")
    assert back.grow_classes
    assert back.predict(X).tolist() == labels
    assert back.classes_.dtype == model.classes_.dtype
    assert clone(back).get_params() == model.get_params()
    back.partial_fit(X[:1], model.classes_[:1])


def test_mixed_labels_leave_the_model_as_it_was():
    model = ts.FSOL(grow_classes=True).partial_fit([[1.0]], ["a"])
    for bad, message in (
        ([1], "labels must all be of one type, got numbers and strings"),
        (["b", 2], "y has text and other labels: 'b' at row 0, 2 at row 1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            model.partial_fit([[1.0]] * len(bad), bad)
    assert model.classes_.tolist() == ["a"]
    assert model.t_ == 1
    with pytest.raises(InvalidParameterError, match="grow_classes must be True or False, got 1"):
        ts.FSOL(grow_classes=1).fit([[1.0], [2.0]], [0, 1])


def test_classes_may_be_told_and_told_again():
    model = ts.FSOL(grow_classes=True).partial_fit([[1.0]], ["b"], classes=["c", "a", "b"])
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.coef_.shape == (3, 1)
    model.partial_fit([[1.0]], ["d"], classes=["a", "b", "c"])
    assert model.classes_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(InvalidInputError, match="must be the same as in the first call"):
        model.partial_fit([[1.0]], ["d"], classes=["a", "e"])


def test_estimators_of_different_classes_merge():
    X, y = made(seed=5)
    one = ts.AROW(grow_classes=True).partial_fit(X[y != "a"], y[y != "a"])
    two = ts.AROW(grow_classes=True).partial_fit(X[y == "a"], y[y == "a"])
    both = one.merge(two)
    assert both.classes_.tolist() == ["a", "b", "c", "d"]
    assert both.t_ == len(y)
    with pytest.raises(MergeError, match="grow_classes"):
        one.merge(ts.AROW().fit(X, y))


def test_class_weights_of_classes_to_come():
    X, y = made(seed=6)
    late_c = np.argsort(y == "c", kind="stable")
    weights = {"c": 4.0, "never": 2.0}
    model = ts.CW(grow_classes=True, class_weight=weights)
    for rows in np.array_split(late_c, 5):
        model.partial_fit(X[rows], y[rows])
    whole = ts.CW(class_weight={"c": 4.0})
    whole.partial_fit(X[late_c], y[late_c], classes=["a", "b", "c", "d"])
    assert model.coef_.tobytes() == whole.coef_.tobytes()
    with pytest.raises(InvalidParameterError, match=r"class_weight\['c'\] must be"):
        ts.CW(grow_classes=True, class_weight={"c": -1}).partial_fit(X, y)


def test_searches_and_workers_refuse_it():
    X, y = made(classes=(0, 1))
    with pytest.raises(InvalidParameterError, match="grow_classes must be False"):
        ts.OnlineGridSearchCV(ts.FSOL(grow_classes=True), {"eta": [0.5, 1.0]}).fit(X, y)
    from thinstream.estimators.distributed import DistributedClassifier

    with pytest.raises(InvalidParameterError, match="grow_classes must be False"):
        DistributedClassifier(ts.FSOL(grow_classes=True), engine="local", workers=1).fit(X, y)


def test_late_labels_may_be_of_new_classes():
    join = ts.LabelJoin(ts.FSOL(grow_classes=True), classes=["a"])
    assert join.predict([1, 2, 3], np.eye(3)).tolist() == ["a"] * 3
    join.label([1, 2, 3], ["a", "c", "b"])
    assert join.predict([4, 5, 6], np.eye(3)).tolist() == ["a", "c", "b"]
    assert join.decision_function([7], np.eye(3)[:1]).argmax() == 0
