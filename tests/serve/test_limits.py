"""Clients that send too much, too slowly, or too often; and a learning process that hangs."""

import asyncio
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import uvicorn

from tests.serve.conftest import made
from tests.serve.servers import Server as WholeServer
from thinstream.serve import Limits
from thinstream.serve.metrics import Metrics
from thinstream.serve.predictor import Connections, Protocol, Server
from thinstream.serve.wire import DROP, ClientDisconnect, LearnerRequest, Link, Refused, _Connection, current_scope

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
#: Limits that a test can wait for.
QUICK = Limits(head_seconds=0.5, body_seconds=0.5, body_rate=10**9, receive_seconds=1)


@contextmanager
def listening(limits=QUICK, most=1000, answer=b"x"):
    """A server without models, whose `/wait` is busy until its client leaves: (port, bodies that came, connections)."""
    bodies = []

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        bodies.append(body)
        if scope["path"] == "/wait":
            await receive()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]}
        )
        await send({"type": "http.response.body", "body": answer})

    folder = tempfile.mkdtemp()
    connections = Connections(most, limits, Metrics(Path(folder)))
    config = uvicorn.Config(app, http=partial(Protocol, connections), lifespan="off", log_level="error", ws="none")
    server, sock = Server(config), socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([sock],), daemon=True)
    thread.start()
    try:
        yield sock.getsockname()[1], bodies, connections
    finally:
        server.should_exit = server.force_exit = True
        thread.join(10)
        shutil.rmtree(folder)


def connected(port, raw=b""):
    result = socket.create_connection(("127.0.0.1", port), timeout=10)
    result.sendall(raw)
    return result


def answered(connection):
    """All that comes until the server closes the connection."""
    with connection, connection.makefile("rb") as file:
        try:
            return file.read()
        except ConnectionResetError:
            return b"reset"


def test_heads_that_are_too_large():
    """Refused while they come or when they are whole, and never passed on."""
    one, many = b"X-A: " + b"a" * 70_000 + b"\r\n", b"".join(b"X-%d: a\r\n" % k for k in range(200))
    with listening() as (port, bodies, _):
        for raw in (HEAD + one, HEAD + one + b"\r\n", HEAD + many + b"\r\n", b"GET /" + b"a" * 70_000):
            status, error = answered(connected(port, raw)).split(b"\r\n\r\n")
            assert status.startswith(b"HTTP/1.1 431")
            assert "100 headers and 65,536 bytes" in json.loads(error)["error"]
        trailers = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n" + many * 20
        assert answered(connected(port, HEAD + trailers)).startswith((b"HTTP/1.1 431", b"reset"))
        assert not bodies
        fine = (
            HEAD
            + b"X-A: "
            + b"a" * 50_000
            + b"\r\nContent-Length: 200000\r\nConnection: close\r\n\r\n"
            + b"b" * 200_000
        )
        assert answered(connected(port, fine)).startswith(b"HTTP/1.1 200")
        assert bodies == [b"b" * 200_000]


def test_too_many_requests_at_once():
    with listening() as (port, _, _):
        assert b"HTTP/1.1 431" in answered(connected(port, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100))


