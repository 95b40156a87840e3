"""Blends of disjoint parts of the data as one: their models by their rules, their heads by their precisions."""

import numpy as np
import pytest

import thinstream as ts
from tests.models.test_blend import FEATURES, FEW, bits, rows
from thinstream.algorithms.auto import Member
from thinstream.batch import Batch
from thinstream.errors import MergeError, WeightsOnlyError
from thinstream.models.blend import Blend
from thinstream.models.merging import merge
from thinstream.models.merging import merge_pipelines as merge_prepared
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

SCALED = [Member("arow", {}, scale="rms"), Member("fsol", {}, "idf", "l2"), Member("fsol", {})]


def shards(members, seeds=(1, 2, 3), **options):
    found = [Blend(members, n_features=FEATURES, dtype="float64", **options) for _ in seeds]
    for blend, seed in zip(found, seeds, strict=True):
        blend.learn(rows(seed, 200, weighted=True))
    return found


@pytest.mark.parametrize("members", [FEW, SCALED])
def test_models_merge_by_their_rules_and_heads_by_their_precisions(members):
    parts = shards(members, fit_intercept=True)
    found = merge(parts)
    for k, model in enumerate(found.lanes):
        kind = found.members[k]
        own = [
            Pipeline.of(list(part.lanes)[k], next(s.preparation for s in part.views if _is(s, kind))) for part in parts
        ]
        alone = merge_prepared(own)
        alone = alone.outputs.one
        assert [a.tobytes() for a in model.memory] == [a.tobytes() for a in alone.memory]
    H = sum(np.linalg.inv(part.head.P) for part in parts) - 2 * np.eye(len(members))
    b = sum(np.linalg.inv(part.head.P) @ part.head.w for part in parts) - 2 * np.full(len(members), 2 / len(members))
    np.testing.assert_allclose(found.head.w, np.linalg.solve(H, b), rtol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(found.head.P), H, rtol=1e-9)
    np.testing.assert_allclose(found.head.sums, sum(part.head.sums for part in parts), rtol=1e-12)
    assert found.t == sum(part.t for part in parts)
    assert found.n_mistakes == sum(part.n_mistakes for part in parts)
    np.testing.assert_allclose(found.parts[0].squares, sum(part.parts[0].squares for part in parts), rtol=1e-12)
    found.learn(rows(4, 100))
    assert np.isfinite(found.head.w).all()


def _is(view, member):
    return view.preparation.kinds == member.preparation


def test_the_order_does_not_matter_and_who_has_seen_nothing_changes_nothing():
    one, two, three = shards(FEW)
    before, new = bits(one), Blend(FEW, n_features=FEATURES, dtype="float64")
    assert bits(merge([one, two, three])) == bits(merge([three, one, two]))
    assert bits(merge([one, new])) == bits(merge([new, one])) == before == bits(one)


def test_what_one_has_left_out_or_lost_is_out():
    one, two = shards([Member("fsol", {"eta": 1.5e308}), *FEW], (1, 2), drop=False)
    assert one.head.gone.any()
    one.keep(np.array([0, 1, 3, 4]))
    found = merge([one, two])
    assert found.members == [FEW[0], FEW[1], FEW[3]]
    one.keep(np.array([1]))
    two.keep(np.array([2]))
    with pytest.raises(MergeError, match="no member is left in all of them"):
        merge([one, two])


def test_other_portfolios_and_weights_are_refused(tmp_path):
    X, y = np.eye(4), [0, 1, 0, 1]
    one = ts.Auto(portfolio=["fsol", "arow"]).fit(X, y)
    other = ts.Auto(portfolio=["fsol", "coin"]).fit(X, y)
    with pytest.raises(MergeError, match="agree in portfolio"):
        one.merge(other)
    one.save(tmp_path / "small.ts", weights_only=True)
    with pytest.raises(WeightsOnlyError, match="this Auto has only its weights"):
        one.merge(ts.load(tmp_path / "small.ts"))


@pytest.mark.parametrize("options", [{}, {"scale": "max"}, {"grow_classes": True}])
@pytest.mark.parametrize("classes", [2, 3])
def test_estimators_merge(options, classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 10)).astype(np.float32)
    score = X @ np.linspace(-1, 1, 10)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    parts = [ts.Auto(portfolio=["fsol", "arow"], **options).fit(X[k::3], y[k::3]) for k in range(3)]
    found = parts[0].merge(*parts[1:])
    assert found.t_ == 900
    assert found.score(X, y) > np.mean([part.score(X, y) for part in parts]) - 0.02
    found.partial_fit(X, y)
    assert Preparation(options.get("scale")).kinds == found._model.preparation.kinds


def test_members_for_few_features_merge_whatever_the_order_of_appearance():
    full = Member("arow", {"covariance": "full"}, max_features=FEATURES)
    batch = rows(1, 60)
    numbers = np.arange(FEATURES)[::-1].astype(np.int32)  # features appear in another order
    turned = Batch.of(batch.indptr, numbers[batch.indices], batch.values, FEATURES, y=batch.y)
    merged = []
    for second in (batch, turned):
        parts = [Blend([full], n_features=FEATURES, dtype="float64") for _ in range(2)]
        parts[0].learn(rows(2, 60))
        parts[1].learn(second)
        alone = [Blend([full._replace(max_features=None)], n_features=FEATURES, dtype="float64") for _ in range(2)]
        alone[0].learn(rows(2, 60))
        alone[1].learn(second)
        assert parts[0].few.numbers.tolist() != parts[1].few.numbers.tolist()
        merged.append(merge(parts))
        np.testing.assert_allclose(merged[-1].weights(), merge(alone).weights(), rtol=1e-8)
    many = [Blend([Member("arow", {}), full._replace(max_features=6)], n_features=FEATURES) for _ in range(2)]
    for half, blend in zip((batch.narrowed(6), turned), many, strict=True):
        only = half.indices < 6 if blend is many[0] else half.indices >= 6
        blend.learn(_with(half, only))
    found = merge(many)
    assert [member.max_features for member in found.members] == [None]
    assert found.table()[1]["out"].startswith("more than 6 features")


def _with(batch, kept):
    """The rows with some of their values."""
    ends = np.append(0, np.cumsum(kept))[batch.indptr]
    return Batch.of(ends, batch.indices[kept], batch.values[kept], FEATURES, y=batch.y)


def test_the_prior_of_the_default_portfolio_counts_once():
    parts = [Blend(n_features=FEATURES, dtype="float64") for _ in range(2)]
    for seed, part in enumerate(parts):
        part.learn(rows(seed, 60))
    found, models = merge(parts), len(parts[0].head)
    precisions = [np.linalg.inv(part.head.P) for part in parts]
    H = sum(precisions) - np.eye(models) / 3.0
    b = sum(own @ part.head.w for own, part in zip(precisions, parts, strict=True)) - np.full(models, 2 / models / 3.0)
    np.testing.assert_allclose(found.head.P, np.linalg.inv(H), rtol=1e-8)
    np.testing.assert_allclose(found.head.w, np.linalg.solve(H, b), rtol=1e-8)
