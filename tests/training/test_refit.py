"""Refitted thin models: their naive twin, any batches, rows in any form, and what belongs to the model."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.training import naive_refit
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.export import LinearModel
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.training.refit import (
    STEPS,
    VIEWS,
    Way,
    choose_ways,
    read_checkpoint,
    refit,
    refit_chosen,
    write_checkpoint,
)


def sparse_rows(rows=500, columns=40, classes=2, seed=0):
    """Rows of which a few columns tell the class."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.4)).astype(np.float32)
    weights = np.zeros((columns, classes))
    weights[:8] = rng.normal(size=(8, classes)) * 2
    scores = X @ weights + 0.3 * rng.normal(size=(rows, classes))
    return X, scores.argmax(axis=1)


def batch_of(X, y=None):
    rows = sp.csr_matrix(X)
    return Batch.of(rows.indptr, rows.indices, rows.data, X.shape[1], y)


def fresh(classes=2):
    return lambda: ts.Auto(portfolio=[ts.AROW(), ts.FSOL()])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [2, 5])
def test_it_is_that_of_its_naive_twin(classes, n):
    X, y = sparse_rows(classes=classes)
    model = fresh()().fit(X, y)
    way, features, expected = naive_refit.refit(model, fresh(), X, y, n)
    [(small, choice)] = refit(model._model, lambda: [batch_of(X, model._model.classes.coded(y))], [n])
    chosen = choice.best.way
    assert (chosen.steps if way == "cut" else (int(chosen.steps[0]), chosen.view)) == way
    weights = np.atleast_2d(small.learner.weights())
    assert np.flatnonzero(weights.any(axis=0)).tolist() == features.tolist()
    scores = small.learner.scores(batch_of(X))
    if expected is not None:
        np.testing.assert_allclose(scores, expected.decision_function(X[:, features]), rtol=1e-4, atol=1e-4)


def test_each_step_keeps_fewer_features():
    sizes = [Way(steps, next(iter(VIEWS))).sizes(10, 1000) for steps in STEPS]
    assert sizes == [[10], [80, 10], [320, 80, 20, 10], []]


@pytest.mark.parametrize("classes", [2, 3])
def test_batches_do_not_matter(classes, tmp_path):
    X, y = sparse_rows(classes=classes)
    model = ts.Auto().fit(X, y)._model
    batch = batch_of(X, model.classes.coded(y))
    cuts = [0, 1, 7, 200, 203, len(y)]
    pieces = [batch.until(stop).after(start) for start, stop in pairwise(cuts)]
    files = []
    for k, batches in enumerate(([batch], pieces)):
        for small, choice in refit(model, lambda batches=batches: batches, [3, 6]):
            files.append((k, choice))
            write(tmp_path / f"{k}-{choice.n}.ts", small, "weights")
    assert [choice for k, choice in files if k == 0] == [choice for k, choice in files if k == 1]
    for n in (3, 6):
        assert (tmp_path / f"0-{n}.ts").read_bytes() == (tmp_path / f"1-{n}.ts").read_bytes()


def test_rows_of_weight_0_are_absent_from_the_losses():
    X, y = sparse_rows()
    model = ts.Auto().fit(X, y)._model
    coded = model.classes.coded(y)
    weights = np.ones(len(y))
    weights[4::10] = 0  # some of the rows that are held out
    wrong = np.where(weights == 0, -coded, coded)
    found = [
        choose_ways(model, lambda labels=labels: [batch_of(X).labelled(labels, weights)], [3])[0].best
        for labels in (coded, wrong)
    ]
    assert found[0] == found[1]


