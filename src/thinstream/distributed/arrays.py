"""Rows that are in memory as a source: each worker is sent a stretch of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch, Position
from thinstream.streams.stream import START

#: Rows of a batch.
ROWS = 1 << 16


@dataclass(frozen=True)
class BatchStream:
    """A batch as a stream."""

    batch: Batch
    classes: tuple[Any, ...] | None = None
    names: None = None
    skipped: None = None
    feature_space: dict[str, Any] = field(default_factory=dict)

    unit = "rows"

    @property
    def dtype(self) -> str:
        """Of the values."""
        return str(self.batch.values.dtype.name)

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.batch)

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.row

    def fingerprint(self) -> dict[str, Any]:
        """Sizes, and a checksum of all values."""
        batch = self.batch
        return {
            "rows": len(batch),
            "features": batch.n_features,
            "checksum": xxh3_64_intdigest(batch.values[: batch.nnz].tobytes()),
        }

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on."""
        for row in range(start.offset, len(self.batch), ROWS):
            stop = min(row + ROWS, len(self.batch))
            rows = self.batch.until(stop).after(row)
            yield replace(rows, position=Position(offset=stop, row=stop), first_row=row)


@dataclass(frozen=True)
class BatchShard:
    """Rows of one worker."""

    batch: Batch
    classes: tuple[Any, ...] | None

    def open(self) -> BatchStream:
        """The rows."""
        return BatchStream(self.batch, self.classes)


@dataclass(frozen=True)
class BatchSource:
    """A batch that is in memory.

    >>> import numpy as np
    >>> rows = Batch.of(np.arange(6), np.zeros(5, np.int32), np.ones(5), 1, y=np.ones(5, np.int8))
    >>> [len(shard.batch) for shard in BatchSource(rows).shards(2)]
    [2, 3]
    """

    batch: Batch
    classes: tuple[Any, ...] | None = None
    feature_space: dict[str, Any] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """Of the values."""
        return str(self.batch.values.dtype.name)

    def fingerprint(self) -> dict[str, Any]:
        """Sizes, and a checksum of all values."""
        return BatchStream(self.batch).fingerprint()

    def shards(self, workers: int) -> list[BatchShard]:
        """As many rows for each worker, up to one."""
        n = len(self.batch)
        cuts = [n * k // workers for k in range(workers + 1)]
        parts = [self.batch.until(b).after(a) for a, b in pairwise(cuts)]
        return [BatchShard(part, self.classes) for part in parts]
