"""The sparsity path: models of one algorithm from dense to empty, a lane per l1, in one pass over a stream."""

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.observer import Observer
from thinstream.evaluate.report import P3, Tradeoff
from thinstream.learners import Classes, Frozen, find
from thinstream.learners.protocol import AnyLearner
from thinstream.models.model import Model
from thinstream.one_vs_rest import learner_of
from thinstream.preparing import Preparation, prepared
from thinstream.streams.stream import Stream
from thinstream.thinning import USUAL, measured
from thinstream.tune.class_counts import tallies_of
from thinstream.tune.l1_range import find_l1_range
from thinstream.tune.lane_counts import ABSENT, HELD_OUT, LEARNED, LaneCounts
from thinstream.tune.lane_ranks import LaneRanks
from thinstream.tune.measures import Numbers
from thinstream.tune.multipass import study_stream
from thinstream.tune.occurring import narrowed
from thinstream.tune.path_result import PathResult, Scored
from thinstream.tune.peekable import HoldoutStream, PeekableStream
from thinstream.tune.scoring import AnyScoring, PredictionScoring, RankScoring, Scoring
from thinstream.tune.sources import is_repeatable
from thinstream.tune.study import CELLS, Study
from thinstream.tune.trials import StudyConfig, Trial

#: Parts of the held-out rows that tell the standard error of a score that counts do not.
PARTS = 10
#: Scores, a column per model, and labels.
Predictions = tuple[NDArray[Any], NDArray[Any]]


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


def sparse_model(model: AnyLearner) -> partial[AnyLearner]:
    """What makes a learner that predicts and cannot go on, with no more in memory than predicting needs."""
    return partial(_made, [_frozen(one) for one in model.models], model.n_mistakes)


def _made(parts: list[partial[Frozen]], n_mistakes: int) -> AnyLearner:
    return learner_of([part() for part in parts], n_mistakes)


def _frozen(model: Any) -> partial[Frozen]:
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


