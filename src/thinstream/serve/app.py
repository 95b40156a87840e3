"""The application: for the server's own processes, or for any server that speaks ASGI."""

import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from thinstream.serve import short, v2
from thinstream.serve.children import Child
from thinstream.serve.desk import Desk
from thinstream.serve.guard import Guard
from thinstream.serve.link import Link
from thinstream.serve.logging import RequestLog
from thinstream.serve.metrics import CONTENT_TYPE, Metrics
from thinstream.serve.openapi import description, page
from thinstream.serve.places import Places
from thinstream.serve.registering import register
from thinstream.serve.served import ServedModels
from thinstream.serve.settings import Limits, Settings
from thinstream.serve.web import PlainTextResponse, Request, Response, Route, Starlette
from thinstream.serve.wire import to_json

#: What is there before requests are, and goes after them.
Around = Callable[[], AbstractAsyncContextManager[None]]


def predicting_app(
    places: Places, guard: Guard, limits: Limits, log: RequestLog, around: Around | None = None
) -> Starlette:
    """An application that predicts, and asks the learning process to learn."""
    link, models = Link(places.door), ServedModels(places, limits)
    desk = Desk(models, link, guard, limits, Metrics(), log)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with around() if around is not None else _nothing():
            await link.open()
            models.warm_up()
            yield
            await link.close()

    async def metrics(request: Request) -> Response:
        return PlainTextResponse(desk.metrics.text(await link.ask("status")), media_type=CONTENT_TYPE)

    async def openapi(request: Request) -> Any:
        return description()

    async def docs(request: Request) -> Response:
        return Response(page(), media_type="text/html; charset=utf-8")

    others: list[Route] = [
        desk.route("/metrics", metrics, "read", ("GET",)),
        desk.route("/openapi.json", openapi, None, ("GET",)),
        desk.route("/docs", docs, None, ("GET",)),
    ]
    routes = [*short.routes(desk), *v2.routes(desk), *others]
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: _missing, 405: _missing, 500: _failed})


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


async def _missing(request: Request, error: Any) -> Response:
    said = f"{request.method} {request.url.path[:100]} is not something this server answers; see /docs"
    return Response(to_json({"error": said}), error.status_code, media_type="application/json")


async def _failed(request: Request, error: Exception) -> Response:
    return Response(to_json({"error": "the request failed; nothing was learned"}), 500, media_type="application/json")


def create_app(
    models: Iterable[str | os.PathLike[str]] = (),
    data: str | os.PathLike[str] = "thinstream-data",
    *,
    new: Iterable[str] = (),
    tokens: str | os.PathLike[str] | None = None,
    limits: Limits | None = None,
    settings: Settings | None = None,
    log: bool = False,
) -> Starlette:
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
        A file with a line for each token: scopes (read, learn, admin), a blank, the token. None: everybody may.
    limits : Limits or None
        What a request may be.
    settings : Settings or None
        How what is learned is kept.
    log : bool
        Whether each request is a line on standard error.

    """
    places, chosen = Places(Path(data)), settings or Settings()
    guard = Guard() if tokens is None else Guard.read(Path(tokens))
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
