"""Every export of every kind of model scores 1,000 random rows as `decision_function` does, whatever things are called.

Tolerance: models in float32 are summed in float32 by some and in double by others, in other orders. A score may differ
by 2e-4 of itself, or of the mean |score|, whichever is more.
"""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.export.linear_models import AWKWARD
from tests.export.scorers import SCORERS, written
from thinstream.batch import Batch
from thinstream.data import Numbering, from_memory
from thinstream.data.in_memory import batch_like
from thinstream.data.labels import Classes
from thinstream.data.text.hashing import Hashing
from thinstream.errors import InvalidInputError
from thinstream.export import FORMATS, LinearModel
from thinstream.models.model import Names
from thinstream.training.refit import Way, choose_ways, refit_chosen

WIDTH, ROWS, TOLERANCE = 60, 1000, 2e-4
LABELS = ('h"am\\ ??/ \n*/', "späm 日本 🙂", "</script>'--")
NAMES = [name for name in AWKWARD if "\0" not in name]
NAMES += [f"feature {j}" for j in range(WIDTH - len(NAMES))]
KEYS = ['a"b', "c'd", "<b>e</b>", "f\ng", "🙂"]
CITIES = ["Oslo", "O'Brien", '"Rome"', "</td>", "a\nb", "São Paulo 🙂", "x=y"]
WORDS = ["free", "FREE", "Geld", "ΑΣ", "Привет", "naïve", "日本", "don't", "<i>", "İx"]


def matrix(n, width, seed):
    rng = np.random.default_rng(seed)
    found = sp.random_array((n, width), density=0.1, rng=rng, format="csr", dtype=np.float32)
    found.data = rng.normal(size=len(found.data)).astype(np.float32)
    found.indices, found.indptr = found.indices.astype(np.int32), found.indptr.astype(np.int32)
    return found


def answers(X, classes):
    """Classes that depend on the first columns."""
    hidden = np.random.default_rng(5).normal(size=(X.shape[1], classes))
    return np.asarray(X @ hidden).argmax(axis=1)


