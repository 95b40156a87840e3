"""Every algorithm against its naive twin, on random sparse streams drawn by hypothesis."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import thinstream as ts

TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}

#: name → (twin, strategies): filled by `conforms`, read by the tests that go over all algorithms.
TWINS: dict[str, Any] = {}

positive = st.floats(0.05, 4.0)
l1 = st.one_of(st.just(0.0), st.floats(1e-4, 0.5))
class_weights = st.one_of(st.none(), st.just("balanced"), st.tuples(st.floats(0.25, 3.0), st.floats(0.25, 3.0)))


class Stream(NamedTuple):
    """Rows, labels ±1, weights (or None) and the cuts of one of many ways to chunk them."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    cuts: list[int]


@st.composite
def streams(draw: Any) -> Stream:
    """Up to 24 rows of up to 10 features, some empty, some with a single feature; values without accidental ties."""
    n, d = draw(st.integers(1, 24)), draw(st.integers(1, 10))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.15, 0.4, 0.8])))
    X *= draw(st.sampled_from([0.3, 1.0, 3.0]))
    y = np.where(rng.random(n) < draw(st.sampled_from([0.1, 0.5])), 1.0, -1.0)
    weights = rng.choice([0.0, 0.5, 1.0, 2.5], size=n) if draw(st.booleans()) else None
    return Stream(X, y, weights, sorted(rng.integers(0, n + 1, size=rng.integers(0, 4)).tolist()))


def conforms(name: str, twin: Any, **strategies: Any) -> Any:
    """A test that the algorithm equals its twin over two passes, however the stream is cut."""
    TWINS[name] = twin, strategies

    @pytest.mark.twin
    @settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(stream=streams(), parameters=st.fixed_dictionaries(strategies), class_weight=class_weights)
    def test(stream: Stream, parameters: dict[str, Any], class_weight: Any) -> None:
        check(name, twin, stream, parameters, class_weight)

    return test


def check(name: str, twin: Any, stream: Stream, parameters: dict[str, Any], class_weight: Any) -> None:
    """The library and the twin agree on one stream, in every way of cutting it."""
    naive = run_twin(twin, stream, parameters, class_weight)
    assume(naive.edge > 1e-9 * (1.0 + np.abs(naive.scores).max()))
    one_call, scores = run_library(name, stream, parameters, class_weight, cuts=[])
    np.testing.assert_allclose(scores, naive.scores, **TOLERANCE)
    np.testing.assert_allclose(one_call.coef_[0], naive.weights(), **TOLERANCE)
    np.testing.assert_allclose(one_call.cumulative_loss_, naive.loss, **TOLERANCE)
    assert one_call.n_mistakes_ == naive.mistakes
    assert one_call.n_updates_ == naive.updates
    assert one_call.t_ == naive.t
    if hasattr(naive, "variance"):
        np.testing.assert_allclose(one_call.variance_, naive.variance(), **TOLERANCE)
    for cuts in (stream.cuts, list(range(len(stream.y)))):
        assert_same_bits(one_call, run_library(name, stream, parameters, class_weight, cuts)[0])


def run_twin(twin: Any, stream: Stream, parameters: dict[str, Any], class_weight: Any) -> Any:
    naive = twin(stream.X.shape[1], class_weight=class_weight, **parameters)
    for _ in range(2):
        for i, (x, y) in enumerate(zip(stream.X, stream.y, strict=True)):
            naive.learn(x, y, 1.0 if stream.weights is None else stream.weights[i])
    return naive


def run_library(
    name: str, stream: Stream, parameters: dict[str, Any], class_weight: Any, cuts: list[int], dtype: str = "float64"
) -> tuple[Any, np.ndarray]:
    """The estimator and all its scores after two passes, each in the chunks given by the cuts."""
    if isinstance(class_weight, tuple):
        class_weight = dict(zip((-1, 1), class_weight, strict=True))
    options = {"fit_intercept": False, **parameters}
    model = ts.make(name, class_weight=class_weight, dtype=dtype, **options)
    X, edges, scores = sp.csr_matrix(stream.X), [0, *cuts, len(stream.y)], []
    for _ in range(2):
        for a, b in pairwise(edges):
            if a < b:
                weights = None if stream.weights is None else stream.weights[a:b]
                scores.append(model.learn(X[a:b], stream.y[a:b], classes=[-1, 1], sample_weight=weights))
    return model, np.concatenate(scores)


def assert_same_bits(one: Any, other: Any) -> None:
    """Two models are the same model: all arrays of their memories, bit for bit."""
    for a, b in zip(one._model.learner.outputs.one.memory, other._model.learner.outputs.one.memory, strict=True):
        assert a.tobytes() == b.tobytes()
