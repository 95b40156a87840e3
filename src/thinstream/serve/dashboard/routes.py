"""Routes of the dashboard: the page at ``/``, and its data at ``/events``, once a second, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from thinstream._version import __version__
from thinstream.serve.dashboard import HEADERS, PATHS, asset
from thinstream.serve.requests import Reply, Request, RequestContext, Route, StreamingResponse
from thinstream.serve.wire import Refused, to_json

#: Seconds between two events, and between checks whether the server stops.
EVERY, LOOK = 1.0, 0.25
#: The most open pages per process, and the most events that may wait for a page.
LISTENERS, BEHIND = 100, 10


def routes(context: RequestContext) -> list[Route]:
    hub = Hub(context)
    files = [context.route(path, _page if path == "/" else _file, None, ("GET",)) for path in PATHS]
    return [*files, context.route("/events", hub.listen, "read", ("GET",))]


async def _page(request: Request) -> Reply:
    """Show the dashboard: a page that shows models as they learn."""
    return await _file(request)


async def _file(request: Request) -> Reply:
    file = asset(request.path)
    return Reply(file.content, file.content_type, headers=tuple(HEADERS.items()))


class Hub:
    """Sends one request per second to the learner for all open pages, and none if no page is open."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._listeners = set[asyncio.Queue[bytes | None]]()
        self._since: dict[str, int] = {}  # by model: the last sample that was sent
        self._task: asyncio.Task[None] | None = None

    async def listen(self, request: Request) -> StreamingResponse:
        """Return the data of the dashboard, once a second, as server-sent events."""
        if len(self._listeners) >= LISTENERS:
            raise Refused(503, f"{LISTENERS} dashboards are already open; close some", retry_after=5)
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
        """Send events until no page is open, or the server stops."""
        due = time.monotonic() + EVERY
        while self._listeners:
            await asyncio.sleep(LOOK)
            event = None
            if not is_ending():
                if time.monotonic() < due:
                    continue
                due = max(due + EVERY, time.monotonic())
                event = await self._event("more", self._since)
            for listener in [*self._listeners]:
                if event is None or listener.qsize() >= BEHIND:  # a page that does not read reconnects later
                    self._listeners.discard(listener)
                    listener.put_nowait(None)
                else:
                    listener.put_nowait(event)

    async def _event(self, event: str, since: dict[str, int]) -> bytes:
        data: dict[str, Any] = {
            "time": time.time(),
            "version": __version__,
            "requests": self._context.metrics.requests(),
        }
        try:
            data["models"] = await self._context.link.ask("look", data=to_json(since))
        except Refused as refused:
            data["trouble"] = refused.message
        for name, model in data.get("models", {}).items():
            samples = model.get("samples")
            if samples and (
                since is self._since or name not in self._since
            ):  # a new page must not skip samples of others
                self._since[name] = samples[-1]["number"]
        return b"event: %s\ndata: %s\n\n" % (event.encode(), to_json(data))
