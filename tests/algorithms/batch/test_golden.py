"""Golden numbers, made by the twins: neither the twins nor the library may drift from them."""

import json

import pytest

import thinstream as ts
from tests.algorithms.batch.golden import CASES, TABLE, numbers, stream, twin_row

GOLDEN = json.loads(TABLE.read_text())


def test_every_batch_algorithm_has_golden_numbers():
    assert {CASES[case][0] for case in GOLDEN} == {algorithm.name for algorithm in ts.algorithms("batch")}


@pytest.mark.twin
@pytest.mark.parametrize("case", CASES)
def test_twin_and_library_make_the_table(case):
    if not case.startswith("FGM"):  # slow, and compared with the library anyway
        assert twin_row(case) == pytest.approx(GOLDEN[case], rel=1e-12, abs=1e-12)
    name, parameters, _, _ = CASES[case]
    model = ts.make(name, **parameters)
    if hasattr(model, "dtype"):  # others have 64 bits anyway
        model.set_params(dtype="float64")
    model.fit(*stream())
    found = numbers(model.coef_[0], model.t_, model.n_mistakes_, model.cumulative_loss_)
    assert found == pytest.approx(GOLDEN[case], rel=1e-6 if name == "FGM" else 1e-9)
