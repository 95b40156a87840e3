"""The sparsity path: models from dense to empty, one lane per value of l1, in one pass over a stream."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find
from thinstream.batch import Batch
from thinstream.data.labels import Classes
from thinstream.data.stream import Stream
from thinstream.engine.loop import Costs
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.lanes.learner import Frozen
from thinstream.models.importance import DEFAULT_POWER
from thinstream.models.model import Model
from thinstream.models.outputs import Outputs
from thinstream.models.pipeline import Pipeline
from thinstream.models.preparation import Preparation
from thinstream.training.metrics import EXAMPLES, P3, Tradeoff
from thinstream.training.observer import Observer
from thinstream.tuning.counts import ABSENT, HELD_OUT, LEARNED, RANKED, LaneCounts, LaneRanks, LaneTallies
from thinstream.tuning.measures import (
    MEASURES,
    AnyScoring,
    Numbers,
    PredictionScoring,
    RankScoring,
    Scoring,
    check_metric,
    is_constant,
    metric_values,
    path_columns,
    standard_errors,
)
from thinstream.tuning.passes import HoldoutStream, Numbering, PeekableStream, is_repeatable, narrowed, study_stream
from thinstream.tuning.study import CELLS, Study, StudyConfig, Trial
from thinstream.tuning.thin_curve import measured

# Selection of a model by a metric, its standard error and the number of weights.

RULES = ("one_se", "best")


class Limits(NamedTuple):
    """Limits on the number of non-zero weights."""

    max_nnz: int | None = None
    max_density: float | None = None


UNLIMITED = Limits()


def check_rule(rule: str, limits: Limits) -> str:
    """Check the selection rule and the limits."""
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
    """Return the index of the model to select. ``sign`` is -1 if smaller values of the metric are better.

    Among the models within the limits, it is the best one (the sparsest of equals) or, by the one-standard-error rule,
    the sparsest one that is worse than the best by at most the standard error of the best.

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
            f"no model has at most {most:,.0f} non-zero weights. The sparsest has {nnz.min():,}. Increase l1_max"
        )
    loss = np.where(np.isfinite(values), -sign * values, np.inf)
    order = sorted(allowed.tolist(), key=lambda k: (loss[k], nnz[k], -k))
    best = order[0]
    if rule == "best":
        return int(best)
    near = [k for k in order if loss[k] <= loss[best] + errors[best]] or [best]
    return int(min(near, key=lambda k: (nnz[k], loss[k], -k)))


# The default range of l1 comes from an experiment on the first rows, with l1 from 1e-8 to 1e8.
#
# The effect of l1 depends on the algorithm, its schedule, its learning rate, the scale of the values and the length of
# the stream (the threshold of FSOL is constant while its sums grow, that of AdaRDA grows with the rounds). The
# experiment measures the l1 at which weights begin to vanish, and at which almost none are left, after a quarter of
# the rows and after all of them. A power law through both extrapolates to the length of the stream, only outwards: an
# l1 that removes no weight in the end may still have delayed learning while its threshold was above the sums (λ/t of
# SSOL).

#: The number of rows in the experiment, and the assumed length of a stream of unknown length as a multiple of it.
LOOK, MANY = 4000, 100
GRID = np.geomspace(1e-8, 1e8, 33)
#: Shares of the weights that are left at the lower and upper end of the range.
DENSE, THIN = 0.95, 0.01
#: The maximum number of classes in the experiment.
CLASSES = 8
#: The range if l1 has no effect in the experiment.
FALLBACK = 1e-6, 1e2


class L1Range(NamedTuple):
    """A range of l1."""

    low: float
    high: float


