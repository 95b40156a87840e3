"""A blend against models that learn alone and the naive head."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.test_head import state, twin
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.protocol import OneModel
from thinstream.errors import InvalidInputError, NumericalError
from thinstream.models import blend as blending
from thinstream.models import blend as reading
from thinstream.models import members as grouping
from thinstream.models.blend import PORTFOLIO, Blend
from thinstream.models.model import make_learner
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

FEW = [Member("fsol", {"eta": 1.0}), Member("arow", {"r": 0.1}), Member("fsol", {"eta": 0.01}), Member("coin", {})]
READY = [
    Member("fsol", {}),
    Member("arow", {}, normalize="l2"),
    Member("arow", {}, scale="rms"),
    Member("fsol", {}, "max", "l2"),
]
FULL = Member("arow", {"covariance": "full"}, max_features=12)
NARROW = [Member("arow", {}), FULL, FULL._replace(max_features=8), Member("fsol", {}, normalize="l2")]
WITH_PRODUCTS = [Member("arow", {}), Member("scw", {}, "rms", "l2", 12, True), FULL]
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
    scales = [view.preparation.divisors(FEATURES) for view in blend.views]
    own = (blend.counts, blend.weak, *scales, *blend.record.arrays().values(), *(part.squares for part in blend.parts))
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
    assert blend.record.mistakes.tolist() == [model.n_mistakes for model in alone]
    assert blend.cumulative_loss == pytest.approx(loss)


@settings(max_examples=20)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(0, 400), max_size=4),
    st.booleans(),
    st.sampled_from([FEW, READY, NARROW, WITH_PRODUCTS]),
)
def test_any_cut_gives_the_same_bits(seed, cuts, weighted, members):
    batch = rows(seed, 400, weighted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blending, "FIRST_DROP", 32)
        patch.setattr(blending, "FIRST_NOTE", 8)
        patch.setattr(blending, "WORTH", 0.2)  # so that models go
        whole, cut = (Blend(members, n_features=FEATURES, dtype="float64") for _ in range(2))
        z = whole.learn(batch)
        edges = [0, *sorted(cuts), 400]
        found = [cut.learn(batch.until(b).after(a)) for a, b in pairwise(edges)]
    assert np.concatenate(found).tobytes() == z.tobytes()
    assert bits(cut) == bits(whole)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_members_for_few_features_do_not_depend_on_feature_numbers(dtype):
    """Hashed features have high numbers, and only the order of appearance counts."""
    batch, width = rows(20, 300, weighted=True), 1 << 22
    numbers = np.sort(np.random.default_rng(0).choice(width, FEATURES, replace=False)).astype(np.int32)
    hashed = Batch.of(batch.indptr, numbers[batch.indices], batch.values, width, y=batch.y, weights=batch.weights)
    few, many = Blend(NARROW, n_features=FEATURES, dtype=dtype), Blend(NARROW, n_features=width, dtype=dtype)
    assert few.learn(batch).tobytes() == many.learn(hashed).tobytes()
    assert few.table() == many.table()
    assert few.table()[1]["out"] is None
    assert few.table()[2]["out"].startswith("more than 8 features after ")
    weights = many.weights().reshape(2, -1)
    assert weights[:, numbers].tobytes() == few.weights().tobytes()
    assert np.count_nonzero(weights) == np.count_nonzero(few.weights())
    assert many.scores(hashed.until(3)).tobytes() == few.scores(batch.until(3)).tobytes()  # of a few weights only
    many.learn(hashed.until(1))
    few.learn(batch.until(1))
    assert many.scores(hashed.until(3)).tobytes() == few.scores(batch.until(3)).tobytes()


def test_features_of_rows_that_cannot_be_learned_are_not_numbered():
    batch = rows(21, 100)
    blend = Blend([FULL, Member("arow", {}, scale="max")], n_features=FEATURES, dtype="float32")
    blend.learn(batch.until(50).narrowed(9))
    before = blend.few.numbers.tolist()
    tiny = Batch.of(np.array([0, 1]), np.array([10]), np.array([1e-30], np.float32), FEATURES, y=np.ones(1, np.int8))
    blend.learn(tiny)
    again = Batch.of(np.array([0, 1, 2]), np.array([11, 10]), np.ones(2, np.float32), FEATURES)
    with pytest.raises(InvalidInputError, match="times the scale"):
        blend.learn(again.labelled(np.ones(2, np.int8), np.array([1.0, 0.0])))
    assert blend.few.numbers.tolist() == [*before, 10]


def test_rows_of_weight_0_are_no_reason_to_look_again(monkeypatch):
    """Nobody is left out because rows without weight came in a batch of their own."""
    monkeypatch.setattr(blending, "FIRST_DROP", 64)
    monkeypatch.setattr(blending, "WORTH", 0.2)
    blend, batch = Blend(FEW, n_features=FEATURES, dtype="float64"), rows(8, 66)
    blend.learn(batch.until(64))
    assert blend.weak.any()
    before = bits(blend)
    blend.learn(batch.after(64).labelled(batch.y[64:], np.zeros(2)))
    assert bits(blend) == before


@pytest.mark.parametrize(
    ("members", "few"),
    [
        pytest.param(FEW, 3, id="alone"),
        pytest.param(FEW[::2], 0, id="lanes"),
        pytest.param(FEW, 0, id="lanes of all", marks=pytest.mark.slow),
    ],
)
def test_models_run_for_themselves_or_side_by_side_with_the_same_bits(members, few, monkeypatch):
    monkeypatch.setattr(grouping, "FEW", few)
    blend = Blend(members, n_features=FEATURES, dtype="float64")
    blend.learn(rows(9, 300))
    alone = [make_learner(m.algorithm, n_features=FEATURES, dtype="float64", **m.parameters) for m in blend.members]
    for model, one in zip(alone, blend.lanes, strict=True):
        model.learn(rows(9, 300))
        assert model.weights().tobytes() == one.weights().tobytes()


def test_lanes_that_become_few_go_on_as_they_were():
    members = [Member("fsol", {"eta": eta}) for eta in (1.0, 0.1, 1.5e308, 0.01, 0.3)]
    kept = np.array([1, 2, 3])
    blend, alone = (
        Blend(each, n_features=FEATURES, dtype="float64", drop=False) for each in (members, [members[k] for k in kept])
    )
    blend.learn(rows(10, 200))
    blend.keep(kept)
    alone.learn(rows(10, 200))
    for model in (blend, alone):
        model.learn(rows(11, 200))
    assert blend.head.gone.tolist() == [False, True, False]
    one, two = (b"".join(a.tobytes() for m in each.lanes for a in m.memory) for each in (blend, alone))
    assert one == two


def test_rows_are_prepared_once_for_those_who_want_it():
    """Each model as if it learned alone; of several preparations the scores add up, and vectors follow one another."""
    batch = rows(12, 200, weighted=True)
    blend = Blend(READY, n_features=FEATURES, dtype="float64")
    blend.learn(batch)
    alone = [
        Pipeline.of(
            make_learner(m.algorithm, n_features=FEATURES, dtype="float64", **m.parameters), Preparation(*m[2:4])
        )
        for m in blend.members
    ]
    scores = np.column_stack([model.learn(batch) for model in alone])
    _, w, _, m, _, _ = twin(scores, batch.y, batch.weights, Costs())
    new = rows(13, 40)
    expected = np.column_stack([model.scores(new) for model in alone]) @ (w / m)
    np.testing.assert_allclose(blend.scores(new), expected, rtol=1e-9, atol=1e-9)
    assert blend.weights().shape == (3 * FEATURES,)
    assert blend.n_weights == 3 * FEATURES
    blend.keep(np.flatnonzero([each.normalize is None for each in blend.members]))
    v = blend.weights()
    dense = np.eye(FEATURES)
    unit = Batch.of(np.arange(FEATURES + 1), np.arange(FEATURES, dtype=np.int32), np.ones(FEATURES), FEATURES)
    np.testing.assert_allclose(blend.scores(unit), dense @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("most", [{"max_nnz": 3}, {"max_density": 0.26}, {"max_nnz": 3, "max_density": 0.9}])
def test_most_important_weights_stay(most):
    """|v|·q^½ with q = √Σx², [§15]; the models know nothing of it."""
    batch = rows(14, 300, weighted=True)
    blend, whole = (Blend(FEW, n_features=FEATURES, dtype="float64", **options) for options in (most, {}))
    z = [model.learn(batch).tobytes() for model in (blend, whole)]
    assert z[0] == z[1]
    row = np.repeat(np.arange(300), np.diff(batch.indptr))
    q = np.sqrt(np.bincount(batch.indices, batch.values**2 * (batch.weights[row] > 0), FEATURES))
    v = whole.weights()
    kept = np.argsort(-np.abs(v) * np.sqrt(q))[:3]
    expected = np.zeros(FEATURES)
    expected[kept] = v[kept]
    assert blend.weights().tolist() == expected.tolist()
    assert blend.nnz == 3


def test_tells_what_became_of_each_model():
    wild, useless = Member("fsol", {"eta": 1.5e308}), Member("fsol", {"eta": 1e-30, "l1": 1e30})
    blend = Blend([*FEW, wild, useless], n_features=FEATURES, dtype="float64")
    blend.learn(rows(15, 9000))
    table = blend.table()
    assert [line["learner"] for line in table] == ["FSOL"] * 4 + ["AROW", "Coin"]
    assert table[0]["parameters"]["eta"] == 1.0
    assert sum(abs(line["share"]) for line in table) == pytest.approx(1.0)
    assert table[2]["out"] == table[3]["out"] == "no share after 8,192 rows"
    assert 0.0 < table[0]["error"] < 0.5
    assert blend.news == ["FSOL eta=1.5e+308 is no longer part of the blend: its numbers would not be finite"]
    rows_noted, mistakes = blend.record.noted.T
    assert rows_noted.tolist() == [64 << k for k in range(8)]
    assert mistakes[-1] <= blend.n_mistakes
    assert (blend.record.noted_shares[-1] > 0).tolist() == [True, True, False, False, True, True]


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
    assert blend.n_mistakes < 1.05 * blend.record.mistakes.min()


def test_grows():
    blend = Blend(FEW, n_features=2, dtype="float64", grow=True)
    blend.learn(rows(7, 50))
    assert blend.n_features == FEATURES
    with pytest.raises(InvalidInputError, match="grow=True"):
        Blend(FEW, n_features=2, dtype="float64").learn(rows(7, 50))


def test_says_what_memory_it_needs(monkeypatch):
    monkeypatch.setattr(blending, "physical_memory", lambda: 1_000_000_000)
    blend = Blend(FEW, n_features=FEATURES, grow=True)
    wide = Batch.of(np.array([0, 1]), np.array([99_999_999]), np.ones(1), 100_000_000, y=np.ones(1, np.int8))
    before = bits(blend)
    message = r"Auto with 4 models and 100,000,000 features needs 4\.[0-9] GB of memory, but this machine has 1\.0 GB"
    with pytest.raises(InvalidInputError, match=message):
        blend.learn(wide)
    assert bits(blend) == before
    with pytest.raises(InvalidInputError, match="Auto of 30 classes"):
        blend.require_room(1_000_000, 30)


def test_weights_that_are_not_finite_in_their_units_are_told():
    tiny = Batch.of(np.arange(3), np.array([0, 0]), np.full(2, 1e-42), 1, y=np.array([1, 1], np.int8))
    members = [Member("fsol", {}, scale="max")]
    blend, wide = (Blend(members, n_features=1, dtype=dtype) for dtype in ("float32", "float64"))
    for model in (blend, wide):
        model.learn(tiny)
    with pytest.raises(NumericalError, match="Use dtype='float64'"):
        blend.weights()
    assert np.isfinite(wide.weights()).all()


def test_is_a_learner_like_others():
    blend = Blend(FEW, n_features=FEATURES)
    assert isinstance(blend, OneModel)
    assert not blend.has_variance
    with pytest.raises(AttributeError, match="has no variances"):
        blend.variance()


def test_names_what_it_is_made_of():
    assert str(PORTFOLIO[0]) == "SCW"
    assert str(PORTFOLIO[2]) == "AROW covariance=full"
    assert str(PORTFOLIO[4]) == "AROW r=0.1 scale=rms normalize=l2"


@pytest.mark.parametrize("at", ["fold", "learn"])
def test_weights_read_while_another_thread_learns_are_not_kept(at, monkeypatch):
    """Weights that were folded before or while rows were learned must not be returned afterward."""
    blend, plain = (Blend(FEW, n_features=FEATURES) for _ in range(2))
    for one in (blend, plain):
        one.learn(rows(1, 50))
    plain.learn(rows(2, 50))
    if at == "fold":  # a reader has folded the weights; rows are learned before it stores them
        fold = reading.vectors_of

        def vectors_of(*arguments):
            vectors = fold(*arguments)
            monkeypatch.setattr(reading, "vectors_of", fold)
            blend.learn(rows(2, 50))
            return vectors

        monkeypatch.setattr(reading, "vectors_of", vectors_of)
        blend.linear()
    else:  # a reader folds and stores the weights while the members have learned and the head has not
        learn = blend.head.learn

        def learn_late(*arguments):
            blend.linear()
            return learn(*arguments)

        monkeypatch.setattr(blend.head, "learn", learn_late)
        blend.learn(rows(2, 50))
    assert blend.weights().tobytes() == plain.weights().tobytes()
