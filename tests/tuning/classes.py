"""Rows of three classes for tests of searches, and what is known of them in plain numpy."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from thinstream.batch import Batch

WIDTH, CLASSES = 25, 3


def made(rows=600, seed=5, weights=False):
    """Rows of three classes, one rare, that are not easily told apart."""
    generator = np.random.default_rng(seed)
    X = sp.random_array((rows, WIDTH), density=0.3, format="csr", rng=generator, dtype=np.float32)
    planes = generator.normal(size=(WIDTH, CLASSES))
    y = np.argmax(X @ planes + 0.5 * generator.normal(size=(rows, CLASSES)) - [0, 0, 0.6], axis=1).astype(np.int32)
    given = generator.integers(0, 3, rows).astype(np.float64) if weights else None
    return Batch.of(X.indptr, X.indices, X.data, WIDTH, y, given)


def cuts(rows, *places):
    """The rows in pieces."""
    ends = [0, *places, len(rows)]
    return [rows.until(stop).after(start) for start, stop in pairwise(ends)]
