"""Algorithms that are one another in a corner of their parameters: bit for bit where both round alike, else to 1e-9."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import (
    TOLERANCE,
    Stream,
    assert_same_bits,
    l1,
    positive,
    run_library,
    run_twin,
    streams,
)
from tests.algorithms.online.golden import twins

lots = settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
few = settings(max_examples=max(25, settings.default.max_examples // 4))
powers = st.sampled_from([0.125, 0.5, 1.0, 2.0, 8.0])  # scaling by these rounds nothing
costs = st.none() | st.just("balanced") | st.tuples(st.floats(0.25, 3.0), st.floats(0.25, 3.0))
HUGE = 1e300
TWINS = twins()


def run(name: str, stream: Stream, class_weight: Any = None, **parameters: Any) -> tuple[Any, np.ndarray]:
    return run_library(name, stream, parameters, class_weight, cuts=[])


def assert_equal(one: tuple[Any, np.ndarray], other: tuple[Any, np.ndarray]) -> None:
    """Equal scores, weights, losses and counts, to the last bit, though the memories may be laid out differently."""
    np.testing.assert_array_equal(one[1], other[1])
    np.testing.assert_array_equal(one[0].coef_, other[0].coef_)
    assert one[0].cumulative_loss_ == other[0].cumulative_loss_
    np.testing.assert_array_equal(
        one[0]._model.learner.outputs.one.memory.counts, other[0]._model.learner.outputs.one.memory.counts
    )


def assert_close(one: tuple[Any, np.ndarray], other: tuple[Any, np.ndarray]) -> None:
    """Equal scores, weights and losses to 1e-9."""
    np.testing.assert_allclose(one[1], other[1], **TOLERANCE)
    np.testing.assert_allclose(one[0].coef_, other[0].coef_, **TOLERANCE)
    np.testing.assert_allclose(one[0].cumulative_loss_, other[0].cumulative_loss_, **TOLERANCE)


def safe(name: str, stream: Stream, class_weight: Any = None, **parameters: Any) -> bool:
    """Whether no decision of that algorithm's twin is so close that rounding might turn it."""
    naive = run_twin(TWINS[name][0], stream, parameters, class_weight)
    return bool(naive.edge > 1e-9 * (1.0 + np.abs(naive.scores).max()))


# Dual averaging -------------------------------------------------------------------------------------------------------


def after_an_empty_row(stream: Stream) -> Stream:
    """The stream, one round later: an empty row moves the clock and nothing else."""
    weights = None if stream.weights is None else np.concatenate([[1.0], stream.weights])
    return Stream(np.vstack([0.0 * stream.X[:1], stream.X]), np.concatenate([[1.0], stream.y]), weights, [])


@given(stream=streams(), eta=powers, class_weight=costs)
def test_fsol_is_rda_without_l1(stream, eta, class_weight):
    """FSOL(η) = RDA(γ = 1/η, β constant) at λ = 0, whatever the schedule."""
    fsol = run("FSOL", stream, class_weight, eta=eta)
    assert_equal(fsol, run("RDA", stream, class_weight, gamma=1 / eta, beta="const"))
    assert_equal(fsol, run("FSOL", stream, class_weight, eta=eta, l1_schedule="linear"))


def one_pass(name: str, stream: Stream, **parameters: Any) -> tuple[np.ndarray, np.ndarray]:
    model = ts.make(name, dtype="float64", fit_intercept=False, **parameters)
    return model.learn(stream.X, stream.y, classes=[-1, 1], sample_weight=stream.weights), model.coef_


@given(stream=streams(), eta=powers, l1=l1)
def test_linear_fsol_is_rda_a_round_later(stream, eta, l1):
    """FSOL thresholds round t with ηλt and RDA with λ(t−1)/γ: the same once RDA has seen an empty row, bit for bit."""
    fsol = one_pass("FSOL", stream, eta=eta, l1=l1, l1_schedule="linear")
    scores, coef = one_pass("RDA", after_an_empty_row(stream), gamma=1 / eta, l1=l1, beta="const")
    np.testing.assert_array_equal(scores[1:], fsol[0])
    np.testing.assert_array_equal(coef, fsol[1])


