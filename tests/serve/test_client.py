"""The client: what it sends again is learned once."""

import asyncio
import http.server
import json
import socket
import threading
import time

import pytest

from thinstream.errors import InvalidParameterError
from thinstream.serve.client import AsyncClient, Client, ServerError

ROW = {"1": 0.5, "3": -1.0}


def test_it_asks_a_server(server):
    with Client(server.url, "two") as client:
        assert client.predict(ROW, "c1")["label"] in ("ham", "spam")
        assert client.label("c1", "ham", 2.0)["learned"] == 1
        first = client.learn([ROW, ROW], ["ham", "spam"], [1, 0.5])
        assert first["rows"] == 2
        assert client.learn(ROW, "ham", request="mine")["entry"] == first["entry"] + 1
        assert client.learn(ROW, "ham", request="mine")["again"]
        assert client.learn_all(((ROW, "ham") for _ in range(25)), batch=10) == 25
        assert client.status()["name"] == "two"
        with pytest.raises(ServerError, match=r"labels must be 'ham' or 'spam', got 'eggs' at row 0 \(422\)"):
            client.learn(ROW, "eggs")


def test_many_at_a_time(server):
    async def ask():
        client = AsyncClient(server.url, "two", connections=3)
        result = await asyncio.gather(*(client.learn(ROW, "ham") for _ in range(12)), client.predict(ROW))
        await client.label("nobody", "ham")
        await client.close()
        return result

    *learned, predicted = asyncio.run(ask())
    assert len({answer["entry"] for answer in learned}) == 12
    assert predicted["model"] == "two"


class Flaky(http.server.BaseHTTPRequestHandler):
    """Learns, and answers one time in three: before that it breaks off, and says 503."""

    seen, calls = [], 0

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Flaky.seen.append(body["request"])
        Flaky.calls += 1
        if Flaky.calls % 3 == 1:
            self.close_connection = True
            return
        code = 503 if Flaky.calls % 3 == 2 else 200
        raw = json.dumps({"rows": 1} if code == 200 else {"error": "later"}).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *arguments):
        pass


def test_retries_have_the_same_key():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Client(f"http://127.0.0.1:{server.server_port}", patience=30) as client:
        assert client.learn(ROW, 1) == {"rows": 1}
        client.learn(ROW, 1)
    server.shutdown()
    server.server_close()
    assert len(Flaky.seen) == 6
    assert len({*Flaky.seen}) == 2


def test_no_server_runs():
    with (
        pytest.raises(ServerError, match=r"127\.0\.0\.1:\d+ cannot be reached"),
        Client("http://127.0.0.1:9", patience=0) as c,
    ):
        c.predict(ROW)
    with pytest.raises(InvalidParameterError, match="url must be http://HOST:PORT"):
        Client("127.0.0.1:8000")


def test_threads_share_a_client(server):
    """32 threads make 1,600 calls without an error, on a pool of connections that stays small."""
    errors, entries = [], []
    client = Client(server.url, "two", connections=4)

    def ask():
        try:
            for k in range(50):
                if k % 10:
                    assert client.predict(ROW)["model"] == "two"
                else:
                    entries.append(client.learn(ROW, "ham")["entry"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({*entries}) == 32 * 5
    assert 1 <= len(client._idle) <= 4
    client.close()
    assert not client._idle


def test_an_idle_connection_that_the_server_closed_is_replaced():
    """At once, without waiting for a repetition; and each attempt is limited in time, as are all together."""
    closed, silent = threading.Event(), threading.Event()

    def serve(listening):
        for _ in range(2):
            connection, _ = listening.accept()
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            connection.close()
            closed.set()
        connection, _ = listening.accept()
        silent.wait(30)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}", patience=0.5, timeout=0.2)
        assert client.status() == {}
        assert closed.wait(10)
        assert client.status() == {}  # on a second connection
        began = time.monotonic()
        with pytest.raises(ServerError, match="cannot be reached"):
            client.status()
        assert time.monotonic() - began < 5
        silent.set()
        thread.join()
        client.close()
