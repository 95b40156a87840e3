"""Models cut by features: with mini-batches of one row they are the serial run, for every algorithm."""

import pickle
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.distributed.gang import learned, run
from tests.distributed.sources import noisy, rows
from tests.rules.conformance import TOLERANCE, class_weights, run_twin, streams
from tests.rules.golden import twins
from thinstream.batch import Batch
from thinstream.distributed.by_features.blueprint import Blueprint, require_separable
from thinstream.distributed.by_features.loop import split
from thinstream.distributed.by_features.slices import Slice, join_slices
from thinstream.engine.loop import Costs
from thinstream.engine.rows import Rows
from thinstream.errors import InvalidInputError, InvalidParameterError, WeightsOnlyError
from thinstream.learners import Classes, Frozen, Learner, algorithms
from thinstream.learners.memory import field_views
from thinstream.models.model import Model
from thinstream.one_vs_rest import OneVsRest

TWINS = twins()
COUPLED = ("SMIDAS", "SOFS")
SEPARABLE = sorted(set(TWINS) - set(COUPLED))
#: Compiled every day; the others are interpreted.
DAILY = ("FSOL", "SSOL")
some = settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def costs_of(class_weight):
    if class_weight == "balanced":
        return Costs(balanced=True)
    return Costs() if class_weight is None else Costs(*class_weight)


def blueprint_of(learner):
    classes = Classes(-1, 1) if isinstance(learner, Learner) else Classes(*range(len(learner)))
    return Blueprint.of(Model(learner, classes))


def cases(daily=DAILY):
    for name in SEPARABLE:
        yield pytest.param(name, marks=pytest.mark.twin if name in daily else pytest.mark.interpreted)


def close(found, learner):
    """The same model, up to the order of summation."""
    np.testing.assert_allclose(found.weights(), learner.weights(), **TOLERANCE)
    np.testing.assert_allclose(found.intercept, learner.intercept, **TOLERANCE)
    np.testing.assert_allclose(found.memory.totals, learner.memory.totals, **TOLERANCE)
    assert found.memory.counts.tolist() == learner.memory.counts.tolist()
    assert found.n_features == learner.n_features


def same_bits(one, other):
    for a, b in zip(one.models, other.models, strict=True):
        width = a.n_features + a.offset
        for x, y in zip(
            field_views(a.algorithm, a.memory, 0, width), field_views(b.algorithm, b.memory, 0, width), strict=True
        ):
            assert x.tobytes() == y.tobytes()
        assert a.memory.counts.tolist() == b.memory.counts.tolist()
        assert a.memory.totals.tobytes() == b.memory.totals.tobytes()


@pytest.mark.parametrize("name", list(cases()))
@some
@given(data=st.data(), stream=streams(), class_weight=class_weights, size=st.integers(1, 4), intercept=st.booleans())
def test_rows_one_by_one_are_the_serial_run(name, data, stream, class_weight, size, intercept):
    twin, strategies = TWINS[name]
    kinds = () if numba.config.DISABLE_JIT else ("diagonal", "update_on")  # which would be compiled for each
    parameters = data.draw(st.fixed_dictionaries({k: v for k, v in strategies.items() if k not in kinds}))
    naive = run_twin(twin, _with_constant(stream) if intercept else stream, parameters, class_weight)
    assume(naive.edge > 1e-9 * (1.0 + np.abs(naive.scores).max()))
    # the intercept is no feature where a share of the features matters
    assume(not intercept or parameters.get("max_density") is None)
    grow = parameters.get("max_density") is None and data.draw(st.booleans())
    options = {"costs": costs_of(class_weight), "dtype": "float64", "fit_intercept": intercept, "grow": grow}
    serial = Learner(name, n_features=0 if grow else stream.X.shape[1], **options, **parameters)
    blueprint = blueprint_of(serial)
    batches = _cut(stream)
    expected = np.concatenate([serial.learn(batch) for batch in batches])
    parts = learned(blueprint, size, batches)
    for _, scores in parts:
        np.testing.assert_allclose(scores, expected, **TOLERANCE)
        assert scores.tobytes() == parts[0][1].tobytes()
    found = join_slices(blueprint, [part for part, _ in parts])
    close(found, serial)
    if size == 1:
        same_bits(found, serial)


