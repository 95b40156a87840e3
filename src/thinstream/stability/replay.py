"""An online learner run once more from scratch, to see where it is heading."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from thinstream.batch import Batch
from thinstream.learners import Learner, make_learner

#: A run is looked at in this many parts.
PARTS = 4


class Part(NamedTuple):
    """What is known of the model at the end of a part of the rows, and of its predictions in it."""

    rows: int
    nnz: int
    error: float  # share called wrong before their update
    score: float  # median |score| of rows not scored 0
    finite: bool


class Replay(NamedTuple):
    """A run in parts."""

    parts: tuple[Part, ...]

    @property
    def growth(self) -> float:
        """Weights at the end over those at half time."""
        half, end = self.parts[PARTS // 2 - 1].nnz, self.parts[-1].nnz
        return end / half if half else 1.0


def replay(learner: Learner | None, batch: Batch) -> Replay | None:
    """One pass of a fresh learner with the same parameters; None where there are too few rows to tell anything."""
    if learner is None or len(batch) < 10 * PARTS:
        return None
    fresh = make_learner(
        learner.algorithm.name,
        n_features=learner.n_features,
        costs=learner.costs,
        dtype=learner.memory.state.dtype.name,
        fit_intercept=bool(learner.offset),
        **learner.parameters,
    )
    parts, edges = [], np.linspace(0, len(batch), PARTS + 1).astype(int)
    for start, stop in pairwise(edges.tolist()):
        piece, before = batch.until(stop).after(start), fresh.n_mistakes
        sizes = np.abs(fresh.learn(piece).astype(np.float64))
        told = sizes[np.isfinite(sizes) & (sizes > 0)]
        error = (fresh.n_mistakes - before) / len(piece)
        score = float(np.median(told)) if len(told) else 0.0
        parts.append(Part(stop, fresh.nnz, error, score, bool(np.all(np.isfinite(sizes)))))
    return Replay(tuple(parts))