@lots
@given(stream=streams(), eta=powers, l1=l1)
def test_sqrt_fsol_is_enhanced_rda_a_round_later(stream, eta, l1):
    """The same for FSOL's ηλ√t and enhanced RDA's ρ√t, with ρ = ηλ."""
    assume(safe("FSOL", stream, eta=eta, l1=l1, l1_schedule="sqrt"))
    fsol = one_pass("FSOL", stream, eta=eta, l1=l1, l1_schedule="sqrt")
    scores, coef = one_pass("RDA", after_an_empty_row(stream), gamma=1 / eta, rho=eta * l1, beta="const")
    np.testing.assert_allclose(scores[1:], fsol[0], **TOLERANCE)
    np.testing.assert_allclose(coef, fsol[1], **TOLERANCE)


@given(stream=streams(), eta=positive, l1=l1, costs=st.tuples(positive, positive), factor=powers)
def test_costs_are_a_rate(stream, eta, l1, costs, factor):
    """Where the threshold does not contain η, doubling both costs is doubling η; the losses double, too."""
    raised = tuple(factor * c for c in costs)
    for name, schedule in [("FSOL", "const"), ("FSOL", "inv_t"), ("SSOL", "inv_t")]:
        one, scores = run(name, stream, raised, eta=eta, l1=l1, l1_schedule=schedule)
        other, same = run(name, stream, costs, eta=factor * eta, l1=l1, l1_schedule=schedule)
        np.testing.assert_array_equal(scores, same)
        assert (
            one._model.learner.outputs.one.memory.state.tobytes()
            == other._model.learner.outputs.one.memory.state.tobytes()
        )
        assert one.cumulative_loss_ == factor * other.cumulative_loss_


@lots
@given(stream=streams(), eta=positive, l1=l1)
def test_ssol_is_fsol_at_a_large_r(stream, eta, l1):
    """With r → ∞ the variances stay 1: SSOL is FSOL of the same schedule, bit for bit."""
    for options in ({"diagonal": "drop"}, {"diagonal": "exact"}):
        for schedule in ("inv_t", "eta"):
            ssol = run("SSOL", stream, eta=eta, l1=l1, r=HUGE, l1_schedule=schedule, **options)
            assert_equal(ssol, run("FSOL", stream, eta=eta, l1=l1, l1_schedule=schedule))


# Gradient learners ----------------------------------------------------------------------------------------------------

rates = st.sampled_from(["inv_sqrt", "const", "inv_t"])
losses = st.sampled_from(["hinge", "logistic"])


@given(stream=streams(), eta=positive, l1=l1, rate=rates, loss=losses, class_weight=costs)
def test_stg_of_period_one_is_fobos(stream, eta, l1, rate, loss, class_weight):
    """Truncated gradient every round is FOBOS, down to the memory."""
    options = {"eta": eta, "l1": l1, "rate": rate, "loss": loss}
    assert_same_bits(
        run("STG", stream, class_weight, period=1, **options)[0], run("FOBOS", stream, class_weight, **options)[0]
    )


@lots
@given(stream=streams(), eta=positive, l1=l1, loss=losses)
def test_adaptive_learners_at_a_large_delta(stream, eta, l1, loss):
    """With δ ≫ √S every step is η/δ: Ada-FOBOS is FOBOS and Ada-RDA is RDA, at constant rates."""
    ada = {"eta": 1e13 * eta, "l1": l1, "delta": 1e13, "loss": loss}
    if safe("FOBOS", stream, eta=eta, l1=l1, rate="const", loss=loss):
        assert_close(run("AdaFOBOS", stream, **ada), run("FOBOS", stream, eta=eta, l1=l1, rate="const", loss=loss))
    assume(safe("RDA", stream, gamma=1 / eta, l1=l1, rho=0.0, beta="const", loss=loss))
    assert_close(run("AdaRDA", stream, **ada), run("RDA", stream, gamma=1 / eta, l1=l1, beta="const", loss=loss))


@given(stream=streams(), eta=powers, rate=st.just("const"), class_weight=costs)
def test_gradient_learners_without_l1_are_one(stream, eta, rate, class_weight):
    """At λ = 0 and a constant rate FOBOS, RDA and FSOL all take w += η·c_y·y·x on a loss, bit for bit."""
    fobos = run("FOBOS", stream, class_weight, eta=eta, rate=rate)
    assert_equal(fobos, run("FSOL", stream, class_weight, eta=eta))
    assert_equal(fobos, run("RDA", stream, class_weight, gamma=1 / eta, beta="const"))


