"""What holds for every algorithm alike, whatever its rule: checked over `ts.algorithms()`, most of it bit for bit."""

import copy
import pickle
import threading
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import thinstream as ts
from tests.algorithms.online.conformance import TOLERANCE, Stream, assert_same_bits, class_weights, run_twin, streams
from tests.algorithms.online.golden import twins
from thinstream.engine.memory import field_views
from thinstream.errors import InvalidInputError, NumericalError
from thinstream.jit import specialisations

NAMES = [algorithm.name for algorithm in ts.algorithms("online")]
TWINS = twins()

every = pytest.mark.parametrize("name", NAMES)
few = settings(
    max_examples=max(10, settings.default.max_examples // 8),
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


class Case(NamedTuple):
    """A random setting of one algorithm, and a stream."""

    name: str
    stream: Stream
    parameters: dict[str, Any]
    class_weight: Any

    @property
    def options(self) -> dict[str, Any]:
        weights = self.class_weight
        if isinstance(weights, tuple):
            weights = dict(zip((-1, 1), weights, strict=True))
        return {"class_weight": weights, "dtype": "float64", **self.parameters}

    def model(self, **changed: Any) -> Any:
        return ts.make(self.name, **{"fit_intercept": False} | self.options | changed)

    def run(self, X: Any = None, y: Any = None, weights: Any = "own", **changed: Any) -> Any:
        """The model after two passes over the stream, or over what is given in place of its parts."""
        model, s = self.model(**changed), self.stream
        X, y = s.X if X is None else X, s.y if y is None else y
        for _ in range(2):
            scores = model.learn(
                X, y, classes=[-1, 1], sample_weight=s.weights if isinstance(weights, str) else weights
            )
        model.last_scores = scores
        return model

    def no_edge(self, X: Any = None) -> bool:
        """Whether no decision was so close that another order of summing might turn it."""
        stream = self.stream if X is None else self.stream._replace(X=X)
        naive = run_twin(TWINS[self.name][0], stream, self.parameters, self.class_weight)
        return naive.edge > 1e-9 * (1.0 + np.abs(naive.scores).max())


@st.composite
def cases(draw: Any, name: str, without: tuple[str, ...] = ()) -> Case:
    """Some setting; parameters named in ``without`` keep their defaults."""
    strategies = {key: value for key, value in TWINS[name][1].items() if key not in without}
    return Case(name, draw(streams()), draw(st.fixed_dictionaries(strategies)), draw(class_weights))


def draw_case(data: Any, name: str, **options: Any) -> Case:
    return data.draw(cases(name, **options))


# Symmetries -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name != "SOFS"])  # which breaks ties by index
@few
@given(data=st.data())
def test_permuting_features_permutes_weights(name, data):
    """Features have no order but that of summing."""
    case = draw_case(data, name)
    assume(case.no_edge())
    order = np.random.default_rng(data.draw(st.integers(0, 99))).permutation(case.stream.X.shape[1])
    plain, permuted = case.run(), case.run(case.stream.X[:, order])
    np.testing.assert_allclose(permuted.coef_, plain.coef_[:, order], **TOLERANCE)
    np.testing.assert_allclose(permuted.cumulative_loss_, plain.cumulative_loss_, **TOLERANCE)
    assert (permuted.n_mistakes_, permuted.n_updates_) == (plain.n_mistakes_, plain.n_updates_)


@every
@few
@given(data=st.data())
def test_turning_features_turns_weights(name, data):
    """A column times −1 is a weight times −1, exactly."""
    case = draw_case(data, name)
    signs = np.random.default_rng(data.draw(st.integers(0, 99))).choice([-1.0, 1.0], case.stream.X.shape[1])
    plain, turned = case.run(), case.run(case.stream.X * signs)
    np.testing.assert_array_equal(turned.coef_, plain.coef_ * signs)
    np.testing.assert_array_equal(turned.last_scores, plain.last_scores)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("Perceptron", "CPA", "SOP")])
@few
@given(data=st.data())
def test_turning_labels_turns_weights(name, data):
    """Without costs the classes are alike, exactly; but to learners that update on ŷ ≠ y, as sign(0) is −1."""
    case = draw_case(data, name)
    plain, turned = case.run(class_weight=None), case.run(y=-case.stream.y, class_weight=None)
    np.testing.assert_array_equal(turned.coef_, -plain.coef_)
    assert (turned.cumulative_loss_, turned.n_updates_) == (plain.cumulative_loss_, plain.n_updates_)


