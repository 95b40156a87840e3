"""Training on MPI: each rank has some of the features, and the ranks add their parts of each score.

Rank r of n has the features r, r + n, r + 2n and so on, and all counters. So work is spread evenly however features are
numbered, and slices can grow. No rank needs memory for the whole model: each reads its slice of a file, and rank 0
writes files block by block.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from traceback import format_exception
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64

from thinstream.algorithms.registry import find, rule_of
from thinstream.batch import Batch
from thinstream.data.sources import resolve
from thinstream.data.stream import Stream
from thinstream.distributed.sources import Cursor, ShardPosition
from thinstream.engine.forgetting import HALF_LIFE
from thinstream.engine.memory import widen
from thinstream.engine.protocol import require_range, require_signs
from thinstream.engine.rows import EVERY_WEIGHT_1, Rows
from thinstream.engine.split_loop import Needs, compiled_step, conclude, confide, decide, is_separable, score
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    MissingPackageError,
    NumericalError,
    WeightsOnlyError,
    install,
)
from thinstream.models.container import Arrays, Blocks
from thinstream.models.file import Grade, read, write
from thinstream.models.model import Model
from thinstream.models.outputs import Outputs, class_numbers, count_mistakes, signs_of
from thinstream.models.packing import describe, narrow, pack, slice_of, unpack
from thinstream.models.pipeline import Pipeline
from thinstream.training.checkpoint import Checkpoints
from thinstream.training.job import FileSource, ModelSpec, OutputFiles
from thinstream.training.run import Run, Stopping

#: Seconds after which a rank prints its error itself, because rank 0 has not done so.
PATIENCE = 30.0


class Ranks:
    """All ranks of an MPI communicator, from the view of one of them.

    Every rank calls the same methods in the same order, and each method waits for the other ranks. While rank 0 waits,
    it looks for errors of other ranks. It prints the first one and aborts the job, so that an error ends all ranks.
    """

    def __init__(self, world: Any) -> None:
        self.rank, self.size = int(world.rank), int(world.size)
        self._world, self._errors = world, world.Dup()

    def stack(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the arrays of all ranks, stacked in rank order. They must have the same shape and type."""
        stacked = np.empty((self.size, *array.shape), array.dtype)
        self._wait(self._world.Iallgather(array, stacked))
        return stacked

    def add(self, array: NDArray[Any]) -> None:
        """Replace an array by the sum over all ranks, added in rank order whatever the MPI library and the network."""
        if self.size > 1:
            first, *others = self.stack(array)
            array[...] = first
            for other in others:
                array += other

    def total(self, count: int) -> int:
        """Return the sum of a count over all ranks."""
        return int(self.stack(np.array([count])).sum())

    def broadcast(self, value: Any) -> Any:
        """Return the value of rank 0."""
        self._wait(self._world.Ibarrier())
        return self._world.bcast(value)

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks in rank order on rank 0, and an empty list on other ranks."""
        self._wait(self._world.Ibarrier())
        return self._world.gather(value) or []

    def silence_others(self) -> None:
        """Print nothing on ranks other than 0."""
        if self.rank:
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 # until the process ends

    def abort(self, message: str, code: int) -> NoReturn:
        """End all ranks with an exit code. Rank 0 prints the message, unless it got another one first."""
        if self.rank:
            request, end = self._errors.isend((self.rank, message, code), 0), time.monotonic() + PATIENCE
            while time.monotonic() < end:  # or until rank 0 ends this process
                request.Test()
                time.sleep(0.01)
        self._end(self.rank, message, code)

    def _wait(self, request: Any) -> None:
        while not request.Test():
            if self.rank == 0 and self._errors.Iprobe():
                self._end(*self._errors.recv())
            os.sched_yield()  # there may be more ranks than cores

    def _end(self, rank: int, message: str, code: int) -> NoReturn:
        if message and sys.__stderr__ is not None:
            print(f"thinstream: rank {rank}: {message}", file=sys.__stderr__, flush=True)
            time.sleep(0.2)  # mpiexec can lose output that arrives together with the abort
        self._world.Abort(code)
        raise SystemExit(code)


@cache
def join() -> Ranks:
    """Return the ranks that ``mpiexec`` started. Without ``mpiexec`` there is one."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
        reason = str(error).splitlines()[0]
        raise MissingPackageError(
            f"--mode features needs mpi4py and an MPI library ({reason}): {install('mpi')} mpich"
        ) from error
    started = max(int(os.environ.get(name) or 1) for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"))
    if started > MPI.COMM_WORLD.size:
        library = MPI.Get_library_version().splitlines()[0]
        raise InvalidParameterError(
            f"mpiexec started {started} processes, but each finds only itself: mpi4py uses another MPI library, "
            f"{library}. Use the mpiexec of that library"
        )
    ranks = Ranks(MPI.COMM_WORLD)
    sys.excepthook = lambda *error: ranks.abort("".join(format_exception(*error)), 1)
    return ranks


#: Coordinates that rank 0 gathers at a time to write them.
BLOCK = 1 << 20


class Slice(Pipeline):
    """One rank's coordinates of a model; rank 0 has the intercept.

    ``n_features`` and ``offset`` describe the whole model. ``mini_batch`` rows are scored before the first of them is
    learned, so 1 is the serial algorithm.
    """

    offset: Any = 0
    can_be_compact: Any = False
    n_columns: Any = property(lambda self: self._n_features)
    n_weights: Any = property(lambda self: self.n_features * len(self.outputs))
    nnz: Any = property(lambda self: self.ranks.total(self.outputs.nnz))
    n_met: Any = property(lambda self: self.ranks.total(sum(one.n_met for one in self.outputs)))

    def __init__(self, outputs: Outputs, ranks: Ranks, n_features: int, offset: int, mini_batch: int = 1) -> None:
        super().__init__(outputs, n_features=n_features)
        self.ranks, self.offset, self.mini_batch = ranks, offset, mini_batch
        for one in outputs:  # thresholds on the share of non-zero weights are about the whole model
            one.rule = rule_of(one.algorithm, one.parameters).for_width(n_features)
        self._needs = Needs.of(next(iter(outputs)).rule)

    def learn(self, batch: Batch, scores: bool = True) -> NDArray[Any]:
        """Learn the examples in order; return the score of each before its mini-batch. Every rank gets all rows."""
        batch, n_outputs, is_binary = batch.check(), len(self.outputs), self.outputs.is_binary
        signs = require_signs(batch)[:, None] if is_binary else signs_of(class_numbers(batch, n_outputs), n_outputs)
        require_range(batch, self.dtype)
        self._widen(batch.n_features)
        rows = self._own(batch)
        rows_of_outputs = [rows._replace(y=np.ascontiguousarray(signs[:, k])) for k in range(n_outputs)]
        out = np.empty((len(batch), n_outputs), self.dtype)
        for first in range(0, max(len(batch), 1), self.mini_batch):  # an empty batch loads the compiled code
            last = min(first + self.mini_batch, len(batch))
            out[first:last] = self._learn_mini_batch(rows_of_outputs, first, last).T
        if is_binary:
            return out[:, 0]
        self.outputs._mistakes += count_mistakes(out, batch)
        return out

    def _learn_mini_batch(self, rows_of_outputs: list[Rows], first: int, last: int) -> NDArray[np.float64]:
        s, v = sums = np.zeros((2, len(rows_of_outputs), last - first))
        changes = np.zeros(s.shape)

        def run(step: Any, *arrays: NDArray[Any], costs: bool = False) -> None:
            for k, (one, rows) in enumerate(zip(self.outputs, rows_of_outputs, strict=True)):
                options = (one.costs, self._needs.tally) if costs else ()
                columns, rule_type = (array[k] for array in arrays), one.rule.__class__
                compiled_step(step, rule_type)(one.rule, rows, first, last, one.memory, *columns, *options)

        if self._needs.confidence and self._needs.observing:
            run(confide, v)
            self.ranks.add(v)
        run(score, s, v)
        self.ranks.add(sums if self._needs.confidence and not self._needs.observing else s)
        run(decide, s, v, changes, costs=True)
        if self._needs.tally:
            self.ranks.add(changes)
            run(conclude, changes)
        return s

    def _own(self, batch: Batch) -> Rows:
        """Return the features of all rows that this rank has: feature j is number j // size of rank j % size."""
        weights = EVERY_WEIGHT_1 if batch.weights is None else np.ascontiguousarray(batch.weights, np.float64)
        indptr, rank, size = batch.indptr.astype(np.int64), self.ranks.rank, self.ranks.size
        indices, values = batch.indices[: indptr[-1]], batch.values[: indptr[-1]].astype(self.dtype, copy=False)
        if size > 1:
            numbers = indices // size
            mine = indices - numbers * size == rank
            indptr = np.concatenate([[0], np.cumsum(mine, dtype=np.int64)])[indptr]
            indices, values = numbers[mine], values[mine]
        return Rows(indptr, indices, values, np.empty(0, np.int8), weights, self.outputs.offset)

    def _widen(self, n_features: int) -> None:
        if n_features <= self.n_features:
            return
        if not self.grow:
            raise InvalidInputError(
                f"X has {n_features} features, but the model has {self.n_features}; grow=True would extend it"
            )
        self._n_features = n_features
        for one in self.outputs:
            one.n_features = len(range(self.ranks.rank, n_features, self.ranks.size))
            one.memory = widen(one.algorithm, one.rule, one.memory, one.n_features + one.offset)


def require_separable(algorithm: str, parameters: dict[str, Any]) -> None:
    """Raise unless each coordinate of the algorithm moves by itself, given s and v.

    >>> require_separable("sofs", {})
    Traceback (most recent call last):
    thinstream.errors.InvalidParameterError: SOFS cannot be split by features: --mode features needs an algorithm that
    learns online and moves each weight by itself, without covariance='full' and half_life
    """
    declaration = find(algorithm)
    is_online = declaration.kind == "online" and parameters.get(HALF_LIFE) is None
    if not (is_online and is_separable(rule_of(declaration, parameters))):
        raise InvalidParameterError(
            f"{declaration.name} cannot be split by features: --mode features needs an algorithm that learns online "
            "and moves each weight by itself, without covariance='full' and half_life"
        )


def sliced(model: Model, ranks: Ranks, mini_batch: int = 1) -> Model:
    """Return the slice that a rank has of a model in memory."""
    learner = model.learner
    grade: Grade = "weights" if learner.weights_only else "full"
    head = {**describe(learner), "grade": grade, "classes": list(model.classes)}
    outputs = unpack(*_part(head, pack(learner, grade), ranks)).outputs
    return replace(model, learner=Slice(outputs, ranks, head["n_features"], head["fit_intercept"], mini_batch))


def read_slice(path: Path, ranks: Ranks, mini_batch: int = 1) -> Model:
    """Return the slice that a rank has of the model in a file."""
    whole: dict[str, Any] = {}

    def part(head: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
        whole.update(head)
        return _part(head, arrays, ranks)

    model = read(path, part)
    learner = Slice(model.learner.outputs, ranks, whole["n_features"], whole["fit_intercept"], mini_batch)
    return replace(model, learner=learner)


def _part(head: dict[str, Any], arrays: Arrays, ranks: Ranks) -> tuple[dict[str, Any], Arrays]:
    """Return a rank's part of a packed model; raise if the model cannot be split by features."""
    if head["grade"] != "full":
        raise WeightsOnlyError(f"this {head['algorithm']} has its weights only and cannot continue to learn")
    require_separable(head["algorithm"], head["parameters"])
    if {"preparation", "products", "budget", "spares"} & head.keys():
        raise InvalidParameterError(
            "--mode features is for unscaled rows, all features and known classes, because no rank has a whole row: "
            "leave out --scale, --normalize, --max-features and --grow-classes"
        )
    return slice_of(head, arrays, ranks.rank, ranks.size)


def write_slice(path: Path, model: Model, grade: Grade = "full") -> None:
    """Write the whole model. All ranks call it, each with its slice.

    Rank 0 writes the file block by block. It asks all ranks for their rows of an array and a range of coordinates.
    """
    learner: Any = model.learner
    ranks, arrays = learner.ranks, pack(learner, grade)
    rows = _rows_by_coordinate(learner, arrays)

    def block(name: str, start: int) -> Any:
        coordinates, array = rows[name]
        mine = slice(*np.searchsorted(coordinates, (start, start + BLOCK)))
        parts = ranks.gather((coordinates[mine], array[mine]))
        return parts and np.concatenate([a for _, a in parts])[np.argsort(np.concatenate([c for c, _ in parts]))]

    def blocks(name: str) -> Iterator[NDArray[Any]]:
        for start in range(0, learner.n_features + learner.offset, BLOCK):
            ranks.broadcast((name, start))
            yield block(name, start)

    packed: dict[str, Any] = dict(arrays)
    for name, (coordinates, array) in rows.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise NumericalError(f"{learner.algorithm.name}: its array {name!r} has numbers that are not finite")
        packed[name] = Blocks(array.dtype, (ranks.total(len(coordinates)), *array.shape[1:]), partial(blocks, name))
    if ranks.rank == 0:
        write(path, model, grade, packed)
        ranks.broadcast(None)
    else:
        while (asked := ranks.broadcast(None)) is not None:
            block(*asked)


def _rows_by_coordinate(learner: Slice, arrays: Arrays) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    """Return the packed arrays that have a row per coordinate, with the coordinates in the whole model.

    A file has all coordinates, or some of them and their indices. It has indices if the file of any rank has.
    """
    ranks, rows = learner.ranks, dict[str, tuple[NDArray[Any], NDArray[Any]]]()
    for prefix in [name.removesuffix("counts") for name in arrays if name.rpartition("/")[2] == "counts"]:
        names = [prefix + name for name in ("state", "clocks", "weights") if prefix + name in arrays]
        # indices of weights are those of features, without the intercept
        own, offset = (0, 0) if f"{prefix}weights" in arrays else (learner.outputs.offset, learner.offset)
        where = arrays.get(f"{prefix}indices", np.arange(len(arrays[names[0]]))).astype(np.int64)
        where = narrow(np.maximum((where - own) * ranks.size + ranks.rank + offset, 0), learner.n_features + offset)
        rows |= {name: (where, arrays[name]) for name in names}
        if ranks.total(f"{prefix}indices" in arrays):
            rows[f"{prefix}indices"] = where, where
    return rows


#: Rows of a mini-batch by default. With more, the error rises (docs/distributed.md).
MINI_BATCH = 64
#: The fewest rows that ranks compare and learn at a time.
ROWS = 1 << 10


@dataclass(frozen=True)
class FeatureSource(FileSource):
    """Files that each rank reads from start to end. ``mini_batch``: rows of a mini-batch."""

    mini_batch: int = MINI_BATCH

    def create(self, spec: ModelSpec) -> Model:
        return sliced(spec.create(), join(), self.mini_batch)

    def open(self, model: Model) -> Stream:
        for file in resolve(self.paths):
            if not Path(file).is_file():
                raise InvalidInputError(f"{file}: every rank reads all rows, so the data must be files, not a pipe")
        return FileSource(self.paths, replace(self.options, threads=self.options.threads or 0)).open(model)

    def checkpoints(self, outputs: OutputFiles, model: Model) -> Checkpoints | None:
        """Return the checkpoints. The number of ranks may differ when the run is resumed."""
        if outputs.checkpoint_file is None:
            return None
        read = partial(read_slice, ranks=join(), mini_batch=self.mini_batch)
        return Checkpoints(outputs.checkpoint_file, outputs.every, outputs.seconds, read, write_slice)

    def run(self, stream: Stream, model: Model, **options: Any) -> "FeatureRun":
        return FeatureRun(stream, model, **options)


class FeatureRun(Run):
    """The run of one rank. All ranks learn the same batches, and stop and write checkpoints at the same rows."""

    _is_alone = False
    write_model = staticmethod(write_slice)

    def __init__(self, stream: Stream, model: Model, **options: Any) -> None:
        super().__init__(stream, model, **options)
        learner: Any = model.learner
        self.ranks: Ranks = learner.ranks
        self._grain, self._cursor, self._late = learner.mini_batch, Cursor(stream, ShardPosition(), 1), False
        if self.checkpoints:
            self._source = self.ranks.broadcast({**self._source, "mini_batch": self._grain})
        if not learner.grow:
            self._require_few_ranks()

    def learn(self, asked: Stopping) -> None:
        """Learn the rest of the stream. All ranks stop at the same row if one of them gets a signal."""
        self._asked, self._agreed = asked, Stopping()
        super().learn(self._agreed)

    def _batches(self) -> Iterator[Batch]:
        """Yield batches of whole mini-batches, once all ranks have read the same rows."""
        state, rows = self.state, -(-ROWS // self._grain) * self._grain
        reached = ShardPosition(state.passes, state.position, state.skipped)
        cursor = self._cursor = Cursor(self.stream, reached, state.passes + 1)
        while parts := [part.check() for part in cursor.take(rows, within_pass=True)]:
            batch = Batch.concatenate(parts)
            position = None if cursor.over else cursor.reached.position
            yield replace(batch, n_features=self._agree(batch), position=position)
        self._agree(None)

    def _agree(self, batch: Batch | None) -> int:
        """Exchange with all ranks what decides the next steps; return the width of the batch."""
        mine = [0, 0, 0, 0]
        if batch is not None:
            content = xxh3_64()
            for array in (batch.require_labels(), batch.indices[: batch.nnz], batch.values[: batch.nnz]):
                content.update(np.ascontiguousarray(array).data)
            mine = [len(batch), batch.nnz, content.intdigest() >> 1, batch.n_features]
        every = self.ranks.stack(np.array([*mine, self._asked.number or 0, super()._is_late()], np.int64))
        for rank in np.flatnonzero((every[:, :3] != every[0, :3]).any(axis=1)).tolist():
            raise InvalidInputError(
                f"ranks read different data after row {self.state.progress.rows}: rank 0 read {every[0, 0]} rows with "
                f"{every[0, 1]} non-zeros, rank {rank} read {every[rank, 0]} rows with {every[rank, 1]} non-zeros. "
                "Give all ranks the same files"
            )
        self._agreed.number, self._late = int(every[:, 4].max()) or None, bool(every[0, 5])
        return int(every[:, 3].max())

    def _end_pass(self) -> None:
        super()._end_pass()
        self._require_few_ranks()

    def _require_few_ranks(self) -> None:
        n_features, size = self.state.model.learner.n_features, self.ranks.size
        if n_features < size:
            raise InvalidParameterError(f"{size} ranks for {n_features} features: start at most one rank per feature")

    def _skipped_now(self) -> int:
        return self._cursor.most_skipped if self._cursor.over else self._cursor.reached.skipped

    def _is_late(self) -> bool:
        return self._late

    def _wants_nnz(self, n_weights: int) -> bool:
        return bool(self.ranks.broadcast(super()._wants_nnz(n_weights)))
