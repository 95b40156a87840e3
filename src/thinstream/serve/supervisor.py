"""The supervisor: it starts the learner and the predictors, and restarts them if they end."""

import asyncio
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from thinstream.errors import InvalidParameterError, ThinstreamError, WorkerLostError
from thinstream.serve import Limits, Settings
from thinstream.serve.authentication import Guard, require_safe
from thinstream.serve.folders import ServerPaths
from thinstream.serve.log import ERROR, WARNING, log, set_up

#: Seconds that a process has to stop before it is killed. Its checkpoint may be large.
GRACE = 60.0


class ChildProcess:
    """A child process that ends when this process ends.

    ``order`` has the role and the settings of the process, see `main`. The process inherits ``handles``, open files,
    under the same numbers.
    """

    def __init__(self, order: dict[str, Any], handles: tuple[int, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "thinstream.serve.supervisor"],
            stdin=subprocess.PIPE,
            pass_fds=handles,
            start_new_session=True,  # Ctrl-C is for the supervisor, which stops the others in order
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self.began = time.monotonic()

    @classmethod
    def learner(cls, paths: ServerPaths, settings: Settings, names: list[str]) -> "ChildProcess":
        paths.socket.unlink(missing_ok=True)
        order = {"role": "learner", "data": str(paths.data), "settings": settings._asdict(), "names": names}
        return cls(order | {"log_format": settings.log_format})

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._process.poll()

    async def opened(self, paths: ServerPaths) -> None:
        """Wait until the learner accepts requests; raise if it ended instead."""
        while not self.is_open(paths.socket):
            await asyncio.sleep(0.02)

    def is_open(self, path: Path) -> bool:
        """Return whether the learner accepts requests; raise if it has ended."""
        if self.code is not None:
            raise WorkerLostError(f"the learner ended with code {self.code} before it accepted requests")
        return path.exists()

    def ask_to_stop(self) -> None:
        if self.code is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = GRACE) -> int:
        """Stop the process, and kill it if it takes too long; return its exit code."""
        self.ask_to_stop()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.returncode


def write_restarts(folder: Path, restarts: dict[str, int]) -> None:
    """Write how often processes of each role were restarted. Predictors read it for the metrics."""
    draft = folder / "restarts.tmp"
    with suppress(OSError):  # the server works without these counts
        draft.write_text(json.dumps(restarts))
        draft.replace(folder / "restarts")


def restarts_in(folder: Path) -> dict[str, int]:
    """Return the counts that `write_restarts` wrote; or an empty dict if no supervisor is running."""
    try:
        restarts: dict[str, int] = json.loads((folder / "restarts").read_text())
    except FileNotFoundError:
        return {}
    return restarts


#: Seconds until a process that ended is restarted, at first and at most. The pause doubles each time.
FIRST, MOST = 0.05, 5.0
#: Seconds to wait for a port that is in use.
PATIENCE = 5.0
#: Roles of processes.
LEARNER, PREDICTOR = "learner", "predictor"


class Listening(NamedTuple):
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    log: bool = False
    grace: int = 10  # seconds that running requests have to finish
    connections: int = 1000  # open connections per process


class WatchedProcess:
    """A process that is restarted whenever it ends, after a call of ``ended``."""

    def __init__(self, start: Callable[[], ChildProcess], ended: Callable[[ChildProcess], None]) -> None:
        self._start, self._ended, self.child = start, ended, start()
        self._pause, self._due = FIRST, 0.0

    def watch(self) -> None:
        """Restart the process if it has ended, with growing pauses."""
        now = time.monotonic()
        if self.child.code is None:
            if now - self.child.began > 60.0:
                self._pause = FIRST
            return
        if not self._due:
            self._due = now + self._pause
            self._ended(self.child)
        elif now >= self._due:
            self._due, self._pause = 0.0, min(2 * self._pause, MOST)
            self.child = self._start()


