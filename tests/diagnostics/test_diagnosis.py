"""What `diagnose` finds: each trouble where it is made, and none where there is none."""

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import thinstream as ts
from thinstream.data.labels import Classes
from thinstream.diagnostics.bounds import batch_of
from thinstream.diagnostics.diagnosis import (
    Part,
    coordinate_steps,
    density,
    diagnose,
    divergence,
    dynamic_range,
    exponents,
    lost_weights,
    replay,
)
from thinstream.errors import InvalidInputError
from thinstream.lanes.learner import Frozen
from thinstream.models.model import Model
from thinstream.models.pipeline import Pipeline

TRAIN, _ = ts.datasets.sparse_gaussian(600, 1, n_features=200, n_informative=30, n_noise=60, seed=1)
X, Y = TRAIN.X, TRAIN.y


def told(diagnosis):
    return {finding.about: finding.level for finding in diagnosis.findings}


@pytest.mark.parametrize("name", ["FSOL", "SSOL", "AROW", "PA", "FOBOS", "SCW"])
def test_healthy_models(name):
    found = diagnose(ts.make(name, dtype="float64", fit_intercept=False).fit(X, Y), X, Y)
    assert set(told(found).values()) == {"fine"}, found
    assert str(found).startswith(f"{name}: no problems found\n")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wide_range_of_weights(dtype):
    """SMIDAS with a large p, and what to do about it; with the p that is advised all is well."""
    model = ts.SMIDAS(eta=0.5, p=100, dtype=dtype, fit_intercept=False).fit(X, Y)
    found = diagnose(model, X, Y)
    assert found.level("dynamic range") == found.level("lost weights") == "problem"
    assert "p=100 is too large: try p=2.65 (0.5 ln d)" in str(found)
    assert str(found).startswith("SMIDAS: 2 problems")
    assert found.findings[0].level == "problem"
    better = diagnose(ts.SMIDAS(eta=0.5, p=2.65, dtype=dtype, fit_intercept=False).fit(X, Y), X, Y)
    assert better.level("dynamic range") == "fine"


@pytest.mark.parametrize(
    ("p", "dtype", "advice"),
    [(None, "float32", "p=None (2 ln d) is too large: try p=2.65"), (3.0, "float32", "dtype='float64', or"),
     (3.0, "float64", "p=3 is too large: try p=2, or")],
)  # fmt: skip
def test_what_to_do_about_smidas(p, dtype, advice):
    """Not what was done already."""
    w = (2.0 ** -np.linspace(0, 100, 200)).astype(dtype)
    assert dynamic_range("SMIDAS", w, {"p": p}).advice.startswith(advice)


def test_what_underflowed_is_counted():
    model = ts.SMIDAS(eta=0.5, p=100, fit_intercept=False).fit(X, Y)
    gone = 200 - model.nnz_
    assert gone > 0
    assert f"{gone} more have underflowed to 0" in str(diagnose(model, X))


def naively_lost(rows, w):
    """Features with weight that occur, and are swallowed in every row they occur in."""
    used, heard = set(), set()
    for x in rows:
        terms = np.abs(x * w)
        for j in np.flatnonzero(terms):
            used.add(j)
            if terms[j] >= terms.max() * 2.0**-53:
                heard.add(j)
    return len(used - heard), len(used)


def test_lost_weights_are_counted():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 30)) * (rng.random((40, 30)) < 0.3)
    w = 2.0 ** rng.integers(-120, 3, size=30)
    lost, used = naively_lost(rows, w)
    finding = lost_weights(batch_of(rows), w)
    assert lost > 3
    assert finding.message.startswith(f"{lost} of {used} weights used by these rows are lost")
    assert finding.level == "problem"
    assert lost_weights(batch_of(rows), np.zeros(30)) is None
    edge = lost_weights(batch_of([[1.0, 1.0, 1.0]]), np.array([1.0, 2.0**-53, 2.0**-54]))  # half a unit may still count
    assert edge.message.startswith("1 of 3 weights used by these rows are lost")


def test_weights_that_are_no_numbers():
    found = diagnose(np.array([1.0, np.nan, np.inf]), np.eye(3))
    assert told(found) == {"divergence": "problem"}
    assert "2 of 3 weights are infinite or not a number" in str(found)


def test_a_model_that_grows_without_getting_better():
    """Every row brings a feature of its own, none helps."""
    rows, y = np.eye(400), np.tile([-1, 1], 200)
    found = diagnose(ts.FSOL(dtype="float64", fit_intercept=False).fit(rows, y), rows, y)
    assert found.level("density") == "note"
    assert "raise l1, which is 0 and keeps every weight" in str(found)
    assert "raise l1, which is 0" not in str(diagnose(ts.FSOL(l1=1e-3, fit_intercept=False).fit(rows, y), rows, y))
    assert "an algorithm with l1" in str(diagnose(ts.PA(fit_intercept=False).fit(rows, y), rows, y))
    assert diagnose(ts.FSOL(l1=1e9, fit_intercept=False).fit(rows, y), rows, y).level("density") == "note"


def run(*scores, finite=True):
    return tuple(Part(10 * k, 5, 0.1, score, finite) for k, score in enumerate(scores, start=1))


