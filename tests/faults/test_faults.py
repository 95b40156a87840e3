"""Every write, fsync and rename of a file that a command writes fails once: the old file stays or the new one is there.

The calls are made to fail by a library that is preloaded (`inject.c`), in forks of one process (`driver.py`).
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import SOURCE, finished, process
from tests.faults.driver import content

HERE = Path(__file__).parent
pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="faults are injected on Linux"),
]
#: Command, files it writes, and of these the ones that a run that fails may leave in another state.
COMMANDS = {
    "model": (["train", "d.svm", "-m", "m.ts"], ["m.ts"], []),
    "weights": (["train", "d.svm", "-m", "m.ts", "--weights-only"], ["m.ts"], []),
    "checkpoint": (["train", "d.svm", "-m", "m.ts", "--checkpoint-every", "60"], ["m.ts"], ["m.ts.checkpoint"]),
    "cache": (["convert", "d.svm", "--out", "d.cache"], ["d.cache"], []),
    "cache beside": (["train", "d.svm", "-m", "m.ts", "--cache"], ["m.ts", "d.svm.cache"], []),
    "shuffle": (["shuffle", "d.svm", "-o", "s.svm"], ["s.svm"], []),
    "shuffle on disk": (["shuffle", "large.svm", "-o", "s.svm", "--memory", "1"], ["s.svm"], []),
    "split": (["split", "d.svm", "-o", "s.svm", "-o", "t.svm", "--every", "3"], ["s.svm", "t.svm"], []),
    "predictions": (["predict", "d.svm", "-m", "old.ts", "-o", "p.txt.gz"], ["p.txt.gz"], []),
    "export": (["export", "old.ts", "m.json"], ["m.json"], []),
    "merge": (["merge", "old.ts", "old2.ts", "-m", "m.ts"], ["m.ts"], []),
}
REASONS = {
    "full disk": "No space left on device",
    "no room once": "No space left on device",
    "input/output error": "Input/output error",
}


def rows(n, seed=0, width=30):
    rng = np.random.default_rng(seed)
    signs = np.where(rng.random(n) < 0.5, -1, 1)
    return "".join(f"{y} 1:{y} {rng.integers(2, width)}:{rng.normal():.3f}\n" for y in signs)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The library that makes calls fail."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (gcc or cc) is on PATH to build tests/faults/inject.c with")
    library = tmp_path_factory.mktemp("shim") / "inject.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, HERE / "inject.c"], check=True)
    return library


@pytest.fixture
def template(tmp_path):
    """A folder with data, models, and an older file in the place of every output."""
    folder = tmp_path / "template"
    folder.mkdir()
    for name, text in {"d.svm": rows(200), "other.svm": rows(50, 1)}.items():
        (folder / name).write_text(text)
    for name, data in {"old.ts": "d.svm", "old2.ts": "other.svm"}.items():
        code, _, errors = finished(process("train", data, "-a", "fsol", "-m", name, "-q", cwd=folder))
        assert code == 0, errors
    for name in ("m.ts", "d.cache", "s.svm", "t.svm", "p.txt.gz", "m.json"):
        shutil.copy(folder / "old2.ts", folder / name)
    return folder


def tried(shim, template, command):
    """What came of the command without a fault, and with one in every call."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": os.pathsep.join([SOURCE, str(HERE.parents[1])])}
    work = template.with_name("work")
    shutil.rmtree(work, ignore_errors=True)
    arguments = [json.dumps(command), str(template), str(work)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.driver", *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_old_file_or_the_new_one(shim, template, name):
    command, outputs, passing = COMMANDS[name]
    if "large.svm" in command:
        (template / "large.svm").write_text(rows(100_000))
    before = {file.name: content(file) for file in template.iterdir()}
    result = tried(shim, template, [*command, *(["-q"] if command[0] in ("train", "convert", "predict") else [])])
    good = result["good"]
    assert good["code"] == 0, good["said"]
    assert all(good["files"][output] != before.get(output) for output in outputs)
    writes, syncs, renames = good["calls"]
    assert min(writes, syncs, renames) >= 1
    for run in result["runs"]:
        files = {file: content for file, content in run["files"].items() if file not in passing}
        what = f"{run['fault']} at call {run['number']}: exit code {run['code']}, {run['said']!r}, {sorted(files)}"
        if run["fault"] in ("interrupted", "short write"):
            assert run["code"] == 0, what
        if run["code"] == 0:
            assert run["files"] == good["files"], what
            continue
        assert run["code"] == 1, what
        lines = [line for line in run["said"].splitlines() if line]
        assert len(lines) == 1, what
        assert lines[0].startswith("thinstream: "), what
        assert REASONS[run["fault"]] in lines[0], what
        assert set(files) <= {*before, *outputs}, what  # no litter
        for file, old in before.items():
            assert files[file] in ({old, good["files"][file]} if file in outputs else {old}), what


def test_a_run_resumes_from_the_checkpoint_after_a_fault(shim, template):
    command = [*COMMANDS["checkpoint"][0], "-q"]
    result = tried(shim, template, command)
    left = [run for run in result["runs"] if "m.ts.checkpoint" in run["files"]]
    assert left
    folder = template.with_name("resumed")
    for checkpoint in {run["files"]["m.ts.checkpoint"] for run in left}:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        (folder / "m.ts.checkpoint").write_bytes(bytes.fromhex(checkpoint))
        code, _, errors = finished(process(*command, "--resume", cwd=folder))
        assert (code, errors) == (0, "")
        assert (folder / "m.ts").read_bytes().hex() == result["good"]["files"]["m.ts"]
        assert not (folder / "m.ts.checkpoint").exists()
