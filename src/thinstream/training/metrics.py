"""Progressive metrics: counts of mistakes, losses, AUC and average precision, collected row by row.

>>> import numpy as np
>>> progress = Progress()
>>> progress.update(np.array([-1.0, 0.5, 2.0]), np.array([-1, -1, 1], np.int8))
>>> report = progress.report(Tradeoff(c_p=0.9, c_n=0.1))
>>> report.rows, report.sensitivity, report.specificity, report.cost
(3, 1.0, 0.5, 0.1)
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import plain
from thinstream.data.labels import Classes, known_before, predict_known
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.jit import compiled, scalar

# The metrics of a stream of labelled rows.

#: The keys of `Report.as_dict`, and those that only binary or only multiclass reports have.
_KEYS = (
    "rows", "positives", "error", "sensitivity", "specificity", "weighted_sum", "cost", "balanced_accuracy",
    "log_loss", "hinge", "auc", "auc_bound", "macro_f1", "examples", "recall", "precision", "f1", "macro_precision",
    "baseline", "average_precision", "average_precision_bound", "average_precisions",
)  # fmt: skip
_BINARY = {
    "positives", "sensitivity", "specificity", "weighted_sum", "cost", "hinge", "auc", "auc_bound",
}  # fmt: skip
_MULTICLASS = {"macro_f1", "examples", "macro_precision", "average_precisions"}


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The weights of false positives and false negatives in `Report.weighted_sum` (α) and `Report.cost` (c).

    The defaults are those of paper P3. α_p + α_n and c_p + c_n must be 1.

    Examples
    --------
    >>> Tradeoff(c_p=0.9, c_n=0.1)
    Tradeoff(alpha_p=0.5, alpha_n=0.5, c_p=0.9, c_n=0.1)

    """

    alpha_p: float = 0.5
    alpha_n: float = 0.5
    c_p: float = 0.95
    c_n: float = 0.05

    def __post_init__(self) -> None:
        for first, second in (("alpha_p", "alpha_n"), ("c_p", "c_n")):
            p, n = getattr(self, first), getattr(self, second)
            try:
                fine = p >= 0 and n >= 0 and abs(p + n - 1) < 1e-9
            except TypeError:
                fine = False
            if not fine:
                raise InvalidParameterError(
                    f"Tradeoff: {first} and {second} must be numbers >= 0 whose sum is 1, got {p!r} and {n!r}"
                )


P3 = Tradeoff()


