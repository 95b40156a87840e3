"""A predicting process: uvicorn on a socket that several of them share."""

import socket
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn

from thinstream.serve.app import predicting_app
from thinstream.serve.guard import Guard
from thinstream.serve.logging import RequestLog
from thinstream.serve.places import Places
from thinstream.serve.settings import Limits


def run(places: Places, limits: Limits, order: dict[str, Any]) -> None:
    """Answers until it is told to end, or whoever started it is gone."""
    guard = Guard() if order["tokens"] is None else Guard.read(Path(order["tokens"]))
    log = RequestLog.on_stderr() if order["log"] else RequestLog()
    app = predicting_app(places, guard, limits, log)
    config = uvicorn.Config(
        app,
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
