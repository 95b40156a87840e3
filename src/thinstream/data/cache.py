"""The binary cache: its layout, how it is written next to a file, and how it is mapped into memory."""

import json
import mmap
import os
import secrets
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64, xxh3_64_intdigest

from thinstream.batch import Batch, Position, plain
from thinstream.data.options import OPTIONS, as_tuples, spelling
from thinstream.data.stream import START, Skipped, Stream
from thinstream.data.tables.arrow import pyarrow
from thinstream.errors import CacheError, InvalidInputError
from thinstream.files import replacing

# The layout of a cache file, and the verification of everything in it except rows.
#
# A cache is an Arrow IPC file with an extra section before the footer. Readers of Arrow ignore this section, because
# they find record batches through the footer at the end. ::
#
#     ARROW1 · schema | record batch | … | record batch | end mark · section · trailer · footer · its length · ARROW1
#     0 ─────── first ─────────────────────────────── last ──────────────────────────────────────────────── size
#
# The section (JSON) has the positions of the buffers of each record batch and a checksum of its bytes. The trailer has
# a checksum of everything before ``first`` and after ``last``. So every byte is covered by a checksum, and verified
# before use. Checksums are xxh3, at 4.8 to 7.4 GB/s; zlib's crc32, at 1.0 to 1.3 GB/s, is slower than learning.

#: The version of the cache format.
VERSION = 1
MAGIC = b"ARROW1"
_NAME = b"thinstrm"
_TRAILER = struct.Struct("<8sQQQQQ")  # name, version, first, last, start of the section, checksum
_END = struct.Struct("<i6s")  # length of the footer, magic
AGAIN = "Write it again with thinstream convert or write_cache."


class Block(NamedTuple):
    """A record batch: its position, the offsets of its buffers, and its sizes."""

    start: int
    stop: int
    rows: int
    nnz: int
    label: int  # offsets of buffers from ``start``; −1 for none
    indptr: int
    indices: int
    values: int
    weight: int
    largest: float
    checksum: int
    position: Position | None  # in the source, if the block ends where a batch of the source ends


class Contents(NamedTuple):
    """The description of a cache."""

    identity: dict[str, Any]  # see `identity`
    numbers: str  # dtype of the feature indices, "int32" or "int64"
    width: int
    blocks: list[Block]
    checksum: int = 0  # of all of this


def identity(stream: Any) -> dict[str, Any]:
    """Return the properties of a stream that must match its cache: source, features, precision, scaling and classes."""
    properties = {
        "fingerprint": stream.fingerprint(),
        "space": stream.feature_space,
        "dtype": stream.dtype,
        "normalise": getattr(stream, "normalise", None),
    }
    if len(stream.classes or ()) > 2:
        properties["classes"] = list(stream.classes)
    as_stored: dict[str, Any] = json.loads(json.dumps(properties))  # tuples become lists
    return as_stored


def packed(contents: Contents, head: bytes, end_mark: bytes, footer: bytes) -> bytes:
    """Return the bytes after the last block: end mark, section, trailer, and the footer with its length and magic."""
    first, last = len(head), contents.blocks[-1].stop if contents.blocks else len(head)
    section = json.dumps(contents._asdict(), separators=(",", ":")).encode()
    section += b" " * (-len(section) % 8)
    trailer = (_NAME, VERSION, first, last, last + len(end_mark))
    sealed = end_mark + section + _TRAILER.pack(*trailer, 0)
    total = _metadata_checksum(head, sealed, footer)
    return end_mark + section + _TRAILER.pack(*trailer, total) + footer


