"""Models cut by features: with mini-batches of one row they are the serial run, for every algorithm."""

from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.algorithms.online.conformance import TOLERANCE, class_weights, run_twin, streams
from tests.algorithms.online.golden import twins
from tests.distributed.gang import Seat, Table, joined, learned, run, written
from tests.distributed.sources import noisy, rows
from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.distributed import mpi
from thinstream.distributed.mpi import read_slice, require_separable, sliced
from thinstream.engine.loop import Costs
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    ModelFileError,
    NumericalError,
    WeightsOnlyError,
)
from thinstream.lanes.learner import Frozen, Learner
from thinstream.models.file import read, write
from thinstream.models.model import Model, make_outputs
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline

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


def model_of(learner):
    classes = Classes(*range(len(learner))) if isinstance(learner, Outputs) else Classes(-1, 1)
    return Model(learner, classes)


def cases(daily=DAILY):
    for name in SEPARABLE:
        yield pytest.param(name, marks=pytest.mark.twin if name in daily else pytest.mark.interpreted)


def close(result, learner):
    """The same model, up to the order of summation."""
    result, learner = (item.outputs.one if isinstance(item, Pipeline) else item for item in (result, learner))
    np.testing.assert_allclose(result.weights(), learner.weights(), **TOLERANCE)
    np.testing.assert_allclose(result.intercept, learner.intercept, **TOLERANCE)
    np.testing.assert_allclose(result.memory.totals, learner.memory.totals, **TOLERANCE)
    assert result.memory.counts.tolist() == learner.memory.counts.tolist()
    assert result.n_features == learner.n_features


def same_bits(parts, learner, folder):
    """One rank writes the file of the serial run."""
    write(folder / "serial.ts", model_of(learner))
    assert written(parts, folder / "slices.ts").read_bytes() == (folder / "serial.ts").read_bytes()


@pytest.mark.parametrize("name", list(cases()))
@some
@given(data=st.data(), stream=streams(), class_weight=class_weights, size=st.integers(1, 4), intercept=st.booleans())
def test_rows_one_by_one_are_the_serial_run(tmp_path_factory, name, data, stream, class_weight, size, intercept):
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
    batches, folder = _cut(stream), tmp_path_factory.mktemp("slices")
    parts = learned(model_of(serial), size, batches)
    expected = np.concatenate([serial.learn(batch) for batch in batches])
    for _, scores in parts:
        np.testing.assert_allclose(scores, expected, **TOLERANCE)
        assert scores.tobytes() == parts[0][1].tobytes()
    parts = [part for part, _ in parts]
    close(joined(parts).learner, serial)
    if size == 1:
        same_bits(parts, serial, folder)


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
    cut=st.integers(0, 20),
)
def test_every_feature_belongs_to_one_rank(indices, size, cut):
    cut, width = min(cut, len(indices)), 2**45 + 1
    batch = Batch.of(
        np.array([0, cut, len(indices)]), np.array(indices, np.int64), np.arange(1.0, len(indices) + 1), width
    )
    model, every = model_of(Learner("fsol", n_features=0, dtype="float64", grow=True)), [[], []]
    for rank in range(size):
        learner = sliced(model, Seat(Table(size), rank)).learner
        rows = learner._own(batch)
        for row, (a, b) in enumerate(pairwise(rows.indptr.tolist())):
            result = [(int(j) * size + rank, x) for j, x in zip(rows.indices[a:b], rows.values[a:b], strict=True)]
            assert result == sorted(result)
            every[row] += result
    pairs = [(j, x) for j, x in zip(indices, batch.values.tolist(), strict=True)]
    assert [sorted(row) for row in every] == [pairs[:cut], pairs[cut:]]


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
def test_mini_batches_match_their_definition(name, naive, parameters, seed, size, batch_size, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.4)
    y = rng.choice([-1.0, 1.0], n)
    given_parameters = {key: value for key, value in parameters.items() if key != "l1_schedule"}
    scores, weights = naive(X, y, batch_size, **given_parameters)
    model = model_of(Learner(name, n_features=8, dtype="float64", **parameters))
    parts = learned(model, size, [rows(X, y)], batch_size)
    np.testing.assert_allclose(parts[0][1], scores, **TOLERANCE)
    np.testing.assert_allclose(joined([part for part, _ in parts]).learner.weights(), weights, **TOLERANCE)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", SEPARABLE)
