"""Learners that follow a broker, both killed with SIGKILL at any moment: every row is learned exactly once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.data.brokers.servers import Flow, Kafka, Nats, Redis, libsvm_rows
from thinstream.models.file import read

pytestmark = [
    pytest.mark.services,
    # whoever sends rows while a server is away leaves sockets behind
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]

ROWS, POISON = 8_000, 40
#: Kills of the learner and restarts of the server; Kafka's cluster is a part of the test, which cannot restart it.
KINDS = {"redis": (Redis, 10, 2), "redis-group": (Redis, 10, 2), "nats": (Nats, 20, 4), "kafka": (Kafka, 5, 0)}
#: The number of kills with each broker, if others are asked for.
KILLS = int(os.environ.get("THINSTREAM_KILLS", "0"))
SOURCE = str(Path(__file__).parents[2] / "src")


def train(*arguments):
    command = [sys.executable, "-m", "thinstream", "train", *map(str, arguments), "-a", "arow", "--classes", "-1,1"]
    return subprocess.Popen(
        [*command, "--quiet"], env={**os.environ, "PYTHONPATH": SOURCE}, stderr=subprocess.PIPE, text=True
    )


def ended(process, code=0):
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    return errors


def written_at(path):
    """When it was written."""
    return path.stat().st_mtime_ns if path.exists() else None


def with_poison(rows, dice):
    found = list(rows)
    for _ in range(POISON):
        found.insert(dice.randrange(len(found)), dice.choice(["1 x:y", "", "no row", "1 3:1e99"]))
    return found


def killed_again_and_again(server, url, tmp_path, dice, kills, restarts):
    """Kills of the learner, and restarts of the server, while rows flow; the model in the end."""
    model, checkpoint = tmp_path / "m.ts", tmp_path / "m.ts.checkpoint"
    options = [url, "-m", model, "--resume", "--checkpoint-every", 47]
    rows = with_poison(libsvm_rows(ROWS), dice)
    flow = Flow(server, rows, per_second=1000, allowed=0)
    restarted = {kills * (k + 1) // (restarts + 1) for k in range(restarts)}
    for kill in range(kills):
        before, process = written_at(checkpoint), train(*options)
        flow.allowed = len(rows) * (kill + 1) // kills  # there is something to learn in each life
        began = time.monotonic()
        while written_at(checkpoint) == before:
            time.sleep(0.002)
            assert process.poll() is None, ended(process)
            assert time.monotonic() - began < 60
        if kill in restarted:
            server.restart()
        time.sleep(dice.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        ended(process, -signal.SIGKILL)
    flow.join(60)
    ended(train(*options, "--idle-seconds", 1.5))
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_kills(kind, tmp_path):
    start, kills, restarts = KINDS[kind]
    kills = KILLS or kills
    dice = random.Random(kind)
    (tmp_path / "server").mkdir()
    server = start(tmp_path / "server")
    try:
        server.put(["1 1:1", "-1 2:1"])
        url = server.url(group="learners", consumer="a") if kind == "redis-group" else server.url()
        model = killed_again_and_again(server, url, tmp_path, dice, kills, restarts)
        messages = server.all()
        if kind == "redis-group":
            [group] = server.client.xinfo_groups("clicks")
            assert group["pending"] == 0
            assert group["lag"] == 0
    finally:
        server.kill()
    (tmp_path / "all.svm").write_bytes(b"\n".join(messages) + b"\n")
    serial = tmp_path / "serial.ts"
    ended(train(tmp_path / "all.svm", "-m", serial, "--on-error", "skip"))
    assert read(model).learner.t == read(serial).learner.t >= ROWS
    assert model.read_bytes() == serial.read_bytes()
    letters = (tmp_path / "m.ts.dead-letters").read_text().splitlines()
    places = [line.split('"')[3] for line in letters]
    assert len(places) == len(set(places)) >= POISON
