"""What a sum over processes costs, and with it learning by features: ``python benchmarks/collective.py``.

The first table has sums per second by the number of processes and of numbers; the second examples per second of
mode="features" by the size of mini-batches, rows being in memory already, beside the serial loop in one process. All
processes share this machine: more of them than cores take turns. Takes about a minute.
"""

import os
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinstream.batch import Batch
from thinstream.distributed.by_features.blueprint import Blueprint
from thinstream.distributed.by_features.collective import Collective, new_token
from thinstream.distributed.by_features.slices import Slice
from thinstream.distributed.engines.local import LocalLauncher
from thinstream.learners import Classes, Learner
from thinstream.models.model import Model

NUMBERS = (2, 128, 4096, 1 << 17)
PEERS = (2, 3, 4)
MINI_BATCHES = (1, 4, 16, 64, 256, 1024)
#: Seconds a measurement takes, about.
SECONDS = 1.0
#: The best of so many counts: the others tell of who else uses the machine.
REPEATS = 5
WIDTH, NONZEROS, ROWS = 1 << 20, 64, 20_000


@dataclass(frozen=True)
class Member:
    """One of the processes."""

    rank: int
    size: int
    token: str
    work: Any

    def __call__(self, exchange: Any) -> Any:
        """What the work answers here."""
        with Collective.join(exchange, self.rank, self.size, self.token) as collective:
            return self.work(collective)


def measured(size: int, work: Any) -> Any:
    """What ``work(collective)`` answers in the first of ``size`` processes."""
    launcher, token = LocalLauncher(size), new_token()
    try:
        return launcher.run_together([Member(rank, size, token, work) for rank in range(size)])[0]
    finally:
        launcher.close()


def sums(collective: Collective) -> list[float]:
    """Sums per second, by how many numbers."""
    found = []
    for numbers in NUMBERS:
        speed = speed_of(collective, np.zeros(numbers), 20)
        # the first few tell how many to take, which must be the same for all
        rounds = int(collective.broadcast(np.array([max(20.0, SECONDS / REPEATS * speed)]))[0])
        found.append(max(speed_of(collective, np.zeros(numbers), rounds) for _ in range(REPEATS)))
    return found


def speed_of(collective: Collective, array: Any, rounds: int) -> float:
    collective.barrier()
    start = time.perf_counter()
    for _ in range(rounds):
        collective.allreduce(array)
    return rounds / (time.perf_counter() - start)


def stream() -> Batch:
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, WIDTH, (ROWS, NONZEROS), dtype=np.int32), axis=1)
    values = rng.normal(size=ROWS * NONZEROS).astype(np.float32)
    y = rng.choice(np.array([-1, 1], np.int8), ROWS)
    return Batch.of(np.arange(ROWS + 1) * NONZEROS, indices.reshape(-1), values, WIDTH, y)


class Examples:
    """Examples per second of an algorithm, by the size of mini-batches."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm

    def __call__(self, collective: Collective) -> list[float]:
        """In one of the processes."""
        batch, found = stream(), []
        blueprint = Blueprint.of(Model(Learner(self.algorithm, n_features=WIDTH, fit_intercept=False), Classes(-1, 1)))
        for size in MINI_BATCHES:
            part = Slice(blueprint, collective.rank, collective.size)
            part.prepare()
            part.learn(batch.until(size), collective, batch_size=size)
            rows, best = batch.until(min(ROWS, 1_000 * size)), 0.0
            for _ in range(REPEATS):
                collective.barrier()
                start = time.perf_counter()
                part.learn(rows, collective, batch_size=size)
                best = max(best, len(rows) / (time.perf_counter() - start))
            found.append(best)
        return found


def serial(algorithm: str) -> float:
    batch = stream()
    Learner(algorithm, n_features=WIDTH, fit_intercept=False).learn(batch.until(1))
    learner, best = Learner(algorithm, n_features=WIDTH, fit_intercept=False), 0.0
    for _ in range(REPEATS):
        start = time.perf_counter()
        learner.learn(batch)
        best = max(best, ROWS / (time.perf_counter() - start))
    return best


def row(*cells: Any) -> str:
    return "| " + " | ".join(f"{cell:,.0f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def table(head: list[str]) -> None:
    print(row(*head))
    print("|---" + "|--:" * (len(head) - 1) + "|")


def main() -> None:
    print(f"{os.cpu_count()} cores\n")
    table(["sums per second", *(f"{numbers} numbers" for numbers in NUMBERS)])
    for size in PEERS:
        print(row(f"{size} processes", *measured(size, sums)))
    print(f"\n{NONZEROS} non-zeros a row, {WIDTH:,} features\n")
    table(["examples per second", "serial", *(f"batch {size}" for size in MINI_BATCHES)])
    for algorithm in ("fsol", "ssol"):
        for size in PEERS[::2]:
            print(row(f"{algorithm}, {size} processes", serial(algorithm), *measured(size, Examples(algorithm))))


if __name__ == "__main__":
    main()
