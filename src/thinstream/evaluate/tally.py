"""What is counted of a stream: everything a `Report` says follows from it.

A tally is a tuple of arrays, all of which only grow: so tallies add up, and their difference is what came in between.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.errors import InvalidInputError
from thinstream.evaluate.report import P3, Report, Tradeoff
from thinstream.evaluate.score_bins import BINS, LARGEST, SHIFT, area_under_roc, average_precision, bins_of
from thinstream.jit import compiled

ROWS, POSITIVES, FALSE_NEGATIVES, FALSE_POSITIVES = range(4)
HINGE, LOG_LOSS = range(2)
SEEN, CALLED, RIGHT = range(3)
#: Classes up to which the confusion matrix and bins of scores of each are kept (a quarter of a megabyte a class).
MOST_CLASSES = 64

_EVERY_WEIGHT_1 = np.empty(0)
_LARGEST, _SHIFT = LARGEST, SHIFT
_SIGN, _ALL, _TOP = np.uint32(1 << 31), np.uint32(2**32 - 1), np.uint32(31)


class Tally(NamedTuple):
    """Of two classes."""

    counts: NDArray[np.int64]  # rows, positives, false negatives, false positives
    totals: NDArray[np.float64]  # sums of hinge and logistic loss
    bins: NDArray[np.int64]  # rows per bin of the score: of negatives, of positives

    @classmethod
    def empty(cls, n_classes: int = 2) -> Self:
        """Nothing counted yet."""
        return cls(np.zeros(4, np.int64), np.zeros(2), np.zeros((2, BINS), np.int64))

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self.counts[ROWS])

    def is_consistent(self) -> bool:
        """Whether its parts can be of one stream."""
        rows, positives, missed, false = self.counts.tolist()
        binned = self.bins.sum(axis=1).tolist()
        return bool(binned == [rows - positives, positives] and missed <= positives and false <= rows - positives)

    def add(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None, threshold: float = 0.0) -> None:
        """Counts rows: scores, labels ±1 and weights are vectors; a score above the threshold is called positive."""
        w = _EVERY_WEIGHT_1 if weights is None else np.asarray(weights)
        if scores.ndim != 1 or y.shape != scores.shape or (weights is not None and w.shape != scores.shape):
            shapes = f"{scores.shape}, {y.shape} and {'None' if weights is None else w.shape}"
            raise InvalidInputError(f"scores, y and weights must be vectors of one length, got shapes {shapes}")
        if scores.dtype.char not in "fd":
            scores = _cast(scores, np.float64, "scores")
        cell = np.zeros(1, np.float32)
        arguments = (
            plain(np.ascontiguousarray(scores)),
            plain(np.ascontiguousarray(_cast(y, np.int8, "y"))),
            plain(np.ascontiguousarray(_cast(w, np.float64, "weights"))),
            self,
            cell,
            cell.view(np.uint32),
            float(threshold),
        )
        with np.errstate(over="ignore", under="ignore"):  # interpreted, numpy would warn where compiled code does not
            fine = _count(*arguments)
        if not fine:
            raise _error(scores, y, w)

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics."""
        rows, positives, missed, false = self.counts.tolist()
        negatives = rows - positives
        right = negatives - false, positives - missed
        classes = _by_class((negatives, positives), (right[0] + missed, right[1] + false), right)
        specificity, sensitivity = classes["recall"]
        auc, bound = area_under_roc(*self.bins)
        precision, precision_bound = average_precision(*self.bins)
        return Report(
            rows=rows,
            error=_share(missed + false, rows),
            balanced_accuracy=(sensitivity + specificity) / 2,
            **classes,
            weighted_sum=tradeoff.alpha_p * sensitivity + tradeoff.alpha_n * specificity,
            cost=tradeoff.c_p * missed + tradeoff.c_n * false,
            log_loss=_share(float(self.totals[LOG_LOSS]), rows),
            hinge=_share(float(self.totals[HINGE]), rows),
            auc=auc,
            auc_bound=bound,
            average_precision=precision,
            average_precision_bound=precision_bound,
            confusion=((right[0], false), (missed, right[1])),
        )


