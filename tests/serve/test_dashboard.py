"""The dashboard of a server: its page, and events that say what /metrics says."""

import http.client
import json
import re
from contextlib import closing

import pytest

from tests.serve.conftest import made
from tests.serve.servers import Server, tokens_in


def events(server, many, **headers):
    """The first events that a page hears."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/events", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            return answer.status, json.loads(answer.read())
        assert answer.getheader("Content-Type").startswith("text/event-stream")
        result = []
        while len(result) < many:
            kind = answer.readline().decode().removeprefix("event: ").strip()
            result.append((kind, json.loads(answer.readline().decode().removeprefix("data: "))))
            assert answer.readline() == b"\n"
        return result


def metrics(server):
    """Numbers of /metrics, by name and labels."""
    lines = server.get("/metrics")[1].decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_the_page_is_there_with_a_strict_policy(server):
    status, raw, headers = server.ask("/")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")
    for path in re.findall(r'(?:src|href)="(/[^"]+)"', raw.decode()):
        assert server.ask(path)[0] == 200, path


def test_events_agree_with_metrics(server):
    server.post("/learn", {"model": "two", "x": [{"1": 1.0}, {"2": 1.0}], "y": ["ham", "spam"]})
    server.post("/predict", {"model": "two", "x": {"1": 1.0}, "id": "seen"})
    result = events(server, 4)
    assert [kind for kind, _ in result] == ["full", "more", "more", "more"]
    told, known = result[-1][1], metrics(server)
    status = told["models"]["two"]["status"]
    assert status["rows"] == known['thinstream_rows_learned_total{model="two"}']
    assert status["progressive"]["error"] == known['thinstream_progressive_error{model="two"}']
    assert status["nnz"] == known['thinstream_weights{model="two"}']
    assert status["waiting"] == known['thinstream_rows_waiting{model="two"}'] >= 1
    assert status["oldest"] >= 0
    answered = known['thinstream_requests_total{path="/learn",status="200"}']
    assert told["requests"]["/learn"]["statuses"]["200"] == answered
    assert told["requests"]["/learn"]["within"]["+Inf"] >= answered
    assert result[0][1]["models"]["two"]["samples"]
    assert result[0][1]["models"]["two"]["algorithm"] == "AROW"


def test_samples_are_sent_once(server):
    server.post("/learn", {"model": "three", "x": {"1": 1.0}, "y": 2})
    result = events(server, 3)
    numbers = [sample["number"] for _, told in result[1:] for sample in told["models"]["three"]["samples"]]
    assert len(numbers) == len({*numbers})


def test_events_need_a_token_where_others_do(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    tokens_in(tmp_path, "read a-token-of-somebody\nlearn another-token-of-somebody\n")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--tokens", tmp_path / "tokens")
    try:
        assert server.ask("/")[0] == 200  # the page, which asks for the token
        assert events(server, 1)[0] == 401
        assert events(server, 1, Authorization="Bearer another-token-of-somebody")[0] == 403
        ((kind, told),) = events(server, 1, Authorization="Bearer a-token-of-somebody")
        assert (kind, [*told["models"]]) == ("full", ["m"])
    finally:
        server.kill()


def test_a_page_that_listens_does_not_hold_up_the_end(tmp_path):
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts")
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        answer.readline()
        assert server.stop() == 0
        rest = answer.read()
    assert rest.endswith(b"\n\n")
    assert "timeout graceful shutdown exceeded" not in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize("path", ["/dashboard/../app.py", "/dashboard/nothing.js"])
def test_nothing_else_is_served(server, path):
    assert server.ask(path)[0] == 404
