"""Random streams, cut into batches and calls, and both sides run on them."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

import thinstream as ts

#: Batches are dearer than rows: a third of the usual examples.
fewer = settings(max_examples=max(10, settings.default.max_examples // 3))
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
positive = st.floats(0.05, 4.0)
losses = st.sampled_from(["hinge", "squared_hinge"])
class_weights = st.one_of(st.none(), st.just("balanced"), st.tuples(st.floats(0.25, 3.0), st.floats(0.25, 3.0)))


@st.composite
def streams(draw, rows=30, features=12):
    """X, y, weights (None or some of them 0), cuts of the rows into calls."""
    n, d = draw(st.integers(1, rows)), draw(st.integers(1, features))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.15, 0.4, 0.9])))
    X *= draw(st.sampled_from([0.3, 1.0, 3.0]))
    y = np.where(rng.random(n) < draw(st.sampled_from([0.2, 0.5])), 1.0, -1.0)
    weights = rng.choice([0.0, 0.5, 1.0, 2.5], size=n) if draw(st.booleans()) else None
    return X, y, weights, sorted(rng.integers(0, n + 1, size=rng.integers(0, 4)).tolist())


def batches(X, y, weights, size):
    """The rows that count, in batches of that size, the last perhaps smaller."""
    weights = np.ones(len(y)) if weights is None else weights
    X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
    return [(X[i : i + size], y[i : i + size], weights[i : i + size]) for i in range(0, len(y), size)]


def make(name, class_weight, **parameters):
    if isinstance(class_weight, tuple):
        class_weight = dict(zip((-1.0, 1.0), class_weight, strict=True))
    return ts.make(name, class_weight=class_weight, **{"dtype": "float64", **parameters})


def in_calls(model, X, y, weights, cuts, form):
    """``learn`` call by call, rows dense or sparse, then ``flush``; the scores it returned."""
    scores = []
    for a, b in pairwise([0, *cuts, len(y)]):
        if a < b:
            rows = sp.csr_matrix(X[a:b]) if form == "sparse" else X[a:b]
            some = None if weights is None else weights[a:b]
            scores.append(model.learn(rows, y[a:b], classes=[-1.0, 1.0], sample_weight=some))
    model.flush()
    return np.concatenate(scores)


def state(model):
    """All of a model's state, as bytes."""
    return {name: (array.shape, array.tobytes()) for name, array in model._model.learner.outputs.one.arrays().items()}


def assert_like(model, twin, tolerance=TOLERANCE):
    np.testing.assert_allclose(model.coef_[0], twin.w, **tolerance)
    assert model.t_ == twin.t
    assert model.n_mistakes_ == twin.mistakes
    assert model.n_updates_ == twin.updates
    np.testing.assert_allclose(model.cumulative_loss_, twin.loss, **tolerance)
    if hasattr(twin, "variance"):
        np.testing.assert_allclose(model.variance_, twin.variance(), **tolerance)
