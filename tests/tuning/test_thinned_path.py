"""Beside each model of a sparsity path: the densest one, thinned to as many weights."""

import numpy as np

from tests.models.naive_thin import kept
from tests.tuning.sweeps import WIDTH, drawn, streamed
from thinstream.lanes.learner import Learner
from thinstream.tuning.figures import path_table
from thinstream.tuning.sparsity_path import Sweep, sweep_stream
from thinstream.tuning.study import StudyConfig, Trial

X, Y = drawn()
RANGE = Sweep(6, 0.02, 200.0)


def swept(sweep=RANGE, **more):
    return sweep_stream(streamed(X, Y), StudyConfig("fsol"), Trial({"eta": 0.5}), sweep, **more)


def error(weights, X, y):
    return ((X @ weights > 0) != (y > 0)).mean()


def test_held_out_rows_are_scored_by_a_model_that_never_learned_them():
    held = np.arange(len(Y)) % 10 == 9
    (batch,) = streamed(X, Y, (~held).astype(float), size=len(Y)).batches()
    twin = Learner("fsol", n_features=WIDTH, eta=0.5, l1=RANGE.l1_min)
    twin.learn(batch)
    path = swept()
    for k, n in enumerate(path.nnz.tolist()):
        small = kept(twin.weights(), np.abs(twin.weights()), n)
        assert path.thinned[k] == error(small, X[held], Y[held])
    assert len(set(path.thinned.tolist())) > 3
    assert path_table(path).head[-1] == "thinned error %"


def test_on_other_rows_it_is_the_model_itself():
    other, labels = drawn(300, seed=4)
    path = swept(test=streamed(other, labels))
    dense = path.model(0).weights()
    for k, n in enumerate(path.nnz.tolist()):
        assert path.columns()["held_out_thinned_error"][k] == error(kept(dense, np.abs(dense), n), other, labels)


def test_without_such_rows_there_is_none():
    path = swept(RANGE._replace(holdout=0))
    assert path.thinned is None
    assert np.isnan(path.columns()["held_out_thinned_error"]).all()
    assert "thinned error %" not in path_table(path).head
