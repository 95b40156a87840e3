"""Models that learned under scales of their own: brought to common ones they score as before, and become one."""

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.errors import MergeError
from thinstream.models.merging import merge_pipelines, rescale_to
from thinstream.models.model import make_learner, make_outputs
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation

WIDTH = 6
SCALED = [("max", None), ("rms", None), ("idf", None), ("max", "l2"), ("rms", "l2"), ("idf", "l2")]
#: Those that can be merged, with what it takes.
MERGED = {
    each.name: {"diagonal": "exact"} if each.name == "SSOL" else {}
    for each in algorithms("online")
    if each.name not in ("SMIDAS", "StableSparsePerceptron")
}


def rows(n, seed, unit=1.0, classes=2, d=WIDTH):
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.7, "csr", random_state=rng, data_rvs=lambda k: rng.normal(size=k) * unit)
    y = rng.choice(np.array([-1, 1], np.int8), n) if classes == 2 else rng.integers(0, classes, n).astype(np.int32)
    return Batch.of(X.indptr, X.indices.astype(np.int32), X.data, d, y)


def learned(kind, batch, name="fsol", **options):
    inner = make_learner(name, n_features=batch.n_features, dtype="float64", fit_intercept=True, **options)
    model = Pipeline.of(inner, Preparation(*kind))
    model.learn(batch)
    return model


def state(model):
    scales = model.preparation.scales
    return [array.tobytes() for each in model.outputs for array in each.memory], scales.state.tobytes()


FULL = [
    (each.name, {"covariance": "full"})
    for each in algorithms("online")
    if "covariance" in {parameter.name for parameter in each.parameters}
]


FORGETTING = [(name, {**MERGED[name], "half_life": 20.0}) for name in ("FSOL", "AdaRDA", "SSOL", "AROW")]


