"""Runs killed with SIGKILL at any moment and resumed: the same bytes, little learned twice, nothing left behind."""

import gzip
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

ROWS, EVERY = 15_000, 100
SOURCE = str(Path(__file__).parents[2] / "src")

# The command with a window into it: eight-byte counters in a file that outlives the process.
DRIVER = """
import mmap, os, signal, sys
import thinstream.cli.app as app
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.run import Run

window = memoryview(mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)).cast("q")
stop_at, number = map(int, sys.argv[2:4])
take, write, run = Run._take, Checkpoints.write, Run.run

def watched_take(self, rows):
    take(self, rows)
    window[0] = self.state.progress.rows
    if 0 <= stop_at <= window[0] and not window[3] > 1:
        window[3] = 2
        os.kill(os.getpid(), number)

def watched_write(self, *arguments):
    window[2] = 1
    write(self, *arguments)
    window[2] = 0

def watched_run(self):
    window[0] = window[1] = self.state.progress.rows
    window[3] = 1
    return run(self)

Run._take, Checkpoints.write, Run.run = watched_take, watched_write, watched_run
sys.argv[1:] = sys.argv[4:]
app.main()
"""


class Window:
    """What a process, dead or alive, has done."""

    def __init__(self, path):
        self.path = path
        path.write_bytes(bytes(32))
        with open(path, "r+b") as file:
            self._view = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")

    rows = property(lambda self: self._view[0])
    resumed_at = property(lambda self: self._view[1])
    in_checkpoint = property(lambda self: self._view[2])
    started = property(lambda self: self._view[3])

    def clear(self):
        self._view[:] = memoryview(bytes(32)).cast("q")


@pytest.fixture
def window(tmp_path):
    return Window(tmp_path / "window")


@pytest.fixture(scope="module")
def lines():
    rng = np.random.default_rng(5)
    weights = rng.normal(size=500)
    found = []
    for _ in range(ROWS):
        features = np.unique(rng.integers(0, 500, size=5))
        values = rng.normal(size=len(features)).round(2)
        label = 1 if values @ weights[features] + rng.normal() > 0 else -1
        found.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(features, values)) + "\n")
    return found


@pytest.fixture(scope="module")
def data(lines, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.svm"
    path.write_text("".join(lines))
    return path


def start(window, *arguments, stop_at=-1, with_signal=signal.SIGKILL, driver=DRIVER, **more):
    window.clear()
    command = [sys.executable, "-c", driver, window.path, stop_at, int(with_signal), "train", *arguments]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    return subprocess.Popen(
        list(map(str, command)), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more
    )


def options(model, *more):
    return ["-a", "ssol", "--l1", "1e-3", "--model", model, "--checkpoint-every", EVERY, *more]


def ended(process, code=0, seconds=60):
    _, errors = process.communicate(timeout=seconds)
    assert process.returncode == code, errors
    return errors


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):
    """The bytes of an uninterrupted run, and the seconds it learns."""
    folder = tmp_path_factory.mktemp("whole")
    window = Window(folder / "window")
    process = start(window, data, *options(folder / "m.ts"))
    while not window.started and process.poll() is None:
        time.sleep(0.001)
    began = time.monotonic()
    ended(process)
    seconds = time.monotonic() - began
    assert sorted(os.listdir(folder)) == ["m.ts", "window"]
    return (folder / "m.ts").read_bytes(), seconds


def chain(window, data, folder, seconds, dice, kills):
    """One run, killed again and again until it comes to its end; kills left, and how many fell into what."""
    model, last, within, orphans = folder / "m.ts", 0, 0, 0
    while True:
        process = start(window, data, *options(model, "--resume"))
        while not window.started and process.poll() is None:
            time.sleep(0.001)
        assert last - EVERY <= window.resumed_at <= last  # what is learned again
        try:
            process.wait(dice.uniform(0.0, seconds) if kills else 60)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait(60)
            ended(process, code)
            if code == 0:  # it came to its end in the same moment
                break
            assert code == -signal.SIGKILL
            kills, last, within = kills - 1, window.rows, within + window.in_checkpoint
            orphans += any(name.endswith(".tmp") for name in os.listdir(folder))
            if model.exists() and not (folder / "m.ts.checkpoint").exists():
                break  # all was done
        else:
            assert "Traceback" not in ended(process)
            break
    return kills, within, orphans