def test_any_mini_batch_gives_all_ranks_the_same(name):
    """Also rules with totals, clocks and observations: ranks agree bit for bit, and learn something."""
    X, y = noisy()
    serial = Learner(name, n_features=30, dtype="float64", fit_intercept=True, costs=Costs(balanced=True))
    parts = learned(model_of(serial), 3, [rows(X, y)], mini_batch=7)
    assert len({scores.tobytes() for _, scores in parts}) == 1
    assert len({part.learner.outputs.one.memory.totals.tobytes() for part, _ in parts}) == 1
    result = joined([part for part, _ in parts]).learner
    serial.learn(rows(X, y))
    assert result.t == serial.t == 300
    assert result.n_mistakes < 1.5 * serial.n_mistakes + 10


@pytest.mark.interpreted
def test_a_model_that_stops_stops_everywhere():
    X, y = noisy()
    serial = Learner("stablesparseperceptron", n_features=30, dtype="float64", max_density=0.4)
    parts = learned(model_of(serial), 2, [rows(X, y)])
    serial.learn(rows(X, y))
    assert serial.t < 300
    close(joined([part for part, _ in parts]).learner, serial)


# Slices as data -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_rank_has_the_bits_of_the_serial_run(dtype, intercept, tmp_path):
    X, y = noisy(seed=3)
    serial = Learner("ssol", n_features=0, dtype=dtype, grow=True, fit_intercept=intercept, l1=2.0)
    ((part, scores),) = learned(model_of(serial), 1, [rows(X[:70], y[:70]), rows(X[70:], y[70:])])
    assert scores.tobytes() == serial.learn(rows(X, y)).tobytes()
    same_bits([part], serial, tmp_path)


@pytest.mark.interpreted
@pytest.mark.parametrize("name", ["FSOL", "AROW", "AdaRDA"])
def test_in_single_precision_it_errs_as_often(name):
    X, y = noisy(n=1000, seed=4)
    serial = Learner(name, n_features=30)
    parts = learned(model_of(serial), 3, [rows(X, y)])
    serial.learn(rows(X, y))
    assert parts[0][1].dtype == np.float32
    assert len({scores.tobytes() for _, scores in parts}) == 1
    assert abs(parts[0][0].learner.n_mistakes - serial.n_mistakes) <= 10


@pytest.mark.interpreted
@pytest.mark.parametrize("size", [1, 2, 3])
def test_more_than_two_classes(size):
    X, y = noisy(classes=4, seed=1)
    costs = [Costs(), Costs(1.0, 2.0), Costs(balanced=True), Costs()]
    serial = make_outputs("arow", costs, n_features=30, dtype="float64", fit_intercept=True)
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 300)
    parts = learned(model_of(serial), size, [rows(X, y, weights, np.int32)])
    expected = serial.learn(rows(X, y, weights, np.int32))
    np.testing.assert_allclose(parts[0][1], expected, **TOLERANCE)
    result = joined([part for part, _ in parts]).learner
    assert len(result.outputs) == 4
    assert result.n_mistakes == serial.n_mistakes
    np.testing.assert_allclose(result.weights(), serial.weights(), **TOLERANCE)
    with pytest.raises(InvalidInputError, match="class numbers must be from 0 to 3, got 7 at row 1"):
        parts[0][0].learner.learn(rows(X[:2], [0, 7], kind=np.int32))


@pytest.mark.interpreted
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["STG", "SSOL", "StableSparsePerceptron"])
def test_a_file_is_read_by_any_number_of_ranks(name, intercept, tmp_path):
    """The serial run continues in four slices, then in three, then in one process."""
    X, y = noisy(seed=2)
    serial = Learner(name, n_features=30, dtype="float64", fit_intercept=intercept)
    serial.learn(rows(X, y))
    write(tmp_path / "0", model_of(serial))
    X, y = noisy(n=40, seed=5)
    for number, size in enumerate((4, 3)):

        def work(seat, number=number):
            part = read_slice(tmp_path / str(number), seat)
            nnz, met = part.learner.nnz, part.learner.n_met
            part.learner.learn(rows(X, y))
            return part, nnz, met

        result = run(size, work)
        if number == 0:
            assert [(nnz, met) for _, nnz, met in result] == [(serial.nnz, serial.n_met)] * size
        written([part for part, _, _ in result], tmp_path / str(number + 1))
        serial.learn(rows(X, y))
        close(read(tmp_path / str(number + 1)).learner, serial)
    write(tmp_path / "served.ts", read(tmp_path / "2"), "weights")
    served = written([part for part, _, _ in result], tmp_path / "few.ts", "weights")
    assert served.read_bytes() == (tmp_path / "served.ts").read_bytes()


