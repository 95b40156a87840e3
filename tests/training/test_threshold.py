"""Thresholds that keep their promise: on the scores they were chosen on, and on rows held out."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.training.threshold import Goal, RecentScores, choose

scores = st.one_of(st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5]), st.floats(-100, 100, width=32))
rows = st.lists(st.tuples(scores, st.booleans()), min_size=1, max_size=60)
goals = st.one_of(
    st.floats(0.01, 1.0).map(lambda share: Goal.of(recall=share)),
    st.floats(0.0, 0.99).map(lambda share: Goal.of(false_alarms=share)),
)


def precision_of(threshold, s, positive):
    above = s > np.float32(threshold)
    return np.mean(positive[above]) if above.any() else math.nan


@given(rows, st.floats(0.01, 1.0))
def test_a_precision_is_reached_with_the_highest_recall(rows, share):
    s, positive = arrays(rows)
    others = [np.nextafter(t, np.float32(-np.inf)) for t in s]
    fit = [t for t in others if precision_of(t, s, positive) >= share - 1e-9]
    goal, recent = Goal.of(precision=share), RecentScores()
    recent.update(np.tile(s, 4), np.tile(np.where(positive, 1, -1), 4).astype(np.int8))
    chosen = recent.choose_or_explain(goal)
    if not fit:
        with pytest.raises(InvalidInputError, match=r"no threshold reaches precision|no row is positive"):
            choose(goal, s, positive)
    else:
        threshold = choose(goal, s, positive)
        assert precision_of(threshold, s, positive) >= share - 1e-9
        assert shares(threshold, s, positive)[0] == max(shares(t, s, positive)[0] for t in fit)
    if isinstance(chosen, str):
        assert "no threshold was chosen: no threshold reaches precision" in chosen or "no positive row" in chosen
    else:
        assert chosen.precision >= share - 1e-9


def test_a_precision_that_no_threshold_has():
    y, s = np.array([-1, 1, -1, -1]), np.array([4.0, 3.0, 2.0, 1.0])
    expected = "no threshold reaches precision 0.6; the highest is 0.5, with recall 1"
    with pytest.raises(InvalidInputError, match=expected):
        choose(Goal.of(precision=0.6), s, y > 0)
    recent = RecentScores()
    recent.update(np.tile(s, 2), np.tile(y, 2).astype(np.int8))
    assert recent.choose_or_explain(Goal.of(precision=0.6)) == f"no threshold was chosen: {expected}"
    assert recent.choose_or_explain(Goal.of(precision=0.5)).recall == 1.0


def shares(threshold, s, positive):
    above = s > np.float32(threshold)
    return (np.mean(above[positive]) if positive.any() else math.nan), (
        np.mean(above[~positive]) if (~positive).any() else math.nan
    )


def arrays(rows):
    return np.array([s for s, _ in rows], np.float32), np.array([p for _, p in rows])


@given(rows, goals)
def test_the_promise_is_kept_on_these_scores_and_no_other_threshold_does_better(rows, goal):
    s, positive = arrays(rows)
    if not (positive == goal.positive).any():
        with pytest.raises(InvalidInputError, match=f"{goal.metric} is undefined"):
            choose(goal, s, positive)
        return
    threshold = choose(goal, s, positive)
    recall, alarms = shares(threshold, s, positive)
    others = [shares(t, s, positive) for t in [*s.tolist(), float(s.min()) - 1.0]]
    if goal.metric == "recall":
        assert recall >= goal.share - 1e-9
        best = min((a for r, a in others if r >= goal.share - 1e-9), default=math.nan)
        assert alarms == pytest.approx(best, nan_ok=True)
    else:
        assert alarms <= goal.share + 1e-9
        best = max((r for r, a in others if a <= goal.share + 1e-9), default=math.nan)
        assert recall == pytest.approx(best, nan_ok=True)


@given(rows, goals, st.lists(st.integers(0, 60), max_size=4))
def test_recent_scores_keep_the_promise_in_any_chunks(rows, goal, cuts):
    s, positive = arrays(rows)
    y = np.where(positive, 1, -1).astype(np.int8)
    whole, parts = RecentScores(), RecentScores()
    whole.update(s, y)
    edges = sorted({0, len(s), *(cut for cut in cuts if cut < len(s))})
    for a, b in itertools.pairwise(edges):
        parts.update(s[a:b], y[a:b])
        parts = RecentScores.from_arrays(parts.arrays())
    assert all(np.array_equal(a, parts.arrays()[name]) for name, a in whole.arrays().items())
    start = 1 << max(len(s).bit_length() - 2, 0) if len(s) > 1 else 0  # of n ≥ 2^k the rows from 2^(k-1) on
    late, late_positive = s[start:], positive[start:]
    found = whole.choose_or_explain(goal)
    if not (late_positive == goal.positive).any():
        assert found.startswith("no threshold was chosen: no ")
        return
    recall, alarms = shares(found.threshold, late, late_positive)
    assert found.rows == len(late)
    assert (found.recall, found.false_alarms) == pytest.approx((recall, alarms), nan_ok=True)
    if goal.metric == "recall":
        assert recall >= goal.share - 1e-9
    else:
        assert alarms <= goal.share + 1e-9


def test_rows_of_weight_0_are_left_out():
    recent, other = RecentScores(), RecentScores()
    recent.update(np.array([1.0, 5.0, 2.0]), np.array([1, 1, -1], np.int8), np.array([1.0, 0.0, 3.0]))
    other.update(np.array([1.0, 2.0]), np.array([1, -1], np.int8))
    assert all(np.array_equal(a, other.arrays()[name]) for name, a in recent.arrays().items())


def test_bins_cost_little():
    """Scores within 1/128 are one: the promise is kept on the safe side, and not by much."""
    rng = np.random.default_rng(0)
    y = np.tile([-1, 1], 100_000).astype(np.int8)
    s = rng.normal(size=len(y)) + y
    recent = RecentScores()
    recent.update(s, y)
    found = recent.choose_or_explain(Goal.of(recall=0.9))
    assert 0.9 <= found.recall < 0.903
    found = recent.choose_or_explain(Goal.of(false_alarms=0.001))
    assert 0.0009 < found.false_alarms <= 0.001


def test_only_later_scores_count():
    """A model whose scores grow: a threshold for all of them would find nothing of the last."""
    recent = RecentScores()
    recent.update(np.linspace(0.0, 1.0, 4096), np.ones(4096, np.int8))
    assert recent.choose_or_explain(Goal.of(recall=1.0)).threshold == pytest.approx(0.5, abs=0.01)


def test_goals_refused():
    for given_ in ({}, {"recall": 0.5, "false_alarms": 0.1}):
        with pytest.raises(InvalidParameterError, match="one of recall, false_alarms and precision"):
            Goal.of(**given_)
    for given_, message in (
        ({"recall": 0.0}, "recall must be a share above 0, at most 1, got 0.0"),
        ({"recall": 1.5}, "got 1.5"),
        ({"precision": 0.0}, "precision must be a share above 0, at most 1, got 0.0"),
        ({"false_alarms": 1.0}, "from 0 to below 1, got 1.0"),
        ({"false_alarms": "few"}, "got 'few'"),
    ):
        with pytest.raises(InvalidParameterError, match=message):
            Goal.of(**given_)


def test_arrays_refused():
    recent = RecentScores()
    recent.update(np.array([1.0]), np.array([1], np.int8))
    with pytest.raises(InvalidInputError, match="recent scores contradict"):
        RecentScores.from_arrays(recent.arrays() | {"rows": np.array([0])})