@dataclass(frozen=True, slots=True)
class Report:
    """Metrics of a binary or multiclass stream. Undefined metrics are NaN.

    A binary model predicts the second class, the positive one, for scores above its threshold (0 by default).
    A multiclass model predicts the class with the highest score, and the first of several such classes.

    Examples
    --------
    >>> import numpy as np
    >>> from thinstream.training.metrics import Progress
    >>> progress = Progress(3)
    >>> progress.update(np.array([[0.1, 0.2, 0.0], [1.0, -1.0, -1.0]]), np.array([1, 2], np.int32))
    >>> progress.report().error, progress.report().baseline, progress.report().recall
    (0.5, 0.5, (nan, 1.0, 0.0))

    """

    binary: bool  # whether one score decides between two classes; otherwise each class has a score
    rows: int
    error: float  # share of misclassified rows
    baseline: float  # the error of the best constant answer: always the class that most rows are of
    balanced_accuracy: float  # mean recall of the classes; of more than two, of those that have occurred
    macro_f1: float  # mean F1 of the classes that have occurred
    macro_precision: float  # mean precision of the classes that have occurred, 0 of one that was never called
    examples: tuple[int, ...]  # of each class
    recall: tuple[float, ...]  # share of each class's rows called it
    precision: tuple[float, ...]  # share of the rows called each class that are of it
    f1: tuple[float, ...]  # their harmonic mean, of each class
    confusion: tuple[tuple[int, ...], ...] = ()  # rows of each class called each; () of too many classes
    # of the positive class, or the mean over the classes that have occurred; scores of one bin being equal
    average_precision: float = math.nan  # mean precision at the scores of the rows of a class
    average_precision_bound: float = math.nan  # its largest distance from the exact average precision
    average_precisions: tuple[float, ...] = ()  # of each of more than two classes
    log_loss: float = math.nan  # mean of log(1 + e^(−y·score)), or of −log(probability of the class), in nats
    # of two classes only:
    weighted_sum: float = math.nan  # α_p·sensitivity + α_n·specificity
    cost: float = math.nan  # c_p·false negatives + c_n·false positives, not divided by the rows
    hinge: float = math.nan  # mean of max(0, 1 − y·score)
    auc: float = math.nan  # P(score of a positive > score of a negative) + ½·P(equal), one bin's scores being equal
    auc_bound: float = math.nan  # its largest distance from the exact AUC

    @property
    def n_models(self) -> int:
        """Number of weight vectors of a linear model: one if it is binary, otherwise one per class."""
        return 1 if self.binary else len(self.examples)

    @property
    def positives(self) -> int | None:
        """Rows of the positive class; None if the report is multiclass."""
        return self.examples[1] if self.binary else None

    @property
    def sensitivity(self) -> float:
        """Share of the positives that are predicted positive."""
        return self.recall[1] if self.binary else math.nan

    @property
    def specificity(self) -> float:
        """Share of the negatives that are predicted negative."""
        return self.recall[0] if self.binary else math.nan

    def as_dict(self) -> dict[str, Any]:
        """Return names and numbers for JSON, with None for numbers that are not finite.

        Recall, precision and F1 of a binary report are those of the positive class.
        """
        excluded = _MULTICLASS if self.binary else _BINARY
        if not self.binary and math.isnan(self.log_loss):
            excluded = {*excluded, "log_loss"}
        values = {name: getattr(self, name) for name in _KEYS if name not in excluded}
        values |= {name: values.pop(name)[1] for name in ("recall", "precision", "f1")} if self.binary else {}
        return {name: _finite(value) for name, value in values.items()}


def _finite(value: Any) -> Any:
    """Return a number, or None if it is not finite; for a tuple, a list of them."""
    if isinstance(value, tuple):
        return [_finite(item) for item in value]
    return value if math.isfinite(value) else None


# Scores in bins, in constant memory: what follows from how many negatives and positives are in each.
#
# A bin holds the scores of one sign that agree in exponent and the leading bits of the mantissa. All functions take the
# negatives and the positives of each bin, the lowest scores first, and take the scores of one bin as equal.

#: Bins of scores: sign, 8 bits of exponent and 5 of mantissa of a float32, in the order of the numbers.
BINS = 1 << 14
LARGEST = float(np.finfo(np.float32).max)
#: Bits of a float32 that are not looked at.
SHIFT = np.uint32(32 - BINS.bit_length() + 1)
_SIGN = np.uint32(1 << 31)
#: All bits but that of the sign; those of infinity, and of the highest number below it.
_SIZE, _INFINITE, _HIGHEST = np.uint32((1 << 31) - 1), np.uint32(0x7F800000), np.uint32(0x7F7FFFFF)


def bins_of(scores: NDArray[Any], shift: np.uint32 = SHIFT) -> NDArray[np.intp]:
    """The bin of each score: its bits as a float32, those at the end left out; higher scores are in no lower one."""
    bits = (np.clip(scores, -LARGEST, LARGEST).astype(np.float32) + np.float32(0)).view(np.uint32)
    ordered = np.where(bits >= _SIGN, ~bits, bits | _SIGN)  # patterns grow with |s|: below zero their order is turned
    bins: NDArray[np.intp] = (ordered >> shift).astype(np.intp)
    return bins


@scalar
def is_number(bits: Any) -> Any:
    """Whether the bits of a float32 are not those of NaN."""
    return (bits & _SIZE) <= _INFINITE


@scalar
def bin_of(bits: Any) -> Any:
    """What `bins_of` has for the score whose bits, as a float32, these are; not NaN."""
    size, below = min(bits & _SIZE, _HIGHEST), (bits & _SIGN) != 0
    ordered = np.uint32(_SIZE - size) if below and size else np.uint32(size | _SIGN)
    return np.int64(ordered >> SHIFT)