# Weights of classes and rows ------------------------------------------------------------------------------------------


@every
@few
@given(data=st.data())
def test_unit_costs_are_no_costs(name, data):
    """A class_weight of ones is None, bit for bit."""
    case = draw_case(data, name)
    assert_same_bits(case.run(class_weight={-1: 1.0, 1: 1.0}), case.run(class_weight=None))


@every
@few
@given(data=st.data())
def test_unit_weights_are_no_weights(name, data):
    """A sample_weight of ones is None, bit for bit; so is the number 1."""
    case = draw_case(data, name)
    plain = case.run(weights=None)
    assert_same_bits(case.run(weights=np.ones(len(case.stream.y))), plain)
    assert_same_bits(case.run(weights=1), plain)


@every
@few
@given(data=st.data())
def test_row_of_weight_zero_is_absent(name, data):
    """Leaving a row out and giving it weight 0 is the same, bit for bit; its score is the decision function."""
    case = draw_case(data, name)
    s, kept = case.stream, np.random.default_rng(data.draw(st.integers(0, 99))).random(len(case.stream.y)) < 0.6
    assume(kept.any())
    weights = np.ones(len(s.y)) if s.weights is None else np.where(s.weights == 0, 2.0, s.weights)
    model = case.run(weights=np.where(kept, weights, 0.0))
    assert_same_bits(model, case.run(s.X[kept], s.y[kept], weights=weights[kept]))
    scores = model.learn(s.X, s.y, sample_weight=0)
    np.testing.assert_array_equal(scores, model.decision_function(s.X))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("CSOGD", "ARCSOGD", "PAUM", "CPA", "CW")])
@few
@given(data=st.data(), factor=st.floats(0.25, 4.0))
def test_sample_weight_acts_as_costs_do(name, data, factor):
    """The same weight on every row and on both classes is the same, bit for bit.

    Not where costs set the margin, nor for hard constraints (CW, plain PA), to which only their ratio matters.
    """
    case = draw_case(data, name)
    assume(case.parameters.get("variant") != "PA")
    one = case.run(weights=factor, class_weight=None)
    assert_same_bits(one, case.run(weights=None, class_weight={-1: factor, 1: factor}))


# Calls ----------------------------------------------------------------------------------------------------------------


@every
@few
@given(data=st.data())
def test_reading_changes_nothing(name, data):
    """Whatever is read between two calls, the model goes on with the same bits."""
    case = draw_case(data, name)
    one, other, s = case.model(), case.model(), case.stream
    for i in range(len(s.y)):
        weight = None if s.weights is None else s.weights[i : i + 1]
        for model in (one, other):
            model.learn(s.X[i : i + 1], s.y[i : i + 1], classes=[-1, 1], sample_weight=weight)
        other.predict(s.X), other.decision_function(s.X[:1]), other.coef_, other.nnz_, other.intercept_, other.density_
        other.sparsify().coef_, getattr(other, "variance_", None), other.t_, other.n_mistakes_, other.densify()
    assert_same_bits(one, other)


@pytest.mark.parametrize(
    "name", [name for name in NAMES if name not in ("NAG", "SSOL", "SOP")]
)  # x first, then s: [D3], §16
@few
@given(data=st.data())
def test_learn_returns_the_decision_function(name, data):
    """The score a row is learned with is the one it would have been predicted with, bit for bit."""
    case = draw_case(data, name)
    model, s = case.run(), case.stream
    for x, y in zip(s.X, s.y, strict=True):
        assert model.decision_function([x]) == model.learn([x], [y])


@every
@few
@given(data=st.data())
def test_all_ways_to_learn_are_one(name, data):
    """Fit with two passes, partial_fit twice, learn twice, other names of the classes, a clone: the same bits."""
    case = draw_case(data, name)
    s, learned = case.stream, case.run()
    twice = case.model().partial_fit(s.X, s.y, classes=[-1, 1], sample_weight=s.weights)
    twice.partial_fit(s.X, s.y, sample_weight=s.weights)
    assert_same_bits(twice, learned)
    renamed = clone(case.model(class_weight=None))
    for _ in range(2):
        renamed.learn(s.X, np.where(s.y > 0, "spam", "ham"), classes=["ham", "spam"], sample_weight=s.weights)
    assert_same_bits(renamed, case.run(class_weight=None))
    assume(len(np.unique(s.y)) == 2 and (s.weights is None or s.weights.any()))  # what fit needs
    assert_same_bits(case.model(n_passes=2).fit(s.X, s.y, sample_weight=s.weights), learned)
    assert_same_bits(learned.set_params(n_passes=2).fit(s.X, s.y, sample_weight=s.weights), learned)


