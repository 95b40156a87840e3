"""Search over candidates: all at once, or by successive halving."""

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find, unknown_parameter
from thinstream.data.labels import Classes, class_costs
from thinstream.engine.forgetting import HALF_LIFE
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.models.model import make_learner
from thinstream.models.pipeline import Pipeline
from thinstream.training.observer import Observer
from thinstream.tuning.counts import HELD_OUT, LEARNED, LaneCounts
from thinstream.tuning.measures import AnyScoring, Numbers, PredictionScoring, RankScoring, Scoring
from thinstream.tuning.passes import Source, narrowed, study_stream
from thinstream.tuning.study import Study, StudyConfig, Trial

# Successive elimination drops candidates early and frees their memory.
#
# Each time the number of rows has doubled, the later half is split into 16 intervals. In each interval, all candidates
# were scored on the same rows, so the gap to the leader (the best on all rows so far) is a paired difference. The 16
# gaps give its standard error for any measure. A candidate is dropped if its mean gap is more than 5 standard errors
# (with 15 degrees of freedom, one in 12,000 candidates as good as the leader), and more than half of the gap one
# doubling earlier, so that a candidate that catches up remains. The leader is never dropped.

#: Rows before a candidate can be dropped; a power of two.
FIRST = 512
INTERVALS = 16
SIGMAS = 5.0


class Elimination:
    """Drops lanes of hopeless candidates. `visit` and `halts` are for `study_stream`.

    Parameters
    ----------
    lanes : sequence of Trial
        All of them.
    scoring : Scoring
    held_out : bool
        Whether candidates are scored on held-out rows, or progressively on learned rows.

    """

    def __init__(self, lanes: Sequence[Trial], scoring: Scoring, held_out: bool) -> None:
        self.scoring, self.held_out = scoring, held_out
        self.dropped: dict[int, int] = {}  # candidate: rows there were
        self._candidates = np.array([lane.candidate for lane in lanes])
        self._judged = np.array([not held_out or lane.split >= 0 for lane in lanes])
        self._study: Study | None = None

    @staticmethod
    def halts(rows: int) -> int:
        """Return the number of rows until the next interval ends."""
        if rows < FIRST // 2:
            return FIRST // 2 - rows
        length = (1 << (rows.bit_length() - 1)) // INTERVALS
        return length - rows % length

    def visit(self, study: Study, numbers: list[int]) -> list[int]:
        """Drop hopeless candidates at the end of an interval."""
        candidates = np.unique(self._candidates[numbers])
        if study is not self._study:  # another pass, or the same from its beginning
            self._study, self._marks, self._gaps = study, list[LaneCounts](), dict[int, float]()
            self.dropped = {c: rows for c, rows in self.dropped.items() if c not in candidates}
        if study.rows < FIRST // 2 or study.rows % ((1 << (study.rows.bit_length() - 1)) // INTERVALS):
            return numbers
        self._marks.append(self._pooled(study, numbers, candidates))
        if len(self._marks) <= INTERVALS:
            return numbers
        hopeless = self._hopeless(candidates)
        self._marks = self._marks[-1:]
        if not hopeless:
            return numbers
        self.dropped.update(dict.fromkeys(hopeless, study.rows))
        kept = [k for k, number in enumerate(numbers) if self._candidates[number] not in hopeless]
        study.keep(kept)
        self._marks = [mark.take([c not in hopeless for c in candidates]) for mark in self._marks]
        return [numbers[k] for k in kept]

    def _pooled(self, study: Study, numbers: list[int], candidates: NDArray[np.int64]) -> LaneCounts:
        """Return the pooled counts of each candidate's lanes."""
        counted = study.tallies.held_out if self.held_out else study.tallies.learned
        places = np.where(self._judged[numbers], np.searchsorted(candidates, self._candidates[numbers]), -1)
        return counted.pooled(places, len(candidates))

    def _hopeless(self, candidates: NDArray[np.int64]) -> set[int]:
        so_far = self.scoring.scores(self._marks[-1])
        if not np.isfinite(so_far).any():
            return set()
        leader = int(np.nanargmax(so_far))
        intervals = [later.minus(earlier) for earlier, later in zip(self._marks, self._marks[1:], strict=False)]
        scores = np.array([self.scoring.scores(interval) for interval in intervals])
        gaps = scores[:, [leader]] - scores
        hopeless = set()
        for k, candidate in enumerate(candidates.tolist()):
            gap, spread = float(gaps[:, k].mean()), float(gaps[:, k].std(ddof=1)) / math.sqrt(INTERVALS)
            before = self._gaps.get(candidate, math.inf)
            self._gaps[candidate] = gap
            if gap > 0.0 and gap > SIGMAS * spread and gap > before / 2:  # not if anything is NaN
                hopeless.add(candidate)
        return hopeless


