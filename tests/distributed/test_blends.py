"""Blends that workers learn: each model by its algorithm's increments, the head by those of its precision."""

import numpy as np
import pytest

import thinstream as ts
from tests.models.test_blend import FEATURES, READY, bits, rows
from thinstream.algorithms.auto import Member
from thinstream.distributed.deltas import apply_delta, copy_learner, delta, merge_deltas
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.estimators.distributed import DistributedClassifier
from thinstream.models.blend import Blend
from thinstream.models.pipeline import Pipeline

MIXED = [Member("fsol", {}), Member("arow", {}), Member("adarda", {})]


def workers(members):
    """A base, and three that went on from it."""
    base = Pipeline.of(Blend(members, n_features=FEATURES, dtype="float64", fit_intercept=True))
    base.learn(rows(1, 100, weighted=True))
    result = [copy_learner(base) for _ in range(3)]
    for seed, blend in enumerate(result, 2):
        blend.learn(rows(seed, 80, weighted=True))
    return base, result


def bits_of(pipeline):
    """All bits of its blend."""
    return bits(pipeline.outputs.one)


@pytest.mark.parametrize("members", [MIXED, READY])
def test_members_and_head_add_their_changes(members):
    base, result = workers(members)
    before = bits_of(base)
    merged = merge_deltas(base, [delta(base, worker) for worker in result])
    assert bits_of(base) == before
    base, merged, *result = (item.outputs.one for item in (base, merged, *result))
    for k, model in enumerate(merged.lanes):
        kind = merged.members[k].preparation

        def ready(blend, k=k, kind=kind):
            return Pipeline.of(
                list(blend.lanes)[k], next(s.preparation for s in blend.views if s.preparation.kinds == kind)
            )

        alone = merge_deltas(ready(base), [delta(ready(base), ready(worker)) for worker in result])
        assert [a.tobytes() for a in model.memory] == [a.tobytes() for a in alone.outputs.one.memory]
    H0, H = np.linalg.inv(base.head.P), [np.linalg.inv(worker.head.P) for worker in result]
    b = sum(own @ worker.head.w for own, worker in zip(H, result, strict=True)) - 2 * H0 @ base.head.w
    np.testing.assert_allclose(merged.head.w, np.linalg.solve(sum(H) - 2 * H0, b), rtol=1e-7)
    assert merged.t == sum(worker.t for worker in result) - 2 * base.t
    assert merged.n_mistakes == sum(worker.n_mistakes for worker in result) - 2 * base.n_mistakes
    np.testing.assert_allclose(
        merged.parts[0].squares, sum(w.parts[0].squares for w in result) - 2 * base.parts[0].squares
    )
    merged.learn(rows(6, 50))


def test_matrices_are_averaged_and_stay_in_the_blend():
    few = Member("arow", {"covariance": "full"}, max_features=300)
    base, result = workers([Member("arow", {}), few, Member("fsol", {})])
    narrow = copy_learner(base)  # has room for fewer features than the others
    narrow.learn(rows(9, 40).take(np.flatnonzero(np.diff(rows(9, 40).indptr) == 0)))
    merged = merge_deltas(base, [delta(base, worker) for worker in [*result, narrow]])
    base, merged, narrow, *result = (item.outputs.one for item in (base, merged, narrow, *result))
    assert [line["out"] for line in merged.table()] == [None] * 3
    k = [member.max_features for member in merged.members].index(300)
    parts = [blend for blend in [*result, narrow] if blend.t > base.t]
    share = np.array([blend.t - base.t for blend in parts]) / sum(blend.t - base.t for blend in parts)
    models = [list(blend.lanes)[k] for blend in parts]
    one = list(merged.lanes)[k]
    positions = []  # merging sorts the features of few; workers number them as they occur
    for blend in parts:
        numbers, free = blend.few.numbers.tolist(), np.arange(1 + len(merged.few.numbers), len(one.belief.mean))
        positions.append(np.r_[0, [1 + numbers.index(number) for number in merged.few.numbers], free])
    mean = sum(s * model.belief.mean[at] for s, model, at in zip(share, models, positions, strict=True))
    np.testing.assert_allclose(one.belief.mean, mean, rtol=1e-9, atol=1e-12)
    sigma = sum(s * model.sigma.dense()[np.ix_(at, at)] for s, model, at in zip(share, models, positions, strict=True))
    np.testing.assert_allclose(one.sigma.dense(), sigma, rtol=1e-9, atol=1e-12)
    assert one.t == merged.t
    merged.learn(rows(6, 50))


def test_one_with_a_full_covariance_merges_in_rounds_by_its_mean_alone():
    X, y = np.random.default_rng(1).normal(size=(300, 6)), np.arange(300) % 2
    X[:, 0] += y
    model = ts.AROW(covariance="full")
    result = DistributedClassifier(model, engine="local", workers=2, merge_every=40).fit(X, y)
    assert result.score(X, y) > model.fit(X, y).score(X, y) - 0.03
    with pytest.raises(InvalidParameterError, match="AROW with covariance='full': merge must be 'mean', got 'gain'"):
        DistributedClassifier(model, engine="local", workers=2, merge="gain").fit(X, y)
    with pytest.raises(MergeError, match="SSOL with covariance='full' cannot be merged in rounds"):
        DistributedClassifier(ts.SSOL(covariance="full"), engine="local", workers=2).fit(X, y)


def test_one_worker_is_the_model_it_learned():
    base, (one, *_) = workers(MIXED)
    assert bits_of(merge_deltas(base, [delta(base, one)])) == bits_of(one)
    assert bits_of(apply_delta(base, delta(base, one))) == bits_of(one)
    assert bits_of(merge_deltas(base, [delta(base, copy_learner(base))])) == bits_of(base)


@pytest.mark.parametrize("classes", [2, 3])
def test_workers_learn_a_blend(classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1200, 10)).astype(np.float32)
    score = X @ np.linspace(-1, 1, 10)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    model = ts.Auto(portfolio=["fsol", "arow"])
    result = DistributedClassifier(model, engine="local", workers=2, merge_every=150).fit(X, y)
    assert result.estimator_.t_ == 1200
    assert result.score(X, y) > model.fit(X, y).score(X, y) - 0.03
    calibrated = DistributedClassifier(ts.AROW(calibrate=True), engine="local", workers=1).fit(X, y).estimator_
    assert calibrated.coef_.tobytes() == ts.AROW(calibrate=True).fit(X, y).coef_.tobytes()


def test_invalid_options_are_reported():
    X, y = np.eye(8, dtype=np.float32), [0, 1] * 4
    few = ts.Auto(portfolio=["fsol", "arow"])
    with pytest.raises(InvalidParameterError, match="merge must be None for Auto"):
        DistributedClassifier(few, engine="local", workers=2, merge="mean").fit(X, y)
    base = ts.Auto(portfolio=["fsol"], scale="max").fit(X, y)._model.learner
    two = [copy_learner(base) for _ in range(2)]
    for worker in two:
        worker.learn(rows(1, 20).until(20).narrowed(8))
    with pytest.raises(MergeError, match="scale= for all members cannot be merged"):
        merge_deltas(base, [delta(base, worker) for worker in two])
