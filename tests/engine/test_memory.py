"""How much memory there is, and what growing takes of it."""

import numpy as np
import pytest

from thinstream.batch import Batch
from thinstream.engine import memory
from thinstream.errors import InvalidInputError
from thinstream.lanes import lanes
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner


@pytest.mark.parametrize(
    ("groups", "files", "limit"),
    [
        ("0::/a/b", {"a/memory.max": "5000", "a/b/memory.max": "max"}, 5000),
        ("0::/", {"memory.max": "7000"}, 7000),
        ("4:cpu,memory:/box\n0::/", {"memory/box/memory.limit_in_bytes": "3000", "memory.max": "max"}, 3000),
        ("1:cpu:/\n0::/", {}, None),
    ],
)
def test_control_groups_limit_memory(groups, files, limit, tmp_path, monkeypatch):
    (tmp_path / "own").write_text(groups + "\n")
    for name, text in files.items():
        (tmp_path / "fs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fs" / name).write_text(text + "\n")
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "fs")
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "own")
    machine = memory.physical_memory.__wrapped__()
    assert memory.group_limits() == ([] if limit is None else [limit])
    assert machine == limit if limit else machine > 10**8


def test_a_system_without_groups(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "OWN_GROUPS", tmp_path / "none")
    assert memory.group_limits() == []


def row(j, d):
    return Batch.of(np.array([0, 1]), np.array([j]), np.ones(1), d, np.ones(1, np.int8))


def test_growing_counts_what_it_is_copied_from(monkeypatch):
    """Both are there for a moment; room for later is made only where it fits."""
    monkeypatch.setattr(memory, "physical_memory", lambda: 100_000)
    model = Learner("fsol", n_features=9_000, grow=True)
    model.learn(row(8_400, 8_401))
    with pytest.raises(InvalidInputError, match=r"FSOL while it grows needs .* for feature number 17399"):
        model.learn(row(17_399, 17_400))  # alone it would fit
    assert (model.n_features, model.t) == (9_000, 1)
    small = Learner("fsol", n_features=5_600, grow=True)
    for d, room in ((5_601, 8_400), (8_401, 8_401)):
        small.learn(row(d - 1, d))
        assert len(small.memory.state) == room


def test_growing_lanes_count_what_they_are_copied_from(monkeypatch):
    found = Lanes("fsol", [{"eta": 1.0}, {"eta": 2.0}], n_features=1000, grow=True)
    alone, held = found._needed(1500), max(block.nbytes for block in found._blocks)
    monkeypatch.setattr(lanes, "physical_memory", lambda: (alone + held - 8) / 0.7)
    y = np.ones((1, 2), np.int8)
    with pytest.raises(InvalidInputError, match="2 lanes of FSOL with 1500 features need"):
        found.learn(row(1499, 1500), y)
    assert found.n_features == 1000
    found.learn(row(1099, 1100), y)
    assert found.n_features == 1100