def contents_of(data: NDArray[np.uint8], path: Path) -> Contents:
    """Return the verified contents of a mapped file; raise `CacheError` if anything is wrong."""
    size = len(data)
    if size < _END.size or data[:6].tobytes() != MAGIC:
        raise CacheError(f"{path} is not a thinstream cache. {AGAIN}")
    length, magic = _END.unpack(data[-_END.size :].tobytes())
    trailer_at = size - _END.size - length - _TRAILER.size
    if magic != MAGIC or length < 0 or trailer_at < 0:
        raise CacheError(f"{path} is truncated or damaged at its end. {AGAIN}")
    footer_at = trailer_at + _TRAILER.size
    name, version, first, last, section_at, expected = _TRAILER.unpack(data[trailer_at:footer_at].tobytes())
    if name != _NAME:
        raise CacheError(f"{path} is an Arrow file but not a thinstream cache, or it is damaged. {AGAIN}")
    if version != VERSION:
        raise CacheError(f"{path} has cache format version {version}, but only version {VERSION} is supported. {AGAIN}")
    if not first <= last <= section_at <= trailer_at:
        raise CacheError(f"{path} is damaged: its trailer is invalid. {AGAIN}")
    sealed = bytearray(data[last:footer_at].tobytes())
    sealed[-8:] = bytes(8)
    if _metadata_checksum(data[:first].tobytes(), bytes(sealed), data[footer_at:].tobytes()) != expected:
        raise CacheError(f"{path} is damaged: its description is invalid. {AGAIN}")
    try:
        section = json.loads(data[section_at:trailer_at].tobytes())
        blocks = [Block._make([*block, None if at is None else Position(*at)]) for *block, at in section["blocks"]]
        contents = Contents(**{**section, "blocks": blocks, "checksum": expected})
        sound = _is_sound(contents, first, last)
    except (ValueError, TypeError, KeyError, AttributeError):
        sound = False
    if not sound:
        raise CacheError(f"{path} is damaged: its description is invalid. {AGAIN}")
    return contents


def _is_sound(contents: Contents, first: int, last: int) -> bool:
    """Return whether the description is consistent: valid types, and every buffer within its block."""
    made = contents.identity
    sizes = {"int32": 4, "int64": 8, "float32": 4, "float64": 8}
    label, number, value = 4 if "classes" in made else 1, sizes[contents.numbers], sizes[made["dtype"]]
    valid = isinstance(made["fingerprint"], dict) and isinstance(made["space"], dict) and "normalise" in made
    if not valid or not 0 <= contents.width < 2**63 or len(made.get("classes", "abc")) < 3:
        return False
    for block in contents.blocks:
        room = block.stop - block.start
        buffers = [
            (block.indptr, block.rows + 1, 4),
            (block.indices, block.nnz, number),
            (block.values, block.nnz, value),
            *[(block.label, block.rows, label)] * (block.label != -1),
            *[(block.weight, block.rows, 8)] * (block.weight != -1),
        ]
        if not all(type(value) is int and value >= -1 for value in block[:9]):
            return False
        if not first <= block.start <= block.stop <= last:
            return False
        for offset, length, size in buffers:
            if length < 0 or not 0 <= offset <= room - length * size or (block.start + offset) % size:
                return False
    return True


def _metadata_checksum(head: bytes, sealed: bytes, footer: bytes) -> int:
    return xxh3_64(head + sealed + footer).intdigest()


# Write a cache file: record batches with pyarrow, then the section.

_TOTALS = 96  # bytes reserved in the schema for totals, which are known last


class Columns(NamedTuple):
    """The variable parts of the schema, which is written before the rows."""

    numbers: str = "int32"
    weighted: bool = False

    def holding(self, batch: Batch) -> "Columns":
        """Return columns that can store this batch."""
        wide = self.numbers == "int64" or batch.n_features > 2**31
        return Columns("int64" if wide else "int32", self.weighted or batch.weights is not None)


