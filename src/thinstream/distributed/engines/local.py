"""Workers as plain processes of this machine: for its cores, for trying things, and for tests."""

import multiprocessing
import os
import pickle
import secrets
import signal
import socket
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import util
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, TypeVar, cast

from thinstream.distributed.engines.launcher import RETRIES, require_workers, with_worker
from thinstream.errors import PeerLostError, WorkerLostError

T = TypeVar("T")

#: Seconds that a worker has to end by itself.
GRACE = 2.0
#: What was shared with this process, by key.
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

    remembers = True

    def __init__(self, workers: int, *, retries: int = RETRIES) -> None:
        self.workers, self.retries = require_workers(workers), retries
        self._pools: list[ProcessPoolExecutor | None] = [None] * self.workers
        self._lifelines: list[Connection | None] = [None] * self.workers
        self._has: list[set[str]] = [set() for _ in range(self.workers)]
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
            futures = {worker: self._submit(worker, task) for worker, task in left.items()}
            wait(list(futures.values()))
            errors: list[BaseException] = []
            for worker, future in futures.items():
                error = future.exception()
                if error is None:
                    answers[worker] = future.result()
                    del left[worker]
                elif isinstance(error, BrokenProcessPool):
                    self._drop(worker)
                else:
                    errors.append(with_worker(error, worker))
            if errors:
                raise errors[0]
            if not left:
                return [answers[worker] for worker in range(len(tasks))]
        raise WorkerLostError(f"worker {min(left)} died {self.retries + 1} times at the same task")

    def run_together(self, tasks: Sequence[Callable[[Any], T]]) -> list[T]:
        """Answers of tasks that run at the same time."""
        with _Meeting(len(tasks)) as meeting:
            futures = [
                self._submit(worker, _Member(task, meeting.exchange(worker))) for worker, task in enumerate(tasks)
            ]
            for future in futures:  # one that ends with an error comes to no further meeting
                future.add_done_callback(meeting.ended)
            wait(futures)
        errors = {worker: error for worker, future in enumerate(futures) if (error := future.exception()) is not None}
        for worker, error in errors.items():
            if isinstance(error, BrokenProcessPool):
                self._drop(worker)
        if not errors:
            return [future.result() for future in futures]
        told = {w: e for w, e in errors.items() if not isinstance(e, BrokenProcessPool | PeerLostError)}
        for worker, error in told.items():
            raise with_worker(error, worker)
        lost = [worker for worker, error in errors.items() if isinstance(error, BrokenProcessPool)]
        if lost:
            raise WorkerLostError(f"worker {lost[0]} died while the workers were at work together")
        worker, error = next(iter(errors.items()))
        raise with_worker(error, worker)

    def close(self) -> None:
        """Ends the workers."""
        for worker in range(self.workers):
            self._drop(worker)
        self._values.clear()

    def pids(self) -> list[int | None]:
        """Process numbers of the workers; None of one that has not begun."""
        return [None if pool is None else next(iter(pool._processes or {}), None) for pool in self._pools]

    def _submit(self, worker: int, task: Callable[[], T]) -> "Future[T]":
        pool = self._pools[worker]
        if pool is None:
            context = multiprocessing.get_context("spawn")
            end, self._lifelines[worker] = context.Pipe(duplex=False)
            pool = ProcessPoolExecutor(1, mp_context=context, initializer=_begin, initargs=(end,))
            self._pools[worker], self._has[worker] = pool, set()
        _pickling.keys = []
        text = pickle.dumps(task, protocol=5)
        needed, has = set(_pickling.keys), self._has[worker]
        new = {key: self._values[key] for key in needed - has}
        gone = {key for key in has if key not in self._values}
        self._has[worker] = (has | needed) - gone
        try:
            with _known_method():
                return cast("Future[T]", pool.submit(_work, text, new, gone))
        except BrokenProcessPool as error:  # it died between two rounds
            future: Future[T] = Future()
            future.set_exception(error)
            return future

    def _drop(self, worker: int) -> None:
        pool, self._pools[worker] = self._pools[worker], None
        if pool is None:
            return
        processes = list((pool._processes or {}).values())
        lifeline, self._lifelines[worker] = self._lifelines[worker], None
        if lifeline is not None:
            lifeline.close()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:  # one may be at work for long, and nobody waits for what it finds
            process.join(GRACE)
            process.kill()
            process.join()