def test_slow_clients():
    """Silent ones, those that stop within a head or a body, and those that do not read."""
    with listening(answer=b"x" * (64 << 20)) as (port, _, connections):
        deaf = connected(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        silent, head = connected(port), connected(port, HEAD)
        body = connected(port, HEAD + b"Content-Length: 10\r\n\r\nab")
        assert answered(silent) == b""
        assert answered(head).startswith(b"HTTP/1.1 408")
        assert b"a body must arrive at" in answered(body)
        until = time.monotonic() + 10
        while connections.by_address and time.monotonic() < until:
            time.sleep(0.05)
        assert not connections.by_address
        deaf.close()


def test_waiting_connections_give_way():
    """The one that has waited longest is closed for a new one; if all are busy, the new one is refused."""
    for limits, most, status in ((Limits(per_address=4), 100, b"429"), (Limits(per_address=100), 4, b"503")):
        with listening(limits, most) as (port, bodies, _):
            silent = [connected(port) for _ in range(6)]
            assert answered(silent[0]) == answered(silent[1]) == b""
            assert answered(connected(port, HEAD + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")
            busy = [connected(port, b"GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n") for _ in range(4)]
            until = time.monotonic() + 10
            while len(bodies) < 5 and time.monotonic() < until:
                time.sleep(0.01)
            refused = answered(connected(port, HEAD + b"Content-Length: 0\r\n\r\n"))
            assert refused.startswith(b"HTTP/1.1 " + status)
            assert b"retry-after: 1" in refused
            for item in [*silent, *busy]:
                item.close()


async def asked(tmp_path, limits, ask):
    """What ``ask`` makes of a link to a learning process that hangs."""
    door = tmp_path / "door"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(door))
        server.listen()  # nothing is ever read
        link = Link(door, limits)
        await link.open()
        while link._line is None:
            await asyncio.sleep(0.01)
        try:
            await ask(link)
        finally:
            link._line._transport.abort()
            await link.close()
            await asyncio.sleep(0)


def test_a_learning_process_that_hangs(tmp_path):
    """Questions end in time, only some may wait, and those are dropped that no client waits for."""

    async def ask(link):
        first = [asyncio.ensure_future(link.ask("learn", "m")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="2 requests already wait for the learner") as refused:
            await link.ask("learn", "m")
        assert (refused.value.status, refused.value.retry_after) == (503, 1)
        for item in first:
            with pytest.raises(Refused, match=r"not answered in time, .* the same Idempotency-Key") as refused:
                await item
            assert (refused.value.status, refused.value.retry_after) == (503, 1)
        scope = {}
        current_scope.set(scope)
        waits = asyncio.ensure_future(link.ask("learn", "m"))
        await asyncio.sleep(0)
        assert len(link._line) == 1
        scope[DROP]()
        with pytest.raises(ClientDisconnect):
            await waits
        assert len(link._line) == 0

    asyncio.run(asked(tmp_path, Limits(questions=2, answer_seconds=0.2), ask))


def test_unread_requests_to_the_learner_are_limited(tmp_path):
    async def ask(link):
        data, many = b"x" * (16 << 20), []
        for _ in range(6):
            many.append(asyncio.ensure_future(link.ask("learn", "m", data=data)))
            await asyncio.sleep(0.01)
        with pytest.raises(Refused, match="already wait"):
            await link.ask("learn", "m")
        for item in many:
            item.cancel()

    asyncio.run(asked(tmp_path, Limits(), ask))


def test_predictions_while_the_learning_process_hangs(tmp_path):
    """Predictions continue, and health checks and metrics are answered soon."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = WholeServer(tmp_path / "data", tmp_path / "m.ts")
    server.until_ready()
    learner = next(
        pid
        for pid in server.children()
        if any(os.readlink(fd).endswith("learning.lock") for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink())
    )
    os.kill(learner, signal.SIGSTOP)
    try:
        row = b'{"x": {"1": 1.0}, "y": "ham"}'
        raw = b"POST /learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(row) + row
        learns = [connected(server.port, raw) for _ in range(420)]
        began = time.monotonic()
        assert server.post("/predict", {"x": {"1": 1.0}})[0] == 200
        with ThreadPoolExecutor() as pool:
            paths = "/v2/health/ready", "/v2/health/learning", "/metrics"
            (ready, _), (learning, _), (status, metrics) = pool.map(server.get, paths)
        assert (ready, learning, status, b"thinstream_learner_up 0.0" in metrics) == (200, 503, 200, True)
        assert time.monotonic() - began < 8
        assert learns[-1].recv(4096).startswith(b"HTTP/1.1 503")
        for item in learns:
            item.close()
    finally:
        os.kill(learner, signal.SIGCONT)
    assert b"thinstream_learner_up 1.0" in server.get("/metrics")[1]
    assert server.stop() == 0


def test_a_question_that_is_sent_as_the_learning_process_ends():
    """It is refused, and nothing is written to a connection that is closed."""

    class Closed:
        def is_closing(self):
            return True

        def write(self, data):
            raise RuntimeError("the handle is closed")

    async def ask():
        failures, line = [], _Connection()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        line.connection_made(Closed())
        answer = line.ask(LearnerRequest(0, "learn"), 1.0)
        line.connection_lost(None)
        with pytest.raises(Refused, match="is starting"):
            await answer
        await asyncio.sleep(0.01)
        return failures

    assert asyncio.run(ask()) == []
