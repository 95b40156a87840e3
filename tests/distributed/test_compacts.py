"""Workers that keep state for the features that occur: what they merge to is what wide ones do."""

import pickle

import pytest

from tests.models.equality import SPACE, stream, unseen
from thinstream.data.labels import Classes
from thinstream.distributed.deltas import apply_delta, copy_learner, delta, merge_deltas
from thinstream.models import pipeline as room
from thinstream.models.model import Model
from thinstream.models.pipeline import compact_if_large

TWO, THREE = Classes("ham", "spam"), Classes("a", "b", "c")


def went_on(base, classes, seed):
    learner = copy_learner(base)
    for batch in stream(classes, 1, seed=seed):
        learner = compact_if_large(learner, batch.n_features, hashed=True)
        learner.learn(batch)
    return learner


def after_two_rounds(algorithm, classes, options):
    """A worker alone, then three, whose changes are sent; the driver's base, and what workers make of its change."""
    fresh = Model.fresh(algorithm, classes, feature_space=SPACE, grow=True, **options).learner
    base = merge_deltas(fresh, [delta(fresh, went_on(fresh, classes, 0))])
    changes = [pickle.loads(pickle.dumps(delta(base, went_on(base, classes, seed)))) for seed in (1, 2, 3)]
    merged = merge_deltas(base, changes)
    return merged, apply_delta(base, pickle.loads(pickle.dumps(delta(base, merged))))


@pytest.mark.parametrize(
    ("algorithm", "classes", "options"),
    [
        ("arow", TWO, {}),
        ("arow", THREE, {}),
        ("arow", TWO, {"scale": "max"}),
        ("auto", TWO, {"portfolio": ["arow", "fsol"]}),
    ],
)
def test_merged_rounds_are_those_of_wide_workers(algorithm, classes, options, monkeypatch):
    rows, result = unseen(classes), []
    for limit in (1 << 60, 0):
        monkeypatch.setattr(room, "HASHED", limit)
        merged, applied = after_two_rounds(algorithm, classes, options)
        assert (merged.encoder is not None) == (limit == 0)
        assert applied.scores(rows).tobytes() == merged.scores(rows).tobytes()
        result.append((merged.n_features, merged.t, merged.n_mistakes, merged.scores(rows).tobytes()))
    assert result[0] == result[1]
