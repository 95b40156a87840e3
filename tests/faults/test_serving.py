"""A server whose disk is full or read-only: clear answers, nothing lost, and it goes on by itself."""

import shutil
import subprocess
import sys
import time

import pytest

from tests.serve.conftest import made
from tests.serve.servers import Server
from thinstream.models.file import read
from thinstream.serve.folders import ServerPaths

pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform != "linux", reason="needs tmpfs")]


@pytest.fixture
def small(tmp_path):
    """A folder on a file system of a megabyte and a half."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", folder], capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system cannot be mounted here: that takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def server(tmp_path, small):
    made(tmp_path / "m.ts", "ham", "spam")
    result = Server(small / "data", tmp_path / "m.ts", "--checkpoint-seconds", "1")
    result.until_ready()
    yield result
    result.kill()
    ServerPaths(result.data).clear()


def teach(server, number):
    row = {str(j): float(number + j) for j in range(1, 300)}
    return server.post("/learn", {"x": row, "y": "ham", "request": f"r{number}"})


def learned(server, small, expected):
    """Waits for a checkpoint of so many rows."""
    place, until = small / "data" / "m" / "checkpoint.ts", time.monotonic() + 60
    while time.monotonic() < until:
        if place.exists() and read(place).learner.t == 60 + expected:
            return
        time.sleep(0.2)
    raise AssertionError(server.log_text())


def test_a_full_disk(server, small):
    rest = shutil.disk_usage(small).free
    (small / "ballast").write_bytes(bytes(max(rest - 100_000, 0)))
    done, status = 0, 200
    while status == 200 and done < 2000:
        status, answer = teach(server, done)
        done += status == 200
    assert status == 503
    assert "cannot be written: database or disk is full" in answer["error"]
    assert str(small) not in answer["error"]
    assert server.post("/predict", {"x": {"1": 1.0}})[0] == 200
    (small / "ballast").unlink()
    assert teach(server, done)[0] == 200  # the one that was refused
    assert teach(server, done)[1]["again"]
    learned(server, small, done + 1)


def test_a_read_only_disk(server, small):
    """It does not begin, and says why; once it may write, it goes on with what it had."""
    assert teach(server, 0)[0] == 200
    assert server.stop() == 0
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)
    command = [sys.executable, "-m", "thinstream", "serve", "--data", small / "data", "--port", "0"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 1
    assert "Read-only file system" in result.stderr
    assert "Traceback" not in result.stderr
    subprocess.run(["mount", "-o", "remount,rw", small], check=True)
    server.start()
    server.until_ready()
    assert teach(server, 1)[0] == 200
    learned(server, small, 2)


def test_a_torn_journal(tmp_path):
    """The end of the log is not what was written: what is before it is learned, and the server goes on by itself."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--checkpoint-seconds", "1000")
    server.until_ready()
    assert [teach(server, k)[0] for k in range(5)] == [200] * 5
    server.kill()
    log = tmp_path / "data" / "m" / "journal.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-2000] + bytes(range(200)) * 5)
    server.start()
    server.until_ready()
    status, answer = teach(server, 4)  # sent again, as nobody knows: it was the one that is lost
    assert (status, answer) == (200, {"model": "m", "rows": 1, "entry": 5})
    assert teach(server, 3)[1]["again"]
    assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "log.txt").read_text()
    assert read(tmp_path / "data" / "m" / "checkpoint.ts").learner.t == 65