def below_bin(bin_number: int, shift: np.uint32 = SHIFT) -> float:
    """Return the highest float32 below all scores of a bin.

    >>> [below_bin(int(bins_of(np.array([score]))[0])) for score in (1.0, 0.0)]
    [0.9999999403953552, -1.401298464324817e-45]
    """
    ordered = (bin_number << int(shift)) - 1
    ordered -= ordered == 0x7FFFFFFF  # that is -0, which is not below 0
    bits = np.uint32(ordered ^ (1 << 31) if ordered >> 31 else ordered ^ 0xFFFFFFFF)
    return float(bits.view(np.float32))


def middles() -> NDArray[np.float64]:
    """Return the score in the middle of each bin. NaN: no finite score is in the bin."""
    ordered = (np.arange(BINS, dtype=np.uint32) << SHIFT) + (np.uint32(1) << (SHIFT - np.uint32(1)))
    bits = np.where(ordered >= _SIGN, ordered ^ _SIGN, ~ordered)
    with np.errstate(invalid="ignore"):  # some patterns are NaN
        scores = bits.view(np.float32).astype(np.float64)
    return np.where(np.isfinite(scores), scores, np.nan)


def area_under_roc(negatives: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float]:
    """The AUC, and how far it can be from that of the scores.

    Pairs of different bins are ordered as their scores are. A pair in one bin counts ½ where the truth is 0, ½ or 1, so
    the AUC is off by at most half the share of such pairs.
    """
    n, p = negatives.astype(np.float64), positives.astype(np.float64)  # products of counts do not fit 64 bits
    pairs = float(n.sum() * p.sum())
    if not pairs:
        return math.nan, math.nan
    below = np.cumsum(n) - n
    together = float((p * n).sum()) / 2
    return (float((p * below).sum()) + together) / pairs, together / pairs


def average_precision(negatives: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float]:
    """The mean precision at the scores of the positives, and how far it can be from that of the scores.

    At a positive the precision is that of the rows with its score or a higher one. With f false and t true positives in
    higher bins, the p positives of a bin with n negatives have between Σ_i (t + i)/(t + f + n + i), all negatives being
    above them, which is at least p times the mean of its first and last term, as that is concave in i, and
    p·(t + p)/(t + f + p), all positives being equal and no negative above them.
    """
    kept = np.flatnonzero(positives)[::-1]  # the highest scores first
    if not len(kept):
        return math.nan, math.nan
    at_least = [np.cumsum(counts[::-1], dtype=np.float64)[::-1][kept] for counts in (negatives, positives)]
    n, p = negatives[kept].astype(np.float64), positives[kept].astype(np.float64)
    f, t = at_least[0] - n, at_least[1] - p
    total = float(p.sum())
    precision = float((p * (t + p) / (t + p + f + n)).sum()) / total
    lowest = float((p * ((t + 1) / (t + f + n + 1) + (t + p) / (t + f + n + p)) / 2).sum()) / total
    highest = float((p * (t + p) / (t + f + p)).sum()) / total
    return precision, max(highest - precision, precision - lowest, 0.0)


# Counts of a stream, from which everything in a `Report` follows.
#
# A tally is a tuple of arrays that only grow. So tallies add up, and their difference is what came in between.

EXAMPLES, PREDICTED, RIGHT = range(3)
HINGE, LOG_LOSS = range(2)
#: Sums of a multiclass tally that has probabilities: of the logistic loss alone.
_ONE_SUM = 1
#: Classes up to which the confusion matrix and bins of scores of each are kept (a quarter of a megabyte a class).
MOST_CLASSES = 64

_NO_NUMBERS = np.empty(0)
_LARGEST, _SHIFT = LARGEST, SHIFT
_ALL, _TOP = np.uint32(2**32 - 1), np.uint32(31)


