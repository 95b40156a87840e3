"""Processes of a server that end before it does, or after."""

import os
import signal
import time

from tests.serve.conftest import made
from tests.serve.servers import Server
from thinstream.files import locked
from thinstream.serve import Settings
from thinstream.serve.folders import ServerPaths
from thinstream.serve.served_models import register
from thinstream.serve.supervisor import ChildProcess


def test_a_learner_without_a_server_ends(tmp_path):
    """Started while another one still ends, and its server killed meanwhile: it does not begin to learn."""
    made(tmp_path / "m.ts", "ham", "spam")
    paths = ServerPaths(tmp_path / "data")
    with paths.held():
        names = register(paths, [tmp_path / "m.ts"])
        with locked(paths.learning):
            orphan = ChildProcess.learner(paths, Settings(), names)
            orphan._process.stdin.close()
            time.sleep(1.0)
            assert orphan.code is None  # it waits
        assert orphan._process.wait(60) == 0
        assert not (tmp_path / "data" / "m" / "journal.sqlite").exists()
        learner = ChildProcess.learner(paths, Settings(), names)
        until = time.monotonic() + 60
        while not learner.is_open(paths.socket) and time.monotonic() < until:
            time.sleep(0.02)
        learner.stop()
        assert (tmp_path / "data" / "m" / "journal.sqlite").exists()
        paths.clear()


def test_processes_that_end_are_restarted(tmp_path):
    """In the log, with what ended them, and to Prometheus; they are there again."""
    made(tmp_path / "m.ts", "ham", "spam")
    server = Server(tmp_path / "data", tmp_path / "m.ts")
    try:
        server.until_ready()
        learner = server.children()[0]
        assert b'thinstream_process_restarts_total{process="learner"} 0.0' in server.get("/metrics")[1]
        os.kill(learner, signal.SIGKILL)
        until = time.monotonic() + 60
        while (
            f"the learner was killed by SIGKILL; restarting it process=learner pid={learner}" not in server.log_text()
        ):
            assert time.monotonic() < until
            time.sleep(0.05)
        while b'thinstream_process_restarts_total{process="learner"} 1.0' not in server.get("/metrics")[1]:
            assert time.monotonic() < until
            time.sleep(0.05)
        server.until_ready()
        assert b'thinstream_process_restarts_total{process="predictor"} 0.0' in server.get("/metrics")[1]
        assert server.stop() == 0
        assert "the predictor" not in (tmp_path / "log.txt").read_text()
    finally:
        if server.process.poll() is None:
            server.kill()
