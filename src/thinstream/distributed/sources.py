"""What each worker reads: files, parts of files, or rows that are in memory.

Plain text is cut into as many parts of equal size as there are workers, at ends of lines, whatever the number of files.
Compressed and columnar files go whole to one worker each, dealt out by size, the largest first.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError
from thinstream.streams.formats import format_of, formats
from thinstream.streams.opening import look_at, open_stream, options_of
from thinstream.streams.reading import Span, TextStream
from thinstream.streams.sources import is_mappable, resolve
from thinstream.streams.stream import START, Stream
from thinstream.streams.text.libsvm import begins_at_zero

#: Rows of a batch of rows in memory.
ROWS = 1 << 16


class Shard(Protocol):
    """What one worker reads; it is sent there, and opened there."""

    def open(self) -> Stream:
        """The rows, from any position on."""


class Source(Protocol):
    """What all workers read together."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, where they were told; see `Stream`."""

    @property
    def dtype(self) -> str:
        """Of the values."""

    @property
    def feature_space(self) -> dict[str, Any]:
        """What feature numbers mean; see `Stream`."""

    def shards(self, workers: int) -> Sequence[Shard]:
        """A shard for each worker; of one worker it is the whole stream, in order."""

    def fingerprint(self) -> dict[str, Any]:
        """What tells this source from another, as JSON has it."""


@dataclass(frozen=True)
class FileShard:
    """Files, or spans of them."""

    files: tuple[str, ...]
    format: str
    options: Mapping[str, Any]
    spans: tuple[Span, ...] = ()

    def open(self) -> Stream:
        """The rows."""
        if not self.files:  # nothing was left to read
            values = np.empty(0, self.options.get("dtype", "f4"))
            nothing = Batch(np.zeros(1, np.int64), np.empty(0, np.int32), values, 0)
            return BatchSource(nothing, self.options.get("classes"))
        stream = open_stream(list(self.files), self.format, **self.options)
        return stream.within(self.spans) if self.spans and isinstance(stream, TextStream) else stream


class FileSource:
    r"""Files that every worker can open under the same names.

    Parameters
    ----------
    paths, format, **options
        As `thinstream.open_stream` takes them; ``threads``, those that parse in each worker, are 0 by default:
        a worker has one core, on which it parses and learns in turns.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mail.svm"
    >>> _ = path.write_text("+1 3:0.5 7:1\n-1 2:1\n" * 10)
    >>> [sum(map(len, shard.open().batches())) for shard in FileSource(path).shards(3)]
    [7, 6, 7]

    """

    def __init__(self, paths: Any, format: str | None = None, **options: Any) -> None:  # noqa: A002
        self.files = tuple(os.path.abspath(file) for file in resolve(paths))
        for file in self.files:
            if not Path(file).is_file():
                raise InvalidInputError(f"{file}: workers read files; standard input and pipes have one reader only")
        self.format = format or format_of(self.files[0])
        self.options = {"threads": 0, **options}
        if self.format == "libsvm" and options.get("zero_based") == "auto":  # of all files, not of each shard
            self.options["zero_based"] = begins_at_zero(list(self.files))
        found = look_at(list(self.files), options_of(format, self.options)).options  # of all files, not of each shard
        self.options = {name: value for name, value in found.given().items() if name != "format"}
        stream = self._stream = open_stream(list(self.files), format, **self.options)
        self.classes, self.dtype, self.feature_space = stream.classes, stream.dtype, stream.feature_space

    def fingerprint(self) -> dict[str, Any]:
        """Names, sizes, first bytes, and how the files are read."""
        return self._stream.fingerprint()

    def shards(self, workers: int) -> list[FileShard]:
        """A shard for each worker."""
        if workers == 1:
            return [FileShard(self.files, self.format, self.options)]
        if isinstance(self._stream, TextStream) and all(self._can_be_cut(file) for file in self.files):
            return self._spans(workers)
        if len(self.files) < workers:
            few = len(self.files)
            raise InvalidInputError(
                f"{few} file{'s' * (few > 1)} for {workers} workers: only plain text (CSV without quotes) is cut into "
                f"parts; give at least {workers} files, or take {few} worker{'s' * (few > 1)}"
            )
        return self._deal_out(workers)

    def _can_be_cut(self, file: str) -> bool:
        """Whether every end of a line ends a record."""
        if Path(file).stat().st_size == 0:
            return True
        return is_mappable(file) and (formats()[self.format].lines or not _has_quotes(file))

    def _spans(self, workers: int) -> list[FileShard]:
        """Parts of equal size of all text, one file behind the other."""
        sizes = [Path(file).stat().st_size for file in self.files]
        ends = list(accumulate(sizes))
        starts = [end - size for end, size in zip(ends, sizes, strict=True)]
        cuts = [0]
        for k in range(1, workers):
            wish = ends[-1] * k // workers
            file = min(bisect_right(ends, wish), len(ends) - 1)
            cuts.append(max(cuts[-1], starts[file] + _line_start(self.files[file], wish - starts[file])))
        cuts.append(ends[-1])
        found = []
        for begin, end in pairwise(cuts):
            places = list(stretches(sizes, begin, end))
            spans = tuple(Span(first, first + length) for _, first, length in places)
            found.append(FileShard(tuple(self.files[k] for k, _, _ in places), self.format, self.options, spans))
        return found

    def _deal_out(self, workers: int) -> list[FileShard]:
        """Whole files: the largest first, each to the worker that has least so far."""
        sizes = {place: Path(file).stat().st_size for place, file in enumerate(self.files)}
        hands: list[list[int]] = [[] for _ in range(workers)]
        loads = [0] * workers
        for place in sorted(sizes, key=lambda place: (-sizes[place], place)):
            least = loads.index(min(loads))
            hands[least].append(place)
            loads[least] += sizes[place]
        chosen = [tuple(self.files[place] for place in sorted(hand)) for hand in hands]
        return [FileShard(files, self.format, self.options) for files in chosen]