def killed(window, data, tmp_path, whole, count):
    expected, seconds = whole
    dice, left, within, orphans, chains = random.Random(count), count, 0, 0, 0
    while left:
        chains += 1
        folder = tmp_path / f"run{chains}"
        folder.mkdir()
        left, more, seen = chain(window, data, folder, seconds, dice, left)
        within, orphans = within + more, orphans + seen
        assert (folder / "m.ts").read_bytes() == expected
        assert os.listdir(folder) == ["m.ts"]
    return within, orphans


def test_three_kills(window, data, tmp_path, whole):
    killed(window, data, tmp_path, whole, 3)


def test_a_blend_that_is_killed(window, data, tmp_path):
    """Between checkpoints, before models may be left out and after."""
    blend = ["--portfolio", "arow,fsol,ssol", "--checkpoint-every", 1000]
    ended(start(window, data, *blend, "--model", tmp_path / "whole.ts"))
    more = [*blend, "--model", tmp_path / "m.ts", "--resume"]
    for rows, resumed in ((3500, 0), (9200, 3000)):
        ended(start(window, data, *more, stop_at=rows), -signal.SIGKILL)
        assert window.resumed_at == resumed
    ended(start(window, data, *more))
    assert window.resumed_at == 9000
    assert (tmp_path / "m.ts").read_bytes() == (tmp_path / "whole.ts").read_bytes()


@pytest.mark.slow
def test_fifty_kills(window, data, tmp_path, whole):
    within, orphans = killed(window, data, tmp_path, whole, 50)
    assert within >= 5  # kills that fell into the writing of a checkpoint
    assert orphans >= 1


def test_kills_within_checkpoint_writes_leave_orphans_that_are_swept(window, data, tmp_path, whole):
    """By its own hand, the 51st time it comes by: an odd one, since the folder is synchronised after the file."""
    model, last = tmp_path / "m.ts", 0
    for step in ("fsync", "replace"):
        die = f"""
import os, signal
real, left = os.{step}, [51]
def step(*arguments):
    left[0] -= 1
    return real(*arguments) if left[0] else os.kill(os.getpid(), signal.SIGKILL)
os.{step} = step
"""
        ended(start(window, data, *options(model, "--resume"), driver=die + DRIVER), -signal.SIGKILL)
        assert window.in_checkpoint
        assert last - window.resumed_at == (EVERY if last else 0)
        assert sum(name.endswith(".tmp") for name in os.listdir(tmp_path)) == 1
        last = window.rows
    ended(start(window, data, *options(model, "--resume")))
    assert last - window.resumed_at == EVERY
    assert sorted(os.listdir(tmp_path)) == ["m.ts", "window"]
    assert model.read_bytes() == whole[0]


def test_a_stop_and_an_orphan_of_the_last_checkpoint_leave_nothing(window, data, tmp_path, whole):
    model = tmp_path / "m.ts"
    ended(start(window, data, *options(model), stop_at=ROWS, with_signal=signal.SIGTERM), 143)
    orphan = tmp_path / ".m.ts.checkpoint.999999999.0123abcd.tmp"
    orphan.write_bytes(b"half")
    errors = ended(start(window, data, *options(model), "--resume"))
    assert f"after {ROWS:,} rows" in errors
    assert sorted(os.listdir(tmp_path)) == ["m.ts", "window"]
    assert model.read_bytes() == whole[0]