def _begin(lifeline: Connection) -> None:
    """Of a worker: the terminal's ^C is for the driver, who decides; without a driver it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True, name="waiting for the end of the driver").start()


def _end_with(lifeline: Connection) -> None:
    """Ends this process when the other end of the lifeline is closed, by the driver or by its death."""
    with suppress(EOFError, OSError):
        lifeline.recv_bytes()
    with suppress(Exception):
        util._run_finalizers(0)  # type: ignore[attr-defined] # semaphores, numba's for one, else count as leaked
    os._exit(1)


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


def _work(text: bytes, new: dict[str, bytes], gone: set[str]) -> Any:
    for key in gone:
        _received.pop(key, None)
    _received.update({key: pickle.loads(value) for key, value in new.items()})
    return pickle.loads(text)()


@dataclass(frozen=True)
class _Member:
    """A task that is given its way to the others."""

    task: Callable[[Any], Any]
    exchange: "_Exchange"

    def __call__(self) -> Any:
        return self.task(self.exchange)


@dataclass(frozen=True)
class _Exchange:
    """Hands a text to all workers, through the driver."""

    address: tuple[str, int]
    key: bytes
    worker: int
    host = "127.0.0.1"

    def __call__(self, text: str) -> list[str]:
        try:
            with Client(self.address, authkey=self.key) as line:
                line.send((self.worker, text))
                found: list[str] = line.recv()
                return found
        except (EOFError, OSError) as error:
            raise PeerLostError(f"worker {self.worker}: another worker did not come to exchange addresses") from error


class _Meeting:
    """Takes the texts of all workers and hands them to each, as often as they like, until one of them is gone."""

    def __init__(self, size: int) -> None:
        self._size, self._key = size, os.urandom(32)
        self._listener = Listener(("127.0.0.1", 0), backlog=size, authkey=self._key)
        self._lines: dict[int, tuple[Connection, str]] = {}
        self._lock, self._over, self._done = threading.Lock(), False, False
        self._thread = threading.Thread(target=self._serve, daemon=True, name="exchanging addresses")

    def exchange(self, worker: int) -> _Exchange:
        return _Exchange(cast("tuple[str, int]", self._listener.address), self._key, worker)

    def ended(self, future: "Future[Any]") -> None:
        """A member has ended; if it did not end well, nobody waits for it."""
        if future.exception() is not None:
            self._close()

    def __enter__(self) -> "_Meeting":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._close()
        self._done = True
        with suppress(OSError):  # wakes the thread that waits for a caller
            socket.create_connection(cast("tuple[str, int]", self._listener.address), timeout=5).close()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        while not self._done:  # who comes when all is over is sent away, too
            with suppress(OSError, EOFError, multiprocessing.AuthenticationError):
                line = self._listener.accept()
                worker, text = line.recv()
                self._take(worker, text, line)

    def _take(self, worker: int, text: str, line: Any) -> None:
        with self._lock:
            if self._over:
                line.close()
                return
            self._lines[worker] = line, text
            if len(self._lines) == self._size:
                texts = [self._lines[k][1] for k in range(self._size)]
                for each, _ in self._lines.values():
                    with suppress(OSError):
                        each.send(texts)
                    each.close()
                self._lines.clear()

    def _close(self) -> None:
        with self._lock:
            self._over = True
            for line, _ in self._lines.values():
                line.close()
            self._lines.clear()
