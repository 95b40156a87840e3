"""The data that each worker reads: files, parts of files, tables of an engine or rows in memory."""

import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch, Position
from thinstream.data.formats import format_of, formats
from thinstream.data.opening import infer_options, open_stream, options_of
from thinstream.data.options import as_crosses
from thinstream.data.sources import is_mappable, resolve
from thinstream.data.stream import START, Span, Stream, TextStream, UnitRows, batches_from
from thinstream.data.tables.arrow import ArrowTables
from thinstream.data.text.hashing import Hashing, Numbering
from thinstream.data.text.libsvm import begins_at_zero
from thinstream.errors import InvalidInputError, InvalidParameterError, listed

# Plain text is cut into one part of equal size per worker, at ends of lines, whatever the number of files. Compressed
# and columnar files are not cut. They are assigned to workers by size, the largest first.

#: Rows per batch of rows in memory.
ROWS = 1 << 16


class Shard(Protocol):
    """The rows of one worker. A shard is sent to the worker and opened there."""

    def open(self) -> Stream:
        """Return the rows as a stream."""


class Source(Protocol):
    """The rows of all workers."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, if they are known; see `Stream`."""

    @property
    def dtype(self) -> str:
        """Precision of the values."""

    @property
    def feature_space(self) -> dict[str, Any]:
        """The meaning of feature numbers; see `Stream`."""

    def shards(self, workers: int) -> Sequence[Shard]:
        """Return a shard for each worker. One worker gets the whole stream, in order."""

    def fingerprint(self) -> dict[str, Any]:
        """Identify the source, as a dict for JSON."""


@dataclass(frozen=True)
class FileShard:
    """Files, or parts of them."""

    files: tuple[str, ...]
    format: str
    options: Mapping[str, Any]
    spans: tuple[Span, ...] = ()

    def open(self) -> Stream:
        if not self.files:  # more workers than parts
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
        As for `thinstream.open_stream`. ``threads``, the number of parser threads in each worker, is 0 by default: a
        worker has one core and alternates between parsing and learning.

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
                raise InvalidInputError(f"{file} is not a file. Workers need files, because a pipe has only one reader")
        self.format = format or format_of(self.files[0])
        self.options = {"threads": 0, **options}
        if self.format == "libsvm" and options.get("zero_based") == "auto":  # detected in all files, not in each shard
            self.options["zero_based"] = begins_at_zero(list(self.files))
        options_found = infer_options(
            list(self.files), options_of(format, self.options)
        ).options  # detected in all files, not in each shard
        self.format = options_found.format or self.format
        self.options = {name: value for name, value in options_found.given().items() if name != "format"}
        stream = self._stream = open_stream(list(self.files), options_found.format or format, **self.options)
        self.classes, self.dtype, self.feature_space = stream.classes, stream.dtype, stream.feature_space

    def fingerprint(self) -> dict[str, Any]:
        """Return names, sizes, first bytes and reading options."""
        return self._stream.fingerprint()

    def shards(self, workers: int) -> list[FileShard]:
        if workers == 1:
            return [FileShard(self.files, self.format, self.options)]
        if isinstance(self._stream, TextStream) and all(self._can_be_cut(file) for file in self.files):
            return self._spans(workers)
        if len(self.files) < workers:
            few = len(self.files)
            raise InvalidInputError(
                f"{few} file{'s' * (few > 1)} for {workers} workers: only plain text (CSV without quotes) can be cut "
                f"into parts. Give at least {workers} files, or use {few} worker{'s' * (few > 1)}"
            )
        return self._deal_out(workers)

    def _can_be_cut(self, file: str) -> bool:
        """Return whether every end of a line ends a record."""
        if Path(file).stat().st_size == 0:
            return True
        return is_mappable(file) and (formats()[self.format].lines or not _has_quotes(file))

    def _spans(self, workers: int) -> list[FileShard]:
        """Cut the text of all files, one after another, into parts of equal size."""
        sizes = [Path(file).stat().st_size for file in self.files]
        ends = list(accumulate(sizes))
        starts = [end - size for end, size in zip(ends, sizes, strict=True)]
        cuts = [0]
        for k in range(1, workers):
            wish = ends[-1] * k // workers
            file = min(bisect_right(ends, wish), len(ends) - 1)
            cuts.append(max(cuts[-1], starts[file] + _line_start(self.files[file], wish - starts[file])))
        cuts.append(ends[-1])
        shards = []
        for begin, end in pairwise(cuts):
            parts = list(stretches(sizes, begin, end))
            spans = tuple(Span(first, first + length) for _, first, length in parts)
            shards.append(FileShard(tuple(self.files[k] for k, _, _ in parts), self.format, self.options, spans))
        return shards

    def _deal_out(self, workers: int) -> list[FileShard]:
        """Assign whole files, the largest first, each to the worker that has the least so far."""
        sizes = {number: Path(file).stat().st_size for number, file in enumerate(self.files)}
        hands: list[list[int]] = [[] for _ in range(workers)]
        loads = [0] * workers
        for number in sorted(sizes, key=lambda number: (-sizes[number], number)):
            least = loads.index(min(loads))
            hands[least].append(number)
            loads[least] += sizes[number]
        chosen = [tuple(self.files[number] for number in sorted(hand)) for hand in hands]
        return [FileShard(files, self.format, self.options) for files in chosen]


