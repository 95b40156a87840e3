"""Workers as plain processes of this machine: to use its cores, to experiment, and for tests."""

import multiprocessing
import os
import pickle
import queue
import secrets
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, util
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

from thinstream.distributed.engines.launcher import RETRIES, portable, report_loss, require_count, with_worker
from thinstream.errors import WorkerLostError

T = TypeVar("T")

#: Seconds that a worker has to end.
GRACE = 2.0
#: In a worker: shared values by key.
_received: dict[str, Any] = {}
#: Keys of shared values in the task that is being pickled.
_pickling = threading.local()


class Shared:
    """A value that is sent once to each worker that needs it."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self) -> Any:
        """Return the value, in a worker."""
        return _received[self.key]

    def __reduce__(self) -> Any:
        getattr(_pickling, "keys", []).append(self.key)
        return Shared, (self.key,)


class LocalLauncher:
    """Workers on this machine.

    Scripts need the usual ``if __name__ == "__main__":``, because processes are started with "spawn".

    Parameters
    ----------
    workers : int
        The number of processes.
    retries : int
        How often a task is run again after its process died.

    """

    remembers, worthwhile = True, 1 << 12

    def __init__(self, workers: int, *, retries: int = RETRIES) -> None:
        self.workers, self.retries = require_count(workers), retries
        self._processes: list[_Process | None] = [None] * self.workers
        self._values: dict[str, bytes] = {}

    def share(self, value: T) -> Callable[[], T]:
        """Send a value once to each worker that needs it. It is freed when the returned callable is."""
        key = secrets.token_hex(8)
        self._values[key] = pickle.dumps(value, protocol=5)
        shared = Shared(key)
        weakref.finalize(shared, self._values.pop, key, None)
        return shared

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run task i in the process of worker i; return the answers."""
        answers: dict[int, T] = {}
        left = dict(enumerate(tasks))
        for _ in range(self.retries + 1):
            done, errors = self._run(left)
            answers |= done
            left = {
                worker: left[worker] for worker in errors if self._processes[worker] is None
            }  # their processes died
            for worker in sorted(errors.keys() - left.keys()):
                raise with_worker(errors[worker], worker)
            for worker in left:
                report_loss(worker, errors[worker])
            if not left:
                return [answers[worker] for worker in range(len(tasks))]
        raise WorkerLostError(f"worker {min(left)} died {self.retries + 1} times at the same task")

    def close(self) -> None:
        for worker in range(self.workers):
            self._drop(worker)
        self._values.clear()

    def pids(self) -> list[int | None]:
        """Return the process ids of the workers; None for a worker that has not started."""
        return [None if process is None else process.pid for process in self._processes]

    def _run(self, tasks: Mapping[int, Callable[..., Any]]) -> tuple[dict[int, Any], dict[int, BaseException]]:
        """Return the answers of tasks, and the errors of others: a WorkerLostError if the process died."""
        answers, errors = dict[int, Any](), dict[int, BaseException]()
        try:
            working = {self._send(worker, task): worker for worker, task in tasks.items()}
            while working:
                for line in cast("list[Connection]", connection.wait(list(working))):
                    worker = working.pop(line)
                    try:
                        fine, value = line.recv()
                    except (EOFError, OSError):
                        errors[worker] = WorkerLostError(f"worker {worker} died at its task")
                        self._drop(worker)
                        continue
                    (answers if fine else errors)[worker] = value
        except BaseException:  # the run was interrupted, but the workers would continue
            for worker in tasks:
                self._drop(worker)
            raise
        return answers, errors

    def _send(self, worker: int, task: Callable[..., Any]) -> Connection:
        """Send a task to a worker; its answer comes through the returned connection."""
        process = self._processes[worker] = self._processes[worker] or _Process()
        _pickling.keys = []
        text = pickle.dumps(task, protocol=5)
        needed = set(_pickling.keys)
        new = {key: self._values[key] for key in needed - process.has}
        gone = {key for key in process.has if key not in self._values}
        process.has = (process.has | needed) - gone
        with suppress(OSError):  # it died between two rounds, which `recv` will report
            process.line.send((text, new, gone))
        return process.line

    def _drop(self, worker: int) -> None:
        process, self._processes[worker] = self._processes[worker], None
        if process is not None:
            process.end()


class _Process:
    """A worker process and the connection to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, end = context.Pipe()
        self.has: set[str] = set()  # keys of the values it has
        self._process = context.Process(target=_serve, args=(end,), daemon=True)
        with _known_method():
            self._process.start()
        end.close()  # only the worker has it now, so its death is seen at the other end
        self.pid = self._process.pid

    def end(self) -> None:
        """Stop the process, which may be busy for long with a task whose answer is not needed."""
        self.line.close()
        self._process.join(GRACE)
        self._process.kill()
        self._process.join()


@contextmanager
def _known_method() -> Iterator[None]:
    """Start processes with a default method that they know: joblib's method would be unknown to a child process."""
    before = multiprocessing.get_start_method(allow_none=True)
    if before is None or before in multiprocessing.get_all_start_methods():
        yield
        return
    multiprocessing.set_start_method("spawn", force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


# The following functions run in a worker.


def _serve(line: Connection) -> None:
    """Run one task after another. The driver handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(line, messages), daemon=True, name="messages of the driver").start()
    while True:
        text, new, gone = messages.get()
        try:
            for key in gone:
                _received.pop(key, None)
            _received.update({key: pickle.loads(value) for key, value in new.items()})
            task = pickle.loads(text)
            answer = pickle.dumps((True, task()), protocol=5)
        except BaseException as error:
            answer = pickle.dumps((False, portable(error)))
        line.send_bytes(answer)


def _receive(line: Connection, messages: "queue.SimpleQueue[Any]") -> None:
    """Receive messages; end this process when the driver closes the connection or dies."""
    with suppress(EOFError, OSError):
        while True:
            messages.put(line.recv())
    with suppress(Exception):
        util._run_finalizers(0)  # type: ignore[attr-defined] # semaphores, numba's for one, else count as leaked
    os._exit(1)
