"""Workers as plain processes of this machine: for its cores, for trying things, and for tests."""

import multiprocessing
import os
import pickle
import queue
import secrets
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import connection, util
from multiprocessing.connection import Connection
from typing import Any, TypeVar, cast

from thinstream.distributed.engines.launcher import LOOPBACK, RETRIES, require_count, with_worker
from thinstream.errors import PeerLostError, WorkerLostError

T = TypeVar("T")

#: Seconds that a worker has to end by itself.
GRACE = 2.0
#: What was shared with this process, by key.
_received: dict[str, Any] = {}
#: In a worker: its line to the driver, and what comes from there.
_lifelines: list[Connection] = []
_texts: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
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
        self.workers, self.retries = require_count(workers), retries
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
        futures = [self._submit(worker, partial(task, _Exchange(worker))) for worker, task in enumerate(tasks)]
        try:
            self._hand_texts_round(futures)
        except BaseException:  # the run was stopped here, they would go on
            for worker in range(len(tasks)):
                self._drop(worker)
            raise
        errors = {worker: error for worker, future in enumerate(futures) if (error := future.exception()) is not None}
        lost = [worker for worker, error in errors.items() if isinstance(error, BrokenProcessPool)]
        for worker in lost:
            self._drop(worker)
        echoes = [worker for worker, error in errors.items() if isinstance(error, PeerLostError)]
        for worker in sorted(errors.keys() - {*lost, *echoes}):
            raise with_worker(errors[worker], worker)
        if lost:
            raise WorkerLostError(f"worker {lost[0]} died while the workers were at work together")
        if echoes:
            raise with_worker(errors[echoes[0]], echoes[0])
        return [future.result() for future in futures]

    def close(self) -> None:
        """Ends the workers."""
        for worker in range(self.workers):
            self._drop(worker)
        self._values.clear()

    def pids(self) -> list[int | None]:
        """Process numbers of the workers; None of one that has not begun."""
        return [None if pool is None else next(iter(pool._processes or {}), None) for pool in self._pools]

    def _submit(self, worker: int, task: Callable[[], T]) -> "Future[T]":
        pool, end = self._pools[worker], None
        if pool is None:
            context = multiprocessing.get_context("spawn")
            end, self._lifelines[worker] = context.Pipe()
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
        finally:
            if end is not None:  # the worker's own by now, so that its death is seen at the other
                end.close()

    def _hand_texts_round(self, futures: "Sequence[Future[Any]]") -> None:
        """Hands the texts of all workers to each, as often as they like, until the tasks have ended."""
        woken, wake = multiprocessing.Pipe(duplex=False)
        for future in futures:
            future.add_done_callback(lambda _: wake.send_bytes(b"."))
        lines = [line for line in self._lifelines[: len(futures)] if line is not None]
        texts: dict[Any, str] = {}
        running, open_lines = len(futures), set(lines)
        with woken, wake:
            while running:
                for ready in connection.wait([woken, *open_lines]):
                    if ready is woken:
                        woken.recv_bytes()
                        running -= 1
                        continue
                    try:
                        texts[ready] = cast("Connection", ready).recv()
                    except (EOFError, OSError):
                        open_lines.remove(cast("Connection", ready))
                if running < len(futures) or len(texts) == len(futures):
                    # one that has ended comes to no further meeting: nobody waits for it
                    answer = None if running < len(futures) else [texts[line] for line in lines]
                    for line in texts:
                        with suppress(OSError):
                            line.send(answer)
                    texts.clear()

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
    _lifelines.append(lifeline)
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True, name="waiting for the end of the driver").start()


def _end_with(lifeline: Connection) -> None:
    """Takes texts; ends this process when the lifeline's other end is closed, by the driver or by its death."""
    with suppress(EOFError, OSError):
        while True:
            _texts.put(lifeline.recv())
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


class _Exchange:
    """In a worker: hands a text to all workers, through the driver."""

    host = LOOPBACK

    def __init__(self, worker: int) -> None:
        self.worker = worker

    def __call__(self, text: str) -> list[str]:
        _lifelines[0].send(text)
        found = _texts.get()
        if found is None:
            raise PeerLostError(f"worker {self.worker}: another worker did not come to exchange addresses")
        return found