# Perceptrons and passive-aggressive learners --------------------------------------------------------------------------


@given(stream=streams(), class_weight=costs)
def test_bounded_pa_is_pa_at_a_large_C(stream, class_weight):
    """PA-I and PA-II with C → ∞ are PA, and CPA's likewise, where all rows weigh the same."""
    stream = stream._replace(weights=None)
    for name, cost in (("PA", None), ("CPA", class_weight)):
        unbounded = run(name, stream, cost, variant="PA")[0]
        for variant in ("PA-I", "PA-II"):
            assert_same_bits(run(name, stream, cost, variant=variant, C=HUGE)[0], unbounded)


# Weights --------------------------------------------------------------------------------------------------------------

#: Learners with a parameter that all weights multiply or divide, and others that fix a variant.
WEIGHED = [
    ("PA", "C", 1, {"variant": "PA-I"}),
    ("PA", "C", 1, {"variant": "PA-II"}),
    ("CPA", "C", 1, {"variant": "PA-I"}),
    ("CPA", "C", 1, {"variant": "PA-II"}),
    ("SCW", "C", 1, {"variant": "I"}),
    ("SCW", "C", 1, {"variant": "II"}),
    ("AROW", "r", -1, {}),
    ("AROW", "r", -1, {"covariance": "full"}),
    ("SOFS", "r", -1, {"B": 3}),
]


@pytest.mark.parametrize(("name", "parameter", "power", "others"), WEIGHED)
@given(stream=streams(), weight=powers)
@few
def test_a_weight_of_all_rows_is_another_parameter(name, parameter, power, others, stream, weight):
    """C is C·c, and r is r/c: in the mean and in the covariance."""
    heavy = stream._replace(weights=np.full(len(stream.y), weight))
    changed = run(name, stream._replace(weights=None), **{parameter: weight**power}, **others)
    assert_equal(run(name, heavy, **others), changed)
    if name != "CPA":  # where a class cost is part of the loss
        assert_equal(run(name, heavy._replace(weights=None), (weight, weight), **others), changed)


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("PA", {"variant": "PA"}),
        ("CPA", {"variant": "PA"}),
        ("CW", {}),
        ("CW", {"form": "stdev", "covariance": "full"}),
    ],
)
@given(stream=streams(), weight=st.floats(1.0, 1e300), cost=powers)
@few
def test_no_weight_makes_a_hard_step_longer(name, others, stream, weight, cost):
    """Where constraints are met exactly, sample weights above 1 and costs that are the same for all say nothing."""
    plain, heavy = (stream._replace(weights=w) for w in (None, np.full(len(stream.y), weight)))
    assert_equal(run(name, heavy, **others), run(name, plain, **others))
    if name != "CPA":
        assert_equal(run(name, plain, (cost, cost), **others), run(name, plain, **others))


@given(stream=streams(), rho=positive)
def test_csogd_is_paum(stream, rho):
    """CSOGD-I at η = 1 is PAUM with τ = (1, ρ), but for its ≤ [E19]."""
    csogd = run("CSOGD", stream, (1.0, rho), eta=1.0, variant="I")
    assert_equal(csogd, run("PAUM", stream, (1.0, rho), eta=1.0))


def test_csogd_is_not_paum_at_the_margin():
    """At a margin of exactly 1 there is no loss: CSOGD-I stays, PAUM goes on."""
    X, y = [[1.0], [1.0], [1.0]], [1, 1, -1]
    assert ts.CSOGD(fit_intercept=False).fit(X, y).n_updates_ == 2
    assert ts.PAUM(fit_intercept=False).fit(X, y).n_updates_ == 3


@given(stream=streams(), rho=positive, factor=powers)
def test_only_the_ratio_of_costs_counts(stream, rho, factor):
    """CSOGD and ARCSOGD know their costs only through ρ = c₊/c₋."""
    for name, options in [("CSOGD", {}), ("CSOGD", {"variant": "II"}), ("ARCSOGD", {})]:
        one = run(name, stream, (factor, factor * rho), **options)[0]
        assert_same_bits(one, run(name, stream, (1.0, rho), **options)[0])


