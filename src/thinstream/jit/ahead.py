"""Compile before the first call: rehearsals find out which functions a run needs, and worker processes compile them.

A rehearsal runs a program on a few rows as plain Python and records the functions that would have to be compiled, with
the types of their arguments. Independent functions then compile in parallel.
"""

import logging
import os
import pickle
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import subprocess

    from thinstream.jit.compiled import Compiled

logger = logging.getLogger("thinstream.jit")
#: Seconds of compiling before a message is printed.
PATIENCE = 1.0
MESSAGE = "compiling functions for their first use on this machine; this happens once and takes some seconds"


Key = str


class ArraySample(NamedTuple):
    """The type of an array, from which another process can create one like it."""

    dtype: str
    ndim: int
    layout: str

    def make(self) -> Any:
        """Return an array of this type, dimensions and layout."""
        order, aligned, writeable = self.layout[0], "A" in self.layout, "W" in self.layout
        dtype = np.dtype(self.dtype)
        shape = (2,) * (self.ndim - 1) + (4,)
        size = int(np.prod(shape)) * dtype.itemsize
        memory = np.zeros(size + 1, np.uint8)
        array = memory[:-1] if aligned else memory[1:]
        array = array.view(dtype).reshape(shape, order="F" if order == "F" else "C")
        if order == "-":
            array = array[..., ::2]
        array.setflags(write=writeable)
        return array


class Request(NamedTuple):
    """A function to compile, and arguments of the types to compile it for."""

    function: "Compiled"
    kinds: str
    arguments: tuple[Any, ...]

    @property
    def key(self) -> Key:
        """The cached file, which identifies a request."""
        return self.function.cached_file(self.kinds).name

    @property
    def size(self) -> int:
        """Bytes of the function in Python's bytecode, which hint at how long compiling takes."""
        return len(self.function.function.__code__.co_code)

    def sampled(self) -> "Request":
        """Return the request with the types of its arrays in place of the arrays."""
        return self._replace(arguments=_sampled(self.arguments))

    def code(self) -> bytes:
        """Return the code: from the cache, or compiled now and cached."""
        file = self.function.cached_file(self.kinds)
        with file.locked() as folder:
            code = file.find()  # another process may have been faster
            if code is None:
                code = self.function.object_code(_made(self.arguments), file.symbol)
                if folder is not None:
                    file.write(folder, code)
        return code

    def ship(self, baseline: str, folder: Path) -> None:
        """Compile for a baseline processor, as `worker` prepared numba to do, into a folder."""
        file = self.function.shipped_file(self.kinds, baseline, folder)
        file.write(folder, self.function.object_code(_made(self.arguments), file.symbol))


def _sampled(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        from thinstream.jit.compiled import layout_of

        return ArraySample(value.dtype.str, value.ndim, layout_of(value))
    return tuple.__new__(type(value), map(_sampled, value)) if isinstance(value, tuple) else value


def _made(value: Any) -> Any:
    if isinstance(value, ArraySample):
        return value.make()
    return tuple.__new__(type(value), map(_made, value)) if isinstance(value, tuple) else value


# Rehearsals.


class Rehearsal:
    """Records the functions that would have to be compiled, while they run as plain Python.

    Parameters
    ----------
    ignores_files : bool
        Whether to record every function, also those with code in a file.
    thread : int or None
        The thread that rehearses. None: all threads.

    """

    def __init__(self, ignores_files: bool = False, thread: int | None = None) -> None:
        self.ignores_files, self.thread = ignores_files, thread
        self.requests: dict[Key, Request] = {}

    def add(self, request: Request) -> None:
        """Record a request once."""
        self.requests.setdefault(request.key, request.sampled())


_rehearsals: list[Rehearsal] = []


def rehearsal() -> Rehearsal | None:
    """Return the rehearsal that the calling thread takes part in, if any."""
    if not _rehearsals:
        return None
    own = threading.get_ident()
    return next((r for r in reversed(_rehearsals) if r.thread in (None, own)), None)


@contextmanager
def rehearse(ignores_files: bool = False, thread: int | None = None) -> Iterator[Rehearsal]:
    """Run the block as a rehearsal."""
    current = Rehearsal(ignores_files, thread)
    _rehearsals.append(current)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield current
    finally:
        _rehearsals.remove(current)


# Worker processes.


class Workers:
    """Processes that compile requests in parallel. The calling process can take part.

    Parameters
    ----------
    requests : dict
    n_processes : int
    *arguments : str
        The arguments of `thinstream.jit.worker`.

    """

    def __init__(self, requests: dict[Key, Request], n_processes: int, *arguments: str) -> None:
        self.total, self.errors = len(requests), dict[Key, str]()
        self._arguments = arguments
        # the largest functions first: then all processes end at about the same time
        largest = sorted(requests.items(), key=lambda item: -item[1].size)
        self._waiting, self._running, self._finished = dict(largest), set[Key](), list[Request]()
        self._changed = threading.Condition()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(n_processes)]
        for thread in self._threads:
            thread.start()

    @property
    def n_started(self) -> int:
        """The number of requests that are compiled or being compiled."""
        return self.total - len(self._waiting)

    def wait_for(self, key: Key) -> None:
        """Return when the calling process has to compile a request, or when a worker has compiled it.

        Until then, this process compiles others.
        """
        while True:
            with self._changed:
                if key not in self._waiting and key not in self._running:
                    return
                if not self._waiting:
                    self._changed.wait()
                    continue
                other, request = self._pop()
            if other == key:
                return
            with suppress(Exception):  # an error belongs to the call that needs the function
                request.code()

    def finished(self) -> Iterator[Request]:
        """Yield the requests as workers finish them."""
        for _ in range(self.total):
            with self._changed:
                while not self._finished:
                    if not any(thread.is_alive() for thread in self._threads):
                        raise RuntimeError(f"processes that compile ended early: {self.errors}")
                    self._changed.wait(timeout=1.0)
                request = self._finished.pop(0)
            yield request

    def close(self) -> None:
        """End the processes."""
        with self._changed:
            self._waiting.clear()
        for process in self._processes:
            process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        """Send one request after another to a process."""
        with suppress(OSError), _start_worker(self._arguments) as process:
            self._processes.append(process)
            while process.poll() is None and (item := self._next()) is not None:
                key, request = item
                reply = _compile_in(process, request)
                with self._changed:
                    self._running.discard(key)
                    self._finished.append(request)
                    if reply != "done":
                        self.errors[key] = f"{request.function.title}: {reply}"
                    self._changed.notify_all()

    def _next(self) -> tuple[Key, Request] | None:
        """Return the next request for a worker, or None if there is none."""
        with self._changed:
            if not self._waiting:
                return None
            key, request = self._pop()
            self._running.add(key)
            return key, request

    def _pop(self) -> tuple[Key, Request]:
        """Remove the largest waiting request and return it."""
        key = next(iter(self._waiting))
        return key, self._waiting.pop(key)