class Tally(NamedTuple):
    """Counts by class. A binary tally has two classes, one score per row, and sums of losses."""

    classes: NDArray[np.int64]  # [examples, predictions or right predictions; class]
    confusion: NDArray[np.int64]  # [class, predicted class]; empty if there are too many classes
    totals: NDArray[np.float64]  # sums of hinge and logistic loss if binary, else of the logistic loss, if any
    bins: NDArray[np.int64]  # [other classes or its class; score; bin]; a binary score is that of the positive class

    @classmethod
    def empty(cls, n_classes: int, binary: bool, log_loss: bool = False) -> Self:
        """Return a tally of no rows; ``log_loss``: of a multiclass model whose scores are log-odds."""
        k = n_classes if n_classes <= MOST_CLASSES else 0
        bins, totals = np.zeros((2, 1 if binary else k, BINS), np.int64), 2 if binary else _ONE_SUM * log_loss
        return cls(np.zeros((3, n_classes), np.int64), np.zeros((k, k), np.int64), np.zeros(totals), bins)

    @classmethod
    def of_counts(cls, classes: NDArray[np.int64], totals: NDArray[np.float64] = _NO_NUMBERS) -> Self:
        """Return a tally without bins, and without a confusion matrix unless it is binary."""
        confusion, binary = np.zeros((0, 0), np.int64), len(totals) > _ONE_SUM
        if binary:
            right, wrong = classes[RIGHT], classes[EXAMPLES] - classes[RIGHT]
            confusion = np.array([[right[0], wrong[0]], [wrong[1], right[1]]])
        return cls(classes, confusion, totals, np.zeros((2, int(binary), 0), np.int64))

    @property
    def binary(self) -> bool:
        """Whether one score decides between two classes."""
        return len(self.totals) > _ONE_SUM

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.classes[EXAMPLES].sum())

    def is_consistent(self) -> bool:
        """Return whether the arrays can belong to one stream."""
        examples, predicted, right = self.classes
        no_class_known = examples.sum() - predicted.sum()  # nothing is predicted for the first row of a growing model
        if not (0 <= no_class_known <= 1 and (right <= np.minimum(examples, predicted)).all()):
            return False
        if not len(self.confusion):
            return True
        matrix = self.confusion.sum(axis=1), self.confusion.sum(axis=0), np.diagonal(self.confusion)
        own = examples[-self.bins.shape[1] :]
        return np.array_equal(self.classes, matrix) and np.array_equal(self.bins.sum(axis=2), (self.rows - own, own))

    def widened(self, n_classes: int) -> Self:
        """Return a tally with room for more classes. Earlier rows had the lowest score for the new classes."""
        new = (0, n_classes - self.classes.shape[1])
        if new[1] <= 0:
            return self
        classes = np.pad(self.classes, ((0, 0), new))
        if n_classes > MOST_CLASSES:
            return self.of_counts(classes)
        bins = np.pad(self.bins, ((0, 0), new, (0, 0)))
        bins[0, -new[1] :, bins_of(np.array([np.finfo(np.float32).min]))] = self.rows
        return self._replace(classes=classes, confusion=np.pad(self.confusion, new), bins=bins)

    def add(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any] | None, threshold: float = 0.0) -> None:
        """Count rows. Scores and labels are one score and ±1 per row if binary, else rows × classes and class numbers.

        A binary score above the threshold is predicted positive.
        """
        if self.binary:
            self._add_binary(scores, y, weights, threshold)
            return
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
        predicted = np.argmax(scores, axis=1)
        self.add_predicted(predicted, y)
        if len(self.totals) == _ONE_SUM:
            logarithms = -np.logaddexp(0.0, -scores.astype(np.float64))  # of one-vs-rest probabilities
            losses = np.logaddexp.reduce(logarithms, axis=1) - logarithms[np.arange(len(y)), y]
            # one after another, so that the sum does not depend on how rows are cut into chunks
            self.totals[0] = np.add.accumulate(np.concatenate([self.totals, np.maximum(losses, 0.0)]))[-1]
        if len(self.confusion):
            np.add.at(self.confusion, (y, predicted), 1)
            own = (y[:, np.newaxis] == np.arange(n)).astype(np.intp)
            places = (own * n + np.arange(n)) * BINS + bins_of(scores)
            np.add.at(self.bins.reshape(-1), places.reshape(-1), 1)

    def add_predicted(self, predicted: NDArray[Any], y: NDArray[Any]) -> None:
        """Count rows by class, without their scores. A predicted class of -1 means that no class was known."""
        n = self.classes.shape[1]
        for count, rows in ((EXAMPLES, y), (PREDICTED, predicted[predicted >= 0]), (RIGHT, y[predicted == y])):
            self.classes[count] += np.bincount(rows, minlength=n)

    def _add_binary(self, scores: NDArray[Any], y: NDArray[Any], weights: Any, threshold: float) -> None:
        w = _NO_NUMBERS if weights is None else np.asarray(weights)
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
            fine = _count_binary(*arguments)
        if not fine:
            raise _error(scores, y, w)

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """Return the metrics. The tradeoff is for binary tallies."""
        examples, predicted, right = self.classes.tolist()
        rows, by_class = sum(examples), list(zip(examples, predicted, right, strict=True))
        recall, f1 = tuple(map(_share, right, examples)), tuple(_share(2.0 * r, e + p) for e, p, r in by_class)
        precisions = [average_precision(*bins) for bins in self.bins.swapaxes(0, 1)]
        report = Report(
            binary=self.binary,
            rows=rows,
            error=1.0 - _share(sum(right), rows),
            baseline=1.0 - _share(max(examples, default=0), rows),
            balanced_accuracy=mean_of_defined(recall),
            macro_f1=mean_of_defined(f1_of_class for f1_of_class, e in zip(f1, examples, strict=True) if e),
            # a class that occurs and is never predicted has a precision of 0
            macro_precision=mean_of_defined(_share(r, max(p, 1)) for e, p, r in by_class if e),
            examples=tuple(examples),
            recall=recall,
            precision=tuple(map(_share, right, predicted)),
            f1=f1,
            confusion=tuple(map(tuple, self.confusion.tolist())),
            average_precision=mean_of_defined(value for value, _ in precisions),
            average_precision_bound=mean_of_defined(bound for _, bound in precisions),
            average_precisions=() if self.binary else tuple(value for value, _ in precisions),
        )
        if not self.binary:
            loss = _share(float(self.totals[0]), rows) if len(self.totals) else math.nan
            return replace(report, log_loss=loss)
        (specificity, sensitivity), (false, missed) = recall, (examples[k] - right[k] for k in range(2))
        auc, auc_bound = area_under_roc(*self.bins[:, 0])
        return replace(
            report,
            error=_share(missed + false, rows),  # rounds differently from 1 - accuracy
            balanced_accuracy=(sensitivity + specificity) / 2,
            weighted_sum=tradeoff.alpha_p * sensitivity + tradeoff.alpha_n * specificity,
            cost=tradeoff.c_p * missed + tradeoff.c_n * false,
            log_loss=_share(float(self.totals[LOG_LOSS]), rows),
            hinge=_share(float(self.totals[HINGE]), rows),
            auc=auc,
            auc_bound=auc_bound,
        )


