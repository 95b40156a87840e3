"""What the states of models know of √Σx² becomes the importance of their weights."""

import numpy as np
import pytest

import thinstream as ts
from tests.models.naive_thin import adarda, arow
from thinstream.algorithms.registry import algorithms
from thinstream.models.importance import DEFAULT_POWER, GRADIENTS, POWERS, importance
from thinstream.models.model import make_learner

#: Online learners whose state has nothing that grows with the squares of their rows.
KNOW_NOTHING = {
    "CPA", "CSOGD", "FOBOS", "FSOL", "PA", "PAUM", "Perceptron", "RDA", "SMIDAS", "STG", "StableSparsePerceptron",
}  # fmt: skip
#: Those whose code other tests need, too.
QUICK: dict[str, tuple[()]] = {"FSOL": (), "PA": ()}


def rows_of(seed=0, rows=80, columns=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < 0.5) * np.geomspace(0.3, 3.0, columns)
    y = np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=rows) > 0, 1, -1)
    return X, y


@pytest.mark.parametrize(("name", "naive"), [("AROW", arow), ("AdaRDA", adarda)])
@pytest.mark.parametrize("power", POWERS)
def test_it_is_the_weight_times_the_squares_seen(name, naive, power):
    X, y = rows_of()
    w, b, squares = naive(X, y)
    model = ts.make(name, dtype="float32").fit(X, y)
    assert model.intercept_[0] == pytest.approx(b, rel=1e-3, abs=1e-5)
    expected = np.abs(w) * np.sqrt(squares) ** power
    np.testing.assert_allclose(importance(model._model.learner, power), expected, rtol=2e-3, atol=1e-5)


def test_every_online_learner_has_its_say():
    """A new algorithm either tells what it knows, or is named above."""
    for algorithm in algorithms("online"):
        if algorithm.name == "Auto":  # keeps the sums themselves
            continue
        learner = make_learner(algorithm.name, n_features=2)
        knows = learner.has_variance or algorithm.name in GRADIENTS
        assert knows != (algorithm.name in KNOW_NOTHING), algorithm.name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=QUICK.get(name, pytest.mark.slow)) for name in sorted(KNOW_NOTHING - {"SMIDAS"})]
)
def test_what_knows_nothing_has_its_weights(name):
    X, y = rows_of()
    learner = ts.make(name).fit(X, y)._model.learner
    np.testing.assert_array_equal(importance(learner), np.abs(learner.weights().astype(np.float64)))


def test_units_of_columns_do_not_matter_where_they_are_scaled():
    X, y = rows_of(rows=200)
    units = 2.0 ** np.arange(-3, 3)
    for name in ("AROW", "FSOL"):
        for scale in ("max", "rms"):
            one, two = (ts.make(name, scale=scale).fit(rows, y)._model.learner for rows in (X, X * units))
            np.testing.assert_allclose(importance(one), importance(two), rtol=1e-4)


def test_scales_by_mean_squares_know_how_often_a_feature_came():
    X, y = rows_of()
    model = ts.FSOL(scale="rms").fit(X, y)._model.learner
    expected = np.abs(model.outputs.weights()) * np.sqrt(np.sqrt((X != 0).sum(axis=0)))
    np.testing.assert_allclose(importance(model, DEFAULT_POWER), expected, rtol=1e-6)


def test_of_more_classes_each_has_its_own():
    X, y = rows_of(rows=120)
    y = np.where(X[:, 2] > 0.1, 2, y)
    model = ts.AROW().fit(X, y)
    found = importance(model._model.learner)
    assert found.shape == model.coef_.shape
    for k, label in enumerate(model.classes_):
        alone = ts.AROW().fit(X, np.where(y == label, 1, 0))
        np.testing.assert_array_equal(found[k], importance(alone._model.learner))


def test_what_is_forgotten_is_forgotten_here_too():
    """A feature that has not come for ten half-lives has lost nearly all it had."""
    X = np.zeros((1100, 2))
    X[:100, 0], X[100:, 1] = 1.0, 1.0
    y = np.where(np.arange(1100) % 3 == 0, -1, 1)
    learner = ts.AROW(half_life=100.0, dtype="float64").fit(X, y)._model.learner
    weights, found = np.abs(learner.weights()), importance(learner, 1.0)
    assert found[0] / weights[0] < 0.05 * found[1] / weights[1]
