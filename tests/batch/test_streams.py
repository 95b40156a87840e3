"""Batch estimators from streams: the same models as from a matrix, however the stream is read."""

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.batch.streams import state
from thinstream.errors import InvalidInputError
from thinstream.streams.tables.memory import from_memory

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
        with pytest.raises(InvalidInputError, match="the stream has no example"):
            ts.BCW(**parameters).fit_stream(ts.open_stream(tmp_path / "empty.svm"))
        with pytest.raises(InvalidInputError, match="need labels"):
            ts.BCW(**parameters).fit_stream(from_memory(X))
    named = ts.BCW().fit_stream(from_memory(X, np.where(y > 0, "b", "a"), classes=("a", "b")), classes=("a", "b"))
    assert named.classes_.tolist() == ["a", "b"]