@pytest.mark.parametrize("width", [30, 3000])
def test_blocks_and_sparse_files(width, tmp_path, monkeypatch):
    """Slices write the file of the whole model: with all coordinates, or only some, in blocks of any length."""
    monkeypatch.setattr(mpi, "BLOCK", 7)
    X, y = noisy(seed=2)
    serial = make_outputs("fsol", [Costs()] * 3, n_features=width, fit_intercept=True)
    serial.learn(rows(X, y > 0, kind=np.int32))
    write(tmp_path / "one", model_of(serial))
    parts = run(3, lambda seat: read_slice(tmp_path / "one", seat))
    assert written(parts, tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()
    write(tmp_path / "few", model_of(serial), "weights")
    assert written(parts, tmp_path / "few2", "weights").read_bytes() == (tmp_path / "few").read_bytes()


def test_numbers_that_are_not_finite_are_not_written(tmp_path):
    (part,) = run(1, lambda seat: sliced(model_of(Learner("fsol", n_features=2)), seat))
    part.learner.outputs.one.memory.state[:] = np.nan
    with pytest.raises(NumericalError, match="FSOL: its array 'state' has numbers that are not finite"):
        written([part], tmp_path / "m.ts")
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "m.ts"
    write(path, model_of(Learner("fsol", n_features=99)))
    path.write_bytes(path.read_bytes()[:-1] + b"1")
    with pytest.raises(ModelFileError, match="its checksum does not match"):
        run(1, lambda seat: read_slice(path, seat))


def test_more_ranks_than_features():
    model = model_of(Learner("fsol", n_features=2, dtype="float64"))
    parts = learned(model, 4, [rows(np.eye(2), [-1, 1])])
    assert joined([part for part, _ in parts]).learner.weights().tolist() == [-1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [*((name, {}) for name in COUPLED), ("arow", {"covariance": "full"}), ("arow", {"half_life": 5}), ("auto", {})],
)
def test_algorithms_that_couple_features_are_refused(name, parameters):
    with pytest.raises(InvalidParameterError, match=f"(?i)^{name} cannot be split by features: --mode features needs"):
        require_separable(name, parameters)


def test_models_that_cannot_be_split_are_refused(tmp_path):
    seat = Seat(Table(1), 0)
    scaled = Model.fresh("fsol", Classes(-1, 1), n_features=2, scale="max")
    weights = Frozen.of(Learner("fsol", n_features=2))
    for model, kind, message in (
        (scaled, InvalidParameterError, "leave out --scale, --normalize, --max-features and --grow-classes"),
        (Model.fresh("fsol", Classes(-1, 1), max_features=9), InvalidParameterError, "leave out --scale"),
        (model_of(weights), WeightsOnlyError, "this FSOL has its weights only and cannot continue to learn"),
        (Model.fresh("auto", Classes(-1, 1), n_features=2), InvalidParameterError, "Auto cannot be split by features"),
    ):
        with pytest.raises(kind, match=message):
            sliced(model, seat)
        write(tmp_path / "m.ts", model, "weights" if model.learner.weights_only else "full")
        with pytest.raises(kind, match=message):
            read_slice(tmp_path / "m.ts", seat)


def test_every_other_algorithm_is_not():
    refused = set()
    for algorithm in algorithms("online"):
        try:
            require_separable(algorithm.name, {})
        except InvalidParameterError:
            refused.add(algorithm.name)
    assert refused == set(COUPLED)


def test_rows_that_cannot_be_learned():
    part = sliced(model_of(Learner("fsol", n_features=2, dtype="float64")), Seat(Table(1), 0)).learner
    with pytest.raises(InvalidInputError, match="X has 3 features, but the model has 2; grow=True would extend it"):
        part.learn(rows(np.eye(3), [-1, 1, 1]))
    with pytest.raises(InvalidInputError, match="a batch to learn from needs labels"):
        part.learn(Batch.of(np.array([0]), np.empty(0, np.int32), np.empty(0), 2))
    with pytest.raises(InvalidInputError, match="sums of squares would overflow"):
        part.learn(rows([[1e200, 0.0]], [1]))
