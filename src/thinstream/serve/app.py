"""The application: for the server's own processes, or for any server that speaks ASGI."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

from thinstream.serve import dashboard, managing, short, v2
from thinstream.serve.children import Child
from thinstream.serve.desk import Desk
from thinstream.serve.guard import Guard
from thinstream.serve.link import Link
from thinstream.serve.logging import RequestLog
from thinstream.serve.metrics import CONTENT_TYPE, Metrics
from thinstream.serve.openapi import description, page
from thinstream.serve.places import Places
from thinstream.serve.refusals import Refused
from thinstream.serve.registering import register
from thinstream.serve.served import ServedModels
from thinstream.serve.settings import Limits, Settings
from thinstream.serve.web import Reply, Request, Route, Starlette
from thinstream.serve.wire import to_json

#: What is there before requests are, and goes after them.
Around = Callable[[], AbstractAsyncContextManager[None]]


class Application(Starlette):
    """Starlette, but routes that are asked for often are found without looking through all."""

    def __init__(self, often: list[Route], others: list[Route], **options: Any) -> None:
        super().__init__(routes=[*often, *others], **options)
        self._often = {route.path: route.app for route in often}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request."""
        often = self._often.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (super().__call__ if often is None else often)(scope, receive, send)


def predicting_app(
    places: Places, guard: Guard, limits: Limits, log: RequestLog, around: Around = nullcontext
) -> Application:
    """An application that predicts, and asks the learning process to learn."""
    link, models = Link(places.door, limits), ServedModels(places, limits)
    desk = Desk(models, link, guard, limits, Metrics(places.metrics), log)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with around():
            await link.open()
            models.warm_up()
            gc.freeze()  # what is there by now stays: looking for garbage in it takes milliseconds
            telling = asyncio.create_task(desk.metrics.keep_telling())
            yield
            telling.cancel()
            desk.metrics.leave()
            await link.close()

    async def metrics(request: Request) -> Reply:
        try:
            models = await link.ask("status")
        except Refused:  # the numbers of this process are known nevertheless
            models = None
        return Reply(desk.metrics.text(models), CONTENT_TYPE)

    async def openapi(request: Request) -> Any:
        return description()

    async def docs(request: Request) -> Reply:
        return Reply(page().encode(), "text/html; charset=utf-8")

    others: list[Route] = [
        desk.route("/metrics", metrics, "read", ("GET",)),
        desk.route("/openapi.json", openapi, None, ("GET",)),
        desk.route("/docs", docs, None, ("GET",)),
    ]
    return Application(
        short.routes(desk),
        [*v2.routes(desk), *managing.routes(desk), *dashboard.routes(desk), *others],
        lifespan=lifespan,
        exception_handlers={404: _missing, 405: _missing},
    )


async def _missing(request: Any, error: Any) -> Any:
    said = f"{request.method} {request.url.path[:100]} is not something this server answers; see /docs"
    return Reply(to_json({"error": said}), status_code=error.status_code)


def create_app(
    models: Iterable[str | os.PathLike[str]] = (),
    data: str | os.PathLike[str] = "thinstream-data",
    *,
    new: Iterable[str] = (),
    tokens: str | os.PathLike[str] | None = None,
    hosts: Iterable[str] = (),
    limits: Limits | None = None,
    settings: Settings | None = None,
    log: bool = False,
) -> Application:
    """An ASGI application that predicts and learns, with a learning process of its own; for one process.

    Parameters
    ----------
    models : iterable of paths
        Model files, called by their names (or ``"NAME=FILE"``).
    data : path
        The folder of journals and checkpoints; models that it has are served too if none is named.
    new : iterable of str
        Fresh models, ``"NAME:ALGORITHM"`` or ``"NAME:ALGORITHM:NEG,POS"``.
    tokens : path or None
        A file with a line for each token: scopes (read, learn, admin), a blank, the token. None: requests that call
        this machine localhost or 127.0.0.1 need none, and others are refused.
    hosts : iterable of str
        Other names, without ports, that requests without tokens may call this machine by, such as ``"testserver"``.
    limits : Limits or None
        What a request may be.
    settings : Settings or None
        How what is learned is kept.
    log : bool
        Whether each request is a line on standard error.

    """
    places, chosen = Places(Path(data)), settings or Settings()
    guard = Guard(local=True, hosts=hosts) if tokens is None else Guard.read(Path(tokens))
    files, fresh = list(models), list(new)

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        with places.held():
            learner = Child.learner(places, chosen, register(places, files, fresh))
            try:
                await learner.opened(places)
                yield
            finally:
                learner.stop()
                places.clear()

    logged = RequestLog.on_stderr() if log else RequestLog()
    return predicting_app(places, guard, limits or Limits(), logged, around)
