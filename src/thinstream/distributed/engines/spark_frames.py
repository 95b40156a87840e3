"""Spark DataFrames: as a source of training, and as endless input with Structured Streaming.

Only Spark can compute a DataFrame, and it would do so again in every round. So its rows are written once, as Arrow
files, and each worker reads a range of them. A worker can continue anywhere, another worker can replace it, and a
resumed run finds the same rows.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Position
from thinstream.data.sources import head_checksum
from thinstream.data.stream import Stream
from thinstream.data.tables.arrow import list_lengths, pyarrow
from thinstream.distributed.deltas import Change, copy_learner, delta, merge_deltas
from thinstream.distributed.engines.spark import no_warnings, pack_answer, pyspark, run_stage, slots_of, unpack_answers
from thinstream.distributed.job import Trainable, require_trainable
from thinstream.distributed.sources import INDICES, VALUES, TableColumns, TableShard, cut
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.models.model import Model
from thinstream.models.pipeline import compact_if_large, require_all_features
from thinstream.training.checkpoint import Checkpoints, State
from thinstream.training.metrics import Progress

_WRITTEN = "part long, path string, rows long, width long"


class FrameColumns(TableColumns):
    """The meaning of the columns of a DataFrame; ``features`` is a column of Spark ML vectors."""

    owner, shown_as = "a Spark DataFrame", "the DataFrame"

    def __init__(self, *, features: str = "features", **columns: Any) -> None:
        super().__init__(**columns)
        self.features = features

    def vector(self, frame: Any) -> str | None:
        """Return the column of vectors, or None."""
        types = {field.name: type(field.dataType).__name__ for field in frame.schema.fields}
        return self.features if types.get(self.features) == "VectorUDT" else None

    def select(self, frame: Any) -> Any:
        reading, names = self.reading, frame.columns
        weight = reading["weight"] or "weight"
        vector = self.vector(frame)
        if vector is not None:
            wanted = [vector, reading["label"], weight]
        elif {reading["indices"], reading["values"]} <= set(names):
            wanted = [reading["indices"], reading["values"], reading["label"], weight]
        else:
            wanted = [name for name in names if name not in reading["ignore"]]
        quoted = [f"`{name.replace('`', '``')}`" for name in wanted if name in names]
        return frame.select(*quoted)

    def names(self, frame: Any) -> list[str]:
        """Return the columns that are written; vectors are written as lists."""
        vector = self.vector(frame)
        names = self.select(frame).columns
        return list(names) if vector is None else [INDICES, VALUES, *(name for name in names if name != vector)]

    def rows(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], vectors: bool, width: int = 0) -> Stream:
        """Return written rows as a stream; ``width``: the width of their vectors, if it is known."""
        return self.stream(tables, names, **written_options(vectors, width))


def written_options(vectors: bool, width: int) -> dict[str, Any]:
    """Return options to read rows that were written, in which vectors are lists."""
    return {"n_features": width or None, **({"indices": INDICES, "values": VALUES} if vectors else {})}


def vectors_to_lists(batch: Any, name: str) -> tuple[Any, int]:
    """Convert the column of Spark ML vectors of a record batch to two list columns; also return the width.

    A vector is a struct of type (dense or sparse), size (if sparse), feature numbers (if sparse) and values. Null is
    empty.
    """
    pa = pyarrow()
    dense, size, indices, values = batch.column(name).flatten()
    lengths = list_lengths(values, name, "the DataFrame")
    sparse = np.repeat(dense.fill_null(1).to_numpy(zero_copy_only=False) == 0, lengths)
    ends = np.cumsum(lengths)
    numbers = (np.arange(len(sparse)) - np.repeat(ends - lengths, lengths)).astype(np.int32)
    numbers[sparse] = indices.flatten().to_numpy()
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32))
    lists = [pa.ListArray.from_arrays(offsets, pa.array(numbers)), pa.ListArray.from_arrays(offsets, values.flatten())]
    others = [other for other in batch.schema.names if other != name]
    width = max(int(size.fill_null(0).to_numpy(zero_copy_only=False).max(initial=0)), int(numbers.max(initial=-1)) + 1)
    columns = [*lists, *(batch.column(other) for other in others)]
    return pa.RecordBatch.from_arrays(columns, [INDICES, VALUES, *others]), width


@dataclass(frozen=True)
class Stretch:
    """Some rows of a file."""

    path: str
    first: int
    rows: int

    def __call__(self) -> Any:
        """Return the rows as a memory-mapped table."""
        if not os.path.isfile(self.path):
            raise InvalidInputError(
                f"a worker cannot read {self.path}, which was written for this run. Pass folder= with a folder that "
                "all machines share"
            )
        table = pyarrow().ipc.open_file(pyarrow().memory_map(self.path)).read_all()
        return table.slice(self.first, self.rows)


class Written(NamedTuple):
    """A partition as a file."""

    part: int
    path: str
    rows: int
    width: int  # width of vectors; 0: unknown


class DataFrameSource:
    """Rows of a Spark DataFrame, one partition after another, in one of three forms.

    The forms are: two list columns of feature numbers (from 0) and values; a column of Spark ML vectors; or a column
    per feature. In the last form, numbers and booleans have the name of the column, and text is hashed as
    ``column=text``.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows. They are computed once, here.
    features : str
        A column of Spark ML vectors, sparse or dense. If it exists, other feature columns are not read.
    **columns
        The meaning of the other columns, see `TableColumns`.
    folder : path or None
        The rows are written to a new folder in this one, which is removed with the source. On a cluster, all machines
        must share it. None: a temporary folder, if all of Spark is on this machine.

    """

    def __init__(self, frame: Any, *, folder: str | os.PathLike[str] | None = None, **columns: Any) -> None:
        self._columns = FrameColumns.of(columns)
        _require_columns(frame, self._columns)
        self._vectors = self._columns.vector(frame) is not None
        self._names = tuple(self._columns.names(frame))
        rows_folder = _folder(frame, folder)
        self._remove = weakref.finalize(self, shutil.rmtree, rows_folder, ignore_errors=True)
        self._written = _write_partitions(self._columns.select(frame), rows_folder, self._columns.vector(frame))
        if not self._written:
            raise InvalidInputError("the DataFrame has no rows")
        self._whole = self.shards(1)[0].open()
        self.dtype, self.classes, self.feature_space = self._whole.dtype, self._whole.classes, self._whole.feature_space

    def fingerprint(self) -> dict[str, Any]:
        """Return the number of rows, a checksum of the first ones, and the meaning of the columns."""
        head = head_checksum(self._written[0].path)
        return {**self._whole.fingerprint(), "kind": "spark", "head": f"{head:08x}"}

    def shards(self, workers: int) -> list[TableShard]:
        """Cut the rows into parts of equal length."""
        more = written_options(self._vectors, max(file.width for file in self._written))
        shards = []
        for parts in cut([file.rows for file in self._written], workers):
            stretches = [(Stretch(self._written[k].path, first, rows), rows) for k, first, rows in parts]
            shards.append(TableShard(tuple(stretches), self._names, self._columns, more))
        return shards

    def close(self) -> None:
        """Remove the files; a second call does nothing."""
        self._remove()


def _require_columns(frame: Any, columns: FrameColumns) -> None:
    label, names = columns.reading["label"], frame.columns
    for name in (label, columns.reading["weight"]):
        if name is not None and name not in names:
            raise InvalidInputError(f"the DataFrame has no column {name!r}; its columns are {listed(names)}")


def _folder(frame: Any, folder: str | os.PathLike[str] | None) -> str:
    """Create a folder that driver and workers can access."""
    master = frame.sparkSession.sparkContext.master
    if folder is None and not master.startswith("local"):
        raise InvalidParameterError(f"a DataFrame on {master} needs folder=. Give a folder that all machines share")
    return tempfile.mkdtemp(prefix="thinstream-rows-", dir=folder)


def _write_partitions(frame: Any, folder: str, vector: str | None) -> list[Written]:
    """Write each partition to a file, in order; skip empty ones."""
    with no_warnings():
        rows = frame.mapInArrow(_Write(folder, vector), _WRITTEN).collect()
    files = sorted(Written(*row) for row in rows)
    for file in files:
        if not os.path.isfile(file.path):
            raise InvalidInputError(
                f"the driver cannot read {file.path}, which a worker has written. Pass folder= with a folder that "
                "all machines share"
            )
    return files


@dataclass(frozen=True)
class _Write:
    """Writes the rows of a partition to a file, in a worker."""

    folder: str
    vector: str | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa, context = pyarrow(), pyspark().TaskContext.get()
        part = context.partitionId()
        path = Path(self.folder) / f"part-{part:06d}.arrow"
        draft = path.with_suffix(f".{context.taskAttemptId()}")  # another attempt may write at the same time
        writer, rows, width = None, 0, 0
        for batch in batches:
            if self.vector is not None:
                batch, wide = vectors_to_lists(batch, self.vector)
                width = max(width, wide)
            if writer is None:
                writer = pa.ipc.new_file(str(draft), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
            os.replace(draft, path)
        if rows:
            yield pa.RecordBatch.from_pylist([Written(part, str(path), rows, width)._asdict()])


_QUERY = "sql.streaming.queryId"  # Spark's property of the thread that runs a micro-batch


class Query(NamedTuple):
    """A query of Structured Streaming, and the learner of its rows."""

    query: Any
    learning: "BatchLearner"


def learn_stream(frame: Any, estimator: Trainable, folder: str | Path, **options: Any) -> Query:
    """Start to learn from a streaming DataFrame. If the folder has a model from before, continue with it.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        A stream, such as ``spark.readStream.schema(…).parquet(…)``, with columns as for `DataFrameSource`.
    estimator : estimator of thinstream
        The estimator to fit. It is not changed.
    folder : path
        For the model, ``model.ts`` (`thinstream.load` can read it at any time), and for Spark's checkpoints.
    **options
        ``trigger``: a dict, as for `DataStreamWriter.trigger`. The others are those of `foreach_batch`.

    Examples
    --------
    Learn from existing files, and from each new one::

        rows = spark.readStream.schema("label int, indices array<int>, values array<float>").parquet("incoming")
        query, learning = learn_stream(rows, ts.FSOL(l1=10.0), "learned", trigger={"processingTime": "1 minute"})

    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    trigger = options.pop("trigger", None)
    learning = foreach_batch(estimator, path / "model.ts", **options)
    writer = frame.writeStream.foreachBatch(learning).option("checkpointLocation", str(path / "spark"))
    return Query((writer.trigger(**trigger) if trigger else writer).start(), learning)


