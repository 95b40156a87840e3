"""SCD against its definition, and its optimum against the conditions of one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st

import thinstream as ts
from tests.algorithms.batch.naive import naive_scd, scd_objective
from tests.algorithms.online.conformance import Stream, class_weights, streams
from tests.algorithms.online.golden import stream as golden_stream
from thinstream.errors import InvalidInputError, InvalidParameterError

both_classes = streams().filter(lambda s: len(np.unique(s.y[_seen(s)])) == 2)


def _seen(stream: Stream) -> np.ndarray:
    return np.ones(len(stream.y), bool) if stream.weights is None else stream.weights > 0


def costs(stream: Stream, class_weight) -> np.ndarray:
    """Of each row: given, or n₋/n₊ for positives."""
    y, seen = stream.y, _seen(stream)
    balanced = (1.0, max(np.sum(seen & (y < 0)), 1) / max(np.sum(seen & (y > 0)), 1))
    negative, positive = {None: (1.0, 1.0), "balanced": balanced}.get(class_weight, class_weight)
    return np.where(y > 0, positive, negative) * (1.0 if stream.weights is None else stream.weights)


def as_dict(class_weight):
    return dict(zip((-1, 1), class_weight, strict=True)) if isinstance(class_weight, tuple) else class_weight


@pytest.mark.twin
@given(stream=both_classes, l1=st.floats(0.0, 0.3), beta=st.floats(0.1, 4.0), cw=class_weights, data=st.data())
def test_scd(stream, l1, beta, cw, data):
    """Weights and objective after any sequence of coordinates, an intercept as a last column, dense and sparse."""
    intercept = data.draw(st.booleans())
    X = np.hstack([stream.X, np.ones((len(stream.y), 1))]) if intercept else stream.X
    order = data.draw(st.lists(st.integers(0, X.shape[1] - 1), max_size=40))
    c = costs(stream, cw)
    expected = naive_scd(X, stream.y, order, l1, beta, c)
    for form in (stream.X, sp.csc_matrix(stream.X)):
        model = ts.SCD(l1=l1, beta=beta, coordinates=order, class_weight=as_dict(cw), fit_intercept=intercept)
        model.fit(form, stream.y, sample_weight=stream.weights)
        found = np.append(model.coef_[0], model.intercept_ if intercept else [])
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(model.objective_, scd_objective(X, stream.y, expected, l1, c), rtol=1e-9)
        assert model.nnz_ == np.count_nonzero(model.coef_)
        assert model.t_ == np.count_nonzero(_seen(stream))


@given(stream=both_classes, l1=st.floats(0.0, 0.3), seed=st.integers(0, 99))
def test_no_step_raises_the_objective(stream, l1, seed):
    """With β = max x²/4 and more."""
    X, order = stream.X, np.random.default_rng(seed).integers(stream.X.shape[1], size=30)
    beta = max(0.25 * np.max(X**2), 1e-6)
    values = [ts.SCD(l1=l1, beta=beta, coordinates=order[:k]).fit(X, stream.y).objective_ for k in range(0, 31, 6)]
    assert np.all(np.diff(values) <= 1e-12)


@given(stream=both_classes, share=st.floats(0.1, 0.99) | st.floats(1.01, 1.2))
def test_the_optimum_meets_its_conditions(stream, share):
    """|∂ℓ/∂w_j| ≤ λ, with the sign of w_j and equality where it is not 0; nothing at all from max|∂ℓ(0)| on."""
    squares, y = np.mean(stream.X**2, axis=0), stream.y
    X = stream.X / np.sqrt(np.where(squares > 0, squares, 1.0))  # columns of the same curvature, 1/4
    assume(np.any(X.T @ y))
    most = np.max(np.abs(X.T @ y)) / (2 * len(y))
    model = ts.SCD(l1=share * most, n_epochs=2000, random_state=0).fit(X, y)
    if share >= 1.0:
        assert model.nnz_ == 0
    w = model.coef_[0]
    gradient = -X.T @ (y / (1.0 + np.exp(y * (X @ w)))) / len(y)
    np.testing.assert_allclose(gradient[w != 0], -share * most * np.sign(w[w != 0]), atol=1e-2 * most)
    assert np.all(np.abs(gradient) <= share * most + 1e-2 * most)


def test_coordinates_are_drawn_from_the_seed():
    X, y, *_ = golden_stream()
    models = [ts.SCD(random_state=seed).fit(X, y).coef_ for seed in (1, 1, 2)]
    np.testing.assert_array_equal(models[0], models[1])
    assert not np.array_equal(models[0], models[2])


GOLDEN = {"nnz": 33, "weights": 4.926237336443249, "objective": 0.5866860306601582}


@pytest.mark.twin
def test_golden_numbers():
    """Neither the twin nor the library may drift."""
    X, y, *_ = golden_stream()
    order = np.tile(np.arange(50), 3)
    twin, model = naive_scd(X, y, order, 0.01, 0.25), ts.SCD(l1=0.01, coordinates=order).fit(X, y)
    for w in (twin, model.coef_[0]):
        found = {"nnz": np.count_nonzero(w), "weights": np.abs(w).sum(), "objective": scd_objective(X, y, w, 0.01)}
        assert found == pytest.approx(GOLDEN, rel=1e-9)


def test_a_stream_is_the_matrix(tmp_path):
    X, y, *_ = golden_stream()
    lines = [f"{label:+g} " + " ".join(f"{j + 1}:{x[j]!r}" for j in np.flatnonzero(x)) for x, label in zip(X, y)]
    (tmp_path / "a.svm").write_text("\n".join(lines).replace("np.float64(", "").replace(")", "") + "\n")
    order = list(range(50)) * 2
    stream = ts.open_stream(tmp_path / "a.svm", dtype="float64")
    model, other = ts.SCD(coordinates=order).fit_stream(stream), ts.SCD(coordinates=order).fit(X, y)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-12)
    assert model.classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"l1": -1.0}, "SCD: l1 must be a number ≥ 0, got -1.0"),
        ({"beta": 0.0}, "SCD: beta must be a number > 0, got 0.0"),
        ({"n_epochs": 0}, "SCD: n_epochs must be a whole number ≥ 1, got 0"),
        ({"fit_intercept": 1}, "SCD: fit_intercept must be True or False, got 1"),
        ({"coordinates": [0.5]}, r"SCD: coordinates must be a sequence of whole numbers, or None, got \[0.5\]"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        ts.SCD(**parameters).fit([[1.0], [2.0]], [0, 1])


def test_coordinates_must_exist():
    with pytest.raises(InvalidInputError, match="SCD: coordinates must be from 0 to 0, got 1"):
        ts.SCD(coordinates=[0, 1]).fit([[1.0], [2.0]], [0, 1])


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = ts.SCD(coordinates=[0]).fit([[1.0], [2.0]], [0, 1])
    before = model.coef_.copy()
    with pytest.raises(InvalidInputError, match="NaN"):
        model.fit([[np.nan, 1.0], [2.0, 1.0]], [0, 1])
    np.testing.assert_array_equal(model.coef_, before)
    assert model.n_features_in_ == 1
