"""Lanes on a device against models of their own: the same bits for every rule, whatever masks, costs and labels."""

import numpy as np
import pytest

from tests.lanes.cuda.cases import (
    alone,
    costs_of,
    require_device,
    same_bits,
    spread,
    uses_mathematics,
    variants,
)
from tests.lanes.test_lanes import WIDTH, stream
from thinstream.batch import Batch
from thinstream.lanes.lanes import Lanes

pytestmark = [pytest.mark.interpreted, pytest.mark.gpu]
LANES = 3


def ids(given):
    return given if isinstance(given, str) else "-".join(f"{k}={v}" for k, v in given.items()) or "default"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "choice"), list(variants()), ids=ids)
def test_a_lane_is_a_run_of_its_own(name, choice, dtype, monkeypatch):
    require_device()
    from thinstream.lanes.cuda.block import CudaBlock
    from thinstream.lanes.cuda.package import SIMULATED

    for sharing in (False,) if SIMULATED else (True, False):  # teams have a test of their own in the simulator
        monkeypatch.setattr(CudaBlock, "sharing", sharing)
        compare(name, choice, dtype, SIMULATED)


def compare(name, choice, dtype, simulated):
    rng, parameters, costs = np.random.default_rng(3), spread(name, choice, LANES), costs_of(LANES)
    options = {"n_features": WIDTH, "dtype": dtype, "fit_intercept": dtype == "float32"}
    together = Lanes(name, parameters, costs=costs, device="cuda", **options)
    models = alone(name, parameters, costs, **options)
    assert together.device == "cuda"
    for rows in (9, 14) if simulated else (40, 80):
        batch = stream(rng, rows, dtype=np.dtype(dtype))
        y = rng.choice(np.array([-1, 1], np.int8), (rows, LANES))
        weights = rng.choice([0.0, 1.0, 0.5], (rows, LANES))
        scores = together.learn(batch, y, weights)
        for lane, model in enumerate(models):
            own = batch.labelled(np.ascontiguousarray(y[:, lane]), np.ascontiguousarray(weights[:, lane]))
            expected = model.learn(own)
            if simulated or not uses_mathematics(name, choice):
                assert scores[:, lane].tobytes() == expected.tobytes()
                assert same_bits(together[lane].memory, model.memory)
            else:
                np.testing.assert_allclose(scores[:, lane], expected, rtol=1e-4, atol=1e-5)
                assert together[lane].memory.counts.tolist()[:2] == model.memory.counts.tolist()[:2]


def team_cases():
    for name, choice in variants():
        for dtype in ("float32", "float64"):
            quick = not choice and name in ("AROW", "SSOL") and dtype == "float32"
            yield pytest.param(name, choice, dtype, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(("name", "choice", "dtype"), list(team_cases()), ids=ids)
def test_teams(name, choice, dtype, monkeypatch):
    """The loop in which warps share lanes, in the simulator: 256 threads for a group of lanes."""
    require_device()
    from thinstream.lanes.cuda import block
    from thinstream.lanes.cuda.package import SIMULATED

    if not SIMULATED:
        pytest.skip("on a GPU the test above has it")
    monkeypatch.setattr(block.CudaBlock, "sharing", True)
    monkeypatch.setattr(block, "shape_of", lambda groups, processors: (8, 64))
    compare(name, choice, dtype, SIMULATED)


@pytest.mark.parametrize(
    ("name", "fit_intercept"),
    [
        ("AROW", True),
        ("SSOL", False),
        pytest.param("AROW", False, marks=pytest.mark.slow),
        pytest.param("SSOL", True, marks=pytest.mark.slow),
    ],
)
def test_teams_take_rows_longer_than_a_tile(name, fit_intercept, monkeypatch):
    """Rows of up to several tiles, of just one, and empty ones, one after another."""
    require_device()
    from thinstream.lanes.cuda import block, team
    from thinstream.lanes.cuda.package import SIMULATED

    monkeypatch.setattr(block.CudaBlock, "sharing", True)
    if SIMULATED:  # 32 numbers to a tile, eight workers of four
        monkeypatch.setattr(team, "TILE", 128)
        monkeypatch.setattr(block, "shape_of", lambda groups, processors: (8, 64))
    tile = 32 if SIMULATED else 128
    lengths = [2 * tile + 5, 3, 0, tile, tile - 1, 2 * tile] if SIMULATED else [2 * tile + 5, 3, 0, tile, 5 * tile] * 9
    rng, width = np.random.default_rng(8), max(lengths)
    indices = np.concatenate([np.sort(rng.choice(width, size, replace=False)) for size in lengths]).astype(np.int32)
    values = rng.choice(np.array([-1.0, 0.5, 2.0], np.float32), len(indices))
    y = rng.choice(np.array([-1, 1], np.int8), len(lengths))
    batch = Batch.of(np.concatenate([[0], np.cumsum(lengths)]), indices, values, width, y)
    parameters = spread(name, {}, 2)
    options = {"n_features": width, "fit_intercept": fit_intercept}
    together = Lanes(name, parameters, device="cuda", **options)
    team.team.cache_clear()
    scores = together.learn(batch)
    team.team.cache_clear()
    for lane, model in enumerate(alone(name, parameters, costs_of(1) * 2, **options)):
        assert scores[:, lane].tobytes() == model.learn(batch).tobytes()
        assert same_bits(together[lane].memory, model.memory)