@given(stream=streams(), eta=positive, rho=positive, diagonal=st.sampled_from(["exact", "drop"]))
def test_arcsogd_is_csogd_at_a_large_gamma(stream, eta, rho, diagonal):
    """With γ → ∞ the variances stay 1 and ARCSOGD is CSOGD-I."""
    arcsogd = run("ARCSOGD", stream, (1.0, rho), eta=eta, gamma=HUGE, diagonal=diagonal)
    assert_equal(arcsogd, run("CSOGD", stream, (1.0, rho), eta=eta))
    assert np.all(arcsogd[0].variance_ == 1.0)


@given(stream=streams(), class_weight=st.none() | st.tuples(positive, positive))
def test_stable_sparse_perceptron_is_perceptron_but_for_ties(stream, class_weight):
    """Without threshold and margin the two differ only where a negative scores 0: right by sign(0) = −1, but z ≤ 0."""
    weights = None if class_weight is None else dict(zip((-1, 1), class_weight, strict=True))
    one, other = (
        ts.make(name, class_weight=weights, dtype="float64", fit_intercept=False)
        for name in ("StableSparsePerceptron", "Perceptron")
    )
    for x, y in zip(stream.X, stream.y, strict=True):
        label = [y if hasattr(one, "classes_") and one.decision_function([x]) != 0 else 1.0]
        assert one.learn([x], label, classes=[-1, 1]) == other.learn([x], label, classes=[-1, 1])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(
        one._model.learner.outputs.one.memory.counts, other._model.learner.outputs.one.memory.counts
    )
    assert class_weight is not None or one.cumulative_loss_ == other.cumulative_loss_


def test_stable_sparse_perceptron_updates_on_ties():
    """The tie itself: a first negative moves one of them only."""
    assert ts.Perceptron(fit_intercept=False).fit([[1.0], [1.0]], [0, 1]).coef_[0, 0] == 1.0
    assert ts.StableSparsePerceptron(fit_intercept=False).fit([[1.0], [1.0]], [0, 1]).coef_[0, 0] == 0.0


# Gaussian learners ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SSOL", "CW", "AROW", "NAROW", "SCW", "ARCSOGD"])
@few
@given(stream=streams(), seed=st.integers(0, 2**32 - 1))
def test_drop_is_exact_where_no_two_features_meet(name, stream, seed):
    """On examples of one feature the two diagonals are the same matrix."""
    rng, X = np.random.default_rng(seed), np.zeros_like(stream.X)
    X[np.arange(len(X)), rng.integers(0, X.shape[1], len(X))] = rng.normal(size=len(X))
    alone = stream._replace(X=X)
    one, other = run(name, alone, diagonal="drop"), run(name, alone, diagonal="exact")
    np.testing.assert_allclose(one[0].coef_, other[0].coef_, **TOLERANCE)
    np.testing.assert_allclose(one[0].variance_, other[0].variance_, **TOLERANCE)
    np.testing.assert_allclose(one[1], other[1], **TOLERANCE)


@pytest.mark.parametrize("name", ["SSOL", "CW", "AROW", "NAROW", "SCW", "ARCSOGD"])
def test_drop_is_not_exact_where_they_meet(name):
    """And on two features of one example they are not."""
    one, other = (
        ts.make(name, diagonal=kind, dtype="float64", fit_intercept=False).fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])
        for kind in ("drop", "exact")
    )
    assert np.abs(one.variance_ - other.variance_).min() > 1e-3


@lots
@given(stream=streams(), r=positive, class_weight=costs, spare=st.integers(0, 3))
def test_sofs_that_keeps_all_is_arow(stream, r, class_weight, spare):
    """SOFS with B ≥ d cuts nothing."""
    assume(safe("AROW", stream, class_weight, r=r, a=1.0, diagonal="exact"))
    sofs, arow = (
        run("SOFS", stream, class_weight, B=stream.X.shape[1] + spare, r=r),
        run("AROW", stream, class_weight, r=r),
    )
    assert_close(sofs, arow)
    np.testing.assert_allclose(sofs[0].variance_, arow[0].variance_, **TOLERANCE)


