"""What the docs say of trust holds: nothing is unpickled that they do not list, and tests they name are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Calls that unpickle; `recv` is that of multiprocessing's connections (sockets take a size).
UNPICKLING = re.compile(
    r"pickle\.loads?\(|Unpickler\(|\.recv\(\)|joblib\.load|allow_pickle=True|marshal\.load|shelve\."
)


def test_whatever_is_unpickled_is_listed():
    listed = set(re.findall(r"^\| `(\S+\.py)`", (ROOT / "docs/distributed.md").read_text(), re.M))
    source = ROOT / "src/thinstream"
    found = {str(p.relative_to(source)) for p in source.rglob("*.py") if UNPICKLING.search(p.read_text())}
    own_code = {"jit/compiled.py", "jit/worker.py", "lanes/cuda/package.py"}  # code of this installation: SECURITY.md
    assert {
        f"distributed/{name}" for name in listed if name == "mpi.py" or name.startswith("engines/")
    } == found - own_code


def test_tests_that_are_named_are_there():
    named = re.findall(r"`(tests/\S+)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []
