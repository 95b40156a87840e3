"""Ranks as threads of this process, for tests of sums and slices. Tests of MPI start processes with mpiexec."""

import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np

from thinstream.distributed.mpi import Ranks, sliced, write_slice
from thinstream.models.file import read

#: Seconds after which a test that hangs has failed.
PATIENCE = 30.0


class Table:
    """Where threads exchange values."""

    def __init__(self, size):
        self.size, self.slots = size, [None] * size
        self.barrier = threading.Barrier(size)


class Seat(Ranks):
    def __init__(self, table, rank):
        self.table, self.rank, self.size = table, rank, table.size

    def put(self, value):
        """All values, in the order of ranks."""
        self.table.barrier.wait(PATIENCE)
        self.table.slots[self.rank] = value
        self.table.barrier.wait(PATIENCE)
        return list(self.table.slots)

    def stack(self, array):
        return np.stack(self.put(array.copy()))

    def broadcast(self, value):
        return self.put(value)[0]

    def gather(self, value):
        values = self.put(value)
        return [] if self.rank else values


def run(size, work):
    """`work(seat)` on each of ``size`` threads at once; their answers, or the first error that is not an echo."""
    table, answers, errors = Table(size), [None] * size, []

    def call(rank):
        try:
            answers[rank] = work(Seat(table, rank))
        except BaseException as error:
            errors.append(error)
            table.barrier.abort()

    threads = [threading.Thread(target=call, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error
    assert not any(thread.is_alive() for thread in threads)
    return answers


def learned(model, size, batches, mini_batch=1):
    """Slices of a model that have learned the batches, and the scores of each."""

    def work(seat):
        part = sliced(model, seat, mini_batch)
        scores = [part.learner.learn(batch) for batch in batches]
        return part, np.concatenate(scores)

    return run(size, work)


def written(parts, path, grade="full"):
    """The file of the whole model of all slices."""

    def work(seat):
        learner = parts[seat.rank].learner
        learner.ranks = seat
        write_slice(path, replace(parts[seat.rank], learner=learner), grade)

    run(len(parts), work)
    return path


def joined(parts):
    """The whole model of all slices, by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        return read(written(parts, Path(folder) / "model.ts"))
