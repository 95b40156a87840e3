"""thinstream serve under load, on this machine: predictions, durable learning, both at once, and batches.

    python -m benchmarks.serve [--seconds 5] [--workers 1] [--alone]
    python -m benchmarks.serve --requests 5000000
    python -m benchmarks.serve --singles

Caveats first. wrk (a compiled generator, `apt install wrk`) and the server share the cores, over loopback; rows are
RCV1's, cut to 60 features. "Server µs" is the processor time of all of the server's processes for each request: it is
the number to compare on a machine that others use, too, where requests a second and latencies are of little worth. A
durable request waits for the disk: fdatasync's own times are printed first. Peers (`serve_peers`) keep nothing on disk.
With ``--requests`` that many are sent, a fifth of them to be learned, and memory is told as it goes.
With ``--singles`` only predictions of one row are measured, with AROW and Auto.
"""

import argparse
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np
from benchmarks.serve_peers import Peer, asked
from benchmarks.streams import describe
from tests.serve.servers import Server

from thinstream.serve.load_test import Load, batched

ROWS, FEATURES, BATCH = 2000, 60, 256
_TICKS = os.sysconf("SC_CLK_TCK")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default 5)")
    parser.add_argument("--workers", type=int, default=1, help="predicting processes (default 1)")
    parser.add_argument("--alone", action="store_true", help="without Vowpal Wabbit and River")
    parser.add_argument("--requests", type=int, default=0, help="send so many, and tell memory as it goes")
    parser.add_argument("--singles", action="store_true", help="only predictions of one row")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("THINSTREAM_DATA", "data")))
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is needed: apt install wrk")
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    folder = Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    try:
        rows = rows_of(options.data)
        if options.singles:
            singles(folder, rows, options)
            return
        goals = soak(folder, rows, options) if options.requests else measure(folder, rows, options)
        if not options.requests and not options.alone:
            compare(folder, rows, options.seconds)
    finally:
        shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def rows_of(data):
    """Rows of text, as (label, {feature: value})."""
    with lzma.open(data / "rcv1-small.train.svm.xz", "rt") as file:
        lines = [each.split() for each in islice(file, ROWS)]
    rows = []
    for label, *features in lines:
        pairs = dict(each.split(":") for each in features[:FEATURES])
        rows.append((1 if float(label) > 0 else -1, {int(j): float(x) for j, x in pairs.items()}))
    return rows


def measure(folder, rows, options):
    p50, p99 = synced(folder)
    print(f"fdatasync of 4 kB: p50 {p50:.2f} ms, p99 {p99:.2f} ms\n")
    server = started(folder, rows, options)
    bench, goals = Bench(server, folder, options.seconds), []
    try:
        print(f"{'':44}{'requests/s':>12}{'rows/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'server µs':>11}")
        singles = [line(row).encode() for _, row in rows]
        named = [json.dumps({"x": {f"w{j}": x for j, x in row.items()}}).encode() for _, row in rows]
        alone = bench.run("predict, libsvm", "/predict?model=text", "text/plain", singles)
        bench.run("predict, JSON by name", "/predict?model=named", "application/json", named)
        goals.append(("server time of a prediction, µs ≤ 92", round(alone.cpu, 1), alone.cpu <= 92))
        labelled = [f"{y} {line(row)}".encode() for y, row in rows]
        learned = bench.run("learn, libsvm, durable, 32 clients", "/learn?model=text", "text/plain", labelled)
        goals.append(("durable single-row /learn a second ≥ 4,000", round(learned.rate), learned.rate >= 4000))
        goals.append(("server time of a durable /learn, µs ≤ 131", round(learned.cpu, 1), learned.cpu <= 131))
        mixed = bench.mixed(singles, labelled)
        goals.append(("predictions a second beside 2,000 rows/s ≥ 8,000", round(mixed.rate), mixed.rate >= 8000))
        goals.append(("their p99, ms ≤ 10", round(mixed.p99, 2), mixed.p99 <= 10))
        packs = [msgspec.msgpack.encode({"x": matrix(rows, k), "model": "text"}) for k in range(4)]
        found = bench.run("predict 256 rows, MessagePack", "/predict", "application/msgpack", packs, BATCH)
        goals.append(
            ("rows a second as MessagePack ≥ 300,000", round(found.rate * BATCH), found.rate * BATCH >= 300_000)
        )
        tensors = [binary(matrix(rows, k)) for k in range(4)]
        size = tensors[0][1]
        bench.run(
            "predict 256 rows, binary tensors", "/v2/models/text/infer", "application/octet-stream",
            [raw for raw, n in tensors if n == size], BATCH, **{"Inference-Header-Content-Length": size},
        )  # fmt: skip
        many = [
            json.dumps({"x": [json.loads(each)["x"] for each in named[k : k + BATCH]]}).encode() for k in (0, 300, 600)
        ]
        found = bench.run("predict 256 rows, JSON by name", "/predict?model=named", "application/json", many, BATCH)
        goals.append(("rows a second as JSON ≥ 60,000", round(found.rate * BATCH), found.rate * BATCH >= 60_000))
    finally:
        server.stop()
    return goals


