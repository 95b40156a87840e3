"""Exports of models that prepare their rows: the scorer, run for real, is the model, or the export refuses by name."""

import numpy as np
import pytest

from tests.export.scorers import SCORERS
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.export import LinearModel
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.models.preparation import NORMALIZE, SCALE

WIDTH = 40
#: How rows are prepared: every pair of scale and normalize, and models of several vectors.
KINDS = [
    [(None, None)],
    [("max", None)],
    [("rms", None)],
    [("idf", None)],
    [(None, "l2")],
    [("max", "l2")],
    [("rms", "l2")],
    [("idf", "l2")],
    [(None, None), ("rms", "l2")],
    [(None, "l2"), ("max", "l2"), ("rms", None)],
    [(None, None), ("rms", "l2"), ("rms", "l2", WIDTH, True)],
    [("rms", "l2", WIDTH, True), ("max", "l2", WIDTH, True)],
]
CASES = [
    pytest.param(kinds, labels, dtype, id="-".join([*(str(each) for kind in kinds for each in kind), labels[0], dtype]))
    for kinds in KINDS
    for labels, dtype in ((("no", "yes"), "float32"), (("a", "b", "c"), "float64"), (("0", "1"), "float64"))
]


def test_every_preparation_is_in_the_table():
    assert {kind for kind, *more in KINDS if not more} == {(scale, unit) for scale in SCALE for unit in NORMALIZE}


def rows(n, classes, width, dtype, seed):
    """Features of very different units, an eighth of them unknown to the model, some rows empty."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, n)
    indices = [np.sort(rng.choice(width, k, replace=False)) for k in lengths]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    at = np.concatenate(indices).astype(np.int32)
    values = (rng.normal(size=len(at)) * 10.0 ** (at % 7 - 3)).astype(dtype)
    y = rng.integers(0, classes, n).astype(np.int32)
    return Batch.of(indptr, at, values, width, y if classes > 2 else np.where(y, 1, -1).astype(np.int8))


def trained(kinds, labels, dtype):
    options = {"n_features": WIDTH, "dtype": dtype, "fit_intercept": True}
    if len(kinds) == 1:
        model = Model.fresh(
            "arow", Classes(*labels), **options, **dict(zip(("scale", "normalize"), *kinds, strict=True))
        )
    else:
        portfolio = [Member("arow", {}, *kind) for kind in kinds]
        model = Model.fresh("auto", Classes(*labels), **options, parameters={"portfolio": portfolio})
    model.learner.learn(rows(500, len(labels), WIDTH - 5, dtype, 1))  # the last five are never met
    return model


def same(found, model, batch):
    """To rounding, relative to the largest sums."""
    scores = model.learner.scores(batch).astype(np.float64).reshape(len(batch), -1)
    tolerance = 2e-4 if model.learner.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(
        np.asarray(found, np.float64).reshape(scores.shape),
        scores,
        rtol=tolerance,
        atol=tolerance * np.abs(scores).mean(),
    )
    assert np.abs(scores).max() > 0.1


@pytest.mark.parametrize(("kinds", "labels", "dtype"), CASES)
def test_an_exported_scorer_is_the_model(kinds, labels, dtype, tmp_path):
    model = trained(kinds, labels, dtype)
    linear, batch = LinearModel.of(model), rows(1000, len(labels), WIDTH + 6, dtype, 2)
    for scorer in SCORERS.values():
        scores, found = scorer(linear, batch, tmp_path)
        same(scores, model, batch)
        if found is not None:
            chosen = model.classes.chosen(scores[:, 0] if len(labels) == 2 else scores)
            assert found == [str(linear.classes[k]) for k in chosen]
    write(tmp_path / "model.ts", model, "weights")
    assert read(tmp_path / "model.ts").learner.scores(batch).tobytes() == model.learner.scores(batch).tobytes()
