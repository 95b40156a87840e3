"""Candidates × folds as lanes of one study, and which is best."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.evaluate.observer import Observer
from thinstream.learners.protocol import AnyLearner
from thinstream.tune.elimination import Elimination
from thinstream.tune.lane_counts import HELD_OUT, LEARNED, LaneCounts
from thinstream.tune.measures import Numbers
from thinstream.tune.multipass import study_stream
from thinstream.tune.occurring import narrowed
from thinstream.tune.scoring import AnyScoring, PredictionScoring, RankScoring, Scoring
from thinstream.tune.sources import Source
from thinstream.tune.study import Study, StudyConfig, Trial


class Outcome(NamedTuple):
    """What came of each candidate. Scores are greater for the better."""

    splits: Numbers  # candidate × split: on the rows held out
    mean: Numbers  # over the splits; without any, on rows before they were learned
    standard_error: Numbers  # of the mean
    progressive: Numbers  # on rows before they were learned, from the first on, all lanes of a candidate together
    dropped: NDArray[np.int64]  # rows there were when it was dropped; 0: it was not
    rank: NDArray[np.int64]  # 1 is best; those dropped come last, the first dropped at the very end
    best: int
    models: dict[int, AnyLearner]  # that of the best, learned from all rows, if it was asked for
    rows: int
    passes: int  # as memory allowed
    positives: int | None  # None of more than two classes
    looks_sorted: bool  # by class: scores as rows pass are too good
    device: str = "cpu"  # where the models were


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
    """Tries the candidates (a lane each, its split left open) in one pass where memory allows.

    With ``config.folds`` each has a lane per fold, which is judged by the rows of that fold and learns from the others;
    without, one lane, judged by each row before it learns it. ``models`` asks for the best one's model of all rows:
    with folds at the price of one more lane per candidate.
    """
    splits = [*range(config.folds), *([-1] if models or not config.folds else [])]
    lanes = [lane._replace(candidate=c, split=s) for c, lane in enumerate(candidates) for s in splits]
    source, config, numbering = narrowed(source, config, candidates)
    judge = _Judge(lanes, len(candidates), config, scoring)
    dropping = None
    if eliminate:
        if not isinstance(scoring, Scoring):
            raise InvalidParameterError(f"eliminate must be False with scoring {scoring.name!r}: counts do not tell it")
        dropping = Elimination(lanes, scoring, held_out=config.folds > 0)
    kept: dict[int, AnyLearner] = {}

    def during(study: Study, numbers: list[int]) -> list[int]:
        judge.warm_up.visit(study, numbers)
        if study.ranks is not None and study.rows & (study.rows - 1) == 0:
            study.ranks.turn()
        return dropping.visit(study, numbers) if dropping else numbers

    def halts(rows: int) -> int:
        return min(WarmUp.halts(rows), Elimination.halts(rows)) if dropping else WarmUp.halts(rows)

    def finish(study: Study, numbers: list[int]) -> list[int]:
        """Keeps the best model of this pass; the rest of it is let go."""
        judge.note(study, numbers)
        if not models:
            return numbers
        mean = judge.means(study.tallies.learned, study.tallies.held_out, numbers)[1]
        if np.isfinite(mean).any():
            best = int(np.nanargmax(mean))
            place = next(k for k, n in enumerate(numbers) if lanes[n].candidate == best and lanes[n].split < 0)
            model = study.model(place)
            kept[best] = model if numbering is None else numbering.model(model)
        return numbers

    role = HELD_OUT if config.folds else LEARNED
    found = study_stream(
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
    scores, mean = judge.means(found.learned, found.held_out, everyone)
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
        error = judge.standard_errors(found.learned, everyone)
    progressive = judge.pooled(found.learned, everyone)
    rank = _ranks(mean, dropped)
    best = int(np.argmin(rank))
    models_found = {best: kept[best]} if best in kept else {}
    counted = (found.rows, found.passes, found.positives, found.looks_sorted, found.device)
    return Outcome(scores, mean, error, progressive, dropped, rank, best, models_found, *counted)


class _Judge:
    """Scores of candidates from the counts of their lanes."""

    def __init__(self, lanes: Sequence[Trial], n: int, config: StudyConfig, scoring: AnyScoring) -> None:
        self.lanes, self.n, self.folds, self.scoring = lanes, n, config.folds, scoring
        self.warm_up = WarmUp(len(lanes), config.classes)
        # of each lane, where counts do not tell it: the score and, without folds, its standard error
        self.noted, self.errors = np.full(len(lanes), np.nan), np.full(len(lanes), np.nan)
        self.passing = config.n_passes == 1 and not config.final  # else held-out rows meet models that have seen all

    def note(self, study: Study, numbers: list[int]) -> None:
        """Scores a study that is over where counts do not; without folds, or as rows pass, the first are left out."""
        if isinstance(self.scoring, RankScoring) and study.ranks is not None:
            self.noted[numbers] = self.scoring.measure.values(study.ranks)
            if not self.folds:
                self.errors[numbers] = self.scoring.measure.errors(study.ranks)
        if isinstance(self.scoring, PredictionScoring):
            first = WarmUp.left_out(study.rows) if self.passing or not self.folds else 0
            for place, number in enumerate(numbers):
                if self.lanes[number].split >= 0 or not self.folds:
                    role = LEARNED if not self.folds else HELD_OUT
                    self.noted[number] = self.scoring.function(*study.predictions(place, role, first))

    def standard_errors(self, learned: LaneCounts, numbers: list[int]) -> Numbers:
        """Of the scores on rows before they were learned."""
        if not isinstance(self.scoring, Scoring):
            return self.errors[numbers]
        return self.scoring.standard_errors(self.warm_up.learned(learned, numbers))

    def means(self, learned: LaneCounts, held_out: LaneCounts, numbers: list[int]) -> tuple[Numbers, Numbers]:
        """Scores candidate × split, and what candidates are ranked by; NaN for those that are not there."""
        scores = np.full((self.n, self.folds), np.nan)
        if not self.folds:
            return scores, self.pooled(self.warm_up.learned(learned, numbers), numbers)
        counted = self.warm_up.held_out(held_out, numbers) if self.passing else held_out
        each = self.scoring.scores(counted) if isinstance(self.scoring, Scoring) else self.noted[numbers]
        for place, number in enumerate(numbers):
            lane = self.lanes[number]
            if lane.split >= 0:
                scores[lane.candidate, lane.split] = each[place]
        return scores, scores.mean(axis=1)

    def pooled(self, learned: LaneCounts, numbers: Sequence[int]) -> Numbers:
        """The score of each candidate on rows before they were learned; NaN with folds where counts do not tell it."""
        if not isinstance(self.scoring, Scoring):
            found = np.full(self.n, np.nan)
            if not self.folds:
                found[[self.lanes[number].candidate for number in numbers]] = self.noted[list(numbers)]
            return found
        candidates = np.array([self.lanes[number].candidate for number in numbers])
        together = learned.pooled(candidates, self.n)
        return self.scoring.scores(together)


def _ranks(mean: Numbers, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    """1 for the best; equals share the smaller rank."""
    late = np.where(dropped == 0, np.iinfo(np.int64).max, dropped)
    keys = [(-int(rows), -score if math.isfinite(score) else math.inf) for rows, score in zip(late, mean, strict=True)]
    order = sorted(keys)
    return np.array([bisect_left(order, key) + 1 for key in keys])


class WarmUp:
    """Leaves out the first rows, on which no candidate is good yet; its `visit` and `halts` are for `study_stream`.

    Counted are the rows after the largest power of two that is no more than half of all: a half to three quarters. That
    takes two snapshots, and no knowledge of how long a stream is. With all rows counted fast starters were picked too
    often on the sets of `benchmarks/tuning_quality.py`.

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
        """Rows until the next power of two."""
        return (1 << rows.bit_length()) - rows

    @staticmethod
    def left_out(rows: int) -> int:
        """How many of so many rows do not count."""
        return 1 << ((rows // 2).bit_length() - 1) if rows > 1 else 0

    def visit(self, study: Study, numbers: list[int]) -> list[int]:
        """Looks at a study where the number of rows is a power of two."""
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
        """Of held-out rows, what was counted since."""
        return counted.minus(self._held_out[1].take(numbers))

    def learned(self, counted: LaneCounts, numbers: list[int]) -> LaneCounts:
        """Of learned rows, what was counted since."""
        return counted.minus(self._learned[1].take(numbers))
