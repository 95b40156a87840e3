"""A predictor: the ASGI application, and the uvicorn server that runs it on a socket shared by several processes."""

import asyncio
import gc
import ipaddress
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from thinstream.serve import Limits, Settings, requests, v2
from thinstream.serve.authentication import Guard
from thinstream.serve.dashboard import routes as dashboard_routes
from thinstream.serve.folders import ServerPaths
from thinstream.serve.log import set_up
from thinstream.serve.metrics import CONNECTION, CONTENT_TYPE, UNMATCHED, Metrics
from thinstream.serve.openapi import description, page
from thinstream.serve.requests import Reply, Request, RequestContext, Route, Starlette, refusal
from thinstream.serve.served_models import ServedModels, register
from thinstream.serve.supervisor import ChildProcess
from thinstream.serve.wire import DROP, Link, Refused, to_json

#: A context that is open while the application runs.
Around = Callable[[], AbstractAsyncContextManager[None]]


class Application(Starlette):
    """A Starlette application that finds the frequent routes without a search."""

    def __init__(self, frequent: list[Route], others: list[Route], **options: Any) -> None:
        super().__init__(routes=[*frequent, *others], **options)
        self._often = {route.path: route.app for route in frequent}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        frequent = self._often.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        await (super().__call__ if frequent is None else frequent)(scope, receive, send)


def predicting_app(
    paths: ServerPaths,
    guard: Guard,
    limits: Limits,
    logs_requests: bool,
    around: Around = nullcontext,
    root: int | None = None,
) -> Application:
    """Return an application that predicts, and sends rows to the learner. ``root`` is the supervisor's process id."""
    link, counts = Link(paths.socket, limits), Metrics(paths.metrics, root)
    models = ServedModels(paths, limits, counts.columns)
    context = RequestContext(models, link, guard, limits, counts, logs_requests)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with around():
            await link.open()
            models.warm_up()
            gc.freeze()  # long-lived objects: scanning them for garbage would take milliseconds
            sharing = asyncio.create_task(counts.keep_sharing())
            yield
            sharing.cancel()
            counts.share()
            await link.close()

    async def metrics(request: Request) -> Reply:
        """Return metrics for Prometheus."""
        try:
            statuses = await link.ask("status")
        except Refused:  # the counts of the predictors are still available
            statuses = None
        return Reply(counts.text(statuses, models.versions()), CONTENT_TYPE)

    async def openapi(request: Request) -> Any:
        """Return this description as OpenAPI."""
        return description(described)

    async def docs(request: Request) -> Reply:
        """Show this page."""
        return Reply(page(described).encode(), "text/html; charset=utf-8")

    frequent = requests.routes(context)
    others = [
        *v2.routes(context),
        *dashboard_routes.routes(context),
        context.route("/metrics", metrics, "read", ("GET",)),
        context.route("/openapi.json", openapi, None, ("GET",)),
        context.route("/docs", docs, None, ("GET",)),
    ]

    async def unmatched(request: Any, error: Any) -> Any:
        """Answer a request that matches no route, or no method of its route."""
        own, began = Request(request.scope, request.receive), time.perf_counter()
        text = f"the server has no endpoint {own.method} {own.path[:100]}; see /docs"
        headers = tuple((error.headers or {}).items())
        reply = Reply(to_json({"error": text}), status_code=error.status_code, headers=headers)
        return context.finish(UNMATCHED, own, reply, began)

    described = [*frequent, *others]
    handlers = {404: unmatched, 405: unmatched}
    app = Application(frequent, others, lifespan=lifespan, exception_handlers=handlers)
    app.state.metrics = counts
    return app


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
    """Create an ASGI application that predicts and learns, with its own learner. Run it in one process.

    Parameters
    ----------
    models : iterable of paths
        Model files. A model has the name of its file, or NAME with ``"NAME=FILE"``.
    data : path
        The folder of journals and checkpoints. Without models, all models in the folder are served.
    new : iterable of str
        New models, ``"NAME:ALGORITHM"`` or ``"NAME:ALGORITHM:NEG,POS"``.
    tokens : path or None
        A file with a line for each token: scopes (read, learn, admin), a space and the token. None: requests need no
        token, but must address this machine as localhost or 127.0.0.1.
    hosts : iterable of str
        Other host names, without ports, that requests without tokens may use, such as ``"testserver"``.
    limits : Limits or None
        Limits on requests.
    settings : Settings or None
        How the learner stores and learns rows.
    log : bool
        Whether to log each request. The server logs to ``logging.getLogger("thinstream.serve")``, which writes to
        standard error unless the process has configured logging.

    """
    paths, chosen = ServerPaths(Path(data)), settings or Settings()
    guard = Guard.load(None if tokens is None else Path(tokens), hosts)
    files, fresh = list(models), list(new)
    if log:
        set_up(chosen.log_format, force=False)

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        with paths.held():
            learner = ChildProcess.learner(paths, chosen, register(paths, files, fresh))
            try:
                await learner.opened(paths)
                yield
            finally:
                learner.stop()
                paths.clear()

    return predicting_app(paths, guard, limits or Limits(), log, around)


