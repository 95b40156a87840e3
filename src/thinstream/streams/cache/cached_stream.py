"""A source by way of the cache that is kept beside it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinstream.batch import Batch, Position
from thinstream.errors import CacheError
from thinstream.streams.cache.mapped import Cache, is_stale, write_cache
from thinstream.streams.stream import START, Skipped, Stream


class CachedStream:
    """A stream read from its cache, which is written when it is missing, out of date or damaged.

    Parameters
    ----------
    source : Stream
        What the cache is made from.
    files : list of str
        Its files; a cache older than one of them is out of date. It stands beside the first.

    """

    def __init__(self, source: Stream, files: list[str]) -> None:
        self._source, self.path = source, Path(f"{files[0]}.cache")
        newest = max(os.stat(file).st_mtime_ns for file in files)
        if is_stale(self.path, source) or self.path.stat().st_mtime_ns < newest:
            self._cache = write_cache(source, self.path)
        else:
            self._cache = Cache(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels of the source."""
        return self._source.classes

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
