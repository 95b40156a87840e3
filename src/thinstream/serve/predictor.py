"""A predicting process: uvicorn on a socket that several of them share."""

import asyncio
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from thinstream.serve.app import predicting_app
from thinstream.serve.guard import Guard
from thinstream.serve.logging import RequestLog
from thinstream.serve.places import Places
from thinstream.serve.settings import Limits


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


class Protocol(HttpToolsProtocol):
    """Uvicorn's, on such a transport."""

    def connection_made(self, transport: Any) -> None:
        """Somebody has come."""
        super().connection_made(Gathering(transport))  # type: ignore[arg-type]


def run(places: Places, limits: Limits, order: dict[str, Any]) -> None:
    """Answers until it is told to end, or whoever started it is gone."""
    places.mark = order["mark"]
    guard = Guard(local=True) if order["tokens"] is None else Guard.read(Path(order["tokens"]))
    log = RequestLog.on_stderr() if order["log"] else RequestLog()
    app = predicting_app(places, guard, limits, log)
    config = uvicorn.Config(
        app,
        http=Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=order["grace"],
        limit_concurrency=order["connections"],
        ssl_certfile=order["certificate"],
        ssl_keyfile=order["key"],
    )
    server = uvicorn.Server(config)
    app.state.is_ending = lambda: server.should_exit  # pages that listen must not hold it up

    def until_closed() -> None:
        sys.stdin.buffer.read()
        server.should_exit = True

    threading.Thread(target=until_closed, daemon=True).start()
    server.run([socket.socket(fileno=order["socket"])])
