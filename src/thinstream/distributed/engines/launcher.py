"""The interface of an engine: it runs tasks in processes."""

import logging
import os
import pickle
import shutil
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import signature
from numbers import Integral
from pathlib import Path
from typing import Any, Protocol, TypeVar

from thinstream.errors import InvalidParameterError, listed
from thinstream.files import try_lock

# An engine only runs tasks in processes. A task is a picklable callable, usually a frozen dataclass with `__call__`.
# Its answer depends only on its fields. State that its process keeps from earlier rounds may only save work.

T = TypeVar("T")

#: Engines by name, with the module and the name of their launcher.
ENGINES = {"ray": ("ray", "RayLauncher"), "spark": ("spark", "SparkLauncher"), "local": ("local", "LocalLauncher")}

LOOPBACK = "127.0.0.1"
#: How often a task is run again after its process died.
RETRIES = 3


class Launcher(Protocol):
    """The workers of one job. Each is a separate process."""

    workers: int
    #: Whether task i of a round runs in the same process as task i of the round before, unless that process died.
    remembers: bool
    #: Rows per worker that make a round worth its cost on this engine.
    worthwhile: int

    def share(self, value: T) -> Callable[[], T]:
        """Send a value to each worker once; the returned callable can be pickled and returns the value there."""

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run task i in the process of worker i, with its state from earlier rounds; return the answers.

        A task whose process died is run again in a new one, `RETRIES` times, before a WorkerLostError. An error of a
        task is raised here, with the worker's number in a note, and the task is not repeated.
        """

    def close(self) -> None:
        """Stop the workers; a second call does nothing."""


def require_count(count: Any, name: str = "workers") -> int:
    """Return a valid number of workers, or of something else.

    >>> require_count(2)
    2
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise InvalidParameterError(f"{name} must be a whole number > 0, got {count!r}")
    return int(count)


def require_reachable(cluster: str, address: str, timeout: float) -> None:
    """Raise if nothing listens at an address (one of several with commas). Names without a port are not checked.

    A wrong address is reported at once, because engines retry for minutes or end the process.
    """
    failures = list[str]()
    for host_port in address.rpartition("://")[2].split(","):
        host, _, port = host_port.rpartition(":")
        if not port.isdecimal():
            return
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout).close()
            return
        except OSError as error:
            failures.append(error.strerror or str(error))
    raise InvalidParameterError(f"no {cluster} cluster can be reached at {address}: {failures[0]}")


def report_loss(worker: int, reason: object) -> None:
    """Log that a worker was lost. Without a logging configuration, the warning goes to standard error."""
    logging.getLogger("thinstream").warning(
        "thinstream: worker %d was lost (%s); another one runs its task again", worker, str(reason).partition("\n")[0]
    )


def with_worker(error: BaseException, worker: int) -> BaseException:
    """Add the number of its worker to an error.

    >>> with_worker(ValueError("no"), 3).__notes__
    ['raised in worker 3']
    """
    error.add_note(f"raised in worker {worker}")
    return error


def portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with its traceback as a note."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    sent: BaseException = RuntimeError(f"{type(error).__name__}: {error}")
    with suppress(Exception):  # some cannot be pickled, or are unpickled as something else
        copy = pickle.loads(pickle.dumps(error))
        sent = copy if isinstance(copy, BaseException) else sent
    sent.add_note(trace)
    return sent


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def launcher_for(engine: str, workers: int, **options: Any) -> Launcher:
    """Start the workers of an engine, by its name."""
    if engine not in ENGINES:
        raise InvalidParameterError(f"engine must be {listed(ENGINES)}, or a launcher, got {engine!r}")
    module, name = ENGINES[engine]
    launcher_type: Callable[..., Launcher] = getattr(import_module(f"{__package__}.{module}"), name)
    parameters = signature(launcher_type).parameters
    allowed = [option for option in parameters if option not in ("workers", "init")]
    for option in options:
        if option not in allowed and "init" not in parameters:  # other options go to ray.init, which checks them
            raise InvalidParameterError(f"the options of engine {engine!r} must be {listed(allowed)}, got {option!r}")
    return launcher_type(workers, **options)


def engine_of(launcher: Any) -> str | None:
    """Return the name of a launcher's engine; None for a custom launcher."""
    return next((engine for engine, (_, name) in ENGINES.items() if name == type(launcher).__name__), None)


# Temporary folders for secrets, which are removed soon after their processes have ended.

_LOCK = "lock"


def private_folder(prefix: str) -> Path:
    """Create a folder that only this user may access; remove such folders of processes that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # it belongs to another user
            handle = os.open(old / _LOCK, os.O_RDWR)
            try:
                if try_lock(handle):
                    shutil.rmtree(old, ignore_errors=True)
            finally:
                os.close(handle)
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try_lock(os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600))  # held to the end of this process
    return folder