@every
@few
@given(data=st.data())
def test_copies_go_on_alike(name, data):
    """A model that went through pickle or deepcopy in between ends with the same bits, and does not share them."""
    case = draw_case(data, name)
    s, model = case.stream, case.run()
    copies = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
    before = [array.tobytes() for array in model._model.learner.outputs.one.memory]
    for twin in copies:
        twin.learn(s.X, s.y, sample_weight=s.weights)
    assert [array.tobytes() for array in model._model.learner.outputs.one.memory] == before
    model.learn(s.X, s.y, sample_weight=s.weights)
    for twin in copies:
        assert_same_bits(twin, model)


@every
@few
@given(data=st.data())
def test_chunks_in_float32(name, data):
    """However a stream is cut, the default precision ends with the same bits, or refuses the same row."""
    case = draw_case(data, name, without=("diagonal", "update_on"))
    s = case.stream

    def learned(cuts):
        model = case.model(dtype="float32")
        for a, b in [*pairwise([0, *cuts, len(s.y)])] * 2:
            if a < b:
                weights = None if s.weights is None else s.weights[a:b]
                try:
                    model.learn(s.X[a:b].astype(np.float32), s.y[a:b], classes=[-1, 1], sample_weight=weights)
                except NumericalError:  # CW's variance runs out of float32 where labels contradict each other
                    break
        return model

    whole = learned([])
    assert whole._model.learner.outputs.one.memory.state.dtype == whole.coef_.dtype == np.float32
    for cuts in (s.cuts, list(range(len(s.y)))):
        assert_same_bits(learned(cuts), whole)


# Inputs ---------------------------------------------------------------------------------------------------------------


def untidy(X: np.ndarray, rng: np.random.Generator) -> sp.csr_matrix:
    """X with its rows unsorted, some values in two halves, and some zeros stored."""
    rows, cols = np.nonzero(X)
    halves = np.flatnonzero(rng.random(len(rows)) < 0.5)
    zero_rows, zero_cols = np.nonzero(X == 0)
    values = X[rows, cols]
    values[halves] /= 2
    rows = np.concatenate([rows, rows[halves], zero_rows])
    cols = np.concatenate([cols, cols[halves], zero_cols])
    values = np.concatenate([values, values[halves], np.zeros(len(zero_rows))])
    order = rng.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(X)))])
    return sp.csr_matrix((values[order], cols[order].astype(np.int32), indptr.astype(np.int32)), shape=X.shape)


@pytest.mark.parametrize("name", ["FSOL", "SSOL", "AdaFOBOS", "SOFS"])
@few
@given(data=st.data())
def test_any_form_of_input(name, data):
    """Sparse of any kind, tidy or not, dense or in a frame, the same rows give the same bits, and stay as they are."""
    case = draw_case(data, name)
    X, plain = case.stream.X, case.run(sp.csr_matrix(case.stream.X))
    messy = untidy(X, np.random.default_rng(data.draw(st.integers(0, 99))))
    kept = messy.copy()
    forms = [messy, sp.csc_matrix(X), sp.coo_matrix(X), sp.csr_array(X), X, np.asfortranarray(X)]
    for form in [*forms, pd.DataFrame(X).rename(columns=str)]:
        assert_same_bits(case.run(form), plain)
    for array in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(messy, array), getattr(kept, array))


def test_other_numbers_are_not_rounded():
    """Lists and whole numbers reach a float64 model with all their digits, as float64 arrays do."""
    whole, y = np.array([[2**24 + 1, 0], [3, 2**40 + 1]]), [1, -1]
    for X in (np.array([[0.1, 0.0], [0.7, 0.3]]), whole.astype(float)):
        plain = ts.FSOL(dtype="float64").fit(X, y)
        assert_same_bits(ts.FSOL(dtype="float64").fit(X.tolist(), y), plain)
    for form in (whole, sp.csr_matrix(whole), pd.DataFrame(whole, columns=["a", "b"])):
        assert_same_bits(ts.FSOL(dtype="float64").fit(form, y), plain)


