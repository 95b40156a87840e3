"""Workers on Ray: two nodes on this machine, loopback only, with a token; processes are killed and replaced."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.distributed.conftest import RAY_NODE
from tests.distributed.listeners import Listener, listeners, parsed
from thinstream.distributed.engines.ray import RayLauncher
from thinstream.errors import InvalidInputError, InvalidParameterError, WorkerLostError

pytestmark = pytest.mark.ray

_memory: dict[str, int] = {}


@dataclass(frozen=True)
class WhereAmI:
    def __call__(self) -> tuple[int, str]:
        import ray

        return os.getpid(), ray.get_runtime_context().get_node_id()


@dataclass(frozen=True)
class Variables:
    names: tuple[str, ...]

    def __call__(self) -> list[str | None]:
        return [os.environ.get(name) for name in self.names]


@dataclass(frozen=True)
class Count:
    def __call__(self) -> int:
        _memory["rounds"] = _memory.get("rounds", 0) + 1
        return _memory["rounds"]


@dataclass(frozen=True)
class Total:
    shared: Callable[[], Any]
    factor: float

    def __call__(self) -> float:
        return self.factor * float(self.shared().sum())


@dataclass(frozen=True)
class DieOnce:
    """Dies in the middle, unless somebody did before."""

    mark: Path
    answer: int

    def __call__(self) -> int:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.answer


@dataclass(frozen=True)
class Die:
    def __call__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class LoseNode:
    """Kills the node it runs on, unless one was killed before."""

    mark: Path

    def __call__(self) -> tuple[int, str]:
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(600)
        return WhereAmI()()


@dataclass(frozen=True)
class Refuse:
    kind: type[Exception]

    def __call__(self, exchange: Any = None) -> None:
        raise self.kind("row 7 is bad")


@pytest.fixture(scope="module")
def launcher(ray_cluster: str) -> Iterator[RayLauncher]:
    made = RayLauncher(2, address=ray_cluster, _node_ip_address="127.0.0.1")
    yield made
    made.close()
    made.close()


def test_workers_are_processes_on_both_nodes(launcher: RayLauncher) -> None:
    (one, here), (two, there) = launcher.run_tasks([WhereAmI(), WhereAmI()])
    assert len({one, two, os.getpid()}) == 3
    assert here != there


def test_all_sockets_listen_on_loopback(launcher: RayLauncher) -> None:
    result = listeners([os.getpid()])
    assert [item for item in result if not item.loopback] == []
    for kind, least in (("gcs_server", 1), ("raylet", 2), ("ray::", 2)):  # the head, both nodes, both workers
        assert sum(item.process.startswith(kind) for item in result) >= least


def test_a_wide_listener_would_be_seen() -> None:
    row = "{}: {} 00000000:0000 {} 00000000:00000000 00:00000000 00000000 0 0 {} 1"
    table = "\n".join(
        [
            "sl local_address ...",
            row.format(0, "0100007F:1F90", "0A", 11),
            row.format(1, "00000000:1F91", "0A", 12),
            row.format(2, "0000000000000000FFFF00000100007F:1F92", "0A", 13),
            row.format(3, "0100007F:1F93", "01", 14),
        ]
    )
    result = parsed(table)
    assert list(result) == ["socket:[11]", "socket:[12]", "socket:[13]"]
    assert [port for _, port in result.values()] == [8080, 8081, 8082]
    assert [Listener("", *item).loopback for item in result.values()] == [True, False, True]


@pytest.mark.parametrize("token", ["wrong" * 10, None])
def test_the_cluster_needs_the_token(ray_cluster: str, ray_settings: Path, token: str | None) -> None:
    environment = {**os.environ, "RAY_NUM_REDIS_GET_RETRIES": "1", "HOME": str(ray_settings / "nobody")}
    del environment["RAY_AUTH_TOKEN_PATH"]
    if token is None:
        environment["RAY_AUTH_MODE"] = "disabled"
    else:
        environment["RAY_AUTH_TOKEN"] = token
    code = "import ray, sys; ray.init(sys.argv[1], _node_ip_address='127.0.0.1'); print(ray.nodes())"
    run = subprocess.run(
        [sys.executable, "-c", code, ray_cluster], env=environment, capture_output=True, text=True, timeout=60
    )
    assert run.returncode != 0
    assert run.stdout == ""
    assert "InvalidAuthToken" in run.stderr


def test_the_token_is_in_a_folder_that_only_we_can_read(launcher: RayLauncher, ray_settings: Path) -> None:
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    assert is_token_auth_enabled()
    assert (ray_settings / "token").stat().st_mode & 0o077 == 0
    assert ray_settings.stat().st_mode & 0o077 == 0


def test_processes_remember_and_values_are_shared(launcher: RayLauncher) -> None:
    before = launcher.run_tasks([Count(), Count()])
    assert launcher.run_tasks([Count(), Count()]) == [count + 1 for count in before]
    shared = launcher.share(np.arange(100_000.0))
    assert launcher.run_tasks([Total(shared, 1.0), Total(shared, 2.0)]) == [4999950000.0, 9999900000.0]


def test_a_killed_worker_is_replaced_and_its_task_run_again(
    launcher: RayLauncher, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = launcher.run_tasks([WhereAmI(), WhereAmI()])
    assert launcher.run_tasks([DieOnce(tmp_path / "dead", 10), WhereAmI()])[0] == 10
    after = launcher.run_tasks([WhereAmI(), WhereAmI()])
    assert before[0][0] != after[0][0]
    assert before[1] == after[1]
    assert "worker 0 was lost" in caplog.text


def test_a_worker_killed_between_rounds_is_replaced(launcher: RayLauncher) -> None:
    (_, _), (pid, _) = launcher.run_tasks([WhereAmI(), WhereAmI()])
    os.kill(pid, signal.SIGKILL)
    assert launcher.run_tasks([WhereAmI(), WhereAmI()])[1][0] != pid


def test_a_task_that_always_kills_is_given_up(launcher: RayLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thinstream.distributed.engines.ray.RETRIES", 1)
    with pytest.raises(WorkerLostError, match="worker 1 died 2 times with the same task"):
        launcher.run_tasks([WhereAmI(), Die()])


def test_errors_of_tasks_are_raised_here(launcher: RayLauncher) -> None:
    with pytest.raises(InvalidInputError, match="row 7 is bad") as caught:
        launcher.run_tasks([WhereAmI(), Refuse(InvalidInputError)])
    assert caught.value.__notes__ == ["raised in worker 1"]


def test_a_lost_node_is_left_for_another(launcher: RayLauncher, ray_nodes: Any, tmp_path: Path) -> None:
    head, [node] = ray_nodes.head_node.node_id, ray_nodes.worker_nodes
    other = ray_nodes.add_node(**RAY_NODE)
    places = [place for _, place in launcher.run_tasks([WhereAmI(), WhereAmI()])]
    assert sorted(places) == sorted([head, node.node_id])
    victim = places.index(node.node_id)
    tasks: list[Any] = [WhereAmI(), WhereAmI()]
    tasks[victim] = LoseNode(tmp_path / "lost")
    assert launcher.run_tasks(tasks)[victim][1] == other.node_id
    ray_nodes.remove_node(node)


def test_a_full_cluster_is_an_error_without_a_long_wait(launcher: RayLauncher) -> None:
    with pytest.raises(
        WorkerLostError,
        match=r"could not start 2 workers within 1 s. 0 of the cluster's "
        r"2 CPUs are free",
    ):
        RayLauncher(2, timeout=1.0)
    with pytest.raises(InvalidParameterError, match=r"3 workers need 1 CPU each, but the cluster has 2 CPUs"):
        RayLauncher(3)
    with pytest.raises(InvalidParameterError, match=r"the options of engine 'ray' must be 'address', .*, got 'foo'"):
        RayLauncher(1, foo=1)
    assert len(launcher.run_tasks([WhereAmI(), WhereAmI()])) == 2  # the connection was not its own, and is still there


def test_two_clusters_with_different_variables(launcher: RayLauncher) -> None:
    beside = RayLauncher(1, cpus=0.0, runtime_env={"env_vars": {"THINSTREAM_TEST": "here"}})
    try:
        assert beside.run_tasks([Variables(("THINSTREAM_TEST", "OMP_NUM_THREADS"))]) == [["here", "1"]]
    finally:
        beside.close()
    assert launcher.run_tasks([Variables(("THINSTREAM_TEST",))]) == [[None]]


def test_more_tasks_than_workers(launcher: RayLauncher) -> None:
    with pytest.raises(InvalidParameterError, match="the launcher has 2 workers, got 3 tasks"):
        launcher.run_tasks([WhereAmI()] * 3)
    with pytest.raises(InvalidParameterError, match="workers must be a whole number > 0, got 0"):
        RayLauncher(0)


_ALONE = """
import os
from pathlib import Path
from tests.distributed.listeners import listeners
from tests.distributed.engines.ray.test_launcher import WhereAmI
from thinstream.distributed.engines.ray import RayLauncher

