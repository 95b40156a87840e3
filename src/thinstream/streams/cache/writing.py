"""Writes the file of a cache: record batches through pyarrow, then the section in which thinstream finds them."""

import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError
from thinstream.streams.cache.layout import VERSION, Block, Contents, identity, packed
from thinstream.streams.stream import Stream
from thinstream.streams.tables.arrow_package import pyarrow

_TOTALS = 96  # bytes kept free in the schema for numbers that are known last


class Columns(NamedTuple):
    """What varies among schemas, which are written before the rows."""

    numbers: str = "int32"
    weighted: bool = False

    def holding(self, batch: Batch) -> "Columns":
        """With room for what is in the batch."""
        wide = self.numbers == "int64" or batch.n_features > 2**31
        return Columns("int64" if wide else "int32", self.weighted or batch.weights is not None)


class Outgrown(Exception):
    """A batch needs other columns than those begun with."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns


def write_file(file: BinaryIO, stream: Stream, nonzeros: int) -> None:
    """Fills a new file; starts again where a later batch needs wider columns."""
    columns = Columns()
    while True:
        try:
            return _write(file, stream, columns, nonzeros)
        except Outgrown as found:
            columns = found.columns
            file.seek(0)
            file.truncate()


def _write(file: BinaryIO, stream: Stream, columns: Columns, nonzeros: int) -> None:
    made_from, pa = identity(stream), pyarrow()
    groups = regrouped(stream, nonzeros)
    head = list(islice(groups, 1))
    for batch in head:
        columns = columns.holding(batch)
    unknown = secrets.token_hex(_TOTALS // 2)  # what the totals are put in place of
    schema = _schema(columns, made_from, unknown)
    writer = pa.ipc.new_file(pa.PythonFile(file, "w"), schema)
    blocks: list[Block] = []
    width = 0
    for batch in chain(head, groups):
        if columns.holding(batch) != columns:
            raise Outgrown(columns.holding(batch))
        writer.write_batch(_record_batch(batch, columns, schema))
        blocks.append(_block(file, blocks[-1].stop if blocks else _head(file), batch, schema))
        width = max(width, batch.n_features)
    writer.close()
    _finish(file, Contents(made_from, columns.numbers, width, blocks), unknown.encode())


def _schema(columns: Columns, made_from: dict[str, Any], totals: str) -> Any:
    pa = pyarrow()
    number, value = pa.type_for_alias(columns.numbers), pa.type_for_alias(made_from["dtype"])
    label = pa.int32() if "classes" in made_from else pa.int8()
    fields = [("label", label), ("indices", pa.list_(number)), ("values", pa.list_(value))]
    if columns.weighted:
        fields.append(("weight", pa.float64()))
    about = json.dumps({"version": VERSION, **made_from})
    return pa.schema(fields, metadata={"thinstream": about, "thinstream.totals": totals})


def _record_batch(batch: Batch, columns: Columns, schema: Any) -> Any:
    pa, n = pyarrow(), len(batch)
    offsets = pa.array(batch.indptr.astype(np.int32))
    arrays = [
        pa.nulls(n, schema.field("label").type) if batch.y is None else pa.array(batch.y),
        pa.ListArray.from_arrays(offsets, pa.array(batch.indices[: batch.nnz].astype(columns.numbers, copy=False))),
        pa.ListArray.from_arrays(offsets, pa.array(batch.values[: batch.nnz])),
    ]
    if columns.weighted:
        arrays.append(pa.array(np.ones(n) if batch.weights is None else batch.weights))
    return pa.record_batch(arrays, schema=schema)


def _head(file: BinaryIO) -> int:
    """Bytes before the first record batch: magic (8), mark and length of the schema message (8), the message."""
    return 16 + int.from_bytes(_read(file, 12, 16), "little")


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
    """A piece of the file; the place of writing stays."""
    here = file.tell()
    file.seek(start)
    found = file.read(stop - start)
    file.seek(here)
    return found


def _block(file: BinaryIO, start: int, batch: Batch, schema: Any) -> Block:
    """The block just written, read back as other tools do to see where its buffers are."""
    pa, stop = pyarrow(), file.tell()
    raw = _read(file, start, stop)
    data = pa.py_buffer(raw)
    seen = pa.ipc.read_record_batch(pa.ipc.read_message(data), schema)

    def place(column: int, buffer: int) -> int:
        found = seen.column(column).buffers()[buffer]
        # a child without values may come without a buffer: any place will do
        return 0 if found is None or found.size == 0 else int(found.address - data.address)

    return Block(
        start=start,
        stop=stop,
        rows=len(batch),
        nnz=batch.nnz,
        label=-1 if batch.y is None else place(0, 1),
        indptr=place(1, 1),
        indices=place(1, 3),
        values=place(2, 3),
        weight=place(3, 1) if seen.num_columns > 3 else -1,
        largest=batch.largest,
        checksum=xxh3_64_intdigest(raw),
        position=None if batch.position is None else Position(*map(int, batch.position)),
    )


def _finish(file: BinaryIO, contents: Contents, unknown: bytes) -> None:
    """Writes the totals into the two copies of the schema, and the section before the footer."""
    size = file.tell()
    first, last = _head(file), contents.blocks[-1].stop if contents.blocks else _head(file)
    footer_at = size - 10 - int.from_bytes(_read(file, size - 10, size - 6), "little")
    totals = {
        "rows": sum(block.rows for block in contents.blocks),
        "width": contents.width,
        "largest": max((block.largest for block in contents.blocks), default=0.0),
    }
    known = json.dumps(totals).ljust(_TOTALS).encode()
    head = _read(file, 0, first).replace(unknown, known)
    footer = _read(file, footer_at, size).replace(unknown, known)
    file.seek(last)
    file.write(packed(contents, head, _read(file, last, footer_at), footer))
    file.seek(0)
    file.write(head)


def regrouped(stream: Stream, nonzeros: int) -> Iterator[Batch]:
    """The rows in checked batches of about so many non-zeros; one that ends where the stream's did has its position."""
    held: list[Batch] = []
    cost = 0
    for batch in stream.batches():
        if batch.values.dtype != stream.dtype:
            raise InvalidInputError(f"a stream of {stream.dtype} gave a batch of {batch.values.dtype}")
        for piece in _cut(replace(batch.check(), position=batch.position), nonzeros):
            # labels are there for all rows of a block, or for none
            if held and (cost + _cost(piece) > nonzeros or (held[0].y is None) != (piece.y is None)):
                yield Batch.concatenate(held)
                held, cost = [], 0
            held.append(piece)
            cost += _cost(piece)
    if held:
        yield Batch.concatenate(held)


def _cost(batch: Batch) -> int:
    return batch.nnz + len(batch)  # rows count, too: they may be empty


def _cut(batch: Batch, nonzeros: int) -> Iterator[Batch]:
    """Pieces of at most so many non-zeros (and rows), or of one row; the last has the position."""
    while _cost(batch) > nonzeros and len(batch) > 1:
        costs = batch.indptr[1:] + np.arange(1, len(batch) + 1)
        rows = min(max(int(np.searchsorted(costs, nonzeros, side="right")), 1), len(batch) - 1)
        yield batch.until(rows)
        batch = batch.after(rows)
    if len(batch):
        yield batch
