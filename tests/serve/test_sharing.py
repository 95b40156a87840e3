"""Weights that processes share: what is mapped predicts as the model that was published."""

import pytest

from tests.models.test_prepared_exports import KINDS, WIDTH, rows, trained
from thinstream.serve.sharing import Shared, publish


@pytest.mark.parametrize("kinds", KINDS)
def test_a_mapped_model_predicts_as_the_one_that_was_published(kinds, tmp_path):
    model, batch = trained(kinds, ("no", "yes"), "float32"), rows(100, 2, WIDTH + 3, "float32", 7)
    publish(tmp_path / "weights", model, version=3)
    mapped, about = Shared(tmp_path / "weights", model)()
    assert mapped.learner.scores(batch).tobytes() == model.learner.scores(batch).tobytes()
    assert about == {"version": 3, "t": 500}
