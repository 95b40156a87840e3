"""``max_features`` of estimators: on matrices, dicts and streams; saved, cloned, refused where it cannot be."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import thinstream as ts
from thinstream.data import Hashing, Numbering, from_memory
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.models import pipeline


def words(rows=300, seed=0):
    """Dicts with a word that tells the class among rare ones."""
    random = np.random.default_rng(seed)
    found = []
    for k in range(rows):
        told = f"w{random.integers(5)}" if k % 2 else f"v{random.integers(5)}"
        found.append(({told: 1.0} | {f"r{random.integers(5000)}": 1.0 for _ in range(3)}, k % 2))
    return found


def fitted(**more):
    stream = from_memory(words(), hasher=Numbering(Hashing(bits=31)))
    return ts.AROW(max_features=20, **more).fit_stream(stream)


def test_dicts_of_endless_names(tmp_path, monkeypatch):
    model = fitted()
    rows = [{"w1": 1.0, "never": 1.0}, {"v1": 1.0}]
    assert (model.decision_function(rows) > 0).tolist() == [True, False]
    assert 10 <= model.nnz_ <= 20
    monkeypatch.setattr(pipeline, "physical_memory", lambda: 10**9)
    with pytest.raises(
        InvalidInputError, match=r"features need 8.6 GB of memory, but this machine has 1.0 GB. Use sparse weights"
    ):
        model.coef_  # noqa: B018 (it raises)
    assert model.sparsify().coef_.nnz == model.nnz_
    model.save(tmp_path / "m")
    again = ts.load(tmp_path / "m")
    assert (again.max_features, again.admit) == (20, 2)
    assert np.array_equal(again.decision_function(rows), model.decision_function(rows))
    assert clone(again).get_params() == ts.AROW(max_features=20).get_params()


def test_columns_of_a_matrix_have_a_budget_too():
    random = np.random.default_rng(0)
    X = sp.random_array((200, 10_000), density=0.001, format="csr", rng=random)
    y = random.integers(0, 2, 200)
    model = ts.AROW(max_features=50, admit=1).fit(X, y)
    assert model.nnz_ <= 50
    assert model.coef_.shape == (1, 10_000)
    parts = ts.AROW(max_features=50, admit=1).partial_fit(X[:70], y[:70], [0, 1]).partial_fit(X[70:], y[70:])
    assert np.array_equal(parts.coef_, model.coef_)


def test_what_cannot_be_is_said():
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(InvalidParameterError, match="SOFS: max_features needs an algorithm that learns online"):
        ts.SOFS(max_features=2).fit(X, y)
    with pytest.raises(InvalidParameterError, match="admit must be an integer from 1 to 255, got 0"):
        ts.AROW(max_features=2, admit=0).fit(X, y)
    with pytest.raises(InvalidParameterError, match="max_features must be None, because studies compare"):
        ts.OnlineGridSearchCV(ts.AROW(max_features=2), {"r": [1.0, 2.0]}).fit(X, y)
    model = ts.AROW(max_features=2).fit(X, y).set_params(max_features=3)
    with pytest.raises(InvalidParameterError, match="max_features was changed from 2 to 3 after learning began"):
        model.partial_fit(X, y)
