"""Metrics against scikit-learn's on random scores with ties, of two classes and more."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from thinstream.errors import InvalidParameterError
from thinstream.training.formatting import METRICS, columns, describe, require_metrics, usual
from thinstream.training.metrics import BINS, MOST_CLASSES, Progress, average_precision, below_bin, bins_of, middles
from thinstream.training.threshold import GROUPS, POINTS, calibration, curves_of

#: Each in a bin of its own, so that ties are those of the scores.
APART = [-64.0, -8.0, -1.0, -0.5, 0.0, 0.25, 0.75, 1.0, 1.5, 40.0]
two = st.lists(st.tuples(st.sampled_from(APART), st.sampled_from([-1, 1])), min_size=1, max_size=80)
any_scores = st.lists(
    st.tuples(st.one_of(st.floats(-3, 3), st.floats(-1e30, 1e30)), st.sampled_from([-1, 1])), min_size=1, max_size=80
)
many = st.lists(
    st.tuples(st.lists(st.sampled_from(APART), min_size=4, max_size=4), st.integers(0, 3)), min_size=1, max_size=60
)


def counted(rows, threshold=0.0):
    scores, y = np.array([s for s, _ in rows]), np.array([y for _, y in rows], np.int8)
    progress = Progress(threshold=threshold)
    progress.update(scores, y)
    return scores, y, progress


@given(two, st.sampled_from([0.0, 0.8, -1.0, 1.0]))
def test_two_classes(rows, threshold):
    scores, y, progress = counted(rows, threshold)
    report, called = progress.report(), np.where(scores > threshold, 1, -1)
    found = metrics.precision_recall_fscore_support(y, called, labels=[-1, 1], zero_division=np.nan)
    assert report.precision == pytest.approx(found[0], nan_ok=True)
    assert report.recall == pytest.approx(found[1], nan_ok=True)
    assert report.f1 == pytest.approx(found[2], nan_ok=True)
    assert report.examples == tuple(found[3])
    assert np.array_equal(report.confusion, metrics.confusion_matrix(y, called, labels=[-1, 1]))
    assert report.error == pytest.approx(1 - metrics.accuracy_score(y, called))
    assert report.baseline == pytest.approx(min(np.mean(y > 0), np.mean(y < 0)))
    if (y > 0).any():
        assert report.average_precision == pytest.approx(metrics.average_precision_score(y, scores), rel=1e-12)
    else:
        assert math.isnan(report.average_precision)
    if len(set(y.tolist())) == 2:
        assert report.auc == pytest.approx(metrics.roc_auc_score(y, scores), rel=1e-12)


@given(any_scores)
def test_the_exact_average_precision_is_within_the_bound(rows):
    scores, y, progress = counted(rows)
    report = progress.report()
    if (y > 0).any():
        exact = metrics.average_precision_score(y, scores)
        assert abs(report.average_precision - exact) <= report.average_precision_bound + 1e-12


def test_the_bound_of_average_precision_is_small_on_a_dense_sample():
    rng = np.random.default_rng(0)
    y = rng.choice([-1, 1], 20_000, p=[0.97, 0.03]).astype(np.int8)
    _, _, progress = counted(list(zip(rng.normal(size=len(y)) + 1.5 * y, y, strict=True)))
    assert progress.report().average_precision_bound < 0.02


@given(many)
def test_more_classes(rows):
    scores, y = np.array([s for s, _ in rows]), np.array([y for _, y in rows], np.int32)
    progress = Progress(4)
    progress.update(scores, y)
    report, called, seen = progress.report(), scores.argmax(axis=1), sorted(set(y.tolist()))
    found = metrics.precision_recall_fscore_support(y, called, labels=range(4), zero_division=np.nan)
    for mine, theirs in zip((report.precision, report.recall, report.f1), found, strict=False):
        assert mine == pytest.approx(theirs, nan_ok=True)
    macro = metrics.precision_recall_fscore_support(y, called, labels=seen, average="macro", zero_division=0)
    assert (report.macro_precision, report.balanced_accuracy, report.macro_f1) == pytest.approx(macro[:3])
    assert np.array_equal(report.confusion, metrics.confusion_matrix(y, called, labels=range(4)))
    assert report.baseline == pytest.approx(1 - np.bincount(y).max() / len(y))
    exact = [metrics.average_precision_score(y == k, scores[:, k]) for k in seen]
    assert [report.average_precisions[k] for k in seen] == pytest.approx(exact)
    assert report.average_precision == pytest.approx(np.mean(exact))


@given(many, st.integers(0, 60))
def test_more_classes_in_any_chunks(rows, cut):
    scores, y = np.array([s for s, _ in rows]), np.array([y for _, y in rows], np.int32)
    whole, parts = Progress(4), Progress(4)
    whole.update(scores, y)
    parts.update(scores[:cut], y[:cut])
    parts = Progress.from_arrays(parts.arrays())
    parts.update(scores[cut:], y[cut:])
    one, other = whole.arrays(), parts.arrays()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)


def test_too_many_classes_have_no_matrix():
    progress = Progress(MOST_CLASSES + 1)
    progress.update(np.eye(MOST_CLASSES + 1)[:3], np.array([0, 1, 2], np.int32))
    report = progress.report()
    assert (report.error, report.confusion) == (0.0, ())
    assert math.isnan(report.average_precision)
    assert curves_of(progress, range(MOST_CLASSES + 1), probabilities=False) == []
    assert "predicted" not in describe(report, [str(k) for k in range(MOST_CLASSES + 1)])


def test_bins_are_those_of_compiled_code():
    scores = np.concatenate([APART, np.random.default_rng(1).standard_cauchy(200) ** 9])
    for score, place in zip(scores, bins_of(scores).tolist(), strict=True):
        progress = Progress()
        progress.update(np.array([score]), np.array([1], np.int8))
        assert int(np.argmax(progress.arrays()["bins"][1])) == place


def test_below_a_bin_is_below_all_its_scores_and_above_those_of_the_next():
    for score in [*APART, 1e-30, -1e-30, 3.4e38]:
        place = int(bins_of(np.array([score]))[0])
        edge = below_bin(place)
        assert edge < score
        assert bins_of(np.array([edge])) in (place - 1, place - 2)  # -0 is in no bin of its own
    middle = middles()
    kept = np.flatnonzero(np.isfinite(middle))
    assert np.array_equal(bins_of(middle[kept]), kept)
    assert len(middle) == BINS


def test_average_precision_of_one_bin():
    """One negative and one positive, equal: at the positive's score the precision is a half; it might be 1."""
    precision, bound = average_precision(np.array([1, 0]), np.array([1, 0]))
    assert (precision, bound) == (0.5, 0.5)