def find_l1_range(stream: PeekableStream, config: StudyConfig, trial: Trial) -> L1Range:
    """Estimate the range of l1 from the first rows of a stream, rounded outwards to one digit."""
    rows = _compact(stream.look(LOOK))
    length = stream.length() or (len(rows) if len(rows) < LOOK else MANY * len(rows))
    rows, config, trial = _of_few_classes(rows, config, trial)
    parameters = [{**trial.parameters, "l1": value} for value in (0.0, *GRID.tolist())]
    trials = [trial._replace(parameters=values) for values in parameters]
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
    # a schedule with high thresholds in the first rounds has an effect before weights vanish: also try smaller values
    low, high = min(low, 10.0 ** late[0]), max(high, 10.0 ** late[1])
    # a little beyond both ends, because counts of few weights are imprecise
    return L1Range(_rounded(low / 2.0, math.floor), _rounded(max(2.0 * high, 10.0 * low), math.ceil))


def _compact(batches: Sequence[Batch]) -> Batch:
    """Return the first rows as one batch, without features that do not occur in them."""
    rows = Batch.concatenate(batches).check()
    rows = rows.until(min(LOOK, len(rows)))
    met, renumbered = np.unique(rows.indices[: rows.nnz], return_inverse=True)
    indices = renumbered.astype(np.int32).reshape(-1)
    return replace(rows, indices=indices, values=rows.values[: rows.nnz], n_features=max(len(met), 1), position=None)


def _of_few_classes(rows: Batch, config: StudyConfig, trial: Trial) -> tuple[Batch, StudyConfig, Trial]:
    """Return rows with only the most frequent classes, and all others merged into one."""
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
    """Return log10 of the last l1 with more than this share of weights left, interpolated to the next."""
    above = np.flatnonzero(left > level)
    places = np.log10(GRID)
    if not len(above):
        return float(places[0])
    k = min(int(above[-1]), len(GRID) - 2)
    share = (left[k] - level) / (left[k] - left[k + 1]) if left[k] > left[k + 1] else 1.0
    return float(places[k] + min(share, 1.0) * (places[k + 1] - places[k]))


def _carried(early: float, late: float, rows: int, length: int) -> float:
    """Extrapolate l1 to the end of a stream, from a quarter of the rows and all rows of the experiment."""
    power = min(max((late - early) / math.log10(4.0), -1.0), 1.0)
    return float(10.0 ** (late + power * math.log10(max(length / rows, 1.0))))


def _rounded(value: float, how: Callable[[float], int]) -> float:
    """Round to one digit, up or down.

    >>> _rounded(0.0234, math.ceil), _rounded(678.0, math.floor)
    (0.03, 600.0)
    """
    exponent = math.floor(math.log10(value))
    digit = how(value / 10.0**exponent)
    return float(f"{digit}e{exponent}")


# The models from dense to sparse, and their metrics.

#: With fewer held-out rows, progressive metrics compare the models.
ENOUGH = 100
#: How far to look beyond an end.
BEYOND = 1000.0


class Scored(NamedTuple):
    """A score of each model that counts do not determine (greater is better), with standard errors."""

    held_out: Numbers
    held_out_errors: Numbers
    learned: Numbers  # progressive; NaN: unknown
    learned_errors: Numbers


class Edge(NamedTuple):
    """The end of the range at which the best model is, and where to search next. As text, it is a warning."""

    which: str  # l1: "lowest", "highest"
    beyond: L1Range

    def __str__(self) -> str:
        return f"the best model has the {self.which} l1 of the range, and there may be better models beyond it"


