"""Processes of a server that end before it does, or after."""

import os
import signal
import time

from tests.serve.conftest import made
from tests.serve.servers import Server
from thinstream.locks import locked
from thinstream.serve.children import Child
from thinstream.serve.places import Places
from thinstream.serve.registering import register
from thinstream.serve.settings import Settings


def test_a_learning_process_that_nobody_waits_for_gives_way(tmp_path):
    """Started while another one still ends, and its server killed meanwhile: it does not begin to learn."""
    made(tmp_path / "m.ts", "ham", "spam")
    places = Places(tmp_path / "data")
    with places.held():
        names = register(places, [tmp_path / "m.ts"])
        with locked(places.learning):
            orphan = Child.learner(places, Settings(), names)
            orphan._process.stdin.close()
            time.sleep(1.0)
            assert orphan.code is None  # it waits
        assert orphan._process.wait(60) == 0
        assert not (tmp_path / "data" / "m" / "journal.sqlite").exists()
        learner = Child.learner(places, Settings(), names)
        until = time.monotonic() + 60
        while not learner.is_open(places.door) and time.monotonic() < until:
            time.sleep(0.02)
        learner.stop()
        assert (tmp_path / "data" / "m" / "journal.sqlite").exists()
        places.clear()


def test_processes_that_end_are_told(tmp_path):
    """In the log, with what ended them, and to Prometheus; they are there again."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts")
    try:
        server.until_ready()
        learner = server.children()[0]
        assert b'thinstream_process_ends_total{kind="learning"} 0.0' in server.get("/metrics")[1]
        os.kill(learner, signal.SIGKILL)
        until = time.monotonic() + 60
        while f"the learning process {learner} was ended by SIGKILL" not in server.said():
            assert time.monotonic() < until
            time.sleep(0.05)
        while b'thinstream_process_ends_total{kind="learning"} 1.0' not in server.get("/metrics")[1]:
            assert time.monotonic() < until
            time.sleep(0.05)
        server.until_ready()
        assert b'thinstream_process_ends_total{kind="predicting"} 0.0' in server.get("/metrics")[1]
        assert server.stop() == 0
        assert "predicting process" not in (tmp_path / "log.txt").read_text()
    finally:
        if server.process.poll() is None:
            server.kill()
