"""Servers fed by a broker, both killed with SIGKILL under flow: every message is learned exactly once, in order."""

import json
import random
import time

import numpy as np
import pytest

from tests.serve.servers import Server
from tests.streams.brokers.servers import Flow, Redis, libsvm_rows
from thinstream.errors import InvalidParameterError
from thinstream.learners import Classes
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve.feeding import by_model
from thinstream.streams.opening import open_stream

ROWS, KILLS = 3_000, 4


def told(server, name):
    status, raw, _ = server.ask("/metrics")
    assert status == 200
    found = [line for line in raw.decode().splitlines() if line.startswith(f"thinstream_{name}{{")]
    return int(float(found[0].split()[-1])) if found else None


def until(server, name, value, seconds=60.0):
    end = time.monotonic() + seconds
    while told(server, name) != value:
        assert time.monotonic() < end, f"{name} is {told(server, name)}, not {value}; {server.said()}"
        time.sleep(0.05)


@pytest.mark.services
def test_a_server_that_is_fed_and_killed(tmp_path):
    dice = random.Random(3)
    (tmp_path / "redis").mkdir()
    redis = Redis(tmp_path / "redis")
    model = Model.fresh("arow", Classes(-1, 1), grow=True, fit_intercept=True)
    write(tmp_path / "m.ts", model)
    rows = ["1 1:1", *libsvm_rows(ROWS)]
    rows[ROWS // 3] = "no row"
    redis.put(rows[:1])
    source = redis.url(group="served", consumer="a")
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--source", source, "--checkpoint-seconds", "0.2")
    try:
        server.until_ready()
        flow = Flow(redis, rows[1:], per_second=ROWS / 6)
        for kill in range(KILLS):
            time.sleep(dice.uniform(0.3, 1.0))
            if kill == 1:
                redis.restart()
            server.kill()
            server.start()
            server.until_ready()
        flow.join(60)
        messages = [row for row in redis.all() if row != b"no row"]
        until(server, "rows_learned_total", len(messages))
        until(server, "source_lag", 0)
        assert server.stop() == 0
        [group] = redis.client.xinfo_groups("clicks")
        assert (group["pending"], group["lag"]) == (0, 0)
    finally:
        redis.kill()
        if server.process.poll() is None:
            server.kill()
    (tmp_path / "all.svm").write_bytes(b"\n".join(messages) + b"\n")
    for batch in open_stream(tmp_path / "all.svm").batches():
        model.learner.learn(batch)
    final = read(tmp_path / "data" / "m" / "checkpoint.ts").learner
    assert final.t == model.learner.t == len(messages)
    np.testing.assert_array_equal(final.memory.state[: len(model.learner.memory.state)], model.learner.memory.state)
    [letter] = (tmp_path / "data" / "m" / "dead-letters.jsonl").read_text().splitlines()
    assert json.loads(letter)["data"] == "no row"


@pytest.mark.services
def test_a_source_that_goes_away_and_comes_back(tmp_path):
    """It is said once each time, the gauge falls and rises, and nobody says a lag that nobody knows."""
    (tmp_path / "redis").mkdir()
    redis = Redis(tmp_path / "redis")
    write(tmp_path / "m.ts", Model.fresh("arow", Classes(-1, 1), grow=True, fit_intercept=True))
    redis.put(["1 1:1", "-1 2:1"])
    server = Server(tmp_path / "data", tmp_path / "m.ts", "--source", redis.url())
    try:
        until(server, "source_up", 1)
        until(server, "source_lag", 0)
        for times in (1, 2):
            redis.kill()
            until(server, "source_up", 0)
            assert told(server, "source_lag") is None
            time.sleep(0.5)
            assert server.said().count("the server cannot be reached") == times
            redis.start()
            until(server, "source_up", 1)
            until(server, "source_lag", 0)
            assert server.said().count("can be read again") == times
        redis.put(["1 1:1"])
        until(server, "rows_learned_total", 3)
    finally:
        redis.kill()
        server.kill()


def test_which_model_a_source_feeds():
    pytest.importorskip("redis")
    assert by_model(["redis://localhost/s?field=a=b"], ["m"]) == {"m": "redis://localhost/s?field=a=b"}
    assert by_model(["b=redis://localhost/s"], ["a", "b"]) == {"b": "redis://localhost/s"}


@pytest.mark.parametrize(
    ("sources", "names", "message"),
    [
        (["redis://:secret@h/s"], ["a", "b"], "--source says which model it feeds, NAME=redis://h/s: there are a, b"),
        (["c=redis://h/s"], ["a", "b"], "--source feeds 'c', and there are a, b"),
        (["a=redis://h/s", "a=redis://h/t"], ["a"], "--source: one source feeds a model, got two for 'a'"),
        (["ftp://h/s"], ["a"], "sources begin with 'redis://', .*, got 'ftp://h/s'"),
    ],
)
def test_sources_that_are_refused(sources, names, message):
    pytest.importorskip("redis")
    with pytest.raises(InvalidParameterError, match=message) as raised:
        by_model(sources, names)
    assert "secret" not in str(raised.value)
