"""What may happen to lanes besides learning: dropped, copied, stored, grown, refused."""

import pickle

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Frozen, Learner

WIDTH = 30


def stream(seed, n=40, width=WIDTH):
    rng = np.random.default_rng(seed)
    indptr = np.arange(n + 1) * 4
    indices = np.concatenate([np.sort(rng.choice(width, 4, replace=False)) for _ in range(n)]).astype(np.int32)
    values = rng.normal(size=4 * n).astype(np.float32)
    return Batch.of(indptr, indices, values, width, rng.choice(np.array([-1, 1], np.int8), n))


def some(count, **options):
    """FSOL at several rates, half of them with an intercept, some of another schedule: several blocks."""
    parameters = [{"eta": 0.1 * (k + 1), "l1": 0.01, "l1_schedule": ("eta", "sqrt")[k % 3 == 0]} for k in range(count)]
    intercepts = [k % 2 == 0 for k in range(count)]
    return Lanes("fsol", parameters, n_features=WIDTH, fit_intercept=intercepts, **options)


def bits(lanes):
    return [[array.tobytes() for array in model.memory] for model in lanes]


@pytest.mark.parametrize("kept", [[0], [3, 1], [39, 0, 17, 20], list(range(40))])
def test_what_is_kept_goes_on_as_before(kept):
    lanes, all_of_them = some(40), some(40)
    assert lanes.learn(stream(1)).tobytes() == all_of_them.learn(stream(1)).tobytes()
    before = lanes.nbytes
    lanes.keep(kept)
    assert len(lanes) == len(kept)
    assert lanes.nbytes <= before
    expected = all_of_them.learn(stream(2))[:, kept]
    assert lanes.learn(stream(2)).tobytes() == np.ascontiguousarray(expected).tobytes()
    assert bits(lanes) == [bits(all_of_them)[k] for k in kept]


def test_memory_comes_back():
    lanes = Lanes("arow", [{}] * 100, n_features=1000)
    lanes.keep(range(16))
    assert lanes.nbytes == Lanes.estimate_nbytes("arow", [{}] * 16, 1000)


@pytest.mark.parametrize("name", ["fsol", "stg", "adafobos", "arow", "sofs"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 16, 50, 70])
def test_memory_is_as_estimated(name, dtype, count):
    intercepts = [k < 5 for k in range(count)]
    for options in ({}, {"threads": 3}, {"fit_intercept": intercepts}):
        estimated = Lanes.estimate_nbytes(name, [{}] * count, 21, dtype=dtype, **options)
        assert estimated == Lanes(name, [{}] * count, n_features=21, dtype=dtype, **options).nbytes


def test_copies_and_pickles_are_lanes_of_their_own():
    lanes = some(5)
    lanes.learn(stream(1))
    for other in (lanes.copy(), pickle.loads(pickle.dumps(lanes))):
        assert bits(other) == bits(lanes)
        before = bits(lanes)
        other.learn(stream(2))
        assert bits(lanes) == before
        again = Lanes.of(list(lanes), threads=2)
        again.learn(stream(2))
        assert bits(again) == bits(other)


def test_scoring_changes_nothing():
    lanes = some(5)
    lanes.learn(stream(1))
    before = bits(lanes)
    wide = stream(2, width=2 * WIDTH)  # features never seen count nothing
    assert np.array_equal(lanes.scores(wide), np.stack([model.scores(wide) for model in lanes], axis=1))
    assert bits(lanes) == before


def test_models_that_learned_become_lanes_and_models_again():
    models = [
        Learner("fsol", n_features=WIDTH, eta=eta, costs=Costs(1.0, eta), fit_intercept=True) for eta in (1.0, 2.0)
    ]
    for seed, model in enumerate(models):
        model.learn(stream(seed))
    for model, found in zip(models, Lanes.of(models), strict=True):
        assert [a.tobytes() for a in found.memory] == [a.tobytes() for a in model.memory]
        assert (found.parameters, found.costs, found.rule) == (model.parameters, model.costs, model.rule)


def test_a_lane_by_its_number():
    lanes = some(3)
    assert lanes[-1].parameters == lanes[2].parameters
    with pytest.raises(IndexError):
        lanes[3]