def _with_constant(stream):
    return stream._replace(X=np.hstack([np.ones((len(stream.y), 1)), stream.X]))


def _cut(stream):
    """Two passes, in the stream's chunks."""
    edges = [0, *stream.cuts, len(stream.y)]
    weights = stream.weights
    return [
        rows(stream.X[a:b], stream.y[a:b], None if weights is None else weights[a:b])
        for _ in range(2)
        for a, b in pairwise(edges)
        if a < b
    ]


@pytest.mark.twin
@given(
    indices=st.lists(st.integers(0, 2**45) | st.integers(0, 50), max_size=20, unique=True).map(sorted),
    size=st.integers(1, 130),
    offset=st.integers(0, 1),
    cut=st.integers(0, 20),
)
def test_every_coordinate_belongs_to_one_rank(indices, size, offset, cut):
    cut = min(cut, len(indices))
    indptr, values = np.array([0, cut, len(indices)]), np.arange(1.0, len(indices) + 1)
    every = [[], []]
    for rank in range(size):
        room = len(indices) + 3
        arrays = np.empty(3, np.int64), np.empty(room, np.int64), np.empty(room), np.empty(0, np.int8), np.empty(0)
        out = Rows(*arrays)
        split(indptr, np.array(indices, np.int64), values, rank, size, offset, out)
        for row, (a, b) in enumerate(pairwise(out.indptr.tolist())):
            found = [(int(c) * size + rank, x) for c, x in zip(out.indices[a:b], out.values[a:b], strict=True)]
            assert found == sorted(found)
            every[row] += found
    pairs = [(j + offset, x) for j, x in zip(indices, values.tolist(), strict=True)]
    constant = [(0, 1.0)] * offset
    assert [sorted(row) for row in every] == [constant + pairs[:cut], constant + pairs[cut:]]


# Mini-batches ---------------------------------------------------------------------------------------------------------


def soft(v, a):
    return np.sign(v) * np.maximum(np.abs(v) - a, 0.0)


def naive_fsol(X, y, size, eta, l1):
    """θ of before the mini-batch, thresholds of each row's own round (λ_t = λ/t)."""
    theta, scores, t = np.zeros(X.shape[1]), [], 0
    for start in range(0, len(y), size):
        rows = range(start, min(start + size, len(y)))
        batch = [X[i] @ soft(theta, l1 / (t + k + 1)) for k, i in enumerate(rows)]
        for s, i in zip(batch, rows, strict=True):
            t += 1
            if y[i] * s < 1.0:
                theta = theta + eta * y[i] * X[i]
        scores += batch
    return np.array(scores), soft(theta, l1 / (t + 1))


def naive_arow(X, y, size, r):
    """μ and σ of before the mini-batch decide; each update moves along the σ that it meets."""
    mu, sigma, scores = np.zeros(X.shape[1]), np.ones(X.shape[1]), []
    for start in range(0, len(y), size):
        rows = range(start, min(start + size, len(y)))
        seen = [(X[i] @ mu, X[i] ** 2 @ sigma) for i in rows]
        for (s, v), i in zip(seen, rows, strict=True):
            loss = max(0.0, 1.0 - y[i] * s)
            if loss > 0.0:
                mu = mu + loss / (v + r) * y[i] * sigma * X[i]
                sigma = 1.0 / (1.0 / sigma + X[i] ** 2 / r)
        scores += [s for s, _ in seen]
    return np.array(scores), mu


def naive_ssol(X, y, size, eta, l1, r):
    """σ takes in each row before that is scored, by the v of before the mini-batch; θ is that of before it."""
    theta, sigma, scores, t = np.zeros(X.shape[1]), np.ones(X.shape[1]), [], 0
    for start in range(0, len(y), size):
        rows = range(start, min(start + size, len(y)))
        v, batch = [X[i] ** 2 @ sigma for i in rows], []
        for k, i in enumerate(rows):
            sigma = sigma - (1.0 / r) / (1.0 + v[k] / r) * sigma**2 * X[i] ** 2
            batch.append(X[i] @ soft(sigma * theta, l1 / (t + k + 1)))
        for s, i in zip(batch, rows, strict=True):
            t += 1
            if y[i] * s < 1.0:
                theta = theta + eta * y[i] * X[i]
        scores += batch
    return np.array(scores), soft(sigma * theta, l1 / (t + 1))