@dataclass(frozen=True)
class BatchSource:
    """Rows in memory. Each worker gets a range of them, which is its shard and its stream.

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
        return str(self.batch.values.dtype.name)

    @property
    def size(self) -> int:
        return len(self.batch)

    def done(self, position: Position) -> int:
        return position.row

    def fingerprint(self) -> dict[str, Any]:
        """Return sizes and a checksum of all values."""
        batch = self.batch
        values = xxh3_64_intdigest(batch.values[: batch.nnz].tobytes())
        return {"rows": len(batch), "features": batch.n_features, "checksum": values}

    def shards(self, workers: int) -> "list[BatchSource]":
        """Cut the rows into ranges of equal length, up to one row."""
        n = len(self.batch)
        cuts = [n * k // workers for k in range(workers + 1)]
        return [replace(self, batch=self.batch.until(b).after(a)) for a, b in pairwise(cuts)]

    def open(self) -> "BatchSource":
        return self

    def batches(self, start: Position = START) -> Iterator[Batch]:
        for row in range(start.offset, len(self.batch), ROWS):
            stop = min(row + ROWS, len(self.batch))
            rows = self.batch.until(stop).after(row)
            yield replace(rows, position=Position(offset=stop, row=stop), first_row=row)


def stretches(sizes: Sequence[int], start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Return the parts between two positions of several things in a row, as (number, first, length).

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
    """Return whether cells may contain ends of lines."""
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        return text.find(b'"') >= 0


def _line_start(file: str, offset: int) -> int:
    """Return the first start of a line at or after a byte."""
    if offset <= 0:
        return 0
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as text:
        end = text.find(b"\n", offset - 1)
        return len(text) if end < 0 else end + 1


def source_of(source: Any, engine: str | None = None, **options: Any) -> Source:
    """Convert files, or data of an engine, to a `Source` for the workers of ``engine``."""
    if hasattr(source, "shards") and hasattr(source, "fingerprint"):
        custom: Source = source
        return custom
    package = type(source).__module__.split(".")[0]
    if package == "ray" and engine in ("local", "spark"):
        raise InvalidInputError(f"only the engine 'ray' can read a Ray Dataset, got engine {engine!r}")
    if package == "ray" and hasattr(source, "to_arrow_refs"):
        from thinstream.distributed.engines.ray import RayDatasetSource

        return RayDatasetSource(source, **options)
    if package == "pyspark" and hasattr(source, "mapInArrow"):
        from thinstream.distributed.engines.spark_frames import DataFrameSource

        return DataFrameSource(source, **options)
    files = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(file, str | os.PathLike) for file in files):
        raise InvalidInputError(
            "a source must be files (a path, a glob or a list of them), a Ray Dataset, a Spark DataFrame or a Source, "
            f"got {type(source).__name__}. For arrays, use DistributedClassifier"
        )
    return FileSource(source, **options)


class ShardPosition(NamedTuple):
    """The position of a worker in its rows."""

    passes: int = 0  # finished passes
    position: Position = START  # in the current pass
    skipped: int = 0  # bad records before it, in the current pass


@dataclass
class Cursor:
    """Reads a given number of rows of a stream at a time, until all passes are done."""

    stream: Stream
    reached: ShardPosition
    passes: int
    over: bool = False
    most_skipped: int = 0
    _batches: Iterator[tuple[Position, Batch]] | None = field(default=None, repr=False)
    _rest: Batch | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._set_skipped(self.reached.skipped)
        self.over = self.reached.passes >= self.passes

    def take(self, rows: int, within_pass: bool = False) -> Iterator[Batch]:
        """Yield the next ``rows`` rows, or fewer at the end (of the pass if ``within_pass``). Advance ``reached``."""
        while not self.over:
            batch = self._next()
            if batch is None:
                self._turn()
                if within_pass:
                    return
                continue
            if rows <= 0:  # the rest is for the next call
                self._rest = batch
                return
            part = batch if len(batch) <= rows else batch.until(rows)
            self._rest = None if part is batch else batch.after(rows)
            rows -= len(part)
            passes, position, skipped = self.reached
            if self._rest is None and batch.position is not None:
                self.reached = ShardPosition(passes, batch.position, self._skipped())
            else:
                self.reached = ShardPosition(passes, position._replace(skip=position.skip + len(part)), skipped)
            if len(part):
                yield part

    def _next(self) -> Batch | None:
        if self._rest is not None:
            batch, self._rest = self._rest, None
            return batch
        if self._batches is None:
            self._batches = batches_from(self.stream, self.reached.position)
        item: Any = next(self._batches, None)
        return None if item is None else item[1]

    def _turn(self) -> None:
        """Start the next pass."""
        self.most_skipped = max(self.most_skipped, self._skipped())
        self._set_skipped(0)  # the next pass reads the same records again
        self.reached, self._batches = ShardPosition(self.reached.passes + 1), None
        self.over = self.reached.passes >= self.passes

    def _skipped(self) -> int:
        return 0 if self.stream.skipped is None else self.stream.skipped.count

    def _set_skipped(self, count: int) -> None:
        if self.stream.skipped is not None:
            self.stream.skipped.count = count


#: Default names of list columns of feature numbers and values.
INDICES, VALUES = "indices", "values"


class TableColumns:
    """The meaning of columns.

    Parameters
    ----------
    label, weight : str
        Columns of the labels and of the rows' weights.
    indices, values : str
        List columns of feature numbers (from 0) and values. If they do not exist, every other column is a feature.
        Numbers and booleans have the name of the column, and text is hashed as ``column=text``. Nulls add no
        feature, as in files read with ``missing="as-is"``.
    ignore : sequence of str
        Columns that are not features.
    classes : (negative, positive), or more
        The labels.
    dtype : {"float32", "float64"}
        Precision of the values.
    bits, signed : int, bool
        How names are hashed.
    normalize : "l2" or None
        Whether rows are scaled to unit length.
    cross : list of tuples of names
        Columns to be crossed, such as ``[("user", "item")]``.

    """

    #: The owner of the columns, for messages.
    owner: ClassVar[str] = "a table"
    shown_as: ClassVar[str] = "the table"

    def __init__(
        self,
        *,
        label: str = "label",
        weight: str | None = None,
        indices: str = INDICES,
        values: str = VALUES,
        ignore: Sequence[str] = (),
        classes: Sequence[Any] | None = None,
        dtype: str = "float32",
        bits: int | None = None,
        signed: bool = False,
        normalize: str | None = None,
        cross: Sequence[Sequence[str]] = (),
    ) -> None:
        if normalize not in (None, "l2"):
            raise InvalidParameterError(f"normalize must be None or 'l2', got {normalize!r}")
        self.normalize = normalize
        self.reading: dict[str, Any] = {
            "label": label,
            "weight": weight,
            "indices": indices,
            "values": values,
            "ignore": tuple(ignore),
            "classes": None if classes is None else tuple(classes),
            "dtype": dtype,
            "hasher": Numbering(Hashing(bits=bits or 22, signed=signed)),
            **({"cross": as_crosses(cross)} if cross else {}),
        }
        ArrowTables([], [], **self.reading)  # raises if an option is not valid

    @classmethod
    def of(cls, options: dict[str, Any]) -> Self:
        """Create the columns from options; raise at an unknown option."""
        allowed = [*signature(TableColumns).parameters, *signature(cls).parameters]
        allowed = [name for name in dict.fromkeys(allowed) if name != "columns"]
        for name in options:
            if name not in allowed:
                raise InvalidParameterError(f"the options for {cls.owner} must be {listed(allowed)}, got {name!r}")
        return cls(**options)

    def stream(self, tables: Sequence[tuple[Any, int]], names: Sequence[str], **more: Any) -> Stream:
        """Return the rows of tables (see `ArrowTables`) as a stream."""
        stream: Stream = ArrowTables(tables, names, self.shown_as, **{**self.reading, **more})
        return stream if self.normalize is None else UnitRows(stream)


@dataclass(frozen=True)
class TableShard:
    """The rows of one worker: parts of tables, each a function that fetches it and its number of rows."""

    stretches: tuple[tuple[Callable[[], Any], int], ...]
    names: tuple[str, ...]
    columns: TableColumns
    more: dict[str, Any] = field(default_factory=dict)  # options of the stream

    def open(self) -> Stream:
        return self.columns.stream(self.stretches, self.names, **self.more)


def cut(sizes: Sequence[int], workers: int) -> list[list[tuple[int, int, int]]]:
    """Return parts of equal total length for each worker, one after another: (table, first row, rows) of each.

    >>> cut([3, 4], 2)
    [[(0, 0, 3)], [(1, 0, 4)]]
    >>> cut([5], 2)
    [[(0, 0, 2)], [(0, 2, 3)]]
    """
    borders = [sum(sizes) * i // workers for i in range(workers + 1)]
    return [list(stretches(sizes, start, stop)) for start, stop in pairwise(borders)]
