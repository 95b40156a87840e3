"""Servers fed by a broker, both killed with SIGKILL under flow: every message is learned exactly once, in order."""

import json
import os
import random
import threading
import time

import numpy as np
import pytest

from tests.data.brokers.servers import Flow, Redis, libsvm_rows
from tests.data.brokers.test_stream import Listed
from tests.serve.servers import Server
from thinstream.data.brokers import stream as opening
from thinstream.data.labels import Classes
from thinstream.data.opening import open_stream
from thinstream.errors import InvalidParameterError
from thinstream.models.file import read, write
from thinstream.models.model import Model
from thinstream.serve import sources as feeding
from thinstream.serve.journal import Committer, Journal, Reader
from thinstream.serve.sources import Feed, by_model

ROWS, KILLS = 3_000, int(os.environ.get("THINSTREAM_KILLS", "4"))


def told(server, name):
    status, raw, _ = server.ask("/metrics")
    assert status == 200
    result = [line for line in raw.decode().splitlines() if line.startswith(f"thinstream_{name}{{")]
    return int(float(result[0].split()[-1])) if result else None


def until(server, name, value, seconds=60.0):
    end = time.monotonic() + seconds
    while told(server, name) != value:
        assert time.monotonic() < end, f"{name} is {told(server, name)}, not {value}; {server.log_text()}"
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
        flow = Flow(redis, rows[1:], per_second=ROWS / (1.5 * KILLS))
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
    np.testing.assert_array_equal(
        final.outputs.one.memory.state[: len(model.learner.outputs.one.memory.state)],
        model.learner.outputs.one.memory.state,
    )
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
            assert server.log_text().count("the server cannot be reached") == times
            redis.start()
            until(server, "source_up", 1)
            until(server, "source_lag", 0)
            assert server.log_text().count("can be read again") == times
        redis.put(["1 1:1"])
        until(server, "rows_learned_total", 3)
    finally:
        redis.kill()
        server.kill()


def test_which_model_a_source_feeds():
    pytest.importorskip("redis")
    assert by_model(["redis://localhost/s?field=a=b"], ["m"]) == {"m": ("redis://localhost/s?field=a=b", "stop")}
    assert by_model(["b=redis://localhost/s"], ["a", "b"], "continue") == {"b": ("redis://localhost/s", "continue")}


@pytest.mark.parametrize(
    ("sources", "names", "message"),
    [
        (["redis://:secret@h/s"], ["a", "b"], "--source must name its model, NAME=redis://h/s; models: a, b"),
        (["c=redis://h/s"], ["a", "b"], "--source names the unknown model 'c'; models: a, b"),
        (["a=redis://h/s", "a=redis://h/t"], ["a"], "--source: a model can have only one source, got two for 'a'"),
        (["ftp://h/s"], ["a"], "the address of a message stream must begin with 'redis://', .*, got 'ftp://h/s'"),
    ],
)
def test_sources_that_are_refused(sources, names, message):
    pytest.importorskip("redis")
    with pytest.raises(InvalidParameterError, match=message) as raised:
        by_model(sources, names)
    assert "secret" not in str(raised.value)


class Fed:
    """A feed whose broker is a list, with its journal in a folder."""

    def __init__(self, monkeypatch, folder, broker, on_gap="stop"):
        monkeypatch.setattr(opening, "open_broker", lambda address: broker)
        monkeypatch.setattr(feeding, "FIRST", 0.01)
        monkeypatch.setattr(feeding, "MOST", 0.02)
        model = Model.fresh("arow", Classes(-1, 1), grow=True, fit_intercept=True)
        self.folder, self.committer = folder, Committer(Journal(folder / "journal.sqlite"))
        self.feed = Feed(("redis://localhost/s", on_gap), model, self.committer, folder, lambda: 0)

    def until(self, seconds=10.0, **wanted):
        """Wait for a status, which is returned."""
        end = time.monotonic() + seconds
        while not wanted.items() <= self.feed.status().items():
            assert time.monotonic() < end, self.feed.status()
            time.sleep(0.005)
        return self.feed.status()

    def written(self):
        reader = Reader(self.folder / "journal.sqlite")
        entries = reader.after(0, 10**9)
        reader.close()
        return len(entries)

    def letters(self):
        return [json.loads(line) for line in (self.folder / "dead-letters.jsonl").read_text().splitlines()]

    def close(self):
        self.feed.close()
        self.committer.close()


