"""The same stream for a wide model and for a compact one."""

from dataclasses import replace

import numpy as np

from thinstream.batch import Batch
from thinstream.models import pipeline as room
from thinstream.models.model import Model

WIDTH, FEATURES = 1 << 13, 60
SPACE = {"hashing": {"hash": "murmur3_x86_32", "bits": 13, "signed": False, "seed": 0}}


def stream(classes, batches=3, rows=40, seed=0, features=FEATURES):
    """Batches of rows of a few features among many numbers."""
    random = np.random.default_rng(seed)
    numbers = np.random.default_rng(99).choice(WIDTH, features, replace=False)
    for _ in range(batches):
        chosen = [np.sort(random.choice(numbers, random.integers(1, 9), replace=False)) for _ in range(rows)]
        indptr = np.cumsum([0, *map(len, chosen)])
        values = random.normal(size=indptr[-1]).astype(np.float32)
        if classes.are_two:
            y = random.choice([-1, 1], rows).astype(np.int8)
        else:
            y = random.integers(0, len(classes), rows).astype(np.int32)
        weights = random.choice([0.0, 1.0, 2.0], rows) if seed % 2 else None
        batch = Batch.of(indptr, np.concatenate(chosen).astype(np.int32), values, WIDTH).labelled(y, weights)
        yield replace(batch, n_features=int(batch.indices.max()) + 1)  # as parsers give it


def unseen(classes, seed=5):
    """Rows in which some numbers were never learned, and some are beyond all that were."""
    [batch] = stream(classes, 1, seed=seed, features=2 * FEATURES)
    beyond = np.where(batch.indices == batch.indices.max(), WIDTH + 5, batch.indices)
    return replace(batch, indices=beyond.astype(np.int32), n_features=WIDTH + 6)


def both(monkeypatch, algorithm, classes, *, learn, **options):
    """What ``learn`` makes of a fresh model: kept wide, and compact."""
    found = []
    for limit in (1 << 60, 0):
        monkeypatch.setattr(room, "HASHED", limit)
        model = Model.fresh(algorithm, classes, feature_space=SPACE, grow=True, fit_intercept=True, **options)
        found.append(learn(model))
    wide, compact = found
    assert wide.learner.encoder is None
    assert compact.learner.encoder is not None
    return wide, compact
