"""A binary cache of a stream: parsed once, read back at the speed of memory, every pass the same bits.

The file is a plain Arrow IPC file that pandas, polars or pyarrow can open: columns ``label`` (int8, null where there is
none), ``indices`` and ``values`` (lists), and ``weight`` where the source has weights. Writing it needs pyarrow,
reading it does not.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from thinstream.atomic import replacing
from thinstream.batch import Batch, Position, plain
from thinstream.errors import CacheError, InvalidInputError
from thinstream.streams.cache.layout import AGAIN, Block, contents_of, identity
from thinstream.streams.cache.writing import write_file
from thinstream.streams.options import OPTIONS, as_tuples, spelling
from thinstream.streams.stream import START, Skipped, Stream

#: Non-zeros (and rows) of a record batch.
BLOCK = 1 << 20


class Cache:
    """A cache file as a stream. Batches are views of the file, which the system reads as they are used.

    Each block is verified when it is read for the first time; what has been used is given back to the system, so that
    memory in use stays that of a block or two.

    Parameters
    ----------
    path : path
        A file made by `write_cache`. Anything else, or a damaged one, raises `CacheError`.

    Attributes
    ----------
    rows, nnz, n_features : int
        Size of the whole.
    largest : float
        No |value| is above it.
    source : dict
        The fingerprint of the stream it was made from.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from thinstream.streams.tables.memory import from_memory
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
                raise CacheError(f"{self.path} is empty, not a cache of thinstream; {AGAIN}") from None
        self._data: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self._contents = contents = contents_of(self._data, self.path)
        self._numbers = np.dtype(contents.numbers)
        self._largest: dict[int, float] = {}  # of the blocks that have been verified
        self._starts = np.cumsum([0, *(block.rows for block in contents.blocks)]).tolist()  # row numbers
        self.identity = contents.identity
        self.source: dict[str, Any] = self.identity["fingerprint"]
        self.feature_space: dict[str, Any] = self.identity["space"]
        self.dtype: str = self.identity["dtype"]
        self.normalise: Any = self.identity["normalise"]
        #: Those of more than two, whose numbers are the labels.
        self.classes = tuple(self.identity["classes"]) if "classes" in self.identity else None
        self.n_features = contents.width
        self.rows: int = self._starts[-1]
        self.size = self.rows
        self.nnz = sum(block.nnz for block in contents.blocks)
        self.largest = max((block.largest for block in contents.blocks), default=0.0)

    @property
    def remembered(self) -> dict[str, Any]:
        """What a model file keeps of how the source was read."""
        names = [name for name, option in OPTIONS.items() if spelling(option).remembered and name in self.source]
        return {name: self.source[name] for name in names if as_tuples(self.source[name]) != OPTIONS[name].default}

    @property
    def missing(self) -> str | None:
        """What cells that say nothing were, where there were cells."""
        return self.source.get("missing")

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.row

    def fingerprint(self) -> dict[str, Any]:
        """Name, size and the checksum of the description, which holds those of all blocks."""
        checksum = f"{self._contents.checksum:016x}"
        return {"kind": "cache", "name": self.path.name, "size": len(self._data), "checksum": checksum}

    def source_position(self, row: int) -> Position | None:
        """The last position known in the original source at or before a row; None if there is none but its start."""
        ends = zip(self._starts[1:], self._contents.blocks, strict=True)
        known = [block.position for end, block in ends if end <= row and block.position is not None]
        return known[-1] if known else None

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start.row`` on, any row, block by block."""
        if not 0 <= start.row <= self.rows:
            raise InvalidInputError(f"{self.path} has {self.rows} rows, cannot go on from row {start.row}")
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
                # only gives pages back: arrays still held are simply read from the file again
                self._advise("MADV_DONTNEED", blocks[number])

    def _batch(self, number: int) -> Batch:
        block, first, end = self._contents.blocks[number], self._starts[number], self._starts[number + 1]
        labelled, weighted = block.label >= 0, block.weight >= 0
        kind = np.int8 if self.classes is None else np.int32
        batch = Batch(
            self._array(block, block.indptr, block.rows + 1, np.dtype(np.int32)),
            self._array(block, block.indices, block.nnz, self._numbers),
            self._array(block, block.values, block.nnz, np.dtype(self.dtype)),
            self.n_features,
            self._array(block, block.label, block.rows, np.dtype(kind)) if labelled else None,
            self._array(block, block.weight, block.rows, np.dtype(np.float64)) if weighted else None,
            first_row=first,
            position=Position(offset=end, row=end),
        )
        if number not in self._largest:
            sound = xxh3_64_intdigest(self._data[block.start : block.stop].data) == block.checksum
            largest = _largest_value(batch, self.classes) if sound else None
            if largest is None:
                raise CacheError(f"{self.path} is damaged in rows {first} to {end - 1}; {AGAIN}")
            self._largest[number] = largest
        return replace(batch, largest=self._largest[number])

    def _array(self, block: Block, place: int, length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return plain(np.frombuffer(self._map, dtype, length, block.start + place))

    def _advise(self, advice: str, block: Block) -> None:
        if hasattr(self._map, "madvise") and hasattr(mmap, advice):
            start = block.start - block.start % mmap.PAGESIZE
            self._map.madvise(getattr(mmap, advice), start, block.stop - start)


def _largest_value(rows: Batch, classes: tuple[Any, ...] | None) -> float | None:
    """The largest |value|; None if the rows are not what a batch promises: a checksum can be forged."""
    y, weights = rows.y, rows.weights
    if y is not None and not (np.abs(y) == 1 if classes is None else (y >= 0) & (y < len(classes))).all():
        return None
    if weights is not None and not ((weights >= 0) & (weights < np.inf)).all():
        return None
    try:
        found = Batch.of(rows.indptr, rows.indices, rows.values, rows.n_features)
    except InvalidInputError:
        return None
    if found.indices.ctypes.data != rows.indices.ctypes.data:  # a tidied copy: zeros are no harm
        ends = rows.indptr[1:-1][np.diff(rows.indptr[1:]) > 0]
        rising = np.diff(rows.indices) > 0
        rising[ends[ends > 0] - 1] = True
        if not rising.all():
            return None
    return found.largest


def write_cache(stream: Stream, path: str | os.PathLike[str], *, nonzeros: int = BLOCK) -> Cache:
    """Writes a cache of the stream's rows, in blocks of about so many non-zeros, and opens it.

    The file appears whole, or an old one of that name stays. No more than a block or two is in memory. Should a later
    batch need 64-bit feature numbers or weights where the first did not, the stream is read once more from its start.
    A new file is open to nobody to whom a file of the stream is closed.
    """
    sources = [file for file in getattr(stream, "files", ()) if os.path.isfile(file)]
    with replacing(path, sources) as new, open(new, "r+b") as file:
        write_file(file, stream, nonzeros)
    return Cache(path)


def is_stale(path: str | os.PathLike[str], stream: Stream) -> bool:
    """Whether a cache must be written (again): it is missing, unreadable, or of another source, space or precision."""
    try:
        return Cache(path).identity != identity(stream)
    except (OSError, CacheError):
        return True


class CachedStream:
    """A stream read from its cache, which is written when it is missing, out of date or damaged.

    Parameters
    ----------
    source : Stream
        What the cache is made from.
    files : list of str
        Its files; the cache stands beside the first.

    """

    def __init__(self, source: Stream, files: list[str]) -> None:
        self._source, self.path = source, Path(f"{files[0]}.cache")
        self._cache = write_cache(source, self.path) if is_stale(self.path, source) else Cache(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels of the source."""
        return self._source.classes

    @property
    def options(self) -> Any:
        """How the source is read."""
        return getattr(self._source, "options", None)

    @property
    def skipped(self) -> Skipped | None:
        """Bad records that were left out when the cache was written, if it was now."""
        return self._source.skipped

    def fingerprint(self) -> dict[str, Any]:
        """That of the source: the same cache can be written again. Positions are not those of the source, though."""
        return {**self._source.fingerprint(), "cache": True}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on; where the cache turns out to be damaged, it is written anew."""
        row = start.row
        try:
            for batch in self._cache.batches(start):
                yield batch
                row += len(batch)
        except CacheError:
            self._cache = write_cache(self._source, self.path)
            yield from self._cache.batches(Position(offset=row, row=row))
