"""Merging as estimators have it: shards of a stream, names of features, copies."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

import thinstream as ts
from tests.models.test_merging import MERGEABLE, same_bits
from thinstream.datasets import sparse_gaussian
from thinstream.errors import InvalidParameterError, MergeError


@pytest.mark.parametrize("name", MERGEABLE)
def test_merged_shards_predict_no_worse_than_a_shard(name):
    """Two halves of a stream; the estimators' face, defaults, float32; the merged model is saved and goes on."""
    train, test = sparse_gaussian(3_000, 1_000, n_features=300, n_informative=50, n_noise=60, seed=1)
    parameters = {"diagonal": "exact"} if name == "SSOL" else {}
    shards = [ts.make(name, **parameters) for _ in range(2)]
    for k, shard in enumerate(shards):
        shard.partial_fit(train.X[k:2_000:2], train.y[k:2_000:2], classes=[-1, 1])
    model = shards[0].merge(shards[1])
    apart = np.mean([shard.score(test.X, test.y) for shard in shards])
    assert model.score(test.X, test.y) > apart - 0.01
    assert model.t_ == 2_000
    saved = pickle.loads(pickle.dumps(model))
    for one in (model, saved):
        one.partial_fit(train.X[2_000:], train.y[2_000:])
    assert same_bits(model._model.learner.outputs.one, saved._model.learner.outputs.one)
    assert model.score(test.X, test.y) > apart - 0.01


def test_estimators_must_agree_in_what_learners_do_not_know():
    """Classes, columns, names, growth, unchanged parameters."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    model = ts.FSOL().fit(X, [0, 1])
    for other, message in (
        (ts.FSOL().fit(X, [0, 2]), r"must agree in classes, got \[0, 1\] and \[0, 2\]"),
        (ts.FSOL(eta=2).fit(X, [0, 1]), r"must agree in eta, got 1.0 and 2"),
        (ts.PA().fit(X, [0, 1]), "must agree in algorithm, got 'FSOL' and 'PA'"),
        (ts.FSOL(class_weight="balanced").fit(X, [0, 1]), "must agree in class costs, got '1.0 : 1.0' and 'balanced'"),
        (ts.FSOL(grow=True).fit(X, [0, 1]), "must agree in grow, got False and True"),
        (ts.FSOL().fit([[1.0], [2.0]], [0, 1]), "must agree in n_features_in_, got 2 and 1"),
        (ts.FSOL().fit(pd.DataFrame(X, columns=["a", "b"]), [0, 1]), "feature names or none"),
        ("model", "FSOL can only be merged with the same kind of estimator, got 'model'"),
    ):
        with pytest.raises(MergeError, match=message):
            model.merge(other)
    with pytest.raises(ValueError, match="not fitted"):
        model.merge(ts.FSOL())
    with pytest.raises(InvalidParameterError, match="eta was changed"):
        model.merge(ts.FSOL().fit(X, [0, 1]).set_params(eta=3.0))
    with pytest.raises(MergeError, match="SSOL cannot be merged"):
        ts.SSOL().fit(X, [0, 1]).merge(ts.SSOL().fit(X, [0, 1]))
    assert ts.SSOL().fit(X, [0, 1]).merge(ts.SSOL().fit(X, [0, 1]), average=True).t_ == 4


def test_growing_estimators_keep_the_longer_names():
    """Names agree as far as each goes."""
    frame = pd.DataFrame([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]], columns=["a", "b", "c"])
    wide, narrow = (ts.FSOL(grow=True).fit(X, ["ham", "spam"]) for X in (frame, frame[["a", "b"]]))
    model = narrow.merge(wide, copy.deepcopy(narrow))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    assert model.predict(frame).tolist() == ["ham", "spam"]
    assert model.partial_fit(frame, ["ham", "spam"]).t_ == 8
    assert narrow.n_features_in_ == 2
    with pytest.raises(MergeError, match="agree in feature names, got 'b' and 'c' for column 1"):
        wide.merge(ts.FSOL(grow=True).fit(frame[["a", "c"]], ["ham", "spam"]))


def test_a_merged_estimator_is_its_own():
    """Learning on changes none of the parts, and the parts' learning not the whole."""
    X = [[1.0, 0.0], [0.0, 1.0]]
    one, other = (ts.AROW(class_weight="balanced").fit(X, [0, 1]) for _ in range(2))
    model = one.merge(other)
    before = model.coef_.copy()
    one.partial_fit(X, [1, 0])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(X, [1, 0])
    assert (one.t_, other.t_, model.t_) == (4, 2, 6)