class ClassTally(NamedTuple):
    """Of more than two classes."""

    classes: NDArray[np.int64]  # rows of each class, rows called it, and those of them that are of it
    confusion: NDArray[np.int64]  # rows of each class called each; without a row where there are too many classes
    bins: NDArray[np.int64]  # rows per bin of each class's score: of other classes, of it; likewise

    @classmethod
    def empty(cls, n_classes: int) -> Self:
        """Nothing counted yet."""
        k = n_classes if n_classes <= MOST_CLASSES else 0
        return cls(np.zeros((3, n_classes), np.int64), np.zeros((k, k), np.int64), np.zeros((2, k, BINS), np.int64))

    @classmethod
    def of_counts(cls, classes: NDArray[np.int64]) -> Self:
        """Without confusion matrix and bins."""
        return cls(classes, np.zeros((0, 0), np.int64), np.zeros((2, 0, BINS), np.int64))

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self.classes[SEEN].sum())

    def is_consistent(self) -> bool:
        """Whether its parts can be of one stream."""
        seen, called, right = self.classes
        fine = bool(seen.sum() == called.sum() and (right <= np.minimum(seen, called)).all())
        if not len(self.confusion):
            return fine
        others, own = self.bins.sum(axis=2)
        matrix = self.confusion.sum(axis=1), self.confusion.sum(axis=0), np.diagonal(self.confusion)
        return (
            fine and np.array_equal(self.classes, matrix) and np.array_equal((seen.sum() - seen, seen), (others, own))
        )

    def add(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None, threshold: float = 0.0) -> None:
        """Counts rows: scores are rows × classes, y the numbers of their classes; a threshold is for two."""
        n = self.classes.shape[1]
        if scores.shape != (len(y), n) or y.dtype != np.int32:
            raise InvalidInputError(
                f"scores and y must be rows × {n} and numbers of classes in int32, got shapes {scores.shape} and "
                f"{y.shape}, {y.dtype.name}"
            )
        if not np.isfinite(scores).all():
            raise InvalidInputError("scores must be finite")
        if len(y) and not (y.min() >= 0 and y.max() < n):
            raise InvalidInputError(f"y must be from 0 to {n - 1}, got {y.min()} to {y.max()}")
        if weights is not None:
            scores, y = scores[weights != 0], y[weights != 0]
        called = np.argmax(scores, axis=1)
        for count, rows in ((SEEN, y), (CALLED, called), (RIGHT, y[called == y])):
            self.classes[count] += np.bincount(rows, minlength=n)
        if len(self.confusion):
            np.add.at(self.confusion, (y, called), 1)
            own = (y[:, np.newaxis] == np.arange(n)).astype(np.intp)
            places = (own * n + np.arange(n)) * BINS + bins_of(scores)
            np.add.at(self.bins.reshape(-1), places.reshape(-1), 1)

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics; a tradeoff is for two classes."""
        seen, called, right = self.classes.tolist()
        classes = _by_class(seen, called, right)
        found = [average_precision(*bins) for bins in self.bins.swapaxes(0, 1)]
        precisions, bounds = zip(*found, strict=True) if found else ((), ())
        return Report(
            rows=self.rows,
            error=1.0 - _share(sum(right), self.rows),
            balanced_accuracy=_mean(classes["recall"]),
            **classes,
            average_precision=_mean(precisions),
            average_precision_bound=_mean(bounds),
            average_precisions=precisions,
            confusion=tuple(map(tuple, self.confusion.tolist())),
        )


def _by_class(seen: Any, called: Any, right: Any) -> dict[str, Any]:
    """What a report says of each class, from the rows of it, called it, and both."""
    recall, precision = tuple(map(_share, right, seen)), tuple(map(_share, right, called))
    f1 = tuple(_share(2.0 * r, s + c) for s, c, r in zip(seen, called, right, strict=True))
    rows = sum(seen)
    return {
        "baseline": 1.0 - _share(max(seen, default=0), rows),
        "macro_f1": _mean(each for each, s in zip(f1, seen, strict=True) if s),
        # a class that occurs and is never called has found nothing
        "macro_precision": _mean(_share(r, max(c, 1)) for s, c, r in zip(seen, called, right, strict=True) if s),
        "examples": tuple(seen),
        "recall": recall,
        "precision": precision,
        "f1": f1,
    }


def _mean(values: Any) -> float:
    """Of those that are defined."""
    found = [value for value in values if not math.isnan(value)]
    return float(np.mean(found)) if found else math.nan


@compiled()
def _count(scores: Any, y: Any, weights: Any, tally: Any, cell: Any, bits: Any, threshold: Any) -> Any:
    """Counts the rows and returns True, or touches nothing if one is bad. ``bits`` are those of ``cell``."""
    bad = np.int64(0)
    for i in range(len(scores)):
        bad += not (np.abs(scores[i]) < np.inf)
        bad += np.abs(y[i]) != 1
    for i in range(len(weights)):
        bad += not (0.0 <= weights[i] < np.inf)
    if bad:
        return False
    counts, bins = tally.counts, tally.bins
    rows, positives = counts[ROWS], counts[POSITIVES]
    missed, false = counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES]
    hinge, log_loss = tally.totals[HINGE], tally.totals[LOG_LOSS]
    for i in range(len(scores)):
        if len(weights) and weights[i] == 0.0:
            continue
        # no branches on labels or signs: they are what cannot be predicted
        s, positive, called = np.float64(scores[i]), y[i] > 0, scores[i] > threshold
        margin = y[i] * s
        rows += 1
        positives += positive
        missed += positive & (not called)
        false += called & (not positive)
        hinge += max(0.0, 1.0 - margin)
        # log1p(small) as log(u)·small/(u − 1), right but for the last bits and faster (Kahan)
        small = np.exp(-np.abs(margin))  # of a negative number only, so nothing overflows
        u = 1.0 + small
        log_loss += max(0.0, -margin) + (np.log(u) * (small / (u - 1.0)) if u > 1.0 else small)
        cell[0] = min(max(s, -_LARGEST), _LARGEST) + 0.0  # no -0.0, which would be below 0
        # patterns grow with |s|: below zero their order is turned, and zero is put in the middle
        bins[np.int64(positive), (bits[0] ^ (_SIGN | (_ALL * (bits[0] >> _TOP)))) >> _SHIFT] += 1
    counts[ROWS], counts[POSITIVES] = rows, positives
    counts[FALSE_NEGATIVES], counts[FALSE_POSITIVES] = missed, false
    tally.totals[HINGE], tally.totals[LOG_LOSS] = hinge, log_loss
    return True


def _share(part: float, whole: int) -> float:
    return part / whole if whole else math.nan


def _cast(array: NDArray[Any], kind: Any, name: str) -> NDArray[Any]:
    """The same numbers in another type."""
    if array.dtype == kind:
        return array
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got dtype {array.dtype}")
    if kind is np.int8:  # what is no label must not become one
        return np.where(np.abs(array) == 1, array, 0).astype(np.int8)
    return array.astype(kind)


def _error(scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any]) -> InvalidInputError:
    """What is wrong, and in which of the rows given."""
    if bad := np.flatnonzero(~np.isfinite(scores)).tolist():
        return InvalidInputError(f"scores must be finite, got {scores[bad[0]]} in row {bad[0]}")
    if bad := np.flatnonzero(np.abs(y) != 1).tolist():
        return InvalidInputError(f"y must be -1 or 1, got {y[bad[0]]} in row {bad[0]}")
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights))).tolist()
    return InvalidInputError(f"weights must be finite and >= 0, got {weights[bad[0]]} in row {bad[0]}")