# Curves ---------------------------------------------------------------------------------------------------------------


@given(two)
def test_curves_are_those_of_scikit_learn(rows):
    scores, y, progress = counted(rows)
    found = curves_of(progress, [-1, 1], probabilities=True)
    curve = found["precision_recall"]
    for t, precision, recall in zip(curve["threshold"], curve["precision"], curve["recall"], strict=True):
        above = scores > t
        assert precision == pytest.approx(np.mean(y[above] > 0))
        assert recall == pytest.approx(np.sum(above & (y > 0)) / max(np.sum(y > 0), 1))
    curve = found["roc"]
    for t, alarms in zip(curve["threshold"], curve["false_alarms"], strict=True):
        assert alarms == pytest.approx(np.sum((scores > t) & (y < 0)) / max(np.sum(y < 0), 1))
    assert sum(found["calibration"]["rows"]) == len(y)


def test_curves_of_many_scores_are_thinned():
    rng = np.random.default_rng(2)
    y = np.where(rng.random(5000) < 0.5, 1, -1)
    _, _, progress = counted(list(zip(rng.normal(size=5000), y, strict=True)))
    curve = curves_of(progress, [-1, 1], probabilities=False)["roc"]
    assert len(curve["recall"]) == POINTS
    assert (curve["recall"][-1], curve["false_alarms"][-1]) == (1.0, 1.0)


def test_calibrated_scores_look_calibrated():
    rng = np.random.default_rng(3)
    scores = rng.normal(size=200_000) * 2
    y = np.where(rng.random(len(scores)) < 1 / (1 + np.exp(-scores)), 1, -1)
    _, _, progress = counted(list(zip(scores, y, strict=True)))
    negatives, positives = progress.counted.bins[:, 0]
    found = calibration(negatives, positives, probabilities=True)
    assert len(found["rows"]) == GROUPS
    assert found["observed"] == pytest.approx(found["predicted"], abs=0.02)
    assert found["error"] < 0.01
    turned = calibration(positives, negatives, probabilities=True)  # twice as far from one half as it says
    expected = np.abs(np.array(turned["observed"]) - turned["predicted"]) @ turned["rows"] / len(y)
    assert 0.3 < turned["error"] == pytest.approx(expected)
    by_score = calibration(negatives, positives, probabilities=False)
    assert "error" not in by_score
    assert max(by_score["rows"]) < 1.5 * min(by_score["rows"])
    assert by_score["score"] == sorted(by_score["score"])


# What is shown --------------------------------------------------------------------------------------------------------


def test_sum_and_cost_are_shown_when_asked_for():
    report = counted([(1.0, 1), (-1.0, 1), (2.0, -1)])[2].report()
    text = describe(report, ["no", "yes"])
    assert "weighted sum" not in text
    assert "cost" not in text
    assert "always predicting yes: 33.33%" in text
    asked = describe(report, ["no", "yes"], ["sum", "cost"])
    assert "weighted sum" in asked
    assert "cost               1.00" in asked


def test_columns_by_name():
    report = counted([(1.0, 1), (-1.0, 1), (2.0, -1)])[2].report()
    assert columns(report, ["precision", "f1"]) == {"prec %": "50.00", "F1 %": "50.00"}
    assert len(columns(report, METRICS)) == len(METRICS)
    assert not {"sum", "cost"} & {*usual(of_two=True)}
    with pytest.raises(InvalidParameterError, match="got 'speed'"):
        require_metrics(["speed"], of_two=True)
    with pytest.raises(InvalidParameterError, match="auc needs two classes, got more"):
        require_metrics(["ap", "auc"], of_two=False)
