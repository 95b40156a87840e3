"""Requests to a server that nobody in his senses would send: ``python -m tests.fuzz.serving --requests 100000``.

Guided by coverage of the server's code (atheris), in this process, without sockets; the learning process is a real one.
Each is to be answered with 2xx or 4xx in words, without a path or a traceback; memory is not to grow, and the models
have learned what was acknowledged, and nothing else.
"""

import argparse
import asyncio
import json
import os
import resource
import sqlite3
import struct
import sys
import tempfile
from pathlib import Path

import msgspec
import numpy as np

from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.models.file import read, write
from thinstream.models.model import Model

#: Bytes that memory may grow by after the first tenth of all requests.
GROWTH = 48 << 20
TARGETS = [
    ("POST", "/predict"),
    ("POST", "/learn"),
    ("POST", "/label"),
    ("POST", "/v2/models/two/infer"),
    ("POST", "/v2/models/three/infer"),
    ("POST", "/v2/models/named/infer"),
    ("POST", "/v2/models/two/versions/0/infer"),
    ("POST", "/v2/repository/index"),
    ("POST", "/v2/repository/models/two/load"),
    ("POST", "/v2/repository/models/none/unload"),
    ("GET", "/v2"),
    ("GET", "/v2/models/two/quarantine"),
    ("GET", "/v2/health/live"),
    ("GET", "/v2/health/ready"),
    ("GET", "/v2/models/two"),
    ("GET", "/v2/models/three/ready"),
    ("GET", "/metrics"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("PUT", "/predict"),
    ("POST", "/nothing"),
    ("GET", "/"),
    ("GET", "/v2/models/two/versions"),
    ("GET", "/v2/models/two/versions/now/compare/now"),
    ("GET", "/v2/models/two/versions/0/compare/99"),
    ("GET", "/v2/models/three/challengers"),
    ("POST", "/v2/models/two/versions/99/rollback"),
    ("POST", "/v2/models/two/challengers/rival"),
    ("DELETE", "/v2/models/two/challengers/rival"),
    ("POST", "/v2/models/two/challengers/nobody/promote"),
]
QUERIES = [
    b"",
    b"model=two",
    b"model=three",
    b"model=named",
    b"model=..%2ftwo",
    b"model=two&id=7",
    b"model=%ff%00",
    b"id",
]
KINDS = [
    b"application/json",
    b"application/msgpack",
    b"text/plain",
    b"application/octet-stream",
    b"",
    b"text/html",
    b"\xff",
]
#: How a request is written as bytes: target, query, kind, length of the JSON (−1: not said), whether it has a name.
HEAD = struct.Struct("<BBBh?")


class Finding(Exception):
    """Something that must not be."""


def encoded(target, query, kind, body, length=-1, named=False):
    """A request as bytes."""
    return HEAD.pack(target, query, kind, length, named) + body


def decoded(data):
    """What ASGI has of a request, and its body."""
    target, query, kind, length, named = HEAD.unpack(data[: HEAD.size].ljust(HEAD.size, b"\0"))
    method, path = TARGETS[target % len(TARGETS)]
    body = data[HEAD.size :]
    headers = [(b"host", b"x"), (b"content-type", KINDS[kind % len(KINDS)]), (b"content-length", b"%d" % len(body))]
    if length >= 0:
        headers.append((b"inference-header-content-length", b"%d" % length))
    if named:
        headers.append((b"idempotency-key", body[:20]))
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "root_path": "", "scheme": "http",
        "query_string": QUERIES[query % len(QUERIES)], "headers": headers, "http_version": "1.1",
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2), "asgi": {"version": "3.0"},
    }  # fmt: skip
    return scope, body


