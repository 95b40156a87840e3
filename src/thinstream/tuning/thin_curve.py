"""How good a model is with its n most important features only, on held-out rows, and how many features to keep."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.models.importance import POWERS, importance, joint_importance, ranked_features
from thinstream.models.model import Model
from thinstream.training.metrics import EXAMPLES
from thinstream.tuning.counts import HELD_OUT, RANKED, LaneCounts, LaneRanks, LaneTallies
from thinstream.tuning.measures import (
    MEASURES,
    check_metric,
    default_metric,
    is_constant,
    metric_values,
    standard_errors,
)

#: Sizes that are tried between n and 10n, and at most this many bytes of scores in bins.
PER_DECADE, BIN_BYTES = 16, 1 << 29
#: Scores (rows × classes × sizes) in memory at a time.
SCORES = 1 << 22


class Choice(NamedTuple):
    """How many features to keep, and by which importance."""

    n: int
    power: float
    value: float  # of the thin model
    best: float  # on the curve
    standard_error: float  # of the best value
    error: float  # the share of misclassified rows


class Curve(NamedTuple):
    """Metrics of thin models on held-out rows.

    The smallest size within one standard error of the best value is chosen, over all importances. At that size, the
    importance with the best value is chosen.

    >>> values = np.array([[0.40, 0.22, 0.20], [0.30, 0.26, 0.20]])
    >>> sizes, rows = np.array([1, 10, 100]), np.array([50, 50])
    >>> Curve("error", (0.0, 1.0), sizes, values, np.full((2, 3), 0.04), values, rows).choice
    Choice(n=10, power=0.0, value=0.22, best=0.2, standard_error=0.04, error=0.22)
    """

    scoring: str
    powers: tuple[float, ...]
    sizes: NDArray[np.int64]
    values: NDArray[np.float64]  # powers × sizes
    standard_errors: NDArray[np.float64]  # powers × sizes
    errors: NDArray[np.float64]  # powers × sizes: shares of misclassified rows
    examples: NDArray[np.int64]  # rows of each class

    @property
    def _losses(self) -> NDArray[np.float64]:
        """The values, smaller for the better."""
        sign = MEASURES[self.scoring].sign if self.scoring in MEASURES else 1
        return np.where(np.isfinite(self.values), -sign * self.values, np.inf)

    @property
    def choice(self) -> Choice:
        """The smallest model within one standard error of the best."""
        losses = self._losses
        best = np.unravel_index(int(np.argmin(losses)), losses.shape)
        limit = losses[best] + self.standard_errors[best]
        near = (losses <= limit).any(axis=0)
        return self.at(int(self.sizes[np.argmax(near)] if near.any() else self.sizes[-1]))

    def at(self, n: int) -> Choice:
        """The best importance at one of the sizes."""
        losses = self._losses
        best = np.unravel_index(int(np.argmin(losses)), losses.shape)
        k = int(np.flatnonzero(self.sizes == n)[0])
        power = int(np.argmin(losses[:, k]))
        value, error = float(self.values[power, k]), float(self.errors[power, k])
        spread = float(self.standard_errors[best])
        return Choice(int(self.sizes[k]), self.powers[power], value, float(self.values[best]), spread, error)

    def is_constant(self, choice: Choice) -> bool:
        """Whether a chosen model is no better than a constant answer."""
        return is_constant(self.scoring, choice.value, self.examples)


def measured(
    model: Model,
    batches: Iterable[Batch],
    sizes: Iterable[int] | None = None,
    powers: tuple[float, ...] = POWERS,
    scoring: str | None = None,
) -> Curve:
    """Return the curve of a model on labeled rows, in one pass. By default, of sizes from 1 to all features.

    Rows of weight 0 are left out. Other weights don't matter. The default ``scoring`` is log-loss, or average precision
    for a model without probabilities.
    """
    scoring = check_metric(scoring or default_metric(model.has_probabilities), len(model.classes))
    ordered = model.learner.in_order()
    whole, n_classes = ordered.served(), 2 if model.classes.are_two else len(model.classes)
    weights = np.atleast_2d(np.asarray(whole.outputs.weights(), np.float64))
    weights = weights.reshape(-1, whole.preparation.vectors, whole.n_slots)  # products of features have slots, too
    used = np.asarray(weights.any(axis=(0, 1)))
    if sizes is None:
        tried = np.array(list(all_sizes(int(used.sum()), _per_decade(scoring, n_classes, len(powers)))), np.int64)
    else:
        tried = np.array(sorted(sizes), np.int64)
    narrow = ordered.decoded()
    levels = [_levels(used, joint_importance(narrow, importance(narrow, power)), tried) for power in powers]
    intercepts = np.array([one.intercept for one in whole.models])
    n_lanes = len(powers) * len(tried)
    tallies = LaneTallies(n_lanes, n_classes, losses="log_loss" in scoring)
    ranks = LaneRanks(n_lanes, n_classes, HELD_OUT) if scoring in RANKED else None
    shift, unknown = 0.0 if "log_loss" in scoring else model.threshold, 0
    for batch in _pieces(batches, len(weights) * n_lanes):
        kept = np.flatnonzero(_labels(batch, model) < n_classes)  # models that grow can meet rows of other classes
        unknown += len(batch) - len(kept)
        batch = batch if len(kept) == len(batch) else batch.take(kept)
        ready, y = whole.ready(batch).narrowed(whole.outputs.n_features), _labels(batch, model)
        scores = np.concatenate([_scores(ready, weights, level, len(tried)) for level in levels], axis=2)
        scores = np.moveaxis(scores + intercepts[:, np.newaxis] - shift, 1, 2)
        scores = scores[:, :, 0] if model.classes.are_two else scores
        roles = np.full((len(batch), n_lanes), HELD_OUT, np.int8)
        tallies.update(scores, y, roles)
        if ranks is not None:
            ranks.update(scores, y, roles)
    counts = tallies.held_out
    if not n_lanes or not counts.rows.any():
        raise InvalidInputError("thin: there is no row to choose on")
    values, spread = _measures(scoring, counts, ranks)
    shape, errors = (len(powers), len(tried)), (counts.mistakes + unknown) / (counts.rows + unknown)
    values, spread, errors = (np.reshape(column, shape) for column in (values, spread, errors))
    return Curve(scoring, powers, tried, values, spread, errors, counts.counts[EXAMPLES, :, 0])


def compare_sizes(
    models: Sequence[Model], rows: Callable[[], Iterable[Batch]], scoring: str | None = None
) -> tuple[int, Curve]:
    """Return which model to take, and its curve: the first within one standard error of the best on held-out rows.

    The models are thin, from the smallest to the largest.
    """
    sizes = [max(len(ranked_features(model.learner)), 1) for model in models]
    curves = [measured(model, rows(), [n], (0.0,), scoring) for model, n in zip(models, sizes, strict=True)]
    losses = np.array([curve._losses[0, 0] for curve in curves])
    best = int(np.argmin(losses))
    limit = losses[best] + np.nan_to_num(curves[best].standard_errors[0, 0])
    chosen = int(np.argmax(losses <= limit))
    return chosen, curves[chosen]


def _measures(
    scoring: str, counts: LaneCounts, ranks: LaneRanks | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The metric of each lane, and its standard error."""
    if ranks is not None:
        return RANKED[scoring].values(ranks), RANKED[scoring].errors(ranks)
    return metric_values(counts, scoring), standard_errors(counts, scoring)


