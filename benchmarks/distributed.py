"""Text to model on two single-threaded workers against one, engine already up.

    python benchmarks/distributed.py [--engine local|ray|spark] [--gigabytes 4] [--keep FOLDER] [--algorithm fsol]

The text is that of benchmarks/streams.py, repeated. Each worker parses on one thread and learns; merges are as by
default. Workers are started and have compiled everything before the clock starts; it stops when the merged model is on
the driver. Numbers of workers take turns, the median is shown.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from streams import describe, generated

from thinstream.data.labels import Classes
from thinstream.distributed.engines.launcher import ENGINES, launcher_for
from thinstream.distributed.job import learn
from thinstream.distributed.sources import FileSource
from thinstream.lanes.learner import Learner
from thinstream.models.model import Model

REPEATS, GOAL = 3, 1.6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--algorithm", default="fsol")
    parser.add_argument("--keep", type=Path, help="a folder for the generated files, used again if they are there")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="thinstream-bench-"))
    print(f"Machine: {describe()}\n")
    try:
        path = large(folder, options.gigabytes)
        measure(path, options.engine, options.algorithm)
    finally:
        if options.keep is None:
            shutil.rmtree(folder)


def measure(path, engine, algorithm):
    size, took = path.stat().st_size / 1e9, {1: [], 2: []}
    for number in range(REPEATS + 1):
        for workers in took:
            seconds, rows = once(path, engine, algorithm, workers)
            if number:
                took[workers].append(seconds)
    one, two = (statistics.median(found) for found in took.values())
    print(f"{engine}, {algorithm}, {size:.2f} GB, {rows:,} rows")
    for workers, seconds in ((1, one), (2, two)):
        print(f"  {workers} worker{'s' if workers > 1 else ' '}  {seconds:7.2f} s  {size / seconds:6.2f} GB/s")
    print(f"  {'met   ' if one / two >= GOAL else 'MISSED'} {one / two:.2f}x faster, at least {GOAL}x is wanted")


def once(path, engine, algorithm, workers):
    """Seconds from text to model, and rows; a short run before it brings the workers up."""
    with closing(launcher_for(engine, workers)) as launcher:
        learn(launcher, FileSource(path.with_name("short.svm")), fresh(algorithm))
        start = time.perf_counter()
        state = learn(launcher, FileSource(path), fresh(algorithm))
        return time.perf_counter() - start, state.progress.rows


def fresh(algorithm):
    return Model(Learner(algorithm, n_features=0, grow=True, fit_intercept=False), Classes(-1, 1))


def large(folder, gigabytes):
    """The text of benchmarks/streams.py as often as it takes."""
    text, _ = generated(folder)
    path, content = folder / f"large-{gigabytes:g}.svm", text.read_bytes()
    (folder / "short.svm").write_bytes(content[: content.index(b"\n", 1_000_000) + 1])
    if not path.exists():
        with open(path, "wb") as file:
            while file.tell() < gigabytes * 1e9:
                rest = int(gigabytes * 1e9) - file.tell()
                file.write(content if rest >= len(content) else content[: content.index(b"\n", rest - 1) + 1])
    return path


if __name__ == "__main__":
    main()
