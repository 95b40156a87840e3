"""A Ray Dataset as source: each worker reads a stretch of its rows out of the object store."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from thinstream.distributed.engines.ray.package import ray
from thinstream.distributed.engines.tables import TableColumns, TableShard, cut
from thinstream.errors import InvalidInputError
from thinstream.streams.tables.arrow_package import pyarrow

_HEAD = 1024  # rows that go into the fingerprint


class DatasetColumns(TableColumns):
    """What the columns of a Ray Dataset mean."""

    owner, place = "a Ray Dataset", "the dataset"


@dataclass(frozen=True)
class Stretch:
    """Rows of a block in the object store."""

    block: Any
    schema: Any
    first: int
    rows: int

    def __call__(self) -> Any:
        """The rows, as a table."""
        rows = _plain(ray().get(self.block).slice(self.first, self.rows))
        return rows.select(self.schema.names).cast(self.schema)


class RayDatasetSource:
    """Rows of a Ray Dataset in their order, as list columns of feature numbers and values, or a column per feature.

    The dataset is computed once, into Ray's object store, so that a worker that takes over can read its rows again.

    Parameters
    ----------
    dataset : ray.data.Dataset
        The rows.
    **columns
        What the columns mean, see `TableColumns`.

    """

    def __init__(self, dataset: Any, **columns: Any) -> None:
        self._columns = DatasetColumns.of(columns)
        blocks = _materialize(dataset)
        look = ray().remote(num_cpus=0)(_look)
        looks = ray().get([look.remote(block) for block in blocks])
        self._blocks = [(block, rows) for block, (rows, _) in zip(blocks, looks, strict=True) if rows]
        if not self._blocks:
            raise InvalidInputError("the Ray Dataset has no rows")
        self._schema = _common([schema for rows, schema in looks if rows])
        self._whole = self.shards(1)[0].open()
        self.dtype, self.classes, self.feature_space = self._whole.dtype, self._whole.classes, self._whole.feature_space

    @cached_property
    def _head(self) -> str:
        """A checksum of the first rows, the same however the dataset is cut into blocks."""
        left, seen = _HEAD, [bytearray() for _ in range(3)]
        for batch in self._whole.batches():
            rows = min(left, len(batch))
            end = int(batch.indptr[rows])
            arrays = batch.indices[:end].astype(np.int64), batch.values[:end], np.asarray(batch.y)[:rows]
            for kept, array in zip(seen, arrays, strict=True):
                kept += array.tobytes()
            left -= rows
            if not left:
                break
        return f"{xxh3_64_intdigest(b''.join(seen)):016x}"

    def fingerprint(self) -> dict[str, Any]:
        """How many rows there are, a checksum of the first ones, and which columns are read as what."""
        return {**self._whole.fingerprint(), "kind": "ray", "head": self._head}

    def shards(self, workers: int) -> list[TableShard]:
        """Stretches of equal length, one after another; they follow from the rows, not from the dataset's blocks."""
        found = []
        for places in cut([rows for _, rows in self._blocks], workers):
            stretches = [(Stretch(self._blocks[k][0], self._schema, first, rows), rows) for k, first, rows in places]
            found.append(TableShard(tuple(stretches), tuple(self._schema.names), self._columns))
        return found


def _materialize(dataset: Any) -> list[Any]:
    """References to the blocks, in order, which Ray keeps only if it is told to."""
    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        blocks: list[Any] = dataset.materialize().to_arrow_refs()
    finally:
        options.preserve_order = before
    return blocks


def _look(table: Any) -> tuple[int, Any]:
    """A block's number of rows, and its schema."""
    return table.num_rows, _plain(table.slice(0, 0)).schema


def _common(schemas: list[Any]) -> Any:
    """One schema for all blocks: where all lists of one are empty, it does not know what they are lists of."""
    try:
        return pyarrow().unify_schemas(schemas, promote_options="permissive")
    except pyarrow().ArrowException as error:
        raise InvalidInputError(f"the blocks of the Ray Dataset have columns of different types: {error}") from error


def _plain(table: Any) -> Any:
    """Ray's columns of tensors (what arrays become in a dataset) as the lists they are stored in."""
    for number, field in enumerate(table.schema):
        if not hasattr(field.type, "storage_type"):
            continue
        kind, chunks = field.type.storage_type, [chunk.storage for chunk in table.column(number).chunks]
        if pyarrow().types.is_struct(kind):  # of differing lengths: their data and their shapes
            kind, chunks = kind.field("data").type, [chunk.field("data") for chunk in chunks]
        table = table.set_column(number, field.name, pyarrow().chunked_array(chunks, kind))
    return table
