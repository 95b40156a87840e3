"""Prepared learners against the definition, for every algorithm; the same bits however the stream is cut."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.online.conformance import TOLERANCE, class_weights, streams
from tests.algorithms.online.golden import twins
from tests.models.naive_preparation import PreparedTwin
from thinstream.batch import Batch
from thinstream.models.preparation import side_by_side

TWINS = dict(twins())


class NaiveSOFS(TWINS["SOFS"][0]):
    """Values that scaling makes equal differ by a rounding elsewhere: no tie of features seen is a true one."""

    def cut(self):
        super().cut()
        order = sorted(range(self.d), key=lambda j: (self.sigma[j], j))
        for j in order[: self.B]:
            for k in order[self.B :]:
                if self.past[j] or self.past[k]:
                    self.edge = min(self.edge, abs(self.sigma[j] - self.sigma[k]))


TWINS["SOFS"] = (NaiveSOFS, TWINS["SOFS"][1])
#: Compiled every day; the others are interpreted every day.
COMPILED = ("FSOL", "AROW", "StableSparsePerceptron")
#: Of the columns: a feature in metres, one in dollars.
UNITS = np.array([1.0, 1e3, 1e-2, 50.0, 1e5, 7.0, 1e-4, 3.0, 200.0, 0.5])
KINDS = [(scale, normalize) for scale in (None, "max", "rms", "idf") for normalize in (None, "l2")][1:]


def cases():
    for name in TWINS:
        yield pytest.param(name, marks=pytest.mark.twin if name in COMPILED else pytest.mark.interpreted)


def learned(name, X, y, weights, cuts, **options):
    model, scores = ts.make(name, dtype="float64", **options), []
    for a, b in pairwise([0, *cuts, len(y)]):
        if a < b:
            given_weights = None if weights is None else weights[a:b]
            scores.append(model.learn(X[a:b], y[a:b], classes=[-1, 1], sample_weight=given_weights))
    return model, np.concatenate(scores)


@pytest.mark.parametrize("name", list(cases()))
@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], max_examples=40)
@given(data=st.data(), stream=streams(), kind=st.sampled_from(KINDS), intercept=st.booleans(), cost=class_weights)
def test_rows_are_scaled_and_of_unit_length_as_defined(name, data, stream, kind, intercept, cost):
    twin, strategies = TWINS[name]
    parameters = data.draw(st.fixed_dictionaries(strategies))
    if intercept and (name == "StableSparsePerceptron" or name == "SMIDAS"):
        intercept = False  # whose density and p are of the features alone
    scale, normalize = kind
    units = np.ones_like(UNITS) if scale == "idf" else UNITS  # which idf leaves as they are
    rows = stream.X * units[: stream.X.shape[1]]
    naive = PreparedTwin(twin, rows.shape[1], scale, normalize, intercept, class_weight=cost, **parameters)
    for i, (x, y) in enumerate(zip(rows, stream.y, strict=True)):
        naive.learn(x, y, 1.0 if stream.weights is None else stream.weights[i])
    assume(naive.naive.edge > 1e-9 * (1.0 + np.abs(naive.naive.scores).max()))
    weight = dict(zip((-1, 1), cost, strict=True)) if isinstance(cost, tuple) else cost
    options = {**parameters, "class_weight": weight, "fit_intercept": intercept}
    X = sp.csr_matrix(rows)
    model, scores = learned(name, X, stream.y, stream.weights, [], scale=scale, normalize=normalize, **options)
    np.testing.assert_allclose(scores, naive.naive.scores, **TOLERANCE)
    np.testing.assert_allclose(
        model.coef_[0] * units[: rows.shape[1]], naive.coef() * units[: rows.shape[1]], **TOLERANCE
    )
    np.testing.assert_allclose(model.cumulative_loss_, naive.naive.loss, **TOLERANCE)
    assert (model.t_, model.n_mistakes_, model.n_updates_) == (naive.naive.t, naive.naive.mistakes, naive.naive.updates)
    new = np.roll(rows, 1, axis=0) * 3.0  # beyond any scale
    np.testing.assert_allclose(model.decision_function(sp.csr_matrix(new)), [naive.score(x) for x in new], **TOLERANCE)
    for cuts in (stream.cuts, range(len(stream.y))):
        other, again = learned(name, X, stream.y, stream.weights, cuts, scale=scale, normalize=normalize, **options)
        assert_same(model, other)
        assert scores.tobytes() == again.tobytes()


def assert_same(one, other):
    """All bits of two models: memories and scales."""
    one, other = one._model.learner, other._model.learner
    for a, b in zip(one.outputs.one.memory, other.outputs.one.memory, strict=True):
        assert a.tobytes() == b.tobytes()
    if one.preparation.scales is not None:
        assert one.preparation.scales.state.tobytes() == other.preparation.scales.state.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_row_side_by_side_is_as_among_others(dtype):
    indptr, indices = np.array([0, 2, 5]), np.array([1, 4, 0, 2, 3], np.int32)
    kinds = [Batch.of(indptr, indices, (np.arange(1, 6) * factor).astype(dtype), 5) for factor in (1.0, 0.1)]
    both = side_by_side(kinds, 5, np.dtype(dtype))
    for row in range(2):
        one = side_by_side([rows.take(np.array([row])) for rows in kinds], 5, np.dtype(dtype))
        like = both.take(np.array([row]))
        for name in ("indptr", "indices", "values"):
            found, expected = getattr(one, name), getattr(like, name)
            assert found.dtype == expected.dtype
            assert found.tolist() == expected.tolist()
        assert one.n_features == like.n_features == 10
