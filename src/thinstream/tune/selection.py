"""Which model of a sweep to take: by a metric, its standard error, and how many weights may be left."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError, listed

RULES = ("one_se", "best")


class Limits(NamedTuple):
    """How many weights may be left."""

    max_nnz: int | None = None
    max_density: float | None = None


UNLIMITED = Limits()


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


def select_model(
    values: NDArray[np.float64],
    errors: NDArray[np.float64],
    nnz: NDArray[np.int64],
    n_features: int,
    *,
    sign: int = -1,
    rule: str = "one_se",
    limits: Limits = UNLIMITED,
) -> int:
    """The number of the model to take; ``sign`` is -1 where less of the metric is better.

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
    loss = np.where(np.isfinite(values), -sign * values, np.inf)
    order = sorted(allowed.tolist(), key=lambda k: (loss[k], nnz[k], -k))
    best = order[0]
    if rule == "best":
        return int(best)
    near = [k for k in order if loss[k] <= loss[best] + errors[best]] or [best]
    return int(min(near, key=lambda k: (nnz[k], loss[k], -k)))
