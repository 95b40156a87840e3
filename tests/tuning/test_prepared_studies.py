"""Lanes on prepared rows: prepared once for all, each model the one of a run of its own."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import thinstream as ts
from thinstream.data.in_memory import from_memory
from thinstream.tuning.sparsity_path import Sweep, sweep_stream
from thinstream.tuning.study import Study, StudyConfig, Trial

KINDS = [("max", None), ("rms", None), (None, "l2"), ("rms", "l2"), ("idf", "l2")]


def made(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.6)
    y = np.where(X @ rng.normal(size=8) + 0.3 * rng.normal(size=n) > 0, 1, -1)
    return sp.csr_matrix(X * 10.0 ** np.arange(-4, 4)), y


def batches(X, y, cuts=(0, 130, 131, 400), weights=None):
    for a, b in pairwise(cuts):
        (batch,) = from_memory(X[a:b], y[a:b], None if weights is None else weights[a:b]).batches()
        yield batch


@pytest.mark.parametrize("kind", KINDS)
def test_a_lane_is_the_model_of_a_run_of_its_own(kind):
    X, y = made()
    weights = np.random.default_rng(2).choice([0.0, 1.0, 2.0], 400)
    trials = [Trial({"eta": eta}, fit_intercept=True) for eta in (0.1, 1.0)]
    study = Study(StudyConfig("fsol", scale=kind[0], normalize=kind[1]), trials)
    for batch in batches(X, y, weights=weights):
        study.take(batch)
    given = dict(zip(("scale", "normalize"), kind, strict=True))
    for lane, trial in enumerate(trials):
        single = ts.FSOL(**trial.parameters, **given).fit(X, y, weights)
        model = study.model(lane)
        assert model.weights().tobytes() == single.coef_.tobytes()
        (batch,) = batches(X, y, (0, 400))
        assert study.scores(batch)[:, lane].tobytes() == single.decision_function(X).tobytes()
        assert model.scores(batch).tobytes() == single.decision_function(X).tobytes()
    study.model(0).learn(next(batches(X, y)))  # a copy, scales included
    assert study.model(0).weights().tobytes() == ts.FSOL(eta=0.1, **given).fit(X, y, weights).coef_.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_without_folds_is_progressive_validation(kind):
    X, y = made()
    given = dict(zip(("scale", "normalize"), kind, strict=True))
    search = ts.OnlineGridSearchCV(ts.FSOL(**given), {"eta": [0.1, 1.0]}, cv=None).fit(X, y)
    for eta, progressive in zip((0.1, 1.0), search.cv_results_["progressive_score"], strict=True):
        assert progressive == 1.0 - ts.FSOL(eta=eta, **given).fit(X, y).n_mistakes_ / 400
    best = ts.FSOL(**search.best_params_, **given).fit(X, y)
    assert search.best_estimator_.coef_.tobytes() == best.coef_.tobytes()
    assert search.best_estimator_.get_params()["scale"] == kind[0]
    search.best_estimator_.partial_fit(X, y)
    folded = ts.OnlineGridSearchCV(ts.FSOL(**given), {"eta": [0.1, 1.0]}, held_out="final").fit(X, y)
    best = ts.FSOL(**folded.best_params_, **given).fit(X, y)
    assert folded.best_estimator_.coef_.tobytes() == best.coef_.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_a_path(kind):
    X, y = made()
    given = dict(zip(("scale", "normalize"), kind, strict=True))
    path = ts.SparsityPath(ts.FSOL(**given), n=4, l1_min=0.1, l1_max=500.0, scoring="error").fit(X, y)
    for model in path.models_:
        single = ts.FSOL(l1=model.l1, **given).fit(X, y)
        assert model.coef_.tobytes() == single.coef_.tobytes()
        assert model.decision_function(X).tobytes() == single.decision_function(X).tobytes()


def test_models_of_a_path_in_several_passes_have_weights_and_scales():
    X, y = made()
    stream = from_memory(X, y)
    config = StudyConfig("fsol", scale="max", memory=3000, n_features=8)
    path = sweep_stream(stream, config, Trial({}), Sweep(20, 0.1, 5.0))
    assert path.passes > 1
    single = ts.FSOL(l1=float(path.l1[3]), scale="max", fit_intercept=False).fit(X, y)
    model = path.model(3)
    assert model.weights_only
    assert model.weights().tobytes() == single.coef_.tobytes()


def test_scale_cannot_be_searched():
    X, y = made()
    with pytest.raises(ts.errors.InvalidParameterError, match="can be searched, got 'scale'"):
        ts.OnlineGridSearchCV(ts.FSOL(), {"scale": [None, "max"]}).fit(X, y)