def seeds():
    """Requests that make sense, of every kind."""
    row, dense, line = {"1": 0.5, "3": -1.0}, [0.5, 0, -1.0], "1:0.5 3:-1"
    named = {"size": 3, "words": ["free", "offer"], "user": {"paid": True}}
    csr = {"indptr": [0, 2], "indices": [0, 2], "values": [0.5, -1.0]}
    raw = {name: np.array(values, "<f4" if name == "values" else "<i4").tobytes() for name, values in csr.items()}
    bodies = [{"x": x} for x in (row, [row], dense, [dense], line, [line], csr)]
    bodies += [{"x": row, "id": 7}, {"x": [row, row], "id": ["a", 8], "model": "two"}]
    for body in bodies:
        for k, more in ((0, {}), (1, {"y": "ham"}), (1, {"y": ["ham"], "weight": [2], "request": "r"})):
            yield encoded(k, 1, 0, json.dumps(body | more).encode())
            yield encoded(k, 1, 1, msgspec.msgpack.encode(body | more))
    yield encoded(0, 1, 1, msgspec.msgpack.encode({"x": raw}))
    yield encoded(0, 3, 0, json.dumps({"x": [named, named]}).encode())
    yield encoded(1, 3, 0, json.dumps({"x": named, "y": "spam"}).encode())
    yield encoded(1, 3, 2, b'{"label": "spam", "colour": "red"}\n{"label": "ham", "size": 2}', named=True)
    yield encoded(1, 3, 2, b"1 2.0 |a x:2 y |b z\n-1 |a x")
    yield encoded(0, 3, 2, b"|a x:2 y |b z")
    yield encoded(1, 2, 2, b"2 1:0.5 3:-1\n0 2:1\n")
    yield encoded(0, 5, 2, b"1:0.5 3:-1\n")
    yield encoded(2, 1, 0, b'{"id": 7, "y": "ham", "weight": 2}')
    yield encoded(2, 1, 1, msgspec.msgpack.encode({"id": ["a", 8, "b"], "y": ["ham", "spam", "ham"], "request": "q"}))
    kinds = {"indptr": "INT32", "indices": "INT64", "values": "FP32"}
    tensors = [{"name": n, "datatype": k, "shape": [len(csr[n])], "data": csr[n]} for n, k in kinds.items()]
    yield encoded(3, 0, 0, json.dumps({"inputs": tensors, "id": "q", "outputs": [{"name": "score"}]}).encode())
    yield encoded(
        4, 0, 0, json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": dense}]}).encode()
    )
    lines = {"name": "x", "datatype": "BYTES", "shape": [1], "data": ["|a x:2"]}
    yield encoded(5, 0, 0, json.dumps({"inputs": [lines]}).encode())
    behind = [
        {"name": n, "datatype": "FP32" if n == "values" else "INT32", "shape": [len(r) // 4],
         "parameters": {"binary_data_size": len(r)}} for n, r in raw.items()
    ]  # fmt: skip
    head = json.dumps({"inputs": behind, "parameters": {"binary_data_output": True}}).encode()
    yield encoded(3, 0, 3, head + b"".join(raw.values()), len(head))
    for target in range(7, len(TARGETS)):
        yield encoded(target, 0, 0, b"{}")
    rival = TARGETS.index(("POST", "/v2/models/two/challengers/rival"))
    yield encoded(rival, 0, 0, b'{"algorithm": "fsol", "parameters": {"eta": 0.5}, "normalize": "l2"}', named=True)
    yield encoded(rival, 0, 3, b"no model")


def made(folder):
    """Models of two and of three classes, and of named features."""
    rng, paths = np.random.default_rng(0), []
    for name, labels in (("two", ("ham", "spam")), ("three", (0, 1, 2))):
        model = Model.fresh("arow", Classes(*labels), n_features=5, grow=True, fit_intercept=True)
        number = rng.integers(len(labels), size=60)
        y = np.where(number > 0, 1, -1).astype(np.int8) if len(labels) == 2 else number.astype(np.int32)
        columns = np.tile(np.arange(5, dtype=np.int32), 60)
        model.learner.learn(Batch.of(np.arange(0, 301, 5), columns, rng.normal(size=300).astype(np.float32), 5, y=y))
        paths.append(folder / f"{name}.ts")
        write(paths[-1], model)
    return paths


class Target:
    """An application to be asked, and what it has acknowledged."""

    def __init__(self, folder):
        from thinstream.serve import Limits, create_app

        self.folder, self.entries, self.asked, self.statuses = folder, 0, 0, {}
        limits = Limits(body=20_000, rows=50, width=4096)
        self._app = create_app(made(folder), folder / "data", new=["named:arow:ham,spam"], hosts=["x"], limits=limits)
        self._loop, self._first = asyncio.new_event_loop(), 0
        self._alive = self._app.router.lifespan_context(self._app)

    def __enter__(self):
        self._loop.run_until_complete(self._alive.__aenter__())
        for _ in range(3000):
            if self.ask(*decoded(encoded(TARGETS.index(("GET", "/v2/health/ready")), 0, 0, b"")))[0] == 200:
                return self
            self._loop.run_until_complete(asyncio.sleep(0.02))
        raise Finding("it does not get ready")

    def __exit__(self, *error):
        self._loop.run_until_complete(self._alive.__aexit__(None, None, None))
        self._loop.close()

    def ask(self, scope, body):
        """(status, what is said)."""
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        self._loop.run_until_complete(self._app(scope, receive, send))
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])

    def check(self, data):
        """Sends a request, and looks at the answer."""
        scope, body = decoded(data)
        status, said = self.ask(scope, body)
        self.asked += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if not (200 <= status < 300 or 400 <= status < 500):
            raise Finding(f"{status} {said[:200]!r} to {scope['method']} {scope['path']} {data!r}")
        if status >= 400:
            self._check_words(json.loads(said)["error"], data)
            return
        kind = dict(scope["headers"])[b"content-type"]
        decode = msgspec.msgpack.decode if kind == KINDS[1] else json.loads
        if "/challengers/" in scope["path"]:
            self.entries += not decode(said).get("again")
        elif scope["path"] in ("/learn", "/label"):
            told = decode(said)
            self.entries += 0 if told.get("again") else told.get("rows", told.get("learned", 0)) > 0

    def _check_words(self, said, data):
        for never in ("Traceback", str(self.folder), "/dev/shm", "site-packages"):
            if not said or never in said:
                raise Finding(f"{said!r} to {data!r}")

    def grown(self, share):
        """Raises if memory has grown, after the first tenth."""
        size = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        if share <= 0.1 or not self._first:
            self._first = size
        elif size - self._first > GROWTH:
            raise Finding(f"memory has grown by {(size - self._first) >> 20} MB")
        return size