class Supervisor:
    """Run a server until a signal stops it.

    ``paths`` must be held.
    """

    def __init__(
        self, paths: ServerPaths, names: list[str], listening: Listening, settings: Settings, limits: Limits
    ) -> None:
        require_safe(listening.host, Guard.load(listening.tokens))
        self._paths, self._names, self._settings, self._limits = paths, names, settings, limits
        self._listening = listening
        self._socket = _bound(listening.host, listening.port)
        self._ended, self._restarts = threading.Event(), dict.fromkeys((LEARNER, PREDICTOR), 0)
        write_restarts(paths.metrics, self._restarts)

    @property
    def address(self) -> str:
        host, port = self._socket.getsockname()[:2]
        scheme = "http" if self._listening.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Serve until a signal comes, and return an exit code: 1 if a model could not learn to the end.

        ``ready`` is called once the server accepts requests.
        """
        with self._signals():
            learner = WatchedProcess(self._learner, partial(self._restarting, LEARNER))
            posts = [learner]
            try:
                while not self._ended.is_set() and not learner.child.is_open(self._paths.socket):
                    self._ended.wait(0.02)
                restarting = partial(self._restarting, PREDICTOR)
                posts += [WatchedProcess(self._predictor, restarting) for _ in range(self._listening.workers)]
                log(f"serving {', '.join(self._names) or 'no model'} on {self.address}", pid=os.getpid())
                ready()
                while not self._ended.wait(0.1):
                    for post in posts:
                        post.watch()
            finally:
                log("stopping: finishing requests, then writing checkpoints")
                code = self._stop(learner.child, [post.child for post in posts[1:]])
                log("stopped", code=code)
        return int(code != 0)

    def _restarting(self, role: str, child: ChildProcess) -> None:
        """Log and count that a process has ended and will be restarted."""
        log(f"the {role} {_how_it_ended(child.code)}; restarting it", WARNING, process=role, pid=child.pid)
        self._restarts[role] += 1
        write_restarts(self._paths.metrics, self._restarts)

    def _learner(self) -> ChildProcess:
        settings, self._settings = (
            self._settings,
            self._settings._replace(recover=False),
        )  # recover once, not at each restart
        return ChildProcess.learner(self._paths, settings, self._names)

    def _predictor(self) -> ChildProcess:
        listening, number = self._listening, self._socket.fileno()
        order: dict[str, Any] = listening._asdict() | {
            "role": "predictor",
            "data": str(self._paths.data),
            "limits": self._limits._asdict(),
            "socket": number,
            "mark": self._paths.mark,
            "log_format": self._settings.log_format,
        }
        for name in ("tokens", "certificate", "key"):
            order[name] = None if order[name] is None else str(order[name])
        return ChildProcess(order, (number,))

    def _stop(self, learner: ChildProcess, predictors: list[ChildProcess]) -> int:
        """Stop the predictors, then the learner, which writes checkpoints. Return the learner's exit code."""
        for child in predictors:
            child.ask_to_stop()
        for child in predictors:
            child.stop(self._listening.grace + 5)
        code = learner.stop()
        self._socket.close()
        self._paths.clear()
        return code

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def end(number: int, frame: FrameType | None) -> None:
            self._ended.set()

        previous = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def _how_it_ended(code: int | None) -> str:
    """Describe how a process ended.

    >>> _how_it_ended(-9), _how_it_ended(1)
    ('was killed by SIGKILL', 'ended with code 1')
    """
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def _bound(host: str, port: int) -> socket.socket:
    """Open a listening socket; retry for a while if processes of a killed server still use the port."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            listener = socket.create_server((host, port), family=_family(host), backlog=2048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < until:
                time.sleep(0.1)
                continue
            reason = error.strerror or str(error)
            raise InvalidParameterError(
                f"cannot listen on {host}:{port}: {reason}. Choose another --port or --host"
            ) from None
        listener.set_inheritable(True)
        return listener


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def main() -> int:
    """Run the role that a line on standard input describes, until standard input is closed."""
    line = sys.stdin.buffer.readline()
    if not line:  # the process that started this one has ended
        return 0
    order: dict[str, Any] = json.loads(line)
    paths = ServerPaths(Path(order["data"]))
    set_up(order["log_format"])
    try:
        if order["role"] == "learner":
            from thinstream.serve import learner

            return int(not learner.run(paths, Settings(**order["settings"]), order["names"]))
        from thinstream.serve import predictor

        predictor.run(paths, Limits(**order["limits"]), order)
    except (ThinstreamError, OSError) as error:
        log(str(error), ERROR)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
