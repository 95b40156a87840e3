"""Ranks: scores in bins, the same as `Progress` has them; AUC and average precision, and how far chance moves them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score, roc_auc_score

from tests.tuning.classes import made as made_of_three
from tests.tuning.test_search import made
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError
from thinstream.lanes.learner import Learner
from thinstream.models.model import make_outputs
from thinstream.training.metrics import Progress
from thinstream.tuning.counts import HELD_OUT, LEARNED, RANKED, LaneRanks
from thinstream.tuning.measures import scoring_of
from thinstream.tuning.passes import Matrix, study_stream
from thinstream.tuning.search import WarmUp, search
from thinstream.tuning.study import StudyConfig, Trial

NAMES = ("auc", "average_precision")


def report(scores, y, classes=2):
    progress = Progress(classes)
    progress.update(scores, y)
    return progress.report()


@given(
    arrays(np.float32, (15, 2), elements=st.floats(-4, 4, width=32)),
    arrays(np.int8, 15, elements=st.sampled_from([-1, 1])),
    arrays(np.int8, (15, 2), elements=st.integers(-1, 1)),
    st.integers(0, 15),
)
def test_bins_are_those_of_progress_in_any_batches(scores, y, roles, cut):
    ranks, pieces = LaneRanks(2, 2, HELD_OUT), LaneRanks(2, 2, HELD_OUT)
    ranks.update(scores, y, roles)
    for part in (slice(0, cut), slice(cut, None)):
        pieces.update(scores[part], y[part], roles[part])
    for k in range(2):
        chosen = roles[:, k] == HELD_OUT
        expected = report(scores[chosen, k].copy(), y[chosen])
        found = [RANKED[name].values(ranks)[k] for name in NAMES]
        assert found == pytest.approx([expected.auc, expected.average_precision], nan_ok=True, abs=0)
        assert np.array_equal(ranks.counted(k), pieces.counted(k))


def test_a_model_that_failed_ranks_every_row_wrong():
    ranks = LaneRanks(1, 2, LEARNED)
    scores = np.array([[np.nan], [np.nan], [1.0]])
    ranks.update(scores, np.array([1, -1, 1], np.int8), np.ones((3, 1), np.int8))
    assert RANKED["auc"].values(ranks)[0] == 0.0


@pytest.mark.parametrize(("name", "exact"), [("auc", roc_auc_score), ("average_precision", average_precision_score)])
def test_standard_errors_are_those_of_drawing_the_rows_again(name, exact):
    generator, values, errors = np.random.default_rng(2), [], []
    for _ in range(400):
        y = np.where(generator.random(800) < 0.15, 1, -1).astype(np.int8)
        scores = (generator.normal(size=800) + 0.8 * (y > 0)).astype(np.float32)
        ranks = LaneRanks(1, 2, LEARNED)
        ranks.update(scores[:, np.newaxis], y, np.ones((800, 1), np.int8))
        values.append(RANKED[name].values(ranks)[0])
        errors.append(RANKED[name].errors(ranks)[0])
    assert values[-1] == pytest.approx(exact(y > 0, scores), abs=0.01)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.15)


@pytest.mark.parametrize("name", NAMES)
def test_standard_errors_of_more_classes(name):
    generator, values, errors = np.random.default_rng(3), [], []
    for _ in range(200):
        y = generator.choice(4, 500, p=[0.4, 0.3, 0.2, 0.1]).astype(np.int32)
        scores = generator.normal(size=(500, 4)).astype(np.float32)
        scores[np.arange(500), y] += 1.2
        ranks = LaneRanks(1, 4, LEARNED)
        ranks.update(scores[:, np.newaxis], y, np.ones((500, 1), np.int8))
        values.append(RANKED[name].values(ranks)[0])
        errors.append(RANKED[name].errors(ranks)[0])
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.2)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folds", [0, 3])
def test_a_search_by_ranks_is_progressive_validation_after_the_first_rows(name, folds, monkeypatch):
    rows = made(700)
    trials = [Trial({"eta": eta}) for eta in (0.1, 1.0)]
    found = search(Matrix(rows), StudyConfig("fsol", folds=folds), trials, scoring_of(name))
    late = np.arange(len(rows)) >= WarmUp.left_out(len(rows))
    for k, trial in enumerate(trials):
        expected = []
        for fold in range(folds or 1):
            held = np.arange(len(rows)) % folds == fold if folds else np.zeros(len(rows), bool)
            model = Learner("fsol", n_features=rows.n_features, **trial.parameters)
            scores = model.learn(rows.labelled(rows.y, np.where(held, 0.0, 1.0)))
            counted = late & held if folds else late
            expected.append(getattr(report(scores[counted], rows.y[counted]), name))
        assert found.mean[k] == pytest.approx(np.mean(expected), abs=1e-15)
    assert np.isfinite(found.standard_error).all()
    monkeypatch.setattr("thinstream.tuning.passes.PIECE", 33)
    other = search(Matrix(rows), StudyConfig("fsol", folds=folds), trials, scoring_of(name))
    for one, same in zip(found, other, strict=True):
        np.testing.assert_array_equal(one, same)


def test_final_models_rank_all_held_out_rows():
    rows = made(300)
    found = search(Matrix(rows), StudyConfig("fsol", folds=2, final=True), [Trial({})], scoring_of("auc"))
    for fold in range(2):
        held = np.arange(len(rows)) % 2 == fold
        model = Learner("fsol", n_features=rows.n_features)
        model.learn(rows.labelled(rows.y, np.where(held, 0.0, 1.0)))
        assert found.splits[0, fold] == report(model.scores(rows)[held], rows.y[held]).auc


def test_of_more_classes_it_is_the_mean_of_each_against_the_rest():
    rows = made_of_three()
    model = make_outputs("fsol", [Costs()] * 3, n_features=rows.n_features)
    scores, late = model.learn(rows), np.arange(len(rows)) >= WarmUp.left_out(len(rows))
    means = {
        name: search(Matrix(rows), StudyConfig("fsol", classes=3), [Trial({})], scoring_of(name, classes=3)).mean[0]
        for name in NAMES
    }
    areas = [roc_auc_score(rows.y[late] == k, scores[late, k]) for k in range(3)]
    assert means["auc"] == pytest.approx(np.mean(areas), abs=0.002)
    expected = report(scores[late], rows.y[late], 3)
    assert means["average_precision"] == pytest.approx(expected.average_precision, abs=1e-15)


def test_bins_count_against_the_memory_limit():
    rows = made(300)
    trials = [Trial({"eta": 2.0**-k}, candidate=k) for k in range(4)]
    config = StudyConfig("fsol", n_features=rows.n_features, ranks=LEARNED)
    limit = LaneRanks.estimate_nbytes(2, 2) + 100_000
    assert study_stream(Matrix(rows), config._replace(memory=limit), trials).passes == 2
    assert study_stream(Matrix(rows), config._replace(memory=limit, ranks=None), trials).passes == 1


def test_without_a_positive_row_there_is_no_auc():
    ones = made(50).labelled(np.ones(50, np.int8))
    with pytest.raises(InvalidInputError, match="the auc of every candidate is undefined"):
        search(Matrix(ones), StudyConfig("fsol", folds=2), [Trial({})], scoring_of("auc"))
