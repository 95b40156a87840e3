"""The intercept is a constant first column, bit for bit: of every algorithm, learned in chunks, in any precision."""

import numpy as np
import pytest

from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.rows import make_rows
from thinstream.errors import InvalidInputError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models.model import make_learner

WIDTH = 17
#: Parameters that would otherwise follow from the number of features, which a constant column changes.
FIXED = {"SMIDAS": {"p": 3.0}}


def chunk(seed, n=40, width=WIDTH, dtype="float32"):
    """Rows of 0 to 9 non-zeros, some absent."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 10, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.concatenate([np.sort(rng.choice(width, k, replace=False)) for k in counts]).astype(np.int32)
    y, weights = rng.choice(np.array([-1, 1], np.int8), n), rng.choice([0.0, 0.5, 1.0, 2.0], n)
    return Batch.of(indptr, indices, rng.normal(size=indptr[-1]).astype(dtype), width, y, weights)


def with_constant(batch):
    """The same rows with a first column of ones."""
    indptr = batch.indptr + np.arange(len(batch) + 1)
    indices = np.insert(batch.indices + np.int32(1), batch.indptr[:-1], 0)
    values = np.insert(batch.values, batch.indptr[:-1], 1)
    return Batch.of(indptr, indices, values, batch.n_features + 1, batch.y, batch.weights)


def unchecked(batch):
    return Batch.unchecked(batch.indptr, batch.indices, batch.values, batch.n_features).labelled(batch.y, batch.weights)


def pair(name, **options):
    """A model with an intercept, and one without that is a feature wider."""
    options = {"costs": Costs(1.0, 2.0), **FIXED.get(name, {}), **options}
    return (
        make_learner(name, n_features=WIDTH, fit_intercept=True, **options),
        make_learner(name, n_features=WIDTH + 1, **options),
    )


def same(model, explicit):
    assert [array.tobytes() for array in model.memory] == [array.tobytes() for array in explicit.memory]
    weights = explicit.weights()
    assert model.weights().tobytes() == weights[1:].tobytes()
    assert model.intercept == weights[0]
    assert model.nnz == np.count_nonzero(weights[1:])
    if model.has_variance:
        assert model.variance().tobytes() == explicit.variance()[1:].tobytes()


def follows(model, explicit):
    """Both learn the same chunks, of either precision, checked beforehand or not, wider ones among them."""
    for seed, width, dtype in ((1, WIDTH, "float32"), (2, WIDTH, "float64"), (3, 2 * WIDTH, model.dtype)):
        batch = chunk(seed, width=width, dtype=dtype)
        assert model.scores(batch).tobytes() == explicit.scores(with_constant(batch)).tobytes()
        assert model.learn(batch).tobytes() == explicit.learn(with_constant(batch)).tobytes()
        assert model.learn(unchecked(batch)).tobytes() == explicit.learn(with_constant(batch)).tobytes()
        same(model, explicit)
    frozen, explicit_frozen = Frozen.of(model), Frozen.of(explicit)
    assert frozen.scores(batch).tobytes() == explicit_frozen.scores(with_constant(batch)).tobytes()
    assert frozen.intercept == model.intercept


@pytest.mark.parametrize("name", [algorithm.name for algorithm in algorithms("online")])
def test_the_intercept_is_a_constant_first_column(name):
    follows(*pair(name, grow=True))


#: Each algorithm is compiled for this alone.
@pytest.mark.slow
@pytest.mark.parametrize("name", [algorithm.name for algorithm in algorithms("online")])
def test_in_double_precision_too(name):
    follows(*pair(name, dtype="float64", grow=True))


@pytest.mark.parametrize(
    "name", [a.name for a in algorithms("online") if any(p.name == "covariance" for p in a.parameters)]
)
def test_with_a_full_covariance(name):
    follows(*pair(name, dtype="float64", covariance="full", grow=True))


@pytest.mark.parametrize("name", ["FSOL", pytest.param("SSOL", marks=pytest.mark.slow)])
def test_in_lanes(name):
    """Full and narrow blocks, wide enough to be fetched ahead."""
    batch, width = chunk(5), 30_000
    wide = Batch.of(batch.indptr, batch.indices * np.int32(1000), batch.values, width, batch.y, batch.weights)
    parameters = [{"eta": 0.1 * k} for k in range(1, 71)]
    lanes = Lanes(name, parameters, n_features=width, fit_intercept=True)
    explicit = Lanes(name, parameters, n_features=width + 1)
    for _ in range(2):
        assert lanes.learn(wide).tobytes() == explicit.learn(with_constant(wide)).tobytes()
        assert lanes.scores(wide).tobytes() == explicit.scores(with_constant(wide)).tobytes()
    for lane in (0, 63, 69):
        same(lanes[lane], explicit[lane])


def test_a_state_larger_than_a_cache():
    """Coordinates are fetched ahead at the place they have behind the constant."""
    batch, width = chunk(6), 300_000
    wide = Batch.of(batch.indptr, batch.indices * np.int32(17_000), batch.values, width, batch.y)
    model = Learner("fsol", n_features=width, fit_intercept=True)
    explicit = Learner("fsol", n_features=width + 1)
    assert model.learn(wide).tobytes() == explicit.learn(with_constant(wide)).tobytes()
    same(model, explicit)


def test_rows_are_taken_as_they_are():
    """No copy is made for the constant."""
    batch, model = chunk(7), Learner("fsol", n_features=WIDTH, fit_intercept=True)
    rows = make_rows(batch, 0, len(batch), model.dtype, model.offset)
    assert np.shares_memory(rows.values, batch.values)
    assert np.shares_memory(rows.indices, batch.indices)


def test_rows_are_checked_while_they_are_learned():
    """As without an intercept: what stands before the bad row has been learned, and the error gives its place."""
    batch = chunk(8)
    values = batch.values.copy()
    values[batch.indptr[20]] = np.nan
    bad = Batch.unchecked(batch.indptr, batch.indices, values, WIDTH).labelled(batch.y, batch.weights)
    for fit_intercept in (False, True):
        model = Learner("fsol", n_features=WIDTH, fit_intercept=fit_intercept)
        with pytest.raises(InvalidInputError, match="NaN at row 20"):
            model.learn(bad)
        assert model.t == np.count_nonzero(batch.weights[:20])
