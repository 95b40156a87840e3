"""What an engine must do for the learning that runs on it: place tasks in processes, and nothing more.

A task is a picklable callable, mostly a frozen dataclass with `__call__`. What it answers in `run_tasks` follows from
its fields alone; what its process remembers from earlier rounds may only save it work.
"""

import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import signature
from numbers import Integral
from typing import Any, Protocol, TypeVar

from thinstream.errors import InvalidParameterError, PeerLostError, WorkerLostError, listed

T = TypeVar("T")

#: Hands each task's text to all tasks, in the order of the workers.
Exchange = Callable[[str], list[str]]

#: Engines by name, with the module and the name of their launcher.
ENGINES = {
    "ray": ("ray.launcher", "RayLauncher"),
    "spark": ("spark.launcher", "SparkLauncher"),
    "local": ("local", "LocalLauncher"),
}

LOOPBACK = "127.0.0.1"
#: How often a task is run again after its process died.
RETRIES = 3


class Launcher(Protocol):
    """Workers of one job, each a process of its own."""

    workers: int
    #: Whether task i of one round runs in the process that ran task i of the round before, unless that one died.
    remembers: bool
    #: Rows of a worker that make a round worth what it costs on this engine.
    worthwhile: int

    def share(self, value: T) -> Callable[[], T]:
        """`value`, sent to the workers once; the picklable callable answers it there."""

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Answers of tasks, task i run in worker i's process, with what it remembers from earlier rounds.

        A task whose process died is run again in a new one, `RETRIES` times, then it is a WorkerLostError. What a task
        raises is raised here, with the worker's number in a note, and is not tried again.
        """

    def run_together(self, tasks: Sequence[Callable[[Exchange], T]]) -> list[T]:
        """Answers of tasks that run at the same time and talk to each other.

        If one of them dies, this is a WorkerLostError; the others notice on their sockets and end.
        """

    def close(self) -> None:
        """Ends the workers; a second time does nothing."""


def require_count(count: Any, name: str = "workers") -> int:
    """A number of workers, or of something else, or an error that says what one is.

    >>> require_count(2)
    2
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise InvalidParameterError(f"{name} must be a whole number > 0, got {count!r}")
    return int(count)


def with_worker(error: BaseException, worker: int) -> BaseException:
    """What a task raised, with the number of its worker.

    >>> with_worker(ValueError("no"), 3).__notes__
    ['raised in worker 3']
    """
    error.add_note(f"raised in worker {worker}")
    return error


def cause(errors: Mapping[int, BaseException]) -> BaseException:
    """Of what tasks that ran together raised, by worker: what began it.

    A death comes after what a task raised itself, and its echo in the others, a PeerLostError, after both.
    """
    kinds = PeerLostError, WorkerLostError
    worker = min(errors, key=lambda worker: (*(isinstance(errors[worker], kind) for kind in kinds), worker))
    return with_worker(errors[worker], worker)


def portable(error: BaseException) -> BaseException:
    """The error as it can be sent, with where it was raised as a note."""
    where = "".join(traceback.format_exception(error)).rstrip()
    sent: BaseException = RuntimeError(f"{type(error).__name__}: {error}")
    with suppress(Exception):  # some cannot be pickled, or come back as something else
        came = pickle.loads(pickle.dumps(error))
        sent = came if isinstance(came, BaseException) else sent
    sent.add_note(where)
    return sent


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Variables that are set for a while."""
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
    """The workers of an engine, by its name."""
    if engine not in ENGINES:
        raise InvalidParameterError(f"engine must be {listed(ENGINES)}, or a launcher, got {engine!r}")
    module, name = ENGINES[engine]
    kind: Callable[..., Launcher] = getattr(import_module(f"{__package__}.{module}"), name)
    known = signature(kind).parameters
    taken = [option for option in known if option not in ("workers", "init")]
    for option in options:
        if option not in taken and "init" not in known:  # what remains goes to ray.init, which says what it takes
            raise InvalidParameterError(f"engine {engine!r} takes the options {listed(taken)}, got {option!r}")
    return kind(workers, **options)


def engine_of(launcher: Any) -> str | None:
    """The name of a launcher's engine; None of one that is not from here."""
    return next((engine for engine, (_, name) in ENGINES.items() if name == type(launcher).__name__), None)
