"""Successive elimination: candidates that are hopeless are dropped on the way, and their memory returned.

Whenever the number of rows has doubled, the later half of them is looked at in 16 stretches. In each every candidate
was scored on the same rows, so its gap to the leader (the best of all rows so far) is a paired difference, and the 16
gaps tell their own standard error, whatever the measure. A candidate is dropped if its mean gap is more than 5 standard
errors (with 15 degrees of freedom one in 12,000, were it as good), and more than half of what it was one doubling
earlier: one that is catching up may stay. The leader is never dropped.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from thinstream.tune.lane_counts import LaneCounts
from thinstream.tune.scoring import Scoring
from thinstream.tune.study import Study
from thinstream.tune.trials import Trial

#: Rows before anyone is judged; a power of two, as all later times.
FIRST = 512
STRETCHES = 16
SIGMAS = 5.0


class Elimination:
    """Drops lanes of hopeless candidates; its `visit` and `halts` are for `study_stream`.

    Parameters
    ----------
    lanes : sequence of Trial
        All of them.
    scoring : Scoring
    held_out : bool
        Whether candidates are judged by held-out rows, or by learned ones before they were.

    """

    def __init__(self, lanes: Sequence[Trial], scoring: Scoring, held_out: bool) -> None:
        self.scoring, self.held_out = scoring, held_out
        self.dropped: dict[int, int] = {}  # candidate: rows there were
        self._candidates = np.array([lane.candidate for lane in lanes])
        self._judged = np.array([not held_out or lane.split >= 0 for lane in lanes])
        self._study: Study | None = None

    @staticmethod
    def halts(rows: int) -> int:
        """Rows until the next stretch ends."""
        if rows < FIRST // 2:
            return FIRST // 2 - rows
        length = (1 << (rows.bit_length() - 1)) // STRETCHES
        return length - rows % length

    def visit(self, study: Study, numbers: list[int]) -> list[int]:
        """Looks at a study where a stretch ends."""
        candidates = np.unique(self._candidates[numbers])
        if study is not self._study:  # another pass, or the same from its beginning
            self._study, self._marks, self._gaps = study, list[LaneCounts](), dict[int, float]()
            self.dropped = {c: rows for c, rows in self.dropped.items() if c not in candidates}
        if study.rows < FIRST // 2 or study.rows % ((1 << (study.rows.bit_length() - 1)) // STRETCHES):
            return numbers
        self._marks.append(self._pooled(study, numbers, candidates))
        if len(self._marks) <= STRETCHES:
            return numbers
        hopeless = self._hopeless(candidates)
        self._marks = self._marks[-1:]
        if not hopeless:
            return numbers
        self.dropped.update(dict.fromkeys(hopeless, study.rows))
        kept = [k for k, number in enumerate(numbers) if self._candidates[number] not in hopeless]
        study.keep(kept)
        self._marks = [mark.take([c not in hopeless for c in candidates]) for mark in self._marks]
        return [numbers[k] for k in kept]

    def _pooled(self, study: Study, numbers: list[int], candidates: NDArray[np.int64]) -> LaneCounts:
        """The counts of each candidate's lanes together."""
        counted = study.tallies.held_out if self.held_out else study.tallies.learned
        places = np.where(self._judged[numbers], np.searchsorted(candidates, self._candidates[numbers]), -1)
        return counted.pooled(places, len(candidates))

    def _hopeless(self, candidates: NDArray[np.int64]) -> set[int]:
        so_far = self.scoring.scores(self._marks[-1])
        if not np.isfinite(so_far).any():
            return set()
        leader = int(np.nanargmax(so_far))
        stretches = [later.minus(earlier) for earlier, later in zip(self._marks, self._marks[1:], strict=False)]
        scores = np.array([self.scoring.scores(stretch) for stretch in stretches])
        gaps = scores[:, [leader]] - scores
        found = set()
        for place, candidate in enumerate(candidates.tolist()):
            gap, spread = float(gaps[:, place].mean()), float(gaps[:, place].std(ddof=1)) / math.sqrt(STRETCHES)
            before = self._gaps.get(candidate, math.inf)
            self._gaps[candidate] = gap
            if gap > 0.0 and gap > SIGMAS * spread and gap > before / 2:  # not if anything is NaN
                found.add(candidate)
        return found