def _per_decade(scoring: str, n_classes: int, n_powers: int) -> int:
    """Sizes between n and 10n: fewer if scores are counted in bins of many classes."""
    if scoring not in RANKED:
        return PER_DECADE
    return int(np.clip(BIN_BYTES // (LaneRanks.estimate_nbytes(6 * n_powers, n_classes)), 1, PER_DECADE))


def all_sizes(n_features: int, per_decade: int = PER_DECADE) -> Iterator[int]:
    """Yield sizes from 1 to all features.

    >>> list(all_sizes(20))
    [1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 15, 18, 20]
    """
    k, last = 0, 0
    while last < n_features:
        size = min(round(10 ** (k / per_decade)), n_features)
        if size > last:
            yield size
        k, last = k + 1, max(last, size)


def _levels(used: NDArray[np.bool_], joint: NDArray[np.float64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each feature the number of the smallest size that has it; the number of sizes if none has it."""
    there = np.flatnonzero(used)
    order = there[np.argsort(-joint[there], kind="stable")]
    levels = np.full(len(used), len(sizes), np.int64)
    levels[order] = np.searchsorted(sizes, np.arange(len(order)), side="right")
    return levels


def _pieces(batches: Iterable[Batch], width: int) -> Iterator[Batch]:
    """Yield the rows that count, as many at a time as there is room for their scores."""
    step = max(SCORES // width, 1)
    for batch in batches:
        if batch.weights is not None:
            batch = batch.take(np.flatnonzero(batch.weights))
        for start in range(0, len(batch), step):
            yield batch.until(min(start + step, len(batch))).after(start)


def _labels(batch: Batch, model: Model) -> NDArray[Any]:
    y = batch.require_labels("thin on")
    if model.classes.are_two:
        return np.where(y > 0, 1, -1).astype(np.int8)
    return np.asarray(y > 0 if y.dtype == np.int8 else y, np.int32)


def _scores(rows: Batch, weights: NDArray[np.float64], levels: NDArray[np.int64], sizes: int) -> NDArray[np.float64]:
    """Return scores without intercept, rows × classes × sizes."""
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr)) * (sizes + 1)
    places = owner + np.tile(levels, weights.shape[1])[rows.indices]
    scores = np.empty((len(rows), len(weights), sizes))
    for k, w in enumerate(weights.reshape(len(weights), -1)):
        parts = np.bincount(places, w[rows.indices] * rows.values, len(rows) * (sizes + 1))
        scores[:, k] = np.cumsum(parts.reshape(len(rows), sizes + 1)[:, :sizes], axis=1)
    return scores