@dataclass(frozen=True, eq=False)
class PathResult:
    """Models from the densest to the sparsest, and their metrics.

    ``learned`` counts each model's mistakes on rows before it learned them (progressive validation), ``held_out`` those
    of final models on rows they never learned; nothing is counted there where no row was held out.
    """

    algorithm: str
    l1: NDArray[np.float64]
    nnz: NDArray[np.int64]
    n_features: int
    learned: LaneCounts
    held_out: LaneCounts
    models: tuple[Outputs | partial[Outputs], ...]  # whole, or what makes one of its weights
    rows: int
    passes: int  # over the stream: more than one where memory did not allow all lanes at once
    tested: bool  # held_out was measured on a test stream
    looks_sorted: bool  # labels came in long runs: progressive numbers are too good
    tradeoff: Tradeoff = P3  # of weighted sum and cost
    scored: Mapping[str, Scored] = field(default_factory=dict)  # metrics that counts do not determine
    preparation: Preparation = field(default_factory=Preparation)  # of rows, for all models
    thinned: Numbers | None = None  # error of the densest model thinned to as many weights, on held-out rows
    classes: int = 2
    losses: bool = False  # whether sums of losses were asked for
    numbering: Numbering | None = None  # of named features: which occurred

    @property
    def n_met(self) -> int:
        """Features that weights are counted of: all, of named ones those that occurred."""
        return self.n_features if self.numbering is None else self.numbering.n_met

    @property
    def n_weights(self) -> int:
        """Weights that a model has, zero or not: of more than two classes as many for each."""
        return self.n_met * (1 if self.classes == 2 else self.classes)

    @property
    def judged_on_held_out(self) -> bool:
        """Whether enough rows were held out to pick by them."""
        return bool(self.held_out.rows.min() >= ENOUGH)

    def model(self, k: int) -> Any:
        """Model k; weights only where memory allowed no more."""
        model = self.models[k]
        learner = Pipeline(model() if isinstance(model, partial) else model, self.preparation.copy())
        return learner if self.numbering is None else self.numbering.model(learner)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The table: an array per column, ready for a data frame. ``cost`` is per row."""
        width = max(self.n_weights, 1)
        table: dict[str, NDArray[Any]] = {
            "l1": self.l1,
            "nnz": self.nnz,
            "density": self.nnz / width,
            "sparsity": 1.0 - self.nnz / width,
        }
        for metric in path_columns(self.classes):
            table[metric] = self.progressive(metric)
        for metric in path_columns(self.classes):
            table[f"held_out_{metric}"], table[f"held_out_{metric}_se"] = self.final(metric)
        table["held_out_thinned_error"] = np.full(len(self.l1), np.nan) if self.thinned is None else self.thinned
        return table

    def progressive(self, metric: str) -> NDArray[np.float64]:
        """Return a progressive metric of each model. NaN: unknown."""
        if metric in self.scored:
            return self.scored[metric].learned
        return metric_values(self.learned, metric, self.tradeoff)

    def final(self, metric: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a metric on held-out rows, and its standard errors."""
        if metric in self.scored:
            return self.scored[metric][:2]
        values = metric_values(self.held_out, metric, self.tradeoff)
        return values, np.where(np.isnan(values), np.nan, standard_errors(self.held_out, metric, self.tradeoff))

    def pick(self, scoring: str = "error", rule: str = "one_se", limits: Limits = UNLIMITED) -> int:
        """Return the index of the selected model (see `select_model`), by held-out rows if there are enough."""
        check_rule(rule, limits)
        values, errors, sign = self._judged(scoring)
        return select_model(values, errors, self.nnz, self.n_weights, sign=sign, rule=rule, limits=limits)

    def is_constant(self, k: int, scoring: str = "error") -> bool:
        """Return whether model k is not better than the best constant prediction."""
        if scoring not in MEASURES and scoring not in RANKED:
            return False  # a custom function
        counted = self.held_out if self.judged_on_held_out else self.learned
        value = float(self._judged(scoring)[0][k])
        return is_constant(scoring, value, counted.counts[EXAMPLES, :, k], self.tradeoff)

    def _judged(self, scoring: str) -> tuple[Numbers, Numbers, int]:
        """The values that models are compared by, their standard errors, and -1 if less is better."""
        if scoring in self.scored:
            scored = self.scored[scoring]
            is_held_out = self.judged_on_held_out or np.isnan(scored.learned).all()
            values, errors = scored[:2] if is_held_out else scored[2:]
            return values, errors, 1
        counted = self.held_out if self.judged_on_held_out else self.learned
        values = metric_values(counted, _counted_metric(scoring, self), self.tradeoff)
        return values, standard_errors(counted, scoring, self.tradeoff), MEASURES[scoring].sign

    def edge(self, scoring: str = "error", limits: Limits = UNLIMITED) -> Edge | None:
        """Return the end of the range that the best model is at, or None.

        If no model has a weight, it is the lower end. An upper end without weights does not count.
        """
        best, low, high = self.pick(scoring, "best", limits), float(self.l1[0]), float(self.l1[-1])
        if best == 0 or not self.nnz.any():
            return Edge("lowest", L1Range(low / BEYOND, low))
        at_end = best == len(self.l1) - 1 and self.nnz[-1] > 0
        return Edge("highest", L1Range(high, high * BEYOND)) if at_end else None


