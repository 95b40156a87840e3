"""Thresholds that keep a promise: so many of the positives found, or so few of the negatives called positive."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.score_bins import below_bin, bins_of

#: Finer bins than those of metrics: sign, 8 bits of exponent and 7 of mantissa of a float32.
BINS, _SHIFT = 1 << 16, np.uint32(16)


class Goal(NamedTuple):
    """What a threshold is to reach: the highest one with this recall, or the lowest with no more false alarms.

    >>> Goal.of(recall=0.9)
    Goal(kind='recall', share=0.9)
    """

    kind: str  # "recall", the share of positives found, or "false_alarms", the share of negatives called positive
    share: float

    @classmethod
    def of(cls, recall: float | None = None, false_alarms: float | None = None) -> Self:
        """One of the two; anything else raises."""
        given = {"recall": recall, "false_alarms": false_alarms}
        asked = {kind: share for kind, share in given.items() if share is not None}
        if len(asked) != 1:
            raise InvalidParameterError(f"a threshold is chosen for recall or for false_alarms, got {given}")
        ((kind, share),) = asked.items()
        try:
            fine = 0.0 < share <= 1.0 if kind == "recall" else 0.0 <= share < 1.0
        except TypeError:
            fine = False
        if not fine:
            allowed = "above 0, at most 1" if kind == "recall" else "from 0 to below 1"
            raise InvalidParameterError(f"{kind} must be a share {allowed}, got {share!r}")
        return cls(kind, float(share))

    def above(self, rows: int) -> int:
        """How many of so many rows of its class must (recall) or may (false alarms) be above the threshold."""
        exact = self.share * rows
        return max(math.ceil(exact - 1e-9), 1) if self.kind == "recall" else math.floor(exact + 1e-9)

    @property
    def positive(self) -> bool:
        """Whether it is about the rows of the positive class."""
        return self.kind == "recall"


def choose(goal: Goal, scores: Any, positive: Any) -> float:
    """The threshold, a number of the scores' own precision, that keeps the promise on these very scores.

    >>> scores, positive = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    >>> choose(Goal.of(false_alarms=0.5), scores, positive), bool(choose(Goal.of(recall=1.0), scores, positive) < 0.35)
    (0.1, True)
    """
    scores, positive = np.asarray(scores), np.asarray(positive, dtype=bool)
    if scores.ndim != 1 or scores.shape != positive.shape or scores.dtype.kind != "f":
        raise InvalidInputError(
            f"scores and labels must be vectors of one length, got {scores.dtype} of {scores.shape} and "
            f"{positive.shape}"
        )
    own = np.sort(scores[positive == goal.positive])[::-1]
    if not np.isfinite(scores).all():
        raise InvalidInputError("scores must be finite")
    if not len(own):
        raise InvalidInputError(f"no row is {'positive' if goal.positive else 'negative'}: {goal.kind} is undefined")
    k = goal.above(len(own))
    # a score must be above the threshold: for recall the next number below the last that counts
    return float(np.nextafter(own[k - 1], scores.dtype.type(-np.inf)) if goal.positive else own[k])


class Chosen(NamedTuple):
    """A threshold, and what it does to the rows it was chosen on."""

    threshold: float
    rows: int
    recall: float
    false_alarms: float
    precision: float


class RecentScores:
    """Scores of the later rows of a stream, in 2^16 bins, from which a threshold is chosen.

    Scores before each update are of many models: those of the first rows are of one that knew nothing. So only later
    rows count: of n from the 2^(k−1)-th on, where 2^k ≤ n < 2^(k+1), which is between a half and three quarters of all.
    Scores that agree in sign, exponent and 7 bits of the mantissa, at most 1/128 of their size apart, are not told
    apart; the promise is kept on the safe side. Memory is constant (2 MB), and any way of cutting a stream into chunks
    gives the same counts.

    Examples
    --------
    >>> recent = RecentScores()
    >>> recent.update(np.linspace(-4.0, 4.0, 1000)[::-1], np.tile([-1, 1], 500).astype(np.int8))
    >>> found = recent.choose(Goal.of(recall=0.9))
    >>> found.recall >= 0.9, found.rows
    (True, 744)

    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, 2, BINS), np.int64)  # rows before and after the last power of two; by class
        self._rows = 0

    def update(self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[Any] | None = None) -> None:
        """Takes the next rows: finite scores, labels ±1, weights; rows of weight 0 are left out."""
        places, positive = bins_of(scores, _SHIFT), (y > 0).astype(np.intp)
        if weights is not None:
            places, positive = places[weights != 0], positive[weights != 0]
        while len(places):
            until = 1 << self._rows.bit_length()  # the next power of two
            now = min(len(places), until - self._rows)
            np.add.at(self._counts[1], (positive[:now], places[:now]), 1)
            self._rows, places, positive = self._rows + now, places[now:], positive[now:]
            if self._rows == until:
                self._counts[0], self._counts[1] = self._counts[1], 0

    def choose(self, goal: Goal) -> Chosen | None:
        """The threshold; None if no row of the class it is about has come."""
        counts = self._counts.sum(axis=0)
        above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # rows in this bin and all higher ones
        negatives, positives = above[:, 0].tolist()
        own = above[int(goal.positive)]
        if not own[0]:
            return None
        k = goal.above(int(own[0]))
        fits = own >= k if goal.positive else own <= k
        lowest = int(np.flatnonzero(fits)[-1 if goal.positive else 0])
        false, found = above[:, lowest].tolist()
        return Chosen(
            below_bin(lowest, _SHIFT),
            negatives + positives,
            found / positives if positives else math.nan,
            false / negatives if negatives else math.nan,
            found / (found + false) if found + false else math.nan,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything it knows, for a checkpoint; most bins are empty."""
        places = np.flatnonzero(self._counts)
        return {"places": places, "numbers": self._counts.reshape(-1)[places], "rows": np.array([self._rows])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The scores `arrays` was called on."""
        recent, places, numbers = cls(), arrays["places"], arrays["numbers"]
        fine = places.shape == numbers.shape and np.all((places >= 0) & (places < recent._counts.size))
        if not (fine and 0 <= numbers.sum() <= arrays["rows"][0]):
            raise InvalidInputError("the arrays of recent scores contradict each other")
        recent._counts.reshape(-1)[places] = numbers
        recent._rows = int(arrays["rows"][0])
        return recent
