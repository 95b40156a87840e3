"""Cost curves: each lane is a run with the costs of its weight, judged at that weight."""

import numpy as np
import pytest

import thinstream as ts
from tests.tuning.sweeps import Pipe, drawn, streamed
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes.lanes import Lanes
from thinstream.training.metrics import Progress, Tradeoff
from thinstream.tuning.cost_curves import WEIGHTS, study_costs
from thinstream.tuning.study import StudyConfig, Trial

X, Y = drawn(1200, positive=1.0)
RARE = (Y < 0).sum() / (Y > 0).sum()
AT = (0.2, 0.5, 0.9)


def report(rho, weight):
    """Of a single run with costs (1, ρ)."""
    model = ts.ARCSOGD(eta=0.5, fit_intercept=False, class_weight={-1: 1.0, 1: rho})
    progress = Progress()
    progress.update(model.learn(X, Y), Y)
    return progress.report(Tradeoff(weight, 1 - weight, weight, 1 - weight))


def test_both_curves_are_those_of_single_runs():
    curves = ts.cost_curve(ts.ARCSOGD(eta=0.5, fit_intercept=False), X, Y, weights=AT)
    assert RARE > 2
    for k, weight in enumerate(AT):
        odds, blind = weight / (1 - weight), report(1.0, weight)
        assert curves.cost.rho[k] == pytest.approx(odds)
        assert curves.weighted_sum.rho[k] == pytest.approx(odds * RARE)
        for_sum, for_cost = report(odds * RARE, weight), report(odds, weight)
        assert curves.weighted_sum.tuned[k] == pytest.approx(for_sum.weighted_sum, rel=1e-12)
        assert curves.weighted_sum.blind[k] == pytest.approx(blind.weighted_sum, rel=1e-12)
        assert curves.weighted_sum.sensitivity[k] == for_sum.sensitivity
        assert curves.cost.tuned[k] == pytest.approx(for_cost.cost / len(Y), rel=1e-12)
        assert curves.cost.blind[k] == pytest.approx(blind.cost / len(Y), rel=1e-12)
        assert curves.cost.specificity[k] == for_cost.specificity
    assert curves.cost.tuned[2] < curves.cost.blind[2]
    assert curves.rows == len(Y)
    assert curves.positives == (Y > 0).sum()
    names = {"weights", "rho", "tuned", "blind", "constant", "sensitivity", "specificity"}
    assert set(curves.cost.columns()) == names


def test_the_better_constant_answer():
    curves = ts.cost_curve(ts.ARCSOGD(eta=0.5, fit_intercept=False), X, Y, weights=AT)
    for k, weight in enumerate(AT):
        both = [(Y > 0, np.ones(len(Y), bool)), (Y > 0, np.zeros(len(Y), bool))]
        sums = [weight * said[y].mean() + (1 - weight) * (~said[~y]).mean() for y, said in both]
        costs = [(weight * (~said[y]).sum() + (1 - weight) * said[~y].sum()) / len(y) for y, said in both]
        assert curves.weighted_sum.constant[k] == pytest.approx(max(sums))
        assert curves.cost.constant[k] == pytest.approx(min(costs))


def test_arcsogd_does_not_react_where_no_positive_row_reaches_the_margin():
    """It is the algorithm: with variances that fall fast, scores of positives stay below 1."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(3000) < 0.1, 1, -1)
    rows = rng.normal(size=(3000, 5)) + 0.5 * y[:, np.newaxis]
    weights = (0.5, 0.8, 0.9, 0.95)
    flat, reacts, wide = (
        ts.cost_curve(model, rows, y, weights=weights)
        for model in (ts.ARCSOGD(gamma=0.1), ts.AROW(), ts.ARCSOGD(gamma=100.0))
    )
    assert flat.weighted_sum.flat_from == 0.5
    assert len(set(flat.weighted_sum.sensitivity)) == 1
    assert reacts.weighted_sum.flat_from is wide.weighted_sum.flat_from is None
    assert np.all(np.diff(reacts.weighted_sum.sensitivity) > 0)
    assert np.all(reacts.weighted_sum.tuned[:3] > reacts.weighted_sum.constant[:3])


def test_a_stream_tells_its_ratio_by_its_first_rows_also_a_pipe():
    terms, lane = StudyConfig("arcsogd"), Trial({"eta": 0.5})
    one = ts.cost_curve(ts.ARCSOGD(eta=0.5, fit_intercept=False), X, Y, weights=AT)
    for stream in (streamed(X, Y), Pipe(streamed(X, Y))):
        found = study_costs(stream, terms, lane, AT)
        assert np.array_equal(found.weighted_sum.tuned, one.weighted_sum.tuned)
    own = ts.cost_curve(ts.ARCSOGD(eta=0.5, fit_intercept=False), streamed(X, Y), weights=AT)
    assert np.array_equal(own.cost.tuned, one.cost.tuned)
    told = study_costs(streamed(X, Y), terms, lane, AT, ratio=10.0)
    assert told.weighted_sum.rho[1] == 10.0


def test_rows_of_weight_zero_do_not_count():
    weights = (np.arange(len(Y)) % 3 > 0).astype(float)
    some = ts.cost_curve(ts.ARCSOGD(), X, Y, weights=AT, sample_weight=weights)
    kept = ts.cost_curve(ts.ARCSOGD(), X[weights > 0], Y[weights > 0], weights=AT)
    assert np.array_equal(some.weighted_sum.tuned, kept.weighted_sum.tuned)
    assert np.array_equal(some.cost.blind, kept.cost.blind)


def test_beyond_the_memory_limit_in_several_passes():
    limit = Lanes.estimate_nbytes("arcsogd", [{}] * (2 * len(WEIGHTS) + 1), X.shape[1]) // 2
    one, several = (ts.cost_curve(ts.ARCSOGD(), X, Y, memory=memory) for memory in (None, limit))
    assert several.passes > one.passes == 1
    assert np.array_equal(one.cost.tuned, several.cost.tuned)
    with pytest.raises(InvalidInputError, match="read files"):
        study_costs(Pipe(streamed(X, Y)), StudyConfig("arcsogd", memory=limit), Trial({}))


@pytest.mark.parametrize("weights", [[], [0.0, 0.5], [1.0], [float("nan")]])
def test_weights_are_between_0_and_1(weights):
    with pytest.raises(InvalidParameterError, match="weights must be"):
        ts.cost_curve(ts.ARCSOGD(), X, Y, weights=weights)


def test_a_bad_ratio():
    with pytest.raises(InvalidParameterError, match="ratio"):
        ts.cost_curve(ts.ARCSOGD(), X, Y, ratio=0.0)