@dataclass(frozen=True)
class BatchSource:
    """Rows that are in memory: each worker is sent a stretch of them, which is its shard and its stream.

    >>> rows = Batch.of(np.arange(6), np.zeros(5, np.int32), np.ones(5), 1, y=np.ones(5, np.int8))
    >>> [len(shard.batch) for shard in BatchSource(rows).shards(2)]
    [2, 3]
    """

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
        values = xxh3_64_intdigest(batch.values[: batch.nnz].tobytes())
        return {"rows": len(batch), "features": batch.n_features, "checksum": values}

    def shards(self, workers: int) -> "list[BatchSource]":
        """As many rows for each worker, up to one."""
        n = len(self.batch)
        cuts = [n * k // workers for k in range(workers + 1)]
        return [replace(self, batch=self.batch.until(b).after(a)) for a, b in pairwise(cuts)]

    def open(self) -> "BatchSource":
        """The rows."""
        return self

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on."""
        for row in range(start.offset, len(self.batch), ROWS):
            stop = min(row + ROWS, len(self.batch))
            rows = self.batch.until(stop).after(row)
            yield replace(rows, position=Position(offset=stop, row=stop), first_row=row)


def stretches(sizes: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """What of several things, one behind the other, is between two places: (number, first, length) of each.

    >>> list(stretches([3, 4], 2, 5))
    [(0, 2, 1), (1, 0, 2)]
    """
    before = 0
    for number, size in enumerate(sizes):
        first, last = max(start - before, 0), min(stop - before, size)
        if first < last:
            yield number, first, last - first
        before += size


def _has_quotes(file: str) -> bool:
    """Whether cells may hold ends of lines."""
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b'"') >= 0


def _line_start(file: str, offset: int) -> int:
    """The first start of a line at or after a byte."""
    if offset <= 0:
        return 0
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = text.find(b"\n", offset - 1)
        return len(text) if end < 0 else end + 1


def source_of(source: Any, engine: str | None = None, **options: Any) -> Source:
    """What can be learned from, in shards: files by name, or what an engine has, for workers of ``engine``."""
    if hasattr(source, "shards") and hasattr(source, "fingerprint"):
        given: Source = source
        return given
    package = type(source).__module__.split(".")[0]
    if package == "ray" and engine in ("local", "spark"):
        raise InvalidInputError(f"a Ray Dataset can be read by workers of engine 'ray' only, got engine {engine!r}")
    if package == "ray" and hasattr(source, "to_arrow_refs"):
        from thinstream.distributed.engines.ray.datasets import RayDatasetSource

        return RayDatasetSource(source, **options)
    if package == "pyspark" and hasattr(source, "mapInArrow"):
        from thinstream.distributed.engines.spark.frames import DataFrameSource

        return DataFrameSource(source, **options)
    files = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(each, str | os.PathLike) for each in files):
        raise InvalidInputError(
            "a source is files (a path, a glob or a list of them), a Ray Dataset, a Spark DataFrame or a Source, got "
            f"{type(source).__name__}; for arrays there is DistributedClassifier"
        )
    return FileSource(source, **options)