@lots
@given(stream=streams(), phi=st.floats(0.05, 1.0), a=positive, diagonal=st.sampled_from(["exact", "drop"]))
def test_scw_is_cw_at_a_large_C(stream, phi, a, diagonal):
    """With C → ∞ SCW-I is the standard-deviation form of CW bit for bit, and SCW-II is to rounding, without weights."""
    options, stream, class_weight = {"phi": phi, "a": a, "diagonal": diagonal}, stream._replace(weights=None), None
    cw = run("CW", stream, class_weight, form="stdev", **options)
    assume(cw[0].variance_.min() > 1e-100)  # contradictory labels shrink σ, and raise α, geometrically: even past C
    assert_same_bits(run("SCW", stream, class_weight, variant="I", C=HUGE, **options)[0], cw[0])
    assume(safe("CW", stream, class_weight, form="stdev", **options))
    assert_close(run("SCW", stream, class_weight, variant="II", C=HUGE, **options), cw)


@given(stream=streams(), b=positive)
def test_narow_and_arow_agree_where_r_does(stream, b):
    """NAROW's first update is AROW's with r = v/(bv − 1)."""
    first, v = Stream(stream.X[:1], stream.y[:1], None, []), float(np.sum(stream.X[0] ** 2))
    assume(b * v > 1.01)
    narow, arow = one_pass("NAROW", first, b=b), one_pass("AROW", first, r=v / (b * v - 1))
    np.testing.assert_allclose(narow[1], arow[1], **TOLERANCE)


# Scales ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "own_scale", "weights", "scores"),
    [
        ("Perceptron", {}, {}, 1, 2),
        ("StableSparsePerceptron", {}, {}, 1, 2),
        ("PA", {"variant": "PA"}, {}, -1, 0),
        ("PA", {"variant": "PA-I"}, {"C": -2}, -1, 0),
        ("PA", {"variant": "PA-II"}, {"C": -2}, -1, 0),
        ("CPA", {}, {}, -1, 0),
        ("FSOL", {"l1": 0.25, "l1_schedule": "eta"}, {"eta": -2, "l1": 1}, -1, 0),
        ("CSOGD", {}, {"eta": -2}, -1, 0),
        ("FOBOS", {"l1": 0.25}, {"eta": -2, "l1": 1}, -1, 0),
        ("STG", {"l1": 0.25, "period": 2, "ceiling": 0.5}, {"eta": -2, "l1": 1, "ceiling": -1}, -1, 0),
        ("RDA", {"l1": 0.25}, {"gamma": 2, "l1": 1}, -1, 0),
        ("AdaFOBOS", {"l1": 0.25}, {"eta": -1, "delta": 1, "l1": 1}, -1, 0),
        ("AdaRDA", {"l1": 0.25}, {"eta": -1, "delta": 1, "l1": 1}, -1, 0),
        ("CW", {}, {"a": -2}, -1, 0),
        ("CW", {"form": "stdev", "diagonal": "drop"}, {"a": -2}, -1, 0),
        ("AROW", {}, {"a": -2}, -1, 0),
        ("NAROW", {}, {"a": -2}, -1, 0),
        ("SCW", {}, {"a": -2}, -1, 0),
        ("SCW", {"variant": "II"}, {"a": -2}, -1, 0),
        ("SOP", {}, {"a": 2}, -1, 0),
    ],
)
@few
@given(stream=streams(), k=st.sampled_from([0.25, 2.0]))
def test_units_of_the_features_do_not_matter(name, options, own_scale, weights, scores, stream, k):
    """Rows times k, parameters times the powers of k their units ask for: weights and scores scale by theirs."""
    defaults = ts.make(name, **options).get_params()
    scaled = options | {key: defaults[key] * k**power for key, power in own_scale.items()}
    one, plain = run(name, stream, **options)
    other, changed = run(name, stream._replace(X=k * stream.X), **scaled)
    np.testing.assert_array_equal(changed, plain * k**scores)
    np.testing.assert_array_equal(other.coef_, one.coef_ * k**weights)
    assert (other.n_mistakes_, other.n_updates_) == (one.n_mistakes_, one.n_updates_)
