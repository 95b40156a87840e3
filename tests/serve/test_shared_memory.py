"""Weights that processes share: what is mapped predicts as the model that was published."""

from dataclasses import replace

import pytest

import thinstream as ts
from tests.export.test_preparation import KINDS, WIDTH, rows, trained
from tests.training.test_refit import batch_of, sparse_rows
from thinstream.serve.shared_memory import Shared, publish
from thinstream.training.refit import Way, choose_ways, refit_chosen


@pytest.mark.parametrize("kinds", KINDS)
def test_a_mapped_model_predicts_as_the_one_that_was_published(kinds, tmp_path):
    model, batch = trained(kinds, ("no", "yes"), "float32"), rows(100, 2, WIDTH + 3, "float32", 7)
    publish(tmp_path / "weights", model, version=3)
    mapped, about = Shared(tmp_path / "weights", model)()
    assert mapped.learner.scores(batch).tobytes() == model.learner.scores(batch).tobytes()
    assert about == {"version": 3, "t": 500}


@pytest.mark.parametrize("classes", [2, 3])
def test_a_refitted_model_is_published(classes, tmp_path):
    """Its rows have the length of the features that are kept."""
    X, y = sparse_rows(classes=classes)
    model = ts.Auto(portfolio=[ts.AROW()]).fit(X, y)._model
    batch = batch_of(X, model.classes.coded(y))
    [choice] = choose_ways(model, lambda: [batch], [6])
    best = choice.best._replace(way=Way("1 step", "unit rows"))
    [(small, _)] = refit_chosen(model, lambda: [batch], [replace(choice, best=best)])
    publish(tmp_path / "weights", small, version=1)
    mapped, _ = Shared(tmp_path / "weights", small)()
    assert mapped.learner.scores(batch).tobytes() == small.learner.scores(batch).tobytes()
