"""What a portfolio is worth: its head over kept scores, judged on the later half of each stream."""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from benchmarks.portfolio.candidates import CANDIDATES, Candidate
from benchmarks.portfolio.scores import Kept, Stream
from numpy.typing import NDArray

from thinstream.models.blend import COUNTING
from thinstream.models.head import Counting, Head

#: What errors count beside losses, which are less noisy.
ERRORS = 0.75


class Outcome(NamedTuple):
    """Of a portfolio on a set, the mean over its orders."""

    error: float  # in percent
    loss: float  # logarithmic
    rows: int  # that were judged, of one order


class Judge:
    """Runs heads over kept scores; ``counting`` is how much rows count in them."""

    def __init__(
        self, kept: Mapping[Stream, Kept], counting: Counting = COUNTING, candidates: Sequence[Candidate] = CANDIDATES
    ) -> None:
        self.counting, self.names = counting, [str(one) for one in candidates]
        self._cut = {stream: one.cut for stream, one in kept.items()}
        self._scores = {stream: np.ascontiguousarray(one.scores.T) for stream, one in kept.items()}
        self._y = {stream: one.y for stream, one in kept.items()}
        self.sets = list(dict.fromkeys(stream.set for stream in kept))

    def columns(self, names: Sequence[str]) -> list[int]:
        """The columns of candidates with these names."""
        return [self.names.index(name) for name in names]

    def has(self, name: str, column: int) -> bool:
        """Whether a candidate could learn a set at all."""
        return all(np.isfinite(scores[column, 0]) for stream, scores in self._scores.items() if stream.set == name)

    def outcome(self, name: str, columns: Sequence[int]) -> Outcome:
        """Of a portfolio on a set."""
        found = [self._judged(stream, columns) for stream in self._scores if stream.set == name]
        errors, losses, rows = zip(*found, strict=True)
        return Outcome(float(np.mean(errors)), float(np.mean(losses)), rows[0])

    def outcomes(self, columns: Sequence[int]) -> dict[str, Outcome]:
        """Of a portfolio on all sets."""
        return {name: self.outcome(name, columns) for name in self.sets}

    def _judged(self, stream: Stream, columns: Sequence[int]) -> tuple[float, float, int]:
        z = self.blended(stream, columns)
        first = self._cut[stream] if self._cut[stream] < len(z) else len(z) // 2
        positive, z = self._y[stream][first:] > 0, z[first:]
        loss = np.logaddexp(0.0, np.where(positive, -z, z)).mean()
        return 100 * float(np.mean((z > 0) != positive)), float(loss), len(z)

    def counted(self, counting: Counting) -> "Judge":
        """The same with heads in which rows count like that."""
        found = copy(self)
        found.counting = counting
        return found

    def blended(self, stream: Stream, columns: Sequence[int]) -> NDArray[np.float64]:
        """The blend's score of each row before it was learned; rows from the cut on are not."""
        scores, y, cut = self._scores[stream][list(columns)].T, self._y[stream], self._cut[stream]
        head = Head(len(columns), counting=self.counting)
        z = head.learn(scores[:cut], y[:cut])
        there = ~head.gone
        return np.concatenate([z, scores[cut:, there] @ head.coefficients()[there]])


def worse(one: Mapping[str, Outcome], other: Mapping[str, Outcome]) -> float:
    """By how many percent errors and losses are above the other's: the geometric mean over sets, and of the two.

    >>> a, b = {"s": Outcome(11.0, 0.3, 1000)}, {"s": Outcome(10.0, 0.3, 1000)}
    >>> round(worse(a, b), 1)
    7.3
    """
    return 100 * math.expm1(sum(_ratio(one[name], other[name]) for name in one) / len(one))


def _ratio(one: Outcome, other: Outcome) -> float:
    errors = math.log(_some(one) / _some(other))
    return ERRORS * errors + (1 - ERRORS) * math.log(one.loss / other.loss)


def _some(outcome: Outcome) -> float:
    """The error as if there were one mistake more: a set without mistakes must not decide all."""
    return outcome.error + 100 / outcome.rows