def singles(folder, rows, options):
    """Predictions of one row of numbered features, and of a table with 8 columns, by AROW and by Auto."""
    rng = np.random.default_rng(0)
    numbers, text = rng.normal(size=(2000, 6)).round(3), folder / "rows.svm"
    cities = rng.choice(["Oslo", "Bergen", "Tromsø"], size=(2000, 2))
    names = [f"n{j}" for j in range(6)] + ["home", "work"]
    cells = [[*map(float, row), *map(str, words)] for row, words in zip(numbers, cities, strict=True)]
    table, y = folder / "rows.csv", (numbers[:, 0] + (cities[:, 0] == "Oslo") > 0.5).astype(int)
    lines = [",".join(map(str, [label, *row])) for label, row in zip(y, cells, strict=True)]
    table.write_text("\n".join([",".join(["label", *names]), *lines]) + "\n")
    text.write_text("".join(f"{label} {line(row)}\n" for label, row in rows))
    files = []
    for algorithm in ("arow", "auto"):
        for source, kind in ((text, "numbers"), (table, "table")):
            files.append(f"{algorithm}-{kind}={folder}/{algorithm}-{kind}.ts")
            command = [sys.executable, "-m", "thinstream", "train", source, "-a", algorithm, "-q", "-m"]
            subprocess.run([*command, files[-1].partition("=")[2]], check=True)
    server = Server(folder / "data", *files, "--workers", options.workers)
    server.until_ready(300)  # something may have to be compiled
    bench = Bench(server, folder, options.seconds)
    try:
        print(f"{'':44}{'requests/s':>12}{'rows/s':>12}{'p50 ms':>9}{'p99 ms':>9}{'server µs':>11}")
        for algorithm in ("arow", "auto"):
            bodies = [line(row).encode() for _, row in rows]
            path = f"/predict?model={algorithm}"
            bench.run(f"{algorithm}, libsvm, {options.workers} workers", f"{path}-numbers", "text/plain", bodies)
            bodies = [json.dumps({"x": dict(zip(names, row, strict=True))}).encode() for row in cells]
            bench.run(f"{algorithm}, JSON, {options.workers} workers", f"{path}-table", "application/json", bodies)
    finally:
        server.stop()


def started(folder, rows, options):
    """A server of a model of numbers, and of one of names."""
    text = folder / "rows.svm"
    text.write_text("".join(f"{y} {line(row)}\n" for y, row in rows))
    model = folder / "text.ts"
    subprocess.run([sys.executable, "-m", "thinstream", "train", text, "-a", "arow", "-m", model, "-q"], check=True)
    server = Server(folder / "data", model, "--new", "named:arow:-1,1", "--workers", options.workers)
    server.until_ready(300)  # something may have to be compiled
    return server


