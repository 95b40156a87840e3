"""Which model of a sweep to take: by a metric, its standard error, and how many weights may be left."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError, UnknownNameError, listed
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.evaluate.tally import ROWS
from thinstream.tune.lane_counts import LaneCounts

#: What a sweep can be judged by, and whether more of it is better. ``cost`` is per row.
METRICS = {"error": False, "balanced_accuracy": True, "weighted_sum": True, "cost": False}
RULES = ("one_se", "best")


class Limits(NamedTuple):
    """How many weights may be left."""

    max_nnz: int | None = None
    max_density: float | None = None


UNLIMITED = Limits()


def check_metric(name: str) -> str:
    """The name, if there is such a metric."""
    if name not in METRICS:
        raise UnknownNameError(f"scoring must be {listed(METRICS)}, got {name!r}")
    return name


def check_rule(rule: str, limits: Limits) -> str:
    """The rule, if there is such a one and the limits make sense."""
    if rule not in RULES:
        raise InvalidParameterError(f"pick must be {listed(RULES)}, got {rule!r}")
    most, density = limits
    if most is not None and (isinstance(most, bool) or most != int(most) or most < 0):
        raise InvalidParameterError(f"max_nnz must be a whole number >= 0 or None, got {most!r}")
    if density is not None and not 0.0 <= density <= 1.0:
        raise InvalidParameterError(f"max_density must be from 0 to 1 or None, got {density!r}")
    return rule


def metric_values(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> NDArray[np.float64]:
    """A metric of every lane; NaN where nothing was counted.

    >>> counts = np.array([[10, 0], [4, 0], [1, 0], [2, 0]])
    >>> metric_values(LaneCounts(counts, np.zeros((2, 2))), "error")
    array([0.3, nan])
    """
    found = []
    for lane in range(counted.counts.shape[1]):
        report = counted.report(lane, tradeoff)
        found.append(report.cost / report.rows if metric == "cost" and report.rows else getattr(report, metric))
    values = np.array(found, dtype=np.float64)
    return np.where(counted.counts[ROWS] > 0, values, np.nan)


def standard_errors(counted: LaneCounts, metric: str, tradeoff: Tradeoff = P3) -> NDArray[np.float64]:
    """How far chance moves a metric of every lane: of shares of independent rows, as binomial.

    One mistake and one hit are added to each share, so that it is not 0 where no mistake was made.
    """
    rows, positives, missed, false = (row.astype(np.float64) for row in counted.counts)
    if metric == "error":
        return np.sqrt(_variance(missed + false, rows))
    if metric == "cost":
        cost_p, cost_n, of = tradeoff.c_p, tradeoff.c_n, rows + 2
        mean = (cost_p * (missed + 1) + cost_n * (false + 1)) / of
        square = (cost_p**2 * (missed + 1) + cost_n**2 * (false + 1)) / of
        spread: NDArray[np.float64] = np.sqrt((square - mean**2) / of)
        return spread
    a_p, a_n = (0.5, 0.5) if metric == "balanced_accuracy" else (tradeoff.alpha_p, tradeoff.alpha_n)
    return np.sqrt(a_p**2 * _variance(missed, positives) + a_n**2 * _variance(false, rows - positives))


def _variance(hits: NDArray[np.float64], of: NDArray[np.float64]) -> NDArray[np.float64]:
    share = (hits + 1) / (of + 2)
    return share * (1 - share) / (of + 2)


def select_model(
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    nnz: NDArray[np.int64],
    n_features: int,
    *,
    metric: str = "error",
    rule: str = "one_se",
    limits: Limits = UNLIMITED,
) -> int:
    """The number of the model to take.

    Of those within the limits: the best, of equals the sparsest; or, by the one-standard-error rule, the sparsest that
    is no worse than the best by more than the standard error of the best.

    >>> error, nnz = np.array([0.10, 0.09, 0.095, 0.3]), np.array([900, 100, 20, 0])
    >>> [select_model(error, np.full(4, 0.01), nnz, 1000, rule=rule) for rule in RULES]
    [2, 1]
    >>> select_model(error, np.full(4, 0.01), nnz, 1000, limits=Limits(max_nnz=10))
    3
    """
    most = math.inf if limits.max_nnz is None else limits.max_nnz
    most = min(most, math.inf if limits.max_density is None else limits.max_density * n_features)
    allowed = np.flatnonzero(nnz <= most)
    if not len(allowed):
        raise InvalidInputError(
            f"no model of the sweep has as few as {most:,.0f} non-zero weights, the sparsest has {nnz.min():,}; "
            "raise l1_max"
        )
    loss = -values if METRICS[metric] else values
    loss = np.where(np.isfinite(loss), loss, np.inf)
    order = sorted(allowed.tolist(), key=lambda k: (loss[k], nnz[k], -k))
    best = order[0]
    if rule == "best":
        return int(best)
    near = [k for k in order if loss[k] <= loss[best] + errors[best]] or [best]
    return int(min(near, key=lambda k: (nnz[k], loss[k], -k)))
