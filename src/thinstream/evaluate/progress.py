"""Progressive validation: what is known of a model from the scores it gave before it learned each row."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.evaluate.tally import ClassTally, Tally

_MARK = "mark_"


class Progress:
    """Metrics of a stream, kept up to date in constant memory and O(1) a row.

    Feed it the scores each row got before it was learned from (what `Learner.learn` returns). Every row counts once,
    whatever its weight; rows of weight 0, which are not learned from, are left out. Sums are strictly sequential: any
    way of cutting a stream into chunks gives the same bits.

    AUC and average precision are those of scores sorted into 2^14 bins: scores of one sign that agree in the exponent
    and 5 bits of the mantissa, at most 1/32 of their size apart, are taken as equal. `Report.auc_bound` is half the
    share of the pairs (positive, negative) in one bin; the exact AUC is within it. `Report.average_precision_bound` is
    the like. Of more than 64 classes neither bins nor the confusion matrix are kept.

    Parameters
    ----------
    n_classes : int, default=2
    threshold : float, default=0
        Of two classes: a score above it is called positive.

    Examples
    --------
    >>> import numpy as np
    >>> progress = Progress()
    >>> progress.update(np.array([-1.0, 0.5, 2.0]), np.array([-1, -1, 1], np.int8))
    >>> progress.report().specificity
    0.5
    >>> progress.mark()
    >>> progress.update(np.array([0.25]), np.array([1], np.int8))
    >>> progress.since_mark().rows, progress.report().rows
    (1, 4)
    >>> progress.report().auc
    0.75

    """

    def __init__(self, n_classes: int = 2, threshold: float = 0.0) -> None:
        self.threshold = threshold
        kind = Tally if n_classes == 2 else ClassTally
        self._now: Tally | ClassTally = kind.empty(n_classes)
        self._mark: Tally | ClassTally = kind.empty(n_classes)

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Takes the next rows: their scores (finite), labels and weights. Bad input raises; nothing is counted.

        Scores and labels are as learners give and take them: of two classes a score a row and ±1, of more a score for
        each class and the class's number in int32.
        """
        self._now.add(np.asarray(scores), np.asarray(y), weights, self.threshold)

    @property
    def counted(self) -> Tally | ClassTally:
        """What was counted since the start."""
        return self._now

    @property
    def rows(self) -> int:
        """Rows counted."""
        return self._now.rows

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the start."""
        return self._now.report(tradeoff)

    def mark(self) -> None:
        """Remembers this moment, in place of the last mark."""
        self._mark = _map(np.copy, self._now)

    def since_mark(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the last mark (since the start without one): the difference of what was counted.

        Counts are exact. Mean losses are differences of sums over the whole stream, so exact to 1e-16 of those.
        """
        with np.errstate(invalid="ignore"):  # sums that have become infinite
            return _map(np.subtract, self._now, self._mark).report(tradeoff)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, the mark included, as named arrays (copies)."""
        return {
            prefix + name: array.copy()
            for prefix, tally in (("", self._now), (_MARK, self._mark))
            for name, array in tally._asdict().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], threshold: float = 0.0) -> Self:
        """The run that `arrays` was called on, bit for bit; other arrays raise."""
        progress = cls(np.shape(arrays["classes"])[-1] if "classes" in arrays else 2, threshold)
        fresh = progress._now
        now, mark = (
            type(fresh)(*(_stored(arrays, prefix + name, like) for name, like in fresh._asdict().items()))
            for prefix in ("", _MARK)
        )
        grew = all(np.all(later >= earlier) for later, earlier in zip(now, mark, strict=True))
        if not (grew and now.is_consistent() and mark.is_consistent()):
            raise InvalidInputError(
                "the arrays of a Progress contradict each other: counts and bins of different runs?"
            )
        progress._now, progress._mark = now, mark
        return progress


def _map(function: Callable[..., NDArray[Any]], *tallies: Tally | ClassTally) -> Tally | ClassTally:
    """The function of each array."""
    return type(tallies[0])(*(function(*arrays) for arrays in zip(*tallies, strict=True)))


def _stored(arrays: Mapping[str, NDArray[Any]], name: str, like: NDArray[Any]) -> NDArray[Any]:
    """A copy of a stored array, of the kind it must have."""
    if name not in arrays:
        raise InvalidInputError(f"the arrays of a Progress must include {name!r}, got {sorted(arrays)}")
    array = np.asarray(arrays[name])
    if array.dtype != like.dtype or array.shape != like.shape:
        raise InvalidInputError(
            f"{name} of a Progress must be {like.dtype} of shape {like.shape}, got {array.dtype} of shape {array.shape}"
        )
    if not np.all(array >= 0):
        raise InvalidInputError(f"{name} of a Progress must be numbers >= 0, got {array[~(array >= 0)][0]}")
    return np.array(array, order="C")