@pytest.mark.parametrize("name", ["FSOL", "SOFS"])
@few
@given(data=st.data())
def test_long_indices(name, data):
    """Indices of 64 bits give the bits those of 32 give, and are learned by the same code."""
    case = draw_case(data, name)
    X = sp.csr_matrix(case.stream.X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    short, known = case.run(), len(specialisations)
    assert_same_bits(case.run(X), short)
    assert not any("Rows(" in kinds for _, kinds, _ in specialisations[known:])


@pytest.mark.parametrize("fit", ["fit", "learn"])
def test_an_index_beyond_32_bits_is_not_cut_off(fit):
    X = sp.csr_matrix(([1.0, 1.0], [0, 0], [0, 1, 2]), (2, 4))
    X.indices = np.array([0, 2**32 + 1])
    with pytest.raises(InvalidInputError, match=r"from 0 to 3 \(4 features\), got 4294967297 in row 1"):
        getattr(ts.FSOL(), fit)(X, [0, 1])


@pytest.mark.slow
def test_rows_wider_than_32_bits():
    """Their indices need all 64; memory of what does not occur is never touched."""
    wide = 2**31 + 5
    X = sp.csr_array(([1.0, 2.0, -1.0], [3, wide - 1, wide - 2], [0, 2, 3]), (2, wide))
    narrow = sp.csr_array(([1.0, 2.0, -1.0], [0, 2, 1], [0, 2, 3]), (2, 3))
    scores = [ts.FSOL(eta=0.5, fit_intercept=False).learn(rows, [0, 1], classes=[0, 1]) for rows in (X, narrow)]
    assert scores[0].tolist() == scores[1].tolist()


@every
@few
@given(data=st.data())
def test_intercept_is_a_constant_feature(name, data):
    """fit_intercept is a first column of ones, bit for bit, and a last one to rounding."""
    case = draw_case(data, name, without=("max_density",))
    X, ones = case.stream.X, np.ones((len(case.stream.X), 1))
    model, first = case.run(fit_intercept=True), case.run(np.hstack([ones, X]))
    assert_same_bits(model, first)
    assert model.intercept_[0] == first.coef_[0, 0]
    np.testing.assert_array_equal(model.coef_[0], first.coef_[0, 1:])
    np.testing.assert_array_equal(model.decision_function(X), first.decision_function(np.hstack([ones, X])))
    if name != "SOFS" and case.no_edge(np.hstack([X, ones])):
        last = case.run(np.hstack([X, ones]))
        np.testing.assert_allclose(last.coef_[0], [*model.coef_[0], *model.intercept_], **TOLERANCE)


@every
@few
@given(data=st.data())
def test_growing_is_as_if_wide_from_the_start(name, data):
    """Features that come later find what they would have found, bit for bit; narrow rows are rows with zeros."""
    case = draw_case(data, name, without=("max_density",))
    s, edges = case.stream, [0, *case.stream.cuts, len(case.stream.y)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    intercept = data.draw(st.booleans())
    growing, wide = (case.model(grow=grow, fit_intercept=intercept) for grow in (True, False))
    for a, b in pairwise(edges):
        if a < b:
            width = rng.integers(1, s.X.shape[1] + 1)
            padded = np.where(np.arange(s.X.shape[1]) < width, s.X[a:b], 0.0)
            weights = None if s.weights is None else s.weights[a:b]
            growing.learn(s.X[a:b, :width], s.y[a:b], classes=[-1, 1], sample_weight=weights)
            wide.learn(padded, s.y[a:b], classes=[-1, 1], sample_weight=weights)
    n = growing._model.learner.n_features + intercept
    one, other = (
        field_views(m._model.learner.algorithm, m._model.learner.outputs.one.memory, 0, n) for m in (growing, wide)
    )
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()
    for a, b in zip(
        growing._model.learner.outputs.one.memory[2:], wide._model.learner.outputs.one.memory[2:], strict=True
    ):
        assert a.tobytes() == b.tobytes()
    known = np.where(np.arange(s.X.shape[1]) < growing.n_features_in_, s.X, 0.0)
    np.testing.assert_array_equal(growing.decision_function(s.X), wide.decision_function(known))


def test_threads_take_turns_to_learn():
    """Calls that overlap would lose the rows of all but one."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.normal(size=(20_000, 30)).astype(np.float32))
    y = np.where(rng.random(20_000) < 0.5, 1, -1)
    model = ts.FSOL().partial_fit(X[:1], y[:1], classes=[-1, 1])
    threads = [threading.Thread(target=lambda: [model.partial_fit(X, y) for _ in range(5)]) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert model.t_ == 1 + 4 * 5 * 20_000
    assert pickle.loads(pickle.dumps(model)).t_ == model.t_
