"""The golden table: results of each twin on a fixed stream. ``python -m tests.algorithms.online.golden`` writes it."""

import importlib
import json
import pkgutil
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import tests.algorithms.online
from tests.algorithms.online.conformance import TWINS, Stream, run_twin
from tests.algorithms.online.twin import Twin

#: Parameters of those that forget in the table.
FORGETTING = defaultdict(lambda: {"half_life": 40.0}, SSOL={"half_life": 40.0, "diagonal": "exact"})

TABLE = Path(__file__).with_name("golden.json")


def stream() -> Stream:
    """200 rows of 50 features, about 8 to a row, of a noisy linear rule."""
    rng = np.random.default_rng(2024)
    X = rng.normal(size=(200, 50)) * (rng.random((200, 50)) < 0.16)
    y = np.where(X @ rng.normal(size=50) + 0.5 * rng.normal(size=200) > 0.6, 1.0, -1.0)
    return Stream(X, y, None, [])


def twins() -> dict:
    """Every twin there is: the test modules declare them."""
    for module in pkgutil.iter_modules(tests.algorithms.online.__path__):
        if module.name.startswith("test_"):
            importlib.import_module(f"tests.algorithms.online.{module.name}")
    return TWINS


def row(twin) -> dict:
    """What is written down of a run of two passes."""
    w = twin.weights()
    return {
        "t": twin.t,
        "mistakes": int(twin.mistakes),
        "updates": int(twin.updates),
        "nnz": int(np.count_nonzero(w)),
        "loss": float(twin.loss),
        "scores": float(np.sum(twin.scores)),
        "squared_scores": float(np.sum(np.square(twin.scores))),
        "weights": float(np.abs(w).sum()),
    }


def table() -> dict:
    """Algorithm → its row, with default parameters and with balanced classes; and with a half-life where it has one."""
    found = {}
    for name, (twin, _) in sorted(twins().items()):
        for class_weight in (None, "balanced"):
            found[f"{name} {class_weight}"] = row(run_twin(twin, stream(), {}, class_weight))
        if can_forget(twin):
            found[f"{name} half_life"] = row(run_twin(twin, stream(), FORGETTING[name], None))
    return found


#: Those whose form that forgets is compiled every day; the others' is interpreted, and compiled by the slow tests.
COMPILED_DAILY = ("FSOL", "AROW")


def daily(name, *values, when=True):
    """A parameter of a test of an algorithm that forgets, if ``when`` says so."""
    mark = pytest.mark.interpreted if when and name not in COMPILED_DAILY else pytest.mark.twin
    return pytest.param(*(values or (name,)), marks=mark)


def can_forget(twin) -> bool:
    """Whether a twin says what forgetting is."""
    return twin.forget is not Twin.forget


def is_close(old, new) -> bool:
    """Whether a row differs in last digits only, which depend on the machine."""
    return old is not None and old.keys() == new.keys() and np.allclose([*old.values()], [*new.values()], 1e-12, 1e-12)


def write(path: Path, rows: dict) -> None:
    """Write a table, and keep each row of the file that differs in last digits only."""
    old = json.loads(path.read_text())
    rows = {name: old[name] if is_close(old.get(name), new) else new for name, new in rows.items()}
    path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    write(TABLE, table())
