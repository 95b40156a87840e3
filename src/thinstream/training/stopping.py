"""SIGINT and SIGTERM as a wish to stop at the next good moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """The run was asked to stop by a signal, and has.

    It is not an `Exception`: code that handles any error of a message must not handle the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Stopping:
    """Whether a signal came. One that comes while the run waits for input ends the waiting."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._waiting = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None:  # asked twice: at once
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.number = number
        if self._waiting:
            raise Interrupted(number)

    def check(self) -> None:
        """Raises if a signal came; between two steps."""
        if self.number is not None:
            raise Interrupted(self.number)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around what may wait for ever and may be left at any point."""
        self.check()
        self._waiting = True
        try:
            yield
        finally:
            self._waiting = False


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Takes the two signals over, in the main thread; elsewhere they stay as they are."""
    asked = Stopping()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    before = {number: signal.signal(number, asked._take) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
