"""Golden numbers, made by the twins: neither the twins nor the library may drift from them."""

import json

import numpy as np
import pytest

import thinstream as ts
from tests.algorithms.online.conformance import run_library
from tests.algorithms.online.golden import FORGETTING, TABLE, can_forget, daily, stream, table, twins

GOLDEN = json.loads(TABLE.read_text())


def test_every_algorithm_has_a_twin_and_golden_numbers():
    """No algorithm without its naive twin; the table holds them all."""
    names = {algorithm.name for algorithm in ts.algorithms("online")}
    assert set(twins()) == names
    forgetful = {algorithm.name for algorithm in ts.algorithms("online") if algorithm.forgetting}
    assert {name for name, (twin, _) in twins().items() if can_forget(twin)} == forgetful
    keys = {f"{name} {weight}" for name in names for weight in (None, "balanced")}
    assert set(GOLDEN) == keys | {f"{name} half_life" for name in forgetful}


def test_the_twins_still_make_the_table():
    """A change of a twin shows."""
    for key, numbers in table().items():
        assert numbers == pytest.approx(GOLDEN[key], rel=1e-12, abs=1e-12), key


@pytest.mark.parametrize("key", [daily(key.split()[0], key, when=key.endswith("half_life")) for key in GOLDEN])
def test_the_library_makes_the_table(key):
    """A change of the library shows."""
    name, setting = key.split()
    parameters = FORGETTING[name] if setting == "half_life" else {}
    model, scores = run_library(name, stream(), parameters, "balanced" if setting == "balanced" else None, cuts=[70])
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
