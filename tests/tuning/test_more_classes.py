"""Searches of more than two classes: each model is one-vs-rest, as it would be alone; the highest score decides."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics

from tests.tuning.classes import CLASSES, WIDTH, cuts, made
from thinstream.data.in_memory import from_memory
from thinstream.data.labels import Classes
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError
from thinstream.models.model import make_outputs
from thinstream.training.metrics import Progress
from thinstream.tuning import sparsity_path as l1_range
from thinstream.tuning.counts import LaneCounts, LaneTallies
from thinstream.tuning.measures import MEASURES, check_metric, measures_of, scoring_of
from thinstream.tuning.passes import Matrix, PeekableStream
from thinstream.tuning.search import WarmUp, make_trials, search
from thinstream.tuning.sparsity_path import Sweep, sweep_stream
from thinstream.tuning.study import Study, StudyConfig, Trial

CONFIG = StudyConfig("fsol", classes=CLASSES)
COSTS = (Costs(1.0, 2.0), Costs(), Costs(1.0, 5.0))
TRIALS = [
    Trial({"eta": 0.5}, split=0),
    Trial({"eta": 2.0}, COSTS, fit_intercept=True),
    Trial({"r": 0.5}, algorithm="arow", split=1),
    Trial({}, algorithm="fsol", split=2),
]


def alone(trial, rows, mask):
    """The model of a trial that learns where the mask says, and its scores of all rows before."""
    algorithm, equal = trial.algorithm or "fsol", [Costs()] * CLASSES
    model = make_outputs(
        algorithm, trial.costs or equal, n_features=WIDTH, fit_intercept=trial.fit_intercept, **trial.parameters
    )
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    return model, model.learn(replace(rows, weights=weights * mask))


@pytest.mark.parametrize("places", [(), (1, 251, 400)])
def test_each_model_is_a_run_of_its_own_in_any_batches(places):
    rows = made(weights=True)
    study = Study(CONFIG._replace(folds=3), TRIALS)
    for piece in cuts(rows, *places):
        study.take(piece)
    for k, trial in enumerate(TRIALS):
        mask = np.arange(len(rows)) % 3 != trial.split
        model, scores = alone(trial, rows, mask)
        found = study.model(k)
        assert np.array_equal(found.weights(), model.weights())
        assert [one.intercept for one in found.models] == [one.intercept for one in model]
        assert found.n_mistakes == model.n_mistakes
        assert found.algorithm is model.algorithm
        for counted, role in ((study.tallies.learned, mask), (study.tallies.held_out, ~mask)):
            progress = Progress(CLASSES)
            progress.update(scores, rows.y, rows.weights * role)
            expected, report = progress.report(), counted.report(k)
            assert report.rows == expected.rows
            assert report.recall == pytest.approx(expected.recall, nan_ok=True)
            assert report.f1 == pytest.approx(expected.f1, nan_ok=True)


def test_models_that_are_kept_go_on_as_they_were():
    rows = made()
    study, whole = Study(CONFIG, TRIALS), Study(CONFIG, TRIALS)
    study.take(rows.until(300))
    study.keep([3, 2])
    study.take(rows.after(300))
    whole.take(rows)
    for place, k in enumerate([3, 2]):
        assert np.array_equal(study.model(place).weights(), whole.model(k).weights())
        assert study.model(place).n_mistakes == whole.model(k).n_mistakes
    assert np.array_equal(study.tallies.learned.counts, whole.tallies.learned.take([3, 2]).counts)


def naive(scores, y, roles, role):
    """Rows of each class, called it, both; and the log-loss of normalised one-vs-rest probabilities, row by row."""
    counts, loss = np.zeros((3, CLASSES), int), 0.0
    for s, own, its in zip(scores, y, roles, strict=True):
        if its != role:
            continue
        counts[0, own] += 1
        probabilities = 1 / (1 + np.exp(-s.astype(float)))
        if not np.isnan(s).any():
            called = min(k for k in range(CLASSES) if s[k] == max(s))
            counts[1, called] += 1
            counts[2, called] += called == own
        loss -= math.log(probabilities[own] / probabilities.sum())
    return counts, loss


@given(
    arrays(np.float32, (12, 2, CLASSES), elements=st.sampled_from([-3.0, -0.5, 0.0, 0.25, 2.0, 9.0])),
    arrays(np.int32, 12, elements=st.integers(0, CLASSES - 1)),
    arrays(np.int8, (12, 2), elements=st.integers(-1, 1)),
    st.integers(0, 12),
)
def test_counts_are_those_of_the_definition_in_any_batches(scores, y, roles, cut):
    tallies, pieces = LaneTallies(2, CLASSES, losses=True), LaneTallies(2, CLASSES, losses=True)
    tallies.update(scores, y, roles)
    for part in (slice(0, cut), slice(cut, None)):
        pieces.update(scores[part], y[part], roles[part])
    for role, found, other in ((1, tallies.learned, pieces.learned), (0, tallies.held_out, pieces.held_out)):
        assert np.array_equal(found.totals, other.totals)
        assert np.array_equal(found.counts, other.counts)
        for k in range(2):
            counts, loss = naive(scores[:, k], y, roles[:, k], role)
            assert np.array_equal(found.counts[:, :, k], counts)
            assert found.totals[1, k] == pytest.approx(loss, rel=1e-12, abs=1e-12)


def test_a_model_that_failed_is_wrong_about_every_class():
    scores = np.array([[[1.0, np.nan, 0.0]], [[np.nan, 0.0, 1.0]]], np.float32)
    tallies = LaneTallies(1, CLASSES)
    tallies.update(scores, np.array([0, 2], np.int32), np.ones((2, 1), np.int8))
    assert tallies.learned.report(0).error == 1.0
    assert tallies.learned.counts[1:].sum() == 0


def test_scores_far_from_zero_have_a_finite_log_loss():
    tallies = LaneTallies(1, CLASSES, losses=True)
    scores = np.array([[[-1000.0, -1000.0, -2000.0]], [[800.0, 900.0, -500.0]]], np.float32)
    tallies.update(scores, np.array([0, 1], np.int32), np.ones((2, 1), np.int8))
    assert tallies.learned.totals[1, 0] == pytest.approx(2 * math.log(2))


def counts_of(y, called):
    found = [np.bincount(which, minlength=CLASSES) for which in (y, called, y[y == called])]
    return LaneCounts(np.array(found)[:, :, np.newaxis], np.zeros((3, 1)))


def test_measures_are_scikit_learns_means_over_classes():
    generator = np.random.default_rng(0)
    y = generator.choice(CLASSES, 500, p=[0.5, 0.4, 0.1])
    called = np.where(generator.random(500) < 0.7, y, generator.integers(0, CLASSES, 500))
    expected = {
        "accuracy": metrics.accuracy_score(y, called),
        "error": 1 - metrics.accuracy_score(y, called),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, called),
        "recall": metrics.recall_score(y, called, average="macro"),
        "precision": metrics.precision_score(y, called, average="macro"),
        "f1": metrics.f1_score(y, called, average="macro"),
        "jaccard": metrics.jaccard_score(y, called, average="macro"),
        "matthews_corrcoef": metrics.matthews_corrcoef(y, called),
    }
    found = {}
    for name in expected:
        scoring = scoring_of(name, classes=CLASSES)
        found[name] = float(scoring.natural(scoring.scores(counts_of(y, called)))[0])
    assert found == pytest.approx(expected)
    assert set(measures_of(CLASSES)) == {*expected, "log_loss", "neg_log_loss"}


@pytest.mark.parametrize(
    "name", [name for name in measures_of(CLASSES) if MEASURES[name].variance and "log_loss" not in name]
)
def test_standard_errors_are_those_of_drawing_the_rows_again(name):
    generator, draws = np.random.default_rng(1), 1500
    cells = np.array([[0.35, 0.1, 0.02], [0.08, 0.3, 0.03], [0.02, 0.02, 0.08]])  # of each class, called each
    kinds = generator.multinomial(3000, cells.ravel(), size=draws).reshape(draws, CLASSES, CLASSES)
    seen, called, right = kinds.sum(2), kinds.sum(1), np.diagonal(kinds, axis1=1, axis2=2)
    many = LaneCounts(np.array([seen.T, called.T, right.T]), np.zeros((3, draws)))
    scoring = scoring_of(name, classes=CLASSES)
    assert scoring.standard_errors(many).mean() == pytest.approx(np.std(scoring.scores(many)), rel=0.1)


@pytest.mark.parametrize("folds", [0, 3])
def test_a_search_scores_rows_as_they_pass_by_the_highest_score(folds):
    rows, classes = made(), Classes("a", "b", "c")
    settings = [{"eta": 0.2}, {"eta": 1.0, "class_weight": {"c": 4.0}}]
    trials = make_trials("fsol", settings, {"fit_intercept": True}, classes)
    found = search(Matrix(rows), CONFIG._replace(folds=folds), trials, scoring_of("error", classes=3), models=True)
    late = np.arange(len(rows)) >= WarmUp.left_out(len(rows))
    for k, trial in enumerate(trials):
        if folds:
            masks = [np.arange(len(rows)) % folds != fold for fold in range(folds)]
            called = [np.argmax(alone(trial, rows, mask)[1], axis=1) for mask in masks]
            wrong = [np.mean((each != rows.y)[late & ~mask]) for each, mask in zip(called, masks, strict=True)]
            assert found.splits[k].tolist() == pytest.approx([-each for each in wrong])
        else:
            called = np.argmax(alone(trial, rows, np.ones(len(rows)))[1], axis=1)
            assert found.mean[k] == pytest.approx(-np.mean((called != rows.y)[late]))
    model, _ = alone(trials[found.best], rows, np.ones(len(rows)))
    assert np.array_equal(found.models[found.best].weights(), model.weights())
    assert found.positives is None


def test_hopeless_candidates_are_dropped_with_all_their_classes():
    rows = made(4096)
    trials = make_trials("fsol", [{"l1": 0.0}, {"l1": 1000.0}], {}, Classes(0, 1, 2))
    whole, found = (
        search(Matrix(rows), CONFIG, trials, scoring_of("error", classes=3), eliminate=drop) for drop in (False, True)
    )
    assert found.dropped.tolist()[0] == 0 < found.dropped.tolist()[1]
    assert found.mean[0] == whole.mean[0]


def test_a_path_has_the_models_of_single_runs_and_counts_all_weights():
    rows = made(1500)
    X = np.zeros((len(rows), WIDTH), np.float32)
    X[np.repeat(np.arange(len(rows)), np.diff(rows.indptr)), rows.indices] = rows.values
    stream = from_memory(X, rows.y, classes=range(CLASSES), rows_per_batch=400)
    path = sweep_stream(stream, CONFIG, Trial({"eta": 0.5}), Sweep(4, 0.1, 100.0), scoring=scoring_of("auc"))
    for k, l1 in enumerate(path.l1.tolist()):
        model, scores = alone(Trial({"eta": 0.5, "l1": l1}), rows, np.ones(len(rows)))
        assert np.array_equal(path.model(k).weights(), model.weights())
        assert path.nnz[k] == np.count_nonzero(model.weights())
        assert path.progressive("error")[k] == pytest.approx(np.mean(np.argmax(scores, axis=1) != rows.y))
    assert path.n_weights == CLASSES * WIDTH
    assert path.columns()["density"][0] == path.nnz[0] / path.n_weights
    assert "cost" not in path.columns()
    assert path.thinned is not None
    assert path.thinned[0] == pytest.approx(path.final("error")[0][0])
    assert path.nnz[path.pick("f1", "best")] > 0
    assert path.final("auc")[0][path.pick("auc", "best")] == path.final("auc")[0].max() > 0.6
    small = sweep_stream(
        stream, CONFIG._replace(memory=8_000, n_features=WIDTH), Trial({"eta": 0.5}), Sweep(20, 0.1, 100.0)
    )
    assert small.passes > 1
    assert small.model(0).weights_only
    assert np.array_equal(small.model(0).weights(), path.model(0).weights())


@pytest.mark.parametrize("costs", [(), tuple(Costs(1.0, 1.0 + k % 3) for k in range(30))])
def test_the_range_of_many_classes_is_found_from_the_most_frequent(costs, monkeypatch):
    generator, built = np.random.default_rng(0), []
    X = generator.normal(size=(900, 12)).astype(np.float32)
    y = np.minimum(generator.geometric(0.15, 900) - 1, 29).astype(np.int32)
    X[np.arange(900), y % 12] += 2.0
    stream, config = from_memory(X, y, classes=range(30)), CONFIG._replace(classes=30)
    monkeypatch.setattr(l1_range, "Study", lambda config, trials: built.append(config) or Study(config, trials))
    low, high = l1_range.find_l1_range(PeekableStream(stream), config, Trial({}, costs))
    assert [each.classes for each in built] == [l1_range.CLASSES]
    path = sweep_stream(stream, config, Trial({}, costs), Sweep(2, low, high, holdout=0))
    assert path.nnz[0] > 0.8 * path.n_weights > 0.1 * path.n_weights > path.nnz[1]


def test_what_is_of_two_classes_only_is_refused():
    with pytest.raises(InvalidParameterError, match=r"scoring must be 'error', .* of 3 classes, got 'cost'"):
        scoring_of("cost", classes=3)
    with pytest.raises(UnknownNameError, match=r"of 3 classes, got 'weighted_sum'"):
        check_metric("weighted_sum", 3)
    rows = made(10)
    with pytest.raises(InvalidInputError, match="this model has 3 classes, so labels must be class numbers"):
        Study(CONFIG, TRIALS).take(replace(rows, y=np.ones(10, np.int8)))
    with pytest.raises(InvalidInputError, match="class numbers must be from 0 to 2, got 3"):
        Study(CONFIG, TRIALS).take(replace(rows, y=np.full(10, 3, np.int32)))
