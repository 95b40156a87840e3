"""Progressive validation of a model whose classes are met as they come."""

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.evaluate.progress import Progress
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.evaluate.score_bins import bins_of
from thinstream.evaluate.tally import CALLED, MOST_CLASSES, RIGHT, SEEN, ClassTally
from thinstream.learners.classes import Classes
from thinstream.learners.growing_classes import called, known_before


class GrowingTally(NamedTuple):
    """Of classes met so far; a class can be called once it was met."""

    classes: NDArray[np.int64]  # as of `ClassTally`
    uncalled: NDArray[np.int64]  # rows before which no class was known: the first, if it counts

    @classmethod
    def empty(cls, n_classes: int) -> Self:
        """Nothing counted yet."""
        return cls(np.zeros((3, n_classes), np.int64), np.zeros(1, np.int64))

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self.classes[SEEN].sum())

    def is_consistent(self) -> bool:
        """Whether its parts can be of one stream."""
        seen, called_, right = self.classes
        whole = seen.sum() == called_.sum() + self.uncalled[0]
        return bool(whole and self.uncalled[0] <= 1 and (right <= np.minimum(seen, called_)).all())

    def grown(self, n_classes: int) -> Self:
        """With room for so many classes."""
        more = n_classes - self.classes.shape[1]
        return self._replace(classes=np.pad(self.classes, ((0, 0), (0, more)))) if more > 0 else self

    def add(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None, known: int) -> None:
        """Counts rows: scores are rows × classes, y the numbers of their classes, ``known`` were before the first."""
        n, calls = self.classes.shape[1], called(scores, known_before(y, known))
        if weights is not None:
            calls, y = calls[weights != 0], y[weights != 0]
        for count, rows in ((SEEN, y), (CALLED, calls[calls >= 0]), (RIGHT, y[calls == y])):
            self.classes[count] += np.bincount(rows, minlength=n)
        self.uncalled[0] += np.count_nonzero(calls < 0)

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics; a tradeoff is for two classes."""
        return replace(ClassTally.of_counts(self.classes).report(tradeoff), each=True)


class GrowingProgress(Progress):
    """As `Progress`, of classes that are met as they come, in the order of their numbers; ``n_classes`` are known.

    Examples
    --------
    >>> import numpy as np
    >>> progress = GrowingProgress(0)
    >>> progress.update(np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]), np.array([0, 1, 1], np.int32))
    >>> round(progress.report().error, 3)  # both first rows of a class are mistakes
    0.667

    """

    def __init__(self, n_classes: int = 0, threshold: float = 0.0) -> None:
        self.threshold = threshold
        self._now: Any = GrowingTally.empty(n_classes)
        self._mark: Any = GrowingTally.empty(n_classes)

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Takes the next rows: scores of each class met by their end, and numbers of classes in int32."""
        known = self._now.classes.shape[1]
        n = max(known, int(np.max(y, initial=-1)) + 1)
        if scores.shape != (len(y), n) or y.dtype != np.int32 or not np.isfinite(scores).all():
            raise InvalidInputError(
                f"scores and y must be rows × {n}, finite, and numbers of classes in int32, got shapes {scores.shape} "
                f"and {y.shape}, {y.dtype.name}"
            )
        self._now, self._mark = self._now.grown(n), self._mark.grown(n)
        self._now.add(scores, y, weights, known)


class KnownProgress(Progress):
    """As `Progress`, of a model whose classes were met before; one that it has not met is never called.

    Each class has a score of its own, of one or two as well. Scores have a column for every class met, that of a class
    unknown to the model the lowest number there is.
    """

    def __init__(self, n_classes: int) -> None:
        self.threshold = 0.0
        self._now: Any = ClassTally.empty(n_classes)
        self._mark: Any = ClassTally.empty(n_classes)

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Takes the next rows: scores of each class met by their end, and numbers of classes in int32."""
        self._now, self._mark = (_with_room(tally, scores.shape[1]) for tally in (self._now, self._mark))
        super().update(scores, y, weights)

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the start."""
        return replace(super().report(tradeoff), each=True)


def _with_room(tally: ClassTally, n_classes: int) -> ClassTally:
    """With room for so many classes: to the new ones rows so far had the lowest score, and were of others."""
    more = n_classes - tally.classes.shape[1]
    if more <= 0:
        return tally
    classes = np.pad(tally.classes, ((0, 0), (0, more)))
    if n_classes > MOST_CLASSES:
        return ClassTally.of_counts(classes)
    bins = np.pad(tally.bins, ((0, 0), (0, more), (0, 0)))
    bins[0, -more:, bins_of(np.array([np.finfo(np.float32).min]))] = tally.rows
    return ClassTally(classes, np.pad(tally.confusion, (0, more)), bins)


def progress_for(classes: Classes, threshold: float = 0.0) -> Progress:
    """What counts the scores of a model of these classes that decides by this threshold, if they are two."""
    return GrowingProgress(len(classes)) if classes.grow else Progress(len(classes), threshold)
