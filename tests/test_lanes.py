"""Lanes against models of their own: the same bits, for every algorithm, whatever the parameters, costs and masks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.parameters import OneOf
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.lanes import Lanes
from thinstream.learners import Learner, algorithms

#: With and without clocks: enough for every day.
DAILY = ("SSOL", "STG")
NAMES = [
    pytest.param(algorithm.name, marks=() if algorithm.name in DAILY else pytest.mark.slow)
    for algorithm in algorithms()
    if algorithm.name not in ("SOFS", "SMIDAS")  # which keep arrays of their own
]
WIDTH = 12


def stream(rng, n, width=WIDTH):
    counts = rng.integers(0, 7, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([np.sort(rng.choice(width, k, replace=False)) for k in counts] or [[]]).astype(np.int32)
    values = rng.normal(size=indptr[-1])
    y = rng.choice(np.array([-1, 1], np.int8), n)
    return Batch.of(indptr, indices, values, width, y)


def drawn(data, algorithm, lanes):
    """Parameters of each lane; those that select code are the same for all."""
    found = [{} for _ in range(lanes)]
    for parameter in algorithm.parameters:
        constraint = parameter.constraint
        if isinstance(constraint, OneOf):
            allowed = [name for name in constraint.choices if name != "full"]
            shared = isinstance(next(iter(constraint.choices.values())), tuple)
            values = [data.draw(st.sampled_from(allowed))] * lanes if shared else None
            for lane, parameters in enumerate(found):
                parameters[parameter.name] = values[lane] if values else data.draw(st.sampled_from(allowed))
        elif parameter.name != "max_density":
            one = st.integers(1, 4) if constraint.whole else st.floats(0.05, min(constraint.high, 3.0))
            for parameters in found:
                parameters[parameter.name] = data.draw(one)
    return found


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None, max_examples=10)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_lane_is_a_run_of_its_own(name, data, seed):
    rng, lanes = np.random.default_rng(seed), data.draw(st.integers(1, 5))
    algorithm = next(a for a in algorithms() if a.name == name)
    parameters = drawn(data, algorithm, lanes)
    costs = [data.draw(st.sampled_from([Costs(), Costs(0.5, 3.0), Costs(balanced=True)])) for _ in range(lanes)]
    options = {"dtype": "float64", "fit_intercept": data.draw(st.booleans()), "grow": True, "n_features": 0}
    together = Lanes(name, parameters, costs=costs, **options)
    alone = [Learner(name, costs=c, **options, **p) for p, c in zip(parameters, costs)]
    for _ in range(data.draw(st.integers(1, 3))):
        batch = stream(rng, data.draw(st.integers(0, 25)), data.draw(st.integers(6, WIDTH)))
        y = rng.choice(np.array([-1, 1], np.int8), (len(batch), lanes))
        weights = rng.choice([0.0, 1.0, 0.5], (len(batch), lanes))
        scores = together.learn(batch, y, weights)
        for lane, model in enumerate(alone):
            own = batch.labelled(np.ascontiguousarray(y[:, lane]), np.ascontiguousarray(weights[:, lane]))
            assert scores[:, lane].tobytes() == model.learn(own).tobytes()
    for lane, model in enumerate(alone):
        found = together[lane]
        assert found.weights().tobytes() == model.weights().tobytes()
        assert found.memory.counts.tolist() == model.memory.counts.tolist()
        assert found.memory.totals.tobytes() == model.memory.totals.tobytes()
        batch = stream(rng, 5, 6)
        assert found.learn(batch).tobytes() == model.learn(batch).tobytes()  # and goes on as one


@pytest.mark.parametrize("lanes", [1, 15, 16, 17, 40])
def test_any_number_of_lanes_in_float32(lanes):
    batch = stream(np.random.default_rng(lanes), 300)
    parameters = [{"eta": 0.1 * (k + 1), "l1": 0.01 * k} for k in range(lanes)]
    together = Lanes("ssol", parameters, n_features=WIDTH)
    scores = together.learn(batch)
    assert scores.shape == (300, lanes)
    for lane in range(lanes):
        model = Learner("ssol", n_features=WIDTH, **parameters[lane])
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert together[lane].memory.state.tobytes() == model.memory.state.tobytes()


def test_what_lanes_refuse():
    with pytest.raises(InvalidParameterError, match="parameters of one model at least"):
        Lanes("fsol", [])
    with pytest.raises(InvalidParameterError, match="must agree in parameters that select code, lane 1 has"):
        Lanes("ssol", [{"diagonal": "drop"}, {"diagonal": "exact"}])
    with pytest.raises(InvalidParameterError, match="SOFS keeps an array of its own"):
        Lanes("sofs", [{}])
    with pytest.raises(InvalidParameterError, match="one cost per lane is needed, got 1 for 2 lanes"):
        Lanes("fsol", [{}, {}], costs=[Costs()])
    with pytest.raises(InvalidInputError, match="X has 12 features, but the model has 3"):
        Lanes("fsol", [{}], n_features=3).learn(stream(np.random.default_rng(0), 4))
