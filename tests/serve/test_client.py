"""The client: what it sends again is learned once."""

import asyncio
import http.server
import json
import threading

import pytest

from thinstream.client import AsyncClient, Client, ServerError
from thinstream.errors import InvalidParameterError

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
        found = await asyncio.gather(*(client.learn(ROW, "ham") for _ in range(12)), client.predict(ROW))
        await client.label("nobody", "ham")
        await client.close()
        return found

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


def test_it_sends_again_under_the_same_name():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Flaky)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Client(f"http://127.0.0.1:{server.server_port}", patience=30) as client:
        assert client.learn(ROW, 1) == {"rows": 1}
        client.learn(ROW, 1)
    server.shutdown()
    server.server_close()
    assert len(Flaky.seen) == 6
    assert len({*Flaky.seen}) == 2


def test_nobody_is_there():
    with (
        pytest.raises(ServerError, match=r"127\.0\.0\.1:\d+ cannot be reached"),
        Client("http://127.0.0.1:9", patience=0) as c,
    ):
        c.predict(ROW)
    with pytest.raises(InvalidParameterError, match="url must be http://HOST:PORT"):
        Client("127.0.0.1:8000")
