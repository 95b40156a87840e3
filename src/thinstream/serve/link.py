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


class Link(asyncio.Protocol):
    """Asks the learning process, and waits for its answers; comes back by itself after that was gone."""

    def __init__(self, door: Path) -> None:
        self._door, self._numbers = door, itertools.count()
        self._waiting: dict[int, asyncio.Future[Told]] = {}
        self._frames = Frames(Told)
        self._transport: Any = None
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """Whether the learning process is there."""
        return self._transport is not None

    async def open(self) -> None:
        """Begins to look for the learning process."""
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def close(self) -> None:
        """Ends the line."""
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.close()

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        while self._transport is None:
            try:
                self._frames = Frames(Told)
                await loop.create_unix_connection(lambda: self, str(self._door))
            except OSError:
                await asyncio.sleep(_AGAIN)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The learning process is there."""
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone: nobody knows whether what was asked is on disk, so it has to be asked again, with the same id."""
        self._transport, waiting = None, list(self._waiting.values())
        self._waiting.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(Refused(503, _GONE, retry_after=1))
        if self._task is not None and not self._task.cancelled():
            self._task = asyncio.get_running_loop().create_task(self._connect())

    def data_received(self, data: bytes) -> None:
        """Answers come."""
        for told in self._frames.take(data):
            future = self._waiting.pop(told.number, None)
            if future is not None and not future.done():
                future.set_result(told)

    async def ask(self, what: str, model: str = "", **more: Any) -> dict[str, Any]:
        """The answer; `Refused` where there is none."""
        if self._transport is None:
            raise Refused(503, _GONE, retry_after=1)
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._transport.write(framed(Ask(number, what, model, **more)))
        told: Told = await future
        if told.status != 200:
            raise Refused(told.status, told.answer["error"], retry_after=1 if told.status in (429, 503) else None)
        answer: dict[str, Any] = told.answer
        return answer
