"""The metrics of a run, from its counts."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError

ROWS, POSITIVES, FALSE_NEGATIVES, FALSE_POSITIVES = range(4)
HINGE, LOG_LOSS = range(2)
#: Bins of scores: sign, 8 bits of exponent and 5 of mantissa of a float32, in the order of the numbers.
BINS = 1 << 14


class Tally(NamedTuple):
    """What is counted of a stream; everything reported follows from it."""

    counts: NDArray[np.int64]  # rows, positives, false negatives, false positives
    totals: NDArray[np.float64]  # sums of hinge and logistic loss
    bins: NDArray[np.int64]  # rows per bin of the score: of negatives, of positives


def empty() -> Tally:
    """Nothing counted yet."""
    return Tally(np.zeros(4, np.int64), np.zeros(2), np.zeros((2, BINS), np.int64))


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """What the two kinds of mistakes weigh in `Report.weighted_sum` (α) and `Report.cost` (c).

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
    """Metrics of a stream. A row is called positive if its score is above 0; what is undefined so far is NaN."""

    rows: int
    positives: int
    error: float  # share of rows called wrong
    sensitivity: float  # share of the positives called positive
    specificity: float  # share of the negatives called negative
    weighted_sum: float  # α_p·sensitivity + α_n·specificity
    cost: float  # c_p·false negatives + c_n·false positives, not divided by the rows
    balanced_accuracy: float  # mean of sensitivity and specificity
    log_loss: float  # mean of log(1 + e^(−y·score)), in nats
    hinge: float  # mean of max(0, 1 − y·score)
    auc: float  # P(score of a positive > score of a negative) + ½·P(equal), scores of one bin taken as equal
    auc_bound: float  # the exact AUC is no further than this from ``auc``

    @property
    def alternation(self) -> float:
        """Share of rows with another label than the row before, were their order random."""
        share = self.positives / max(self.rows, 1)
        return 2.0 * share * (1.0 - share)

    def as_dict(self) -> dict[str, int | float | None]:
        """Names and numbers, ready for JSON: None in place of what is not finite."""
        return {name: value if math.isfinite(value) else None for name, value in dataclasses.asdict(self).items()}


def report(tally: Tally, tradeoff: Tradeoff = P3) -> Report:
    """All metrics of what was counted."""
    rows, positives, missed, false = (int(count) for count in tally.counts)
    sensitivity = _share(positives - missed, positives)
    specificity = _share(rows - positives - false, rows - positives)
    auc, bound = _auc(*tally.bins)
    return Report(
        rows=rows,
        positives=positives,
        error=_share(missed + false, rows),
        sensitivity=sensitivity,
        specificity=specificity,
        weighted_sum=tradeoff.alpha_p * sensitivity + tradeoff.alpha_n * specificity,
        cost=tradeoff.c_p * missed + tradeoff.c_n * false,
        balanced_accuracy=(sensitivity + specificity) / 2,
        log_loss=_share(float(tally.totals[LOG_LOSS]), rows),
        hinge=_share(float(tally.totals[HINGE]), rows),
        auc=auc,
        auc_bound=bound,
    )


def _share(part: float, whole: int) -> float:
    return part / whole if whole else math.nan


def _auc(negatives: NDArray[Any], positives: NDArray[Any]) -> tuple[float, float]:
    """The AUC of two histograms, and how far it can be from that of the scores.

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