def _counted_metric(name: str, path: PathResult) -> str:
    """Return the name of a measure from counts. Raise if it needs ranks or losses, which the sweep has not stored."""
    if check_metric(name, path.classes) in RANKED or ("log_loss" in name and not path.losses):
        raise InvalidParameterError(f"this path has no scoring {name!r}. Request it before the models are trained")
    return name


#: The number of parts of the held-out rows that give the standard error of a score.
PARTS = 10
#: Scores, a column per model, and labels.
Predictions = tuple[NDArray[Any], NDArray[Any]]


class Sweep(NamedTuple):
    """The values of l1, and the held-out rows."""

    n: int = 20
    l1_min: float | None = None  # None: found from the first rows, see `span`
    l1_max: float | None = None
    holdout: int = 10  # every Nth row; 0: none

    def check(self) -> "Sweep":
        """Return the sweep. Raise if a value is not allowed."""
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


def sparse_model(model: Outputs) -> partial[Outputs]:
    """Return a function that creates a learner with weights only, which saves memory."""
    return partial(_made, [_frozen(one) for one in model], model.n_mistakes)


def _made(parts: list[partial[Frozen]], n_mistakes: int) -> Outputs:
    return Outputs([part() for part in parts], n_mistakes=n_mistakes)


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
    """Train models with different l1 on a stream. ``trial`` has all other parameters.

    Every model learns all rows. With ``holdout``, it has a twin: a second lane that does not learn every Nth row. These
    rows are stored (at most some ten thousand, evenly spread), and the final twins score them. With a ``test`` stream,
    the models score its rows, and there are no twins. ``scoring`` is a metric that counts do not determine.
    """
    sweep = sweep.check()
    config = config._replace(algorithm=find(trial.algorithm or config.algorithm).name)
    if "l1" not in {parameter.name for parameter in find(config.algorithm).parameters}:
        raise InvalidParameterError(f"{config.algorithm} has no l1 to sweep")
    config = config._replace(losses=scoring is not None and scoring.losses)
    scoring = None if isinstance(scoring, Scoring) else scoring
    if test is not None and not is_repeatable(test):
        raise InvalidInputError("the test rows must be files or in memory, because they may be read twice. Got a pipe")
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
    counts = study_stream(source, config._replace(folds=every, ranks=ranks), lanes, finish=end, watch=watch)
    mains = [k for k, lane in enumerate(lanes) if lane.split < 0]
    judged = [k for k, lane in enumerate(lanes) if lane.split >= 0] if every else mains
    nnz = np.array([end.nnz[k] for k in mains], dtype=np.int64)
    return PathResult(
        algorithm=config.algorithm,
        l1=l1,
        nnz=nnz,
        n_features=end.n_features if numbering is None else numbering.n_features,
        learned=counts.learned.take(mains),
        held_out=end.held_out.take(judged),
        models=tuple(end.models[k] for k in mains),
        rows=counts.rows,
        passes=counts.passes,
        tested=test is not None,
        looks_sorted=counts.looks_sorted,
        tradeoff=tradeoff,
        scored={} if scoring is None else {scoring.name: Scored(*end.scored[:2, judged], *end.scored[2:, mains])},
        preparation=end.preparation,
        thinned=end.thinned(nnz) if end.held_out.rows[judged[0]] else None,
        classes=config.classes,
        losses=config.losses,
        numbering=numbering,
    )