def _compile_in(process: "subprocess.Popen[bytes]", request: Request) -> str:
    """Let a process compile, and return its reply."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        packed = pickle.dumps(request)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        return f"another process cannot find the function: {error}"
    try:
        process.stdin.write(packed)
        process.stdin.flush()
        return process.stdout.readline().decode().strip() or "the process ended"
    except OSError as error:
        return f"the process ended: {error}"


def _start_worker(arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a process that compiles what comes through its standard input."""
    import subprocess  # which costs time that a run with compiled code does not spend

    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "thinstream.jit.worker", *arguments],  # -P: no modules of the current folder
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C ends this process, and the end of its standard input the others
    )
    return process


def n_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _can_start_processes() -> bool:
    """Return whether Python can be started again: an application that embeds it may have another executable."""
    return bool(sys.executable) and Path(sys.executable).name.lower().startswith(("python", "pypy"))


# Compile what a run needs.


class _Run:
    """A run that can be rehearsed, and the workers that compile for it."""

    def __init__(self, program: Callable[[], object] | None) -> None:
        self.program = program
        self.workers: Workers | None = None


_runs: list[_Run] = []
_rehearsing = threading.Lock()


@contextmanager
def compile_ahead(program: Callable[[], object] | None = None) -> Iterator[None]:
    """Compile the functions of the block in parallel.

    If the block calls a function that has to be compiled, ``program`` runs as a rehearsal. It should call the functions
    of the block with arguments of the same types. It may also be set in the block, with `set_program`.
    """
    run = _Run(program)
    _runs.append(run)
    try:
        yield
    finally:
        _runs.remove(run)
        if run.workers is not None:
            run.workers.close()


def set_program(program: Callable[[], object]) -> None:
    """Set the program of the current block of `compile_ahead`, if there is one."""
    if _runs:
        _runs[-1].program = program


def _current() -> _Run | None:
    """Return the innermost run that can be rehearsed, or has been."""
    return next((run for run in reversed(_runs) if run.program is not None or run.workers is not None), None)


def is_upcoming() -> bool:
    """Return whether a run can be rehearsed that was not."""
    run = _current()
    return run is not None and run.program is not None


def start_workers() -> None:
    """Rehearse the current run, unless this was done, and let processes compile what it needs."""
    with _rehearsing:
        run = _current()
        if run is None or run.program is None:
            return
        program, run.program = run.program, None
        from thinstream.jit.cache import folder_to_write

        n_processes = n_cores() - 1
        if n_processes < 1 or not _can_start_processes() or folder_to_write() is None:
            return
        with rehearse(thread=threading.get_ident()) as current:
            try:
                program()
            except Exception as error:
                logger.debug("rehearsal failed: %r", error)
        n_processes = min(n_processes, len(current.requests) - 1, 7)
        if n_processes > 0:
            run.workers = Workers(current.requests, n_processes)


_spent, _is_announced = 0.0, False


def compile_request(request: Request) -> bytes:
    """Return the code of a request that is not in a file. Log what is being compiled."""
    global _spent
    run = _current()
    workers = None if run is None else run.workers
    progress = f" ({workers.n_started} of {workers.total})" if workers is not None else ""
    timer = threading.Timer(max(PATIENCE - _spent, 0.0), _announce)
    timer.daemon = True
    timer.start()
    start = time.monotonic()
    logger.info("compiling %s%s", request.function.title, progress)
    try:
        if workers is not None:
            workers.wait_for(request.key)
        return request.code()
    finally:
        timer.cancel()
        _spent += time.monotonic() - start


def _announce() -> None:
    """Log once that compiling takes a while."""
    global _is_announced
    if not _is_announced:
        _is_announced = True
        logger.warning("thinstream: %s", MESSAGE)
