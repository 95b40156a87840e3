"""Brokers to read from: servers of Redis and NATS, on free ports of this machine, that can be killed and come back.

Of Kafka there is the cluster that its client brings along for tests.
"""

import asyncio
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress

import pytest

SECONDS = 20.0


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """A process on a port, whose data are in a folder."""

    name = client_package = ""

    def __init__(self, folder, *options):
        self.options = [*map(str, options)]
        self.program = shutil.which(self.name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
        if self.program is None:
            pytest.skip(f"{self.name} is not installed")
        pytest.importorskip(self.client_package, reason=f"Python's client of {self.name} is not installed")
        self.folder, self.port = folder, free_port()
        self.process = None
        self.start()

    def command(self):
        raise NotImplementedError

    def start(self):
        with open(self.folder / "log.txt", "a") as log:
            self.process = subprocess.Popen([self.program, *self.command(), *self.options], stdout=log, stderr=log)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1.0):
                return
            time.sleep(0.02)
        raise AssertionError((self.folder / "log.txt").read_text())

    def kill(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.kill()
        self.start()


class Redis(Server):
    name, client_package = "redis-server", "redis"

    def command(self):
        where = ["--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder]
        return [*map(str, where), "--save", "", "--appendonly", "yes"]

    @property
    def client(self):
        import redis

        return redis.Redis(port=self.port, protocol=2)

    def url(self, stream="clicks", **settings):
        return with_settings(f"redis://127.0.0.1:{self.port}/{stream}", settings)

    def put(self, rows, stream="clicks"):
        pipe = self.client.pipeline(transaction=False)
        for row in rows:
            pipe.xadd(stream, {"row": row})
        pipe.execute()

    def all(self, stream="clicks"):
        return [fields[b"row"] for _, fields in self.client.xrange(stream)]


class Nats(Server):
    name, client_package = "nats-server", "nats"

    def command(self):
        return ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]

    def url(self, stream="clicks", **settings):
        return with_settings(f"nats://127.0.0.1:{self.port}/{stream}", settings)

    def ask(self, work):
        """What a function of a JetStream context answers."""
        import nats

        async def asked():
            connection = await nats.connect(
                f"nats://127.0.0.1:{self.port}", connect_timeout=2, allow_reconnect=False, error_cb=_quiet
            )
            try:
                return await work(connection.jetstream(timeout=5))
            finally:
                await connection.close()

        return asyncio.run(asyncio.wait_for(asked(), 30))

    def put(self, rows, stream="clicks"):
        async def put(server):
            if stream not in [each.config.name for each in await server.streams_info()]:
                await server.add_stream(name=stream, subjects=[f"{stream}.*"])
            for row in rows:
                await server.publish(f"{stream}.new", row if isinstance(row, bytes) else row.encode())

        self.ask(put)

    def all(self, stream="clicks"):
        async def all_of_it(server):
            last = (await server.stream_info(stream)).state.last_seq
            return [(await server.get_msg(stream, seq)).data or b"" for seq in range(1, last + 1)]

        return self.ask(all_of_it)


async def _quiet(error):
    """Errors are told by what fails."""


def with_settings(url, settings):
    return url + ("?" + "&".join(f"{name}={value}" for name, value in settings.items()) if settings else "")


class Kafka:
    """The cluster of Kafka's client for tests, in this process; a topic comes with its first row."""

    def __init__(self, folder=None):
        kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self.kafka = kafka
        self.client = kafka.Producer({"bootstrap.servers": "", "test.mock.num.brokers": 1, "log_level": 0})
        [broker] = self.client.list_topics(timeout=SECONDS).brokers.values()
        self.place = f"{broker.host}:{broker.port}"

    def url(self, stream="clicks", **settings):
        return with_settings(f"kafka://{self.place}/{stream}", settings)

    def put(self, rows, stream="clicks", partitions=1):
        for k, row in enumerate(rows):
            self.client.produce(stream, row, partition=k % partitions)
        assert self.client.flush(SECONDS) == 0

    def all(self, stream="clicks"):
        """Messages of all partitions, one after the other."""
        reader = self.kafka.Consumer({"bootstrap.servers": self.place, "group.id": "all", "log_level": 0})
        parts = reader.list_topics(stream, timeout=SECONDS).topics[stream].partitions
        where = [self.kafka.TopicPartition(stream, part, 0) for part in parts]
        wanted = sum(reader.get_watermark_offsets(each, timeout=SECONDS)[1] for each in where)
        reader.assign(where)
        found = []
        while len(found) < wanted:
            found += reader.consume(1000, 1.0)
        reader.close()
        return [each.value() for each in sorted(found, key=lambda each: (each.partition(), each.offset()))]

    def kill(self):
        """It ends with this process."""


class Flow(threading.Thread):
    """Rows that come to a server bit by bit, whatever happens to it; some more than once if it fails meanwhile.

    No more come than are ``allowed``.
    """

    def __init__(self, server, rows, per_second, allowed=None):
        super().__init__(daemon=True)
        self.server, self.rows, self.per_second = server, rows, per_second
        self.allowed = len(rows) if allowed is None else allowed
        self.start()

    def run(self):
        sent, last, due = 0, time.monotonic(), 0.0
        while sent < len(self.rows):
            now = time.monotonic()
            due, last = min(due + (now - last) * self.per_second, self.allowed), now
            if int(due) > sent:
                with suppress(Exception):  # it is away: the same again
                    self.server.put(self.rows[sent : int(due)])
                    sent = int(due)
            time.sleep(0.02)


def libsvm_rows(many, seed=5, features=200):
    dice = random.Random(seed)
    weights = [dice.gauss(0, 1) for _ in range(features)]
    rows = []
    for _ in range(many):
        chosen = sorted(dice.sample(range(features), 4))
        values = [round(dice.gauss(0, 1), 2) or 0.5 for _ in chosen]
        label = 1 if sum(weights[j] * v for j, v in zip(chosen, values)) > 0 else -1
        rows.append(f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in zip(chosen, values)))
    return rows