# The search: candidates × folds are lanes of one study.


class Outcome(NamedTuple):
    """The results of the candidates. Greater scores are better."""

    splits: Numbers  # candidate × split: on held-out rows
    mean: Numbers  # over the splits; without splits, the progressive score
    standard_error: Numbers  # of the mean
    progressive: Numbers  # the progressive score on all rows, of all lanes of a candidate
    dropped: NDArray[np.int64]  # the number of rows when it was dropped; 0: never
    rank: NDArray[np.int64]  # 1 is best; dropped candidates come last, the first dropped at the end
    best: int
    models: dict[int, Pipeline]  # the best model, trained on all rows, if requested
    rows: int
    passes: int
    positives: int | None  # None with more than two classes
    looks_sorted: bool  # by class, so that progressive scores are too good
    device: str = "cpu"


def search(
    source: Source,
    config: StudyConfig,
    candidates: Sequence[Trial],
    scoring: AnyScoring,
    *,
    eliminate: bool = False,
    models: bool = False,
    watch: Observer | None = None,
) -> Outcome:
    """Try the candidates in one pass, if memory allows.

    With ``config.folds``, a candidate has a lane per fold, which is scored on that fold and learns the others. Without
    folds, it has one lane with progressive scores. ``models``: also return the best candidate's model of all rows,
    which takes one more lane per candidate with folds.
    """
    splits = [*range(config.folds), *([-1] if models or not config.folds else [])]
    lanes = [lane._replace(candidate=c, split=s) for c, lane in enumerate(candidates) for s in splits]
    source, config, numbering = narrowed(source, config, candidates)
    judge = _Judge(lanes, len(candidates), config, scoring)
    dropping = None
    if eliminate:
        if not isinstance(scoring, Scoring):
            raise InvalidParameterError(
                f"eliminate must be False with scoring {scoring.name!r}, because counts do not determine it"
            )
        dropping = Elimination(lanes, scoring, held_out=config.folds > 0)
    kept: dict[int, Pipeline] = {}

    def during(study: Study, numbers: list[int]) -> list[int]:
        judge.warm_up.visit(study, numbers)
        if study.ranks is not None and study.rows & (study.rows - 1) == 0:
            study.ranks.turn()
        return dropping.visit(study, numbers) if dropping else numbers

    def halts(rows: int) -> int:
        return min(WarmUp.halts(rows), Elimination.halts(rows)) if dropping else WarmUp.halts(rows)

    def finish(study: Study, numbers: list[int]) -> list[int]:
        """Keep the best model of this pass, and free the others."""
        judge.note(study, numbers)
        if not models:
            return numbers
        mean = judge.means(study.tallies.learned, study.tallies.held_out, numbers)[1]
        if np.isfinite(mean).any():
            best = int(np.nanargmax(mean))
            position = next(k for k, n in enumerate(numbers) if lanes[n].candidate == best and lanes[n].split < 0)
            model = study.model(position)
            kept[best] = model if numbering is None else numbering.model(model)
        return numbers

    role = HELD_OUT if config.folds else LEARNED
    counts = study_stream(
        source,
        config._replace(
            losses=scoring.losses,
            predictions=isinstance(scoring, PredictionScoring),
            ranks=role if isinstance(scoring, RankScoring) else None,
        ),
        lanes,
        during=during,
        halts=halts,
        finish=finish,
        watch=watch,
    )
    everyone = list(range(len(lanes)))
    dropped = np.zeros(len(candidates), np.int64)
    for candidate, rows in (dropping.dropped if dropping else {}).items():
        dropped[candidate] = rows
    scores, mean = judge.means(counts.learned, counts.held_out, everyone)
    if not np.isfinite(mean[dropped == 0]).any():
        raise InvalidInputError(
            f"the {scoring.name} of every candidate is undefined: "
            + ("some fold's held-out rows" if config.folds else "the rows")
            + " lack a class, or scores are not finite; more rows or fewer folds may help, or shuffling rows that are "
            + "sorted by class"
        )
    if config.folds:
        error = scores.std(axis=1, ddof=1) / math.sqrt(config.folds) if config.folds > 1 else np.full(len(mean), np.nan)
    else:
        error = judge.standard_errors(counts.learned, everyone)
    progressive = judge.pooled(counts.learned, everyone)
    rank = _ranks(mean, dropped)
    best = int(np.argmin(rank))
    models_found = {best: kept[best]} if best in kept else {}
    counted = (counts.rows, counts.passes, counts.positives, counts.looks_sorted, counts.device)
    return Outcome(scores, mean, error, progressive, dropped, rank, best, models_found, *counted)


