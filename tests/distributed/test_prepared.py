"""Rows that the model prepares, learned by several workers: increments are taken under the scales of all rows."""

import pickle

import numpy as np
import pytest

import thinstream as ts
from tests.distributed.test_deltas import PARAMETERS, rows
from tests.distributed.test_examples import InProcess
from thinstream.algorithms.registry import algorithms
from thinstream.distributed import train
from thinstream.distributed.deltas import apply_delta, copy_learner, delta, merge_deltas
from thinstream.errors import MergeError
from thinstream.lanes.learner import Learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

KINDS = [("max", None), ("rms", None), (None, "l2"), ("rms", "l2"), ("idf", "l2")]
NAMES = sorted(a.name for a in algorithms("online") if a.rule().merge_rule().powers is not None)


def fresh(name, kind, width=12):
    inner = Learner(name, n_features=width, dtype="float64", grow=True, **PARAMETERS.get(name, {}))
    return Pipeline.of(inner, Preparation(*kind))


def went_on(base, seed, n, **more):
    learner = copy_learner(base)
    learner.learn(rows(seed, n, **more))
    return learner


def bits(model):
    scales, width = model.preparation.scales, model.n_features
    state = b"" if scales is None else scales.state[: width * scales.width].tobytes()
    return [state, model.weights().tobytes(), *(item.memory.counts.tobytes() for item in model.outputs)]


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_one_delta_is_that_worker_bit_for_bit(name, kind):
    base = fresh(name, kind)
    base.learn(rows(1, 10))
    before, learner = bits(base), went_on(base, 2, 15, width=14)
    change = pickle.loads(pickle.dumps(delta(base, learner)))
    assert bits(apply_delta(base, change)) == bits(merge_deltas(base, [change])) == bits(learner)
    idle = delta(base, copy_learner(base))
    assert bits(merge_deltas(base, [idle, change])) == bits(learner)
    assert bits(base) == before


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_worker_that_learned_nothing_new_changes_no_score(name, kind):
    """Of two workers one has seen empty rows only: the merged model scores as the other does."""
    base = fresh(name, kind)
    base.learn(rows(1, 20))
    one, two = went_on(base, 2, 15), copy_learner(base)
    empty = rows(3, 1, width=12)
    two.learn(empty.until(1).take(np.array([], np.int64)))
    merged = merge_deltas(base, [delta(base, one), delta(base, two)])
    np.testing.assert_allclose(merged.scores(rows(4, 9)), one.scores(rows(4, 9)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", ["max", "rms", "idf"])
def test_scales_are_those_of_all_rows(scale):
    base = fresh("FSOL", (scale, None))
    base.learn(rows(1, 20))
    workers = [went_on(base, seed, 10 * seed) for seed in (2, 3)]
    merged = merge_deltas(base, [delta(base, worker) for worker in workers])
    whole = fresh("FSOL", (scale, None))
    for seed, n in ((1, 20), (2, 20), (3, 30)):
        whole.learn(rows(seed, n))
    np.testing.assert_allclose(merged.preparation.divisors(12), whole.preparation.divisors(12), rtol=1e-12)
    assert merged.t == whole.t


def test_increments_under_common_scales_are_the_definition():
    """FSOL, summed: θ of base and workers times m/m_own, then base + Σ(worker − base)."""
    base = fresh("FSOL", ("max", None))
    base.learn(rows(1, 20))
    workers = [went_on(base, seed, 15) for seed in (2, 3)]
    m = np.maximum(*(worker.preparation.divisors(12) for worker in workers))
    theta, *others = (item.outputs.one.memory.state * m / item.preparation.divisors(12) for item in (base, *workers))
    merged = merge_deltas(base, [delta(base, worker) for worker in workers], "sum")
    np.testing.assert_allclose(
        merged.outputs.one.memory.state, theta + sum(item - theta for item in others), rtol=1e-12
    )


def test_workers_learn_from_files(tmp_path):
    rng, lines = np.random.default_rng(0), []
    for _ in range(400):
        y = rng.choice([-1, 1])
        lines.append(f"{y} 1:{y * 1e-3 * rng.uniform(0.5, 1):.5g} 2:{rng.normal() * 1e3:.5g}\n")
    path = tmp_path / "d.svm"
    path.write_text("".join(lines))
    for kind in KINDS:
        given = dict(zip(("scale", "normalize"), kind, strict=True))
        alone = train(path, ts.AROW(**given), engine=InProcess(1))
        assert np.array_equal(alone.coef_, ts.AROW(**given).fit_stream(ts.open_stream(path)).coef_)
        several = train(path, ts.AROW(**given), engine=InProcess(3), checkpoint=tmp_path / "c")
        assert several.t_ == 400
        assert several.get_params()["scale"] == kind[0]
        if kind[0] in ("max", "rms"):  # which bring columns of different units together
            assert several.progressive_.error < 0.1


def test_refusals(tmp_path):
    path = tmp_path / "d.svm"
    path.write_text("1 1:1\n-1 2:1\n" * 20)
    with pytest.raises(MergeError, match="SMIDAS with scale cannot be merged"):
        train(path, ts.SMIDAS(p=3.0, scale="max"), engine=InProcess(2))
