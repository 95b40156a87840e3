"""Processes of a server: each is told on its standard input what to be, and ends when that is closed."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from thinstream.errors import WorkerLostError
from thinstream.serve.places import Places
from thinstream.serve.settings import Settings

#: Seconds that a process has to end in order, before it is killed; its checkpoint may be large.
GRACE = 60.0


class Child:
    """A process that lives no longer than this one.

    Parameters
    ----------
    order : dict
        What it is to be, see `process`.
    handles : tuple of int
        Files that it gets, under the same numbers.

    """

    def __init__(self, order: dict[str, Any], handles: tuple[int, ...] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "thinstream.serve.process"],
            stdin=subprocess.PIPE,
            pass_fds=handles,
            start_new_session=True,  # Ctrl-C is for the server, which ends others in order
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        self.began = time.monotonic()

    @classmethod
    def learner(cls, places: Places, settings: Settings, names: list[str]) -> "Child":
        """The learning process."""
        places.door.unlink(missing_ok=True)
        return cls({"role": "learner", "data": str(places.data), "settings": settings._asdict(), "names": names})

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """How it ended; None as long as it runs."""
        return self._process.poll()

    async def opened(self, places: Places) -> None:
        """Returns once the learning process can be asked; raises if it has ended instead."""
        while not self.is_open(places.door):
            await asyncio.sleep(0.02)

    def is_open(self, door: Path) -> bool:
        """Whether the learning process can be asked; raises if it has ended instead."""
        if self.code is not None:
            raise WorkerLostError(f"the learning process ended with code {self.code} before it could be asked")
        return door.exists()

    def ask_to_stop(self) -> None:
        """Tells it to end in order."""
        if self.code is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self, seconds: float = GRACE) -> int:
        """End it, in order if it can, and return its exit code."""
        self.ask_to_stop()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.returncode