#: Requests that a client may send before the first reply.
_PIPELINED = 64


class BufferedTransport:
    """A transport that combines everything written in one iteration of the event loop into a single send.

    The head and the body of a reply are written separately. Sent separately, they would wake the client twice.
    """

    def __init__(self, transport: Any) -> None:
        self._transport, self._out = transport, list[bytes]()
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._send)
        self._out.append(data)

    def _send(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def close(self) -> None:
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connections:
    """The connections of a process: which of them wait for a request, and how many each client address has."""

    def __init__(self, most: int, limits: Limits, metrics: Metrics) -> None:
        self.most, self.limits, self.metrics = most, limits, metrics
        self.per_address = limits.per_address or max(most // 2, 1)
        self.waiting: dict[Protocol, float] = {}  # when each began to wait, the longest first; 0: since the last check
        self.by_address: dict[str, int] = {}

    def add(self, connection: "Protocol", total: int) -> None:
        """Count a new connection. If there are too many, close the one that has waited longest."""
        address = connection.address
        count = self.by_address[address] = self.by_address.get(address, 0) + 1
        if count > self.per_address or total > self.most:
            of_address = count > self.per_address
            oldest = next((other for other in self.waiting if not of_address or other.address == address), None)
            if oldest is not None:
                oldest.leave()
            else:
                connection.app = _TOO_MANY_OF_ADDRESS if of_address else _TOO_MANY
                self.metrics.answered(CONNECTION, 429 if of_address else 503, 0.0)
        self.waiting[connection] = 0.0

    def remove(self, connection: "Protocol") -> None:
        self.waiting.pop(connection, None)
        if not connection.has_left:
            left = self.by_address[connection.address] = self.by_address[connection.address] - 1
            if not left:
                del self.by_address[connection.address]
            connection.has_left = True


def _closing(refused: Refused) -> Any:
    """Return an application that refuses its one request and closes the connection."""
    reply = refusal(refused)
    return reply._replace(headers=(*reply.headers, ("Connection", "close")))


_TOO_MANY = _closing(Refused(503, "all connections of the server are busy; try again later", retry_after=1))
_TOO_MANY_OF_ADDRESS = _closing(
    Refused(429, "all connections that the server allows for this address are busy; try again later", retry_after=1)
)


class Protocol(HttpToolsProtocol):
    """Uvicorn's protocol on a `BufferedTransport` transport, with limits on the size and the slowness of requests.

    There are no timers per request: `Server` checks all connections once a second.
    """

    def __init__(self, connections_: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all, self._limits, self._waiting = connections_, connections_.limits, connections_.waiting
        self._most_bytes, self._most_headers = self._limits.head, self._limits.headers
        self.address, self.has_left, self._is_large = "", False, False
        self._overhead = 0  # bytes of the request outside its body: the head, and between chunks
        self._began, self._received = 0.0, 0  # when the body was first checked, and bytes received since
        self._unsent, self._stalled = 0, 0  # unsent bytes at the last check, and checks without progress

    def connection_made(self, transport: Any) -> None:
        super().connection_made(BufferedTransport(transport))  # type: ignore[arg-type]
        self.address = _network(self.client[0]) if self.client else ""
        self._all.add(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and the request to the learner that only this client waits for."""
        self._all.remove(self)
        super().connection_lost(exc)
        scope: Any = self.scope
        if scope is not None and DROP in scope:
            scope[DROP]()

    def leave(self) -> None:
        """Close the connection in favor of a new one."""
        self._all.remove(self)
        self.connections.discard(self)
        self.transport.close()
        if self.transport.get_write_buffer_size():  # the client does not read
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse the request if its head, or the data between chunks, is too large."""
        self._overhead += len(data)
        HttpToolsProtocol.data_received(self, data)
        if self._overhead > self._most_bytes or (self.headers and len(self.headers) > self._most_headers):
            self._refuse(431, self._too_large)

    @property
    def _too_large(self) -> str:
        return f"a request may have at most {self._most_headers} headers and {self._most_bytes:,} bytes before its body"

    def on_headers_complete(self) -> None:
        """Start the application, unless the head is too large."""
        if (
            len(self.headers) > self._most_headers
            or len(self.pipeline) >= _PIPELINED
            or (self._overhead > self._most_bytes and _size(self.url, self.headers) > self._most_bytes)
        ):
            self._is_large = True
            raise ValueError(self._too_large)  # becomes a parser error: see `send_400_response`
        self._waiting.pop(self, None)
        self._began, self._received = 0.0, 0
        HttpToolsProtocol.on_headers_complete(self)

    def on_body(self, body: bytes) -> None:
        size = len(body)
        self._received += size
        self._overhead -= 2 * size  # twice: each chunk has a head
        if self._overhead < -self._most_bytes:
            self._overhead = -self._most_bytes
        HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        """Reset the count: the next byte belongs to another request."""
        self._overhead = 0
        HttpToolsProtocol.on_message_complete(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is already there. `look` serves as the timer."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._waiting[self] = 0.0

    def look(self, now: float) -> None:
        """Close the connection if its client is too slow to send or to receive."""
        unsent = self.transport.get_write_buffer_size()
        self._stalled = self._stalled + 1 if 0 < self._unsent <= unsent else 0
        self._unsent, since = unsent, self._waiting.get(self)
        if self._stalled >= self._limits.receive_seconds:
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif since is not None:
            self._waiting[self] = since or now
            if since and now - since > self._limits.head_seconds:
                if self._overhead > 0:
                    self._refuse(408, f"the head of a request must arrive within {self._limits.head_seconds:g} s")
                else:
                    self.transport.close()
        elif self.cycle.more_body and not self.pipeline:
            self._began = self._began or now
            if now - self._began > self._limits.body_seconds + self._received / self._limits.body_rate:
                rate, seconds = self._limits.body_rate, self._limits.body_seconds
                self._refuse(408, f"after {seconds:g} s, a body must arrive at {rate:,} bytes per second or faster")

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP, or a head that is too large."""
        self._refuse(431 if self._is_large else 400, self._too_large if self._is_large else msg)

    def _refuse(self, status: int, message: str) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        self._all.metrics.answered(CONNECTION, status, 0.0)
        raw = to_json({"error": message})
        head = f"content-type: application/json\r\ncontent-length: {len(raw)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + raw)
        self.transport.close()


def _network(address: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address: one client may own a whole network.

    >>> _network("10.0.0.1"), _network("::ffff:10.0.0.1"), _network("2001:db8::1"), _network("2001:db8::2")
    ('10.0.0.1', '10.0.0.1', '2001:db8::', '2001:db8::')
    """
    if ":" not in address:
        return address
    ipv6 = ipaddress.IPv6Address(address)
    return str(ipv6.ipv4_mapped or ipaddress.IPv6Address(int(ipv6) >> 64 << 64))


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + 4 for name, value in headers)


class Server(uvicorn.Server):
    """Uvicorn's server, which also closes connections that are too slow."""

    async def on_tick(self, counter: int) -> bool:
        """Check once a second; uvicorn calls this ten times a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in [*self.server_state.connections]:
                if isinstance(connection, Protocol):
                    connection.look(now)
        return await super().on_tick(counter)


def run(paths: ServerPaths, limits: Limits, order: dict[str, Any]) -> None:
    """Serve until the supervisor stops this process, or ends."""
    paths.mark = order["mark"]
    guard = Guard.load(None if order["tokens"] is None else Path(order["tokens"]))
    app = predicting_app(paths, guard, limits, order["log"], root=os.getppid())
    config = uvicorn.Config(
        app,
        http=partial(Protocol, Connections(order["connections"], limits, app.state.metrics)),  # type: ignore[arg-type]
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=order["grace"],
        ssl_certfile=order["certificate"],
        ssl_keyfile=order["key"],
    )
    server = Server(config)
    _allow_files(order["connections"])
    app.state.is_ending = lambda: server.should_exit  # open dashboards must not delay the end

    def until_closed() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    threading.Thread(target=until_closed, daemon=True).start()
    server.run([socket.socket(fileno=order["socket"])])


def _allow_files(connections: int) -> None:
    """Raise the limit on open files, if possible, to match the limit on connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
