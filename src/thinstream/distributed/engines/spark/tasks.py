"""What runs in Spark's Python processes, and how answers and errors come back from there.

Spark runs again whatever fails. What a task raises would fail again, so it comes back as an answer; only where tasks
wait for each other must Spark see it, to end the others, and then it travels in the text of Spark's error. Such texts
quote data, too: an error is known in them by a random mark of its stage, and is built from its name and its words.
"""

import base64
import builtins
import json
import os
import pickle
import re
import secrets
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from thinstream import errors
from thinstream.distributed.engines.launcher import Exchange, portable, with_worker
from thinstream.distributed.engines.spark.package import no_warnings, pyspark
from thinstream.errors import PeerLostError, WorkerLostError
from thinstream.streams.tables.arrow_package import pyarrow

#: Seconds that an echo of a failure (PeerLostError) waits, so that Spark hears of the failure first.
ECHO = 3.0
_ANSWERS = "worker long, answer binary"
#: Errors that can come in a text; what is not among them comes as a RuntimeError.
_ERRORS = {
    f"{module.__name__}.{name}": kind
    for module in (builtins, errors)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}


class Answer(NamedTuple):
    """Of a task."""

    fine: bool
    value: Any  # what it raised, if it is not fine
    executor: str  # where it ran


def run_stage(frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]]) -> list[Answer]:
    """What a function makes of each partition of a DataFrame (see `pack_answer`), in their order."""
    mark = function.mark if isinstance(function, BarrierStage) else None
    context, tag = frame.sparkSession.sparkContext, f"thinstream-{secrets.token_hex(8)}"

    def job() -> Any:
        context.addJobTag(tag)
        return frame.mapInArrow(function, _ANSWERS, barrier=mark is not None).collect()

    # on a thread, so that a signal finds this one waiting for it, not for Java, where its exception would be lost
    with no_warnings(), ThreadPoolExecutor(1) as pool:
        future = pool.submit(pyspark().inheritable_thread_target(frame.sparkSession)(job))
        try:
            rows = future.result()
        except BaseException as error:
            if future.done() and future.exception() is error:
                raise _reason(error, mark) from error
            context.cancelJobsWithTag(tag)
            raise
    return [pickle.loads(row["answer"]) for row in sorted(rows, key=lambda row: row["worker"])]


def unpack_answers(found: Sequence[Answer]) -> list[Any]:
    """The answers, or the first error among them, raised."""
    for worker, (fine, answer, _) in enumerate(found):
        if not fine:
            raise with_worker(answer, worker)
    return [answer.value for answer in found]


def pack_answer(work: Callable[[int], Any]) -> Any:
    """In a worker: what ``work`` answers to the number of the partition, or raises, as a record batch."""
    worker = pyspark().TaskContext.get().partitionId()
    try:
        return _sent(worker, True, work(worker))
    except Exception as error:  # Spark would try again what will fail again
        return _sent(worker, False, portable(error))


@dataclass(frozen=True)
class Stage:
    """What runs in the Python process of a task: the task of its number, whose error is an answer, too."""

    tasks: tuple[Callable[[], Any], ...]

    def __call__(self, numbers: Iterator[Any]) -> Iterator[Any]:
        """The task's answer."""
        for _ in numbers:  # to their end: else Spark would not use the process again
            pass
        yield pack_answer(lambda worker: self.tasks[worker]())


@dataclass(frozen=True)
class BarrierStage:
    """The same for tasks that talk to each other: an error ends them all, so it must be Spark's, too."""

    tasks: tuple[Callable[[Exchange], Any], ...]
    mark: str = field(default_factory=secrets.token_hex)  # of its errors

    def __call__(self, numbers: Iterator[Any]) -> Iterator[Any]:
        """The task's answer."""
        for _ in numbers:
            pass
        context = pyspark().BarrierTaskContext.get()
        worker = context.partitionId()
        try:
            answer = self.tasks[worker](_Exchange(context))
        except Exception as error:
            if isinstance(error, PeerLostError):
                time.sleep(ECHO)
            raise RuntimeError(f"{self.mark} {worker} {error_to_text(error)};") from error
        yield _sent(worker, True, answer)


class _Exchange:
    """Spark's `allGather`; ``host`` is the address under which others reach this node."""

    def __init__(self, context: Any) -> None:
        self._context = context
        address: str = context.getTaskInfos()[context.partitionId()].address
        self.host = address.rpartition(":")[0] or address

    def __call__(self, text: str) -> list[str]:
        found: list[str] = self._context.allGather(text)
        return found


def _sent(worker: int, fine: bool, value: Any) -> Any:
    answer = Answer(fine, value, f"{socket.gethostname()} {os.getppid()}")  # an executor has one parent of processes
    return pyarrow().RecordBatch.from_pydict({"worker": [worker], "answer": [pickle.dumps(answer, protocol=5)]})


def error_to_text(error: Exception) -> str:
    """The error in letters and digits, without pickle; with where it was raised as a note."""
    where = "".join(traceback.format_exception(error)).rstrip()
    kind = type(error)
    arguments = OSError.__reduce__(error)[1] if isinstance(error, OSError) else error.args  # with the file's name
    if not all(argument is None or isinstance(argument, str | int | float) for argument in arguments):
        arguments = (str(error),)
    told = [f"{kind.__module__}.{kind.__name__}", arguments, f"{kind.__name__}: {error}", where]
    return base64.b64encode(json.dumps(told).encode()).decode()


def error_from_text(text: str) -> Exception:
    """What `error_to_text` was given, if it was one of ours or Python's own, else a RuntimeError.

    >>> error_from_text(error_to_text(KeyError("a")))
    KeyError('a')
    """
    name, arguments, shown, where = json.loads(base64.b64decode(text))
    try:
        found = _ERRORS[name](*arguments)
    except (KeyError, TypeError, ValueError):
        found = RuntimeError(shown)
    found.add_note(where)
    return found


def _reason(error: BaseException, mark: str | None = None) -> BaseException:
    """What Spark's error tells: what a task of a stage of this mark raised, or that its process was lost."""
    text = str(error)
    carried = re.search(rf"{mark} (\d+) ([A-Za-z0-9+/=]+);", text) if mark else None
    if carried:
        raised = with_worker(error_from_text(carried[2]), int(carried[1]))
        return WorkerLostError(f"a worker was lost: {raised}") if isinstance(raised, PeerLostError) else raised
    missing = re.search(r"ModuleNotFoundError: No module named '([^'.]+)", text)
    if missing:
        return WorkerLostError(
            f"the Python of Spark's workers (PYSPARK_PYTHON) does not have {missing[1]}: install it there"
        )
    shown = re.search(r"Job aborted[^\n]*(\n(?!\s+at )[^\n]+)?", text)
    return WorkerLostError(f"Spark gave up: {shown[0] if shown else text}")
