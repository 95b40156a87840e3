"""Models cut by features: with mini-batches of one row they are the serial run, for every algorithm."""

from itertools import pairwise

import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.distributed.gang import learned
from tests.rules.conformance import TOLERANCE, class_weights, run_twin, streams
from tests.rules.golden import twins
from thinstream.batch import Batch
from thinstream.distributed.blueprint import Blueprint
from thinstream.distributed.slices import assembled
from thinstream.engine.loop import Costs
from thinstream.learners import Classes, Learner, ManyClasses
from thinstream.learners.memory import columns
from thinstream.models.model import Model

TWINS = twins()
COUPLED = ("SMIDAS", "SOFS")
SEPARABLE = sorted(set(TWINS) - set(COUPLED))
#: Compiled every day; the others are interpreted.
DAILY = ("FSOL", "SSOL")
some = settings(max_examples=15, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def rows(X, y, weights=None, kind=np.int8):
    X = sp.csr_matrix(X)
    return Batch.of(X.indptr, X.indices.astype(np.int32), X.data, X.shape[1], np.asarray(y, kind), weights)


def costs_of(class_weight):
    if class_weight == "balanced":
        return Costs(balanced=True)
    return Costs() if class_weight is None else Costs(*class_weight)


def blueprint_of(learner):
    classes = Classes(-1, 1) if isinstance(learner, Learner) else ManyClasses(range(len(learner)))
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
            columns(a.algorithm, a.memory, 0, width), columns(b.algorithm, b.memory, 0, width), strict=True
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
    found = assembled(blueprint, [part for part, _ in parts])
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
