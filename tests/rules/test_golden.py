"""Golden numbers, made by the twins: neither the twins nor the library may drift from them."""

import json

import numpy as np
import pytest

import thinstream as ts
from tests.rules.conformance import run_library
from tests.rules.golden import TABLE, stream, table, twins

GOLDEN = json.loads(TABLE.read_text())


def test_every_algorithm_has_a_twin_and_golden_numbers():
    """No algorithm without its naive twin; the table holds them all."""
    names = {algorithm.name for algorithm in ts.algorithms("online")}
    assert set(twins()) == names
    assert set(GOLDEN) == {f"{name} {weight}" for name in names for weight in (None, "balanced")}


def test_the_twins_still_make_the_table():
    """A change of a twin shows."""
    for key, numbers in table().items():
        assert numbers == pytest.approx(GOLDEN[key], rel=1e-12, abs=1e-12), key


@pytest.mark.twin
@pytest.mark.parametrize("key", GOLDEN)
def test_the_library_makes_the_table(key):
    """A change of the library shows."""
    name, class_weight = key.split()
    model, scores = run_library(name, stream(), {}, None if class_weight == "None" else class_weight, cuts=[70])
    numbers = {
        "t": model.t_,
        "mistakes": model.n_mistakes_,
        "updates": model.n_updates_,
        "nnz": model.nnz_,
        "loss": model.cumulative_loss_,
        "scores": scores.sum(),
        "squared_scores": np.square(scores).sum(),
        "weights": np.abs(model.coef_).sum(),
    }
    assert numbers == pytest.approx(GOLDEN[key], rel=1e-9, abs=1e-9)
