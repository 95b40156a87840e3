"""Every algorithm's learner answers to one protocol, online and batch alike."""

import numpy as np
import pytest

from thinstream.algorithms import registry
from thinstream.algorithms.registry import algorithms, find
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.engine.protocol import OneModel
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MergeError,
    UnknownNameError,
    WeightsOnlyError,
)
from thinstream.lanes.learner import Learner
from thinstream.models.merging import merge
from thinstream.models.model import make_learner, outputs_for

NAMES = [algorithm.name for algorithm in algorithms()]
BATCH = [algorithm.name for algorithm in algorithms("batch")]
SMALL = {"SBCW": {"group_size": 2, "n_groups": 2}, "FGM": {"group_size": 2, "n_groups": 2}}


def rows(n=40, d=5, seed=0, labelled=True):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int8) if labelled else None
    return Batch.of(np.arange(0, n * d + 1, d), np.tile(np.arange(d), n), rng.normal(size=n * d), d, y=y)


def cut(batch, *edges):
    return [batch.until(b).after(a) for a, b in zip([0, *edges], [*edges, len(batch)], strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_every_learner_answers_to_it(name):
    model = make_learner(name, n_features=5, costs=Learner("fsol", n_features=1).costs, dtype="float64")
    assert isinstance(model, OneModel)
    assert model.reads == {"GraDes": "again", "SCD": "again"}.get(name, "held" if name in BATCH else "once")
    assert list(model.models) == [model]
    assert (model.algorithm, model.n_weights, model.t, model.nnz, model.n_positives) == (find(name), 5, 0, 0, 0)
    assert (model.weights_only, model.grow, model.offset, model.dtype) == (False, False, 0, np.float64)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", BATCH)
def test_batch_learners_learn_when_the_stream_is_over(name, intercept):
    """The rows held until then are one matrix, however the stream was cut; narrower batches lack the last features."""
    whole, more = rows(), {"dtype": "float64", "fit_intercept": intercept, **SMALL.get(name, {})}
    one, other = (make_learner(name, n_features=5, **more) for _ in range(2))
    growing = make_learner(name, n_features=0, grow=True, **more)
    for model in (one, other, growing):
        model.random = np.random.RandomState(0)
    for piece in cut(whole, 7, 8, 33):
        np.testing.assert_array_equal(one.learn(piece), np.zeros(len(piece)))
        assert growing.learn(piece, scores=False).size == 0
    assert (one.t, one.version) == (0, 0)
    for model in (one, growing):
        model.finish()
        model.finish()  # nothing waits: nothing happens
    other.learn(whole)
    other.finish()
    for model in (one, growing):
        assert {k: v.tobytes() for k, v in model.arrays().items()} == {
            k: v.tobytes() for k, v in other.arrays().items()
        }
    assert one.version > 0
    assert one.t % len(whole) == 0
    assert one.n_positives * len(whole) == one.t * np.count_nonzero(whole.y > 0)
    where, values = one.sparse_weights()
    np.testing.assert_array_equal(one.weights()[where], values)
    assert len(where) == one.nnz
    expected = whole.values.reshape(-1, 5) @ one.weights() + one.intercept
    np.testing.assert_allclose(one.scores(whole), expected, rtol=1e-9, atol=1e-12)
    narrow = rows(d=3, labelled=False)
    expected = narrow.values.reshape(-1, 3) @ one.weights()[:3] + one.intercept
    np.testing.assert_allclose(one.scores(narrow), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["BCW", "SBCW"])
def test_with_a_batch_size_they_read_once(name):
    """The scores are those before each row's update, of rows that wait those of the weights as they are."""
    whole = rows()
    one, other = (make_learner(name, n_features=5, batch_size=10, **SMALL.get(name, {})) for _ in range(2))
    assert one.reads == "once"
    before = np.concatenate([other.learn(piece) for piece in cut(whole, 10, 20, 30)])
    first, rest = cut(whole, 25)
    found = one.learn(first)
    np.testing.assert_array_equal(found[:20], before[:20])
    np.testing.assert_array_equal(found[20:], one.scores(first)[20:])
    assert (one.t, one.n_waiting) == (20, 5)
    one.learn(rest, scores=False)
    assert one.arrays().keys() == other.arrays().keys()
    assert all(np.array_equal(one.arrays()[key], other.arrays()[key]) for key in one.arrays())
    assert one.has_variance
    one.restore_weights(one.arrays(weights_only=True))
    assert (one.weights_only, one.has_variance) == (True, False)
    with pytest.raises(WeightsOnlyError):
        one.learn(whole)


@pytest.mark.parametrize("name", BATCH)
def test_what_batch_learners_refuse(name):
    model = make_learner(name, n_features=5, **SMALL.get(name, {}))
    with pytest.raises(InvalidInputError, match="need labels"):
        model.learn(rows(labelled=False))
    with pytest.raises(InvalidInputError, match="X has 6 features, but the model has 5"):
        model.learn(rows(d=6))
    with pytest.raises(InvalidInputError, match="knows two classes, -1 and \\+1 in int8"):
        model.learn(rows().labelled(np.zeros(40, np.int32)))
    large = Batch.of(np.array([0, 1]), np.array([0]), np.array([1e20]), 5, y=np.array([1], np.int8))
    with pytest.raises(InvalidInputError, match="sums of squares would overflow"):
        model.learn(large)
    with pytest.raises(InvalidInputError, match="Only binary classification is supported here, got 3 classes"):
        outputs_for(name, Classes("a", "b", "c"), None, n_features=5)
    with pytest.raises(InvalidParameterError, match=f"{name} has no parameter 'eta'; it has"):
        make_learner(name, n_features=5, eta=0.5)
    with pytest.raises(InvalidParameterError, match=f"{name}: use make_learner to create its learner"):
        Learner(name, n_features=5)


@pytest.mark.parametrize("name", BATCH)
def test_merging(name):
    """One that has seen nothing changes nothing; only BCW makes one model out of two."""
    one, other, none = (make_learner(name, n_features=5, dtype="float64", **SMALL.get(name, {})) for _ in range(3))
    for model, seed in ((one, 1), (other, 2)):
        model.learn(rows(seed=seed))
        model.finish()
    alone = merge([none, one])
    assert alone is not one
    np.testing.assert_array_equal(alone.weights(), one.weights())
    if name == "BCW":
        both = merge([one, other])
        assert (both.t, both.n_updates) == (80, one.n_updates + other.n_updates)
        np.testing.assert_array_equal(both.weights(), merge([other, one]).weights())
    else:
        with pytest.raises(MergeError, match=f"{name} cannot be merged: "):
            merge([one, other])
    none.learn(rows())
    with pytest.raises(MergeError, match=f"{name}: 40 rows wait to be learned"):
        merge([one, none])
    other.restore_weights(other.arrays(weights_only=True))
    with pytest.raises(WeightsOnlyError, match=f"this {name} has only its weights"):
        merge([one, other])
    with pytest.raises(MergeError, match=f"{name}: models to merge must agree in n_features, got 5 and 4"):
        merge([one, make_learner(name, n_features=4, dtype="float64", **SMALL.get(name, {}))])


def test_one_registry():
    assert {a.kind for a in algorithms()} == {"online", "batch"}
    assert not {a.name for a in algorithms("online")} & set(BATCH)
    assert all(find(name.upper()).name == name for name in NAMES)
    for module in ("base", "rows", "repeating", "nobody", "a.b"):
        with pytest.raises(UnknownNameError, match="unknown algorithm"):
            find(module)
    with pytest.raises(UnknownNameError, match="did you mean 'SparDCA'"):
        find("spardcaa")
    with pytest.raises(InvalidParameterError, match=r"algorithms: kind must be .*'all'.*, got 'some'"):
        registry.algorithms("some")
