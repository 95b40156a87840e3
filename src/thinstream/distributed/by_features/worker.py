"""What one rank of a run by features does until the next checkpoint: reads, scores its share, sums, learns."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.distributed import cursor as cursors
from thinstream.distributed.by_features.blueprint import Blueprint
from thinstream.distributed.by_features.collective import Collective
from thinstream.distributed.by_features.slice_files import Place, read_slice, write_slice
from thinstream.distributed.by_features.slices import Slice
from thinstream.distributed.cursor import Cursor
from thinstream.distributed.engines.launcher import LOOPBACK, Exchange
from thinstream.distributed.sources import Shard
from thinstream.errors import InvalidInputError, WorkerLostError
from thinstream.evaluate.observer import FIRST_LINE
from thinstream.evaluate.progress import Progress
from thinstream.one_vs_rest import AnyLearner
from thinstream.streams.stream import Stream
from thinstream.training.run import Line

Arrays = dict[str, NDArray[Any]]


class Answer(NamedTuple):
    """What a rank tells the driver."""

    place: Place
    pid: int
    progress: Arrays  # of rank 0, as are names and lines
    names: Arrays
    lines: list[Line]
    learner: AnyLearner | None  # at the end: the slice, where there is no folder for it


@dataclass(frozen=True)
class Plan:
    """What a run is, from its beginning to its end."""

    blueprint: Blueprint
    shard: Shard  # the whole stream, which every rank reads
    size: int  # ranks
    batch: int  # rows of a mini-batch
    passes: int
    timeout: float  # seconds a peer may be silent
    folder: Path | None = None  # of the slices; None: they stay in the processes, and come with the last answer
    first: Callable[[], AnyLearner] | None = None  # answers the model to begin with
    lines: bool = False  # whether lines are to be told at 1, 2, 4, … rows
    threshold: float = 0.0  # scores above it are positive, for the metrics


#: The slice this process had at the end of a segment: (job, number of the next, rank) → slice.
_remembered: dict[tuple[str, int, int], Slice] = {}


@dataclass(frozen=True)
class Segment:
    """A task for `Launcher.run_together`; all ranks are given the same but ``rank``, ``progress`` and ``names``."""

    plan: Plan
    rank: int
    job: str  # the run's name
    token: str  # the secret of this attempt
    place: Place  # where to begin
    rows: int | None = None  # after how many to stop; None: at the end
    count: bool = False  # whether lines have the number of non-zero weights
    progress: Arrays = field(default_factory=dict)  # of rank 0, as far as the place; names, too
    names: Arrays = field(default_factory=dict)

    def __call__(self, exchange: Exchange) -> Answer:
        """Runs it; compiles before it meets the others, who would not wait for that."""
        plan, part = self.plan, self._slice()
        scores = part.prepare()
        if self.rank == 0:
            Progress(len(plan.blueprint.classes)).update(scores, plan.blueprint.classes.coded(np.empty(0)))
        stream = plan.shard.open()
        warm_up = getattr(stream, "warm_up", None)
        if warm_up is not None:
            warm_up()
        if stream.names is not None and self.names:
            stream.names.restore(self.names)
        host = getattr(exchange, "host", LOOPBACK)
        with Collective.join(exchange, self.rank, plan.size, self.token, host=host, timeout=plan.timeout) as collective:
            run = _Run(self, part, stream, collective)
            run.go()
            run.require_agreement()
            if plan.folder is not None:
                write_slice(plan.folder, self.job, run.place.number, part)
        over = run.place.passes == plan.passes
        for key in [key for key in _remembered if key[0] != self.job or key[2] == self.rank]:
            _remembered.pop(key, None)  # of no use any more
        if not over:  # spares the next segment in this process the reading
            _remembered[self.job, run.place.number, self.rank] = part
        told, names = self.rank == 0, stream.names
        return Answer(
            run.place,
            os.getpid(),
            run.progress.arrays() if told else {},
            names.arrays() if told and names is not None else {},
            run.lines,
            part.learner() if over and plan.folder is None else None,
        )

    def _slice(self) -> Slice:
        """The slice as it was at the place: remembered, read, or made."""
        plan = self.plan
        part = _remembered.pop((self.job, self.place.number, self.rank), None)
        if part is not None:
            return part
        if self.place.number:
            if plan.folder is None:
                raise WorkerLostError(f"worker {self.rank} is new: its slice was lost, and there is no folder with it")
            return read_slice(plan.folder, self.job, self.place.number, plan.blueprint, self.rank, plan.size)
        part = Slice(plan.blueprint, self.rank, plan.size)
        if plan.first is not None:
            part.cut(plan.first())
        return part


class _Run:
    """A segment under way."""

    def __init__(self, task: Segment, part: Slice, stream: Stream, collective: Collective) -> None:
        self.task, self.plan, self.part, self.stream, self.collective = task, task.plan, part, stream, collective
        self.place, self.lines, self.seen, self.taken = task.place, list[Line](), 0, 0
        classes, threshold = len(self.plan.blueprint.classes), self.plan.threshold
        self.progress = (
            Progress.from_arrays(task.progress, threshold) if task.progress else Progress(classes, threshold)
        )

    def go(self) -> None:
        """To the end of the segment or of the last pass."""
        task, start = self.task, self.place
        cursor = Cursor(self.stream, cursors.Place(start.passes, start.position, start.skipped), self.plan.passes)
        while not cursor.over and (task.rows is None or self.taken < task.rows):
            for batch in whole_mini_batches(cursor.take(self._rows_ahead(), within_pass=True), self.plan.batch):
                self._take(batch)
        self.place = self.place._replace(
            number=start.number + 1, n_features=self.part.n_features, **cursor.place._asdict()
        )

    def _rows_ahead(self) -> int:
        """Whole mini-batches to the end of the segment, or until the rows have doubled, where a line is due."""
        rows = sys.maxsize if self.task.rows is None else self.task.rows - self.taken
        if self.plan.lines:
            rows = min(rows, (1 << self.place.rows.bit_length()) - self.place.rows)
        return -(-rows // self.plan.batch) * self.plan.batch

    def _take(self, rows: Batch) -> None:
        before = self.place.rows
        scores = self.part.learn(rows, self.collective, batch_size=self.plan.batch)
        if self.task.rank == 0:
            labels: Any = rows.y
            self.progress.update(scores, labels, rows.weights)
        self.taken, self.seen = self.taken + len(rows), self.seen + rows.nnz
        self.place = self.place._replace(rows=before + len(rows))
        now = self.place.rows
        if self.plan.lines and now >= FIRST_LINE and before.bit_length() != now.bit_length():
            self._line()

    def _line(self) -> None:
        nnz = None
        if self.task.count:
            nnz = int(self.collective.allreduce(np.array([self.part.nnz]))[0])
        if self.task.rank == 0:
            self.lines.append(Line(self.progress.report(), self.progress.since_mark(), nnz, self.part.n_features))
            self.progress.mark()

    def require_agreement(self) -> None:
        """Raises if ranks have read different streams."""
        mine = np.array([self.taken, self.seen, self.part.n_features], dtype=np.int64)
        total = self.collective.allreduce(mine.copy())
        if (total != self.plan.size * mine).any():
            raise InvalidInputError(
                f"every worker must read the same stream: worker {self.task.rank} has read {self.taken} rows with "
                f"{self.seen} non-zeros, others have not"
            )


def whole_mini_batches(batches: Iterable[Batch], size: int) -> Iterator[Batch]:
    """The same rows, in batches that each hold a whole number of mini-batches of ``size`` rows.

    Only the last may be cut short. However a stream cuts its rows, the mini-batches are the same: ranks that read the
    same stream may get it in different pieces.
    """
    held: list[Batch] = []
    waiting = 0
    for found in batches:
        batch = found.check()
        if waiting:
            taken = min(size - waiting, len(batch))
            held.append(batch.until(taken))
            waiting, batch = waiting + taken, batch.after(taken)
            if waiting == size:
                yield Batch.concatenate(held)
                held, waiting = [], 0
        whole = len(batch) // size * size
        if whole:
            yield batch.until(whole)
        if whole < len(batch):
            held.append(batch.after(whole))
            waiting += len(batch) - whole
    if held:
        yield Batch.concatenate(held)
