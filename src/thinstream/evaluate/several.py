"""Progressive validation of more than two classes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.evaluate.progressive import Progress
from thinstream.evaluate.report import P3, Tradeoff

SEEN, CALLED, RIGHT = range(3)


@dataclass(frozen=True, slots=True)
class ClassReport:
    """Metrics of a stream of more than two classes. A row is called the class of highest score; undefined is NaN."""

    rows: int
    error: float  # share of rows called wrong
    balanced_accuracy: float  # mean recall of the classes that have occurred
    macro_f1: float  # mean F1 of the classes that have occurred
    examples: tuple[int, ...]  # of each class
    recall: tuple[float, ...]  # share of each class's rows called it
    precision: tuple[float, ...]  # share of the rows called each class that are of it

    def as_dict(self) -> dict[str, Any]:
        """Names and numbers, ready for JSON: None in place of what is not finite."""
        return {
            "rows": self.rows,
            "error": _finite(self.error),
            "balanced_accuracy": _finite(self.balanced_accuracy),
            "macro_f1": _finite(self.macro_f1),
            "examples": list(self.examples),
            "recall": [_finite(value) for value in self.recall],
            "precision": [_finite(value) for value in self.precision],
        }

    @property
    def alternation(self) -> float:
        """Share of rows with another label than the row before, were their order random."""
        return 1.0 - sum((count / self.rows) ** 2 for count in self.examples) if self.rows else 0.0


class ClassProgress:
    """`Progress` for more than two classes: counts of each, so that any chunks give the same numbers.

    Examples
    --------
    >>> progress = ClassProgress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> progress.report().error, progress.report().recall
    (0.5, (nan, 1.0, 0.0))

    """

    def __init__(self, classes: int) -> None:
        self._now = np.zeros((3, classes), np.int64)
        self._mark = self._now.copy()

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Takes the next rows: scores rows × classes, numbers of classes, weights; those of weight 0 do not count."""
        classes = self._now.shape[1]
        if scores.shape != (len(y), classes) or y.dtype != np.int32:
            raise InvalidInputError(
                f"scores and y must be rows × {classes} and numbers of classes in int32, got shapes {scores.shape} and "
                f"{y.shape}, {y.dtype.name}"
            )
        if not np.isfinite(scores).all():
            raise InvalidInputError("scores must be finite")
        if weights is not None:
            scores, y = scores[weights != 0], y[weights != 0]
        called = np.argmax(scores, axis=1)
        for count, rows in ((SEEN, y), (CALLED, called), (RIGHT, y[called == y])):
            self._now[count] += np.bincount(rows, minlength=classes)

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self._now[SEEN].sum())

    def report(self, tradeoff: Tradeoff = P3) -> ClassReport:
        """The metrics since the start; a tradeoff is for two classes."""
        return _report(self._now)

    def mark(self) -> None:
        """Remembers this moment, in place of the last mark."""
        self._mark = self._now.copy()

    def since_mark(self, tradeoff: Tradeoff = P3) -> ClassReport:
        """The metrics since the last mark (since the start without one)."""
        return _report(self._now - self._mark)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, the mark included, as named arrays (copies)."""
        return {"classes": self._now.copy(), "mark_classes": self._mark.copy()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The run that `arrays` was called on; other arrays raise."""
        now, mark = (arrays.get(name) for name in ("classes", "mark_classes"))
        if now is None or mark is None or now.shape != mark.shape or now.ndim != 2 or now.shape[0] != 3:
            raise InvalidInputError(f"the arrays of a ClassProgress are missing or broken, got {sorted(arrays)}")
        sound = all(counts.dtype == np.int64 and (counts >= 0).all() for counts in (now, mark))
        if not sound or (now < mark).any() or now[SEEN].sum() != now[CALLED].sum() or (now[RIGHT] > now[SEEN]).any():
            raise InvalidInputError("the arrays of a ClassProgress contradict each other")
        progress = cls(now.shape[1])
        progress._now[:], progress._mark[:] = now, mark
        return progress


AnyProgress = Progress | ClassProgress


def progress_for(classes: int) -> AnyProgress:
    """What counts for a model of so many classes."""
    return Progress() if classes == 2 else ClassProgress(classes)


def _report(counts: NDArray[np.int64]) -> ClassReport:
    seen, called, right = counts.astype(np.float64)
    rows, there = int(counts[SEEN].sum()), counts[SEEN] > 0
    with np.errstate(invalid="ignore"):  # 0/0 is NaN
        recall, precision = right / seen, right / called
        f1 = 2.0 * right / (seen + called)
    return ClassReport(
        rows=rows,
        error=1.0 - float(right.sum()) / rows if rows else math.nan,
        balanced_accuracy=float(recall[there].mean()) if rows else math.nan,
        macro_f1=float(f1[there].mean()) if rows else math.nan,
        examples=tuple(counts[SEEN].tolist()),
        recall=tuple(recall.tolist()),
        precision=tuple(precision.tolist()),
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
