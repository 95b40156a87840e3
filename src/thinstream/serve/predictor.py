"""A predicting process: uvicorn on a socket that several of them share."""

import asyncio
import ipaddress
import resource
import socket
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from thinstream.serve.app import predicting_app
from thinstream.serve.desk import refusal
from thinstream.serve.guard import Guard
from thinstream.serve.link import DROP
from thinstream.serve.logging import RequestLog
from thinstream.serve.places import Places
from thinstream.serve.refusals import Refused
from thinstream.serve.settings import Limits
from thinstream.serve.wire import to_json

#: Requests that a client may send before the first is answered.
_PIPELINED = 64


class Gathering:
    """A transport that sends all that is written in a turn of the loop at once.

    Head and body of a reply are written one after the other: sent one by one, whoever waits would be woken twice.
    """

    def __init__(self, transport: Any) -> None:
        self._transport, self._out = transport, list[bytes]()
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes) -> None:
        """Sends it, soon."""
        if not self._out:
            self._loop.call_soon(self._send)
        self._out.append(data)

    def _send(self) -> None:
        out, self._out = self._out, []
        if out and not self._transport.is_closing():
            self._transport.write(b"".join(out))

    def close(self) -> None:
        """Sends what is left, and ends."""
        self._send()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Connections:
    """The connections of a process: which of them wait for a request, and how many each client address has.

    Parameters
    ----------
    most : int
        Connections at a time.
    limits : Limits

    """

    def __init__(self, most: int, limits: Limits) -> None:
        self.most, self.limits = most, limits
        self.per_address = limits.per_address or max(most // 2, 1)
        self.waiting: dict[Protocol, float] = {}  # the longest first, and since when; 0: since the last look
        self.by_address: dict[str, int] = {}

    def add(self, connection: "Protocol", total: int) -> None:
        """Counts a new connection, and closes the one that has waited longest if there are too many of them."""
        address = connection.address
        count = self.by_address[address] = self.by_address.get(address, 0) + 1
        if count > self.per_address or total > self.most:
            of_address = count > self.per_address
            oldest = next((other for other in self.waiting if not of_address or other.address == address), None)
            if oldest is not None:
                oldest.leave()
            else:
                connection.app = _TOO_MANY_OF_ADDRESS if of_address else _TOO_MANY
        self.waiting[connection] = 0.0

    def remove(self, connection: "Protocol") -> None:
        """Forgets a connection that is closed."""
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


_TOO_MANY = _closing(Refused(503, "all connections that the server allows are busy; try again later", retry_after=1))
_TOO_MANY_OF_ADDRESS = _closing(
    Refused(429, "all connections that the server allows this address are busy; try again later", retry_after=1)
)


class Protocol(HttpToolsProtocol):
    """Uvicorn's protocol on such a transport, with limits on how large and how slow requests may be.

    Nothing is timed for each request: `Server` looks at all connections once a second.
    """

    def __init__(self, connections_: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all, self._limits, self._waiting = connections_, connections_.limits, connections_.waiting
        self._most_bytes, self._most_headers = self._limits.head, self._limits.headers
        self.address, self.has_left, self._is_large = "", False, False
        self._overhead = 0  # bytes of the request that are not its body: the head, and what is between chunks
        self._began, self._received = 0.0, 0  # the first look at the body, and bytes of it until now
        self._unsent, self._stalled = 0, 0  # bytes at the last look, and looks since they became fewer

    def connection_made(self, transport: Any) -> None:
        """Counts the connection."""
        super().connection_made(Gathering(transport))  # type: ignore[arg-type]
        self.address = _network(self.client[0]) if self.client else ""
        self._all.add(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection, and questions that only its client waits for."""
        self._all.remove(self)
        super().connection_lost(exc)
        scope: Any = self.scope
        if scope is not None and DROP in scope:
            scope[DROP]()

    def leave(self) -> None:
        """Closes the connection in favor of a new one."""
        self._all.remove(self)
        self.connections.discard(self)
        self.transport.close()
        if self.transport.get_write_buffer_size():  # its client does not read
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parses what came, unless the head (or what is between chunks) becomes too large."""
        self._overhead += len(data)
        HttpToolsProtocol.data_received(self, data)
        if self._overhead > self._most_bytes or (self.headers and len(self.headers) > self._most_headers):
            self._refuse(431, self._too_large)

    @property
    def _too_large(self) -> str:
        return f"a request may have {self._most_headers} headers and {self._most_bytes:,} bytes before its body"

    def on_headers_complete(self) -> None:
        """Begins to answer, if the head is not too large."""
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
        """Passes on a part of the body."""
        size = len(body)
        self._received += size
        self._overhead -= 2 * size  # twice: each chunk has a head
        if self._overhead < -self._most_bytes:
            self._overhead = -self._most_bytes
        HttpToolsProtocol.on_body(self, body)

    def on_message_complete(self) -> None:
        """The next byte is of another request."""
        self._overhead = 0
        HttpToolsProtocol.on_message_complete(self)

    def on_response_complete(self) -> None:
        """The connection waits again, unless another request is there already; `look` is its timer."""
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._waiting[self] = 0.0

    def look(self, now: float) -> None:
        """Ends the connection if its client is too slow, be it to send or to receive."""
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
                    self._refuse(408, f"the head of a request must be there within {self._limits.head_seconds:g} s")
                else:
                    self.transport.close()
        elif self.cycle.more_body and not self.pipeline:
            self._began = self._began or now
            if now - self._began > self._limits.body_seconds + self._received / self._limits.body_rate:
                rate, seconds = self._limits.body_rate, self._limits.body_seconds
                self._refuse(408, f"a body must come at {rate:,} bytes per second or faster, after {seconds:g} s")

    def send_400_response(self, msg: str) -> None:
        """Refuses what is not HTTP, or a head that is too large."""
        self._refuse(431 if self._is_large else 400, self._too_large if self._is_large else msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answers without the application, and closes the connection."""
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()
            return
        raw = to_json({"error": message})
        head = f"content-type: application/json\r\ncontent-length: {len(raw)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + raw)
        self.transport.close()


def _network(address: str) -> str:
    """Return an address, of version 6 its network: a client may have all addresses of one.

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
    """Uvicorn's server, which looks for connections that are too slow."""

    async def on_tick(self, counter: int) -> bool:
        """Looks once a second; uvicorn comes here ten times."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in [*self.server_state.connections]:
                if isinstance(connection, Protocol):
                    connection.look(now)
        return await super().on_tick(counter)


def run(places: Places, limits: Limits, order: dict[str, Any]) -> None:
    """Answers until it is told to end, or whoever started it is gone."""
    places.mark = order["mark"]
    guard = Guard(local=True) if order["tokens"] is None else Guard.read(Path(order["tokens"]))
    log = RequestLog.on_stderr() if order["log"] else RequestLog()
    app = predicting_app(places, guard, limits, log)
    config = uvicorn.Config(
        app,
        http=partial(Protocol, Connections(order["connections"], limits)),  # type: ignore[arg-type]
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
    app.state.is_ending = lambda: server.should_exit  # pages that listen must not hold it up

    def until_closed() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    threading.Thread(target=until_closed, daemon=True).start()
    server.run([socket.socket(fileno=order["socket"])])


def _allow_files(connections: int) -> None:
    """Raises the limit on open files, if there is room, so that it is not lower than that on connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + 200
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
