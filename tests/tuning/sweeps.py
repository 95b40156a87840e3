"""Rows for tests of sweeps, and streams that behave as others do."""

import numpy as np
import scipy.sparse as sp

from thinstream.data.in_memory import from_memory
from thinstream.data.stream import START

WIDTH = 40


def drawn(rows=1500, seed=3, positive=0.0):
    """Rows of which the first features tell the class, not quite."""
    generator = np.random.default_rng(seed)
    X = sp.random_array((rows, WIDTH), density=0.25, format="csr", rng=generator, dtype=np.float32)
    plane = np.where(np.arange(WIDTH) < 8, generator.normal(size=WIDTH), 0.0)
    y = np.where(X @ plane + 0.15 * generator.normal(size=rows) > positive, 1, -1).astype(np.int8)
    return X, y


def streamed(X, y, weights=None, size=170):
    return from_memory(X, y, weights, rows_per_batch=size)


class Pipe:
    """A stream that can be read once and does not know its size."""

    size = None

    def __init__(self, stream):
        self.stream, self.read = stream, 0

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def batches(self, start=START):
        self.read += 1
        assert self.read == 1, "a pipe was read twice"
        return self.stream.batches(start)
