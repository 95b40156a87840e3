"""What all requests have in common: who may, how much, which model; what goes out, also if something is wrong."""

import sys
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError
from thinstream.serve.asking import MSGPACK
from thinstream.serve.guard import Guard
from thinstream.serve.link import Link, current_scope
from thinstream.serve.logging import RequestLog
from thinstream.serve.metrics import Metrics
from thinstream.serve.refusals import Refused
from thinstream.serve.served import ServedModels
from thinstream.serve.settings import Limits
from thinstream.serve.web import ClientDisconnect, Reply, Request, Route, is_whole_number
from thinstream.serve.wire import to_json, to_msgpack

#: A handler of requests: what it answers goes out as JSON, unless it is a reply (or a response of Starlette) already.
Handler = Callable[[Request], Awaitable[Any]]


class Desk:
    """Where requests of a predicting process are taken.

    Parameters
    ----------
    models : ServedModels
    link : Link
        To the learning process.
    guard : Guard
    limits : Limits
    metrics : Metrics
    log : RequestLog

    """

    def __init__(
        self, models: ServedModels, link: Link, guard: Guard, limits: Limits, metrics: Metrics, log: RequestLog
    ) -> None:
        self.models, self.link, self.guard = models, link, guard
        self.limits, self.metrics, self.log = limits, metrics, log

    def route(self, path: str, handler: Handler, scope: str | None, methods: tuple[str, ...] = ("POST",)) -> Route:
        """The handler under a path, for tokens of a scope; None: for anybody."""
        return Route(path, Endpoint(self, path, handler, scope), methods=list(methods))

    def require(self, request: Request, scope: str) -> None:
        """Raises unless the request may; pages that somebody looks at in a browser may not without a token."""
        self.guard.require_host(request.headers.get("host"))
        self.guard.require(request.headers.get("authorization"), scope)
        if not self.guard and "origin" in request.headers:
            raise Refused(403, "requests of web pages need a token, and this server has none (--tokens)")

    async def body(self, request: Request) -> bytes:
        """The body of a request, as far as it may be long."""
        most, given = self.limits.body, request.headers.get("content-length", "0")
        if is_whole_number(given) and int(given) > most:
            raise _too_long(most)
        pieces, size = list[bytes](), 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _too_long(most)
            pieces.append(piece)
            if not message.get("more_body"):
                return b"".join(pieces)


class Endpoint:
    """A handler under a path, as ASGI has it: whatever happens, something goes out."""

    def __init__(self, desk: Desk, path: str, handler: Handler, scope: str | None) -> None:
        self._desk, self._path, self._handler, self._scope = desk, path, handler, scope

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers a request."""
        began, request, desk = time.perf_counter(), Request(scope, receive), self._desk
        reply: Any
        current_scope.set(scope)
        try:
            if self._scope is not None:
                desk.require(request, self._scope)
            found = await self._handler(request)
            reply = found if callable(found) else _reply(request, found)
        except Refused as refused:
            reply = refusal(refused)
        except (InvalidInputError, InvalidParameterError, NumericalError) as error:
            reply = refusal(Refused(422, str(error)))
        except ClientDisconnect:
            reply = Reply(b"", status_code=499)
        except Exception:  # what it was is for whoever runs the server
            traceback.print_exc(file=sys.stderr)
            reply = refusal(Refused(500, "the request failed; nothing was learned"))
        current_scope.set(None)  # events are sent after this: others listen to what one of them asks
        seconds = time.perf_counter() - began
        desk.metrics.answered(self._path, reply.status_code, seconds)
        desk.log.answered(request, reply.status_code, seconds)
        await reply(scope, receive, send)


def _too_long(most: int) -> Refused:
    return Refused(413, f"a body may have {most:,} bytes; send fewer rows at a time")


def _reply(request: Request, found: Any) -> Reply:
    headers = request.headers
    if headers.get("accept", headers.get("content-type")) in MSGPACK:
        return Reply(to_msgpack(found), MSGPACK[0])
    return Reply(to_json(found))


def refusal(refused: Refused) -> Reply:
    """What is said of a request that is not answered as asked."""
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    said = to_json({"error": refused.message})
    return Reply(said, status_code=refused.status, headers=tuple(headers.items()))