def test_what_lanes_refuse():
    with pytest.raises(InvalidParameterError, match="parameters of at least one model"):
        Lanes("fsol", [])
    with pytest.raises(UnknownNameError, match="unknown algorithm 'fsoll'"):
        Lanes("fsoll", [{}])
    with pytest.raises(InvalidParameterError, match="FSOL: eta must be a number > 0, got -1"):
        Lanes("fsol", [{}, {"eta": -1}])
    with pytest.raises(InvalidParameterError, match="one cost per lane is needed, got 1 for 2 lanes"):
        Lanes("fsol", [{}, {}], costs=[Costs()])
    with pytest.raises(InvalidParameterError, match="one fit_intercept per lane is needed, got 3 for 2 lanes"):
        Lanes("fsol", [{}, {}], fit_intercept=[True] * 3)
    with pytest.raises(InvalidParameterError, match="threads must be a whole number ≥ 1, got 0"):
        Lanes("fsol", [{}], threads=0)
    with pytest.raises(InvalidInputError, match=r"2 lanes of FSOL with 10\d* features need .* GB"):
        Lanes("fsol", [{}, {}], n_features=10**13)


def test_lanes_that_cannot_be_kept():
    for kept in ([], [0, 0], [3], [-1]):
        with pytest.raises(InvalidParameterError, match="keep takes different numbers of lanes from 0 to 2"):
            some(3).keep(kept)


def test_models_that_cannot_be_lanes():
    model = Learner("fsol", n_features=3)
    with pytest.raises(InvalidParameterError, match="at least one model"):
        Lanes.of([])
    with pytest.raises(InvalidParameterError, match="agree in algorithm: model 1 has 'AROW', model 0 has 'FSOL'"):
        Lanes.of([model, Learner("arow", n_features=3)])
    with pytest.raises(InvalidParameterError, match="agree in n_features: model 1 has 4, model 0 has 3"):
        Lanes.of([model, Learner("fsol", n_features=4)])
    with pytest.raises(InvalidParameterError, match="model 0 has only its weights"):
        Lanes.of([Frozen.of(model)])


def broken(kind):
    batch = stream(5)
    if kind == "infinite":
        values = batch.values.copy()
        values[9] = np.inf
        return Batch.unchecked(batch.indptr, batch.indices, values, WIDTH).labelled(batch.y), {}, "infinity at row 2"
    if kind == "large":
        values = batch.values.copy()
        values[9] = 1e20
        return Batch.of(batch.indptr, batch.indices, values, WIDTH, batch.y), {}, "float32 allows 1e\\+15"
    if kind == "index":
        indices = batch.indices.copy()
        indices[-1] = WIDTH
        return Batch.unchecked(batch.indptr, indices, batch.values, WIDTH).labelled(batch.y), {}, "from 0 to 29"
    if kind == "width":
        return stream(5, width=WIDTH + 1), {}, "X has 31 features, but the model has 30; grow=True would extend it"
    if kind == "unlabelled":
        return batch.labelled(None), {}, "needs labels"
    if kind == "labels":
        return batch, {"y": np.ones((40, 2), np.int8)}, r"labels must have shape \(40,\) or \(40, 5\), got \(40, 2\)"
    weights = np.ones((40, 5))
    weights[7, 3] = np.nan if kind == "nan" else -1.0
    return batch, {"weights": weights}, f"weights must be finite and ≥ 0, got {weights[7, 3]} in row 7"


@pytest.mark.parametrize("kind", ["infinite", "large", "index", "width", "unlabelled", "labels", "nan", "negative"])
def test_bad_input_changes_nothing(kind):
    lanes = some(5)
    lanes.learn(stream(1))
    before = bits(lanes)
    batch, more, message = broken(kind)
    with pytest.raises(InvalidInputError, match=message):
        lanes.learn(batch, **more)
    assert bits(lanes) == before


def test_untidy_rows_are_tidied():
    lanes, tidy = some(2), some(2)
    indices, values = np.array([3, 1, 3], np.int32), np.ones(3, np.float32)
    batch = Batch.unchecked(np.array([0, 3]), indices, values, WIDTH).labelled(np.array([1], np.int8))
    lanes.learn(batch)
    tidy.learn(Batch.of(np.array([0, 2]), np.array([1, 3], np.int32), np.array([1, 2], np.float32), WIDTH, batch.y))
    assert bits(lanes) == bits(tidy)


def test_growing_and_pieces(monkeypatch):
    monkeypatch.setattr("thinstream.lanes.learner.BLOCK", 50)  # rows are converted a few at a time
    parameters = [{"eta": 0.5}, {"eta": 1.0}]
    lanes = Lanes("fsol", parameters, n_features=2, grow=True, fit_intercept=[True, False])
    alone = [Learner("fsol", n_features=2, grow=True, fit_intercept=k == 0, **p) for k, p in enumerate(parameters)]
    for width in (10, 12, WIDTH):
        batch = stream(width, width=width)
        scores = lanes.learn(batch)
        for lane, model in enumerate(alone):
            assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
    assert lanes.n_features == WIDTH
    for found, model in zip(lanes, alone, strict=True):
        assert found.weights().tobytes() == model.weights().tobytes()
