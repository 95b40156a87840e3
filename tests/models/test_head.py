"""The head against its naive twin, written from the specification, §15, in numpy alone."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinstream.engine.loop import Costs
from thinstream.models.blend import COUNTING
from thinstream.models.head import ALIKE, Head


def twin(scores, y, weights, costs, later=math.inf, flat=0.01, prior=1.0):
    """Scores of the blend before each row, then w, P and m."""
    K = scores.shape[1]
    w, P, out = np.full(K, 2.0 / K), prior * np.eye(K), np.zeros(K, bool)
    seen, z, n, loss = [], [], {1: 0, -1: 0}, 0.0
    for s, sign, weight in zip(scores, y, weights, strict=True):
        out |= ~np.isfinite(s)
        m = np.mean(np.abs(seen), axis=0) if seen else np.zeros(K)
        x = np.array([0.0 if out[k] or m[k] == 0 else np.clip(s[k] / m[k], -10, 10) for k in range(K)])
        z.append(w @ x)
        if weight == 0:
            continue
        n[sign] += 1
        cost = {1: costs.positive, -1: costs.negative}[sign]
        if costs.balanced:
            cost = max(n[-1], 1) / max(n[1], 1) if sign > 0 else 1.0
        c = cost * weight
        p = 1 / (1 + math.exp(-z[-1]))
        loss += c * np.logaddexp(0.0, -sign * z[-1])  # −log p(y): 1 − p itself may be 0
        c *= 1 + len(seen) / later
        floor = flat if later == math.inf else min(flat, (n[1] + 1) / (n[1] + n[-1] + 2))
        g, h = c * (p - (sign > 0)), c * max(p * (1 - p), floor)
        P = P - h * np.outer(P @ x, P @ x) / (1 + h * x @ P @ x)
        w = w - g * P @ x
        seen.append(np.where(out, 0.0, s))
    m = np.mean(np.abs(seen), axis=0) if seen else np.zeros(K)
    return np.array(z), w, P, np.where(out, 0.0, m), out, loss


@st.composite
def streams(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, models = draw(st.integers(0, 40)), draw(st.integers(1, 6))
    y = rng.choice([-1, 1], rows).astype(np.int8)
    scores = (y[:, np.newaxis] + rng.normal(size=(rows, models)) * 3) * np.exp(rng.normal(size=models) * 3)
    scores[:, rng.random(models) < 0.2] = 0.0
    if rows and draw(st.booleans()):
        scores[rng.integers(rows), rng.integers(models)] = rng.choice([np.nan, np.inf])
    weights = rng.choice([0.0, 0.5, 1.0, 3.0], rows)
    costs = draw(st.sampled_from([Costs(), Costs(1.0, 5.0), Costs(balanced=True)]))
    return scores, y, weights, costs


def state(head):
    return b"".join(array.tobytes() for array in (head.w, head.P, head.sums, head.gone, head.counts, head.loss))


@pytest.mark.twin
@pytest.mark.parametrize("counting", [ALIKE, COUNTING])
@given(streams())
def test_is_its_twin(counting, stream):
    scores, y, weights, costs = stream
    head = Head(scores.shape[1], costs, counting)
    z = head.learn(scores, y, weights)
    expected, w, P, m, out, loss = twin(*stream, *counting)
    np.testing.assert_allclose(z, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(head.w, w, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(head.P, P, rtol=1e-9, atol=1e-9)
    assert head.loss[0] == pytest.approx(loss, rel=1e-9, abs=1e-9)
    inside = ~out & (m > 0)
    np.testing.assert_allclose(head.coefficients()[inside], (w[inside] / m[inside]), rtol=1e-9, atol=1e-9)
    assert not head.coefficients()[~inside].any()


@given(streams(), st.data())
def test_any_cut_gives_the_same_bits(stream, data):
    scores, y, weights, costs = stream
    whole, cut = Head(scores.shape[1], costs), Head(scores.shape[1], costs)
    at = data.draw(st.integers(0, len(y)))
    z = whole.learn(scores, y, weights)
    pieces = [cut.learn(scores[part], y[part], weights[part]) for part in (slice(0, at), slice(at, None))]
    assert np.concatenate(pieces).tobytes() == z.tobytes()
    assert state(cut) == state(whole)


@given(streams())
def test_a_later_pass_changes_the_loss_only(stream):
    scores, y, weights, costs = stream
    head = Head(scores.shape[1], costs, COUNTING)
    head.learn(scores, y, weights)
    before, loss = state(head), head.loss[0]
    z = head.learn(scores, y, weights, learns=False)
    finite = np.where(np.isfinite(scores) & ~head.gone, scores, 0.0)
    size = np.divide(head.sums, head.counts[0], out=np.zeros(len(head)), where=head.counts[0] > 0)
    x = np.divide(finite, size, out=np.zeros(scores.shape), where=size > 0)
    np.testing.assert_allclose(z, np.clip(x, -10, 10) @ head.w, rtol=1e-9, atol=1e-9)
    counts = weights != 0
    cost = np.where(y > 0, costs.positive, costs.negative)
    if costs.balanced:
        cost = np.where(y > 0, max(np.sum(y[counts] < 0), 1) / max(np.sum(y[counts] > 0), 1), 1.0)
    added = np.sum(cost * weights * np.logaddexp(0.0, -y * z))
    assert head.loss[0] - loss == pytest.approx(added, abs=1e-9 * (1 + loss))
    head.loss[0] = loss
    assert state(head) == before


def test_learns_whom_to_trust():
    rng = np.random.default_rng(1)
    y = rng.choice([-1, 1], 3000).astype(np.int8)
    good, noise, contrary = y + rng.normal(size=3000), rng.normal(size=3000), -100.0 * (y + 2 * rng.normal(size=3000))
    head = Head(3)
    z = head.learn(np.column_stack([good, noise, contrary]), y)
    late = slice(1000, None)
    alone = np.mean((good[late] > 0) != (y[late] > 0))
    assert np.mean((z[late] > 0) != (y[late] > 0)) < alone
    assert head.coefficients()[0] > 0 > head.coefficients()[2]
    assert head.share()[1] < 0.05


def test_probabilities_of_rare_positives_are_calibrated():
    """A floor of the curvature above the rate of positives must not hold probabilities above that rate."""
    rng = np.random.default_rng(3)
    s = rng.normal(size=200_000) - 6.5
    true = 1 / (1 + np.exp(-1.5 * s))
    y = np.where(rng.random(len(s)) < true, 1, -1).astype(np.int8)
    p = 1 / (1 + np.exp(-Head(1, counting=COUNTING).learn(s[:, np.newaxis], y)))
    late = slice(100_000, None)
    assert 0.5 < p[late].mean() / true[late].mean() < 2.0  # with a floor of 0.003: above 3


def test_probabilities_are_calibrated():
    rng = np.random.default_rng(2)
    s = rng.normal(size=20_000)
    y = np.where(rng.random(20_000) < 1 / (1 + np.exp(-3 * s)), 1, -1).astype(np.int8)
    p = 1 / (1 + np.exp(-Head(1).learn(np.exp(5) * s[:, np.newaxis], y)))
    for low in np.arange(0.05, 0.95, 0.1):
        near = (p >= low) & (p < low + 0.1)
        assert np.mean(y[near] > 0) == pytest.approx(np.mean(p[near]), abs=0.05)


def test_a_model_that_is_dropped_is_as_if_held_at_0():
    """The minimum of the quadratic that w and P stand for, without it."""
    rng = np.random.default_rng(3)
    y = rng.choice([-1, 1], 500).astype(np.int8)
    head = Head(4)
    head.learn(y[:, np.newaxis] + rng.normal(size=(500, 4)), y)
    kept, H = np.array([0, 2]), np.linalg.inv(head.P)
    found = head.keep(kept)
    np.testing.assert_allclose(np.linalg.inv(found.P), H[np.ix_(kept, kept)], rtol=1e-9)
    right = (H @ head.w)[kept]
    np.testing.assert_allclose(found.w, np.linalg.solve(H[np.ix_(kept, kept)], right), rtol=1e-9)
    assert found.coefficients().shape == (2,)
