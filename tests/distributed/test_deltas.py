"""Increments: bits, laws, and ways of merging against what they are defined as, computed densely and naively."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.distributed.deltas import apply_delta, combining_for, copy_learner, delta, merge_deltas
from thinstream.engine.loop import Costs
from thinstream.engine.memory import field_views, kept_width
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.lanes.learner import Learner
from thinstream.models.model import make_outputs
from thinstream.models.pipeline import Pipeline

pytestmark = pytest.mark.interpreted
NAMES = sorted(a.name for a in algorithms("online") if a.rule().merge_rule().declared)
few = settings(max_examples=8, deadline=None)
PARAMETERS = {
    "SSOL": {"diagonal": "exact"},
    "SMIDAS": {"p": 3.0},
    "SOFS": {"B": 3},
    "FOBOS": {"l1": 0.01},
    "STG": {"l1": 0.01},
}


def rows(seed, n, width=12, many=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, width)) < 0.4, rng.normal(size=(n, width)), 0.0)
    y = rng.integers(0, many, n).astype(np.int32) if many else np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8)
    i, j = np.nonzero(X)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(i, minlength=n))])
    return Batch.of(indptr, j.astype(np.int32), X[i, j], width, y=y)


def fresh(name, width=12, dtype="float64", **more):
    return Pipeline.of(Learner(name, n_features=width, dtype=dtype, grow=True, **PARAMETERS.get(name, {}), **more))


def went_on(base, seed, n, **more):
    learner = copy_learner(base)
    learner.learn(rows(seed, n, **more))
    return learner


def bits(model):
    return [
        array.tobytes()
        for item in model.outputs
        for array in (
            *field_views(
                item.algorithm, item.memory, 0, kept_width(item.rule, item.memory, item.n_features + item.offset)
            ),
            *item.memory[2:],
        )
    ]


@pytest.mark.parametrize("name", NAMES)
def test_one_delta_is_that_worker_bit_for_bit(name):
    base = fresh(name)
    base.learn(rows(1, 10))
    learner = went_on(base, 2, 15)
    change = pickle.loads(pickle.dumps(delta(base, learner)))
    assert bits(apply_delta(base, change)) == bits(learner)
    assert bits(merge_deltas(base, [change])) == bits(learner)
    idle = delta(base, copy_learner(base))
    assert len(idle.parts[0].indices) == 0
    assert bits(merge_deltas(base, [idle, change, idle])) == bits(learner)
    assert bits(merge_deltas(base, [idle, idle])) == bits(base)


@pytest.mark.parametrize("name", NAMES)
def test_merging_leaves_the_base_and_adds_counters(name):
    base = fresh(name)
    base.learn(rows(1, 10))
    before = bits(base)
    workers = [went_on(base, seed, n) for seed, n in ((2, 7), (3, 12), (4, 3))]
    deltas = [delta(base, worker) for worker in workers]
    for way in combining_for(base.outputs.one).rule.ways:
        merged = merge_deltas(base, deltas, way)
        assert merged.t == 10 + 7 + 12 + 3
        assert merged.n_updates == base.n_updates + sum(worker.n_updates - base.n_updates for worker in workers)
        assert bits(merged) == bits(merge_deltas(base, deltas, way)), "the same bits each time"
        assert np.isfinite(merged.weights()).all()
        went_on(merged, 5, 5)  # goes on
        learner = merged.outputs.one
        if hasattr(learner.rule, "sound"):
            assert learner.rule.sound(learner.memory)
    assert bits(base) == before


def naive(way, base, workers, touched, share):
    """Of one number for each coordinate; plain loops."""
    out = base.copy()
    for j in range(len(base)):
        moves = [worker[j] - base[j] for worker in workers]
        met = [k for k in range(len(workers)) if touched[k][j]]
        if not met:
            continue
        if way == "sum":
            out[j] += sum(moves)
        elif way == "mean":
            out[j] += sum(s * m for s, m in zip(share, moves))
        elif way == "touched":
            out[j] += sum(share[k] * moves[k] for k in met) / sum(share[k] for k in met)
        else:
            out[j] += sum(moves) / len(met) ** 0.5
    return out


@few
@given(
    st.integers(0, 10**6),
    st.sampled_from(["sum", "mean", "touched", "root"]),
    st.sampled_from(["FSOL", "AdaRDA", "SSOL"]),
)
def test_ways_match_their_definitions(seed, way, name):
    base = fresh(name)
    base.learn(rows(seed, 6))
    sizes = [4, 9, 1]
    workers = [went_on(base, seed + 1 + k, n) for k, n in enumerate(sizes)]
    merged = merge_deltas(base, [delta(base, worker) for worker in workers], way)
    record = [field_views(model.algorithm, model.outputs.one.memory, 0, 12) for model in (base, *workers, merged)]
    touched = [np.any([a != b for a, b in zip(record[0], item)], axis=0) for item in record[1:-1]]
    share = [n / sum(sizes) for n in sizes]
    for field in record[0]._fields:
        old, *new, result = (getattr(item, field) for item in record)
        np.testing.assert_allclose(result, naive(way, old, new, touched, share), rtol=1e-12, atol=1e-14)


@few
@given(st.integers(0, 10**6), st.sampled_from(["precision", "gain"]), st.sampled_from(["AROW", "SCW"]), st.booleans())
def test_beliefs(seed, way, name, drop):
    more = {"diagonal": "drop"} if drop else {}
    base = fresh(name, **more)
    base.learn(rows(seed, 6))
    workers = [went_on(base, seed + 1 + k, 8) for k in range(3)]
    merged = merge_deltas(base, [delta(base, worker) for worker in workers], way)
    mu = [model.weights() for model in (base, *workers)]
    P = [1 / model.variance() for model in (base, *workers)]
    precision = P[0] + sum(item - P[0] for item in P[1:])
    np.testing.assert_allclose(1 / merged.variance(), precision, rtol=1e-9)
    if way == "precision":  # of products of Gaussians, the base divided out
        expected = (P[0] * mu[0] + sum(p * m - P[0] * mu[0] for p, m in zip(P[1:], mu[1:]))) / precision
    else:
        gains = [np.maximum(item - P[0], 0) for item in P[1:]]
        total = sum(gains)
        moved = sum(g * (m - mu[0]) for g, m in zip(gains, mu[1:]))
        expected = mu[0] + np.divide(moved, total, out=np.zeros(12), where=total > 0)
    np.testing.assert_allclose(merged.weights(), expected, rtol=1e-7, atol=1e-9)


def test_a_sum_that_every_example_enters_is_the_serial_one():
    base = fresh("SSOL")
    base.learn(rows(1, 20))
    parts = [rows(2, 10), rows(3, 10)]
    serial, workers = copy_learner(base), [copy_learner(base), copy_learner(base)]
    for part, worker in zip(parts, workers):
        serial.learn(part)
        worker.learn(part)
    merged = merge_deltas(base, [delta(base, worker) for worker in workers], "sum")
    np.testing.assert_allclose(merged.variance(), serial.variance(), rtol=1e-12)


@pytest.mark.parametrize("name", ["FOBOS", "AdaFOBOS", "STG"])
def test_lazy_thresholds_are_applied_before_averaging(name):
    base = fresh(name)
    base.learn(rows(1, 20))
    workers = [went_on(base, seed, 10) for seed in (2, 3)]
    merged = merge_deltas(base, [delta(base, worker) for worker in workers], "mean")
    both = [delta(base, worker).parts[0].indices for worker in workers]
    where = np.union1d(*both)
    mean = (workers[0].weights() + workers[1].weights()) / 2
    np.testing.assert_allclose(merged.weights()[where], mean[where], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["FSOL", "AROW", "AdaFOBOS"])
def test_models_grow(name):
    base = fresh(name, width=0)
    narrow, wide = went_on(base, 1, 6, width=4), went_on(base, 2, 6, width=9)
    for deltas in ([narrow, wide], [wide, narrow], [copy_learner(base), wide]):
        merged = merge_deltas(base, [delta(base, item) for item in deltas])
        assert merged.n_features == 9
    assert merge_deltas(base, [delta(base, narrow), delta(base, wide)]).t == 12


def test_more_than_two_classes():
    base = Pipeline(make_outputs("AROW", [Costs()] * 3, n_features=0, dtype="float64", grow=True))
    base.learn(rows(1, 10, many=3))
    workers = [went_on(base, seed, 8, many=3) for seed in (2, 3)]
    change = pickle.loads(pickle.dumps(delta(base, workers[0])))
    assert bits(apply_delta(base, change)) == bits(workers[0])
    merged = merge_deltas(base, [delta(base, worker) for worker in workers])
    assert merged.t == 26
    assert merged.n_mistakes == base.n_mistakes + sum(worker.n_mistakes - base.n_mistakes for worker in workers)
    for k in range(3):
        alone = [Pipeline.of(list(model.outputs)[k]) for model in (base, *workers)]
        one = merge_deltas(alone[0], [delta(alone[0], item) for item in alone[1:]])
        assert bits(one) == bits(Pipeline.of(list(merged.outputs)[k]))


def test_refusals_name_the_reason():
    with pytest.raises(MergeError, match="StableSparsePerceptron cannot be merged: it thresholds"):
        combining_for(Learner("stablesparseperceptron", n_features=3))
    with pytest.raises(InvalidParameterError, match=r"AROW: merge must be 'touched', 'precision'.* got 'sum'"):
        combining_for(Learner("arow", n_features=3), "sum")
    with pytest.raises(InvalidParameterError, match="SSOL: merge must be 'touched' or 'mean', got 'sum'"):
        combining_for(Learner("ssol", n_features=3), "sum")
    refused = {a.name for a in algorithms("online")} - set(NAMES)
    assert refused == {"StableSparsePerceptron"}
