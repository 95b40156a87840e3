"""What training by features costs on this machine, with 1, 2 and 4 MPI ranks.

    python benchmarks/collective.py [--docs docs/distributed.md] [--ranks 1,2,4]

Three tables: microseconds of a sum over all ranks, by the number of numbers; rows per second that are in memory
already, by the size of mini-batches, compared with the serial loop; time and memory per rank of ``thinstream train``
on a file with 3.2 million features. All ranks share this machine, so more ranks than cores take turns. Needs mpi4py and
mpich. Takes some minutes.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from streams import describe

from thinstream.batch import Batch
from thinstream.cli.app import run
from thinstream.data.labels import Classes
from thinstream.distributed.mpi import Ranks, join, sliced
from thinstream.lanes.learner import Learner
from thinstream.models.model import Model

BEGIN, END = "<!-- ranks: begin (benchmarks/collective.py) -->", "<!-- ranks: end -->"
NUMBERS, MINI_BATCHES = (2, 128, 4096, 1 << 17), (1, 16, 64, 256, 1024)
REPEATS, ROWS, NONZEROS, WIDTH = 3, 20_000, 64, 3_200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--docs", type=Path, help="a page whose tables are to be replaced")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--work", help="what a rank does; used by this script")
    options = parser.parse_args()
    if options.work is not None:
        work(json.loads(options.work))
        return
    sizes = [int(size) for size in options.ranks.split(",")]
    with tempfile.TemporaryDirectory(prefix="thinstream-bench-") as folder:
        path = Path(folder) / "wide.svm"
        write_rows(path)
        found = "\n\n".join([f"Measured on: {describe()}.", sums(sizes), rows(sizes), files(sizes, path)])
    print(found)
    if options.docs:
        before, _, rest = options.docs.read_text().partition(BEGIN)
        options.docs.write_text("\n\n".join([before + BEGIN, found, END]) + rest.partition(END)[2])


def stream(rows: int) -> Batch:
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, WIDTH, (rows, NONZEROS), dtype=np.int32), axis=1)
    y = rng.choice(np.array([-1, 1], np.int8), rows)
    values = rng.normal(size=rows * NONZEROS).astype(np.float32)
    return Batch.of(np.arange(rows + 1) * NONZEROS, indices.reshape(-1), values, WIDTH, y)


def write_rows(path: Path) -> None:
    batch = stream(3 * ROWS)
    with path.open("w") as file:
        for row in range(len(batch)):
            part = slice(batch.indptr[row], batch.indptr[row + 1])
            pairs = zip(batch.indices[part].tolist(), batch.values[part].tolist(), strict=True)
            file.write(f"{batch.y[row]} {' '.join(f'{j + 1}:{x:.4f}' for j, x in pairs)}\n")
        file.write(f"1 {WIDTH}:1\n")


# What a rank does -----------------------------------------------------------------------------------------------------


def work(task: dict[str, Any]) -> None:
    answer = {"sums": time_sums, "rows": time_rows, "train": time_training}[task.pop("kind")](**task)
    if answer is not None:
        print("answer", json.dumps(answer), flush=True)


def time_sums() -> list[float] | None:
    ranks, found = join(), []
    for numbers in NUMBERS:
        array, rounds = np.zeros(numbers), 2000 if numbers < 10_000 else 100
        found.append(min(seconds_of(ranks, lambda: ranks.add(array), rounds) for _ in range(REPEATS)))  # noqa: B023
    return None if ranks.rank else found


def seconds_of(ranks: Ranks, call: Any, rounds: int) -> float:
    ranks.total(0)  # all start together
    start = time.perf_counter()
    for _ in range(rounds):
        call()
    return (time.perf_counter() - start) / rounds


def time_rows(algorithm: str) -> list[float] | None:
    ranks, batch, found = join(), stream(ROWS), []
    for size in MINI_BATCHES:
        model = Model(Learner(algorithm, n_features=WIDTH), Classes(-1, 1))
        learner = sliced(model, ranks, size).learner
        part = batch.until(min(ROWS, 1000 * size))
        learner.learn(batch.until(size))
        found.append(len(part) / min(seconds_of(ranks, lambda: learner.learn(part), 1) for _ in range(REPEATS)))  # noqa: B023
    return None if ranks.rank else found


def time_training(words: list[str]) -> list[dict[str, float]] | None:
    start = time.perf_counter()
    code = run(words)
    assert code == 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    own = {"seconds": time.perf_counter() - start, "megabytes": peak}
    return (join().gather(own) or None) if "features" in words else [own]


def answer_of(size: int, **task: Any) -> Any:
    """The answer of rank 0; size 0: of a process without MPI."""
    mpiexec = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(size)] if size else []
    words = [*mpiexec, sys.executable, __file__, "--work", json.dumps(task)]
    ended = subprocess.run(words, env=os.environ, capture_output=True, text=True, check=True)
    return json.loads(ended.stdout.rpartition("answer ")[2])


# Tables ---------------------------------------------------------------------------------------------------------------


def table(*rows: list[str]) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" + "|--:" * (len(rows[0]) - 1) + "|", *rest])


def sums(sizes: list[int]) -> str:
    head = ["µs per sum", *(f"{numbers:,} numbers" for numbers in NUMBERS)]
    lines = [[f"{size} ranks", *(f"{each * 1e6:,.0f}" for each in answer_of(size, kind="sums"))] for size in sizes[1:]]
    return table(head, *lines)


def rows(sizes: list[int]) -> str:
    head = ["rows per second, in memory", "serial", *(f"mini-batch {size:,}" for size in MINI_BATCHES)]
    lines = []
    for algorithm in ("fsol", "ssol"):
        learner, batch = Learner(algorithm, n_features=WIDTH), stream(ROWS)
        learner.learn(batch.until(1))
        alone = ROWS / min(timed(lambda: learner.learn(batch)) for _ in range(REPEATS))  # noqa: B023
        for size in sizes:
            found = answer_of(size, kind="rows", algorithm=algorithm)
            name = f"{algorithm.upper()}, {size} rank{'s' * (size > 1)}"
            lines.append([name, f"{alone:,.0f}", *(f"{each:,.0f}" for each in found)])
    return table(head, *lines)


def timed(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def files(sizes: list[int], path: Path) -> str:
    head = [f"{WIDTH:,} features, {path.stat().st_size / 1e6:,.0f} MB of text", "seconds", "peak MB per rank"]
    words = ["train", str(path), "-a", "ssol", "--dtype", "float64", "-q", "-m", str(path.with_name("m.ts"))]
    lines = []
    for size in [0, *sizes]:
        more = ["--mode", "features"] if size else []
        found = [answer_of(size, kind="train", words=words + more) for _ in range(REPEATS + 1)][1:]
        seconds = statistics.median(max(each["seconds"] for each in one) for one in found)
        peaks = " to ".join(f"{peak:,.0f}" for peak in sorted({round(each["megabytes"]) for each in found[0]}))
        name = f"{size} rank{'s' * (size > 1)}, mini-batches of 64" if size else "serial"
        lines.append([name, f"{seconds:.1f}", peaks])
    return table(head, *lines)


if __name__ == "__main__":
    main()
