"""Ranks as threads of this process, for tests that are about sums, not about processes."""

import threading

import numpy as np

from thinstream.distributed.by_features.slices import Slice
from thinstream.errors import PeerLostError

#: Seconds after which a test that hangs has failed.
PATIENCE = 30.0


class Table:
    """Where threads meet: sums in the order of ranks, and exchanges of texts."""

    def __init__(self, size):
        self.size, self.slots = size, [None] * size
        self.barrier = threading.Barrier(size)

    def at(self, rank):
        return Seat(self, rank)


class Seat:
    def __init__(self, table, rank):
        self.table, self.rank = table, rank

    def put(self, value):
        """All values, in the order of ranks."""
        self.table.barrier.wait(PATIENCE)
        self.table.slots[self.rank] = value
        self.table.barrier.wait(PATIENCE)
        return list(self.table.slots)

    def allreduce(self, array):
        total = np.sum(self.put(array.copy()), axis=0)
        array[...] = total
        return array


def run(size, work):
    """`work(seat)` on each of ``size`` threads at once; their answers, or the first error that is not an echo."""
    table, answers, errors = Table(size), [None] * size, []

    def call(rank):
        try:
            answers[rank] = work(table.at(rank))
        except BaseException as error:
            errors.append(error)
            table.barrier.abort()

    threads = [threading.Thread(target=call, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    for error in sorted(errors, key=lambda error: isinstance(error, (threading.BrokenBarrierError, PeerLostError))):
        raise error
    assert not any(thread.is_alive() for thread in threads)
    return answers


def learned(blueprint, size, batches, batch_size=1):
    """Slices that have learned the batches, and each one's scores."""

    def work(seat):
        part = Slice(blueprint, seat.rank, size)
        scores = [part.learn(batch, seat, batch_size=batch_size) for batch in batches]
        return part, np.concatenate(scores)

    return run(size, work)


class Threads:
    """A launcher of threads. ``fate``, called before each gang with its number, may lose a worker."""

    remembers, worthwhile = True, 1 << 12

    def __init__(self, workers, fate=None):
        self.workers, self.fate, self.gangs = workers, fate, 0

    def share(self, value):
        return lambda: value

    def run_together(self, tasks):
        self.gangs += 1
        if self.fate is not None:
            self.fate(self.gangs, tasks)
        return run(len(tasks), lambda seat: tasks[seat.rank](seat.put))

    def close(self):
        pass
