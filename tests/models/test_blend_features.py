"""Scores between updates read the weights of few features, and have the bits that all weights give."""

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from tests.models.test_blend import FEATURES, FEW, READY, rows
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.models import blend as blending
from thinstream.models import members as grouping
from thinstream.models.blend import Blend

WIDE = 1 << 14
#: What is compiled for nobody else.
OTHERS = [("float64", False), ("float32", True), ("float64", True)]
ALWAYS, NEVER = -(1 << 40), 1 << 50


@pytest.mark.parametrize(
    ("dtype", "side_by_side"),
    [("float32", False), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHERS)],
)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("members", [FEW, READY])
def test_bits_do_not_depend_on_which_weights_were_read(dtype, intercept, members, side_by_side, monkeypatch):
    monkeypatch.setattr(grouping, "FEW", 0 if side_by_side else 3)
    blend = Blend(members, n_features=FEATURES, dtype=dtype, fit_intercept=intercept)
    blend.learn(rows(21, 200, weighted=True))
    for new in (rows(22, 1), rows(23, 7), rows(24, 1).until(0)):
        before = [array.tobytes() for model in blend.lanes for array in model.memory]
        monkeypatch.setattr(blending, "CALL_COST", ALWAYS)
        few = blend.scores(new)
        assert blend._linear[0] != blend.version
        assert [array.tobytes() for model in blend.lanes for array in model.memory] == before
        monkeypatch.setattr(blending, "CALL_COST", NEVER)
        assert few.dtype == blend.dtype
        assert few.tobytes() == blend.scores(new).tobytes()
        assert blend._linear[0] == blend.version
        blend.learn(rows(25, 5))


@pytest.mark.slow  # lanes are compiled
def test_a_model_that_is_out_does_not_count(monkeypatch):
    wild = Member("fsol", {"eta": 1.5e308})
    for together in (0, 3):
        monkeypatch.setattr(grouping, "FEW", together)
        blend = Blend([wild, *FEW], n_features=FEATURES, dtype="float64", drop=False)
        blend.learn(rows(5, 600))
        assert blend.head.gone.any()
        monkeypatch.setattr(blending, "CALL_COST", ALWAYS)
        few = blend.scores(rows(6, 9))
        monkeypatch.setattr(blending, "CALL_COST", NEVER)
        assert few.tobytes() == blend.scores(rows(6, 9)).tobytes()


def test_all_weights_are_read_once_that_is_cheaper(monkeypatch):
    blend, new = Blend(FEW, n_features=FEATURES), rows(22, 1)
    monkeypatch.setattr(blending, "CALL_COST", 4 - new.nnz)
    for _ in range(2):
        blend.learn(rows(21, 20))
        read = []
        for _ in range(4):
            blend.scores(new)
            read.append(blend._linear[0] == blend.version)
        assert read == [False, False, False, True]


def test_the_most_important_weights_need_all(monkeypatch):
    monkeypatch.setattr(blending, "CALL_COST", ALWAYS)
    blend, whole = (Blend(FEW, n_features=FEATURES, max_nnz=most) for most in (2, None))
    for model in (blend, whole):
        model.learn(rows(21, 200))
    new = rows(26, 30)
    assert blend.scores(new).tobytes() == blend.linear().scores(new).tobytes()
    assert blend.scores(new).tobytes() != whole.scores(new).tobytes()


def test_errors_name_the_column_as_it_was_given(monkeypatch):
    monkeypatch.setattr(blending, "CALL_COST", ALWAYS)
    blend = Blend(FEW, n_features=FEATURES)
    blend.learn(rows(21, 20))
    large = Batch.of(np.array([0, 1]), np.array([7], np.int32), np.array([1e30]), FEATURES)
    with pytest.raises(InvalidInputError, match="row 0, column 7; float32 allows"):
        blend.scores(large)


@pytest.mark.parametrize(
    "options", [{}, {"fit_intercept": False}, {"scale": "max"}, {"scale": "rms", "normalize": "l2"}]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_an_estimator_predicts_between_updates_with_the_same_bits(classes, options):
    rng = np.random.default_rng(classes)
    X = sp.random(60, WIDE, 0.001, "csr", np.float32, rng)
    y = rng.integers(0, classes, 60)
    y[:classes] = np.arange(classes)
    model = ts.Auto(**options, portfolio=[ts.FSOL(eta=0.1), ts.AROW()])
    for stop in (30, 60):
        model.partial_fit(X[stop - 30 : stop], y[stop - 30 : stop], classes=np.arange(classes))
        few = model.decision_function(X[:2])
        blends = model._model.learner.blends
        assert len(blends) == (classes if classes > 2 else 1)
        assert all(blend._linear[0] != blend.version for blend in blends)
        model.coef_  # noqa: B018 - reads all weights
        assert few.tobytes() == model.decision_function(X[:2]).tobytes()
        assert few.any()
