"""The compile cache: used, never stale, safe among processes, and not needed."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import thinstream

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled when jit is disabled")

PROGRAM = """
import json, sys
import numpy as np
from thinstream.batch import Batch
from thinstream.engine.loop import loop_for
from thinstream.learners import Learner
model = Learner(sys.argv[1], n_features=2, dtype="float64")
indices = np.array([0, 1], np.int32)  # as weights() takes them: one specialisation does for both
model.learn(Batch.of(np.array([0, 1, 2]), indices, np.array([1.0, 2.0]), 2, np.array([-1, 1], np.int8)))
stats = getattr(loop_for(type(model.rule)).function, "stats", None)
hits = sum(stats.cache_hits.values()) if stats else 0
print(json.dumps({"weights": model.weights().tolist(), "hits": hits}))
"""


def start(package, cache, algorithm="fsol"):
    environment = {**os.environ, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python's own cache would not notice the edits either
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "-c", PROGRAM, algorithm]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test may edit."""
    source = Path(thinstream.__file__).parent
    shutil.copytree(source, tmp_path / "thinstream", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def edit(file, old, new):
    """Changes a source as an editor would, but keeps its size and times: only the content tells."""
    before, text = file.stat(), file.read_text()
    assert text.count(old) >= 1
    assert len(old) == len(new)
    file.write_text(text.replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


EDITS = [
    ("rules/fsol.py", "f.theta + step.size * x", "f.theta - step.size * x", [1.0, -2.0]),
    ("engine/losses.py", "max(0.0, 1.0 - y * s)", "max(0.0, 0.0 - y * s)", [0.0, 0.0]),
]


def name_what_is_gone(cache):
    """Numba's list of what is cached holds pickled types; after an upgrade, say, one of them may be missing."""
    for index in cache.rglob("*thinstream_rules_fsol*.nbi"):
        with index.open("rb+") as file:
            pickle.load(file)  # the version, which is still right
            file.truncate()
            file.write(b"cthinstream.rules.gone\nGone\n.")


def test_a_run_hits_the_cache_unless_sources_were_edited_or_types_are_gone(package):
    """After an edit in a rule, then in a shared function, the new code runs."""
    cache = package / "cache"
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], "hits": 0}
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], "hits": 1}
    name_what_is_gone(cache)
    assert answer(start(package, cache)) == {"weights": [-1.0, 2.0], "hits": 0}
    for file, old, new, expected in EDITS:
        edit(package / "thinstream" / file, old, new)
        assert answer(start(package, cache)) == {"weights": expected, "hits": 0}


def test_two_cold_starts_at_once(package):
    """Processes that compile into the same empty cache end with right results and a whole cache."""
    cache, names = package / "cache", ["fsol", "perceptron", "fsol", "perceptron"]
    expected = {"fsol": [-1.0, 2.0], "perceptron": [0.0, 2.0]}
    for process, name in [(start(package, cache, name), name) for name in names]:
        assert answer(process)["weights"] == expected[name]
    for name in expected:
        assert answer(start(package, cache, name)) == {"weights": expected[name], "hits": 1}


def test_no_folder_to_write_is_no_error(package):
    """Without a usable cache folder everything is compiled in memory."""
    assert answer(start(package, "/dev/null/nowhere")) == {"weights": [-1.0, 2.0], "hits": 0}


BITS = """
import hashlib, json
import scipy.sparse as sp
import thinstream as ts
from tests.rules.golden import stream
rows, found = stream(), {}
for algorithm in ts.algorithms("online"):
    model = ts.make(algorithm.name, dtype="float64").fit(sp.csr_matrix(rows.X), rows.y)
    found[algorithm.name] = hashlib.sha256(b"".join(a.tobytes() for a in model._model.learner.memory)).hexdigest()
print(json.dumps(found))
"""


def test_compiled_and_interpreted_give_the_same_bits():
    """In float64 compiled code rounds as Python does: no reassociation, no fused multiply-add."""
    root = Path(__file__).parent.parent
    answers = []
    for more in ({}, {"NUMBA_DISABLE_JIT": "1"}):
        run = subprocess.run(
            [sys.executable, "-c", BITS],
            env={**os.environ, **more},
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(json.loads(run.stdout))
    assert answers[0] == answers[1]


def test_import_is_lazy():
    """Importing the package, or asking for its version, imports neither numba nor scikit-learn."""
    program = "import sys, thinstream; print({'numba', 'sklearn'} & set(sys.modules), thinstream.__version__)"
    answered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answered.stdout.startswith("set()")


def test_learners_do_without_scikit_learn():
    """The layer below the estimators never imports scikit-learn."""
    program = "import sys, thinstream.learners as l; l.Learner('ssol', n_features=3); print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "False"
