"""Lanes against models of their own: the same bits, for every algorithm, whatever the parameters, costs and masks."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.parameters import OneOf
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

#: Compiled every day; the others are compiled by `make test-slow`, and interpreted every day.
COMPILED = ("SSOL",)
WIDTH = 12


def cases():
    for algorithm in algorithms("online"):
        for dtype in ("float64", "float32"):
            compiled = algorithm.name in COMPILED and dtype == "float64"
            yield pytest.param(algorithm.name, dtype, marks=() if compiled else pytest.mark.interpreted)


def stream(rng, n, width=WIDTH, dtype=np.float32):
    counts = rng.integers(0, 7, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([np.sort(rng.choice(width, k, replace=False)) for k in counts] or [[]]).astype(np.int32)
    values = rng.normal(size=indptr[-1]).astype(dtype)
    y = rng.choice(np.array([-1, 1], np.int8), n)
    return Batch.of(indptr, indices, values, width, y)


def drawn(data, algorithm, lanes):
    """Parameters of each lane; where they would have to be compiled every day, kinds are at their defaults."""
    found = [{} for _ in range(lanes)]
    for parameter in algorithm.parameters:
        constraint = parameter.constraint
        if isinstance(constraint, OneOf):
            if algorithm.name in COMPILED and isinstance(next(iter(constraint.choices.values())), tuple):
                continue
            one = st.sampled_from([name for name in constraint.choices if name != "full"])
        elif parameter.name == "max_density":
            continue
        else:
            one = (
                st.integers(1, 4)
                if constraint.whole
                else st.floats(max(0.05, constraint.low), min(constraint.high, 3.0))
            )
        for parameters in found:
            parameters[parameter.name] = data.draw(st.none() | one if parameter.name == "half_life" else one)
    if algorithm.forgetting:
        for parameters in found:
            if parameters.get("diagonal", "drop" if algorithm.name == "SSOL" else "exact") != "exact":
                parameters["half_life"] = None
    return found


def same(found, model):
    """Whether two learners have the same bits, and go on with them."""
    assert found.weights().tobytes() == model.weights().tobytes()
    assert found.intercept == model.intercept
    assert found.memory.counts.tolist() == model.memory.counts.tolist()
    assert found.memory.totals.tobytes() == model.memory.totals.tobytes()
    batch = stream(np.random.default_rng(0), 5, 6)
    assert found.learn(batch).tobytes() == model.learn(batch).tobytes()


@pytest.mark.parametrize(("name", "dtype"), list(cases()))
@settings(deadline=None, max_examples=3 if config.DISABLE_JIT else 10)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_lane_is_a_run_of_its_own(name, dtype, data, seed):
    rng, lanes = np.random.default_rng(seed), data.draw(st.integers(1, 5))
    algorithm = next(a for a in algorithms("online") if a.name == name)
    parameters = drawn(data, algorithm, lanes)
    costs = [data.draw(st.sampled_from([Costs(), Costs(0.5, 3.0), Costs(balanced=True)])) for _ in range(lanes)]
    intercepts = [data.draw(st.booleans()) for _ in range(lanes)]
    options = {"dtype": dtype, "grow": True, "n_features": 0}
    threads = data.draw(st.integers(1, 2))
    together = Lanes(name, parameters, costs=costs, fit_intercept=intercepts, threads=threads, **options)
    each = zip(parameters, costs, intercepts, strict=True)
    alone = [Learner(name, costs=c, fit_intercept=i, **options, **p) for p, c, i in each]
    for _ in range(data.draw(st.integers(1, 3))):
        batch = stream(
            rng, data.draw(st.integers(0, 25)), data.draw(st.integers(6, WIDTH)), data.draw(st.sampled_from("fd"))
        )
        y = rng.choice(np.array([-1, 1], np.int8), (len(batch), lanes))
        weights = rng.choice([0.0, 1.0, 0.5], (len(batch), lanes))
        before = together.scores(batch)
        for lane, model in enumerate(alone):
            assert before[:, lane].tobytes() == model.scores(batch).tobytes()
        scores = together.learn(batch, y, weights)
        for lane, model in enumerate(alone):
            own = batch.labelled(np.ascontiguousarray(y[:, lane]), np.ascontiguousarray(weights[:, lane]))
            assert scores[:, lane].tobytes() == model.learn(own).tobytes()
    again = Lanes.of(alone)
    for lane, model in enumerate(alone):
        same(again[lane], together[lane])
        same(together[lane], model)


@pytest.mark.parametrize("lanes", [1, 15, 16, 17, 49, 64, 100])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_lanes_and_threads(lanes, threads):
    batch = stream(np.random.default_rng(lanes), 300)
    parameters = [{"eta": 0.1 * (k + 1), "l1": 0.01 * k} for k in range(lanes)]
    together = Lanes("fsol", parameters, n_features=WIDTH, threads=threads)
    scores = together.learn(batch)
    assert scores.shape == (300, lanes)
    for lane in range(0, lanes, 7):
        model = Learner("fsol", n_features=WIDTH, **parameters[lane])
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert together[lane].memory.state.tobytes() == model.memory.state.tobytes()


@pytest.mark.interpreted
def test_lanes_of_several_kinds():
    parameters = [{"diagonal": kind, "l1": l1} for l1 in (0.0, 0.1) for kind in ("drop", "exact")]
    together = Lanes("ssol", parameters, n_features=WIDTH, dtype="float64")
    batch = stream(np.random.default_rng(1), 50)
    scores = together.learn(batch)
    for lane, own in enumerate(parameters):
        model = Learner("ssol", n_features=WIDTH, dtype="float64", **own)
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        same(together[lane], model)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["fsol", "arow"])
def test_lanes_differ_in_half_life(name):
    """Some forget and some do not: blocks of their own, the same bits."""
    parameters = [{"half_life": H} for H in (None, 1, 2.5, 1e6, None, 40)]
    together = Lanes(name, parameters, n_features=WIDTH, dtype="float64", threads=2, fit_intercept=True)
    alone = [Learner(name, n_features=WIDTH, dtype="float64", fit_intercept=True, **own) for own in parameters]
    for seed in range(2):
        batch = stream(np.random.default_rng(seed), 90)
        scores = together.learn(batch)
        for lane, model in enumerate(alone):
            assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
    assert together.nbytes == Lanes.estimate_nbytes(
        name, parameters, WIDTH, dtype="float64", threads=2, fit_intercept=True
    )
    kept = pickle.loads(pickle.dumps(together))
    kept.keep([5, 0, 2])
    for found, model in zip(kept.copy(), (alone[5], alone[0], alone[2]), strict=True):
        assert [a.tobytes() for a in found.memory] == [a.tobytes() for a in model.memory]
        same(found, model)


def test_heaps_have_lanes_too():
    parameters = [{"B": B} for B in (1, 3, 20)]
    together = Lanes("sofs", parameters, n_features=4, grow=True, fit_intercept=[True, False, True], threads=2)
    alone = [Learner("sofs", n_features=4, grow=True, fit_intercept=k != 1, **own) for k, own in enumerate(parameters)]
    batch = stream(np.random.default_rng(2), 80)
    scores = together.learn(batch)
    for lane, model in enumerate(alone):
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
    together.keep([2, 0])
    for found, model in zip(together.copy(), (alone[2], alone[0]), strict=True):
        same(found, model)


def test_wide_indices_and_other_dtypes():
    batch = stream(np.random.default_rng(3), 60, dtype=np.float64)
    wide = Batch.of(batch.indptr, batch.indices.astype(np.int64), batch.values, WIDTH, batch.y)
    model = Learner("fsol", n_features=WIDTH)
    expected = model.learn(batch).tobytes()
    for rows in (batch, wide):
        lanes = Lanes("fsol", [{}, {"eta": 0.5}], n_features=WIDTH)
        assert np.ascontiguousarray(lanes.learn(rows)[:, 0]).tobytes() == expected


@pytest.mark.slow
def test_a_density_is_that_of_the_first_width():
    parameters = [{"max_density": 0.3}, {}, {"max_density": 0.6}]
    options = {"n_features": WIDTH, "fit_intercept": True}
    together = Lanes("stablesparseperceptron", parameters, **options)
    batch = stream(np.random.default_rng(0), 200)
    scores = together.learn(batch)
    for lane, own in enumerate(parameters):
        model = Learner("stablesparseperceptron", **options, **own)
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert (together[lane].nnz, together[lane].rule) == (model.nnz, model.rule)