NAIVE = [
    ("FSOL", naive_fsol, {"eta": 0.3, "l1": 0.4, "l1_schedule": "inv_t"}),
    ("AROW", naive_arow, {"r": 0.7}),
    ("SSOL", naive_ssol, {"eta": 0.5, "l1": 0.2, "r": 0.8}),
]


@pytest.mark.interpreted
@pytest.mark.parametrize(("name", "naive", "parameters"), NAIVE)
@some
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 3), batch_size=st.integers(1, 9), n=st.integers(1, 40))
def test_mini_batches_are_what_they_are_said_to_be(name, naive, parameters, seed, size, batch_size, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.4)
    y = rng.choice([-1.0, 1.0], n)
    given_parameters = {key: value for key, value in parameters.items() if key != "l1_schedule"}
    scores, weights = naive(X, y, batch_size, **given_parameters)
    blueprint = blueprint_of(Learner(name, n_features=8, dtype="float64", **parameters))
    parts = learned(blueprint, size, [rows(X, y)], batch_size)
    np.testing.assert_allclose(parts[0][1], scores, **TOLERANCE)
    np.testing.assert_allclose(join_slices(blueprint, [part for part, _ in parts]).weights(), weights, **TOLERANCE)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", SEPARABLE)
def test_any_mini_batch_gives_all_ranks_the_same(name):
    """Also rules with totals, clocks and observations: ranks agree bit for bit, and learn something."""
    X, y = noisy()
    serial = Learner(name, n_features=30, dtype="float64", fit_intercept=True, costs=Costs(balanced=True))
    blueprint = blueprint_of(serial)
    parts = learned(blueprint, 3, [rows(X, y)], batch_size=7)
    assert len({scores.tobytes() for _, scores in parts}) == 1
    assert len({part.models[0].memory.totals.tobytes() for part, _ in parts}) == 1
    found = join_slices(blueprint, [part for part, _ in parts])
    serial.learn(rows(X, y))
    assert found.t == serial.t == 300
    assert found.n_mistakes < 1.5 * serial.n_mistakes + 10


@pytest.mark.interpreted
def test_a_model_that_stops_stops_everywhere():
    X, y = noisy()
    serial = Learner("stablesparseperceptron", n_features=30, dtype="float64", max_density=0.4)
    blueprint = blueprint_of(serial)
    parts = learned(blueprint, 2, [rows(X, y)])
    serial.learn(rows(X, y))
    assert serial.t < 300
    close(join_slices(blueprint, [part for part, _ in parts]), serial)


# Slices as data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_worker_has_the_bits_of_the_serial_run(dtype, intercept):
    X, y = noisy(seed=3)
    serial = Learner("ssol", n_features=0, dtype=dtype, grow=True, fit_intercept=intercept, l1=2.0)
    blueprint = blueprint_of(serial)
    ((part, scores),) = learned(blueprint, 1, [rows(X[:70], y[:70]), rows(X[70:], y[70:])])
    assert scores.tobytes() == serial.learn(rows(X, y)).tobytes()
    same_bits(join_slices(blueprint, [part]), serial)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["FSOL", "AROW", "AdaRDA"])
def test_in_single_precision_it_errs_as_often(name):
    X, y = noisy(n=1000, seed=4)
    serial = Learner(name, n_features=30)
    parts = learned(blueprint_of(serial), 3, [rows(X, y)])
    serial.learn(rows(X, y))
    assert parts[0][1].dtype == np.float32
    assert len({scores.tobytes() for _, scores in parts}) == 1
    assert abs(parts[0][0].models[0].n_mistakes - serial.n_mistakes) <= 10