def records(n, seed):
    """Rows of names: two numbers, a category, a text; some are absent."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        cells = [float(np.float32(rng.normal())), 3.0 * rng.normal(), str(rng.choice(CITIES)), float(rng.integers(3))]
        row = {key: cell for key, cell in zip(KEYS, cells) if rng.random() < 0.8}
        found.append(row | {KEYS[4]: " ".join(rng.choice(WORDS, rng.integers(0, 6)))})
    return found


def renamed(estimator, labels, names=None):
    """The model with other labels and names, which scores as before."""
    model, threshold = estimator._model, 0.25 if len(labels) == 2 else 0.0
    names = names or model.names
    return replace(model, classes=Classes(*labels), names=names, threshold=threshold)


def numbered(estimator, classes, nnz=None):
    X = matrix(600, WIDTH, 1)
    estimator.fit(X, answers(X, classes))
    estimator = estimator if nnz is None else estimator.thin(nnz)
    rows = matrix(ROWS, WIDTH, 2)
    batch = Batch.of(rows.indptr, rows.indices, rows.data, WIDTH)
    return renamed(estimator, LABELS[:classes], Names.of(NAMES)), batch, None, estimator.decision_function(rows)


def refitted(classes, view):
    """A thin model with one weight per feature: its rows are prepared like this, with the features that are kept."""
    X = matrix(600, WIDTH, 1)
    y = answers(X, classes)
    model = ts.Auto(portfolio=[ts.AROW()]).fit(X, y)._model
    batch = Batch.of(X.indptr, X.indices, X.data, WIDTH, model.classes.coded(y))
    [choice] = choose_ways(model, lambda: [batch], [20])
    best = choice.best._replace(way=Way("1 step", view))
    [(small, _)] = refit_chosen(model, lambda: [batch], [replace(choice, best=best)])
    rows = matrix(ROWS, WIDTH, 2)
    scored = Batch.of(rows.indptr, rows.indices, rows.data, WIDTH)
    named = replace(small, classes=Classes(*LABELS[:classes]), names=Names.of(NAMES))
    return replace(named, threshold=0.25 if classes == 2 else 0.0), scored, None, small.learner.scores(scored)


def hashed(estimator, classes, **space):
    rows = records(600, 3)
    says = [len([word for word in row[KEYS[4]].split() if word in ("free", "Geld", "日本")]) for row in rows]
    y = np.array([min(k + (row.get(KEYS[0], 0) > 0), classes - 1) for k, row in zip(says, rows)])
    hasher = Numbering(Hashing(bits=16, **space))
    stream = from_memory(list(zip(rows, y.tolist())), hasher=hasher, text=(KEYS[4],), classes=tuple(range(classes)))
    estimator.fit_stream(stream)
    given = records(ROWS, 4)
    model = renamed(estimator, LABELS[:classes])
    return model, batch_like(estimator._model.reading_spec, given), given, estimator.decision_function(given)


MAKERS = {
    "two classes": lambda: numbered(ts.AROW(), 2),
    "three classes": lambda: numbered(ts.AROW(), 3),
    "scaled": lambda: numbered(ts.AROW(scale="rms", normalize="l2"), 2),
    "Auto": lambda: numbered(ts.Auto(), 2),
    "thin Auto": lambda: numbered(ts.Auto(max_nnz=20), 2),
    "thin, three classes": lambda: numbered(ts.AROW(), 3, nnz=40),
    "Auto, three classes": lambda: numbered(ts.Auto(), 3),
    "refitted, unit rows": lambda: refitted(2, "unit rows"),
    "refitted, raw rows": lambda: refitted(2, "raw rows"),
    "refitted, three classes": lambda: refitted(3, "unit rows"),
    "hashed": lambda: hashed(ts.AROW(), 2),
    "hashed, signed, three classes": lambda: hashed(ts.AROW(normalize="l2"), 3, signed=True),
    "hashed Auto": lambda: hashed(ts.Auto(), 2),
}


@cache
def case(name):
    return MAKERS[name]()


def test_every_format_has_a_scorer():
    """A new export format is compared with `decision_function`, too."""
    databases = {"sqlite": "sql", "duckdb": "sql"}
    assert {databases.get(scorer, scorer) for scorer in SCORERS} == set(FORMATS) - {"sql_table"}  # has its own tests


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "Auto, three classes" else ()) for name in MAKERS]
)
def test_an_export_scores_as_the_model(name, scorer, tmp_path):
    model, batch, rows, expected = case(name)
    linear = LinearModel.of(model)
    scores, labels = SCORERS[scorer](linear, batch, tmp_path, rows)
    expected = expected.astype(np.float64).reshape(ROWS, -1)
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(scores, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).mean())
    if labels is not None:
        chosen = model.chosen(scores[:, 0] if linear.is_binary else scores)
        assert labels == [linear.classes[k] for k in chosen]
        assert len(set(labels)) == len(linear.classes)


def test_the_cases_are_what_they_say():
    assert len(LinearModel.of(case("Auto")[0]).vectors) == 3
    assert LinearModel.of(case("Auto")[0]).products is not None
    assert LinearModel.of(case("thin Auto")[0]).products is None
    assert LinearModel.of(case("thin Auto")[0]).nnz <= 20
    assert LinearModel.of(case("thin, three classes")[0]).nnz <= 3 * 40  # 40 features
    assert {vector.normalize for vector in LinearModel.of(case("hashed Auto")[0]).vectors} == {None, "l2"}
    assert "hashing" in case("hashed")[0].feature_space
    assert [*LinearModel.of(case("two classes")[0]).names.values()] == NAMES


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_sql_has_no_text_for_some_names(name):
    linear = LinearModel.of(case("two classes")[0])
    with pytest.raises(InvalidInputError, match=r"a name of a feature must .* SQL.*, got"):
        written(linear._replace(names=linear.names | {0: name}), "sql")