@pytest.mark.interpreted
@pytest.mark.parametrize(("name", "more"), [*MERGED.items(), *FULL, *FORGETTING])
def test_under_other_scales_scores_and_variances_stay(name, more):
    model, other = learned(("max", None), rows(50, 1), name, **more), learned(("max", None), rows(50, 2, 7.0))
    scales = type(model.preparation.scales).merged([model.preparation.scales, other.preparation.scales])
    assert (scales.divisors(WIDTH) > 2 * model.preparation.divisors(WIDTH)).any()
    before = state(model)
    now = Pipeline.of(rescale_to(model, scales), Preparation("max").with_scales(scales))
    np.testing.assert_allclose(now.scores(rows(20, 3)), model.scores(rows(20, 3)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(now.weights(), model.weights(), rtol=1e-9, atol=1e-12)
    if model.has_variance:
        np.testing.assert_allclose(now.variance(), model.variance(), rtol=1e-9)
    assert state(model) == before
    now.learn(rows(20, 4))  # it goes on


@pytest.mark.parametrize("scale", ["max", "rms", "idf"])
def test_as_the_specification_says(scale):
    """θ and μ times m_new/m_old, variances by its square, then the rule of the algorithm."""
    one, two = rows(40, 1), rows(30, 2, 9.0)
    for name, field in (("fsol", "theta"), ("arow", "mu")):
        a, b = (learned((scale, None), each, name) for each in (one, two))
        X = np.vstack([_dense(one), _dense(two)])
        m = np.abs(X).max(axis=0) if scale == "max" else np.sqrt((X**2).sum(axis=0) / (X != 0).sum(axis=0))
        m = 1 / (np.log((1 + len(X)) / (1 + (X != 0).sum(axis=0))) + 1) if scale == "idf" else m
        brought = []
        for model in (a, b):
            r = np.append(1.0, m / model.preparation.divisors(WIDTH))  # coordinate 0 is the intercept
            state = model.outputs.one.memory.state
            if field == "theta":
                brought.append((state * r, None))
            else:
                brought.append((state[::2] * r, r**2 / state[1::2]))
        merged = merge_pipelines([a, b])
        np.testing.assert_allclose(merged.preparation.divisors(WIDTH), m, rtol=1e-12)
        if field == "theta":
            expected = brought[0][0] + brought[1][0]
            np.testing.assert_allclose(merged.outputs.one.memory.state, expected, rtol=1e-12, atol=1e-14)
        else:
            (mu, sigma), (nu, tau) = brought
            precision = 1 / sigma + 1 / tau - 1.0
            np.testing.assert_allclose(merged.outputs.one.memory.state[1::2], precision, rtol=1e-12)
            expected = (mu / sigma + nu / tau) / precision
            np.testing.assert_allclose(merged.outputs.one.memory.state[::2], expected, rtol=1e-12, atol=1e-14)
        assert merged.t == 70


def _dense(batch):
    return sp.csr_matrix((batch.values, batch.indices, batch.indptr), (len(batch), batch.n_features)).toarray()


@pytest.mark.parametrize("kind", SCALED)
def test_order_and_empty_models_do_not_matter(kind):
    parts = [learned(kind, rows(20, seed, 3.0**seed), "arow") for seed in range(3)]
    empty = Pipeline.of(make_learner("arow", n_features=WIDTH, dtype="float64", fit_intercept=True), Preparation(*kind))
    before = [state(part) for part in parts]
    for order in ([0, 2, 1], [2, 1, 0]):
        assert state(merge_pipelines([parts[k] for k in order])) == state(merge_pipelines([*parts, empty]))
    assert state(merge_pipelines([parts[0], empty])) == before[0]
    assert [state(part) for part in parts] == before


def test_precisions_stay_positive_however_far_scales_are_apart():
    parts = [learned(("max", None), rows(20, seed, 1000.0**seed), "arow") for seed in range(4)]
    merged = merge_pipelines(parts)
    assert (merged.variance() > 0).all()
    assert np.isfinite(merged.scores(rows(9, 5))).all()


def test_narrower_models_never_saw_the_further_features():
    narrow, wide = learned(("rms", None), rows(20, 1, d=3)), learned(("rms", None), rows(20, 2))
    narrow.grow = wide.grow = True
    merged = merge_pipelines([narrow, wide])
    assert merged.n_features == WIDTH
    assert np.array_equal(merged.preparation.divisors(WIDTH)[3:], wide.preparation.divisors(WIDTH)[3:])


def test_classes_are_merged_each_for_itself():
    batches = rows(40, 1, classes=3), rows(40, 2, 5.0, classes=3)
    models = []
    for batch in batches:
        model = Pipeline.of(make_outputs("arow", [Costs()] * 3, n_features=WIDTH), Preparation("max"))
        model.learn(batch)
        models.append(model)
    merged = merge_pipelines(models)
    for k, found in enumerate(merged.models):
        alone = []
        for batch in batches:
            one = Pipeline.of(make_learner("arow", n_features=WIDTH), Preparation("max"))
            one.learn(batch.labelled(np.where(batch.y == k, 1, -1).astype(np.int8)))
            alone.append(one)
        assert merge_pipelines(alone).weights().tobytes() == found.weights().tobytes()


def test_what_cannot_be_merged_says_so():
    parts = [learned(("max", None), rows(20, seed, 2.0**seed), "smidas", p=3.0) for seed in range(2)]
    with pytest.raises(MergeError, match="SMIDAS with scale cannot be merged, because its state cannot be rescaled"):
        merge_pipelines(parts)
    with pytest.raises(MergeError, match="FSOL: models to merge must agree in scale, got 'max' and 'rms'"):
        merge_pipelines([learned(("max", None), rows(9, 1)), learned(("rms", None), rows(9, 2))])
    with pytest.raises(MergeError, match="must agree in normalize, got 'l2' and None"):
        merge_pipelines([learned((None, "l2"), rows(9, 1)), Pipeline.of(make_learner("fsol", n_features=WIDTH))])


def test_every_algorithm_that_merges_says_how_it_goes_over_to_other_scales():
    for each in algorithms("online"):
        rule = make_learner(
            each.name, n_features=2, **MERGED.get(each.name, {"p": 3.0} if each.name == "SMIDAS" else {})
        )
        declared = rule.rule.merge_rule()
        assert (declared.powers is not None) == (each.name in MERGED), each.name
        assert set(declared.powers or {}) <= set(each.coordinate._fields)


def test_estimators_merge():
    a = ts.AROW(scale="max").fit(_dense(rows(40, 1)), rows(40, 1).y)
    b = ts.AROW(scale="max").fit(_dense(rows(40, 2, 8.0)), rows(40, 2).y)
    both = a.merge(b)
    assert (both.scale, both.t_) == ("max", 80)
    assert np.array_equal(both.coef_, b.merge(a).coef_)