def test_any_number_of_bad_messages(monkeypatch, tmp_path, caplog):
    """A server makes progress, and shows what is wrong."""
    messages = [b"1 1:1"] * 5 + [b"oops"] * 5000
    fed = Fed(monkeypatch, tmp_path, broker := Listed([messages], [3000] * 9))
    status = fed.until(rows=5, dead_letters=5000)
    assert (status["up"], status["lost"]) == (True, 0)
    assert "none of the last 5,000 messages could be read. They are in dead-letters.jsonl. " in status["trouble"]
    assert caplog.text.count("messages could be read. They are in dead-letters.jsonl") == 1
    assert len(fed.letters()) == 5000
    broker.parts[0].extend([b"-1 2:1"] * 5)
    assert fed.until(rows=10)["trouble"] is None
    fed.close()
    assert broker.acknowledged[-1] == (5010,)
    again = Fed(monkeypatch, tmp_path, broker)  # it continues after them, and knows how many there were
    again.until(up=True, dead_letters=5000, rows=0)
    again.close()


def test_a_feed_survives_any_failure(monkeypatch, tmp_path, caplog):
    """It is opened again, that is logged, no message is lost, and no count falls."""
    messages = [f"{1 if k % 2 else -1} 1:{k}".encode() if k % 4 else b"oops" for k in range(40)]
    broker = Listed([messages], [3] * 100)
    read, counts, calls = broker.read, [], iter(range(1000))

    def fails(most, seconds):
        counts.append(fed.feed.status()["dead_letters"])
        if (call := next(calls)) % 3 == 2:
            read(most, seconds)  # what it returns is lost on the way
            raise (RecursionError("deep"), KeyError("x"), MemoryError())[call % 9 // 3]
        return read(most, seconds)

    monkeypatch.setattr(broker, "read", lambda most, seconds: [])
    fed = Fed(monkeypatch, tmp_path, broker)
    monkeypatch.setattr(broker, "read", fails)
    fed.until(rows=30, dead_letters=10)
    fed.close()
    assert counts == sorted(counts)
    assert [letter["place"] for letter in fed.letters()] == [f"0:{k}" for k in range(0, 40, 4)]
    text_ = caplog.text
    assert "redis://localhost/s: RecursionError: deep; trying again" in text_
    assert "redis://localhost/s: KeyError: 'x'; trying again" in text_
    assert "redis://localhost/s can be read again" in text_


@pytest.mark.parametrize("on_gap", ["stop", "continue"])
def test_a_gap_in_a_source(monkeypatch, tmp_path, caplog, on_gap):
    broker, lock = Listed([[b"1 1:1"] * 4]), threading.Lock()
    read = broker.read

    def locked(most, seconds):
        time.sleep(0.001)
        with lock:
            return read(most, seconds)

    monkeypatch.setattr(broker, "read", locked)
    fed = Fed(monkeypatch, tmp_path, broker, on_gap)
    fed.until(rows=4)
    with lock:
        broker.trimmed = 7
        broker.parts[0] += [b"-1 2:1"] * 6
    if on_gap == "stop":
        status = fed.until(up=False)
        assert "has removed 3 messages" in status["trouble"]
        assert "--on-gap continue" in status["trouble"]
        time.sleep(0.1)
        assert fed.feed.status()["rows"] == 4  # it stays so
    else:
        assert fed.until(rows=7)["lost"] == 3
        assert caplog.text.endswith("; continuing (3 messages are missing so far)\n")
    fed.close()
    again = Fed(monkeypatch, tmp_path, broker, "continue")
    again.until(lost=3, up=True, rows=3 if on_gap == "stop" else 0)
    again.close()
    assert again.written() == 2