def compare(folder, rows, seconds):
    """Peers, with the same rows."""
    print("\nPeers, which keep nothing on disk")
    named = [{f"w{j}": x for j, x in row.items()} for _, row in rows]
    asks = [json.dumps({"x": row}).encode() for row in named]
    taught = [json.dumps({"x": row, "y": y}).encode() for row, (y, _) in zip(named, rows, strict=True)]
    lines = [f"|a {' '.join(f'{name}:{x:g}' for name, x in row.items())}".encode() for row in named]
    labelled = [f"{y} ".encode() + text for text, (y, _) in zip(lines, rows, strict=True)]
    for name, peer, unlabelled, labels, kind in (
        ("River", "river", asks, taught, "application/json"),
        ("Vowpal Wabbit", "vw", lines, labelled, "text/plain"),
    ):
        server = Peer.behind_starlette(peer)
        try:
            bench = Bench(server, folder, seconds)
            bench.run(f"{name} behind Starlette, learn", "/learn", kind, labels)
            bench.run(f"{name} behind Starlette, predict", "/predict", kind, unlabelled)
        finally:
            server.stop()
    for what, texts, together in (("learn", labelled, 1), ("predict", lines, 1), ("predict", lines, BATCH)):
        daemon = Peer.daemon()  # a new one: it serves a connection at a time, and may not come back from one that broke
        try:
            bench = Bench(daemon, folder, seconds)
            before, began = bench.ticks(), time.perf_counter()
            done = asked(daemon.port, texts, seconds, together)
            rate, cpu = done / (time.perf_counter() - began), 1e6 * (bench.ticks() - before) / done
        finally:
            daemon.stop()
        name = f"Vowpal Wabbit's daemon, {what} {together} on one connection"
        print(f"{name:44}{rate / together:12,.0f}{rate:12,.0f}{'':18}{cpu * together:11.1f}")


def soak(folder, rows, options):
    """Many requests, four of five predictions, every hundredth of these with an id; memory after each round."""
    server, done, sizes = started(folder, rows, options), 0, []
    bench = Bench(server, folder, max(options.seconds, 5.0))
    singles = [line(row).encode() for _, row in rows]
    labelled = [f"{y} {line(row)}".encode() for y, row in rows]
    kept = [json.dumps({"x": {str(j): x for j, x in row.items()}, "id": k}).encode() for k, (_, row) in enumerate(rows)]
    plans = [("predict", "/predict?model=text", "text/plain", singles)] * 4
    plans += [("learn", "/learn?model=text", "text/plain", labelled)]
    plans += [("predict, to be labelled", "/predict?model=text", "application/json", kept)]
    try:
        while done < options.requests:
            for plan in plans:
                done += round(bench.run(*plan).rate * bench.seconds)
            sizes.append(sum(memory_of(pid) for pid in server.children()))
            print(f"    {done:,} requests, {sizes[-1] / 1e6:.0f} MB")
    finally:
        server.stop()
    growth = (sizes[-1] - sizes[min(1, len(sizes) - 1)]) / 1e6  # the first round has journals and caches fill up
    return [(f"growth of memory over {done:,} requests, MB ≤ 50", round(growth), growth <= 50)]


def memory_of(pid):
    """Bytes that a process has for itself."""
    fields = dict(each.split(":", 1) for each in Path(f"/proc/{pid}/status").read_text().splitlines())
    return 1024 * (int(fields["RssAnon"].split()[0]))


def line(row):
    return " ".join(f"{j}:{x:g}" for j, x in row.items())


def matrix(rows, seed):
    """256 rows in CSR form, as bytes."""
    chosen = [rows[k][1] for k in np.random.default_rng(seed).integers(len(rows), size=BATCH)]
    return {
        "indptr": np.cumsum([0, *map(len, chosen)]).astype("<i4").tobytes(),
        "indices": np.array([j - 1 for row in chosen for j in row], "<i4").tobytes(),
        "values": np.array([x for row in chosen for x in row.values()], "<f4").tobytes(),
    }