def mean_of_defined(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN."""
    defined = [value for value in values if not math.isnan(value)]
    return float(np.mean(defined)) if defined else math.nan


@compiled()
def _count_binary(scores: Any, y: Any, weights: Any, tally: Any, cell: Any, bits: Any, threshold: Any) -> Any:
    """Count the rows and return True, or change nothing if one is bad. ``bits`` are those of ``cell``."""
    bad = np.int64(0)
    for i in range(len(scores)):
        bad += not (np.abs(scores[i]) < np.inf)
        bad += np.abs(y[i]) != 1
    for i in range(len(weights)):
        bad += not (0.0 <= weights[i] < np.inf)
    if bad:
        return False
    classes, confusion, bins = tally.classes, tally.confusion, tally.bins
    rows = positives = missed = false = np.int64(0)
    hinge, log_loss = tally.totals[HINGE], tally.totals[LOG_LOSS]
    for i in range(len(scores)):
        if len(weights) and weights[i] == 0.0:
            continue
        # no branches on labels or signs: they are what cannot be predicted
        s, positive, predicted = np.float64(scores[i]), y[i] > 0, scores[i] > threshold
        margin = y[i] * s
        rows += 1
        positives += positive
        missed += positive & (not predicted)
        false += predicted & (not positive)
        hinge += max(0.0, 1.0 - margin)
        # log1p(small) as log(u)·small/(u − 1), right but for the last bits and faster (Kahan)
        small = np.exp(-np.abs(margin))  # of a negative number only, so nothing overflows
        u = 1.0 + small
        log_loss += max(0.0, -margin) + (np.log(u) * (small / (u - 1.0)) if u > 1.0 else small)
        cell[0] = min(max(s, -_LARGEST), _LARGEST) + 0.0  # no -0.0, which would be below 0
        # patterns grow with |s|: below zero their order is turned, and zero is put in the middle
        bins[np.int64(positive), 0, (bits[0] ^ (_SIGN | (_ALL * (bits[0] >> _TOP)))) >> _SHIFT] += 1
    confusion[0, 0] += rows - positives - false
    confusion[0, 1] += false
    confusion[1, 0] += missed
    confusion[1, 1] += positives - missed
    for k in range(2):
        classes[EXAMPLES, k] = confusion[k, 0] + confusion[k, 1]
        classes[PREDICTED, k] = confusion[0, k] + confusion[1, k]
        classes[RIGHT, k] = confusion[k, k]
    tally.totals[HINGE], tally.totals[LOG_LOSS] = hinge, log_loss
    return True


def _share(part: float, whole: int) -> float:
    return part / whole if whole else math.nan


def _cast(array: NDArray[Any], dtype: Any, name: str) -> NDArray[Any]:
    """Convert numbers to another type."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got dtype {array.dtype}")
    if dtype is np.int8:  # an invalid label must not become valid
        return np.where(np.abs(array) == 1, array, 0).astype(np.int8)
    return array.astype(dtype)


