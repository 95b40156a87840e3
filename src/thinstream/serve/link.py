"""A predicting process's line to the learning one."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

from thinstream.serve.refusals import Refused
from thinstream.serve.wire import Ask, Frames, Told, framed

_GONE = "the learning process is starting; predictions go on, try again in a second"
#: Seconds between two attempts to reach it.
_AGAIN = 0.1


class _Line(asyncio.Protocol):
    """One connection, and what waits for an answer on it."""

    def __init__(self) -> None:
        self._frames, self._waiting = Frames(Told), dict[int, asyncio.Future[Told]]()
        self._transport: Any = None
        self._out: list[bytes] = []
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The learning process is there."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone: nobody knows whether what was asked is on disk, so it has to be asked again, with the same id."""
        self.lost.set()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(Refused(503, _GONE, retry_after=1))

    def data_received(self, data: bytes) -> None:
        """Answers come."""
        for told in self._frames.take(data):
            future = self._waiting.pop(told.number, None)
            if future is not None and not future.done():
                future.set_result(told)

    def ask(self, asked: Ask) -> asyncio.Future[Told]:
        """Sends a question, with others that come at the same time; its answer."""
        loop = asyncio.get_running_loop()
        future = self._waiting[asked.number] = loop.create_future()
        if not self._out:
            loop.call_soon(self._send)
        self._out.append(framed(asked))
        return future

    def _send(self) -> None:
        out, self._out = self._out, []
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

    """

    def __init__(self, door: Path) -> None:
        self._door, self._numbers = door, itertools.count()
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
            await line.lost.wait()
            self._line = None

    async def ask(self, what: str, model: str = "", **more: Any) -> dict[str, Any]:
        """The answer; `Refused` where there is none."""
        line = self._line
        if line is None or line.lost.is_set():
            raise Refused(503, _GONE, retry_after=1)
        told = await line.ask(Ask(next(self._numbers), what, model, **more))
        if told.status != 200:
            raise Refused(told.status, told.answer["error"], retry_after=1 if told.status in (429, 503) else None)
        return told.answer
