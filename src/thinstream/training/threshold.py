"""Decision thresholds, and the curves they are chosen from (ROC, precision and recall)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.models.model import Model
from thinstream.training.metrics import Progress, below_bin, bins_of, middles

# Thresholds chosen for a recall, a precision or a share of false alarms.

#: Finer bins than those of metrics: sign, 8 bits of exponent and 7 of mantissa of a float32.
BINS, _SHIFT = 1 << 16, np.uint32(16)


class Goal(NamedTuple):
    """A goal for a threshold: the highest with this recall, or the lowest with this precision or share of false alarms.

    >>> Goal.of(recall=0.9)
    Goal(metric='recall', share=0.9)
    """

    metric: str  # "recall", "false_alarms" (negatives predicted positive, of all negatives) or "precision"
    share: float

    @classmethod
    def of(cls, recall: float | None = None, false_alarms: float | None = None, precision: float | None = None) -> Self:
        """Return the goal of the one argument that is given; raise if there is none or more than one."""
        shares = {"recall": recall, "false_alarms": false_alarms, "precision": precision}
        asked = {metric: share for metric, share in shares.items() if share is not None}
        if len(asked) != 1:
            raise InvalidParameterError(
                f"a threshold is chosen for one of recall, false_alarms and precision, got {asked or None}"
            )
        ((metric, share),) = asked.items()
        try:
            fine = 0.0 <= share < 1.0 if metric == "false_alarms" else 0.0 < share <= 1.0
        except TypeError:
            fine = False
        if not fine:
            allowed = "from 0 to below 1" if metric == "false_alarms" else "above 0, at most 1"
            raise InvalidParameterError(f"{metric} must be a share {allowed}, got {share!r}")
        return cls(metric, float(share))

    def above(self, rows: int) -> int:
        """Return how many of the rows of its class must (recall) or may (false alarms) be above the threshold."""
        exact = self.share * rows
        return max(math.ceil(exact - 1e-9), 1) if self.metric == "recall" else math.floor(exact + 1e-9)

    @property
    def positive(self) -> bool:
        """Whether the goal needs rows of the positive class, rather than of the negative."""
        return self.metric != "false_alarms"

    def lowest_precise(self, hits: NDArray[Any], false: NDArray[Any]) -> int | None:
        """Return the lowest of several descending thresholds that has this precision; None if no threshold has it.

        ``found`` and ``false`` are the numbers of positive and negative rows above each threshold.
        """
        fits = np.flatnonzero((hits > 0) & (hits >= self.share * (hits + false) - 1e-9))
        return int(fits[-1]) if len(fits) else None

    def unreached(self, hits: NDArray[Any], false: NDArray[Any]) -> str:
        """Return the message for a precision that no threshold has."""
        precision = hits / np.maximum(hits + false, 1)
        best = int(np.flatnonzero(precision == precision.max())[-1])
        return (
            f"no threshold reaches precision {self.share:g}; the highest is {precision[best]:.4g}, "
            f"with recall {hits[best] / hits[-1]:.4g}"
        )


def choose(goal: Goal, scores: Any, positive: Any) -> float:
    """Return the threshold, in the precision of the scores, that reaches the goal on these scores.

    >>> scores, positive = np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True])
    >>> choose(Goal.of(false_alarms=0.5), scores, positive), bool(choose(Goal.of(recall=1.0), scores, positive) < 0.35)
    (0.1, True)
    """
    scores, positive = np.asarray(scores), np.asarray(positive, dtype=bool)
    if scores.ndim != 1 or scores.shape != positive.shape or scores.dtype.kind != "f":
        raise InvalidInputError(
            f"scores and labels must be vectors of one length, got {scores.dtype} of {scores.shape} and "
            f"{positive.shape}"
        )
    own = np.sort(scores[positive == goal.positive])[::-1]
    if not np.isfinite(scores).all():
        raise InvalidInputError("scores must be finite")
    if not len(own):
        raise InvalidInputError(f"no row is {'positive' if goal.positive else 'negative'}: {goal.metric} is undefined")
    if goal.metric == "precision":
        order = np.argsort(-scores, kind="stable")
        ends = np.flatnonzero(np.append(scores[order][1:] != scores[order][:-1], True))  # the last of equal scores
        hits = np.cumsum(positive[order])[ends]
        false = ends + 1 - hits
        lowest = goal.lowest_precise(hits, false)
        if lowest is None:
            raise InvalidInputError(goal.unreached(hits, false))
        return float(np.nextafter(scores[order][ends[lowest]], scores.dtype.type(-np.inf)))
    k = goal.above(len(own))
    # a score must be above the threshold: for recall the next number below the last that counts
    return float(np.nextafter(own[k - 1], scores.dtype.type(-np.inf)) if goal.positive else own[k])


def goal_of(model: Model) -> Goal | None:
    """Return what the threshold of a model was chosen for; None if it was not chosen, or if that is not known."""
    goal = (model.report or {}).get("goal")
    return None if goal is None else Goal(str(goal[0]), float(goal[1]))


class Chosen(NamedTuple):
    """A threshold, and what it does to the rows it was chosen on."""

    threshold: float
    rows: int
    recall: float
    false_alarms: float
    precision: float


class RecentScores:
    """Scores of the later rows of a stream, in 2^16 bins, from which a threshold is chosen.

    The progressive scores of the first rows come from a model that has learned little. So only rows from the 2^(k−1)-th
    on count, with 2^k ≤ n < 2^(k+1), which are a half to three quarters of all n. Scores that agree in sign, exponent
    and 7 bits of the mantissa (at most 1/128 apart) count as equal, and the goal holds on the safe side. Memory is
    constant (2 MB), and any chunking gives the same counts.

    Examples
    --------
    >>> recent = RecentScores()
    >>> recent.update(np.linspace(-4.0, 4.0, 1000)[::-1], np.tile([-1, 1], 500).astype(np.int8))
    >>> found = recent.choose(Goal.of(recall=0.9))
    >>> found.recall >= 0.9, found.rows
    (True, 744)

    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, 2, BINS), np.int64)  # rows before and after the last power of two; by class
        self._rows = 0

    def update(self, scores: NDArray[Any], y: NDArray[np.int8], weights: NDArray[Any] | None = None) -> None:
        """Takes the next rows: finite scores, labels ±1, weights; rows of weight 0 are left out."""
        places, positive = bins_of(scores, _SHIFT), (y > 0).astype(np.intp)
        if weights is not None:
            places, positive = places[weights != 0], positive[weights != 0]
        while len(places):
            until = 1 << self._rows.bit_length()  # the next power of two
            now = min(len(places), until - self._rows)
            np.add.at(self._counts[1], (positive[:now], places[:now]), 1)
            self._rows, places, positive = self._rows + now, places[now:], positive[now:]
            if self._rows == until:
                self._counts[0], self._counts[1] = self._counts[1], 0

    def choose(self, goal: Goal) -> Chosen | None:
        """Return the threshold; None if there is none."""
        chosen = self.choose_or_explain(goal)
        return None if isinstance(chosen, str) else chosen

    def choose_or_explain(self, goal: Goal) -> Chosen | str:
        """Return the threshold, or the reason why there is none."""
        counts = self._counts.sum(axis=0)
        above = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]  # rows in this bin and all higher ones
        negatives, positives = above[:, 0].tolist()
        own = above[int(goal.positive)]
        if not own[0]:
            sign = "positive" if goal.positive else "negative"
            return f"no threshold was chosen: no {sign} row came in the later part of the stream"
        if goal.metric == "precision":
            precise = goal.lowest_precise(above[1, ::-1], above[0, ::-1])
            if precise is None:
                return f"no threshold was chosen: {goal.unreached(above[1, ::-1], above[0, ::-1])}"
            lowest = BINS - 1 - precise
            # bins without rows change nothing: the threshold is just below the lowest score above it
            lowest += int(np.flatnonzero(counts[:, lowest:].any(axis=0))[0])
        else:
            k = goal.above(int(own[0]))
            fits = own >= k if goal.positive else own <= k
            lowest = int(np.flatnonzero(fits)[-1 if goal.positive else 0])
        false, hits = above[:, lowest].tolist()
        return Chosen(
            below_bin(lowest, _SHIFT),
            negatives + positives,
            hits / positives if positives else math.nan,
            false / negatives if negatives else math.nan,
            hits / (hits + false) if hits + false else math.nan,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The full state, for a checkpoint. Empty bins are left out."""
        places = np.flatnonzero(self._counts)
        return {"places": places, "numbers": self._counts.reshape(-1)[places], "rows": np.array([self._rows])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The scores `arrays` was called on."""
        recent, places, numbers = cls(), arrays["places"], arrays["numbers"]
        fine = places.shape == numbers.shape and np.all((places >= 0) & (places < recent._counts.size))
        if not (fine and 0 <= numbers.sum() <= arrays["rows"][0]):
            raise InvalidInputError("the arrays of recent scores contradict each other")
        recent._counts.reshape(-1)[places] = numbers
        recent._rows = int(arrays["rows"][0])
        return recent


# Curves behind the metrics, as numbers: precision and recall, ROC, and how often scores turn out right.

#: Most points of a curve; groups of rows in which predicted and observed shares are compared.
POINTS, GROUPS = 200, 10


def curves_of(progress: Progress, classes: Sequence[Any], *, probabilities: bool) -> Any:
    """Return the curves for JSON: one of each kind, or with more than two classes, precision, recall and ROC of each.

    Points go from the highest threshold to the lowest; a row counts as positive if its score is above it. They are
    those of scores in bins, see `Progress`. ``probabilities`` says whether scores are log-odds.

    Examples
    --------
    >>> progress = Progress()
    >>> progress.update(np.array([-2.0, 1.0, 0.5, 2.0]), np.array([-1, -1, 1, 1], np.int8))
    >>> curves_of(progress, ["ham", "spam"], probabilities=True)["precision_recall"]["precision"]
    [1.0, 0.5, 0.6666666666666666, 0.5]

    """
    counted = progress.counted
    if counted.binary:
        negatives, positives = counted.bins[:, 0]
        return _of_scores(negatives, positives) | {"calibration": calibration(negatives, positives, probabilities)}
    bins_of_each = counted.bins.swapaxes(0, 1)
    return [{"class": label, **_of_scores(*bins)} for label, bins in zip(classes, bins_of_each, strict=False)]


def _of_scores(negatives: NDArray[Any], positives: NDArray[Any]) -> dict[str, Any]:
    places = np.flatnonzero(negatives + positives)[::-1]
    false, true = np.cumsum(negatives[places]), np.cumsum(positives[places])
    kept = np.unique(np.linspace(0, len(places) - 1, POINTS).round().astype(np.int64)) if len(places) else places
    false, true, all_false, all_true = false[kept], true[kept], max(negatives.sum(), 1), max(positives.sum(), 1)
    thresholds = [below_bin(int(position)) for position in places[kept]]
    recall = (true / all_true).tolist()
    return {
        "precision_recall": {"threshold": thresholds, "precision": (true / (true + false)).tolist(), "recall": recall},
        "roc": {"threshold": thresholds, "false_alarms": (false / all_false).tolist(), "recall": recall},
    }


def calibration(negatives: NDArray[Any], positives: NDArray[Any], probabilities: bool) -> dict[str, Any]:
    """Return predicted and observed shares of positives in ten groups of rows: by probability, or of equal sizes.

    With probabilities, ``predicted`` is the mean of a group, and ``error`` the mean of |observed − predicted| over
    rows. Without probabilities, there is the mean ``score`` of a group.
    """
    rows = negatives + positives
    places = np.flatnonzero(rows)
    rows, positives, score = rows[places], positives[places], middles()[places]
    with np.errstate(over="ignore"):
        predicted = 1.0 / (1.0 + np.exp(-score)) if probabilities else score
    before = np.cumsum(rows) - rows
    share = predicted if probabilities else (before + rows / 2) / max(rows.sum(), 1)
    group = np.minimum((share * GROUPS).astype(np.int64), GROUPS - 1)
    weights = rows, positives, rows * predicted
    sums = [np.bincount(group, weights=values, minlength=GROUPS) for values in weights]
    count, hits, total = (values[sums[0] > 0] for values in sums)
    error = {"error": float(np.abs(hits - total).sum() / max(count.sum(), 1))} if probabilities else {}
    return error | {
        "predicted" if probabilities else "score": (total / count).tolist(),
        "observed": (hits / count).tolist(),
        "rows": count.astype(np.int64).tolist(),
    }
