"""Studies of a stream: one pass where memory allows, else as many as it takes."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from thinstream.errors import InvalidInputError
from thinstream.evaluate.observer import NullObserver, Observer, Step
from thinstream.lanes import Lanes
from thinstream.learners.memory import physical_memory
from thinstream.tune.sources import Halts, Source, cut, pieces
from thinstream.tune.study import Lane, Study
from thinstream.tune.tallies import Counted


class Terms(NamedTuple):
    """How a study is made, whatever its lanes."""

    algorithm: str
    folds: int = 0
    n_features: int = 0  # where it is known before; the lanes grow
    dtype: str = "float32"
    threads: int = 1
    losses: bool = False
    n_passes: int = 1  # rows learned in the first are counted before they are, held-out ones in the last
    final: bool = False  # whether held-out rows are scored by the final models, in a further pass
    memory: int | None = None  # bytes all lanes may take; None: half of the machine's

    @property
    def limit(self) -> int:
        """Bytes."""
        return physical_memory() // 2 if self.memory is None else self.memory


class Found(NamedTuple):
    """What was counted of all lanes."""

    learned: Counted
    held_out: Counted
    rows: int
    passes: int
    positives: int = 0
    looks_sorted: bool = False  # labels come in long runs: counts as rows pass are too good


#: What is done with a study now and then in a pass (dropping lanes) and at its end (taking out models); it gets the
#: numbers its lanes have among all, and returns those it has still.
Visit = Callable[[Study, list[int]], list[int]]


def is_repeatable(stream: Source) -> bool:
    """Whether a stream can be read again; a pipe cannot."""
    files = getattr(stream, "files", None)
    if files is not None:  # a compressed one does not know its size
        return all(Path(file).is_file() for file in files)
    return stream.size is not None


def study_stream(
    stream: Source,
    terms: Terms,
    lanes: Sequence[Lane],
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
    if terms.n_passes > 1 or terms.final:
        _require_repeatable_for("several passes" if terms.n_passes > 1 else "scoring with the final models", stream)
    watch, groups = watch or NullObserver(), _groups(terms, lanes, terms.n_features)
    if len(groups) > 1:
        _require_repeatable(stream, terms, lanes, terms.n_features)
        watch.split(len(groups), _needed(terms, lanes, terms.n_features), terms.limit)
    while True:
        found = Found(Counted.nothing(len(lanes)), Counted.nothing(len(lanes)), 0, len(groups))
        try:
            for number, group in enumerate(groups):
                one = _Pass(stream, terms, lanes, group, found)
                study = one.run(during, halts, finish, watch, (number, len(groups)))
                found = found._replace(
                    rows=study.rows, positives=int(study.order.examples[1]), looks_sorted=study.order.looks_sorted
                )
        except _TooWide as found_width:  # wider than was known: what was learned so far is thrown away
            width = found_width.n_features
            _require_repeatable(stream, terms, lanes, width)
            groups = _groups(terms, lanes, width * 5 // 4, at_least=len(groups) + 1)  # it may get wider still
            watch.split(len(groups), _needed(terms, lanes, width), terms.limit)
            continue
        return found


class _TooWide(Exception):
    """The stream is too wide for the lanes of this pass."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.n_features = n_features


class _Pass:
    """Some of the lanes over the stream, once."""

    def __init__(self, stream: Source, terms: Terms, lanes: Sequence[Lane], group: list[int], found: Found) -> None:
        self.stream, self.terms, self.found = stream, terms, found
        self.present, self.group = list(group), [lanes[k] for k in group]
        self.all = lanes

    def run(
        self, during: Visit | None, halts: Halts | None, finish: Visit | None, watch: Observer, place: tuple[int, int]
    ) -> Study:
        terms = self.terms
        study = Study(
            terms.algorithm,
            self.group,
            folds=terms.folds,
            n_features=terms.n_features,
            dtype=terms.dtype,
            threads=terms.threads,
            losses=terms.losses,
        )
        for number in range(terms.n_passes):
            if number:
                study.again()
            self._go(study, number, None if number else during, halts, watch, place)
        if terms.final:
            study.again()
            for batch, roles in pieces(self.stream):
                study.score(batch, roles)
        if finish is not None:
            self._visited(study, finish)
        self._record(study)
        return study

    def _go(
        self,
        study: Study,
        number: int,
        during: Visit | None,
        halts: Halts | None,
        watch: Observer,
        place: tuple[int, int],
    ) -> None:
        """All rows, once."""
        width = study.lanes.n_features
        for batch, roles in cut(pieces(self.stream, number), halts):
            if batch.n_features > width:
                width = batch.n_features
                self._require_room(width)
            study.take(batch, roles)
            if during is not None:
                self._visited(study, during)
            watch.moved(Step(study.rows, batch.position, *place))
        if study.rows == 0:
            raise InvalidInputError("the stream has no example")

    def _require_room(self, width: int) -> None:
        present = [self.all[k] for k in self.present]
        if _needed(self.terms, present, width) > self.terms.limit:
            raise _TooWide(width)

    def _visited(self, study: Study, visit: Visit) -> None:
        self._record(study)
        self.present = visit(study, self.present)

    def _record(self, study: Study) -> None:
        self.found.learned.put(self.present, study.tallies.learned)
        self.found.held_out.put(self.present, study.tallies.held_out)


def _needed(terms: Terms, lanes: Sequence[Lane], width: int) -> int:
    return Lanes.foreseen(
        terms.algorithm,
        [lane.parameters for lane in lanes],
        width,
        dtype=terms.dtype,
        fit_intercept=[lane.fit_intercept for lane in lanes],
    )


def _groups(terms: Terms, lanes: Sequence[Lane], width: int, at_least: int = 1) -> list[list[int]]:
    """The lanes, by number, for as few passes as the memory allows; those of one candidate stay together."""
    candidates = sorted({lane.candidate for lane in lanes})
    passes = max(at_least, math.ceil(_needed(terms, lanes, width) / terms.limit))
    while passes <= len(candidates):
        parts = [set(part.tolist()) for part in np.array_split(candidates, passes)]
        groups = [[k for k, lane in enumerate(lanes) if lane.candidate in part] for part in parts]
        if all(_needed(terms, [lanes[k] for k in group], width) <= terms.limit for group in groups):
            return groups
        passes += 1
    smallest = [lane for lane in lanes if lane.candidate == candidates[0]]
    raise InvalidInputError(_advice(terms, smallest, width))


def _require_repeatable(stream: Source, terms: Terms, lanes: Sequence[Lane], width: int) -> None:
    if not is_repeatable(stream):
        raise InvalidInputError(_advice(terms, lanes, width) + ", or read a file, which can be passed over again")


def _require_repeatable_for(what: str, stream: Source) -> None:
    if not is_repeatable(stream):
        raise InvalidInputError(f"{what} needs rows that can be read again: a file or a matrix, not a pipe")


def _advice(terms: Terms, lanes: Sequence[Lane], width: int) -> str:
    needed = _needed(terms, lanes, width)
    return (
        f"{len(lanes)} lanes of {terms.algorithm} on {width:,} features need {in_words(needed)}, the limit is "
        f"{in_words(terms.limit)}; raise it, try fewer candidates or folds, or hash features into fewer"
    )


def in_words(size: int) -> str:
    """Bytes.

    >>> in_words(2_500_000_000), in_words(31_400)
    ('2.5 GB', '0.0314 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.3g} MB"
