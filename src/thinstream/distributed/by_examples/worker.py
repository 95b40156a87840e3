"""What a worker does in a round: it learns a number of rows of its shard, and answers with what is new.

A process remembers the base of its last round and where it was in its shard, so that it need not be sent the one nor
open the other again; whatever it does not remember comes with the task, or is asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.compact import fitting
from thinstream.distributed.by_examples.deltas import Change, apply_delta, copy_learner, delta
from thinstream.distributed.by_examples.metrics import Arrays, begin_round, round_counts
from thinstream.distributed.cursor import Cursor, Place
from thinstream.distributed.sources import Shard
from thinstream.one_vs_rest import AnyLearner


class Answer(NamedTuple):
    """Of a worker, after a round."""

    change: Change
    place: Place
    tally: Arrays
    rows: int  # learned in this round
    over: bool  # whether there is no more
    skipped: int  # bad records in any one pass, at most


class NeedsBase(NamedTuple):
    """The process is another one: it needs the whole base."""


@dataclass
class _Kept:
    """What a process remembers of a worker's last round."""

    job: str
    version: int
    base: AnyLearner
    cursor: Cursor


_kept: dict[int, _Kept] = {}


@dataclass(frozen=True)
class Round:
    """A worker's task: up to ``rows`` rows from ``place`` on, learned on top of base number ``version``.

    The base is whole, or a change of the base before it, for processes that remember that one.
    """

    job: str
    worker: int
    shard: Callable[[], Shard]
    place: Place
    rows: int
    passes: int
    version: int
    classes: int
    totals: NDArray[np.float64] | None
    base: Callable[[], AnyLearner] | None = None
    change: Callable[[], Change] | None = None
    threshold: float = 0.0  # scores above it are positive, for the metrics

    def __call__(self) -> Answer | NeedsBase:
        """Learns."""
        base = self._base()
        if base is None:
            return NeedsBase()
        cursor, learner = self._cursor(), copy_learner(base)
        progress = begin_round(self.classes, self.totals, self.threshold)
        rows, hashed = 0, "hashing" in cursor.stream.feature_space
        for batch in cursor.take(self.rows):
            labels = batch.require_labels()
            learner = fitting(learner, batch.n_features, hashed)
            progress.update(learner.learn(batch), labels, batch.weights)
            rows += len(batch)
        _kept[self.worker] = _Kept(self.job, self.version, base, cursor)
        return Answer(
            delta(base, learner), cursor.place, round_counts(progress), rows, cursor.over, cursor.most_skipped
        )

    def _base(self) -> AnyLearner | None:
        if self.base is not None:
            return copy_learner(self.base())  # what engines share may be read-only
        kept = _kept.get(self.worker)
        if kept is None or kept.job != self.job:
            return None
        if kept.version == self.version:
            return kept.base
        if kept.version == self.version - 1 and self.change is not None:
            return apply_delta(kept.base, self.change())
        return None

    def _cursor(self) -> Cursor:
        kept = _kept.pop(self.worker, None)  # not there again if this round fails
        if kept is not None and kept.job == self.job and kept.cursor.place == self.place:
            return kept.cursor
        return Cursor(self.shard().open(), self.place, self.passes)


@dataclass(frozen=True)
class Idle:
    """The task of a worker that has nothing to do in a round."""

    def __call__(self) -> None:
        """Nothing."""
