"""Studies of a stream: one pass where memory allows, else as many as it takes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.evaluate.observer import NullObserver, Observer, Step
from thinstream.tune.lane_counts import LaneCounts
from thinstream.tune.lane_ranks import LaneRanks
from thinstream.tune.sources import Halts, Source, cut, is_repeatable, pieces
from thinstream.tune.study import Study
from thinstream.tune.trial_lanes import TrialLanes
from thinstream.tune.trials import StudyConfig, Trial


class Found(NamedTuple):
    """What was counted of all lanes."""

    learned: LaneCounts
    held_out: LaneCounts
    rows: int
    passes: int
    positives: int | None = 0  # None of more than two classes
    looks_sorted: bool = False  # labels come in long runs: counts as rows pass are too good
    device: str = "cpu"


#: What is done with a study now and then in a pass (dropping lanes) and at its end (taking out models); it gets the
#: numbers its lanes have among all, and returns those it has still.
Visit = Callable[[Study, list[int]], list[int]]


def study_stream(
    stream: Source,
    config: StudyConfig,
    lanes: Sequence[Trial],
    *,
    during: Visit | None = None,
    halts: Halts | None = None,
    finish: Visit | None = None,
    watch: Observer | None = None,
) -> Found:
    """Takes the lanes over the stream (or `Matrix`). Beyond the memory limit in several passes, from a pipe not at all.

    ``during`` is called after each batch, which is cut where ``halts`` says, ``finish`` at the end of each pass. Counts
    of dropped lanes are those at the time.
    """
    if (config.n_passes > 1 or config.final) and not is_repeatable(stream):
        what = "several passes" if config.n_passes > 1 else "scoring with the final models"
        raise InvalidInputError(f"{what} needs rows that can be read again: a file or a matrix, not a pipe")
    watch = watch or NullObserver()
    config = config.placed(len(lanes))
    watch.placed(config.device, len(lanes) * config.n_lanes)
    groups = _groups(config, lanes, config.n_features)
    if len(groups) > 1:
        _require_repeatable(stream, config, lanes, config.n_features)
        watch.split(len(groups), _needed(config, lanes, config.n_features), config.limit)
    while True:
        nothing = LaneCounts.nothing(len(lanes), config.classes), LaneCounts.nothing(len(lanes), config.classes)
        found = Found(*nothing, 0, len(groups), device=config.device)
        try:
            for number, group in enumerate(groups):
                place = (number, len(groups))
                study = _Pass(stream, config, lanes, found, list(group), during, halts, finish, watch, place).run()
                positives = int(study.order.examples[1]) if config.classes == 2 else None
                found = found._replace(rows=study.rows, positives=positives, looks_sorted=study.order.looks_sorted)
        except _TooWide as found_width:  # wider than was known: what was learned so far is thrown away
            width = found_width.n_features
            _require_repeatable(stream, config, lanes, width)
            groups = _groups(config, lanes, width * 5 // 4, at_least=len(groups) + 1)  # it may get wider still
            watch.split(len(groups), _needed(config, lanes, width), config.limit)
            continue
        return found


class _TooWide(Exception):
    """The stream is too wide for the lanes of this pass."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.n_features = n_features


@dataclass
class _Pass:
    """Some of the lanes over the stream, once."""

    stream: Source
    config: StudyConfig
    lanes: Sequence[Trial]
    found: Found
    present: list[int]
    during: Visit | None
    halts: Halts | None
    finish: Visit | None
    watch: Observer
    place: tuple[int, int]

    def run(self) -> Study:
        study = Study(self.config, [self.lanes[k] for k in self.present])
        for number in range(self.config.n_passes):
            self._go(study, number)
        if self.config.final:
            study.again()
            for batch, roles in pieces(self.stream):
                study.score(batch, roles)
        self._visit(study, self.finish)
        self._record(study)
        return study

    def _go(self, study: Study, number: int) -> None:
        """All rows, once."""
        if number:
            study.again()
        width = study.lanes.n_features
        for batch, roles in cut(pieces(self.stream, number), self.halts):
            if batch.n_features > width:
                width = batch.n_features
                self._require_room(width)
            study.take(batch, roles)
            if not number:
                self._visit(study, self.during)
            self.watch.moved(Step(study.rows, batch.position, *self.place))
        if study.rows == 0:
            raise InvalidInputError("the stream has no example")

    def _require_room(self, width: int) -> None:
        if _needed(self.config, [self.lanes[k] for k in self.present], width) > self.config.limit:
            raise _TooWide(width)

    def _visit(self, study: Study, visit: Visit | None) -> None:
        if visit is not None:
            self._record(study)
            self.present = visit(study, self.present)

    def _record(self, study: Study) -> None:
        self.found.learned.put(self.present, study.tallies.learned)
        self.found.held_out.put(self.present, study.tallies.held_out)


def _needed(config: StudyConfig, lanes: Sequence[Trial], width: int) -> int:
    """Bytes of the models, and of the bins of their scores where they are compared by those."""
    bins = 0 if config.ranks is None else LaneRanks.estimate_nbytes(len(lanes), config.classes)
    return TrialLanes.estimate_nbytes(config, lanes, width) + bins


def _groups(config: StudyConfig, lanes: Sequence[Trial], width: int, at_least: int = 1) -> list[list[int]]:
    """The lanes, by number, for as few passes as the memory allows; those of one candidate stay together."""
    candidates = sorted({lane.candidate for lane in lanes})
    passes = max(at_least, math.ceil(_needed(config, lanes, width) / config.limit))
    while passes <= len(candidates):
        parts = [set(part.tolist()) for part in np.array_split(candidates, passes)]
        groups = [[k for k, lane in enumerate(lanes) if lane.candidate in part] for part in parts]
        if all(_needed(config, [lanes[k] for k in group], width) <= config.limit for group in groups):
            return groups
        passes += 1
    smallest = [lane for lane in lanes if lane.candidate == candidates[0]]
    raise InvalidInputError(_advice(config, smallest, width))


def _require_repeatable(stream: Source, config: StudyConfig, lanes: Sequence[Trial], width: int) -> None:
    if not is_repeatable(stream):
        raise InvalidInputError(_advice(config, lanes, width) + ", or read a file, which can be passed over again")


def _advice(config: StudyConfig, lanes: Sequence[Trial], width: int) -> str:
    needed, count = _needed(config, lanes, width), len(lanes) * config.n_lanes
    names = ", ".join(dict.fromkeys(lane.algorithm or config.algorithm for lane in lanes))
    return (
        f"{count} lanes of {names} on {width:,} features need {in_words(needed)}, the limit is "
        f"{in_words(config.limit)}; raise it, try fewer candidates or folds, or hash features into fewer"
    )


def in_words(size: int) -> str:
    """Bytes.

    >>> in_words(2_500_000_000), in_words(31_400)
    ('2.5 GB', '0.0314 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.3g} MB"