ESTIMATORS = {
    "auto": lambda: ts.Auto(),
    "arow": lambda: ts.AROW(),
    "first order": lambda: ts.FSOL(scale="max"),
    "logistic": lambda: ts.AdaRDA(loss="logistic", normalize="l2"),
    "calibrated": lambda: ts.SSOL(calibrate=True),
    "tf-idf": lambda: ts.AROW(scale="idf", normalize="l2"),
    "batch": lambda: ts.BCW(),
    "budget": lambda: ts.AROW(max_features=20),
    "growing": lambda: ts.AROW(grow_classes=True, grow=True),
    "full": lambda: ts.AROW(covariance="full"),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_every_estimator(kind, classes, tmp_path):
    if kind == "batch" and classes == 3:
        pytest.skip("binary only")
    X, y = sparse_rows(rows=600, classes=classes)
    labels = np.array(["ham", "news", "spam"])[y]
    model = ESTIMATORS[kind]().fit(X[:400], labels[:400])
    small = model.thin(8, X[:400], labels[:400])
    assert isinstance(small, ts.Auto)
    assert small.classes_.tolist() == model.classes_.tolist()
    assert np.count_nonzero(small.coef_.any(axis=0)) <= 8
    assert small.nnz_ == np.count_nonzero(small.coef_)
    assert small.raw_coef_.shape == small.coef_.shape  # one weight per feature and class
    assert small.n_features_in_ == X.shape[1]
    assert small.score(X[400:], labels[400:]) > (0.75 if classes == 2 else 0.6)
    assert small.predict_proba(X).shape == (len(X), classes)
    with pytest.raises(WeightsOnlyError):
        small.partial_fit(X, labels)
    small.save(tmp_path / "small.ts")
    found = ts.load(tmp_path / "small.ts")
    assert found.decision_function(X).tobytes() == small.decision_function(X).tobytes()
    assert np.count_nonzero(found.thin(4).coef_.any(axis=0)) == 4
    linear = LinearModel.of(read(tmp_path / "small.ts"))
    assert len(linear.weights) == small.nnz_


def test_features_of_all_classes_are_kept_together():
    X, y = sparse_rows(rows=800, classes=3)
    small = ts.Auto().fit(X, y).thin(6, X, y)
    features = np.flatnonzero(small.coef_.any(axis=0))
    assert len(features) == 6
    assert small.nnz_ > 2 * 6  # nearly all of them have a weight in each class


def test_mixed_columns_with_rare_positives(tmp_path):
    """60 features are nearly as good as all of them."""
    rng = np.random.default_rng(3)
    colors, cities = [f"c{k}" for k in range(40)], [f"city{k}" for k in range(300)]
    effects = {name: rng.normal() * 0.9 for name in colors}
    names = ["y", *(f"n{k}" for k in range(12)), "color", "city", "text"]
    words = [f"w{k}" for k in range(400)]
    lines = [",".join(names)]
    weights = rng.normal(size=12) * (np.arange(12) < 6)
    for _ in range(12_000):
        numbers = rng.normal(size=12)
        color, city = rng.choice(colors), rng.choice(cities)
        text = rng.choice(words, size=6)
        score = numbers @ weights + effects[color] + 1.5 * (text == "w1").any() - 2.6 + rng.normal() * 0.7
        cells = ["yes" if score > 0 else "no", *(f"{value:.3f}" for value in numbers), color, city, " ".join(text)]
        lines.append(",".join(cells))
    (tmp_path / "train.csv").write_text("\n".join(lines[:8001]) + "\n")
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *lines[8001:]]) + "\n")
    stream = ts.open_stream(tmp_path / "train.csv", label="y", classes=("no", "yes"), text=("text",), names=1000)
    model = ts.Auto().fit_stream(stream)._model
    [(small, _)] = refit(model, stream.batches, [60])
    from sklearn.metrics import roc_auc_score

    test = list(ts.Auto()._adopt(model).open_stream(tmp_path / "test.csv").batches())
    y = np.concatenate([batch.y for batch in test])
    assert 0.05 < np.mean(y > 0) < 0.15
    full, thin = (
        roc_auc_score(y, np.concatenate([one.learner.scores(batch) for batch in test])) for one in (model, small)
    )
    assert small.learner.nnz == 60
    assert thin > full - 0.01, (full, thin)
    assert set(small.names.texts) < set(model.names.texts)


