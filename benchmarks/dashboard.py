"""What an open dashboard costs a server, and what promotion and rollback do to requests under load.

    python -m benchmarks.dashboard [--seconds 20] [--rounds 4] [--rate 300]

Caveats first. Server and clients share the cores, over loopback, and others may use the machine: so the page's cost is
processor time of all of the server's processes for each request, with and without a page that listens, in turns; and
latencies with and without changes are taken in turns, too, at a fixed rate, counted from when a request was due.
"""

import argparse
import http.client
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from benchmarks.serve import Bench
from benchmarks.streams import describe
from tests.serve.servers import Server

from thinstream.serve.client import Client
from thinstream.serve.load_test import Load, batched

ROWS, FEATURES, WIDTH = 2000, 30, 20_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement (default 20)")
    parser.add_argument("--rounds", type=int, default=4, help="of each kind (default 4)")
    parser.add_argument("--rate", type=float, default=300.0, help="requests a second (default 300)")
    options = parser.parse_args()
    print(__doc__.split("\n\n")[2], f"\n\nMachine: {describe()}\n")
    folder = Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    server = Server(folder / "data", "--new", "m:arow:-1,1", "--bits", "0", "--version-seconds", "0")
    try:
        server.until_ready()
        lines = rows()
        send(server, lines, options, 3.0)  # what is compiled is compiled by now
        goals = [*page(server, lines, options, folder), *changes(server, lines, options)]
    finally:
        server.stop()
        shutil.rmtree(folder)
    print("\nTargets")
    for text, value, met in goals:
        print(f"  {'met   ' if met else 'MISSED'} {text}: {value}")


def rows():
    """Lines of libsvm that can be learned."""
    rng = np.random.default_rng(0)
    w, lines = rng.normal(size=WIDTH), []
    for _ in range(ROWS):
        j = np.sort(rng.choice(WIDTH, FEATURES, replace=False))
        x = rng.normal(size=FEATURES).round(3)
        y = 1 if w[j] @ x > 0 else -1
        lines.append(f"{y} {' '.join(f'{k + 1}:{v}' for k, v in zip(j, x, strict=True))}".encode())
    return lines


def send(server, lines, options, seconds):
    """Half predictions, half rows to learn, at the rate; both outcomes."""
    found, each = {}, int(options.rate / 2 * seconds)

    def run(path):
        load = Load(server.url, path, "m", connections=4, rate=options.rate / 2)
        given = [line if path == "/learn" else line.partition(b" ")[2] for line in lines]
        many = given * (1 + each // len(given))
        found[path] = load.run(batched(many[:each], 1))

    threads = [threading.Thread(target=run, args=(path,)) for path in ("/predict", "/learn")]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return found


def listening(server, ended):
    """A page that reads its events."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/events")
    answer = connection.getresponse()
    while not ended.is_set():
        answer.readline()
    connection.close()


def page(server, lines, options, folder):
    """Processor time of the server, with and without a page: under load for each request, and by the second alone."""
    bench, spent, alone = Bench(server, folder, options.seconds), {False: [], True: []}, {False: [], True: []}
    print(f"{'':24}{'requests':>10}{'server µs each':>16}{'at rest, % of a core':>22}")
    for k in range(options.rounds):
        for opened in (False, True) if k % 2 else (True, False):  # who is first matters on a busy machine
            ended = threading.Event()
            reader = threading.Thread(target=listening, args=(server, ended))
            if opened:
                reader.start()
            before = bench.ticks()
            done = sum(len(each.latencies) for each in send(server, lines, options, options.seconds).values())
            spent[opened].append(1e6 * (bench.ticks() - before) / done)
            time.sleep(2.0)  # all is learned
            before = bench.ticks()
            time.sleep(options.seconds)
            alone[opened].append(100 * (bench.ticks() - before) / options.seconds)
            ended.set()
            if opened:
                reader.join()
            name = "with a page" if opened else "without"
            print(f"{name:24}{done:10,}{spent[opened][-1]:16.1f}{alone[opened][-1]:22.2f}")
    # events come by the clock, not by the request: what they take is a share of a core, whatever the load
    loaded = 100 * (np.median(spent[True]) - np.median(spent[False])) * options.rate / 1e6
    resting = np.median(alone[True]) - np.median(alone[False])
    text = "share of a core that an open page takes, % < 2"
    return [
        (f"{text}, under load", round(float(loaded), 2), loaded < 2),
        (f"{text}, at rest", round(float(resting), 2), resting < 2),
    ]


def changes(server, lines, options):
    """Latencies while models are kept, challenged, promoted and rolled back, and while nothing happens."""
    took, statuses = {False: [], True: []}, set()
    print(f"\n{'':24}{'requests':>10}{'p50 ms':>9}{'p99 ms':>9}{'most ms':>9}  changes")
    for k in range(options.rounds):
        for changed in (False, True) if k % 2 else (True, False):
            ended, many = threading.Event(), []
            changer = threading.Thread(target=change, args=(server, ended, many))
            if changed:
                changer.start()
            outcomes = send(server, lines, options, options.seconds).values()
            ended.set()
            if changed:
                changer.join()
            latencies = 1e3 * np.array([each for outcome in outcomes for each in outcome.latencies])
            statuses |= {status for outcome in outcomes for status in outcome.statuses}
            took[changed].append(np.percentile(latencies, 99))
            shown = np.percentile(latencies, [50, 99, 100])
            print(
                f"{'with changes' if changed else 'without':24}{len(latencies):10,}"
                + "".join(f"{each:9.2f}" for each in shown)
                + f"  {len(many)}"
            )
    ratio = np.median(took[True]) / np.median(took[False])
    return [
        ("p99 with promotions and rollbacks over p99 without ≤ 2", round(float(ratio), 2), ratio <= 2),
        ("statuses of all requests", ", ".join(map(str, sorted(statuses))), statuses == {200}),
    ]


def change(server, ended, many):
    """A challenger comes, learns, is promoted; the model goes back: again and again."""
    with Client(server.url, "m") as client:
        while not ended.is_set():
            name = f"rival-{os.getpid()}-{time.monotonic_ns()}"
            client.challenge("m", name, "arow")
            ended.wait(0.5)
            kept = client.promote("m", name)["kept"]
            ended.wait(0.5)
            client.rollback("m", kept)
            many += ["promotion", "rollback"]


if __name__ == "__main__":
    main()