@pytest.mark.interpreted
@pytest.mark.parametrize("size", [1, 2, 3])
def test_more_than_two_classes(size):
    X, y = noisy(classes=4, seed=1)
    costs = [Costs(), Costs(1.0, 2.0), Costs(balanced=True), Costs()]
    serial = OneVsRest.fresh("arow", costs, n_features=30, dtype="float64", fit_intercept=True)
    blueprint = blueprint_of(serial)
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 300)
    parts = learned(blueprint, size, [rows(X, y, weights, np.int32)])
    expected = serial.learn(rows(X, y, weights, np.int32))
    np.testing.assert_allclose(parts[0][1], expected, **TOLERANCE)
    found = join_slices(blueprint, [part for part, _ in parts])
    assert isinstance(found, OneVsRest)
    assert found.n_mistakes == serial.n_mistakes
    np.testing.assert_allclose(found.weights(), serial.weights(), **TOLERANCE)
    with pytest.raises(InvalidInputError, match="numbers of classes must be from 0 to 3, got 7 at row 1"):
        parts[0][0].learn(rows(X[:2], [0, 7], kind=np.int32), None)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["STG", "SSOL", "StableSparsePerceptron"])
def test_cut_sent_and_put_together_again(name):
    X, y = noisy(seed=2)
    serial = Learner(name, n_features=30, dtype="float64", fit_intercept=True)
    serial.learn(rows(X, y))
    blueprint = blueprint_of(serial)
    parts = [Slice(blueprint, rank, 4) for rank in range(4)]
    for part in parts:
        part.cut(serial)
    assert sum(part.nnz for part in parts) == serial.nnz
    again = [Slice.of(blueprint, k, 4, pickle.loads(pickle.dumps(part.learner())), 30) for k, part in enumerate(parts)]
    same_bits(join_slices(blueprint, again), serial)
    X, y = noisy(n=40, seed=5)

    def work(seat):
        again[seat.rank].learn(rows(X, y), seat)

    run(4, work)
    serial.learn(rows(X, y))
    close(join_slices(blueprint, again), serial)


def test_more_workers_than_features():
    blueprint = blueprint_of(Learner("fsol", n_features=2, dtype="float64"))
    batch = rows(np.eye(2), [-1, 1])
    parts = learned(blueprint, 4, [batch])
    assert join_slices(blueprint, [part for part, _ in parts]).weights().tolist() == [-1.0, 1.0]


@pytest.mark.parametrize("name", COUPLED)
def test_algorithms_that_couple_features_are_refused(name):
    with pytest.raises(InvalidParameterError, match=f"{name} ranks or couples its coordinates"):
        require_separable(name, {})


def test_full_covariances_are_refused():
    with pytest.raises(InvalidParameterError, match="AROW: covariance='full' couples all coordinates"):
        require_separable("arow", {"covariance": "full"})


def test_models_that_forget_are_refused():
    with pytest.raises(InvalidParameterError, match="AROW: mode='features' has no half_life"):
        require_separable("arow", {"half_life": 5})


def test_weights_alone_are_refused():
    with pytest.raises(WeightsOnlyError, match="this FSOL has its weights only and cannot go on learning"):
        blueprint_of(Frozen.of(Learner("fsol", n_features=2)))


def test_every_other_algorithm_is_not():
    refused = set()
    for algorithm in algorithms("online"):
        try:
            require_separable(algorithm.name, {})
        except InvalidParameterError:
            refused.add(algorithm.name)
    assert refused == set(COUPLED)


def test_rows_that_cannot_be_learned():
    part = Slice(blueprint_of(Learner("fsol", n_features=2, dtype="float64")), 0, 1)
    with pytest.raises(InvalidInputError, match="X has 3 features, but the model has 2; grow=True would extend it"):
        part.learn(rows(np.eye(3), [-1, 1, 1]), None)
    with pytest.raises(InvalidInputError, match="a batch to learn from needs labels"):
        part.learn(Batch.of(np.array([0]), np.empty(0, np.int32), np.empty(0), 2), None)
    with pytest.raises(InvalidInputError, match="sums of squares would overflow"):
        part.learn(rows([[1e200, 0.0]], [1]), None)


def test_slices_of_different_runs_do_not_fit():
    blueprint = blueprint_of(Learner("fsol", n_features=2, dtype="float64"))
    one, other = Slice(blueprint, 0, 2), Slice(blueprint, 1, 2)
    other.models[0].memory.counts[0] = 5
    with pytest.raises(InvalidInputError, match="slices of different runs cannot become one model: rank 1 differs"):
        join_slices(blueprint, [one, other])