def test_scores_that_grow_too_fast():
    assert divergence(run(1.0, 2.0, 3.0, 4.0)).level == "fine"
    assert divergence(run(1.0, 2.0, 40.0, 800.0)).level == "problem"
    assert divergence(run(0.0, 1e-4, 1e-3, 5.0)).level == "fine"  # it has just begun
    assert divergence(run(1.0, 1.0, 1.0, 1.0, finite=False)).message == "scores became infinite"
    assert divergence(None) is None
    assert density("FSOL", np.ones(5), {}, run(1.0, 1.0, 1.0, 1.0)).level == "fine"


def test_the_replay_is_the_run():
    model = ts.FSOL(l1=5.0, class_weight="balanced", fit_intercept=True).fit(X, Y)
    parts = replay(model._model.learner.outputs.one, batch_of(X, Y.astype(np.int8)))
    assert [part.rows for part in parts] == [150, 300, 450, 600]
    assert parts[-1].nnz == model.nnz_
    assert sum(part.error for part in parts) * 150 == pytest.approx(model.n_mistakes_)
    assert replay(model._model.learner.outputs.one, batch_of(X[:20], Y[:20].astype(np.int8))) is None


def test_scales():
    rows = np.array([[1.0, 1e-9], [0.5, 2e-9]])
    found = diagnose([1.0, 1.0], rows)
    assert found.level("scales") == "note"
    assert "from 2^-29 to 2^0" in str(found)


def columns_apart(n=1200, d=8):
    """Columns from 1 to 1e5, all of them needed."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    return rows * np.geomspace(1.0, 1e5, d), np.where(rows @ rng.normal(size=d) > 0, 1, -1)


def test_columns_of_very_different_scales():
    rows, y = columns_apart()
    found = diagnose(ts.FSOL().fit(rows, y), rows, y)
    assert found.level("scales") == "problem"
    scaled = ts.FSOL(scale="max").fit(rows, y)
    wrong = f"{scaled.n_mistakes_ / len(y):.1%} with scaled features"  # it was tried, not guessed
    assert wrong in str(found)
    assert "scale='max', or --scale max" in str(found)
    assert diagnose(ts.FSOL().fit(rows, y), rows).level("scales") == "note"  # without labels nothing can be tried
    assert "scales" not in told(diagnose(scaled, rows, y))
    assert diagnose(ts.AROW().fit(rows, y), rows, y).level("scales") == "fine"  # it does without


def test_few_tiny_features_do_no_harm():
    rows = np.ones((10, 30))
    rows[:, 0] = 1e-9
    assert "scales" not in told(diagnose(np.ones(30), rows))
    assert diagnose(np.ones(30), rows * np.where(np.arange(30) == 1, 1e6, 1.0)).level("scales") == "note"


def test_a_model_worse_than_a_constant():
    y = np.where(np.arange(400) % 20 == 0, 1, -1)
    rows = np.random.default_rng(0).normal(size=(400, 50))
    found = diagnose(ts.FSOL().fit(rows, y), rows, y)
    assert found.level("error") == "note"
    assert "a constant prediction would have 5.0%" in str(found)


def test_coordinate_descent():
    """β below the curvature, and at it."""
    found = diagnose(ts.SCD(random_state=0, fit_intercept=False).fit(X, Y), X)
    assert found.level("steps") == "problem"
    needed = np.max(np.asarray(X.power(2).mean(axis=0))) / 4
    assert f"beta={needed:.3g} or more" in str(found)
    assert coordinate_steps(batch_of(X), needed).level == "fine"


def test_gradient_descent():
    small, safe = (ts.GraDes(gamma=gamma, fit_intercept=False).fit(X, Y) for gamma in (10.0, None))
    assert diagnose(small, X).level("divergence") == "problem"
    assert "gamma=10 is below half of" in str(diagnose(small, X))
    assert diagnose(safe, X).level("divergence") == "fine"


def test_any_linear_model():
    """Estimators, learners, weights alone, sparse coefficients, models of others."""
    model = ts.FSOL(l1=5.0, fit_intercept=False).fit(X, Y)
    expected = exponents(model.coef_)
    for form in (
        model,
        model._model.learner,
        Pipeline.of(Frozen.of(model._model.learner.outputs.one)),
        model.coef_,
        model.sparsify(),
    ):
        found = diagnose(form, X, Y)
        assert f"{expected.nonzero} weights have sizes from 2^{expected.smallest}" in str(found)
    svm = LinearSVC(random_state=0, max_iter=100_000, C=1e-4).fit(X, Y)
    assert str(diagnose(svm, X)).startswith("LinearSVC: ")
    words = np.where(Y > 0, "spam", "ham")
    spam = ts.FSOL(fit_intercept=False).fit(X, words)
    assert diagnose(spam, X, words).level("divergence") == "fine"
    assert diagnose(Model(spam._model.learner, Classes("ham", "spam")), X, words) == diagnose(spam, X, words)


def test_bad_input():
    with pytest.raises(InvalidInputError, match="the model must be fitted, and this SCD has no coef_"):
        diagnose(ts.SCD(fit_intercept=False), X)
    with pytest.raises(InvalidInputError, match=r"one weight per feature, got an array of shape \(2, 3\)"):
        diagnose(np.ones((2, 3)), np.eye(3))
    for columns in (2, 4):
        with pytest.raises(InvalidInputError, match=f"a column for each of the 3 weights, got {columns} columns"):
            diagnose(np.ones(3), np.ones((3, columns)))
    with pytest.raises(InvalidInputError, match="X has 3 rows, y has 2 labels"):
        diagnose(np.ones(3), np.eye(3), [1, -1])
