"""A Spark DataFrame as source: its rows are written out once, as Arrow files, and each worker reads a stretch of them.

Spark alone can compute a DataFrame, and would do so anew for every round. From files a worker goes on anywhere, another
takes over, and a run that is resumed finds the same rows.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thinstream.distributed.engines.spark.package import no_warnings, pyspark
from thinstream.distributed.engines.tables import INDICES, VALUES, TableColumns, TableShard, cut
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.streams.sources import head_checksum
from thinstream.streams.stream import Stream
from thinstream.streams.tables.arrow_columns import list_lengths
from thinstream.streams.tables.arrow_package import pyarrow

_WRITTEN = "part long, path string, rows long, width long"


class FrameColumns(TableColumns):
    """What the columns of a DataFrame mean; ``features`` is a column of Spark ML vectors."""

    owner, place = "a Spark DataFrame", "the DataFrame"

    def __init__(self, *, features: str = "features", **columns: Any) -> None:
        super().__init__(**columns)
        self.features = features

    def vector(self, frame: Any) -> str | None:
        """The column of vectors, if there is one."""
        kinds = {field.name: type(field.dataType).__name__ for field in frame.schema.fields}
        return self.features if kinds.get(self.features) == "VectorUDT" else None

    def select(self, frame: Any) -> Any:
        """The columns that are read, without the others."""
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
        """Columns as they are written: vectors as lists."""
        vector = self.vector(frame)
        names = self.select(frame).columns
        return list(names) if vector is None else [INDICES, VALUES, *(name for name in names if name != vector)]

    def rows(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], vectors: bool, width: int = 0) -> Stream:
        """Rows that were written, as a stream; ``width``: of their vectors, if they tell."""
        return self.stream(tables, names, **written_options(vectors, width))


def written_options(vectors: bool, width: int) -> dict[str, Any]:
    """What a stream must be told of rows that were written: vectors are lists now."""
    return {"n_features": width or None, **({"indices": INDICES, "values": VALUES} if vectors else {})}


def vectors_to_lists(batch: Any, name: str) -> tuple[Any, int]:
    """A record batch with its column of Spark ML vectors as two of lists, and how wide they are.

    A vector comes as a struct: whether it is dense, its size if not, feature numbers if not, values. Null is empty.
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
    """Rows of a file."""

    path: str
    first: int
    rows: int

    def __call__(self) -> Any:
        """The rows, as a table that is read where it is used."""
        if not os.path.isfile(self.path):
            raise InvalidInputError(
                f"{self.path}, written for this run, is not to be seen from a worker: folder= must name one that all "
                "machines share"
            )
        table = pyarrow().ipc.open_file(pyarrow().memory_map(self.path)).read_all()
        return table.slice(self.first, self.rows)


class Written(NamedTuple):
    """A partition as a file."""

    part: int
    path: str
    rows: int
    width: int  # of vectors; 0: they tell none


class DataFrameSource:
    """Rows of a Spark DataFrame, partition after partition, in any of three forms.

    Two list columns of feature numbers (from 0) and values; or a column of Spark ML vectors; or a column per feature:
    numbers and booleans under the name of the column, text under ``column=text``, hashed.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows. They are computed once, here.
    features : str
        Column of Spark ML vectors, sparse or dense; if there is one, other columns are not read.
    **columns
        What the other columns mean, see `TableColumns`.
    folder : path or None
        Where the rows are written, in a folder of their own that is removed with the source. On a cluster it must be on
        a file system that all machines share. None: a temporary one, if all of Spark is on this machine.

    """

    def __init__(self, frame: Any, *, folder: str | os.PathLike[str] | None = None, **columns: Any) -> None:
        self._columns = FrameColumns.of(columns)
        _require_columns(frame, self._columns)
        self._vectors = self._columns.vector(frame) is not None
        self._names = tuple(self._columns.names(frame))
        place = _folder(frame, folder)
        self._remove = weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._written = _write_partitions(self._columns.select(frame), place, self._columns.vector(frame))
        if not self._written:
            raise InvalidInputError("the DataFrame has no rows")
        self._whole = self.shards(1)[0].open()
        self.dtype, self.classes, self.feature_space = self._whole.dtype, self._whole.classes, self._whole.feature_space

    def fingerprint(self) -> dict[str, Any]:
        """How many rows there are, a checksum of the first ones, and which columns are read as what."""
        head = head_checksum(self._written[0].path)
        return {**self._whole.fingerprint(), "kind": "spark", "head": f"{head:08x}"}

    def shards(self, workers: int) -> list[TableShard]:
        """Stretches of equal length, one after another."""
        more = written_options(self._vectors, max(file.width for file in self._written))
        found = []
        for places in cut([file.rows for file in self._written], workers):
            stretches = [(Stretch(self._written[k].path, first, rows), rows) for k, first, rows in places]
            found.append(TableShard(tuple(stretches), self._names, self._columns, more))
        return found

    def close(self) -> None:
        """Removes the files; a second time does nothing."""
        self._remove()


def _require_columns(frame: Any, columns: FrameColumns) -> None:
    label, names = columns.reading["label"], frame.columns
    for name in (label, columns.reading["weight"]):
        if name is not None and name not in names:
            raise InvalidInputError(f"the DataFrame has no column {name!r}, only {listed(names)}")


def _folder(frame: Any, folder: str | os.PathLike[str] | None) -> str:
    """A new folder that driver and workers see."""
    master = frame.sparkSession.sparkContext.master
    if folder is None and not master.startswith("local"):
        raise InvalidParameterError(
            f"a DataFrame on {master} needs folder=, one on a file system that all machines share, got None"
        )
    return tempfile.mkdtemp(prefix="thinstream-rows-", dir=folder)


def _write_partitions(frame: Any, folder: str, vector: str | None) -> list[Written]:
    """The partitions, each in its file, in their order; empty ones are left out."""
    with no_warnings():
        rows = frame.mapInArrow(_Write(folder, vector), _WRITTEN).collect()
    found = sorted(Written(*row) for row in rows)
    for file in found:
        if not os.path.isfile(file.path):
            raise InvalidInputError(
                f"{file.path} was written by a worker but is not to be seen from here: folder= must "
                "name one that all machines share"
            )
    return found


@dataclass(frozen=True)
class _Write:
    """Runs in the worker of a partition: its rows into a file."""

    folder: str
    vector: str | None

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        pa, context = pyarrow(), pyspark().TaskContext.get()
        part = context.partitionId()
        path = Path(self.folder) / f"part-{part:06d}.arrow"
        beside = path.with_suffix(f".{context.taskAttemptId()}")  # another attempt may be at it, too
        writer, rows, width = None, 0, 0
        for batch in batches:
            if self.vector is not None:
                batch, wide = vectors_to_lists(batch, self.vector)
                width = max(width, wide)
            if writer is None:
                writer = pa.ipc.new_file(str(beside), batch.schema)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
            os.replace(beside, path)
        if rows:
            yield pa.RecordBatch.from_pylist([Written(part, str(path), rows, width)._asdict()])