class _Judge:
    """Scores of candidates, from the counts of their lanes."""

    def __init__(self, lanes: Sequence[Trial], n: int, config: StudyConfig, scoring: AnyScoring) -> None:
        self.lanes, self.n, self.folds, self.scoring = lanes, n, config.folds, scoring
        self.warm_up = WarmUp(len(lanes), config.classes)
        # for scorings that counts do not determine: the score of each lane and, without folds, its standard error
        self.noted, self.errors = np.full(len(lanes), np.nan), np.full(len(lanes), np.nan)
        self.passing = config.n_passes == 1 and not config.final  # else held-out rows meet models that have seen all

    def note(self, study: Study, numbers: list[int]) -> None:
        """Score a finished study if counts do not determine the score. Progressive scores leave out the first rows."""
        if isinstance(self.scoring, RankScoring) and study.ranks is not None:
            self.noted[numbers] = self.scoring.measure.values(study.ranks)
            if not self.folds:
                self.errors[numbers] = self.scoring.measure.errors(study.ranks)
        if isinstance(self.scoring, PredictionScoring):
            first = WarmUp.left_out(study.rows) if self.passing or not self.folds else 0
            for position, number in enumerate(numbers):
                if self.lanes[number].split >= 0 or not self.folds:
                    role = LEARNED if not self.folds else HELD_OUT
                    self.noted[number] = self.scoring.function(*study.predictions(position, role, first))

    def standard_errors(self, learned: LaneCounts, numbers: list[int]) -> Numbers:
        """Return the standard errors of the progressive scores."""
        if not isinstance(self.scoring, Scoring):
            return self.errors[numbers]
        return self.scoring.standard_errors(self.warm_up.learned(learned, numbers))

    def means(self, learned: LaneCounts, held_out: LaneCounts, numbers: list[int]) -> tuple[Numbers, Numbers]:
        """Return scores candidate × split, and the scores for ranking. NaN: dropped."""
        scores = np.full((self.n, self.folds), np.nan)
        if not self.folds:
            return scores, self.pooled(self.warm_up.learned(learned, numbers), numbers)
        counted = self.warm_up.held_out(held_out, numbers) if self.passing else held_out
        lane_scores = self.scoring.scores(counted) if isinstance(self.scoring, Scoring) else self.noted[numbers]
        for position, number in enumerate(numbers):
            lane = self.lanes[number]
            if lane.split >= 0:
                scores[lane.candidate, lane.split] = lane_scores[position]
        return scores, scores.mean(axis=1)

    def pooled(self, learned: LaneCounts, numbers: Sequence[int]) -> Numbers:
        """Return the progressive score of each candidate. NaN: with folds, counts do not determine it."""
        if not isinstance(self.scoring, Scoring):
            scores = np.full(self.n, np.nan)
            if not self.folds:
                scores[[self.lanes[number].candidate for number in numbers]] = self.noted[list(numbers)]
            return scores
        candidates = np.array([self.lanes[number].candidate for number in numbers])
        together = learned.pooled(candidates, self.n)
        return self.scoring.scores(together)