def binary(x):
    kinds = {"indptr": "INT32", "indices": "INT32", "values": "FP32"}
    inputs = [
        {"name": n, "datatype": k, "shape": [len(x[n]) // 4], "parameters": {"binary_data_size": len(x[n])}}
        for n, k in kinds.items()
    ]
    head = json.dumps({"inputs": inputs, "outputs": [{"name": "score", "parameters": {"binary_data": True}}]}).encode()
    return head + x["indptr"] + x["indices"] + x["values"], len(head)


def synced(folder):
    """Milliseconds of fdatasync: p50 and p99."""
    times = []
    with open(folder / "sync", "wb", buffering=0) as file:
        for _ in range(200):
            file.write(bytes(4096))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1e3 * (time.perf_counter() - began))
    return np.percentile(times, [50, 99])


class Found:
    """What wrk says, and the processor time of a request."""

    def __init__(self, out, cpu):
        self.rate = float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])
        self.p50, self.p99 = (milliseconds(re.search(rf"\s{share}%\s+(\S+)", out)[1]) for share in (50, 99))
        self.cpu, self.bad = cpu, re.search(r"Non-2xx.*?(\d+)", out)


def milliseconds(text):
    number, unit = re.match(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]


class Bench:
    """Measures one server."""

    def __init__(self, server, folder, seconds):
        self.server, self.folder, self.seconds = server, folder, seconds

    def ticks(self):
        """Processor time of the server's processes, in seconds."""
        total = 0
        for pid in (self.server.process.pid, *self.server.children()):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / _TICKS

    def run(self, name, path, kind, bodies, rows=1, connections=32, **headers):
        """The bodies, one after another, on so many connections."""
        script = self.folder / "wrk.lua"
        many = min(len(bodies), 200)
        for k, body in enumerate(bodies[:many]):
            (self.folder / f"body{k}").write_bytes(body)
        told = {"Content-Type": kind, **headers}
        script.write_text(
            f"local b = {{}}\nfor k = 0, {many - 1} do\n  local f = io.open('{self.folder}/body' .. k, 'rb')\n"
            "  b[#b + 1] = f:read('*a')\n  f:close()\nend\n"
            + "".join(f"wrk.headers['{name}'] = '{value}'\n" for name, value in told.items())
            + "local i = 0\nrequest = function() i = i % #b + 1; "
            + f"return wrk.format('POST', '{path}', nil, b[i]) end\n"
        )
        before, began = self.ticks(), time.perf_counter()
        command = [
            "wrk",
            "-t1",
            f"-c{connections}",
            f"-d{round(self.seconds)}s",
            "--latency",
            "-s",
            script,
            self.server.url,
        ]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        done = float(re.search(r"(\d+) requests in", out)[1])
        found = Found(out, 1e6 * (self.ticks() - before) / max(done, 1))
        assert found.bad is None, out
        assert time.perf_counter() - began < self.seconds + 60
        print(
            f"{name:44}{found.rate:12,.0f}{found.rate * rows:12,.0f}{found.p50:9.2f}{found.p99:9.2f}{found.cpu:11.1f}"
        )
        return found

    def mixed(self, singles, labelled):
        """Predictions while 2,000 rows a second arrive in requests of 16."""
        load, told = Load(self.server.url, "/learn", "text", connections=4, rate=125), []
        rows = labelled * (1 + int(2000 * self.seconds) // len(labelled))
        requests = batched(rows[: int(2000 * self.seconds)], 16)
        sender = threading.Thread(target=lambda: told.append(load.run(requests)))
        sender.start()
        found = self.run("predict, beside 2,000 rows/s durably", "/predict?model=text", "text/plain", singles)
        sender.join()
        outcome = told[0].as_dict()
        print(f"    learned meanwhile: {outcome['rows_acknowledged']} rows, {outcome['milliseconds']} ms a request")
        return found


if __name__ == "__main__":
    main()
