"""A Spark DataFrame as source: its rows are written out once, as Arrow files, and each worker reads a stretch of them.

Spark alone can compute a DataFrame, and would do so anew for every round. From files a worker goes on anywhere, another
takes over, and a run that is resumed finds the same rows.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from thinstream.distributed.engines.spark.columns import FrameColumns, vectors_to_lists, written_as
from thinstream.distributed.engines.spark.package import no_warnings, pyspark
from thinstream.distributed.engines.tables import TableShard, cut
from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.streams.sources import head_checksum
from thinstream.streams.tables.arrow_package import pyarrow

_WRITTEN = "part int, path string, rows long, width long"


def source_for(frame: Any, **options: Any) -> "DataFrameSource | None":
    """The source that a DataFrame is; None: it is something else."""
    return DataFrameSource(frame, **options) if hasattr(frame, "mapInArrow") else None


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
        self._written = _written(self._columns.taken(frame), place, self._columns.vector(frame))
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
        more = written_as(self._vectors, max(file.width for file in self._written))
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


def _written(frame: Any, folder: str, vector: str | None) -> list[Written]:
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
            columns = {"part": [part], "path": [str(path)], "rows": [rows], "width": [width]}
            schema = pa.schema({"part": pa.int32(), "path": pa.string(), "rows": pa.int64(), "width": pa.int64()})
            yield pa.RecordBatch.from_pydict(columns, schema=schema)
