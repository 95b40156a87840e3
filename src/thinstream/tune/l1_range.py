"""Where a sweep of l1 begins and ends, where nobody says: a look at the first rows with everything from 1e-8 to 1e8.

What l1 does depends on the algorithm, its schedule, its rate, the scale of the values and the length of the stream
(FSOL's threshold stands still while its sums grow; Ada-RDA's grows with the rounds). So it is measured: the l1 at which
weights begin to vanish, and at which next to none are left, after a quarter of the rows looked at and after all of
them. Both are carried on to the length of the stream by the power law through the two, outwards only: an l1 that takes
no weight in the end may still have held up learning for as long as its threshold was above the sums (λ/t of SSOL).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.tune.peekable import PeekableStream
from thinstream.tune.study import Study
from thinstream.tune.trials import StudyConfig, Trial

#: Rows looked at; how many times as many a stream of unknown length is taken to have.
LOOK, MANY = 4000, 100
GRID = np.geomspace(1e-8, 1e8, 33)
#: Shares of the weights that l1 could take which are left at the lower and upper end.
DENSE, THIN = 0.95, 0.01
#: Most classes that are looked at.
CLASSES = 8
#: Where l1 does nothing in the rows looked at.
FALLBACK = 1e-6, 1e2


class L1Range(NamedTuple):
    """The ends of a sweep."""

    low: float
    high: float


def find_l1_range(stream: PeekableStream, config: StudyConfig, trial: Trial) -> L1Range:
    """The ends for this algorithm on this stream, from its first rows; rounded outwards to one digit."""
    rows = _compact(stream.look(LOOK))
    length = stream.length() or (len(rows) if len(rows) < LOOK else MANY * len(rows))
    rows, config, trial = _of_few_classes(rows, config, trial)
    parameters = [{**trial.parameters, "l1": value} for value in (0.0, *GRID.tolist())]
    trials = [trial._replace(parameters=each) for each in parameters]
    alike = config._replace(
        folds=0, n_features=rows.n_features, losses=False, predictions=False, ranks=None, memory=None
    )
    study = Study(alike._replace(memory=None), trials)
    ends = []
    quarter = max(len(rows) // 4, 1)
    for part in (rows.until(quarter), rows.after(quarter)):
        if len(part):
            study.take(part)
        ends.append(_ends(np.array([model.nnz for model in study.lanes])))
    if ends[-1] is None:
        return L1Range(*FALLBACK)
    early, late = ends[0] or ends[-1], ends[-1]
    low, high = (_carried(a, b, len(rows), length) for a, b in zip(early, late, strict=True))
    # a schedule that bears down on the first rounds costs more than weights: what was dense here is tried, too
    low, high = min(low, 10.0 ** late[0]), max(high, 10.0 ** late[1])
    # a little beyond both: counts of few weights are rough
    return L1Range(_rounded(low / 2.0, math.floor), _rounded(max(2.0 * high, 10.0 * low), math.ceil))


def _compact(batches: Sequence[Batch]) -> Batch:
    """The first rows as one batch, without features that none of them has: those cost time and cannot matter."""
    rows = Batch.concatenate(batches).check()
    rows = rows.until(min(LOOK, len(rows)))
    met, renumbered = np.unique(rows.indices[: rows.nnz], return_inverse=True)
    indices = renumbered.astype(np.int32).reshape(-1)
    return replace(rows, indices=indices, values=rows.values[: rows.nnz], n_features=max(len(met), 1), position=None)


def _of_few_classes(rows: Batch, config: StudyConfig, trial: Trial) -> tuple[Batch, StudyConfig, Trial]:
    """The most frequent classes, and all others as one: a model of each tells what l1 does to those of hundreds."""
    if config.classes <= CLASSES:
        return rows, config, trial
    y = rows.require_labels()
    kept = np.argsort(-np.bincount(y, minlength=config.classes), kind="stable")[: CLASSES - 1]
    numbers = np.full(config.classes, CLASSES - 1, np.int32)
    numbers[kept] = np.arange(len(kept))
    costs = (*(trial.costs[k] for k in kept), Costs()) if trial.costs else ()
    return rows.labelled(numbers[y], rows.weights), config._replace(classes=CLASSES), trial._replace(costs=costs)


def _ends(nnz: NDArray[np.int64]) -> tuple[float, float] | None:
    """log10 of l1 where next to all, and next to none, of the weights are left that it could take; None if it cannot.

    >>> found = _ends(np.concatenate([[1000], np.where(GRID < 1e-2, 1000, np.where(GRID < 5.0, 500, 0))]))
    >>> [round(end, 2) for end in found]
    [-2.45, 0.99]
    """
    least, most = nnz[-1], nnz[0]
    if most <= least:
        return None
    left = (nnz[1:] - least) / (most - least)
    # weights may become fewer, more, and fewer again: dense is what lies before the first loss, thin behind the last
    dense = np.minimum.accumulate(left)
    return _crossing(dense, DENSE), _crossing(left, THIN)


def _crossing(left: NDArray[np.float64], level: float) -> float:
    """log10 of the last l1 with more than this left, on a line to the next."""
    above = np.flatnonzero(left > level)
    places = np.log10(GRID)
    if not len(above):
        return float(places[0])
    k = min(int(above[-1]), len(GRID) - 2)
    share = (left[k] - level) / (left[k] - left[k + 1]) if left[k] > left[k + 1] else 1.0
    return float(places[k] + min(share, 1.0) * (places[k + 1] - places[k]))


def _carried(early: float, late: float, rows: int, length: int) -> float:
    """L1 at the end of a stream, from what it was after a quarter of the rows looked at and after all."""
    power = min(max((late - early) / math.log10(4.0), -1.0), 1.0)
    return float(10.0 ** (late + power * math.log10(max(length / rows, 1.0))))


def _rounded(value: float, how: Callable[[float], int]) -> float:
    """One digit, up or down.

    >>> _rounded(0.0234, math.ceil), _rounded(678.0, math.floor)
    (0.03, 600.0)
    """
    exponent = math.floor(math.log10(value))
    digit = how(value / 10.0**exponent)
    return float(f"{digit}e{exponent}")
