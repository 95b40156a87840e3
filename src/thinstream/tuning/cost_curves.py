"""Cost curves: the gain of a learner that knows the costs of mistakes (paper P3, Figs 3 and 4).

For each weight of the positives, a lane learns with ρ = c₊/c₋ as in the paper and is scored at that weight. One lane
ignores costs, for comparison. Both figures come from one pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.data.stream import Stream
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidParameterError
from thinstream.training.metrics import EXAMPLES, Tradeoff
from thinstream.training.observer import Observer
from thinstream.tuning.counts import LaneCounts
from thinstream.tuning.measures import metric_values
from thinstream.tuning.passes import PeekableStream, narrowed, study_stream
from thinstream.tuning.study import StudyConfig, Trial

#: The number of first rows that determine the default ratio of negatives to positives.
LOOK = 10_000
WEIGHTS = tuple(k / 20 for k in range(1, 20))


class Curve(NamedTuple):
    """One metric against the weight of the positives."""

    metric: str  # "weighted_sum" at (α_p, 1 − α_p), or "cost" per row at (c_p, 1 − c_p)
    weights: NDArray[np.float64]
    rho: NDArray[np.float64]  # the cost of the positives
    tuned: NDArray[np.float64]  # the metric of the lane with this cost
    blind: NDArray[np.float64]  # the metric of the lane that ignores costs
    constant: NDArray[np.float64]  # the metric of the better constant prediction
    sensitivity: NDArray[np.float64]  # of the lanes with costs
    specificity: NDArray[np.float64]

    @property
    def flat_from(self) -> float | None:
        """The weight from which all lanes predict the same, if at least the last three do."""
        answers = np.column_stack([self.sensitivity, self.specificity])
        other = np.flatnonzero((answers != answers[-1]).any(axis=1))
        first = int(other[-1]) + 1 if len(other) else 0
        return float(self.weights[first]) if len(self.weights) - first >= 3 else None

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table, ready for a data frame."""
        return {name: value for name, value in self._asdict().items() if name != "metric"}


@dataclass(frozen=True, eq=False)
class CostCurves:
    """Both figures of the paper: the weighted sum against α_p, the cost against c_p; progressive."""

    algorithm: str
    weighted_sum: Curve
    cost: Curve
    rows: int
    positives: int
    passes: int
    looks_sorted: bool  # labels came in long runs, so that progressive metrics are too good

    def plot(self, path: Any) -> None:
        """Draw both figures into a PNG, SVG or HTML file."""
        from thinstream.tuning.figures import draw_cost_curves

        draw_cost_curves(self, path)


def study_costs(
    stream: Stream,
    config: StudyConfig,
    trial: Trial,
    weights: Sequence[float] = WEIGHTS,
    *,
    ratio: float | None = None,
    watch: Observer | None = None,
) -> CostCurves:
    """Sweep the trade-off over a stream. ``trial`` has all parameters but the costs.

    At weight w, the lane for the sum learns with ρ = w/(1 − w)·T_n/T_p, and the lane for the cost with ρ = w/(1 − w).
    The costs are (1, ρ) for negatives and positives. ``ratio`` is T_n/T_p, by default that of the first rows.
    """
    at = np.array(check_weights(weights))
    ahead = PeekableStream(stream)
    odds, rare = at / (1.0 - at), check_ratio(ratio) or _ratio(ahead)
    rhos = [odds * rare, odds]
    trials = [trial._replace(costs=(), split=-1)]
    trials += [trial._replace(costs=(Costs(1.0, rho),), split=-1) for swept in rhos for rho in swept.tolist()]
    trials = [trial._replace(candidate=k) for k, trial in enumerate(trials)]
    source, config, _ = narrowed(ahead, config, [trial])
    counts = study_stream(source, config, trials, watch=watch)
    positives = int(counts.learned.counts[EXAMPLES, 1, 0])
    return CostCurves(
        find(config.algorithm).name,
        _curve("weighted_sum", at, rhos[0], counts.learned, 1),
        _curve("cost", at, rhos[1], counts.learned, 1 + len(at)),
        counts.rows,
        positives,
        counts.passes,
        counts.looks_sorted,
    )


def _curve(metric: str, at: NDArray[Any], rho: NDArray[Any], counted: LaneCounts, first: int) -> Curve:
    both, shares, constants = [], [], []
    negatives, positives = counted.counts[EXAMPLES, :, 0].astype(np.float64)
    for k, weight in enumerate(at.tolist()):
        tradeoff = Tradeoff(weight, 1.0 - weight, weight, 1.0 - weight)
        both.append(metric_values(counted.take([first + k, 0]), metric, tradeoff))
        report = counted.report(first + k)
        shares.append((report.sensitivity, report.specificity))
        if metric == "weighted_sum":
            constants.append(max(weight, 1.0 - weight))
        else:
            constants.append(min(weight * positives, (1.0 - weight) * negatives) / max(negatives + positives, 1.0))
    (tuned, blind), (sensitivity, specificity) = np.array(both).T, np.array(shares).T
    return Curve(metric, at, rho, tuned, blind, np.array(constants), sensitivity, specificity)


def check_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """Return the sorted weights of the positives. Raise unless they are between 0 and 1."""
    positive_weights = tuple(sorted({float(weight) for weight in weights}))
    if not positive_weights or not all(0.0 < weight < 1.0 for weight in positive_weights):
        raise InvalidParameterError(f"weights must be numbers between 0 and 1, both excluded, got {list(weights)!r}")
    return positive_weights


def check_ratio(ratio: float | None) -> float | None:
    """Return the negatives per positive, or None. Raise if it is not a number > 0."""
    if ratio is not None and not 0.0 < ratio < math.inf:
        raise InvalidParameterError(f"ratio, negatives per positive, must be a number > 0 or None, got {ratio!r}")
    return ratio


def _ratio(stream: PeekableStream) -> float:
    """Return the negatives per positive of the first rows."""
    rows = positives = 0
    for batch in stream.look(LOOK):
        present = np.ones(len(batch), np.bool_) if batch.weights is None else batch.weights > 0
        rows, positives = rows + int(present.sum()), positives + int((batch.require_labels()[present] > 0).sum())
    return max(rows - positives, 1) / max(positives, 1)
