"""The bounds hold on random streams, their numbers are those of the formulas, and the regret is the measured one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import thinstream as ts
from tests.algorithms.batch.test_scd import as_dict
from tests.algorithms.online.conformance import class_weights, positive, streams
from tests.algorithms.online.golden import stream as golden_stream
from thinstream.diagnostics.bounds import Bound, arcsogd_bound, fsol_bound, ssol_bound
from thinstream.diagnostics.regret import regret
from thinstream.errors import InvalidInputError, InvalidParameterError

l1s = st.one_of(st.just(0.0), st.floats(1e-3, 4.0))
seeds = st.integers(0, 2**32 - 1)
some = settings(max_examples=40)


def hinge(s, y, margin=1.0):
    return max(0.0, margin - y * s)


def running_costs(y, class_weight):
    """(c₋, c₊) of every round."""
    found = []
    for t in range(1, len(y) + 1):
        positives = sum(y[:t] > 0)
        balanced = (1.0, max(t - positives, 1) / max(positives, 1))
        found.append({None: (1.0, 1.0), "balanced": balanced}.get(class_weight, class_weight))
    return found


def comparators(seed, d):
    rng = np.random.default_rng(seed)
    return [np.zeros(d), *(rng.normal(size=d) * scale for scale in (0.1, 1.0, 10.0))]


def soft(v, a):
    return np.sign(v) * np.maximum(np.abs(v) - a, 0.0)


def naive_fsol(X, y, w, eta, l1, costs):
    """(the learner's loss, the comparator's, the bound), from P0 Algorithms 3 and 6 and Theorem 5 with c² [E2]."""
    theta, loss, other, norm = np.zeros(X.shape[1]), 0.0, 0.0, max(np.abs(x).sum() for x in X)
    c = [pair[1] if label > 0 else pair[0] for pair, label in zip(costs, y)]
    for x, label, cost in zip(X, y, c):
        s = soft(theta, eta * l1) @ x
        loss, other = loss + cost * hinge(s, label), other + cost * hinge(w @ x, label)
        theta = theta + (eta * cost * label * x if hinge(s, label) > 0 else 0.0)
    squares = sum(cost**2 for cost in c)
    return loss, other, w @ w / (2 * eta) + eta / 2 * norm**2 * squares + eta * l1 * norm * sum(c)


def square(x, full):
    """The matrix an example adds, or its diagonal alone."""
    return np.outer(x, x) if full else np.diag(x**2)


def naive_ssol(X, y, w, eta, l1, r, costs, full=False):
    """P0 Algorithms 4, 5 and 7, the diagonal exact, and Theorem 6 with c²."""
    T, d = X.shape
    theta, A, loss, other = np.zeros(d), np.eye(d), 0.0, 0.0
    norm, c = max(np.abs(x).sum() for x in X), [pair[1] if label > 0 else pair[0] for pair, label in zip(costs, y)]
    for t, (x, label, cost) in enumerate(zip(X, y, c), start=1):
        A = A + square(x, full) / r
        s = soft(np.linalg.solve(A, theta), l1 / t) @ x
        loss, other = loss + cost * hinge(s, label), other + cost * hinge(w @ x, label)
        theta = theta + (eta * cost * label * x if hinge(s, label) > 0 else 0.0)
    second = max(c) ** 2 * eta / 2 * r * d * math.log(1 + norm**2 * T / r)
    return loss, other, w @ A @ w / (2 * eta) + second + max(c) * l1 * norm * (math.log(T) + 1)


def naive_arcsogd(X, y, w, eta, gamma, costs, full=False):
    """P3 Algorithm 1, the diagonal exact, and the first inequality of Theorem 1."""
    mu, P, loss, other, farthest = np.zeros(X.shape[1]), np.eye(X.shape[1]), 0.0, 0.0, 0.0
    for x, label, pair in zip(X, y, costs):
        farthest = max(farthest, np.linalg.norm(mu - w))
        margin = pair[1] / pair[0] if label > 0 else 1.0
        s = mu @ x
        loss, other = loss + hinge(s, label, margin), other + hinge(w @ x, label, margin)
        if hinge(s, label, margin) > 0:
            P = P + square(x, full) / gamma
            mu = mu + eta * label * np.linalg.solve(P, x)
    return loss, other, farthest**2 * np.trace(P) / (2 * eta) + eta * gamma / 2 * np.linalg.slogdet(P)[1]


def compare(found, naive):
    loss, other, bound = naive
    assert (found.loss, found.comparator_loss, found.bound.total) == pytest.approx((loss, other, bound), rel=1e-9)
    assert found.regret == pytest.approx(loss - other, rel=1e-9, abs=1e-9 * (1 + loss + other))
    assert found.holds
    assert found.regret <= found.bound.total + 1e-9 * (1 + bound)


@some
@given(stream=streams(), eta=positive, l1=l1s, cw=class_weights, seed=seeds)
def test_fsol(stream, eta, l1, cw, seed):
    for w in comparators(seed, stream.X.shape[1]):
        model = ts.FSOL(eta=eta, l1=l1, class_weight=as_dict(cw), fit_intercept=False)
        naive = naive_fsol(stream.X, stream.y, w, eta, l1, running_costs(stream.y, cw))
        compare(regret(model, stream.X, stream.y, w), naive)


@some
@given(stream=streams(), eta=positive, l1=l1s, r=positive, cw=class_weights, seed=seeds, full=st.booleans())
def test_ssol(stream, eta, l1, r, cw, seed, full):
    matrix = {"covariance": "full"} if full else {"diagonal": "exact"}
    for w in comparators(seed, stream.X.shape[1]):
        model = ts.SSOL(eta=eta, l1=l1, r=r, class_weight=as_dict(cw), fit_intercept=False, **matrix)
        naive = naive_ssol(stream.X, stream.y, w, eta, l1, r, running_costs(stream.y, cw), full)
        compare(regret(model, stream.X, stream.y, w), naive)


@some
@given(stream=streams(), eta=positive, gamma=positive, cw=class_weights, seed=seeds, full=st.booleans())
def test_arcsogd(stream, eta, gamma, cw, seed, full):
    X, y = stream.X, stream.y
    kind = {"eta": eta, "gamma": gamma, "class_weight": as_dict(cw), "covariance": "full" if full else "diagonal"}
    for w in comparators(seed, X.shape[1])[1::2]:
        found = regret(ts.ARCSOGD(**kind, fit_intercept=False), X, y, w)
        naive = naive_arcsogd(X, y, w, eta, gamma, running_costs(y, cw), full)
        compare(found, naive)
        assert ("cost" in found.measures) == (cw != "balanced")
        if cw != "balanced":
            check_measures(found, naive, X, y, kind)


def check_measures(found, naive, X, y, kind):
    """Theorems 2 and 3: counts of the run itself, the α that makes ρ the theorem's, and the bounds."""
    scores, class_weight = (
        ts.ARCSOGD(**kind, dtype="float64", fit_intercept=False).learn(X, y, classes=[-1, 1]),
        kind["class_weight"],
    )
    c_n, c_p = (1.0, 1.0) if class_weight is None else (class_weight[-1], class_weight[1])
    T_p, T_n = np.sum(y > 0), np.sum(y < 0)
    M_p, M_n = np.sum((y > 0) & (scores <= 0)), np.sum((y < 0) & (scores > 0))
    most = naive[1] + naive[2]
    assert found.measures["cost"] == pytest.approx((c_p * M_p + c_n * M_n, c_n * most), rel=1e-9)
    assert ("sum" in found.measures) == bool(T_p and T_n)
    if T_p and T_n:
        a_p = c_p / c_n * T_p / (c_p / c_n * T_p + T_n)
        assert a_p * T_n / ((1 - a_p) * T_p) == pytest.approx(c_p / c_n)
        weighted = a_p * (T_p - M_p) / T_p + (1 - a_p) * (T_n - M_n) / T_n
        assert found.measures["sum"] == pytest.approx((weighted, 1 - (1 - a_p) / T_n * most), rel=1e-9)
        assert weighted >= 1 - (1 - a_p) / T_n * most - 1e-9


