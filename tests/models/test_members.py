"""The grid of Auto's members and a model's outputs, against an Auto of its own for each output."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.models.test_blend import FEATURES, bits, rows
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.errors import InvalidInputError
from thinstream.models import blend as blending
from thinstream.models import members as grids
from thinstream.models.blend import Blend
from thinstream.models.container import get
from thinstream.models.file import read, write
from thinstream.models.members import Grid
from thinstream.models.model import Model
from thinstream.models.outputs import Outputs

#: Two views, and a group of two members in each. FSOL with a tiny step is worth nothing.
MEMBERS = [
    Member("fsol", {"eta": 0.5}),
    Member("fsol", {"eta": 1e-9}),
    Member("arow", {"r": 1.0}, "rms", "l2"),
    Member("arow", {"r": 9.0}, "rms", "l2"),
]
OPTIONS = {"n_features": FEATURES, "dtype": "float64", "fit_intercept": True}


def batch_of(seed, n, classes=3):
    batch = rows(seed, n, weighted=True)
    y = np.random.default_rng(seed).integers(0, classes, n).astype(np.int32)
    y[np.asarray(batch.y) > 0] = 0
    return batch.labelled(y, batch.weights)


def of_class(batch, k):
    return batch.labelled(np.where(batch.y == k, 1, -1).astype(np.int8), batch.weights)


@pytest.fixture(params=[3, 0], ids=["loops", "lanes"])
def _few(request, monkeypatch):
    monkeypatch.setattr(grids, "FEW", request.param)
    monkeypatch.setattr(blending, "FIRST_DROP", 64)
    monkeypatch.setattr(blending, "WORTH", 0.1)


@pytest.mark.usefixtures("_few")
def test_each_output_is_an_auto_of_its_own():
    outputs = Outputs([Blend(MEMBERS, **OPTIONS) for _ in range(3)])
    alone = [Blend(MEMBERS, **OPTIONS) for _ in range(3)]
    for seed, n in ((1, 40), (2, 200), (3, 1), (4, 90)):
        batch = batch_of(seed, n)
        expected = np.column_stack([one.learn(of_class(batch, k)) for k, one in enumerate(alone)])
        assert outputs.learn(batch).tobytes() == expected.tobytes()
    assert any(len(one.members) < len(MEMBERS) for one in alone)
    new = rows(5, 30)
    for copied in (outputs, pickle.loads(pickle.dumps(outputs)), copy.deepcopy(outputs)):
        assert [bits(one) for one in copied] == [bits(one) for one in alone]
        assert copied.scores(new).tobytes() == np.column_stack([one.scores(new) for one in alone]).tobytes()
        grid = Grid.of(copied.all)
        assert grid.n_outputs == 3
        assert all(one.grid is grid for one in copied)


@pytest.mark.usefixtures("_few")
def test_outputs_come_and_go():
    outputs, alone = Outputs([], spares=[Blend(MEMBERS, **OPTIONS)]), Blend(MEMBERS, **OPTIONS)
    outputs.learn(batch_of(1, 100, classes=1))
    alone.learn(of_class(batch_of(1, 100, classes=1), 0))
    before = [bits(one) for one in outputs.all]
    rows = batch_of(2, 50, classes=2)
    large = Batch.of(rows.indptr, rows.indices, rows.values * 1e200, FEATURES, y=rows.y)
    with pytest.raises(InvalidInputError, match="sums of squares would overflow"):
        outputs.learn(large)
    assert [bits(one) for one in outputs.all] == before
    for seed in (3, 4):
        outputs.learn(batch_of(seed, 150, classes=2))
        alone.learn(of_class(batch_of(seed, 150, classes=2), 0))
    assert (len(outputs), Grid.of(outputs.all).n_outputs) == (2, 3)
    assert bits(next(iter(outputs))) == bits(alone)


def test_views_are_shared():
    outputs = Outputs([Blend(MEMBERS, **OPTIONS) for _ in range(3)])
    outputs.learn(batch_of(1, 20))
    for view in zip(*(one.views for one in outputs), strict=True):
        assert len({id(one.preparation) for one in view}) == 1
    copied = next(iter(outputs)).alone()
    assert copied.grid.n_outputs == 1
    assert copied.views[1].preparation is not next(iter(outputs)).views[1].preparation
    assert bits(copied) == bits(next(iter(outputs)))


def test_files_have_the_views_once(tmp_path):
    model = Model.fresh("auto", Classes(*"abc"), None, n_features=FEATURES, parameters={"portfolio": MEMBERS})
    model, _ = model.learn(batch_of(1, 60), model.classes)
    write(tmp_path / "m", model)
    names = set(get(tmp_path / "m")[1])
    assert {"squares/0", "squares/1", "scales/1/squares", "0/models/0/state", "2/head/w"} <= names
    assert not [name for name in names if name.startswith(("0/scales", "0/squares"))]
    copied = read(tmp_path / "m")
    assert [bits(one) for one in copied.blends] == [bits(one) for one in model.blends]
    batch = batch_of(2, 60)
    assert copied.learn(batch, copied.classes)[1].tobytes() == model.learn(batch, model.classes)[1].tobytes()


def test_memory_counts_the_views_once():
    def needed(outputs):
        return Outputs([Blend(MEMBERS, **OPTIONS) for _ in range(outputs)]).estimate_nbytes(1000)

    one, two, three = needed(1), needed(2), needed(3)
    assert two - one == three - two
    assert 2 * one - two == 8 * 1000 * (1 + 1 + 2)  # Σx_j² of two vectors of weights, and squares and counts of a scale


def test_outputs_number_few_features_alike_after_a_merge():
    """Each output sorts the shards to merge in its own order; the features of narrow members must not depend on it."""
    members = [Member("fsol", {}), Member("arow", {"covariance": "full"}, max_features=40)]
    options, rng = {"portfolio": members, "dtype": "float64"}, np.random.default_rng(0)
    X = rng.normal(size=(120, 12))
    y = np.argmax(X[:, :4], axis=1)
    for k in range(3):  # in each shard, the features occur in another order
        X[40 * k : 40 * k + 12] = np.diag(rng.normal(size=12))[rng.permutation(12)]
    shards = [ts.Auto(**options).fit(sp.csr_matrix(X[k : k + 40]), y[k : k + 40]) for k in (0, 40, 80)]
    together = shards[0].merge(*shards[1:])
    for k in range(4):
        alone = [ts.Auto(**options).fit(sp.csr_matrix(X[i : i + 40]), y[i : i + 40] == k) for i in (0, 40, 80)]
        one = alone[0].merge(*alone[1:]).partial_fit(sp.csr_matrix(X), y == k)
        assert one.decision_function(X).tobytes() == _learned(together, X, y)[:, k].tobytes()


def _learned(model, X, y):
    return copy.deepcopy(model).partial_fit(sp.csr_matrix(X), y).decision_function(X)
