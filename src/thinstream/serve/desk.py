"""What all requests have in common: who may, how much, which model; what goes out, also if something is wrong."""

import time
from collections.abc import Awaitable, Callable
from typing import Any

from thinstream.errors import NumericalError, ThinstreamError
from thinstream.serve.asking import MSGPACK
from thinstream.serve.guard import Guard
from thinstream.serve.link import Link
from thinstream.serve.logging import RequestLog
from thinstream.serve.metrics import Metrics
from thinstream.serve.refusals import Refused
from thinstream.serve.served import ServedModels
from thinstream.serve.settings import Limits
from thinstream.serve.web import ClientDisconnect, Request, Response, Route
from thinstream.serve.wire import to_json, to_msgpack

#: A handler of requests: what it answers goes out as JSON, unless it is a response already.
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

        async def answer(request: Request) -> Response:
            began = time.perf_counter()
            try:
                if scope is not None:
                    self._require(request, scope)
                found = await handler(request)
                response = found if isinstance(found, Response) else _response(request, found)
            except Refused as refused:
                response = refusal(refused)
            except NumericalError as error:
                response = refusal(Refused(422, str(error)))
            except ThinstreamError as error:
                response = refusal(Refused(422, str(error)))
            except ClientDisconnect:
                response = Response(status_code=499)
            seconds = time.perf_counter() - began
            self.metrics.answered(path, response.status_code, seconds)
            self.log.answered(request, response.status_code, seconds)
            return response

        return Route(path, answer, methods=list(methods))

    def _require(self, request: Request, scope: str) -> None:
        """Raises unless the request may; pages that somebody looks at in a browser may not without a token."""
        self.guard.require(request.headers.get("authorization"), scope)
        if not self.guard and "origin" in request.headers:
            raise Refused(403, "requests of web pages need a token, and this server has none (--tokens)")

    async def body(self, request: Request) -> bytes:
        """The body of a request, as far as it may be long."""
        most, given = self.limits.body, request.headers.get("content-length", "0")
        if given.isdigit() and int(given) > most:
            raise _too_long(most)
        pieces, size = list[bytes](), 0
        async for piece in request.stream():
            size += len(piece)
            if size > most:
                raise _too_long(most)
            pieces.append(piece)
        return b"".join(pieces)


def _too_long(most: int) -> Refused:
    return Refused(413, f"a body may have {most:,} bytes; send fewer rows at a time")


def _response(request: Request, found: Any) -> Response:
    if request.headers.get("accept", request.headers.get("content-type", "")) in MSGPACK:
        return Response(to_msgpack(found), media_type=MSGPACK[0])
    return Response(to_json(found), media_type="application/json")


def refusal(refused: Refused) -> Response:
    """What is said of a request that is not answered as asked."""
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(to_json({"error": refused.message}), refused.status, headers, "application/json")
