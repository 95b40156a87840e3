"""Workers as plain processes of this machine: for its cores, for trying things, and for tests."""

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

from thinstream.distributed.engines.launcher import LOOPBACK, RETRIES, cause, portable, require_count, with_worker
from thinstream.errors import PeerLostError, WorkerLostError

T = TypeVar("T")

#: Seconds that a worker has to end by itself.
GRACE = 2.0
#: In a worker: what was shared with it, by key.
_received: dict[str, Any] = {}
#: Keys met while a task is pickled for a worker.
_pickling = threading.local()


class Shared:
    """A value that every worker that asks for it is sent once."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __call__(self) -> Any:
        """The value, in a worker."""
        return _received[self.key]

    def __reduce__(self) -> Any:
        getattr(_pickling, "keys", []).append(self.key)
        return Shared, (self.key,)


class LocalLauncher:
    """Workers on this machine.

    Scripts that use it need the usual ``if __name__ == "__main__":``, as processes are started afresh.

    Parameters
    ----------
    workers : int
        How many, each a process of its own.
    retries : int
        How often a task is run again whose process died.

    """

    remembers, worthwhile = True, 1 << 12

    def __init__(self, workers: int, *, retries: int = RETRIES) -> None:
        self.workers, self.retries = require_count(workers), retries
        self._processes: list[_Process | None] = [None] * self.workers
        self._values: dict[str, bytes] = {}

    def share(self, value: T) -> Callable[[], T]:
        """`value`, sent to each worker that needs it once; it is forgotten when the answer is."""
        key = secrets.token_hex(8)
        self._values[key] = pickle.dumps(value, protocol=5)
        shared = Shared(key)
        weakref.finalize(shared, self._values.pop, key, None)
        return shared

    def run_tasks(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Answers of tasks, task i run in worker i's process."""
        answers: dict[int, T] = {}
        left = dict(enumerate(tasks))
        for _ in range(self.retries + 1):
            found, errors = self._run(left)
            answers |= found
            left = {worker: left[worker] for worker in errors if self._processes[worker] is None}  # they died
            for worker in sorted(errors.keys() - left.keys()):
                raise with_worker(errors[worker], worker)
            if not left:
                return [answers[worker] for worker in range(len(tasks))]
        raise WorkerLostError(f"worker {min(left)} died {self.retries + 1} times at the same task")

    def run_together(self, tasks: Sequence[Callable[[Any], T]]) -> list[T]:
        """Answers of tasks that run at the same time."""
        answers, errors = self._run(dict(enumerate(tasks)), together=True)
        if errors:
            raise cause(errors)
        return [answers[worker] for worker in range(len(tasks))]

    def close(self) -> None:
        """Ends the workers."""
        for worker in range(self.workers):
            self._drop(worker)
        self._values.clear()

    def pids(self) -> list[int | None]:
        """Process numbers of the workers; None of one that has not begun."""
        return [None if process is None else process.pid for process in self._processes]

    def _run(
        self, tasks: Mapping[int, Callable[..., Any]], together: bool = False
    ) -> tuple[dict[int, Any], dict[int, BaseException]]:
        """What tasks answered, and what others raised: a WorkerLostError where the process died.

        Texts of tasks that run together are handed to each, as often as they like.
        """
        answers, errors, texts = dict[int, Any](), dict[int, BaseException](), dict[Connection, str]()
        try:
            working = {self._send(worker, task, together): worker for worker, task in tasks.items()}
            while working:
                for line in cast("list[Connection]", connection.wait(list(working))):
                    try:
                        found = line.recv()
                    except (EOFError, OSError):
                        worker = working.pop(line)
                        errors[worker] = WorkerLostError(f"worker {worker} died at its task")
                        self._drop(worker)
                        continue
                    if isinstance(found, str):
                        texts[line] = found
                        continue
                    fine, value = found
                    (answers if fine else errors)[working.pop(line)] = value
                if len(working) < len(tasks) or len(texts) == len(tasks):
                    # one that has ended comes to no further meeting: nobody waits for it
                    answer = None if len(working) < len(tasks) else [texts[line] for line in working]
                    for line in texts:
                        with suppress(OSError):
                            line.send(answer)
                    texts.clear()
        except BaseException:  # the run was stopped here, they would go on
            for worker in tasks:
                self._drop(worker)
            raise
        return answers, errors

    def _send(self, worker: int, task: Callable[..., Any], together: bool) -> Connection:
        """Begins a task; what comes of it comes by the line."""
        process = self._processes[worker] = self._processes[worker] or _Process()
        _pickling.keys = []
        text = pickle.dumps(task, protocol=5)
        needed = set(_pickling.keys)
        new = {key: self._values[key] for key in needed - process.has}
        gone = {key for key in process.has if key not in self._values}
        process.has = (process.has | needed) - gone
        with suppress(OSError):  # it died between two rounds, as will be seen
            process.line.send((text, new, gone, together))
        return process.line

    def _drop(self, worker: int) -> None:
        process, self._processes[worker] = self._processes[worker], None
        if process is not None:
            process.end()


class _Process:
    """A worker, and the line to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, end = context.Pipe()
        self.has: set[str] = set()  # keys of what it was sent
        self._process = context.Process(target=_serve, args=(end,), daemon=True)
        with _known_method():
            self._process.start()
        end.close()  # the worker's own by now, so that its death is seen at the other
        self.pid = self._process.pid

    def end(self) -> None:
        """It may be at work for long, and nobody waits for what it finds."""
        self.line.close()
        self._process.join(GRACE)
        self._process.kill()
        self._process.join()


@contextmanager
def _known_method() -> Iterator[None]:
    """Around starts of processes: one is told the default method of this, and joblib's would be unknown to it."""
    before = multiprocessing.get_start_method(allow_none=True)
    if before is None or before in multiprocessing.get_all_start_methods():
        yield
        return
    multiprocessing.set_start_method("spawn", force=True)
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


# In a worker --------------------------------------------------------------------------------------------------------


def _serve(line: Connection) -> None:
    """Runs one task after another; the terminal's ^C is for the driver, who decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(line, messages), daemon=True, name="messages of the driver").start()
    while True:
        text, new, gone, together = messages.get()
        try:
            for key in gone:
                _received.pop(key, None)
            _received.update({key: pickle.loads(value) for key, value in new.items()})
            task = pickle.loads(text)
            answer = pickle.dumps((True, task(_Exchange(line, messages)) if together else task()), protocol=5)
        except BaseException as error:
            answer = pickle.dumps((False, portable(error)))
        line.send_bytes(answer)


def _receive(line: Connection, messages: "queue.SimpleQueue[Any]") -> None:
    """Takes messages; ends this process when the line's other end is closed, by the driver or by its death."""
    with suppress(EOFError, OSError):
        while True:
            messages.put(line.recv())
    with suppress(Exception):
        util._run_finalizers(0)  # type: ignore[attr-defined] # semaphores, numba's for one, else count as leaked
    os._exit(1)


class _Exchange:
    """Hands a text to all workers, through the driver."""

    host = LOOPBACK

    def __init__(self, line: Connection, messages: "queue.SimpleQueue[Any]") -> None:
        self._line, self._messages = line, messages

    def __call__(self, text: str) -> list[str]:
        self._line.send(text)
        found: list[str] | None = self._messages.get()
        if found is None:
            raise PeerLostError("another worker did not come to exchange addresses")
        return found
