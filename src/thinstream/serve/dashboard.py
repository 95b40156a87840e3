"""The dashboard: its page at ``/``, and what that is told, once a second, as server-sent events at ``/events``."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from thinstream import __version__
from thinstream.dashboard.page import HEADERS, PATHS, asset
from thinstream.serve.desk import Desk
from thinstream.serve.refusals import Refused
from thinstream.serve.web import Reply, Request, Route, StreamingResponse
from thinstream.serve.wire import to_json

#: Seconds between two events, and between two looks at whether the server ends.
EVERY, LOOK = 1.0, 0.25
#: Pages that may listen to one process, and events that may wait for one of them.
LISTENERS, BEHIND = 100, 10


def routes(desk: Desk) -> list[Route]:
    """The page, its files and its events."""
    hub = Hub(desk)
    pages = [desk.route(path, _file, None, ("GET",)) for path in PATHS]
    return [*pages, desk.route("/events", hub.listen, "read", ("GET",))]


async def _file(request: Request) -> Reply:
    found = asset(request.path)
    return Reply(found.content, found.kind, headers=tuple(HEADERS.items()))


class Hub:
    """Asks the learning process once for all pages that listen, and nothing while none does."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._listeners = set[asyncio.Queue[bytes | None]]()
        self._since: dict[str, int] = {}  # of each model: the last sample that was told
        self._task: asyncio.Task[None] | None = None

    async def listen(self, request: Request) -> StreamingResponse:
        """An event with all there is, then one a second with what is new."""
        if len(self._listeners) >= LISTENERS:
            raise Refused(503, f"{LISTENERS} pages listen already; close some", retry_after=5)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        is_ending = getattr(request.scope["app"].state, "is_ending", lambda: False)
        return StreamingResponse(self._events(is_ending), headers=headers, media_type="text/event-stream")

    async def _events(self, is_ending: Callable[[], bool]) -> AsyncIterator[bytes]:
        mine: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._listeners.add(mine)
        try:
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._tell_all(is_ending))
            yield await self._event("full", {})
            while (event := await mine.get()) is not None:
                yield event
        finally:
            self._listeners.discard(mine)

    async def _tell_all(self, is_ending: Callable[[], bool]) -> None:
        """Until nobody listens, or the server ends."""
        due = time.monotonic() + EVERY
        while self._listeners:
            await asyncio.sleep(LOOK)
            event = None
            if not is_ending():
                if time.monotonic() < due:
                    continue
                due = max(due + EVERY, time.monotonic())
                event = await self._event("more", self._since)
            for each in [*self._listeners]:
                if event is None or each.qsize() >= BEHIND:  # one that does not read begins anew when it does
                    self._listeners.discard(each)
                    each.put_nowait(None)
                else:
                    each.put_nowait(event)

    async def _event(self, kind: str, since: dict[str, int]) -> bytes:
        told: dict[str, Any] = {"time": time.time(), "version": __version__, "requests": self._desk.metrics.requests()}
        try:
            told["models"] = await self._desk.link.ask("look", data=to_json(since))
        except Refused as refused:
            told["trouble"] = refused.message
        for name, model in told.get("models", {}).items():
            fresh = model.get("samples")
            if fresh and (since is self._since or name not in self._since):  # a new page takes nothing from others
                self._since[name] = fresh[-1]["number"]
        return b"event: %s\ndata: %s\n\n" % (kind.encode(), to_json(told))