def sweep_stream(
    stream: Stream,
    config: StudyConfig,
    trial: Trial,
    sweep: Sweep = DEFAULT,
    *,
    test: Stream | None = None,
    watch: Observer | None = None,
    tradeoff: Tradeoff = P3,
    scoring: AnyScoring | None = None,
) -> PathResult:
    """Sweeps l1 over a stream; ``trial`` has all else.

    Every model learns from all rows. With ``holdout`` each has a twin, a second lane that never learns every so many-th
    row; these rows are kept (some ten thousand at most, evenly spread) and scored by the twins as they are at the end.
    With a ``test`` stream the models themselves are scored on it, and there are no twins. ``scoring`` is what else to
    compute of these rows, if counts do not tell it.
    """
    sweep = sweep.check()
    config = config._replace(algorithm=find(trial.algorithm or config.algorithm).name)
    if "l1" not in {parameter.name for parameter in find(config.algorithm).parameters}:
        raise InvalidParameterError(f"{config.algorithm} has no l1 to sweep")
    config = config._replace(losses=scoring is not None and scoring.losses)
    scoring = None if isinstance(scoring, Scoring) else scoring
    if test is not None and not is_repeatable(test):
        raise InvalidInputError("the test rows must be files, or data in memory: a pipe may be needed twice")
    every = 0 if test is not None else sweep.holdout
    if isinstance(scoring, PredictionScoring) and test is None and not every:
        raise InvalidParameterError(f"scoring {scoring.name!r} needs held-out rows: holdout must not be 0")
    ahead = PeekableStream(stream)
    l1 = _values(ahead, config, trial, sweep)
    rows, config, numbering = narrowed(ahead, config, [trial])
    source: Any = HoldoutStream(rows, every) if every else rows
    lanes = []
    for k, value in enumerate(l1.tolist()):
        model = trial._replace(parameters={**trial.parameters, "l1": value}, split=-1, candidate=k)
        lanes += [model, model._replace(split=every - 1)] if every else [model]

    def held_out() -> Iterable[Batch]:
        if test is None:
            return source.rows if every else []
        return test.batches() if numbering is None else numbering.find(test.batches())

    end = _End(config, lanes, held_out, scoring, densest=1 if every else 0)
    ranks = LEARNED if isinstance(scoring, RankScoring) else None
    found = study_stream(source, config._replace(folds=every, ranks=ranks), lanes, finish=end, watch=watch)
    mains = [k for k, each in enumerate(lanes) if each.split < 0]
    judged = [k for k, each in enumerate(lanes) if each.split >= 0] if every else mains
    nnz = np.array([end.nnz[k] for k in mains], dtype=np.int64)
    return PathResult(
        algorithm=config.algorithm,
        l1=l1,
        nnz=nnz,
        n_features=end.n_features if numbering is None else numbering.n_features,
        learned=found.learned.take(mains),
        held_out=end.held_out.take(judged),
        models=tuple(end.models[k] for k in mains),
        rows=found.rows,
        passes=found.passes,
        tested=test is not None,
        looks_sorted=found.looks_sorted,
        tradeoff=tradeoff,
        scored={} if scoring is None else {scoring.name: Scored(*end.scored[:2, judged], *end.scored[2:, mains])},
        preparation=end.preparation,
        thinned=end.thinned(nnz) if end.held_out.rows[judged[0]] else None,
        classes=config.classes,
        losses=config.losses,
        numbering=numbering,
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
        self, config: StudyConfig, lanes: list[Trial], rows: Any, scoring: AnyScoring | None, densest: int
    ) -> None:
        self.config, self.lanes, self.rows, self.scoring = config, lanes, rows, scoring
        self.scored = np.full((len(Scored._fields), len(lanes)), np.nan)
        self.held_out = LaneCounts.nothing(len(lanes), config.classes)
        self.models: dict[int, AnyLearner | partial[AnyLearner]] = {}
        self.nnz: dict[int, int] = {}
        self.n_features, self.preparation = 0, Preparation()
        self.place_of_densest = densest  # among the lanes that held-out rows are scored by
        self.densest: AnyLearner | None = None

    def __call__(self, study: Study, numbers: list[int]) -> list[int]:
        self._score(study, numbers)
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
        classes = Classes(-1, 1) if self.config.classes == 2 else Classes(*range(self.config.classes))
        model = Model(prepared(self.densest, self.preparation.copy()), classes)
        curve = measured(model, self.rows(), np.unique(sizes).tolist(), powers=(USUAL,))
        return np.asarray(curve.errors[0][np.searchsorted(curve.sizes, sizes)])

    def _score(self, study: Study, numbers: list[int]) -> None:
        """Counts what the lanes, as they are, get right and wrong, and computes what counts do not tell."""
        n = len(study.lanes)
        tallies = tallies_of(n, self.config.losses, self.config.classes)
        ranks = None if study.ranks is None else LaneRanks(n, self.config.classes, HELD_OUT)
        kept: list[Predictions] = []
        for rows, roles in _held_out_pieces(self.rows(), n, max(CELLS // (n * self.config.n_lanes), 1)):
            assert rows.y is not None
            scores = study.scores(rows)
            tallies.update(scores, rows.y, roles)
            if ranks is not None:
                ranks.update(scores, rows.y, roles)
            elif self.scoring is not None:
                present = roles[:, 0] == HELD_OUT
                kept.append((scores[present], rows.y[present]))
        self.held_out.put(numbers, tallies.held_out)
        if isinstance(self.scoring, PredictionScoring) and kept:
            self.scored[:2, numbers] = _with_errors(self.scoring, kept)
        if isinstance(self.scoring, RankScoring) and ranks is not None and study.ranks is not None:
            measure = self.scoring.measure
            for first, counted in ((0, ranks), (2, study.ranks)):
                self.scored[first : first + 2, numbers] = measure.values(counted), measure.errors(counted)


def _held_out_pieces(batches: Iterable[Batch], n: int, size: int) -> Iterator[tuple[Batch, NDArray[np.int8]]]:
    """Rows to score, few at a time, with the role each has for every lane."""
    for batch in batches:
        batch.require_labels("test on")
        for start in range(0, len(batch), size):
            rows = batch.until(min(start + size, len(batch))).after(start)
            roles = np.full((len(rows), n), HELD_OUT, np.int8)
            if rows.weights is not None:
                roles[rows.weights == 0] = ABSENT
            yield rows, roles


def _with_errors(scoring: PredictionScoring, kept: list[Predictions]) -> tuple[Numbers, Numbers]:
    """The score of every lane, and its standard error from that of ten parts of the rows."""
    scores, y = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    lanes = np.moveaxis(scores, 1, 0)
    values = np.array([scoring.function(lane, y) for lane in lanes])
    parts = [[scoring.function(lane[k::PARTS], y[k::PARTS]) for lane in lanes] for k in range(PARTS)]
    return values, np.std(parts, axis=0, ddof=1) / math.sqrt(PARTS)