def learned(folder):
    """Entries of the journals, which all models have learned."""
    found = 0
    for name in ("two", "three", "named"):
        tables = sqlite3.connect(folder / "data" / name / "journal.sqlite")
        written = tables.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'entries'").fetchone()[
            0
        ]
        tables.close()
        checkpoint = folder / "data" / name / "checkpoint.ts"
        done = read(checkpoint).extra["run"]["position"][1] if checkpoint.exists() else 0
        if written != done:
            raise Finding(f"{name!r} was told {written} entries and has learned {done}")
        found += written
    return found


def fuzz(requests, guided=True, seed=1):
    """Sends so many; what was answered, by status."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Target(folder) as target:
            _explore(target, folder, requests, seed) if guided else _mutate(target, requests, seed)
        _compare(target)
        return target.statuses


def _compare(target):
    if learned(target.folder) != target.entries:
        raise Finding(f"{target.entries} requests to learn were acknowledged, {learned(target.folder)} were learned")


def _step(target, data, requests):
    target.check(data)
    if target.asked % 1000 == 0:
        size = target.grown(target.asked / requests)
        if target.asked % 10_000 == 0:
            print(f"{target.asked:>8} requests, {size >> 20} MB, {dict(sorted(target.statuses.items()))}", flush=True)


def _mutate(target, requests, seed):
    """Bytes of requests that make sense, turned, cut and mixed."""
    rng, known = np.random.default_rng(seed), list(seeds())
    while target.asked < requests:
        data = bytearray(known[rng.integers(len(known))])
        for _ in range(rng.integers(4)):
            place = int(rng.integers(len(data) + 1))
            what = rng.integers(4)
            if what == 0:
                data[place:place] = rng.bytes(int(rng.integers(1, 4)))
            elif what == 1:
                del data[place : place + int(rng.integers(1, 6))]
            elif what == 2 and place < len(data):
                data[place] = int(rng.integers(256))
            else:
                data[place:] = known[rng.integers(len(known))][place:]
        _step(target, bytes(data), requests)


def _explore(target, folder, requests, seed):
    """The same, led to new code; in a process that ends with it."""
    import atheris

    corpus = folder / "corpus"
    corpus.mkdir()
    for k, data in enumerate(seeds()):
        (corpus / str(k)).write_bytes(data)
    found = []

    def one(data):
        try:
            _step(target, data, requests)
        except Finding as finding:
            found.append(finding)
        if found or target.asked >= requests:
            _leave(target, found)

    atheris.Setup([sys.argv[0], f"-seed={seed}", "-max_len=4000", "-verbosity=0", str(corpus)], one)
    atheris.Fuzz()


def _leave(target, found):
    """LibFuzzer never comes back: what is left to be looked at is looked at here."""
    target.__exit__()
    try:
        _compare(target)
    except Finding as finding:
        found.append(finding)
    print(f"{target.asked} requests, {dict(sorted(target.statuses.items()))}, {target.entries} of them learned")
    print(*(f"FOUND {each}" for each in found), sep="\n")
    sys.stdout.flush()
    os._exit(bool(found))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--unguided", action="store_true", help="without atheris: faster, and blind")
    options = parser.parse_args(arguments)
    if not options.unguided:
        import atheris

        with atheris.instrument_imports(include=["thinstream.serve"]):
            import thinstream.serve.predictor  # noqa: F401
    print(fuzz(options.requests, not options.unguided, options.seed))


if __name__ == "__main__":
    main()
