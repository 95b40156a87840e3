"""Progressive validation: what is known of a model from the scores it gave before it learned each row."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.errors import InvalidInputError
from thinstream.evaluate.report import (
    BINS,
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    HINGE,
    LOG_LOSS,
    P3,
    POSITIVES,
    ROWS,
    Report,
    Tally,
    Tradeoff,
    empty,
    report,
)
from thinstream.jit import Compiled, keyed_by

_EVERY_WEIGHT_1 = np.empty(0)
_LARGEST = float(np.finfo(np.float32).max)
_SIGN, _ALL = np.uint32(1 << 31), np.uint32(2**32 - 1)
_SHIFT, _TOP = np.uint32(32 - BINS.bit_length() + 1), np.uint32(31)


def _make_count(version: str) -> Callable[..., Any]:
    def count(scores: Any, y: Any, weights: Any, tally: Any, cell: Any, bits: Any) -> Any:
        """Counts the rows and returns True, or touches nothing if one is bad. ``bits`` are those of ``cell``."""
        keyed_by(version)
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
            s, positive, called = np.float64(scores[i]), y[i] > 0, scores[i] > 0.0
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

    return count


_count = Compiled(_make_count, __name__, report.__module__)


class Progress:
    """Metrics of a stream, kept up to date in constant memory (half a megabyte) and O(1) per row.

    Feed it the scores each row got before it was learned from (what `Learner.learn` returns). Every row counts once,
    whatever its weight; rows of weight 0, which are not learned from, are left out. Sums are strictly sequential: any
    way of cutting a stream into chunks gives the same bits.

    The AUC is that of scores sorted into 2^14 bins: scores of one sign that agree in the exponent and 5 bits of the
    mantissa, at most 1/32 of their size apart, are taken as equal. `Report.auc_bound` is half the share of the pairs
    (positive, negative) in one bin; the exact AUC is within it.

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

    def __init__(self) -> None:
        self._now, self._mark = empty(), empty()
        self._cell = np.zeros(1, np.float32)
        self._bits = self._cell.view(np.uint32)
        self._ready: set[str] = set()

    def update(self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[np.float64] | None = None) -> None:
        """Takes the next rows: their scores (finite), labels ±1 and weights. Bad input raises; nothing is counted."""
        scores, y = np.asarray(scores), np.asarray(y)
        w = _EVERY_WEIGHT_1 if weights is None else np.asarray(weights)
        if scores.ndim != 1 or y.shape != scores.shape or (weights is not None and w.shape != scores.shape):
            shapes = f"{scores.shape}, {y.shape} and {'None' if weights is None else w.shape}"
            raise InvalidInputError(f"scores, y and weights must be vectors of one length, got shapes {shapes}")
        if scores.dtype.char not in "fd":
            scores = _cast(scores, np.float64, "scores")
        arguments = (
            plain(np.ascontiguousarray(scores)),
            plain(np.ascontiguousarray(_cast(y, np.int8, "y"))),
            plain(np.ascontiguousarray(_cast(w, np.float64, "weights"))),
            self._now,
            self._cell,
            self._bits,
        )
        if scores.dtype.char not in self._ready:
            _count.ensure(*arguments)
            self._ready.add(scores.dtype.char)
        with np.errstate(over="ignore", under="ignore"):  # interpreted, numpy would warn where compiled code does not
            fine = _count.function(*arguments)
        if not fine:
            raise _offence(scores, y, w)

    @property
    def rows(self) -> int:
        """Rows counted."""
        return int(self._now.counts[ROWS])

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the start."""
        return report(self._now, tradeoff)

    def mark(self) -> None:
        """Remembers this moment, in place of the last mark."""
        self._mark = _combined(np.copy, self._now)

    def since_mark(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the last mark (since the start without one): the difference of what was counted.

        Counts are exact. Mean losses are differences of sums over the whole stream, so exact to 1e-16 of those.
        """
        with np.errstate(invalid="ignore"):  # sums that have become infinite
            return report(_combined(np.subtract, self._now, self._mark), tradeoff)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything, the mark included, as named arrays (copies)."""
        return {
            prefix + name: array.copy()
            for prefix, tally in (("", self._now), ("mark_", self._mark))
            for name, array in tally._asdict().items()
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The run that `arrays` was called on, bit for bit; other arrays raise."""
        progress, fresh = cls(), empty()._asdict()
        for prefix in ("", "mark_"):
            parts = {name: _stored(arrays, prefix + name, like) for name, like in fresh.items()}
            setattr(progress, "_mark" if prefix else "_now", Tally(**parts))
        later, earlier = progress._now, progress._mark
        if not (_consistent(later) and _consistent(earlier)) or any(
            np.any(now < then) for now, then in zip(later, earlier, strict=True)
        ):
            raise InvalidInputError(
                "the arrays of a Progress contradict each other: counts and bins of different runs?"
            )
        return progress


def _combined(function: Callable[..., NDArray[Any]], *tallies: Tally) -> Tally:
    """The function of each array."""
    counts, totals, bins = (function(*arrays) for arrays in zip(*tallies, strict=True))
    return Tally(counts, totals, bins)


def _consistent(tally: Tally) -> bool:
    rows, positives, missed, false = (int(count) for count in tally.counts)
    binned = tally.bins.sum(axis=1).tolist()
    return bool(binned == [rows - positives, positives] and missed <= positives and false <= rows - positives)


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


def _cast(array: NDArray[Any], kind: Any, name: str) -> NDArray[Any]:
    """The same numbers in another type."""
    if array.dtype == kind:
        return array
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got dtype {array.dtype}")
    if kind is np.int8:  # what is no label must not become one
        return np.where(np.abs(array) == 1, array, 0).astype(np.int8)
    return array.astype(kind)


def _offence(scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any]) -> InvalidInputError:
    """What is wrong, and in which of the rows given."""
    if bad := np.flatnonzero(~np.isfinite(scores)).tolist():
        return InvalidInputError(f"scores must be finite, got {scores[bad[0]]} in row {bad[0]}")
    if bad := np.flatnonzero(np.abs(y) != 1).tolist():
        return InvalidInputError(f"y must be -1 or 1, got {y[bad[0]]} in row {bad[0]}")
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights))).tolist()
    return InvalidInputError(f"weights must be finite and >= 0, got {weights[bad[0]]} in row {bad[0]}")