def test_full_matrices_have_the_same_bounds_as_their_diagonals():
    """Where they are diagonal."""
    w, A = np.array([1.0, -2.0]), np.array([3.0, 5.0])
    numbers = {"eta": 0.5, "l1": 0.1, "r": 2.0, "norm": 1.5, "rounds": 7, "largest_cost": 3.0}
    assert ssol_bound(w, np.diag(A), **numbers) == pytest.approx(ssol_bound(w, A, **numbers))
    one, other = (arcsogd_bound(2.0, P, eta=0.5, gamma=3.0) for P in (A, np.diag(A)))
    assert one == pytest.approx(other)
    assert Bound(1.0, 2.0, 4.0).total == 7.0
    assert fsol_bound([0.0], eta=1.0, l1=0.0, norm=1.0, costs=[1.0, 2.0]).second_order == 2.5


def test_the_default_comparator_is_a_good_one():
    """As good as liblinear's, better than nothing and than the learner; the model given is left as it was."""
    X, y, *_ = golden_stream()
    model = ts.FSOL(eta=0.1, fit_intercept=False).fit(X[:60], y[:60])
    before = model.coef_.copy()
    found = regret(model, X, y)
    svm = LinearSVC(loss="hinge", fit_intercept=False, random_state=0, dual=True, max_iter=100_000).fit(X, y)
    best = np.maximum(0.0, 1.0 - y * (X @ svm.coef_[0])).sum()
    assert found.comparator_loss == pytest.approx(best, rel=0.01)
    assert found.comparator_loss < min(len(y), found.loss)
    np.testing.assert_array_equal(model.coef_, before)


