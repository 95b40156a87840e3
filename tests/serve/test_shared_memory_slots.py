"""What is published predicts as the model does: wide, compact, and with a budget of features."""

import numpy as np
import pytest

from tests.models.equality import SPACE, stream, unseen
from tests.models.test_budget import fresh as with_budget
from tests.models.test_budget import learned
from tests.models.test_budget import stream as rare_words
from thinstream.data.labels import Classes
from thinstream.models import pipeline as room
from thinstream.models.model import Model
from thinstream.serve.shared_memory import Shared, publish

TWO, THREE = Classes("ham", "spam"), Classes("a", "b", "c")


def taken_back(model, tmp_path):
    nnz = publish(tmp_path / "weights", model, version=7)
    result = Shared(tmp_path / "weights", model)()
    assert result.about["version"] == 7
    assert nnz == model.learner.nnz
    return result.model.learner


@pytest.mark.parametrize("limit", [0, 1 << 60])
@pytest.mark.parametrize(
    ("classes", "options"),
    [(TWO, {}), (THREE, {}), (TWO, {"scale": "max", "normalize": "l2"}), (TWO, {"scale": "idf"})],
)
def test_rows_get_the_same_scores(limit, classes, options, tmp_path, monkeypatch):
    monkeypatch.setattr(room, "HASHED", limit)
    model = Model.fresh("arow", classes, feature_space=SPACE, grow=True, fit_intercept=True, **options)
    for batch in stream(classes):
        model, _ = model.learn(batch, classes)
    shared, rows = taken_back(model, tmp_path), unseen(classes)
    assert np.array_equal(shared.scores(rows), model.learner.scores(rows))
    assert shared.n_features == model.learner.n_features


@pytest.mark.parametrize("kind", ["two classes", "of unit length", "blend", "blend for several kinds of rows"])
def test_features_outside_the_budget_are_ignored(kind, tmp_path):
    model, _ = learned(with_budget(kind), rare_words(TWO))
    rows = rare_words(TWO, 40, seed=3, vocabulary=300)
    assert np.array_equal(taken_back(model, tmp_path).scores(rows), model.learner.scores(rows))