class Outgrown(Exception):
    """Raised for a batch that needs wider columns than the current ones."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns


def write_file(file: BinaryIO, stream: Stream, nonzeros: int) -> None:
    """Write a new file; start again if a later batch needs wider columns."""
    columns = Columns()
    while True:
        try:
            return _write(file, stream, columns, nonzeros)
        except Outgrown as outgrown:
            columns = outgrown.columns
            file.seek(0)
            file.truncate()


def _write(file: BinaryIO, stream: Stream, columns: Columns, nonzeros: int) -> None:
    made_from, pa = identity(stream), pyarrow()
    groups = regrouped(stream, nonzeros)
    head = list(islice(groups, 1))
    for batch in head:
        columns = columns.holding(batch)
    unknown = secrets.token_hex(_TOTALS // 2)  # placeholder for the totals
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
    """Return the bytes before the first record batch: magic (8), mark and length of the message (8), schema message."""
    return 16 + int.from_bytes(_read(file, 12, 16), "little")


def _read(file: BinaryIO, start: int, stop: int) -> bytes:
    """Read a part of the file without changing the write position."""
    position = file.tell()
    file.seek(start)
    part = file.read(stop - start)
    file.seek(position)
    return part


def _block(file: BinaryIO, start: int, batch: Batch, schema: Any) -> Block:
    """Describe the block just written, reading it back as other tools do to find its buffers."""
    pa, stop = pyarrow(), file.tell()
    raw = _read(file, start, stop)
    data = pa.py_buffer(raw)
    stored = pa.ipc.read_record_batch(pa.ipc.read_message(data), schema)

    def offset(column: int, index: int) -> int:
        buffer = stored.column(column).buffers()[index]
        # a list without values may have no buffer, so any offset is right
        return 0 if buffer is None or buffer.size == 0 else int(buffer.address - data.address)

    return Block(
        start=start,
        stop=stop,
        rows=len(batch),
        nnz=batch.nnz,
        label=-1 if batch.y is None else offset(0, 1),
        indptr=offset(1, 1),
        indices=offset(1, 3),
        values=offset(2, 3),
        weight=offset(3, 1) if stored.num_columns > 3 else -1,
        largest=batch.largest,
        checksum=xxh3_64_intdigest(raw),
        position=None if batch.position is None else Position(*map(int, batch.position)),
    )


def _finish(file: BinaryIO, contents: Contents, unknown: bytes) -> None:
    """Write the totals into both copies of the schema, and the section before the footer."""
    size = file.tell()
    first, last = _head(file), contents.blocks[-1].stop if contents.blocks else _head(file)
    footer_at = size - 10 - int.from_bytes(_read(file, size - 10, size - 6), "little")
    totals = {
        "rows": sum(block.rows for block in contents.blocks),
        "width": contents.width,
        "largest": max((block.largest for block in contents.blocks), default=0.0),
    }
    text = json.dumps(totals).ljust(_TOTALS).encode()
    head = _read(file, 0, first).replace(unknown, text)
    footer = _read(file, footer_at, size).replace(unknown, text)
    file.seek(last)
    file.write(packed(contents, head, _read(file, last, footer_at), footer))
    file.seek(0)
    file.write(head)


def regrouped(stream: Stream, nonzeros: int) -> Iterator[Batch]:
    """Yield checked batches of about N non-zeros; a batch that ends where one of the stream ended has its position."""
    held: list[Batch] = []
    cost = 0
    for batch in stream.batches():
        if batch.values.dtype != stream.dtype:
            raise InvalidInputError(f"a stream of dtype {stream.dtype} returned a batch of dtype {batch.values.dtype}")
        for piece in _cut(replace(batch.check(), position=batch.position), nonzeros):
            # either all rows of a block have labels, or none
            if held and (cost + _cost(piece) > nonzeros or (held[0].y is None) != (piece.y is None)):
                yield Batch.concatenate(held)
                held, cost = [], 0
            held.append(piece)
            cost += _cost(piece)
    if held:
        yield Batch.concatenate(held)


def _cost(batch: Batch) -> int:
    return batch.nnz + len(batch)  # rows also count, because they may be empty


def _cut(batch: Batch, nonzeros: int) -> Iterator[Batch]:
    """Yield parts of at most N non-zeros and rows, or of one row; the last part has the position."""
    while _cost(batch) > nonzeros and len(batch) > 1:
        costs = batch.indptr[1:] + np.arange(1, len(batch) + 1)
        rows = min(max(int(np.searchsorted(costs, nonzeros, side="right")), 1), len(batch) - 1)
        yield batch.until(rows)
        batch = batch.after(rows)
    if len(batch):
        yield batch


# A binary cache of a stream: parsed once, read at the speed of memory, and bit-identical in every pass.
#
# The file is an Arrow IPC file that pandas, polars or pyarrow can open. Its columns are ``label`` (int8, null if
# missing), ``indices`` and ``values`` (lists), and ``weight`` if the source has weights. Writing it needs pyarrow,
# reading does not.

#: The default number of non-zeros and rows of a record batch.
BLOCK = 1 << 20


class Cache:
    """A cache file as a stream. Batches are views of the mapped file.

    Each block is verified when it is read for the first time. Pages that were used are released, so that only a block
    or two are in memory.

    Parameters
    ----------
    path : path
        A file written by `write_cache`. Any other file, or a damaged one, raises `CacheError`.

    Attributes
    ----------
    rows, nnz, n_features : int
        Total numbers of rows, non-zeros and features.
    largest : float
        An upper bound of all |values|.
    source : dict
        The fingerprint of the source stream.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from thinstream.data.in_memory import from_memory
    >>> folder = tempfile.TemporaryDirectory()
    >>> cache = write_cache(from_memory(np.eye(3), [1, -1, 1]), pathlib.Path(folder.name) / "rows.arrow")
    >>> cache.rows, cache.n_features, [batch.y.tolist() for batch in cache.batches()]
    (3, 3, [[1, -1, 1]])
    >>> folder.cleanup()

    """

    unit = "rows"
    names = skipped = None

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with open(self.path, "rb") as file:
            try:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # an empty file cannot be mapped
                raise CacheError(f"{self.path} is empty and not a thinstream cache. {AGAIN}") from None
        self._data: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._contents = contents = contents_of(self._data, self.path)
        self._numbers = np.dtype(contents.numbers)
        self._largest: dict[int, float] = {}  # of verified blocks
        self._starts = np.cumsum([0, *(block.rows for block in contents.blocks)]).tolist()  # row numbers
        self.identity = contents.identity
        self.source: dict[str, Any] = self.identity["fingerprint"]
        self.feature_space: dict[str, Any] = self.identity["space"]
        self.dtype: str = self.identity["dtype"]
        self.normalise: Any = self.identity["normalise"]
        #: The classes, if there are more than two.
        self.classes = tuple(self.identity["classes"]) if "classes" in self.identity else None
        self.n_features = contents.width
        self.rows: int = self._starts[-1]
        self.size = self.rows
        self.nnz = sum(block.nnz for block in contents.blocks)
        self.largest = max((block.largest for block in contents.blocks), default=0.0)

    @property
    def remembered(self) -> dict[str, Any]:
        """The reading options that a model file stores."""
        names = [name for name, option in OPTIONS.items() if spelling(option).remembered and name in self.source]
        return {name: self.source[name] for name in names if as_tuples(self.source[name]) != OPTIONS[name].default}

    @property
    def missing(self) -> str | None:
        """How missing cells were treated, if there were cells."""
        return self.source.get("missing")

    def done(self, position: Position) -> int:
        return position.row

    def fingerprint(self) -> dict[str, Any]:
        """Return the name, the size and the checksum of the description, which contains those of all blocks."""
        checksum = f"{self._contents.checksum:016x}"
        return {"kind": "cache", "name": self.path.name, "size": len(self._data), "checksum": checksum}

    def source_position(self, row: int) -> Position | None:
        """Return the last known position of the source at or before a row; None if there is none but the start."""
        ends = zip(self._starts[1:], self._contents.blocks, strict=True)
        positions = [block.position for end, block in ends if end <= row and block.position is not None]
        return positions[-1] if positions else None

    def batches(self, start: Position = START) -> Iterator[Batch]:
        if not 0 <= start.row <= self.rows:
            raise InvalidInputError(
                f"{self.path} has {self.rows:,} rows, so reading cannot resume at row {start.row:,}"
            )
        return self._batches(start.row)

    def _batches(self, row: int) -> Iterator[Batch]:
        blocks = self._contents.blocks
        for number in range(bisect_right(self._starts, row) - 1, len(blocks)):
            if number + 1 < len(blocks):
                self._advise("MADV_WILLNEED", blocks[number + 1])
            batch = self._batch(number)
            try:
                yield batch.after(row - batch.first_row) if row > batch.first_row else batch
            finally:
                # only releases pages: arrays still in use are read from the file again
                self._advise("MADV_DONTNEED", blocks[number])

    def _batch(self, number: int) -> Batch:
        block, first, end = self._contents.blocks[number], self._starts[number], self._starts[number + 1]
        labelled, weighted = block.label >= 0, block.weight >= 0
        label_dtype = np.int8 if self.classes is None else np.int32
        batch = Batch(
            self._array(block, block.indptr, block.rows + 1, np.dtype(np.int32)),
            self._array(block, block.indices, block.nnz, self._numbers),
            self._array(block, block.values, block.nnz, np.dtype(self.dtype)),
            self.n_features,
            self._array(block, block.label, block.rows, np.dtype(label_dtype)) if labelled else None,
            self._array(block, block.weight, block.rows, np.dtype(np.float64)) if weighted else None,
            first_row=first,
            position=Position(offset=end, row=end),
        )
        if number not in self._largest:
            sound = xxh3_64_intdigest(self._data[block.start : block.stop].data) == block.checksum
            largest = _largest_value(batch, self.classes) if sound else None
            if largest is None:
                raise CacheError(f"{self.path} is damaged in rows {first} to {end - 1}. {AGAIN}")
            self._largest[number] = largest
        return replace(batch, largest=self._largest[number])

    def _array(self, block: Block, offset: int, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return plain(np.frombuffer(self._map, dtype, length, block.start + offset))

    def _advise(self, advice: str, block: Block) -> None:
        if hasattr(self._map, "madvise") and hasattr(mmap, advice):
            start = block.start - block.start % mmap.PAGESIZE
            self._map.madvise(getattr(mmap, advice), start, block.stop - start)


def _largest_value(rows: Batch, classes: tuple[Any, ...] | None) -> float | None:
    """Return the largest |value|; None if the rows are not a valid batch, as a checksum can be forged."""
    y, weights = rows.y, rows.weights
    if y is not None and not (np.abs(y) == 1 if classes is None else (y >= 0) & (y < len(classes))).all():
        return None
    if weights is not None and not ((weights >= 0) & (weights < np.inf)).all():
        return None
    try:
        checked = Batch.of(rows.indptr, rows.indices, rows.values, rows.n_features)
    except InvalidInputError:
        return None
    if checked.indices.ctypes.data != rows.indices.ctypes.data:  # a cleaned copy: zeros are harmless
        ends = rows.indptr[1:-1][np.diff(rows.indptr[1:]) > 0]
        rising = np.diff(rows.indices) > 0
        rising[ends[ends > 0] - 1] = True
        if not rising.all():
            return None
    return checked.largest


def write_cache(stream: Stream, path: str | os.PathLike[str], *, nonzeros: int = BLOCK) -> Cache:
    """Write a cache of the stream's rows in blocks of about N non-zeros, and open it.

    The file appears when it is complete; until then, an older file stays. Only a block or two are in memory. If a later
    batch needs 64-bit feature indices or weights and the first did not, the stream is read again from its start.
    A new file gets no more read permissions than the files of the stream have.
    """
    sources = [file for file in getattr(stream, "files", ()) if os.path.isfile(file)]
    with replacing(path, sources) as new, open(new, "r+b") as file:
        write_file(file, stream, nonzeros)
    return Cache(path)


def is_stale(path: str | os.PathLike[str], stream: Stream) -> bool:
    """Return whether a cache is missing, unreadable, or of another source, feature space or precision."""
    try:
        return Cache(path).identity != identity(stream)
    except (OSError, CacheError):
        return True


class CachedStream:
    """A stream read from its cache, which is written if it is missing, outdated or damaged.

    Parameters
    ----------
    source : Stream
        The stream to cache.
    files : list of str
        Its files. The cache is saved next to the first.

    """

    def __init__(self, source: Stream, files: list[str]) -> None:
        self._source, self.path = source, Path(f"{files[0]}.cache")
        self._cache = write_cache(source, self.path) if is_stale(self.path, source) else Cache(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        return self._source.classes

    @property
    def options(self) -> Any:
        """The reading options of the source."""
        return getattr(self._source, "options", None)

    @property
    def skipped(self) -> Skipped | None:
        """Bad records that were skipped, if the cache was written just now."""
        return self._source.skipped

    def fingerprint(self) -> dict[str, Any]:
        """Return the fingerprint of the source with a mark, because positions are not those of the source."""
        return {**self._source.fingerprint(), "cache": True}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield the rows from ``start`` on; if the cache turns out to be damaged, write it again."""
        row = start.row
        try:
            for batch in self._cache.batches(start):
                yield batch
                row += len(batch)
        except CacheError:
            self._cache = write_cache(self._source, self.path)
            yield from self._cache.batches(Position(offset=row, row=row))
