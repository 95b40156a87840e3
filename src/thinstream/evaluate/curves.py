"""Curves behind the metrics, as numbers: precision and recall, ROC, and how often scores turn out right."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.evaluate.progress import Progress
from thinstream.evaluate.score_bins import below_bin, middles
from thinstream.evaluate.tally import ClassTally, Tally

#: Most points of a curve; groups of rows in which predicted and observed shares are compared.
POINTS, GROUPS = 200, 10


def curves_of(progress: Progress, classes: Sequence[Any], *, probabilities: bool) -> Any:
    """The curves as JSON has them: of two classes one of each kind, of more precision, recall and ROC of each class.

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
    if isinstance(counted, Tally):
        negatives, positives = counted.bins
        return _of_scores(negatives, positives) | {"calibration": calibration(negatives, positives, probabilities)}
    if not isinstance(counted, ClassTally):  # classes that come as they come: no bins are kept
        return []
    each = counted.bins.swapaxes(0, 1)
    return [{"class": label, **_of_scores(*bins)} for label, bins in zip(classes, each, strict=False)]


def _of_scores(negatives: NDArray[Any], positives: NDArray[Any]) -> dict[str, Any]:
    places = np.flatnonzero(negatives + positives)[::-1]
    false, true = np.cumsum(negatives[places]), np.cumsum(positives[places])
    kept = np.unique(np.linspace(0, len(places) - 1, POINTS).round().astype(np.int64)) if len(places) else places
    false, true, all_false, all_true = false[kept], true[kept], max(negatives.sum(), 1), max(positives.sum(), 1)
    thresholds = [below_bin(int(place)) for place in places[kept]]
    recall = (true / all_true).tolist()
    return {
        "precision_recall": {"threshold": thresholds, "precision": (true / (true + false)).tolist(), "recall": recall},
        "roc": {"threshold": thresholds, "false_alarms": (false / all_false).tolist(), "recall": recall},
    }


def calibration(negatives: NDArray[Any], positives: NDArray[Any], probabilities: bool) -> dict[str, Any]:
    """What scores say and what comes of it, in ten groups of rows: of equal widths of probability, or of equal sizes.

    With probabilities ``predicted`` is the mean of a group, and ``error`` the mean over rows of how far what comes is
    from what was said, |observed − predicted|, of their groups; without them there is its mean ``score``.
    """
    rows = negatives + positives
    places = np.flatnonzero(rows)
    rows, positives, score = rows[places], positives[places], middles()[places]
    with np.errstate(over="ignore"):
        said = 1.0 / (1.0 + np.exp(-score)) if probabilities else score
    before = np.cumsum(rows) - rows
    share = said if probabilities else (before + rows / 2) / max(rows.sum(), 1)
    group = np.minimum((share * GROUPS).astype(np.int64), GROUPS - 1)
    sums = [np.bincount(group, weights=each, minlength=GROUPS) for each in (rows, positives, rows * said)]
    some = sums[0] > 0
    count, found, total = (each[some] for each in sums)
    error = {"error": float(np.abs(found - total).sum() / max(count.sum(), 1))} if probabilities else {}
    return error | {
        "predicted" if probabilities else "score": (total / count).tolist(),
        "observed": (found / count).tolist(),
        "rows": count.astype(np.int64).tolist(),
    }
