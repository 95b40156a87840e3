"""Learners without scikit-learn: batches, counters, growth, threads."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.datasets import sparse_gaussian, zipf_text
from thinstream.engine.loop import T
from thinstream.lanes.learner import Learner


def batch_of(X, y=None, **more):
    X = sp.csr_matrix(X)
    return Batch.of(X.indptr, X.indices, X.data, X.shape[1], y=None if y is None else np.asarray(y, np.int8), **more)


@pytest.fixture(scope="module")
def stream():
    X, y = zipf_text(300, 500, words=12)
    return batch_of(X, y)


@pytest.mark.parametrize("name", ["fsol", "adafobos", "stg"])
def test_counters_and_clocks_have_64_bits_in_a_float32_model(name):
    """A float32 count would stand still at 2^24; rounds are still told apart at 2^40."""
    model = Learner(name, n_features=2, l1=1e-9)
    model.memory.counts[T] = 2**40
    for _ in range(3):
        model.learn(batch_of([[1.0, 0.5]], [1]))
    assert model.t == 2**40 + 3
    assert model.memory.counts.dtype == np.int64
    assert model.memory.totals.dtype == np.float64
    if name == "adafobos":
        assert model.memory.clocks.max() >= 2**40


def test_growing_one_feature_at_a_time_is_amortised():
    """Memory is extended by half at a time: 2000 new features cost a few copies, not 2000."""
    model, addresses = Learner("arow", n_features=1, grow=True), set()
    for j in range(2_000):
        model.learn(Batch.of(np.array([0, 1]), np.int32([j]), np.array([1.0]), j + 1, y=np.array([1], np.int8)))
        addresses.add(model.memory.state.size)
    assert model.n_features == 2_000
    assert len(addresses) < 25


def test_a_wider_batch_is_scored_by_the_features_known(stream):
    """Unknown features weigh nothing."""
    model = Learner("fsol", n_features=stream.n_features, grow=True)
    model.learn(stream)
    X = np.zeros((1, stream.n_features + 5))
    X[0, 3], X[0, -1] = 1.0, 7.0
    assert model.scores(batch_of(X)) == model.weights()[3]


def test_scoring_while_learning(stream):
    """Scores taken in another thread neither disturb the model nor its counters."""
    alone, watched = (Learner("ssol", n_features=stream.n_features) for _ in range(2))
    rows = [stream.take(np.arange(i, i + 10)) for i in range(0, 300, 10)]
    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(lambda: [watched.scores(stream) for _ in range(100)])
        for row in rows:
            watched.learn(row)
        watching.result()
    for row in rows:
        alone.learn(row)
    for a, b in zip(alone.memory, watched.memory, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", [algorithm.name for algorithm in algorithms("online")])
def test_weights_are_what_scores_are_made_of(name, stream):
    """w·x with the weights read out is the score; sparse and dense weights agree."""
    model = Learner(name, n_features=stream.n_features, dtype="float64")
    model.learn(stream)
    X = sp.csr_matrix((stream.values, stream.indices, stream.indptr), shape=(len(stream), stream.n_features))
    np.testing.assert_allclose(model.scores(stream), X @ model.weights(), rtol=1e-6, atol=1e-9)
    where, weights = model.sparse_weights()
    np.testing.assert_array_equal(model.weights()[where], weights)
    assert model.nnz == len(where) == np.count_nonzero(model.weights())


def test_counters_tell_the_two_kinds_of_mistakes_apart(stream):
    """False negatives and positives, against the scores returned."""
    model = Learner("perceptron", n_features=stream.n_features)
    called = model.learn(stream) > 0
    assert model.false_negatives == np.sum(~called & (stream.y > 0))
    assert model.false_positives == np.sum(called & (stream.y < 0))
    assert model.n_positives == np.sum(stream.y > 0)
    assert model.n_updates == model.n_mistakes


def test_take_and_narrowed():
    """Rows in any order; columns cut off."""
    X = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0], [0.0, 3.0, 4.0]])
    batch = batch_of(X, [1, -1, 1], weights=np.array([1.0, 2.0, 3.0]))
    taken = batch.take(np.array([2, 1, 0, 2]))
    dense = sp.csr_matrix((taken.values, taken.indices, taken.indptr), shape=(4, 3)).toarray()
    np.testing.assert_array_equal(dense, X[[2, 1, 0, 2]])
    assert taken.y.tolist() == [1, -1, 1, 1]
    assert taken.weights.tolist() == [3.0, 2.0, 1.0, 3.0]
    narrow = batch.narrowed(2)
    dense = sp.csr_matrix((narrow.values, narrow.indices, narrow.indptr), shape=(3, 2)).toarray()
    np.testing.assert_array_equal(dense, X[:, :2])


def test_classes_of_any_kind():
    """Strings, booleans and numbers; the larger is positive."""
    assert Classes.of([True, False]) == (False, True)
    assert Classes.of([3, -7, 3]) == (-7, 3)
    assert Classes.of(["b", "a"]).coded(["a", "b", "b"]).tolist() == [-1, 1, 1]


def test_the_synthetic_stream_is_that_of_the_paper():
    """P0 §5.2: 100 informative dimensions, 200 of 900 noisy ones per row, labels by the mean vector; seeded."""
    train, test = sparse_gaussian(400, 100, seed=3)
    again, _ = sparse_gaussian(400, 100, seed=3)
    assert (train.X != again.X).nnz == 0
    assert train.X.shape == (400, 1000)
    assert test.X.shape == (100, 1000)
    assert set(train.X.getnnz(axis=1)) == {300}
    noise = train.X[:, 100:]
    assert set(noise.getnnz(axis=1)) == {200}
    assert noise.data.std() == pytest.approx(10.0, rel=0.02)
    mean = train.X[:, :100].toarray().mean(axis=0)
    assert np.abs(mean).max() < 3.0
    with pytest.raises(ValueError, match="n_noise from 0 to n_features - n_informative = 900"):
        sparse_gaussian(10, 10, n_noise=901)


def test_the_version_rises_when_rows_are_learned(stream):
    """Reading and scoring leave it as it is: what was read holds until the next update."""
    model = Learner("fsol", n_features=stream.n_features)
    model.learn(stream)
    before = model.version
    model.scores(stream)
    model.weights()
    assert model.version == before
    model.learn(stream)
    assert model.version > before
