"""One or more passes over a stream for as many models as memory allows."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.algorithms.registry import find, rule_of
from thinstream.batch import Batch, Position
from thinstream.data.stream import START, Stream
from thinstream.engine.memory import is_plain
from thinstream.errors import InvalidInputError
from thinstream.models.pipeline import Pipeline, expand_if_dense
from thinstream.models.slots import SlotTable
from thinstream.training.observer import NullObserver, Observer, Step
from thinstream.tuning.counts import LaneCounts, LaneRanks
from thinstream.tuning.study import Study, StudyConfig, Trial, TrialLanes

#: Rows of a matrix taken at a time.
PIECE = 8192

Roles = NDArray[np.int8]
Piece = tuple[Batch, Roles | None]
#: How many rows there are from so many on until a study is to be looked at.
Halts = Callable[[int], int]


class Matrix:
    """Labeled rows in memory, in their order or in separate orders for each pass.

    Parameters
    ----------
    rows : Batch
    roles : array, rows × splits
        The role of each row for each split. None: row number mod the number of folds determines it.
    orders : sequence of array
        The order of the rows in each pass. Later passes read the rows in their original order.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([3.0, 4.0]), 1)
    >>> [batch.values.tolist() for batch, _ in Matrix(rows, orders=[np.array([1, 0])]).pieces(0)]
    [[4.0, 3.0]]

    """

    unit = "rows"

    def __init__(self, rows: Batch, roles: Roles | None = None, orders: Sequence[NDArray[np.int64]] = ()) -> None:
        self.rows, self.roles, self.orders = rows.check(), roles, orders
        self.size = len(rows)

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.row

    def pieces(self, number: int) -> Iterator[Piece]:
        """The rows of a pass."""
        order = self.orders[number] if number < len(self.orders) else None
        for start in range(0, self.size, PIECE):
            stop = min(start + PIECE, self.size)
            if order is None:
                batch = self.rows.until(stop).after(start)
                roles = None if self.roles is None else self.roles[start:stop]
            else:
                chosen = order[start:stop]
                batch, roles = self.rows.take(chosen), None if self.roles is None else self.roles[chosen]
            yield replace(batch, position=Position(offset=stop, row=stop)), roles


Source = Stream | Matrix


def pieces(source: Source, number: int = 0) -> Iterator[Piece]:
    """Batches of pass ``number``, with the roles of their rows where the source has such."""
    if isinstance(source, Matrix):
        yield from source.pieces(number)
    else:
        rewind(source)
        for batch in source.batches():
            yield batch, None


def rewind(source: Source) -> None:
    """Prepare a stream for another pass: count skipped records from zero."""
    skipped = getattr(source, "skipped", None)
    if skipped is not None:
        skipped.count = 0


def is_repeatable(stream: Source) -> bool:
    """Return whether rows can be read again, which is impossible for a pipe."""
    files = getattr(stream, "files", None)
    if files is not None:  # a compressed one does not know its size
        return all(Path(file).is_file() for file in files)
    return stream.size is not None


def cut(batches: Iterator[Piece], halts: Halts | None) -> Iterator[Piece]:
    """Yield the same rows, cut where ``halts`` requires it, so that results do not depend on the batches."""
    rows = 0
    for batch, roles in batches:
        while halts is not None and (left := halts(rows)) < len(batch):
            yield batch.until(left), None if roles is None else roles[:left]
            batch, roles = batch.after(left), None if roles is None else roles[left:]
            rows += left
        rows += len(batch)
        yield batch, roles


# Studies of a stream, in one pass or, if memory is short, in several.


class StudyCounts(NamedTuple):
    """The counts of all lanes."""

    learned: LaneCounts
    held_out: LaneCounts
    rows: int
    passes: int
    positives: int | None = 0  # None: more than two classes
    looks_sorted: bool = False  # labels come in long runs, so that progressive counts are too good
    device: str = "cpu"


#: A function called during a pass (to drop lanes) and at its end (to take out models). It gets a study and the numbers
#: of its lanes, and returns the numbers of the lanes that remain.
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
) -> StudyCounts:
    """Train the lanes on the stream (or `Matrix`). If memory is short, use several passes; a pipe allows only one.

    ``during`` is called after each batch, cut by ``halts``, and ``finish`` at the end of each pass. Counts of dropped
    lanes are those at the time.
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
        counts = StudyCounts(*nothing, 0, len(groups), device=config.device)
        try:
            for number, group in enumerate(groups):
                pass_of = (number, len(groups))
                study = _Pass(stream, config, lanes, counts, list(group), during, halts, finish, watch, pass_of).run()
                positives = int(study.order.examples[1]) if config.classes == 2 else None
                counts = counts._replace(rows=study.rows, positives=positives, looks_sorted=study.order.looks_sorted)
        except _TooWide as too_wide:  # wider than expected: start again
            width = too_wide.n_features
            _require_repeatable(stream, config, lanes, width)
            groups = _groups(config, lanes, width * 5 // 4, at_least=len(groups) + 1)  # it may get wider still
            watch.split(len(groups), _needed(config, lanes, width), config.limit)
            continue
        return counts


class _TooWide(Exception):
    """The stream is too wide for the lanes of this pass."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.n_features = n_features


@dataclass
class _Pass:
    """One pass over the stream with some of the lanes."""

    stream: Source
    config: StudyConfig
    lanes: Sequence[Trial]
    counts: StudyCounts
    present: list[int]
    during: Visit | None
    halts: Halts | None
    finish: Visit | None
    watch: Observer
    pass_of: tuple[int, int]

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
            self.watch.moved(Step(study.rows, batch.position, *self.pass_of))
        if study.rows == 0:
            raise InvalidInputError("the stream has no rows")

    def _require_room(self, width: int) -> None:
        if _needed(self.config, [self.lanes[k] for k in self.present], width) > self.config.limit:
            raise _TooWide(width)

    def _visit(self, study: Study, visit: Visit | None) -> None:
        if visit is not None:
            self._record(study)
            self.present = visit(study, self.present)

    def _record(self, study: Study) -> None:
        self.counts.learned.put(self.present, study.tallies.learned)
        self.counts.held_out.put(self.present, study.tallies.held_out)


def _needed(config: StudyConfig, lanes: Sequence[Trial], width: int) -> int:
    """Return the bytes of the models, and of the bins of their scores if models are compared by ranks."""
    bins = 0 if config.ranks is None else LaneRanks.estimate_nbytes(len(lanes), config.classes)
    return TrialLanes.estimate_nbytes(config, lanes, width) + bins


def _groups(config: StudyConfig, lanes: Sequence[Trial], width: int, at_least: int = 1) -> list[list[int]]:
    """Group the numbers of the lanes into as few passes as memory allows. A candidate's lanes stay together."""
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
        raise InvalidInputError(_advice(config, lanes, width) + ", or read files, which allow several passes")


def _advice(config: StudyConfig, lanes: Sequence[Trial], width: int) -> str:
    needed, count = _needed(config, lanes, width), len(lanes) * config.n_lanes
    names = ", ".join(dict.fromkeys(lane.algorithm or config.algorithm for lane in lanes))
    return (
        f"{count} lanes of {names} on {width:,} features need {in_words(needed)}, the limit is "
        f"{in_words(config.limit)}. Increase the limit, try fewer candidates or folds, or hash into fewer features"
    )


def in_words(size: int) -> str:
    """Bytes.

    >>> in_words(2_500_000_000), in_words(31_400)
    ('2.5 GB', '0.0314 MB')
    """
    return f"{size / 1e9:.1f} GB" if size >= 10**8 else f"{size / 1e6:.3g} MB"


# Streams with rows to inspect in advance, and streams that hold out rows for the end.

#: Most rows and non-zeros held out at a time: error rates to a quarter of a percent, in some hundred megabytes.
ROWS, NON_ZEROS = 40_000, 10_000_000
#: Bytes of compressed files that are read once more to count their rows.
SMALL = 50_000_000


class PeekableStream:
    """A stream whose first rows can be inspected in advance, even if it can be read only once.

    >>> from thinstream.data.in_memory import from_memory
    >>> stream = PeekableStream(from_memory(np.eye(5), np.array([1, -1, 1, -1, 1]), rows_per_batch=2))
    >>> [len(batch) for batch in stream.look(3)], [len(batch) for batch in stream.batches()]
    ([2, 2], [2, 2, 1])
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._first: list[Batch] = []
        self._rest: Iterator[Batch] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def look(self, rows: int) -> list[Batch]:
        """Return the first batches, with at least this number of rows if the stream has them."""
        if self._rest is None:
            self._rest = iter(self._stream.batches())
        while sum(map(len, self._first)) < rows and (batch := next(self._rest, None)) is not None:
            self._first.append(batch)
        return self._first

    def length(self) -> int | None:
        """Estimate the number of rows from the share of the source that the first rows take; None: unknown.

        The rows of a small compressed file are counted, because its size does not determine them.
        """
        seen = sum(map(len, self._first))
        last = self._first[-1].position if self._first else None
        done = None if last is None or self._stream.size is None else self._stream.done(last)
        if done and self._stream.size:
            return int(seen * self._stream.size / done)
        files = [Path(file) for file in getattr(self._stream, "files", ())]
        if not files or not is_repeatable(self._stream) or sum(file.stat().st_size for file in files) > SMALL:
            return None
        rows = sum(len(batch) for batch in self._stream.batches())
        rewind(self._stream)
        return rows

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """Yield all batches from the start, the first ones from memory."""
        first, rest, self._first, self._rest = self._first, self._rest, [], None
        if rest is None or start != START:
            yield from self._stream.batches(start)
            return
        while first:
            yield first.pop(0)  # frees its memory
        yield from rest


class HoldoutStream:
    """A stream that keeps a copy of every ``every``-th row, the last of each such group, as it passes.

    Beyond ``ROWS`` or ``NON_ZEROS`` every second of them is dropped, and so on: what is left is spread evenly, and is
    the same however the stream is cut.
    """

    def __init__(self, stream: Any, every: int) -> None:
        self._stream, self._every = stream, every
        self.rows: list[Batch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """Those of the stream."""
        kept: list[_Numbered] = []
        stride, seen = 1, 0
        for batch in self._stream.batches(start):
            places = np.arange(-(seen + 1) % self._every, len(batch), self._every)
            kept += _thinned(batch, places, (seen + places) // self._every, stride)
            while sum(len(rows) for rows, _ in kept) > ROWS or sum(rows.nnz for rows, _ in kept) > NON_ZEROS:
                stride *= 2
                kept = [part for rows, own in kept for part in _thinned(rows, np.arange(len(rows)), own, stride)]
            seen += len(batch)
            self.rows = [rows for rows, _ in kept]
            yield batch


#: Rows with their numbers among all that were held out.
_Numbered = tuple[Batch, NDArray[np.int64]]


def _thinned(batch: Batch, places: NDArray[np.int64], own: NDArray[np.int64], stride: int) -> list[_Numbered]:
    """Copy the rows at these positions whose number is a multiple of the stride."""
    chosen = own % stride == 0
    return [(batch.take(places[chosen]), own[chosen])] if chosen.any() else []


# Studies of named features use models only as wide as the number of features that occur.


class Numbering:
    """Slots for the feature numbers of a stream, in the order in which they occur."""

    def __init__(self, n_features: int = 0) -> None:
        self._table, self.n_features = SlotTable(), n_features

    @property
    def n_met(self) -> int:
        """Features that occurred."""
        return len(self._table) - 1

    def admit(self, batch: Batch) -> Batch:
        """The rows with slots for numbers; new numbers get one."""
        self.n_features = max(self.n_features, batch.n_features)
        return self._table.admit(batch.check())

    def find(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Return rows to score, with slots for numbers. A feature that never occurred has the slot without weights."""
        return (self._table.find(batch.check(), self.n_features) for batch in batches)

    def model(self, model: Pipeline) -> Pipeline:
        """A model of slots as one of feature numbers."""
        return expand_if_dense(model.encoded(SlotTable.of(self._table.numbers), self.n_features, grow=True))


class OccurringStream:
    """A stream whose features are renumbered in the order of occurrence, in the same way each time it is read.

    >>> import numpy as np
    >>> from thinstream.data.in_memory import from_memory
    >>> stream = OccurringStream(from_memory(np.eye(5)[[3, 1, 3]], np.array([1, -1, 1])))
    >>> [(batch.indices.tolist(), batch.n_features) for batch in stream.batches()], stream.numbering.n_met
    ([([1, 2, 1], 3)], 2)
    """

    def __init__(self, stream: Any, n_features: int = 0) -> None:
        self._stream, self.numbering = stream, Numbering(n_features)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def batches(self, start: Any = START) -> Iterator[Batch]:
        """Those of the stream."""
        return map(self.numbering.admit, self._stream.batches(start))


def narrowed(source: Any, config: StudyConfig, trials: Sequence[Trial]) -> tuple[Any, StudyConfig, Numbering | None]:
    """Return the source and the configuration of a study, with slots for named features if the rules allow it."""
    if "hashing" not in getattr(source, "feature_space", {}) or not all(_is_plain(config, trial) for trial in trials):
        return source, config, None
    stream = OccurringStream(source, config.n_features)
    return stream, config._replace(n_features=0), stream.numbering


def _is_plain(config: StudyConfig, trial: Trial) -> bool:
    return is_plain(rule_of(find(trial.algorithm or config.algorithm), dict(trial.parameters)))
