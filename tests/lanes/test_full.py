"""Learners with a full covariance: the matrix itself, growing, saving, merging, room."""

import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import assert_same_bits
from thinstream.batch import Batch
from thinstream.engine.covariance import Matrix, Point
from thinstream.errors import InvalidInputError, InvalidParameterError, MergeError
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner
from thinstream.models.model import make_learner

NAMES = ["SSOL", "CW", "AROW", "NAROW", "SCW", "SOP", "ARCSOGD"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 8)) * (rng.random((90, 8)) < 0.5)
    return X, np.where(X @ rng.normal(size=8) + 0.3 * rng.normal(size=90) > 0, "spam", "ham")


@given(d=st.integers(1, 80), seed=st.integers(0, 999), few=st.booleans())
def test_the_packed_matrix_is_the_dense_one(d, seed, few):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    dense = root @ root.T
    matrix = Matrix.of(dense)
    nnz = 1 if few else rng.integers(1, d + 1)
    x = Point(np.sort(rng.choice(d, nnz, replace=False)), rng.normal(size=nnz))
    full = np.zeros(d)
    full[x.indices] = x.values
    z = matrix.times(x)
    np.testing.assert_allclose(z, dense @ full, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(matrix.at(x.indices, full), (dense @ full)[x.indices], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(matrix.dense(), dense)
    matrix.shrink(z, 0.5, x.dot(z))
    expected = np.linalg.inv(np.linalg.inv(dense + 1e-9 * np.eye(d)) + 0.5 * np.outer(full, full))
    np.testing.assert_allclose(matrix.dense(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_saved_pickled_and_resumed_it_goes_on_with_the_same_bits(name, dtype, data, tmp_path):
    X, y = data
    options = {"covariance": "full", "dtype": dtype, "fit_intercept": True, "class_weight": "balanced"}
    model = ts.make(name, **options).fit(X[:60], y[:60])
    assert model._model.learner.outputs.one.sigma.packed.dtype == dtype
    model.save(tmp_path / "m")
    found, copied = ts.load(tmp_path / "m"), pickle.loads(pickle.dumps(model))
    for each in (model, found, copied):
        each.partial_fit(X[60:], y[60:])
        assert_same_bits(each, model)
    model.save(tmp_path / "w", weights_only=True)
    np.testing.assert_array_equal(ts.load(tmp_path / "w").decision_function(X), model.decision_function(X))
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("name", NAMES)
def test_growing_is_having_been_wide_from_the_start(name, data):
    X, y = data
    narrow = X.copy()
    narrow[:40, 5:] = 0
    wide = ts.make(name, covariance="full", dtype="float64", fit_intercept=False).fit(narrow, y)
    grown = ts.make(name, covariance="full", dtype="float64", grow=True, fit_intercept=False)
    grown.partial_fit(narrow[:40, :5], y[:40], classes=["ham", "spam"]).partial_fit(narrow[40:], y[40:])
    np.testing.assert_allclose(grown.coef_, wide.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(grown.variance_, wide.variance_, rtol=1e-9)


def fitted(name, X, y, **more):
    return ts.make(name, covariance="full", dtype="float64", **{"fit_intercept": False, **more}).partial_fit(
        X, y, classes=["ham", "spam"]
    )


@pytest.mark.parametrize("name", NAMES)
def test_merging_adds_precisions_and_does_not_ask_for_the_order(name, data):
    X, y = data
    one, two, three = (fitted(name, X[a:b], y[a:b]) for a, b in ((0, 30), (30, 55), (55, 90)))
    both = one.merge(two, three)
    assert both.t_ == 90
    assert_same_bits(both, three.merge(one, two))
    P = sum(np.linalg.inv(m._model.learner.outputs.one.sigma.dense()) for m in (one, two, three)) - 2 * np.eye(8)
    np.testing.assert_allclose(np.linalg.inv(both._model.learner.outputs.one.sigma.dense()), P, rtol=1e-6, atol=1e-9)
    empty = ts.make(name, covariance="full", dtype="float64", fit_intercept=False).partial_fit(
        X[:1], y[:1], classes=["ham", "spam"], sample_weight=[0.0]
    )
    assert_same_bits(one.merge(empty), one)


def test_merged_parts_that_every_example_entered_are_the_one_run(data):
    """SSOL's A takes every example, and with η this small every example updates θ: nothing depends on the order."""
    X, y = data
    whole = fitted("SSOL", X, y, eta=1e-9)
    merged = fitted("SSOL", X[:40], y[:40], eta=1e-9).merge(fitted("SSOL", X[40:], y[40:], eta=1e-9))
    np.testing.assert_allclose(merged.coef_, whole.coef_, rtol=1e-6)
    np.testing.assert_allclose(merged.variance_, whole.variance_, rtol=1e-9)


def test_a_merge_with_the_diagonal_kind_is_refused(data):
    X, y = data
    with pytest.raises(MergeError, match="must agree in covariance, got 'full' and 'diagonal'"):
        fitted("AROW", X, y).merge(ts.AROW(dtype="float64", fit_intercept=False).fit(X, y))


def test_too_many_features_are_refused_with_the_memory_needed():
    X = sp.csr_matrix((np.ones(2), ([0, 1], [0, 1_999_999])))
    with pytest.raises(InvalidInputError, match=r"covariance='full' on 2,000,000 features needs 8,000.0 GB"):
        ts.AROW(covariance="full", fit_intercept=False).fit(X, [0, 1])


def test_a_plain_learner_says_who_makes_full_ones():
    with pytest.raises(InvalidParameterError, match="make_learner"):
        Learner("arow", n_features=2, covariance="full")


def test_sparse_rows_of_a_wide_model_take_the_short_way_to_the_same_result():
    rng = np.random.default_rng(3)
    X = sp.random_array((60, 200), density=0.01, format="csr", rng=rng)
    y = rng.integers(0, 2, 60)
    for name in ("SOP", "SSOL"):
        sparse = ts.make(name, covariance="full", dtype="float64", fit_intercept=False).fit(X, y)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("thinstream.engine.covariance.FEW", 0.0)
            dense = ts.make(name, covariance="full", dtype="float64", fit_intercept=False).fit(X, y)
        np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9, atol=1e-12)


def test_lanes_with_a_full_covariance_run_one_by_one_behind_the_same_face(data):
    X, y = data
    X = sp.csr_matrix(X)
    rows = Batch.of(X.indptr, X.indices, X.data, 8, np.where(y == "spam", 1, -1).astype(np.int8))
    each = [{"covariance": "full", "r": r} for r in (0.1, 1.0)] + [{"covariance": "diagonal"}]
    lanes = Lanes("arow", each, grow=True, dtype="float64", fit_intercept=[True, False, False])
    scores = lanes.learn(rows)
    assert lanes.nbytes == Lanes.estimate_nbytes("arow", each, 8, dtype="float64", fit_intercept=[True, False, False])
    for k, (parameters, intercept) in enumerate(zip(each, (True, False, False), strict=True)):
        alone = make_learner("arow", n_features=8, dtype="float64", fit_intercept=intercept, **parameters)
        np.testing.assert_array_equal(scores[:, k], alone.learn(rows))
        for a, b in zip(lanes[k].memory, alone.memory, strict=True):
            np.testing.assert_array_equal(a, b)
    kept = lanes.scores(rows)[:, [1]]
    lanes.keep([1])
    np.testing.assert_array_equal(lanes.scores(rows), kept)


@pytest.mark.parametrize("name", ["AROW", pytest.param("CW", marks=pytest.mark.slow), "SCW"])
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_the_compiled_loop_is_the_interpreted_one(name, dtype, monkeypatch):
    """That of wide models, in Python and BLAS, of rows of any length, weights and intercept included."""
    rng = np.random.default_rng(4)
    X = sp.random_array((300, 40), density=0.3, format="csr", rng=rng, dtype=np.float64)
    y = np.where(X @ rng.normal(size=40) + 0.3 * rng.normal(size=300) > 0, 1, -1)
    options = {"covariance": "full", "dtype": dtype, "class_weight": {-1: 1.0, 1: 3.0}}
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], 300)
    found = ts.make(name, **options).fit(X, y, sample_weight=weights)
    monkeypatch.setattr("thinstream.lanes.full.LARGE", 0)
    slow = ts.make(name, **options).fit(X, y, sample_weight=weights)
    close = {"rtol": 1e-9, "atol": 1e-11} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(found.coef_, slow.coef_, **close)
    np.testing.assert_allclose(
        found._model.learner.outputs.one.sigma.dense(), slow._model.learner.outputs.one.sigma.dense(), **close
    )
    assert (found.t_, found.n_updates_, found.n_mistakes_) == (slow.t_, slow.n_updates_, slow.n_mistakes_)
    np.testing.assert_allclose(found.cumulative_loss_, slow.cumulative_loss_, rtol=1e-5)


@given(seed=st.integers(0, 999), cuts=st.lists(st.integers(1, 59), max_size=4))
def test_neither_chunks_nor_room_for_more_features_change_a_bit(seed, cuts):
    rng = np.random.default_rng(seed)
    X = sp.random_array((60, 30), density=rng.uniform(0.05, 0.9), format="csr", rng=rng, dtype=np.float32)
    y = rng.choice([-1, 1], 60).astype(np.int8)
    options = {"covariance": "full", "grow": True, "fit_intercept": True}

    def learned(width, edges):
        model = make_learner("arow", n_features=0, **options)
        for a, b in pairwise([0, *sorted(set(edges)), 60]):
            part = X[a:b]
            seen = max(int(part.indices.max(initial=-1)) + 1, width)  # the last piece may be the first to be so wide
            model.learn(Batch.of(part.indptr, part.indices, part.data, seen, y[a:b]))
        model._widen(50)
        return [array[:102].tobytes() if k == 0 else array.tobytes() for k, array in enumerate(model.memory)]

    assert learned(30, []) == learned(50, cuts) == learned(0, cuts)


_FRESH = """
import numpy as np
from thinstream.batch import Batch
from thinstream.engine.covariance import _controller
from thinstream.lanes.full import FullLearner
rows = Batch.of(np.array([0, 1]), np.array([0]), np.ones(1), 1, y=np.array([1], np.int8))
FullLearner("ssol", n_features=1, covariance="full").learn(rows)
limited = {library["filepath"] for library in _controller().info()}
from threadpoolctl import threadpool_info
print(limited >= {library["filepath"] for library in threadpool_info() if library["user_api"] == "blas"})
"""


def test_threads_of_the_blas_that_does_the_work_are_limited():
    """Where nothing has loaded it before: a library that is loaded later would wake all its threads for every row."""
    said = subprocess.run([sys.executable, "-c", _FRESH], capture_output=True, text=True, check=True).stdout
    assert said == "True\n"