def _error(scores: NDArray[Any], y: NDArray[Any], weights: NDArray[Any]) -> InvalidInputError:
    """Return the error for the first invalid row."""
    if bad := np.flatnonzero(~np.isfinite(scores)).tolist():
        return InvalidInputError(f"scores must be finite, got {scores[bad[0]]} in row {bad[0]}")
    if bad := np.flatnonzero(np.abs(y) != 1).tolist():
        return InvalidInputError(f"y must be -1 or 1, got {y[bad[0]]} in row {bad[0]}")
    bad = np.flatnonzero(~((weights >= 0) & np.isfinite(weights))).tolist()
    return InvalidInputError(f"weights must be finite and >= 0, got {weights[bad[0]]} in row {bad[0]}")


# Progressive validation: metrics of scores that a model predicts before it learns a row.

_MARK = "mark_"


class Progress:
    """Metrics of a stream, kept up to date in constant memory and O(1) a row.

    Pass it the progressive scores that `Learner.learn` returns. Every row counts once, whatever its weight. Rows of
    weight 0, which are not learned, are left out. Sums are sequential, so that results are bit-identical for any
    chunking.

    AUC and average precision are those of scores sorted into 2^14 bins: scores of one sign that agree in the exponent
    and 5 bits of the mantissa, at most 1/32 of their size apart, are taken as equal. `Report.auc_bound` is half the
    share of the pairs (positive, negative) in one bin; the exact AUC is within it. `Report.average_precision_bound` is
    the same for average precision. With more than 64 classes, there are no bins and no confusion matrix.

    Parameters
    ----------
    n_classes : int, default=2
    threshold : float, default=0
        With two classes, a row with a score above it is predicted positive.
    log_loss : bool, default=False
        Whether scores of more than two classes are log-odds, so that they have a log-loss.

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

    def __init__(self, n_classes: int = 2, threshold: float = 0.0, log_loss: bool = False) -> None:
        self.threshold = threshold
        self._now, self._mark = (self._empty(n_classes, log_loss) for _ in range(2))

    @staticmethod
    def _empty(n_classes: int, log_loss: bool) -> Tally:
        return Tally.empty(n_classes, n_classes == 2, log_loss and n_classes > 2)

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Count the next rows: their scores (finite), labels and weights. Bad input raises, and nothing is counted.

        Two classes need one score and a label of ±1 per row. More classes need a score for each class, and the number
        of the class in int32.
        """
        self._now.add(np.asarray(scores), np.asarray(y), weights, self.threshold)

    @property
    def counted(self) -> Tally:
        """The counts since the start."""
        return self._now

    @property
    def rows(self) -> int:
        """Rows counted."""
        return self._now.rows

    def report(self, tradeoff: Tradeoff = P3) -> Report:
        """The metrics since the start."""
        return self._now.report(tradeoff)

    def mark(self) -> None:
        """Set a mark at this row, instead of the last one."""
        self._mark = _map(np.copy, self._now)

    def since_mark(self, tradeoff: Tradeoff = P3) -> Report:
        """Return the metrics since the last mark, or since the start.

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
        classes = np.shape(arrays["classes"])[-1] if "classes" in arrays else 2
        progress = cls(classes, threshold, np.shape(arrays.get("totals", ())) == (_ONE_SUM,))
        now, mark = (
            Tally(*(_stored(arrays, prefix + name, like) for name, like in progress._now._asdict().items()))
            for prefix in ("", _MARK)
        )
        grew = all(np.all(later >= earlier) for later, earlier in zip(now, mark, strict=True))
        if not (grew and now.is_consistent() and mark.is_consistent()):
            raise InvalidInputError(
                "the arrays of a Progress contradict each other: counts and bins of different runs?"
            )
        progress._now, progress._mark = now, mark
        return progress


def _map(function: Callable[..., NDArray[Any]], *tallies: Tally) -> Tally:
    """Apply the function to each array."""
    return Tally(*(function(*arrays) for arrays in zip(*tallies, strict=True)))


class GrowingProgress(Progress):
    """`Progress` of a model that meets classes in the order of their numbers. ``n_classes`` are known at the start.

    Examples
    --------
    >>> import numpy as np
    >>> progress = GrowingProgress(0)
    >>> progress.update(np.array([[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]]), np.array([0, 1, 1], np.int32))
    >>> round(progress.report().error, 3)  # the first row of each class is a mistake
    0.667

    """

    def __init__(self, n_classes: int = 0, threshold: float = 0.0, log_loss: bool = False) -> None:
        super().__init__(n_classes, threshold)

    @staticmethod
    def _empty(n_classes: int, log_loss: bool) -> Tally:
        return Tally.of_counts(np.zeros((3, n_classes), np.int64))

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Count the next rows: scores of every class that has occurred by then, and class numbers in int32."""
        n_known = self._now.classes.shape[1]
        n = max(n_known, int(np.max(y, initial=-1)) + 1)
        if scores.shape != (len(y), n) or y.dtype != np.int32 or not np.isfinite(scores).all():
            raise InvalidInputError(
                f"scores and y must be rows × {n}, finite, and numbers of classes in int32, got shapes {scores.shape} "
                f"and {y.shape}, {y.dtype.name}"
            )
        if n > n_known:
            new = (0, 0), (0, n - n_known)
            self._now, self._mark = (Tally.of_counts(np.pad(tally.classes, new)) for tally in (self._now, self._mark))
        counted = slice(None) if weights is None else weights != 0
        self._now.add_predicted(predict_known(scores, known_before(y, n_known))[counted], y[counted])


class KnownProgress(Progress):
    """`Progress` of a fixed model that predicts only the classes it has met.

    Each class has a score, even if there are only one or two classes. Scores have a column for every class that has
    occurred. The score of a class that the model has not met is the lowest number.
    """

    @staticmethod
    def _empty(n_classes: int, log_loss: bool) -> Tally:
        return Tally.empty(n_classes, binary=False)

    def update(self, scores: NDArray[Any], y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> None:
        """Count the next rows: scores of each class that has occurred by their end, and class numbers in int32."""
        self._now, self._mark = self._now.widened(scores.shape[1]), self._mark.widened(scores.shape[1])
        super().update(scores, y, weights)


def progress_for(classes: Classes, threshold: float = 0.0, log_loss: bool = False) -> Progress:
    """Return the progress of a model of these classes. The threshold is that of a binary model."""
    return GrowingProgress(len(classes)) if classes.grow else Progress(len(classes), threshold, log_loss)


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
