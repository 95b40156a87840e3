"""Processes of this machine: memory, deaths and errors."""

import os
import signal
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from thinstream.distributed.engines.launcher import require_reachable
from thinstream.distributed.engines.local import LocalLauncher
from thinstream.errors import InvalidParameterError, WorkerLostError

_memory = {}


@dataclass(frozen=True)
class Count:
    """How often this process was asked."""

    name: str

    def __call__(self):
        _memory[self.name] = _memory.get(self.name, 0) + 1
        return os.getpid(), _memory[self.name]


@dataclass(frozen=True)
class Dies:
    """Kills its process as long as a file is not there."""

    mark: str
    always: bool = False

    def __call__(self):
        if self.always or not Path(self.mark).exists():
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return os.getpid()


@dataclass(frozen=True)
class Fails:
    def __call__(self):
        raise ValueError("no")


@dataclass(frozen=True)
class Sleeps:
    mark: str

    def __call__(self):
        Path(self.mark).touch()
        time.sleep(60)


@dataclass(frozen=True)
class Gives:
    """What no process can send to another."""

    def __call__(self):
        return threading.Lock()


@dataclass(frozen=True)
class Asks:
    value: object

    def __call__(self):
        return self.value()


@pytest.fixture(scope="module")
def launcher():
    result = LocalLauncher(2)
    yield result
    result.close()
    result.close()


def test_each_worker_is_a_process_that_remembers(launcher):
    first = launcher.run_tasks([Count("a"), Count("a")])
    second = launcher.run_tasks([Count("a"), Count("a")])
    pids = [pid for pid, _ in first]
    assert len({*pids, os.getpid()}) == 3
    assert second == [(pids[0], 2), (pids[1], 2)]
    assert launcher.pids() == pids


def test_shared_values_arrive_and_are_freed(launcher):
    value = launcher.share({"x": 1})
    assert launcher.run_tasks([Asks(value), Asks(value)]) == [{"x": 1}] * 2
    assert launcher.run_tasks([Asks(value), Asks(value)]) == [{"x": 1}] * 2
    assert len(launcher._values) == 1
    del value
    assert launcher._values == {}


def test_a_worker_that_dies_is_replaced(launcher, tmp_path, caplog):
    shared = launcher.share("still there")
    before = launcher.run_tasks([Count("b"), Asks(shared)])
    pid, _ = launcher.run_tasks([Dies(str(tmp_path / "mark")), Count("b")])
    assert pid != before[0][0]
    assert launcher.run_tasks([Asks(shared), Asks(shared)]) == ["still there"] * 2
    os.kill(launcher.pids()[0], signal.SIGKILL)  # between two rounds
    time.sleep(0.2)
    assert launcher.run_tasks([Count("c"), Count("c")])[0][1] == 1
    assert "worker 0 was lost (worker 0 died at its task); another one runs its task again" in caplog.text


def test_one_that_always_dies_is_lost(tmp_path):
    launcher = LocalLauncher(1, retries=1)
    with pytest.raises(WorkerLostError, match="worker 0 died 2 times"):
        launcher.run_tasks([Dies(str(tmp_path / "mark"), always=True)])
    launcher.close()


def test_errors_of_tasks_are_raised_here(launcher):
    with pytest.raises(ValueError, match="no") as result:
        launcher.run_tasks([Count("d"), Fails()])
    assert "raised in worker 1" in result.value.__notes__


def test_closing_does_not_wait(tmp_path):
    launcher, errors = LocalLauncher(1, retries=0), []

    def run():
        try:
            launcher.run_tasks([Sleeps(str(tmp_path / "mark"))])
        except WorkerLostError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not (tmp_path / "mark").exists():
        time.sleep(0.01)
    pid, start = launcher.pids()[0], time.monotonic()
    launcher.close()
    assert time.monotonic() - start < 20
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    thread.join(20)
    assert [str(error) for error in errors] == ["worker 0 died 1 times at the same task"]


def test_an_answer_that_cannot_be_sent_is_an_error(launcher):
    with pytest.raises(TypeError, match="cannot pickle"):
        launcher.run_tasks([Gives(), Gives()])
    assert launcher.run_tasks([Count("f"), Count("f")])[0][1] == 1


def test_numbers_of_workers():
    for bad in (0, 1.5, True, "2"):
        with pytest.raises(InvalidParameterError, match="workers must be a whole number > 0"):
            LocalLauncher(bad)


def test_addresses_that_nothing_listens_at():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        place = f"127.0.0.1:{listening.getsockname()[1]}"
        for address in (f"ray://{place}", place, f"spark://127.0.0.1:9,{place}", "auto", "yarn"):
            require_reachable("Ray", address, 5.0)
    with pytest.raises(InvalidParameterError, match=r"no Spark cluster can be reached at spark://127\.0\.0\.1:9: "):
        require_reachable("Spark", "spark://127.0.0.1:9", 5.0)
