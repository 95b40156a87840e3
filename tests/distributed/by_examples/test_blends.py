"""Blends that workers learn: each model by its algorithm's increments, the head by those of its precision."""

import numpy as np
import pytest

import thinstream as ts
from tests.blend.test_learner import FEATURES, READY, bits, rows
from thinstream.blend.learner import Blend
from thinstream.blend.member import Member
from thinstream.distributed import DistributedClassifier
from thinstream.distributed.by_examples.deltas import apply_delta, copy_learner, delta, merge_deltas
from thinstream.errors import InvalidParameterError, MergeError
from thinstream.preparing import plain_learner, prepared

MIXED = [Member("fsol", {}), Member("arow", {}), Member("adarda", {})]


def workers(members):
    """A base, and three that went on from it."""
    base = Blend(members, n_features=FEATURES, dtype="float64", fit_intercept=True)
    base.learn(rows(1, 100, weighted=True))
    found = [copy_learner(base) for _ in range(3)]
    for seed, blend in enumerate(found, 2):
        blend.learn(rows(seed, 80, weighted=True))
    return base, found


@pytest.mark.parametrize("members", [MIXED, READY])
def test_models_and_head_merge_by_what_was_added(members):
    base, found = workers(members)
    before = bits(base)
    merged = merge_deltas(base, [delta(base, worker) for worker in found])
    assert bits(base) == before
    for k, model in enumerate(merged.lanes):
        kind = merged.members[k].preparation

        def ready(blend, k=k, kind=kind):
            return prepared(
                list(blend.lanes)[k], next(s.preparation for s in blend.stations if s.preparation.kinds == kind)
            )

        alone = merge_deltas(ready(base), [delta(ready(base), ready(worker)) for worker in found])
        assert [a.tobytes() for a in model.memory] == [a.tobytes() for a in plain_learner(alone).memory]
    H0, H = np.linalg.inv(base.head.P), [np.linalg.inv(worker.head.P) for worker in found]
    b = sum(own @ worker.head.w for own, worker in zip(H, found, strict=True)) - 2 * H0 @ base.head.w
    np.testing.assert_allclose(merged.head.w, np.linalg.solve(sum(H) - 2 * H0, b), rtol=1e-7)
    assert merged.t == sum(worker.t for worker in found) - 2 * base.t
    assert merged.n_mistakes == sum(worker.n_mistakes for worker in found) - 2 * base.n_mistakes
    np.testing.assert_allclose(
        merged.parts[0].squares, sum(w.parts[0].squares for w in found) - 2 * base.parts[0].squares
    )
    merged.learn(rows(6, 50))


def test_matrices_are_averaged_and_stay_in_the_blend():
    few = Member("arow", {"covariance": "full"}, max_features=300)
    base, found = workers([Member("arow", {}), few, Member("fsol", {})])
    narrow = copy_learner(base)  # has room for fewer features than the others
    narrow.learn(rows(9, 40).take(np.flatnonzero(np.diff(rows(9, 40).indptr) == 0)))
    merged = merge_deltas(base, [delta(base, worker) for worker in [*found, narrow]])
    assert [line["out"] for line in merged.table()] == [None] * 3
    k = [member.max_features for member in merged.members].index(300)
    parts = [blend for blend in [*found, narrow] if blend.t > base.t]
    share = np.array([blend.t - base.t for blend in parts]) / sum(blend.t - base.t for blend in parts)
    models = [list(blend.lanes)[k] for blend in parts]
    one = list(merged.lanes)[k]
    mean = sum(s * model.belief.mean for s, model in zip(share, models, strict=True))
    np.testing.assert_allclose(one.belief.mean, mean, rtol=1e-9, atol=1e-12)
    sigma = sum(s * model.sigma.dense() for s, model in zip(share, models, strict=True))
    np.testing.assert_allclose(one.sigma.dense(), sigma, rtol=1e-9, atol=1e-12)
    assert one.t == merged.t
    merged.learn(rows(6, 50))


def test_one_with_a_full_covariance_merges_in_rounds_by_its_mean_alone():
    X, y = np.random.default_rng(1).normal(size=(300, 6)), np.arange(300) % 2
    X[:, 0] += y
    model = ts.AROW(covariance="full")
    found = DistributedClassifier(model, engine="local", workers=2, merge_every=40).fit(X, y)
    assert found.score(X, y) > model.fit(X, y).score(X, y) - 0.03
    with pytest.raises(InvalidParameterError, match="AROW with covariance='full': merge must be 'mean', got 'gain'"):
        DistributedClassifier(model, engine="local", workers=2, merge="gain").fit(X, y)
    with pytest.raises(MergeError, match="SSOL with covariance='full' cannot be merged in rounds"):
        DistributedClassifier(ts.SSOL(covariance="full"), engine="local", workers=2).fit(X, y)


def test_one_worker_is_the_model_it_learned():
    base, (one, *_) = workers(MIXED)
    assert bits(merge_deltas(base, [delta(base, one)])) == bits(one) == bits(apply_delta(base, delta(base, one)))
    assert bits(merge_deltas(base, [delta(base, copy_learner(base))])) == bits(base)


@pytest.mark.parametrize("classes", [2, 3])
def test_workers_learn_a_blend(classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1200, 10)).astype(np.float32)
    score = X @ np.linspace(-1, 1, 10)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1]))
    model = ts.Auto(portfolio=["fsol", "arow"])
    found = DistributedClassifier(model, engine="local", workers=2, merge_every=150).fit(X, y)
    assert found.estimator_.t_ == 1200
    assert found.score(X, y) > model.fit(X, y).score(X, y) - 0.03
    calibrated = DistributedClassifier(ts.AROW(calibrate=True), engine="local", workers=1).fit(X, y).estimator_
    assert calibrated.coef_.tobytes() == ts.AROW(calibrate=True).fit(X, y).coef_.tobytes()


def test_what_cannot_be_done_is_said():
    X, y = np.eye(8, dtype=np.float32), [0, 1] * 4
    few = ts.Auto(portfolio=["fsol", "arow"])
    with pytest.raises(InvalidParameterError, match="each model of Auto has its own way"):
        DistributedClassifier(few, engine="local", workers=2, merge="mean").fit(X, y)
    for model in (few, ts.FSOL(calibrate=True)):
        with pytest.raises(InvalidParameterError, match="Auto learns by examples"):
            DistributedClassifier(model, engine="local", workers=2, mode="features").fit(X, y)
    base = ts.Auto(portfolio=["fsol"], scale="max").fit(X, y)._model.learner
    two = [copy_learner(base) for _ in range(2)]
    for worker in two:
        worker.learn(rows(1, 20).until(20).narrowed(8))
    with pytest.raises(MergeError, match="scale= of all cannot be merged"):
        merge_deltas(base, [delta(base, worker) for worker in two])
