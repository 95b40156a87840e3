"""No silent NaN: extreme costs, weights and values, and labels that contradict each other, for every algorithm.

A row is learned and leaves finite numbers, or it is refused with its number, and the model is as it was before it.
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import settings

import thinstream as ts
from tests.algorithms.online.golden import COMPILED_DAILY
from thinstream.algorithms.registry import algorithms
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.engine.parameters import OneOf
from thinstream.errors import InvalidParameterError, NumericalError
from thinstream.lanes.lanes import Lanes
from thinstream.models.model import make_learner

ONLINE = [algorithm.name for algorithm in algorithms("online")]
FULL = [a.name for a in algorithms("online") if any(p.name == "covariance" for p in a.parameters)]
VALUES = {"float32": (1e-40, 1e-30, 1e-19, 1.0, 1e8, 1e15), "float64": (1e-320, 1e-150, 1.0, 1e15, 1e150)}
COSTS = (Costs(), Costs(1.0, 10.0), Costs(100.0, 1.0), Costs(1e-30, 1.0), Costs(1.0, 1e39), Costs(1e-300, 1e300))
COSTS += (Costs(balanced=True),)
WEIGHTS = (1.0, 1e-30, 3.0, 1e30, 1e39, 1e300)


@cache
def contradictory(scale, weight, dtype, rows=12, width=4):
    """Pairs of equal rows with opposite labels, three passes of them."""
    rng = np.random.default_rng(7)
    X = np.repeat(rng.normal(size=(rows // 2, width)) * (rng.random((rows // 2, width)) < 0.7), 2, axis=0)
    X = np.clip(np.tile(X, (3, 1)) * scale, -VALUES[dtype][-1], VALUES[dtype][-1]).astype(dtype)
    y = np.tile(np.array([1, -1], np.int8), len(X) // 2)
    indptr = np.concatenate([[0], np.cumsum((X != 0).sum(axis=1))])
    weights = None if weight == 1.0 else np.full(len(X), weight)
    return Batch.of(indptr, np.nonzero(X)[1].astype(np.int32), X[X != 0], width, y, weights)


def variants(name, dtype, covariance):
    """Every value of every parameter that is a choice, one at a time; kinds of code only where they are compiled."""
    found = [{}]
    algorithm = next(a for a in algorithms("online") if a.name == name)
    often = settings.default.max_examples > 100
    daily = name in COMPILED_DAILY or often
    if algorithm.forgetting and covariance == "diagonal" and dtype == "float64" and daily:
        exact = {"diagonal": "exact"} if name == "SSOL" else {}
        found += [{"half_life": half_life, **exact} for half_life in (1.0, 1e9)]
    for parameter in algorithm.parameters:
        if isinstance(parameter.constraint, OneOf) and parameter.name != "covariance":
            kind = isinstance(next(iter(parameter.constraint.choices.values())), tuple)
            if kind and dtype == "float32" and not (often and covariance == "full"):
                continue
            found += [{parameter.name: each} for each in parameter.constraint.choices if each != parameter.default]
    return [own | ({"covariance": covariance} if name in FULL else {}) for own in found]


def learn(model, batch):
    """The row at which the model fails, or None."""
    try:
        model.learn(batch)
    except NumericalError as error:
        found = error
    else:
        return None
    assert str(found).startswith(f"{model.algorithm.name}: row {found.row} cannot be learned")
    assert "Scale features to about 1" in str(found)
    return found.row


def assert_finite(model):
    assert all(np.isfinite(array).all() for array in model.memory)
    if model.has_variance:
        assert model.variance().min() >= 0


CASES = [*product(ONLINE, ["diagonal"], VALUES), *product(FULL, ["full"], VALUES)]


@pytest.mark.parametrize(("name", "covariance", "dtype"), CASES)
def test_finite_or_refused(name, covariance, dtype):
    for own in variants(name, dtype, covariance):
        for scale, costs, weight in product(VALUES[dtype], COSTS, WEIGHTS):
            options = {"n_features": 4, "dtype": dtype, "costs": costs, "fit_intercept": True, **own}
            batch, model = contradictory(scale, weight, dtype), make_learner(name, **options)
            row = learn(model, batch)
            assert_finite(model)
            if row is not None:
                again = make_learner(name, **options)
                again.learn(batch.until(row))
                for one, other in zip(model.memory, again.memory, strict=True):
                    assert one.tobytes() == other.tobytes()
                assert learn(model, batch.after(row)) == row  # it stays refused, and the model as it is


@pytest.mark.parametrize("name", ["FSOL", "AROW", "SSOL"])
def test_ordinary_rows_are_never_refused(name):
    for own, costs, weight in product(variants(name, "float32", "diagonal"), COSTS[:3], (1.0, 1e-30, 3.0)):
        for scale in (1e-5, 1.0, 1e5):
            model = make_learner(name, n_features=4, costs=costs, **own)
            assert learn(model, contradictory(scale, weight, "float32")) is None


@pytest.mark.parametrize("name", FULL)
def test_a_full_covariance_of_raw_columns_stays_one(name):
    """Columns of thousands beside columns of 0 and 1, as covtype has them: float32 loses all digits of Σ on the way."""
    rng = np.random.default_rng(3)
    X = np.hstack([rng.integers(1, 7000, (1500, 10)), rng.random((1500, 20)) < 0.1]).astype(float)
    model = ts.make(name, covariance="full").fit(X, rng.integers(0, 2, 1500))
    learner = model._model.learner.outputs.one
    assert_finite(learner)
    assert np.abs(learner.sigma.packed).max() <= 1.001  # no variance exceeds the one at the start


def rows_of_two():
    return np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), np.array(["ham", "spam", "spam"])


def test_fit_leaves_an_estimator_as_it_was_and_partial_fit_keeps_the_rows_before():
    X, y = rows_of_two()
    model = ts.FSOL(fit_intercept=False).fit(X, y)
    before = model.coef_.tobytes()
    with pytest.raises(NumericalError, match=r"FSOL: row 2 cannot be learned.*float32.*dtype='float64'"):
        model.fit(X, y, sample_weight=[1.0, 1.0, 1e39])
    assert (model.coef_.tobytes(), model.t_) == (before, 3)
    with pytest.raises(NumericalError, match=r"row 2 .* the model ends with the rows before it"):
        model.partial_fit(X, ["spam", "ham", "ham"], sample_weight=[1.0, 1.0, 1e39])
    assert model.t_ == 5
    assert np.isfinite(model.partial_fit(X, y).coef_).all()


def test_a_row_is_refused_by_the_model_of_a_class():
    X, _ = rows_of_two()
    model = ts.FSOL(fit_intercept=False).partial_fit(X, [0, 1, 2], classes=[0, 1, 2])
    with pytest.raises(NumericalError, match=r"row 1 .* the learner of class number 1 ends before this row"):
        model.partial_fit(X, [0, 1, 2], sample_weight=[1.0, 1e39, 1.0])
    assert np.isfinite(model.coef_).all()


def test_a_model_that_is_not_finite_is_of_no_use(tmp_path):
    X, y = rows_of_two()
    model, other = (ts.FSOL(fit_intercept=False).fit(X, y) for _ in range(2))
    model.save(tmp_path / "model")
    model._model.learner.outputs.one.memory.state[1] = np.nan
    with pytest.raises(NumericalError, match="the score of row 1 is not finite"):
        model.predict(X)
    with pytest.raises(NumericalError, match="cannot be saved, because its array 'state'"):
        model.save(tmp_path / "model")
    assert ts.load(tmp_path / "model").t_ == 3
    with pytest.raises(NumericalError, match="merged"):
        model.merge(other)
    with pytest.raises(NumericalError, match="a weight is not finite"):
        model.densify().coef_  # noqa: B018


def test_a_state_no_number_can_begin_with():
    with pytest.raises(InvalidParameterError, match=r"AROW: the initial state .* does not fit into float32"):
        ts.AROW(a=1e-40).fit(*rows_of_two())


@pytest.mark.parametrize("name", ["FSOL", "SSOL", pytest.param("STG", marks=pytest.mark.slow)])
def test_a_lane_that_fails_ends_there_and_others_go_on(name):
    parameters, batch = [{"eta": eta} for eta in (1.0, 1e30, 0.5)], contradictory(1e10, 1.0, "float64")
    batch = Batch.of(batch.indptr, batch.indices, batch.values.astype(np.float64), 4, batch.y)
    options = {"n_features": 4, "dtype": "float32"}
    lanes = Lanes(name, parameters, **options)
    scores = lanes.learn(batch)
    alone = [make_learner(name, **options, **own) for own in parameters]
    rows = [learn(model, batch) for model in alone]
    assert rows[1] is not None
    assert lanes.failed == {1: rows[1]}
    assert np.isnan(scores[rows[1] :, 1]).all()
    assert np.isfinite(scores[:, [0, 2]]).all()
    for model, lane in zip(alone, lanes, strict=True):
        for one, other in zip(model.memory, lane.memory, strict=True):
            assert one.tobytes() == other.tobytes()
    assert np.isnan(lanes.copy().learn(batch)[:, 1]).all()
    lanes.keep([2, 1])
    assert lanes.failed == {1: rows[1]}
