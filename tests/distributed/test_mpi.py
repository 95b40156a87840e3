"""``mpiexec -n N thinstream train --mode features``, with one, two and four processes."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import without_compiling
from thinstream.models.file import read

MPIEXEC = Path(sys.executable).with_name("mpiexec")
pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install -e '.[mpi]' mpich")
pytestmark = pytest.mark.skipif(not MPIEXEC.exists(), reason="there is no mpiexec: pip install mpich")


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(3)
    weights, lines = rng.normal(size=200), []
    for _ in range(400):
        where = np.unique(rng.integers(0, 200, 12))
        values = rng.normal(size=len(where)).round(3)
        pairs = " ".join(f"{j + 1}:{x}" for j, x in zip(where, values, strict=True))
        lines.append(f"{1 if values @ weights[where] > 0 else -1} {pairs}\n")
    (tmp_path / "rows.svm").write_text("".join(lines))
    return tmp_path


def command(*arguments):
    return [sys.executable, "-m", "thinstream", "train", *map(str, arguments)]


def started(folder, size, *arguments, others=()):
    """The command on so many processes; ``others``: the arguments of the last one."""
    words = [str(MPIEXEC), "-n", str(size), *command(*arguments, "--mode", "features")]
    words += [":", "-n", "1", *command(*others, "--mode", "features")] if others else []
    environment = {**os.environ, "TERM": "xterm"}
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(child):
    try:
        out, errors = child.communicate(timeout=600)
    finally:
        child.kill()  # mpiexec ends its processes
    return child.returncode, out, without_compiling(errors)


def alone(folder, *arguments):
    subprocess.run(command(*arguments, "-q"), cwd=folder, check=True, timeout=120)


def complaints(errors):
    return [line for line in errors.splitlines() if line.startswith("thinstream: rank")]


@pytest.mark.parametrize("algorithm", ["fsol", "ssol"])
def test_one_rank_writes_the_file_of_the_serial_run(data, algorithm):
    options = ["rows.svm", "-a", algorithm, "-q"]
    alone(data, *options, "-m", "serial.ts")
    alone(data, *options, "-m", "few.ts", "--weights-only")
    assert finished(started(data, 1, *options, "--mini-batch", 1, "-m", "one.ts")) == (0, "", "")
    assert finished(started(data, 1, *options, "--mini-batch", 1, "-m", "w.ts", "--weights-only")) == (0, "", "")
    assert (data / "one.ts").read_bytes() == (data / "serial.ts").read_bytes()
    assert (data / "w.ts").read_bytes() == (data / "few.ts").read_bytes()
    assert sorted(path.name for path in data.iterdir()) == ["few.ts", "one.ts", "rows.svm", "serial.ts", "w.ts"]


@pytest.mark.parametrize("size", [2, 4])
def test_more_ranks_are_the_serial_run_up_to_rounding(data, size):
    options = ["rows.svm", "-a", "ssol", "--dtype", "float64"]
    alone(data, *options, "-m", "serial.ts")
    code, out, errors = finished(started(data, size, *options, "--mini-batch", 1, "-m", "some.ts", "--json"))
    assert (code, errors) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    serial, some = read(data / "serial.ts"), read(data / "some.ts")
    np.testing.assert_allclose(some.learner.weights(), serial.learner.weights(), rtol=1e-9, atol=1e-12)
    assert some.learner.outputs.one.memory.counts.tolist() == serial.learner.outputs.one.memory.counts.tolist()
    assert some.report["error"] == serial.report["error"] == told[-1]["error"]
    assert told[-1]["non_zeros"] == serial.learner.nnz
    assert [line["rows"] for line in told[:-1]] == [64, 128, 256, 400]  # of one rank
    alone(data, "rows.svm", "--from", "serial.ts", "-m", "more.ts")
    assert (
        finished(started(data, size, "rows.svm", "--from", "serial.ts", "--mini-batch", 1, "-m", "m.ts", "-q"))[0] == 0
    )
    np.testing.assert_allclose(
        read(data / "m.ts").learner.weights(), read(data / "more.ts").learner.weights(), rtol=1e-9
    )


def test_mini_batches_have_64_rows_by_default(data):
    for name, more in (("default", []), ("64", ["--mini-batch", 64]), ("1", ["--mini-batch", 1])):
        assert finished(started(data, 2, "rows.svm", "-a", "fsol", "-m", name, "-q", *more))[0] == 0
    default, same, other = ((data / name).read_bytes() for name in ("default", "64", "1"))
    assert default == same != other
    assert finished(started(data, 2, "rows.svm", "-m", "unnamed", "-q"))[0] == 0
    assert read(data / "unnamed").learner.algorithm.name == "AdaRDA"


# Failures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothere.svm", "-a", "fsol"], 1, "the file nothere.svm does not exist"),
        (["bad.svm", "-a", "fsol"], 1, "bad.svm, line 401, column 3: a feature must be index:value"),
        (["rows.svm", "-a", "sofs"], 2, "SOFS cannot be split by features"),
        (["rows.svm", "--nope"], 2, "unknown option --nope"),
        (
            ["rows.svm", "-a", "fsol", "-m", "nowhere/m.ts"],
            1,
            "nowhere/m.ts: cannot be written: the folder ",
        ),
    ],
)
def test_an_error_of_all_ranks_is_printed_once(data, size, arguments, code, message):
    (data / "bad.svm").write_text((data / "rows.svm").read_text() + "1 x:y\n")
    result, _, errors = finished(started(data, size, *arguments, "-q"))
    assert result == code
    assert errors.count("thinstream: ") == 1
    assert f"thinstream: {'rank 0: ' * (size > 1)}{message}" in errors


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (["bad.svm", "-a", "fsol"], "rank 1: bad.svm, line 401, column 3"),
        (["nothere.svm", "-a", "fsol"], "rank 1: the file nothere.svm does not exist"),
        (["short.svm", "-a", "fsol"], "rank 0: ranks read different data after row 0: rank 0 read 400 rows with"),
    ],
)
def test_an_error_of_one_rank_ends_all(data, others, message):
    text = (data / "rows.svm").read_text()
    (data / "bad.svm").write_text(text + "1 x:y\n")
    (data / "short.svm").write_text("".join(text.splitlines(keepends=True)[:300]))
    start = time.monotonic()
    assert finished(started(data, 2, "rows.svm", "-a", "fsol", "-q"))[0] == 0
    middle = time.monotonic()
    code, _, errors = finished(started(data, 1, "rows.svm", "-a", "fsol", "-q", others=[*others, "-q"]))
    assert code == 1
    assert len(complaints(errors)) == 1
    assert message in errors
    assert time.monotonic() - middle < 2 * (middle - start) + 20  # rank 0 does not wait in vain


def test_a_bug_on_one_rank_ends_all(data):
    (data / "sitecustomize.py").write_text(
        "import os\n"
        "if os.environ.get('PMI_RANK') == '1':\n"
        "    import thinstream.distributed.mpi as run\n"
        "    run.FeatureRun._end_pass = lambda self: 1 / 0\n"
    )
    before = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{data}{os.pathsep}{before}")
        code, _, errors = finished(started(data, 2, "rows.svm", "-a", "fsol", "-q"))
    assert code == 1
    assert [line[:26] for line in complaints(errors)] == ["thinstream: rank 1: Traceb"]
    assert "ZeroDivisionError" in errors


def test_without_an_mpi_library(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPI4PY_LIBMPI", str(data / "libmpi.so"))
        result = subprocess.run(command("rows.svm", "--mode", "features"), cwd=data, capture_output=True, text=True)
    assert result.returncode == 1
    assert "--mode features needs mpi4py and an MPI library (cannot load MPI library): pip install" in result.stderr


def test_with_the_mpiexec_of_another_library(data):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMPI_COMM_WORLD_SIZE", "4")
        result = subprocess.run(command("rows.svm", "--mode", "features"), cwd=data, capture_output=True, text=True)
    assert result.returncode == 2
    assert "mpiexec started 4 processes, but each finds only itself" in result.stderr


def ranks_of(child):
    """Processes of the job, from /proc."""
    if not Path("/proc/self/task").exists():
        pytest.skip("processes are found in /proc, which this system does not have")
    result, left = [], [child.pid]
    while left:
        pid = left.pop()
        try:
            children = [int(item) for item in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            left += children
            if b"--mode" in Path(f"/proc/{pid}/cmdline").read_bytes() and not children and pid != child.pid:
                result.append(pid)
        except OSError:
            continue
    return result


@pytest.mark.parametrize(
    ("kill", "most"),
    [(signal.SIGKILL, 3), (signal.SIGTERM, 3), pytest.param(signal.SIGKILL, 20, marks=pytest.mark.slow)],
)
def test_a_run_that_lost_a_rank_is_resumed(data, kill, most):
    """Killed again and again, or stopped by a signal to one rank; every time the run ends, and continues."""
    options = ["rows.svm", "-a", "ssol", "--passes", 1000 if most == 3 else 2500, "-q"]
    assert finished(started(data, 2, *options, "-m", "calm.ts"))[0] == 0
    draw, checkpoint, kills, code = random.Random(4), data / "m.ts.checkpoint", 0, -1
    while code != 0:
        resume = ["--resume"] if kills else []
        child = started(data, 2, *options, "-m", "m.ts", "--checkpoint-every", 20_000 if most == 3 else 5000, *resume)
        before, end = checkpoint.stat().st_mtime_ns if kills else None, time.monotonic() + 60
        while (checkpoint.stat().st_mtime_ns if checkpoint.exists() else None) == before and child.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        pids = ranks_of(child) if kills < most else []
        if len(pids) == 2:  # otherwise the run is over
            os.kill(draw.choice(pids), kill)
        code, _, errors = finished(child)
        if code != 0:
            kills += 1
            while any(Path(f"/proc/{pid}").exists() for pid in pids):  # no rank is left behind
                assert time.monotonic() < end
                time.sleep(0.05)
            if kill == signal.SIGTERM:
                assert code == 143
                assert "stopped by SIGTERM; m.ts.checkpoint holds all of it. Pass --resume to continue" in errors
            assert not (data / "m.ts").exists()
    assert 0 < kills <= most
    assert kills == most or most == 3  # a short run may end before it is killed again
    assert (data / "m.ts").read_bytes() == (data / "calm.ts").read_bytes()
    assert sorted(path.name for path in data.iterdir()) == ["calm.ts", "m.ts", "rows.svm"]
