"""The sparsity path: models of one algorithm from dense to empty, a lane per l1, in one pass over a stream."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.observer import Observer
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.evaluate.tally import ROWS
from thinstream.learners import Classes, Frozen, Learner, find
from thinstream.models.model import Model
from thinstream.preparing import Preparation, prepared
from thinstream.streams.stream import Stream
from thinstream.thinning import USUAL, measured
from thinstream.tune.l1_range import L1Range, find_l1_range
from thinstream.tune.lane_counts import ABSENT, HELD_OUT, LaneCounts, LaneTallies
from thinstream.tune.multipass import study_stream
from thinstream.tune.peekable import HoldoutStream, PeekableStream
from thinstream.tune.scoring import (
    COLUMNS,
    MEASURES,
    Numbers,
    PredictionScoring,
    check_metric,
    metric_values,
    standard_errors,
)
from thinstream.tune.selection import UNLIMITED, Limits, check_rule, select_model
from thinstream.tune.sources import is_repeatable
from thinstream.tune.study import CELLS, Study, StudyConfig, Trial

#: With fewer rows held out than this, models are judged by their progressive metrics.
ENOUGH = 100
#: Parts of the held-out rows that tell the standard error of a score that counts do not.
PARTS = 10
#: How far to look beyond an end.
BEYOND = 1000.0
#: Scores, a column per lane, and labels.
Predictions = tuple[NDArray[Any], NDArray[np.int8]]


class Sweep(NamedTuple):
    """Which values of l1, and what is held out."""

    n: int = 20
    l1_min: float | None = None  # None: found from the first rows, see `span`
    l1_max: float | None = None
    holdout: int = 10  # every so many-th row; 0: none

    def check(self) -> "Sweep":
        """The sweep, or InvalidParameterError."""
        if isinstance(self.n, bool) or not isinstance(self.n, int | np.integer) or self.n < 2:
            raise InvalidParameterError(f"n, the number of models, must be a whole number >= 2, got {self.n!r}")
        for name, value in (("l1_min", self.l1_min), ("l1_max", self.l1_max)):
            if value is not None and not 0.0 < value < math.inf:
                raise InvalidParameterError(f"{name} must be a number > 0 or None, got {value!r}")
        if self.l1_min is not None and self.l1_max is not None and self.l1_min >= self.l1_max:
            raise InvalidParameterError(f"l1_min must be below l1_max, got {self.l1_min!r} and {self.l1_max!r}")
        every = self.holdout
        if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 0 or every == 1:
            raise InvalidParameterError(f"holdout must be a whole number >= 2, or 0 for none, got {every!r}")
        return self


DEFAULT = Sweep()


def sparse_model(model: Learner) -> partial[Frozen]:
    """What makes a learner that predicts and cannot go on, with no more in memory than predicting needs."""
    where, values = model.sparse_weights()
    return partial(
        Frozen,
        model.algorithm.name,
        model.parameters,
        n_features=model.n_features,
        where=where,
        values=values,
        intercept=model.intercept,
        counts=model.memory.counts.copy(),
        loss=model.cumulative_loss,
        costs=model.costs,
        dtype=values.dtype.name,
        grow=True,
        fit_intercept=bool(model.offset),
    )


class Edge(NamedTuple):
    """An end of a sweep at which the best model is, and where to look on. Printed, it is a remark."""

    which: str  # l1: "lowest", "highest"
    beyond: L1Range

    def __str__(self) -> str:
        return f"the best model has the {self.which} l1 of the sweep: there may be better ones beyond it"


@dataclass(frozen=True, eq=False)
class PathResult:
    """Models from the densest to the sparsest, and how good they are.

    ``learned`` counts each model's mistakes on rows before it learned them (progressive validation), ``held_out`` those
    of final models on rows they never learned; nothing is counted there where no row was held out.
    """

    algorithm: str
    l1: NDArray[np.float64]
    nnz: NDArray[np.int64]
    n_features: int
    learned: LaneCounts
    held_out: LaneCounts
    models: tuple[Learner | partial[Frozen], ...]  # whole, or what makes one of its weights
    rows: int
    passes: int  # over the stream: more than one where memory did not allow all lanes at once
    tested: bool  # held_out is that of a stream of its own
    looks_sorted: bool  # labels came in long runs: progressive numbers are too good
    tradeoff: Tradeoff = P3  # of weighted sum and cost
    scored: Mapping[str, tuple[Numbers, Numbers]] = field(default_factory=dict)  # what counts do not tell, held out
    preparation: Preparation = field(default_factory=Preparation)  # of rows, for all models
    thinned: Numbers | None = None  # error of the densest model thinned to as many weights, on held-out rows

    @property
    def judged_on_held_out(self) -> bool:
        """Whether enough rows were held out to pick by them."""
        return bool(self.held_out.counts[ROWS].min() >= ENOUGH)

    def model(self, k: int) -> Any:
        """Model k; weights only where memory allowed no more."""
        found = self.models[k]
        return prepared(found() if isinstance(found, partial) else found, self.preparation.copy())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table: an array per column, ready for a data frame. ``cost`` is per row."""
        width = max(self.n_features, 1)
        table: dict[str, NDArray[Any]] = {
            "l1": self.l1,
            "nnz": self.nnz,
            "density": self.nnz / width,
            "sparsity": 1.0 - self.nnz / width,
        }
        for metric in COLUMNS:
            table[metric] = self.progressive(metric)
        for metric in COLUMNS:
            table[f"held_out_{metric}"], table[f"held_out_{metric}_se"] = self.final(metric)
        table["held_out_thinned_error"] = np.full(len(self.l1), np.nan) if self.thinned is None else self.thinned
        return table

    def progressive(self, metric: str) -> NDArray[np.float64]:
        """A metric of rows before they were learned; NaN where counts do not tell it."""
        if metric in self.scored:
            return np.full(len(self.l1), np.nan)
        return metric_values(self.learned, metric, self.tradeoff)

    def final(self, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A metric of held-out rows, and its standard errors."""
        if metric in self.scored:
            return self.scored[metric]
        values = metric_values(self.held_out, metric, self.tradeoff)
        return values, np.where(np.isnan(values), np.nan, standard_errors(self.held_out, metric, self.tradeoff))

    def pick(self, scoring: str = "error", rule: str = "one_se", limits: Limits = UNLIMITED) -> int:
        """The number of the model to take, see `selection.select_model`; by held-out rows if there are enough."""
        check_rule(rule, limits)
        if scoring in self.scored:
            (values, errors), sign = self.scored[scoring], 1
        else:
            counted = self.held_out if self.judged_on_held_out else self.learned
            values = metric_values(counted, check_metric(scoring), self.tradeoff)
            errors, sign = standard_errors(counted, scoring, self.tradeoff), MEASURES[scoring].sign
        return select_model(values, errors, self.nnz, self.n_features, sign=sign, rule=rule, limits=limits)

    def edge(self, scoring: str = "error", limits: Limits = UNLIMITED) -> Edge | None:
        """The end that the best model is at, if it is at one.

        Where no model has a weight it is the lower one; beyond an upper one without a weight there is nothing.
        """
        best, low, high = self.pick(scoring, "best", limits), float(self.l1[0]), float(self.l1[-1])
        if best == 0 or not self.nnz.any():
            return Edge("lowest", L1Range(low / BEYOND, low))
        at_end = best == len(self.l1) - 1 and self.nnz[-1] > 0
        return Edge("highest", L1Range(high, high * BEYOND)) if at_end else None


def sweep_stream(
    stream: Stream,
    config: StudyConfig,
    trial: Trial,
    sweep: Sweep = DEFAULT,
    *,
    test: Stream | None = None,
    watch: Observer | None = None,
    tradeoff: Tradeoff = P3,
    scoring: PredictionScoring | None = None,
) -> PathResult:
    """Sweeps l1 over a stream; ``trial`` has all else.

    Every model learns from all rows. With ``holdout`` each has a twin, a second lane that never learns every so many-th
    row; these rows are kept (some ten thousand at most, evenly spread) and scored by the twins as they are at the end.
    With a ``test`` stream the models themselves are scored on it, and there are no twins. ``scoring`` is what else to
    compute of these rows, that counts do not tell.
    """
    sweep = sweep.check()
    if "l1" not in {parameter.name for parameter in find(config.algorithm).parameters}:
        raise InvalidParameterError(f"{find(config.algorithm).name} has no l1 to sweep")
    if test is not None and not is_repeatable(test):
        raise InvalidInputError("the test rows must be files, or data in memory: a pipe may be needed twice")
    every = 0 if test is not None else sweep.holdout
    if scoring is not None and test is None and not every:
        raise InvalidParameterError(f"scoring {scoring.name!r} needs held-out rows: holdout must not be 0")
    ahead = PeekableStream(stream)
    l1 = _values(ahead, config, trial, sweep)
    source: Any = HoldoutStream(ahead, every) if every else ahead
    lanes = []
    for k, value in enumerate(l1.tolist()):
        model = trial._replace(parameters={**trial.parameters, "l1": value}, split=-1, candidate=k)
        lanes += [model, model._replace(split=every - 1)] if every else [model]

    def held_out() -> Iterable[Batch]:
        kept: Iterable[Batch] = test.batches() if test is not None else source.rows if every else []
        return kept

    end = _End(config, lanes, held_out, scoring, densest=1 if every else 0)
    found = study_stream(source, config._replace(folds=every), lanes, finish=end, watch=watch)
    mains = [k for k, each in enumerate(lanes) if each.split < 0]
    judged = [k for k, each in enumerate(lanes) if each.split >= 0] if every else mains
    nnz = np.array([end.nnz[k] for k in mains], dtype=np.int64)
    return PathResult(
        algorithm=find(config.algorithm).name,
        l1=l1,
        nnz=nnz,
        n_features=end.n_features,
        learned=found.learned.take(mains),
        held_out=end.held_out.take(judged),
        models=tuple(end.models[k] for k in mains),
        rows=found.rows,
        passes=found.passes,
        tested=test is not None,
        looks_sorted=found.looks_sorted,
        tradeoff=tradeoff,
        scored={} if scoring is None else {scoring.name: (end.scores[judged], end.errors[judged])},
        preparation=end.preparation,
        thinned=end.thinned(nnz) if end.held_out.counts[ROWS, judged[0]] else None,
    )


def _values(stream: PeekableStream, config: StudyConfig, trial: Trial, sweep: Sweep) -> NDArray[np.float64]:
    """The values of l1, geometric."""
    low, high = sweep.l1_min, sweep.l1_max
    if low is None or high is None:
        if not any(map(len, stream.look(1))):
            raise InvalidInputError("the stream has no example")
        span = find_l1_range(stream, config, trial)
        low = low if low is not None else span.low if high is None else min(span.low, high / 10.0)
        high = high if high is not None else max(span.high, low * 10.0)
    return np.geomspace(low, high, sweep.n)


class _End:
    """What is done at the end of a pass: rows are scored, twins dropped, models taken out."""

    def __init__(
        self, config: StudyConfig, lanes: list[Trial], rows: Any, scoring: PredictionScoring | None, densest: int
    ) -> None:
        self.config, self.lanes, self.rows, self.scoring = config, lanes, rows, scoring
        self.scores, self.errors = np.full(len(lanes), np.nan), np.full(len(lanes), np.nan)
        self.held_out = LaneCounts.nothing(len(lanes))
        self.models: dict[int, Learner | partial[Frozen]] = {}
        self.nnz: dict[int, int] = {}
        self.n_features, self.preparation = 0, Preparation()
        self.place_of_densest = densest  # among the lanes that held-out rows are scored by
        self.densest: Learner | None = None

    def __call__(self, study: Study, numbers: list[int]) -> list[int]:
        kept: list[Predictions] | None = None if self.scoring is None else []
        self.held_out.put(numbers, _score(study, self.rows(), kept))
        if self.scoring is not None and kept:
            self.scores[numbers], self.errors[numbers] = _with_errors(self.scoring, kept)
        if self.place_of_densest in numbers:
            self.densest = study.lanes[numbers.index(self.place_of_densest)]
        mains = [place for place, k in enumerate(numbers) if self.lanes[k].split < 0]
        study.keep(mains)
        # a second copy of everything must fit, too, and be there at once
        whole = len(numbers) == len(self.lanes) and 2 * study.lanes.nbytes <= self.config.limit
        for place, k in enumerate(numbers[place] for place in mains):
            model = study.lanes[place]
            self.nnz[k], self.models[k] = model.nnz, model if whole else sparse_model(model)
        self.n_features, self.preparation = study.lanes.n_features, study.preparation
        return [numbers[place] for place in mains]

    def thinned(self, sizes: NDArray[np.int64]) -> Numbers:
        """Errors on held-out rows of the densest model, thinned to so many weights each."""
        assert self.densest is not None
        model = Model(prepared(self.densest, self.preparation.copy()), Classes(-1, 1))
        curve = measured(model, self.rows(), np.unique(sizes).tolist(), powers=(USUAL,))
        return np.asarray(curve.errors[0][np.searchsorted(curve.sizes, sizes)])


def _score(study: Study, batches: Iterable[Batch], kept: list[Predictions] | None) -> LaneCounts:
    """What the lanes, as they are, get right and wrong; predictions of rows that count are added to ``kept``."""
    n = len(study.lanes)
    tallies, size = LaneTallies(n), max(CELLS // n, 1)
    for batch in batches:
        batch.require_labels("test on")
        for start in range(0, len(batch), size):
            rows = batch.until(min(start + size, len(batch))).after(start)
            roles = np.full((len(rows), n), HELD_OUT, np.int8)
            if rows.weights is not None:
                roles[rows.weights == 0] = ABSENT
            assert rows.y is not None
            scores = study.scores(rows)
            tallies.update(scores, rows.y, roles)
            if kept is not None:
                present = roles[:, 0] == HELD_OUT
                kept.append((scores[present], rows.y[present]))
    return tallies.held_out


def _with_errors(scoring: PredictionScoring, kept: list[Predictions]) -> tuple[Numbers, Numbers]:
    """The score of every lane, and its standard error from that of ten parts of the rows."""
    scores, y = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    values = np.array([scoring.function(lane, y) for lane in scores.T])
    parts = [[scoring.function(lane[k::PARTS], y[k::PARTS]) for lane in scores.T] for k in range(PARTS)]
    return values, np.std(parts, axis=0, ddof=1) / math.sqrt(PARTS)
