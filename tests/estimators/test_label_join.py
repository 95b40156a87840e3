"""Labels that come later: the model is that of rows and labels that came together, in the order of the labels."""

import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import assert_same_bits
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.training.delayed_labels import Labelled


def made(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    return sp.csr_matrix(X), np.where(X @ rng.normal(size=d) > 0, "spam", "ham")


CLASSES = ["ham", "spam"]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_it_learns_in_the_order_of_the_labels(seed, dtype):
    X, y = made(seed=seed)
    rng = np.random.default_rng(seed)
    order, weights = rng.permutation(60), rng.choice([0.0, 1.0, 2.0], size=60)
    join = ts.LabelJoin(ts.AROW(dtype=dtype), classes=CLASSES)
    for start in range(0, 60, 20):
        join.predict(range(start, start + 20), X[start : start + 20])
    for start in range(0, 60, 15):
        now = order[start : start + 15]
        assert join.label(now, y[now], weights[now]) == Labelled(15, [], [], [])
    together = ts.AROW(dtype=dtype).partial_fit(X[order], y[order], classes=CLASSES, sample_weight=weights[order])
    assert_same_bits(join.model, together)


@pytest.mark.parametrize("scale", ["max", "rms", "idf"])
def test_rows_wait_with_the_values_their_scales_are_of(scale):
    X, y = made()
    join = ts.LabelJoin(ts.AROW(scale=scale, normalize="l2"), classes=CLASSES)
    join.predict(range(60), X)
    join.label(range(60), y)
    together = ts.AROW(scale=scale, normalize="l2").partial_fit(X, y, classes=CLASSES)
    assert join.model.coef_.tobytes() == together.coef_.tobytes()
    assert len(join) == 0
    assert join.counts == {"predicted": 60, "replaced": 0, "learned": 60, "unknown": 0, "expired": 0, "repeated": 0}


def test_what_does_not_match_is_told_and_counted():
    X, y = made()
    now = [0.0]
    join = ts.LabelJoin(ts.FSOL(), classes=CLASSES, keep=10, seconds=60, clock=lambda: now[0])
    join.predict(range(20), X[:20])
    with pytest.warns(UserWarning, match=r"without a waiting row: 1 unknown \(99\), 1 expired \(3\)"):
        told = join.label([12, 99, 3], y[[12, 0, 3]])
    assert told == Labelled(1, [99], [3], [])
    with pytest.warns(UserWarning, match=r"2 repeated \(12, 13\)"):
        assert join.label([12, 13, 13], y[:3]) == Labelled(1, [], [], [12, 13])
    now[0] = 100.0
    join.unmatched = "ignore"
    assert join.label([14], y[:1]).expired == [14]
    assert len(join) == 0
    join.predict([14, 14, 15], X[:3])
    join.predict([15], X[4:5])
    assert (join.counts["replaced"], len(join)) == (2, 2)
    join.unmatched = "raise"
    before = join.model.coef_.copy()
    with pytest.raises(InvalidInputError, match="nothing was learned"):
        join.label([14, "14"], y[:2])
    np.testing.assert_array_equal(join.model.coef_, before)
    assert join.label([15], y[4:5]).learned == 1


def test_an_error_leaves_everything_as_it_was():
    X, y = made()
    join = ts.LabelJoin(ts.FSOL(), classes=CLASSES)
    join.predict(["a", "b"], X[:2])
    with pytest.raises(InvalidInputError, match=r"labels must be .* got 'eggs'"):
        join.label(["a", "b"], ["ham", "eggs"])
    with pytest.raises(InvalidInputError, match="ids must have one id per row, got 1 ids for 2 rows"):
        join.predict(["c"], X[:2])
    assert (join.model.t_, len(join), join.counts["learned"]) == (0, 2, 0)
    assert join.label(["a"], y[:1]).learned == 1


def test_rows_outlive_the_process(tmp_path):
    X, y = made()
    with_file = ts.LabelJoin(ts.FSOL(), classes=CLASSES, path=tmp_path / "rows.db")
    with_file.predict(range(60), X)
    with_file.close()
    again = ts.LabelJoin(ts.FSOL(), classes=CLASSES, path=tmp_path / "rows.db")
    assert len(again) == 60
    again.model.partial_fit(X[:1], y[:1], classes=CLASSES, sample_weight=[0.0])
    assert again.label(range(60), y).learned == 60
    assert_same_bits(again.model, ts.FSOL().partial_fit(X, y, classes=CLASSES))
    (tmp_path / "other").write_text("these are no rows" * 1000)
    with pytest.raises(InvalidInputError, match="other: rows cannot be kept there"):
        ts.LabelJoin(ts.FSOL(), classes=CLASSES, path=tmp_path / "other")


def test_frames_and_growing_rows():
    frame = pd.DataFrame({"a": [1.0, 0.0], "b": [0.0, 2.0]})
    join = ts.LabelJoin(ts.FSOL(), classes=[0, 1])
    join.predict([1, 2], frame)
    join.label([1, 2], [0, 1])
    assert join.model.predict(frame).tolist() == [0, 1]
    growing = ts.LabelJoin(ts.FSOL(grow=True), classes=[0, 1])
    growing.predict([1], [[1.0]])
    growing.predict([2], [[0.0, 3.0]])
    growing.label([2, 1], [1, 0])
    assert growing.model.n_features_in_ == 2
    assert growing.model.predict([[0.0, 1.0]]).tolist() == [1]


def test_threads_share_it():
    X, y = made(400)
    join = ts.LabelJoin(ts.FSOL(), classes=CLASSES)

    def work(part):
        for i in part:
            join.predict([i], X[i])
            join.label([i], [y[i]])

    threads = [threading.Thread(target=work, args=(range(k, 400, 4),)) for k in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (join.model.t_, join.counts["learned"]) == (400, 400)


def test_bad_parameters():
    with pytest.raises(InvalidParameterError, match="classes= is required"):
        ts.LabelJoin(ts.FSOL())
    with pytest.raises(InvalidParameterError, match="an online estimator"):
        ts.LabelJoin(ts.BCW(), classes=[0, 1])
    with pytest.raises(InvalidParameterError, match="keep must be a whole number ≥ 1, got 0"):
        ts.LabelJoin(ts.FSOL(), classes=[0, 1], keep=0)
    with pytest.raises(InvalidParameterError, match="unmatched must be 'warn', 'raise' or 'ignore'"):
        ts.LabelJoin(ts.FSOL(), classes=[0, 1], unmatched="cry")
    join = ts.LabelJoin(ts.FSOL(), classes=[0, 1])
    for ids, said in (("ab", "a sequence"), ([1.5], "whole numbers or strings"), ([2**63], "fit into 64 bits")):
        with pytest.raises(InvalidInputError, match=said):
            join.predict(ids, [[1.0]])