def _values(stream: PeekableStream, config: StudyConfig, trial: Trial, sweep: Sweep) -> NDArray[np.float64]:
    """Return the values of l1, a geometric sequence."""
    low, high = sweep.l1_min, sweep.l1_max
    if low is None or high is None:
        if not any(map(len, stream.look(1))):
            raise InvalidInputError("the stream has no rows")
        span = find_l1_range(stream, config, trial)
        low = low if low is not None else span.low if high is None else min(span.low, high / 10.0)
        high = high if high is not None else max(span.high, low * 10.0)
    return np.geomspace(low, high, sweep.n)


class _End:
    """The end of a pass: scores held-out rows, drops the twins and takes out the models."""

    def __init__(
        self, config: StudyConfig, lanes: list[Trial], rows: Any, scoring: AnyScoring | None, densest: int
    ) -> None:
        self.config, self.lanes, self.rows, self.scoring = config, lanes, rows, scoring
        self.scored = np.full((len(Scored._fields), len(lanes)), np.nan)
        self.held_out = LaneCounts.nothing(len(lanes), config.classes)
        self.models: dict[int, Outputs | partial[Outputs]] = {}
        self.nnz: dict[int, int] = {}
        self.n_features, self.preparation = 0, Preparation()
        self.place_of_densest = densest  # among the lanes that held-out rows are scored by
        self.densest: Outputs | None = None

    def __call__(self, study: Study, numbers: list[int]) -> list[int]:
        self._score(study, numbers)
        if self.place_of_densest in numbers:
            self.densest = study.lanes[numbers.index(self.place_of_densest)]
        mains = [position for position, k in enumerate(numbers) if self.lanes[k].split < 0]
        study.keep(mains)
        # a second copy of all models must also fit into memory
        whole = len(numbers) == len(self.lanes) and 2 * study.lanes.nbytes <= self.config.limit
        for position, k in enumerate(numbers[position] for position in mains):
            model = study.lanes[position]
            self.nnz[k], self.models[k] = model.nnz, model if whole else sparse_model(model)
        self.n_features, self.preparation = study.lanes.n_features, study.preparation
        return [numbers[position] for position in mains]

    def thinned(self, sizes: NDArray[np.int64]) -> Numbers:
        """Return errors on held-out rows of the densest model, thinned to the features of these numbers of weights."""
        assert self.densest is not None
        classes = Classes(-1, 1) if self.config.classes == 2 else Classes(*range(self.config.classes))
        model = Model(Pipeline(self.densest, self.preparation.copy()), classes)
        features = sizes // max(len(self.densest), 1)  # which have a weight for each class
        curve = measured(model, self.rows(), np.unique(features).tolist(), powers=(DEFAULT_POWER,), scoring="error")
        return np.asarray(curve.errors[0][np.searchsorted(curve.sizes, features)])

    def _score(self, study: Study, numbers: list[int]) -> None:
        """Count right and wrong predictions of the lanes, and compute the scoring that counts do not determine."""
        n = len(study.lanes)
        tallies = LaneTallies(n, self.config.classes, self.config.losses)
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
    """Yield rows to score, a few at a time, with their role for every lane."""
    for batch in batches:
        batch.require_labels("test on")
        for start in range(0, len(batch), size):
            rows = batch.until(min(start + size, len(batch))).after(start)
            roles = np.full((len(rows), n), HELD_OUT, np.int8)
            if rows.weights is not None:
                roles[rows.weights == 0] = ABSENT
            yield rows, roles


def _with_errors(scoring: PredictionScoring, kept: list[Predictions]) -> tuple[Numbers, Numbers]:
    """Return the score of every lane, and its standard error from ten parts of the rows."""
    scores, y = (np.concatenate(parts) for parts in zip(*kept, strict=True))
    lanes = np.moveaxis(scores, 1, 0)
    values = np.array([scoring.function(lane, y) for lane in lanes])
    parts = [[scoring.function(lane[k::PARTS], y[k::PARTS]) for lane in lanes] for k in range(PARTS)]
    return values, np.std(parts, axis=0, ddof=1) / math.sqrt(PARTS)