class BatchLearner:
    """A function for `DataStreamWriter.foreachBatch` that learns each micro-batch.

    Parameters
    ----------
    estimator : estimator of thinstream
        A new or fitted estimator. It is not changed.
    checkpoint : path
        The model, written after each micro-batch. If it exists, learning continues from it.
    merge : str or None
        How changes are combined, see `thinstream.distributed.train`.
    workers : int or None
        Parts of a micro-batch that are learned in parallel. None: as many as Spark runs at once. With one, the result
        is the same as without Spark.
    **columns
        The meaning of the columns, see `DataFrameSource` (all except ``folder``).

    """

    def __init__(
        self,
        estimator: Trainable,
        checkpoint: str | Path,
        *,
        merge: str | None = None,
        workers: int | None = None,
        **columns: Any,
    ) -> None:
        self._columns, self._merge, self._workers = FrameColumns.of(columns), merge, workers
        self._checkpoints, self._source = Checkpoints(Path(checkpoint)), _described(self._columns)
        require_trainable(estimator)
        self._estimator = copy(estimator)
        model = estimator.__thinstream_model__(self._columns.rows([], [INDICES, VALUES], False), resume=True)
        require_all_features(model.learner)
        state = self._checkpoints.read(self._source, model)
        self._state = state or State(model, Progress(len(model.classes), model.threshold), 0, Position(part=0))

    @property
    def batch(self) -> int:
        """The number of the last micro-batch that was learned; −1 if none was."""
        return self._state.position.part - 1

    @property
    def estimator(self) -> Trainable:
        """A fitted estimator with the current model."""
        return copy(self._estimator).__thinstream_fitted__(self._state.model.copy(), self._state.progress.report())

    @property
    def progressive(self) -> Any:
        return self._state.progress.report()

    def __call__(self, frame: Any, number: int) -> None:
        """Learn a micro-batch and write the model, unless it was learned before."""
        model = self._of_query(frame)
        if number <= self.batch:
            return
        names, vector = self._columns.names(frame), self._columns.vector(frame)
        if model.learner.t == 0:
            model = replace(model, feature_space=self._columns.rows([], names, vector is not None).feature_space)
        session = frame.sparkSession
        base = session.sparkContext.broadcast((model.learner, self._state.progress))
        try:
            parts = max(1, self._workers or slots_of(session))
            task = _Learn(base, self._columns, tuple(names), vector)
            answers = unpack_answers(run_stage(self._columns.select(frame).coalesce(parts), task))
        finally:
            base.destroy()
        learned = [answer for answer in answers if answer is not None]
        learner = merge_deltas(model.learner, [change for change, _ in learned], self._merge)
        progress = add_progress(self._state.progress, [arrays for _, arrays in learned])
        state = State(replace(model, learner=learner), progress, 0, Position(part=number + 1, row=progress.rows))
        self._checkpoints.write(state, self._source)  # if this or anything before fails, nothing has changed here
        self._state = state

    def _of_query(self, frame: Any) -> Model:
        """Return the model; raise if it belongs to another query, which numbers its micro-batches differently."""
        query, model = frame.sparkSession.sparkContext.getLocalProperty(_QUERY), self._state.model
        saved_query = model.extra.get("query", query)
        if query is not None and saved_query != query:
            raise InvalidInputError(
                f"{self._checkpoints.path} belongs to the query {saved_query}, but this query is "
                f"{query}, which numbers "
                "micro-batches differently. Give a new checkpoint. To continue this model, pass it as the estimator"
            )
        return model if query is None else replace(model, extra={**model.extra, "query": query})


