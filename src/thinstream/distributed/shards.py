"""What each worker reads: files, parts of files, or rows that are in memory.

Plain text is cut into as many parts of equal size as there are workers, at ends of lines, whatever the number of files.
Compressed and columnar files go whole to one worker each, dealt out by size, the largest first.
"""

import mmap
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

from thinstream.errors import InvalidInputError
from thinstream.streams.formats import format_of, formats
from thinstream.streams.opening import open_stream
from thinstream.streams.reading import Span, TextStream
from thinstream.streams.sources import is_mappable, resolve
from thinstream.streams.stream import Stream
from thinstream.streams.text.libsvm import begins_at_zero


class Shard(Protocol):
    """What one worker reads; it is sent there, and opened there."""

    def open(self) -> Stream:
        """The rows, from any position on."""
        ...


class Source(Protocol):
    """What all workers read together."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels, where they were told; see `Stream`."""
        ...

    @property
    def dtype(self) -> str:
        """Of the values."""
        ...

    @property
    def feature_space(self) -> dict[str, Any]:
        """What feature numbers mean; see `Stream`."""
        ...

    def shards(self, workers: int) -> Sequence[Shard]:
        """A shard for each worker; of one worker it is the whole stream, in order."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """What tells this source from another, as JSON has it."""
        ...


@dataclass(frozen=True)
class FileShard:
    """Files, or spans of them."""

    files: tuple[str, ...]
    format: str
    options: Mapping[str, Any]
    spans: tuple[Span, ...] = ()

    def open(self) -> Stream:
        """The rows."""
        if not self.files:
            return _Nothing(self.options.get("dtype", "float32"), self.options.get("classes"))
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
        self._stream = open_stream(list(self.files), format, **self.options)
        self.classes, self.dtype, self.feature_space = (
            self._stream.classes,
            self._stream.dtype,
            self._stream.feature_space,
        )

    def fingerprint(self) -> dict[str, Any]:
        """Names, sizes, first bytes, and how the files are read."""
        return self._stream.fingerprint()

    def shards(self, workers: int) -> list[FileShard]:
        """A shard for each worker."""
        if workers == 1:
            return [FileShard(self.files, self.format, self.options)]
        if isinstance(self._stream, TextStream) and all(self._divisible(file) for file in self.files):
            return self._spans(workers)
        if len(self.files) < workers:
            few = len(self.files)
            raise InvalidInputError(
                f"{few} file{'s' * (few > 1)} for {workers} workers: only plain text (CSV without quotes) is cut into "
                f"parts; give at least {workers} files, or take {few} worker{'s' * (few > 1)}"
            )
        return self._dealt(workers)

    def _divisible(self, file: str) -> bool:
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
        return [self._between(begin, end, starts, ends) for begin, end in pairwise(cuts)]

    def _between(self, begin: int, end: int, starts: Sequence[int], ends: Sequence[int]) -> FileShard:
        files, spans = [], []
        for file, start, stop in zip(self.files, starts, ends, strict=True):
            if max(start, begin) < min(stop, end):
                files.append(file)
                spans.append(Span(max(start, begin) - start, min(stop, end) - start))
        return FileShard(tuple(files), self.format, self.options, tuple(spans))

    def _dealt(self, workers: int) -> list[FileShard]:
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
class _Nothing:
    """A stream without rows: there was less to read than there are workers."""

    dtype: str
    classes: tuple[Any, ...] | None
    names: None = None
    skipped: None = None
    feature_space: dict[str, Any] = field(default_factory=dict)
    size: int = 0
    unit: str = "rows"

    def done(self, position: Any) -> int:
        return 0

    def fingerprint(self) -> dict[str, Any]:
        return {}

    def batches(self, start: Any = None) -> Any:
        return iter(())


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
