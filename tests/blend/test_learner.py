"""A blend against models that learn alone and the naive head."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.blend.test_head import state, twin
from thinstream.batch import Batch
from thinstream.blend import learner as blending
from thinstream.blend.learner import Blend
from thinstream.blend.portfolio import PORTFOLIO, Member
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError
from thinstream.learners import make_learner

FEW = [Member("fsol", {"eta": 1.0}), Member("arow", {"r": 0.1}), Member("fsol", {"eta": 0.01}), Member("coin", {})]
FEATURES = 12


def rows(seed, n, weighted=False):
    rng = np.random.default_rng(seed)
    present = rng.random((n, FEATURES)) < 0.4
    X = np.where(present, rng.normal(size=(n, FEATURES)), 0.0)
    truth = np.linspace(-2, 2, FEATURES)
    y = np.where(X @ truth + rng.normal(size=n) > 0, 1, -1).astype(np.int8)
    weights = rng.choice([0.0, 0.5, 2.0], n) if weighted else None
    where = np.nonzero(X)
    indptr = np.append(0, np.cumsum(np.count_nonzero(X, axis=1)))
    return Batch.of(indptr, where[1].astype(np.int32), X[where], FEATURES, y=y, weights=weights)


def bits(blend):
    models = b"".join(array.tobytes() for model in blend.lanes for array in model.memory)
    own = (blend.counts, blend.mistakes, blend.weak)
    return models, state(blend.head), b"".join(array.tobytes() for array in own), tuple(map(str, blend.members))


@pytest.mark.parametrize("costs", [Costs(), Costs(1.0, 3.0), Costs(balanced=True)])
@pytest.mark.parametrize("intercept", [False, True])
def test_is_the_naive_blend_of_its_models(costs, intercept):
    batch = rows(1, 300, weighted=True)
    options = {"n_features": FEATURES, "costs": costs, "dtype": "float64", "fit_intercept": intercept}
    blend = Blend(FEW, **options)
    z = blend.learn(batch)
    alone = [make_learner(each.algorithm, **options, **each.parameters) for each in blend.members]
    scores = np.column_stack([model.learn(batch) for model in alone])
    expected, w, _, m, _, loss = twin(scores, batch.y, batch.weights, costs)
    np.testing.assert_allclose(z, expected, rtol=1e-9, atol=1e-9)
    v = sum(each / mean * model.weights() for each, mean, model in zip(w, m, alone, strict=True))
    b = sum(each / mean * model.intercept for each, mean, model in zip(w, m, alone, strict=True))
    np.testing.assert_allclose(blend.weights(), v, rtol=1e-9, atol=1e-9)
    assert blend.intercept == pytest.approx(b, rel=1e-9, abs=1e-12)
    X = rows(2, 50)
    dense = np.zeros((50, FEATURES))
    for i in range(50):
        here = slice(X.indptr[i], X.indptr[i + 1])
        dense[i, X.indices[here]] = X.values[here]
    np.testing.assert_allclose(blend.scores(X), dense @ v + b, rtol=1e-9, atol=1e-9)
    counted = batch.weights != 0
    assert blend.t == np.count_nonzero(counted)
    assert blend.n_mistakes == np.count_nonzero((expected[counted] > 0) != (batch.y[counted] > 0))
    assert blend.mistakes.tolist() == [model.n_mistakes for model in alone]
    assert blend.cumulative_loss == pytest.approx(loss)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.lists(st.integers(0, 400), max_size=4), st.booleans())
def test_any_cut_gives_the_same_bits(seed, cuts, weighted):
    batch = rows(seed, 400, weighted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blending, "FIRST_LOOK", 32)
        patch.setattr(blending, "WORTH", 0.2)  # so that models go
        whole, cut = (Blend(FEW, n_features=FEATURES, dtype="float64") for _ in range(2))
        z = whole.learn(batch)
        edges = [0, *sorted(cuts), 400]
        found = [cut.learn(batch.until(b).after(a)) for a, b in pairwise(edges)]
    assert np.concatenate(found).tobytes() == z.tobytes()
    assert bits(cut) == bits(whole)


def test_threads_give_the_same_bits():
    one, two = (Blend(FEW, n_features=FEATURES, dtype="float64", threads=threads) for threads in (1, 2))
    assert one.learn(rows(3, 500)).tobytes() == two.learn(rows(3, 500)).tobytes()
    assert bits(one) == bits(two)


def test_models_without_a_share_are_left_out():
    batch = rows(4, 20_000)
    useless = Member("fsol", {"eta": 1e-30, "l1": 1e30})
    blend, kept = (Blend([*FEW, useless], n_features=FEATURES, dtype="float64", drop=drop) for drop in (True, False))
    for model in (blend, kept):
        model.learn(batch)
    assert useless not in blend.members
    assert useless in kept.members
    assert blend.n_mistakes <= kept.n_mistakes * 1.02


def test_a_model_that_is_not_finite_is_out_and_the_blend_goes_on():
    batch, wild = rows(5, 600), Member("fsol", {"eta": 1.5e308})
    blend, alone = (Blend(members, n_features=FEATURES, dtype="float64", drop=False) for members in ([wild, *FEW], FEW))
    z = blend.learn(batch)
    assert np.isfinite(z).all()
    assert np.isfinite(blend.weights()).all()
    place = blend.members.index(wild)
    assert blend.head.gone[place]
    assert blend.head.coefficients()[place] == 0.0
    assert np.isfinite(blend.scores(batch)).all()
    alone.learn(batch)
    assert blend.n_mistakes < alone.n_mistakes * 1.2


@pytest.mark.slow
def test_is_better_than_its_models_alone():
    blend = Blend(n_features=FEATURES)
    blend.learn(rows(6, 5000))
    assert blend.n_mistakes < 1.05 * blend.mistakes.min()


def test_grows():
    blend = Blend(FEW, n_features=2, dtype="float64", grow=True)
    blend.learn(rows(7, 50))
    assert blend.n_features == FEATURES
    with pytest.raises(InvalidInputError, match="grow=True"):
        Blend(FEW, n_features=2, dtype="float64").learn(rows(7, 50))


def test_names_what_it_is_made_of():
    assert str(PORTFOLIO[0]) == "arow r=0.1"