@dataclass(frozen=True)
class _Learn:
    """Learns the rows of a partition from the base, in a worker."""

    base: Any
    columns: FrameColumns
    names: tuple[str, ...]
    vector: str | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        yield pack_answer(lambda worker: self._learned(batches))

    def _learned(self, batches: Iterator[Any]) -> tuple[Change, dict[str, NDArray[Any]]] | None:
        base, counted = self.base.value  # the process may use it again, so it must not change
        learner, progress, rows = copy_learner(base), Progress.from_arrays(counted.arrays()), 0
        learner.grow = True
        for records in batches:
            width = 0
            if self.vector is not None:
                records, width = vectors_to_lists(records, self.vector)
            table = pyarrow().Table.from_batches([records])
            stream = self.columns.rows(
                [(lambda table=table: table, len(table))], self.names, self.vector is not None, width
            )
            for batch in stream.batches():
                labels = batch.require_labels()
                learner = compact_if_large(learner, batch.n_features, "hashing" in stream.feature_space)
                progress.update(learner.learn(batch), labels, batch.weights)
                rows += len(batch)
        return (delta(base, learner), progress.arrays()) if rows else None


foreach_batch = BatchLearner  # called by Spark with each micro-batch and its number


def add_progress(base: Progress, parts: Sequence[dict[str, NDArray[Any]]]) -> Progress:
    """Add the counts of several workers since the same base. With one, the result is bit-identical to its counts."""
    if len(parts) == 1:
        return Progress.from_arrays(parts[0])
    before = base.arrays()
    now = {name: array + sum(part[name] - array for part in parts) for name, array in before.items()}
    return Progress.from_arrays(now)


def _described(columns: FrameColumns) -> dict[str, Any]:
    reading = {**columns.reading, "hasher": columns.reading["hasher"].as_dict()}
    return {"kind": "structured streaming", "features": columns.features, "reading": repr(sorted(reading.items()))}