def test_thresholds_are_set_again():
    X, y = sparse_rows(rows=2000)
    model = ts.Auto()
    scores = model.learn(X, y)
    model.set_threshold(recall=0.95, scores=scores, y=y)
    small = model.thin(5, X, y)
    assert small.threshold_ != model.threshold_
    assert np.mean(small.decision_function(X)[y == 1] > small.threshold_) == pytest.approx(0.95, abs=0.03)
    model.set_threshold(threshold=0.3)  # a probability stays one
    assert model.thin(5, X, y).threshold_ == model.threshold_
    hinge = ts.AROW().fit(X, y).set_threshold(threshold=0.4)  # a score has another unit: the recall stays
    recall = np.mean(hinge.decision_function(X)[y == 1] > 0.4)
    small = hinge.thin(8, X, y)
    assert np.mean(small.decision_function(X)[y == 1] > small.threshold_) == pytest.approx(recall, abs=0.05)


def test_a_number_of_features_is_chosen():
    X, y = sparse_rows(rows=1500)
    model = ts.Auto().fit(X[:1000], y[:1000])
    small = model.thin([1, 4, 8, 20], X[:1000], y[:1000])
    assert small.nnz_ in (4, 8, 20)
    by_rows = model.thin([1, 4, 8, 20], X[:1000], y[:1000], X_val=X[1000:], y_val=y[1000:], scoring="auc")
    assert by_rows.nnz_ in (4, 8, 20)
    with pytest.raises(InvalidParameterError, match="scoring='auc' needs rows to compare on: X_val and y_val"):
        model.thin([1, 4], X, y, scoring="auc")


def test_labels_that_tell_nothing_are_reported():
    X, _ = sparse_rows()
    y = np.random.default_rng(1).integers(0, 2, len(X))
    with pytest.warns(UserWarning, match="the model with 2 features is not better than a constant prediction"):
        ts.Auto().fit(X, y).thin(2, X, y)


def test_checkpoints(tmp_path):
    X, y = sparse_rows()
    model = ts.Auto().fit(X, y)._model
    rows = lambda: [batch_of(X, model.classes.coded(y))]  # noqa: E731
    path, source = tmp_path / "m.ts.checkpoint", {"files": ["a"], "nnz": [3]}
    assert read_checkpoint(path, source) is None
    write_checkpoint(path, model, source)
    stored, choices = read_checkpoint(path, source)
    assert choices is None
    choices = choose_ways(model, rows, [3])
    assert choose_ways(stored, rows, [3]) == choices
    write_checkpoint(path, model, source, choices)
    stored, found = read_checkpoint(path, source)
    assert found == choices
    for k, one in enumerate((model, stored)):
        write(tmp_path / f"{k}.ts", replace(refit_chosen(one, rows, found)[0][0], extra={}), "weights")
    assert (tmp_path / "0.ts").read_bytes() == (tmp_path / "1.ts").read_bytes()
    with pytest.raises(InvalidInputError, match=re.escape("differs in nnz: it was [3] and is now [4]")):
        read_checkpoint(path, source | {"nnz": [4]})
    write(path, model, "full")
    assert read_checkpoint(path, source) is None


def test_products_of_features_are_kept_if_that_is_better():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4)).astype(np.float32)
    y = X[:, 0] * X[:, 1] > 0.3 * X[:, 2]
    model = ts.Auto().fit(X[:2000], y[:2000])
    small = model.thin(4, X[:2000], y[:2000])
    assert 2 <= np.count_nonzero(small.raw_coef_) <= 4
    assert small.score(X[2000:], y[2000:]) > 0.8
    assert ts.Auto(interactions=False).fit(X[:2000], y[:2000]).score(X[2000:], y[2000:]) < 0.7


def test_too_few_rows():
    X, _ = sparse_rows(rows=4)
    model = Model.fresh("auto", Classes(-1, 1), n_features=40, fit_intercept=True)
    model, _ = model.learn(batch_of(X, np.array([1, -1, 1, -1], np.int8)), model.classes)
    with pytest.raises(InvalidInputError, match="5 rows or more are needed to compare ways"):
        choose_ways(model, lambda: [batch_of(X, np.array([1, -1, 1, -1], np.int8))], [3])