@pytest.mark.parametrize("kind", ["compressed", "piped", "several", "terminated", "cached"])
def test_sources(window, data, lines, tmp_path, whole, kind):
    """All of them give the model of the plain file, killed or not."""
    model, more, feed = tmp_path / "m.ts", [], None
    files, number = [data], signal.SIGTERM if kind == "terminated" else signal.SIGKILL
    if kind == "compressed":
        files = [tmp_path / "data.svm.gz"]
        files[0].write_bytes(gzip.compress(data.read_bytes(), 1))
    elif kind == "several":
        files = [tmp_path / f"{i}.svm" for i in range(3)]
        for i, path in enumerate(files):
            path.write_text("".join(lines[[0, 4000, 9001][i] : [4000, 9001, ROWS][i]]))
    elif kind == "piped":
        files, feed = ["-"], data
    elif kind == "cached":
        files, more = [tmp_path / "data.svm"], ["--cache"]
        files[0].write_bytes(data.read_bytes())
    before, last = sorted(os.listdir(tmp_path)), 0
    for stop_at in (4003, 12001, -1) if kind == "several" else (4003, -1):
        with open(feed or os.devnull, "rb") as source:
            arguments = [*files, *options(model, "--resume"), *more]
            process = start(window, *arguments, stop_at=stop_at, with_signal=number, stdin=source)
            code = 0 if stop_at < 0 else 143 if kind == "terminated" else -signal.SIGKILL
            errors = ended(process, code)
        if kind == "terminated" and stop_at > 0:
            assert stop_at <= window.rows < stop_at + EVERY  # not at the end of the batch
        again = last - window.resumed_at
        assert again == 0 if kind == "terminated" else again <= EVERY
        assert ("resumed from" in errors) == (last > 0)
        last = window.rows
    assert model.read_bytes() == whole[0]
    after = [*before, "m.ts", *(["data.svm.cache"] if kind == "cached" else [])]
    assert sorted(os.listdir(tmp_path)) == sorted(after)


def test_two_passes_and_names(window, tmp_path):
    """Intervals are counted across passes; the names of features go on, too."""
    rng, path = random.Random(3), tmp_path / "data.vw"
    rows = ((rng.choice((-1, 1)), rng.randrange(900), rng.randrange(900)) for _ in range(700))
    path.write_text("".join(f"{y} |f w{a} v{b}:0.5\n" for y, a, b in rows))
    shared = [path, "--passes", 3, "--names", 1000, "--checkpoint-every", 500]
    ended(start(window, *shared, "--model", tmp_path / "whole.ts"))
    model, last = tmp_path / "m.ts", 0
    for stop_at in (650, 2050, -1):
        process = start(window, *shared, "--model", model, "--resume", stop_at=stop_at)
        errors = ended(process, 0 if stop_at < 0 else -signal.SIGKILL)
        assert last - window.resumed_at <= 500
        last = window.rows
    assert "after 600 rows of pass 3" in errors
    assert model.read_bytes() == (tmp_path / "whole.ts").read_bytes()


# `train --nnz`: killed while the model learns, while ways are compared, and while the thin model is trained.
THINNING = """
import os, signal, sys
from thinstream.training import refit

learned, batches = [0], refit._train
def train(model, rows, paths, notify, *more):
    def watched():
        for batch in rows():
            learned[0] += 1
            if learned[0] == int(os.environ["STOP_AT_PASS"]):
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch
    return batches(model, watched, paths, notify, *more)
refit._train = train
"""


def test_a_thin_model_that_is_killed(window, lines, tmp_path):
    data = tmp_path / "short.svm"
    data.write_text("".join(lines[:3000]))
    shared = [data, "-a", "arow", "--nnz", 20, "--checkpoint-every", 500]
    ended(start(window, *shared, "--model", tmp_path / "whole.ts"), seconds=400)
    more = [*shared, "--model", tmp_path / "m.ts", "--resume"]
    ended(start(window, *more, stop_at=1700), -signal.SIGKILL, seconds=400)
    for stop_at in (1, 5, 10_000):  # while ways are compared, and after it
        environment = {"STOP_AT_PASS": str(stop_at)}
        driver = f"import os\nos.environ.update({environment!r})\n{THINNING}{DRIVER}"
        process = start(window, *more, driver=driver)
        errors = ended(process, 0 if stop_at == 10_000 else -signal.SIGKILL, seconds=400)
        assert "resumed from" in errors
        if stop_at == 1:
            assert window.resumed_at == 1500
        else:
            assert "after training" in errors
            assert window.started == 0
    assert (tmp_path / "m.ts").read_bytes() == (tmp_path / "whole.ts").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["m.ts", "short.svm", "whole.ts", "window"]
