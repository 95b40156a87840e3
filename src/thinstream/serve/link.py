"""A predicting process's line to the learning one."""

import asyncio
import itertools
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

from thinstream.serve.refusals import Refused
from thinstream.serve.settings import Limits
from thinstream.serve.web import ClientDisconnect
from thinstream.serve.wire import Ask, Frames, Told, framed

_GONE = "the learning process is starting; predictions go on, try again in a second"
_LATE = (
    "the learning process has not answered in time; it is not known whether the request was written, so send it "
    "again with the same Idempotency-Key"
)
#: Seconds between two attempts to reach it.
_AGAIN = 0.1
#: Seconds between two looks for questions that have waited too long.
_LOOK = 0.2
#: Seconds to wait for the answer to some questions, instead of `Limits.answer_seconds`: health checks must be fast, and
#: changes of a model may replay its journal or compile code.
_SECONDS = {"status": 2.0, "load": 600.0, "unload": 600.0, "change": 600.0}
#: Bytes that may wait to be sent to the learning process.
_UNSENT = 64 << 20
#: The ASGI scope of the current request, and the key of the function in it that drops the request's question.
current_scope: ContextVar[dict[str, Any] | None] = ContextVar("current_scope", default=None)
DROP = "thinstream.drop"


class _Line(asyncio.Protocol):
    """One connection, and what waits for an answer on it."""

    def __init__(self) -> None:
        self._frames = Frames(Told)
        #: The answers that are awaited, and until when.
        self._waiting: dict[int, tuple[asyncio.Future[Told], float]] = {}
        self._transport: Any = None
        self._out: list[bytes] = []
        self.lost = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def is_full(self, most: int) -> bool:
        """Return whether ``most`` questions wait for answers, or too many bytes to be sent."""
        return len(self._waiting) >= most or self._transport.get_write_buffer_size() > _UNSENT

    def forget(self, number: int) -> None:
        """Stops waiting for the answer to a question."""
        self._waiting.pop(number, None)

    def expire(self, now: float) -> None:
        """Ends the wait for answers that have not come in time."""
        for future, until in [*self._waiting.values()]:
            if now >= until and not future.done():
                future.set_exception(Refused(503, _LATE, retry_after=1))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The learning process is there."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone: nobody knows whether what was asked is on disk, so it has to be asked again, with the same id."""
        self.lost.set()
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(Refused(503, _GONE, retry_after=1))

    def data_received(self, data: bytes) -> None:
        """Answers come."""
        for told in self._frames.take(data):
            future, _ = self._waiting.pop(told.number, (None, 0.0))
            if future is not None and not future.done():
                future.set_result(told)

    def ask(self, asked: Ask, seconds: float) -> asyncio.Future[Told]:
        """Sends a question, with others that come at the same time; its answer, which has to come within some time."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Told] = loop.create_future()
        self._waiting[asked.number] = future, loop.time() + seconds
        if not self._out:
            loop.call_soon(self._send)
        self._out.append(framed(asked))
        return future

    def _send(self) -> None:
        out, self._out = self._out, []
        if not self._transport.is_closing():  # else `connection_lost` answers those who wait
            self._transport.write(b"".join(out))

    def close(self) -> None:
        """Ends it."""
        self._transport.close()


class Link:
    """Asks the learning process, and waits for its answers; comes back by itself after that was gone.

    Parameters
    ----------
    door : path
        Of its socket.
    limits : Limits or None
        How many questions may wait, and how long.

    """

    def __init__(self, door: Path, limits: Limits | None = None) -> None:
        self._door, self._numbers, self._limits = door, itertools.count(), limits or Limits()
        self._line: _Line | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begins to look for the learning process."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        """Ends the line."""
        if self._task is not None:
            self._task.cancel()
        if self._line is not None:
            self._line.close()

    async def _keep(self) -> None:
        """A line, and after it another one."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, line = await loop.create_unix_connection(_Line, str(self._door))
            except OSError:
                await asyncio.sleep(_AGAIN)
                continue
            self._line = line
            while not line.lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(line.lost.wait(), _LOOK)
                line.expire(loop.time())
            self._line = None

    async def ask(self, what: str, model: str = "", **more: Any) -> dict[str, Any]:
        """Return the answer; raise `Refused` if none comes in time, `ClientDisconnect` if the client left."""
        line, limits = self._line, self._limits
        if line is None or line.lost.is_set():
            raise Refused(503, _GONE, retry_after=1)
        if what != "status" and line.is_full(limits.questions):
            raise Refused(
                503, f"{len(line)} requests already wait for the learning process; try again later", retry_after=1
            )
        number, scope = next(self._numbers), current_scope.get()
        future = line.ask(Ask(number, what, model, **more), _SECONDS.get(what, limits.answer_seconds))
        if scope is not None:
            scope[DROP] = partial(_drop, future)
        try:
            told = await future
        except BaseException:
            line.forget(number)
            raise
        if told.status != 200:
            raise Refused(told.status, told.answer["error"], retry_after=1 if told.status in (429, 503) else None)
        return told.answer


def _drop(future: asyncio.Future[Told]) -> None:
    """Ends the wait for an answer because the client left."""
    if not future.done():
        future.set_exception(ClientDisconnect())
