"""The server: one learning process, some that predict, and this one, which starts those again that are gone."""

import errno
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from thinstream.errors import InvalidParameterError
from thinstream.serve.children import Child
from thinstream.serve.ends import tell_ends
from thinstream.serve.guard import Guard, require_safe
from thinstream.serve.places import Places
from thinstream.serve.settings import Limits, Settings

#: Seconds until a process that ended is started again, at first and at most; twice as long each time.
FIRST, MOST = 0.05, 5.0
#: Seconds that a port may still be taken.
PATIENCE = 5.0
#: What its processes are called.
LEARNER, PREDICTOR = "learning", "predicting"


class Listening(NamedTuple):
    """Where and how a server listens."""

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    tokens: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    log: bool = False
    grace: int = 10  # seconds that requests have to end
    connections: int = 1000  # at a time, of each process


class Post:
    """A process that is to be there, whatever happens to it; if it ends, ``ended`` hears of it."""

    def __init__(self, start: Callable[[], Child], ended: Callable[[Child], None]) -> None:
        self._start, self._ended, self.child = start, ended, start()
        self._pause, self._due = FIRST, 0.0

    def watch(self) -> None:
        """Starts it again if it is gone, not too often."""
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
    """Runs a server until it is told to end.

    Parameters
    ----------
    places : Places
        Held and prepared.
    names : list of str
        Of the models to load.
    listening : Listening
    settings : Settings
    limits : Limits

    """

    def __init__(
        self, places: Places, names: list[str], listening: Listening, settings: Settings, limits: Limits
    ) -> None:
        guard = Guard() if listening.tokens is None else Guard.read(listening.tokens)
        require_safe(listening.host, guard)
        self._places, self._names, self._settings, self._limits = places, names, settings, limits
        self._listening = listening
        self._socket = _bound(listening.host, listening.port)
        self._ended, self._ends = threading.Event(), dict.fromkeys((LEARNER, PREDICTOR), 0)
        tell_ends(places.metrics, self._ends)

    @property
    def address(self) -> str:
        """Where it is."""
        host, port = self._socket.getsockname()[:2]
        scheme = "http" if self._listening.certificate is None else "https"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def run(self, ready: Callable[[], None] = lambda: None) -> int:
        """Serve until a signal comes, and return an exit code: 1 if a model could not learn to the end.

        ``ready`` is called when it serves.
        """
        with self._signals():
            learner = Post(self._learner, partial(self._say, LEARNER))
            posts = [learner]
            try:
                while not self._ended.is_set() and not learner.child.is_open(self._places.door):
                    self._ended.wait(0.02)
                said = partial(self._say, PREDICTOR)
                posts += [Post(self._predictor, said) for _ in range(self._listening.workers)]
                ready()
                while not self._ended.wait(0.1):
                    for post in posts:
                        post.watch()
            finally:
                code = self._stop(learner.child, [post.child for post in posts[1:]])
        return int(code != 0)

    def _say(self, kind: str, child: Child) -> None:
        """A process has ended: in the log, and for Prometheus."""
        sys.stderr.write(f"thinstream: the {kind} process {child.pid} {_how_it_ended(child.code)}; starting it again\n")
        self._ends[kind] += 1
        tell_ends(self._places.metrics, self._ends)

    def _learner(self) -> Child:
        settings, self._settings = self._settings, self._settings._replace(recover=False)  # once, when it starts
        return Child.learner(self._places, settings, self._names)

    def _predictor(self) -> Child:
        listening, number = self._listening, self._socket.fileno()
        order: dict[str, Any] = listening._asdict() | {
            "role": "predictor",
            "data": str(self._places.data),
            "limits": self._limits._asdict(),
            "socket": number,
            "mark": self._places.mark,
        }
        for name in ("tokens", "certificate", "key"):
            order[name] = None if order[name] is None else str(order[name])
        return Child(order, (number,))

    def _stop(self, learner: Child, predictors: list[Child]) -> int:
        """First requests end, then what was learned is written down; the learner's exit code."""
        for child in predictors:
            child.ask_to_stop()
        for child in predictors:
            child.stop(self._listening.grace + 5)
        code = learner.stop()
        self._socket.close()
        self._places.clear()
        return code

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def end(number: int, frame: FrameType | None) -> None:
            self._ended.set()

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _how_it_ended(code: int | None) -> str:
    """In words.

    >>> _how_it_ended(-9), _how_it_ended(1)
    ('was ended by SIGKILL', 'ended with code 1')
    """
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"was ended by {signal.Signals(-code).name}"
    return f"ended with code {code}"


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens; one that processes of a killed server still hold is waited for."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            found = socket.create_server((host, port), family=_family(host), backlog=2048)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < until:
                time.sleep(0.1)
                continue
            why = error.strerror or str(error)
            raise InvalidParameterError(f"{host}:{port} cannot be listened on: {why}") from None
        found.set_inheritable(True)
        return found


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
