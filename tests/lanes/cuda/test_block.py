"""A block on a device has the face of a block of the CPU: it grows, is cut, copied, pickled, filled and read."""

import pickle

import numpy as np
import pytest

from tests.lanes.cuda.cases import alone, costs_of, require_device, same_bits, spread
from tests.lanes.test_lanes import WIDTH, stream
from thinstream.batch import Batch
from thinstream.errors import DeviceWarning, InvalidParameterError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

pytestmark = [pytest.mark.interpreted, pytest.mark.gpu]


@pytest.fixture(autouse=True)
def _device():
    require_device()


@pytest.mark.parametrize("name", ["FSOL", "SOFS", "AdaFOBOS"])
def test_growing_keeping_copying(name):
    rng, parameters = np.random.default_rng(0), spread(name, {}, 5)
    options = {"n_features": 3, "grow": True, "fit_intercept": True}
    together = Lanes(name, parameters, costs=costs_of(5), device="cuda", **options)
    models = alone(name, parameters, costs_of(5), **options)
    for width in (6, WIDTH, 2 * WIDTH):
        batch = stream(rng, 8, width)
        scores = together.learn(batch)
        for lane, model in enumerate(models):
            assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
    again = pickle.loads(pickle.dumps(together))
    kept = together.copy()
    kept.keep([4, 0, 2])
    batch = stream(rng, 8, WIDTH)
    before = together.scores(batch)
    for lanes, numbers in ((kept, (4, 0, 2)), (again, range(5)), (together, range(5))):
        assert lanes.nbytes > 0
        scores = lanes.learn(batch)
        for lane, number in enumerate(numbers):
            model = pickle.loads(pickle.dumps(models[number]))
            assert before[:, number].tobytes() == model.scores(batch).tobytes()
            assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
            assert lanes[lane].weights().tobytes() == model.weights().tobytes()


@pytest.mark.parametrize("lanes", [1, 32, 33, 70])
def test_any_number_of_lanes(lanes):
    batch, parameters = stream(np.random.default_rng(lanes), 4), spread("FSOL", {}, lanes)
    together = Lanes("fsol", parameters, n_features=WIDTH, device="cuda")
    scores = together.learn(batch)
    assert together.nbytes == Lanes.estimate_nbytes("fsol", parameters, WIDTH, device="cuda")
    for lane in {0, lanes // 2, lanes - 1}:
        model = Learner("fsol", n_features=WIDTH, **parameters[lane])
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert same_bits(together[lane].memory, model.memory)


def test_models_become_lanes_and_go_on():
    batch = stream(np.random.default_rng(1), 12)
    models = [Learner("sofs", n_features=WIDTH, B=B, fit_intercept=True) for B in (1, 3, 8)]
    for model in models:
        model.learn(batch)
    together = Lanes.of(models, device="cuda")
    scores = together.learn(batch)
    for lane, model in enumerate(models):
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert same_bits(together[lane].memory, model.memory)


def test_lanes_of_several_kinds():
    parameters = [{"diagonal": kind, "l1": l1} for l1 in (0.0, 0.1) for kind in ("drop", "exact")]
    together = Lanes("ssol", parameters, n_features=WIDTH, device="cuda", fit_intercept=[True, False, False, True])
    batch = stream(np.random.default_rng(1), 12)
    scores = together.learn(batch)
    for lane, own in enumerate(parameters):
        model = Learner("ssol", n_features=WIDTH, fit_intercept=lane in (0, 3), **own)
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()


@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered")
def test_a_lane_that_fails_says_where_and_the_others_go_on():
    values = np.array([1.0, 1.0, 1e12, 1.0], np.float32)
    batch = Batch.of(np.arange(5), np.zeros(4, np.int32), values, 1, np.array([1, -1, 1, -1], np.int8))
    parameters = [{"eta": 1.0}, {"eta": 1e30}]
    found = []
    for device in ("cpu", "cuda"):
        lanes = Lanes("fsol", parameters, n_features=1, device=device)
        scores = [lanes.learn(batch), lanes.learn(batch)]
        found.append((np.concatenate(scores).tobytes(), lanes.failed, lanes[0].weights().tobytes()))
    assert found[0] == found[1]
    assert found[0][1]


def test_empty_rows_and_no_rows():
    lanes = Lanes("arow", [{}, {"r": 2.0}], n_features=2, device="cuda")
    rows = Batch.of(np.array([0, 0, 1]), np.array([1]), np.array([2.0]), 2, np.array([1, -1], np.int8))
    assert lanes.learn(rows.until(0)).shape == (0, 2)
    scores = lanes.learn(rows)
    model = Learner("arow", n_features=2, r=2.0)
    model.learn(rows)
    assert scores.shape == (2, 2)
    assert same_bits(lanes[1].memory, model.memory)


@pytest.mark.parametrize(
    ("name", "own", "said"),
    [("smidas", {"p": 3.0}, "SMIDAS runs on"), ("arow", {"covariance": "full"}, "AROW with covariance='full' runs on")],
)
def test_what_stays_on_the_cpu(name, own, said):
    with pytest.warns(DeviceWarning, match=said):
        lanes = Lanes(name, [own, own], n_features=2, device="cuda")
    assert lanes.device == "cpu"


def test_unknown_devices_are_refused():
    with pytest.raises(InvalidParameterError, match="device must be 'cpu' or 'cuda', got 'tpu'"):
        Lanes("fsol", [{}], device="tpu")
