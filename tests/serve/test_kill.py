"""Processes killed with SIGKILL under load: what was acknowledged is learned exactly once, with the bits of one run."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress

import numpy as np
import pytest

from tests.serve.conftest import made
from tests.serve.servers import Server
from thinstream.batch import Batch
from thinstream.data.opening import open_stream
from thinstream.models.file import read
from thinstream.serve.client import Client

pytestmark = pytest.mark.skipif(not os.path.exists("/proc"), reason="needs /proc")


class Load:
    """Clients that teach rows, each of which has a number of its own as the value of its first feature."""

    def __init__(self, url, clients):
        self.url, self.acknowledged, self._stop = url, list[int](), threading.Event()
        self.failures = list[BaseException]()
        self._threads = [threading.Thread(target=self._teach, args=(k,)) for k in range(clients)]
        [thread.start() for thread in self._threads]

    def _teach(self, client):
        rng = np.random.default_rng(client)
        number = client * 1_000_000
        try:
            with Client(self.url, "m", patience=120) as asked:
                while not self._stop.is_set():
                    own = [number + k + 1 for k in range(int(rng.integers(1, 5)))]
                    number = own[-1]
                    rows = [{"1": float(k), **{str(j): float(x) for j, x in _features(rng)}} for k in own]
                    if rng.random() < 0.3:  # late: predicted now, labelled after it
                        asked.predict(rows, [f"id {k}" for k in own])
                        asked.label([f"id {k}" for k in own], _labels(rows))
                    else:
                        asked.learn(rows, _labels(rows))
                    self.acknowledged += own
        except BaseException as error:
            self.failures.append(error)

    def until_acknowledged(self, seconds=120.0):
        many, until = len(self.acknowledged), time.monotonic() + seconds
        while len(self.acknowledged) == many and not self.failures and time.monotonic() < until:
            time.sleep(0.05)
        assert len(self.acknowledged) > many, self.failures

    def stop(self):
        self._stop.set()
        [thread.join() for thread in self._threads]
        assert not self.failures, self.failures


def _features(rng):
    return zip(rng.choice(np.arange(2, 40), 5, replace=False).tolist(), rng.normal(size=5).round(2))


def _labels(rows):
    return ["spam" if sum(x for j, x in row.items() if int(j) > 20) > 0 else "ham" for row in rows]


def kill_some(server, rng):
    """The learning process, a predicting one, the one that starts them, or all; then the server is started again."""
    what = rng.choice(["one", "one", "head", "all"])
    if what != "one":
        server.kill() if what == "all" else server.behead()
        server.start()
        return
    with suppress(ProcessLookupError, IndexError):
        os.kill(rng.choice(server.children()), signal.SIGKILL)


def learned(folder):
    """All rows that were learned, in order: of the archive, which has all after the last checkpoint."""
    batches = [b for path in sorted((folder / "archive").glob("*.cache")) for b in open_stream(path).batches()]
    return Batch.concatenate([Batch.of(b.indptr, b.indices, b.values, b.n_features, y=b.y) for b in batches])


def run(tmp_path, kills, seed):
    rng = random.Random(seed)
    model = made(tmp_path / "m.ts", "ham", "spam")
    arguments = ["--workers", "2", "--checkpoint-seconds", "0.3", "--archive"]
    server = Server(tmp_path / "data", tmp_path / "m.ts", *arguments)
    server.until_ready()
    load = Load(server.url, 4)
    for k in range(kills):
        time.sleep(rng.uniform(0.1, 1.5))
        if k % 3 == 2:  # killed twice, maybe before it had begun, it still comes back
            load.until_acknowledged()
        kill_some(server, rng)
    time.sleep(0.5)
    load.stop()
    server.until_ready()
    assert server.stop() == 0
    assert "Traceback" not in (tmp_path / "log.txt").read_text()
    assert not [*tmp_path.rglob("*.tmp")]
    rows = learned(tmp_path / "data" / "m")
    numbers = rows.values[rows.indptr[:-1]].astype(int).tolist()
    times = Counter(numbers)
    assert max(times.values()) == 1
    assert {*load.acknowledged} <= {*numbers}
    assert len(load.acknowledged) > kills
    final = read(tmp_path / "data" / "m" / "checkpoint.ts").learner
    model.learner.learn(rows)
    assert final.t == model.learner.t
    state = model.learner.outputs.one.memory.state
    np.testing.assert_array_equal(final.outputs.one.memory.state[: len(state)], state)
    return len(load.acknowledged)


def test_killed_a_few_times(tmp_path):
    run(tmp_path, 3, seed=1)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path):
    run(tmp_path, 50, seed=int.from_bytes(os.urandom(4), "little"))