launcher = RayLauncher(2)
(one, _), (two, _) = launcher.run_tasks([WhereAmI(), WhereAmI()])
found = listeners([os.getpid()])
print(len({one, two, os.getpid()}), len(found) >= 6, [each for each in found if not each.loopback])
token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
print(os.environ["RAY_AUTH_MODE"], len(token.read_text()), oct(token.parent.stat().st_mode & 0o777))
launcher.close()
print(listeners([os.getpid()]))
print(token)
"""


def test_a_started_cluster_is_local_and_ends_with_the_launcher(ray_settings: Path, tmp_path: Path) -> None:
    """No address: one is started, on loopback and with a token though no variable says so, and stopped."""
    unset = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment["HOME"] = str(tmp_path)
    run = subprocess.run([sys.executable, "-c", _ALONE], env=environment, capture_output=True, text=True, timeout=90)
    *lines, token = run.stdout.splitlines()
    assert lines == ["3 True []", "token 64 0o700", "[]"], run.stderr
    assert not Path(token).parent.exists()
    assert not (tmp_path / ".ray").exists()


def test_a_wrong_address_fails_in_time() -> None:
    """Nothing listens there, or something that is not Ray and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        addresses = [f"ray://127.0.0.1:{port}", "ray://127.0.0.1:9", "127.0.0.1:9"]
        for address in addresses:
            name = "thinstream.distributed.engines.ray"
            code = f"from {name} import RayLauncher; RayLauncher(1, address={address!r}, timeout=5)"
            began = time.monotonic()
            run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            assert f"InvalidParameterError: no Ray cluster can be reached at {address}: " in run.stderr
            assert time.monotonic() - began < 30


def test_sigterm_ends_a_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("+1 1:1\n-1 2:1\n" * 10_000)
    words = ["train", tmp_path / "a.svm", "-a", "fsol", "--engine", "ray", "--workers", "1", "--passes", "100000", "-q"]
    run = subprocess.Popen([sys.executable, "-m", "thinstream", *map(str, words)], stderr=subprocess.PIPE, text=True)
    time.sleep(25)
    assert run.poll() is None
    began = time.monotonic()
    run.terminate()
    _, errors = run.communicate(timeout=30)
    assert (run.returncode, time.monotonic() - began < 8) == (143, True), errors