def _ranks(mean: Numbers, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return ranks, 1 for the best. Ties share the smaller rank."""
    late = np.where(dropped == 0, np.iinfo(np.int64).max, dropped)
    keys = [(-int(rows), -score if math.isfinite(score) else math.inf) for rows, score in zip(late, mean, strict=True)]
    order = sorted(keys)
    return np.array([bisect_left(order, key) + 1 for key in keys])


class WarmUp:
    """Leaves out the first rows, on which no candidate is good yet. `visit` and `halts` are for `study_stream`.

    It counts the rows after the largest power of two up to half of all rows, which are a half to three quarters. That
    takes two snapshots, and not the length of the stream. If all rows count, candidates that start fast are selected
    too often (`benchmarks/tuning_quality.py`).

    >>> [rows + WarmUp.halts(rows) for rows in (0, 1, 5, 8)]
    [1, 2, 8, 16]
    """

    def __init__(self, lanes: int, classes: int = 2) -> None:
        self._study: Study | None = None
        self._classes = classes
        # of the last power of two, and of the one before
        self._held_out = (LaneCounts.nothing(lanes, classes), LaneCounts.nothing(lanes, classes))
        self._learned = (LaneCounts.nothing(lanes, classes), LaneCounts.nothing(lanes, classes))

    @staticmethod
    def halts(rows: int) -> int:
        """Return the number of rows until the next power of two."""
        return (1 << rows.bit_length()) - rows

    @staticmethod
    def left_out(rows: int) -> int:
        """Return the number of first rows to ignore."""
        return 1 << ((rows // 2).bit_length() - 1) if rows > 1 else 0

    def visit(self, study: Study, numbers: list[int]) -> list[int]:
        """Record the counts of a study when the number of rows is a power of two."""
        if study is not self._study:  # another pass, or the same from its beginning
            self._study, nothing = study, LaneCounts.nothing(len(numbers), self._classes)
            for kept in (*self._held_out, *self._learned):
                kept.put(numbers, nothing)
        if study.rows & (study.rows - 1) == 0:
            pairs = ((self._held_out, study.tallies.held_out), (self._learned, study.tallies.learned))
            for (last, before), now in pairs:
                before.put(numbers, last.take(numbers))
                last.put(numbers, now)
        return numbers

    def held_out(self, counted: LaneCounts, numbers: list[int]) -> LaneCounts:
        """Return the counts of held-out rows since then."""
        return counted.minus(self._held_out[1].take(numbers))

    def learned(self, counted: LaneCounts, numbers: list[int]) -> LaneCounts:
        """Return the counts of learned rows since then."""
        return counted.minus(self._learned[1].take(numbers))


# Candidates: the points of a grid or a random sample.


#: P0, section 5.1: folds of the cross-validation; learning rates from 2^-1 to 2^9, other parameters from 2^-5 to 2^5.
FOLDS = 5
RATES, OTHERS = ("eta",), ("r", "C", "gamma", "delta", "b")
#: The grid of algorithms without these parameters.
INSTEAD = ("phi", "a", "alpha")

#: The default algorithms and their grids. In benchmarks/versus, validation selects one of them on 18 of 22 data sets
#: (with AdaFOBOS counted as AdaRDA): AROW for dense or noisy rows, SCW with bounded steps, and AdaRDA with AdaGrad
#: rates, the logistic loss and l1.
USUAL: dict[str, dict[str, list[Any]]] = {
    "arow": {"r": [2.0**e for e in range(-5, 6)]},
    "scw": {"C": [2.0**e for e in range(-5, 6)]},
    "adarda": {"eta": [2.0**e for e in range(-6, 4)], "delta": [0.001], "loss": ["logistic"]},
}

#: Parameters that can be searched, in addition to those of the algorithm.
COMMON = ("fit_intercept", "class_weight")

#: The parameters that distinguish a candidate.
Setting = dict[str, Any]
Spaces = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class LogUniform(NamedTuple):
    """A log-uniform distribution like that of ``scipy.stats``, rounded to six digits.

    >>> LogUniform(1e-3, 1.0).rvs(random_state=np.random.default_rng(1))
    0.0343135
    """

    low: float
    high: float

    def rvs(self, random_state: np.random.Generator) -> float:
        drawn = math.exp(random_state.uniform(math.log(self.low), math.log(self.high)))
        return float(f"{drawn:.6g}")


def grid(spaces: Spaces) -> list[Setting]:
    """Return every combination of the values of each name, one space after the other.

    >>> grid({"r": [1, 2], "eta": [0.5]})
    [{'eta': 0.5, 'r': 1}, {'eta': 0.5, 'r': 2}]
    """
    settings: list[Setting] = []
    for space in _spaces(spaces):
        names = sorted(space)
        values = [_values(name, space[name]) for name in names]
        settings += [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]
    return settings


def sample(spaces: Spaces, n: int, generator: np.random.Generator) -> list[Setting]:
    """Return ``n`` random candidates. Values are lists, or distributions with a method ``rvs`` as in scipy.stats.

    If all values are lists, no point is drawn twice, so there may be fewer.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidParameterError(f"the number of random candidates must be a whole number ≥ 1, got {n!r}")
    every = _spaces(spaces)
    if not any(_is_distribution(values) for space in every for values in space.values()):
        points = grid(every)
        return [points[i] for i in generator.permutation(len(points))[:n]]
    settings = []
    for _ in range(n):
        space = every[int(generator.integers(len(every)))]
        settings.append({name: _draw(name, space[name], generator) for name in sorted(space)})
    return settings


def paper_grid(algorithm: str) -> dict[str, list[float]]:
    """Return the grid of the papers: values of the parameters to tune, without l1.

    >>> paper_grid("pa")
    {'C': [0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    """
    chosen = find(algorithm)
    names = [parameter.name for parameter in chosen.parameters]
    space = {name: _powers(-1, 9) if name in RATES else _powers(-5, 5) for name in names if name in RATES + OTHERS}
    if not space:
        space = {name: _powers(-5, 5) for name in INSTEAD if name in names}
    if not space:
        raise InvalidParameterError(f"{chosen.name} has nothing to tune. Pass a grid, for example of class_weight")
    return space


def make_trials(algorithm: str, settings: Sequence[Setting], base: Mapping[str, Any], classes: Classes) -> list[Trial]:
    """Return a trial per candidate, with its values and those of ``base``. Raise if a value is not allowed."""
    name = find(algorithm).name
    own = [parameter.name for parameter in find(algorithm).parameters]
    trials = []
    for number, setting in enumerate(settings):
        for unknown in setting:
            if unknown == HALF_LIFE and unknown not in own:
                raise InvalidParameterError(unknown_parameter(name, unknown, ""))
            if unknown not in own and unknown not in COMMON:
                raise InvalidParameterError(f"{name}: {listed([*own, *COMMON])} can be searched, got {unknown!r}")
        every = {**base, **setting}
        intercept = every.get("fit_intercept", False)
        if not isinstance(intercept, bool | np.bool_):
            raise InvalidParameterError(f"{name}: fit_intercept must be True or False, got {intercept!r}")
        costs = class_costs(every.get("class_weight"), classes, name)
        parameters = {key: value for key, value in every.items() if key in own}
        make_learner(name, n_features=0, grow=True, **parameters)  # raises if it could not be made
        trials.append(Trial(parameters, costs, bool(intercept), candidate=number, algorithm=name))
    return trials


def _spaces(spaces: Any) -> list[Mapping[str, Any]]:
    every = [spaces] if isinstance(spaces, Mapping) else list(spaces) if isinstance(spaces, Iterable) else []
    if not every or isinstance(spaces, str) or not all(isinstance(space, Mapping) for space in every):
        raise InvalidParameterError(f"a grid must be a dict {{name: values}} or a list of dicts, got {spaces!r}")
    return every


def _values(name: str, values: Any) -> list[Any]:
    """Return the values as Python objects."""
    if _is_distribution(values):
        raise InvalidParameterError(
            f"grid: {name} must be a list of values, got the distribution {values!r}. Pass n_iter (--random) to use "
            "distributions"
        )
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidParameterError(f"grid: {name} must have a list of values, got {values!r}")
    choices = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not choices:
        raise InvalidParameterError(f"grid: {name} must have at least one value, got none")
    return choices


def _is_distribution(values: Any) -> bool:
    return hasattr(values, "rvs")


def _draw(name: str, values: Any, generator: np.random.Generator) -> Any:
    if _is_distribution(values):
        value = values.rvs(random_state=generator)
        return value.item() if isinstance(value, np.generic) else value
    choices = _values(name, values)
    return choices[int(generator.integers(len(choices)))]


def _powers(first: int, last: int) -> list[float]:
    return [2.0**e for e in range(first, last + 1)]