def test_other_labels_and_the_report():
    X, y, *_ = golden_stream()
    words = np.where(y > 0, "spam", "ham")
    model = ts.ARCSOGD(class_weight={"spam": 3.0}, fit_intercept=False)
    found = regret(model, X, words)
    assert found == regret(ts.ARCSOGD(class_weight={1: 3.0}, fit_intercept=False), X, y)
    lines = str(found).splitlines()
    assert lines[0] == "ARCSOGD, 200 rounds"
    assert [line.split()[0] for line in lines[1:]] == [
        *("loss", "comparator's", "regret", "comparator", "second", "threshold", "sum", "cost")
    ]
    assert "at least" in lines[-2]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ts.SSOL(fit_intercept=False), "the bound of SSOL needs diagonal='exact', got 'drop'"),
        (
            ts.SSOL(diagonal="exact", update_on="loss", fit_intercept=False),
            "the bound of SSOL needs update_on='every', got 'loss'",
        ),
        (
            ts.FSOL(l1=1.0, l1_schedule="sqrt", fit_intercept=False),
            "the bound of FSOL needs l1_schedule='eta', got 'sqrt'",
        ),
        (ts.ARCSOGD(diagonal="drop", fit_intercept=False), "the bound of ARCSOGD needs diagonal='exact', got 'drop'"),
        (ts.AROW(fit_intercept=False), "the papers prove bounds only for FSOL, SSOL, ARCSOGD, got AROW"),
        (ts.FSOL(fit_intercept=True), "fit_intercept must be False. Append a constant feature"),
    ],
)
def test_what_no_theorem_covers(model, message):
    with pytest.raises(InvalidParameterError, match=message):
        regret(model, np.eye(2), [1, -1])


def test_without_thresholds_their_schedule_plays_no_part():
    assert regret(ts.FSOL(l1_schedule="sqrt", fit_intercept=False), np.eye(2), [1, -1], [0.0, 0.0]).holds


def test_bad_input():
    with pytest.raises(InvalidInputError, match="the comparator must have 2 finite numbers"):
        regret(ts.FSOL(fit_intercept=False), np.eye(2), [1, -1], [1.0])
    for name in ("SCD", "BCW"):
        with pytest.raises(InvalidInputError, match=f"the model must be an online estimator of thinstream, got {name}"):
            regret(ts.make(name, fit_intercept=False), np.eye(2), [1, -1])
    with pytest.raises(InvalidInputError, match="X has no rows"):
        regret(ts.FSOL(fit_intercept=False), np.empty((0, 2)), np.empty(0))
