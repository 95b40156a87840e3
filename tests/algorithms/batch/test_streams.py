"""Batch estimators from streams: the same models as from a matrix, however the stream is read."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.algorithms.batch.streams import state
from thinstream.batch import Batch
from thinstream.data.in_memory import from_memory
from thinstream.errors import InvalidInputError

SMALL = {"SBCW": {"group_size": 2, "n_groups": 3}, "FGM": {"group_size": 2, "n_groups": 3}}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = sp.csr_matrix(rng.normal(size=(70, 30)) * (rng.random((70, 30)) < 0.2))
    return X, np.where(rng.random(70) < 0.4, 1, -1)


@pytest.fixture
def growing(data, tmp_path):
    """A file whose later rows have features the earlier ones lack."""
    X, y = data
    X = X.toarray()
    X[:35, 12:] = 0.0
    X[-1, -1] = 1.0
    lines = []
    for x, label in zip(X, y):
        lines.append(f"{label} " + " ".join(f"{j + 1}:{float(x[j])!r}" for j in np.flatnonzero(x)))
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    return X, y, tmp_path / "rows.svm"


@pytest.mark.parametrize("name", ["BCW", "SBCW", "FGM", "SparDCA"])
def test_a_stream_is_a_matrix(name, growing):
    X, y, path = growing
    one, other = (ts.make(name, dtype="float64", fit_intercept=True, **SMALL.get(name, {})) for _ in range(2))
    one.fit_stream(ts.open_stream(path, dtype="float64"))
    other.fit(sp.csr_matrix(X), y)
    assert state(one) == state(other)
    assert one.n_features_in_ == 30
    predicted = np.concatenate(list(one.predict_stream(ts.open_stream(path, dtype="float64"))))
    np.testing.assert_array_equal(predicted, other.predict(X))


@pytest.mark.parametrize("name", ["SCD", "GraDes"])
def test_a_stream_read_again_and_again_is_a_matrix(name, growing):
    """Up to rounding: a matrix is summed in one piece."""
    X, y, path = growing
    parameters = {"fit_intercept": True, **({"random_state": 4} if name == "SCD" else {"n_nonzero": 5})}
    one = ts.make(name, **parameters).fit_stream(ts.open_stream(path, dtype="float64"))
    other = ts.make(name, **parameters).fit(sp.csr_matrix(X), y)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.intercept_, other.intercept_, rtol=1e-9, atol=1e-12)
    assert (one.n_features_in_, one.t_, one.n_mistakes_) == (30, 70, other.n_mistakes_)
    assert one.n_mistakes_ == np.count_nonzero(other.predict(X) != y)
    assert one.cumulative_loss_ == pytest.approx(other.cumulative_loss_, rel=1e-9)
    predicted = np.concatenate(list(one.predict_stream(ts.open_stream(path, dtype="float64"))))
    np.testing.assert_array_equal(predicted, other.predict(X))
    with pytest.raises(InvalidInputError, match="need labels"):
        ts.make(name).fit_stream(from_memory(X))
    with pytest.raises(InvalidInputError, match="Only binary classification is supported here, got 3 classes"):
        ts.make(name).fit_stream(from_memory(sp.csr_matrix(X), np.arange(70) % 3, classes=(0, 1, 2)))


def test_passes_over_a_stream_do_not_hold_it():
    """GraDes on rows of 12 MB, made anew for each pass, in less than half of that."""
    rng = np.random.default_rng(0)
    rows = sp.random(2000, 500, density=0.1, format="csr", rng=rng)
    whole = Batch.of(
        rows.indptr, rows.indices, rows.data, 500, y=np.where(rng.random(2000) < 0.5, 1, -1).astype(np.int8)
    )

    class Source:
        classes = names = skipped = None
        feature_space, dtype, size, unit = {}, "float64", None, "rows"

        def batches(self):
            for _ in range(10):
                yield replace(whole, indices=whole.indices.copy(), values=whole.values.copy())

    tracemalloc.start()
    try:
        ts.GraDes(gamma=1e4, n_iter=2).fit_stream(Source())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size = 10 * (whole.values.nbytes + whole.indices.nbytes)
    assert peak < 0.5 * size


@pytest.mark.parametrize("name", ["BCW", "SBCW"])
@pytest.mark.parametrize("size", [10, 33, 1000])
def test_batches_of_a_stream_grow_with_it(name, size, growing):
    """In batches as from a matrix of the full width, up to rounding; the same bits however it is cut."""
    X, y, path = growing
    parameters = {"dtype": "float64", "batch_size": size, **SMALL.get(name, {})}
    one = ts.make(name, **parameters).fit_stream(ts.open_stream(path, dtype="float64"))
    other = ts.make(name, **parameters).fit(X, y)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.variance_, other.variance_, rtol=1e-9)
    assert (one.t_, one.n_mistakes_, one.n_waiting_) == (other.t_, other.n_mistakes_, 0)
    for rows in (1, 7, 70):
        cut = from_memory(sp.csr_matrix(X), y, dtype="float64", rows_per_batch=rows)
        assert state(ts.make(name, **parameters).fit_stream(cut)) == state(one)
    one.partial_fit(X[:5], y[:5])


def test_streams_without_rows_or_labels(data, tmp_path):
    X, y = data
    (tmp_path / "empty.svm").write_text("")
    for parameters in ({}, {"batch_size": 5}):
        with pytest.raises(InvalidInputError, match="the stream has no rows"):
            ts.BCW(**parameters).fit_stream(ts.open_stream(tmp_path / "empty.svm"))
        with pytest.raises(InvalidInputError, match="need labels"):
            ts.BCW(**parameters).fit_stream(from_memory(X))
    named = ts.BCW().fit_stream(from_memory(X, np.where(y > 0, "b", "a"), classes=("a", "b")), classes=("a", "b"))
    assert named.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("name", ["BCW", "SBCW"])
def test_batches_go_on_with_a_stream(name, data):
    """The first part as a stream, the rest as another: as two calls with a flush between; the others have none."""
    X, y = data
    parameters = {"batch_size": 20, **SMALL.get(name, {})}
    parts = [(sp.csr_matrix(X[rows]), y[rows]) for rows in (slice(0, 50), slice(50, None))]
    streamed, called = ts.make(name, **parameters), ts.make(name, **parameters)
    for rows, labels in parts:
        streamed.partial_fit_stream(from_memory(rows, labels, classes=(-1, 1)))
        called.partial_fit(rows, labels, classes=[-1, 1]).flush()
    assert state(streamed) == state(called)
    assert not hasattr(ts.GraDes(), "partial_fit_stream")
