"""Where text comes from: files, mapped or decompressed, and pipes, cut into pieces of whole records."""

import glob
import mmap
import queue
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from thinstream.batch import plain
from thinstream.errors import InvalidInputError
from thinstream.streams.brokers import is_address, shown
from thinstream.streams.compression import ending, open_read
from thinstream.streams.options import MAX_LINE
from thinstream.streams.text.protocol import Text, TextFormat

#: Bytes parsed at a time: few enough to stay in a core's cache, so many that handing them about takes no time.
PIECE = 1 << 22
#: Mapped bytes after which pages already read are given back.
RELEASE = 1 << 24
#: Bytes up to which the begin of a record is looked at again with whatever follows.
_PATIENCE = 1 << 16
_SAMPLES = 16
#: Seconds after its first record for which a pipe is looked at: what it gives is to be learned, not to wait.
PATIENCE = 2.0
STDIN = "-"
#: How compressed files begin.
MAGIC = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\xfd7zXZ\x00": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PAR1": ("Parquet's own methods", ".parquet"),
    b"ARROW1": ("Arrow's own methods", ".arrow"),
}


class Piece(NamedTuple):
    """Whole records of a part, and the offset at which they begin."""

    text: Text
    offset: int
    passed: int = 0  # lines before it that were no records: those of the header


def resolve(paths: Any) -> list[str]:
    """One path or many, a glob (sorted), or "-" for standard input, as a list of files that exist."""
    kind = getattr(getattr(paths, "dtype", None), "kind", "O")
    if hasattr(paths, "columns") or kind in "biufc":
        raise InvalidInputError(
            f"paths must be names of files, got a {type(paths).__name__}; what is in memory is a stream by "
            "from_memory(X, y) of thinstream.streams"
        )
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    if not given:
        raise InvalidInputError("no input file was given")
    found: list[str] = []
    for path in map(str, given):
        if is_address(path):
            raise InvalidInputError(
                f"{shown(path)} is a source without an end, which thinstream train, serve --source and open_stream read"
            )
        if path == STDIN or Path(path).is_file() or Path(path).is_fifo() or Path(path).is_char_device():
            found.append(path)
        elif Path(path).is_dir():
            raise InvalidInputError(f"{path} is a folder; name files, or a glob such as {path.rstrip('/')}/*.svm")
        elif glob.has_magic(path):
            matches = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
            if not matches:
                raise InvalidInputError(f"no file matches {path}")
            found += matches
        else:
            raise InvalidInputError(f"there is no file {path}")
    if found.count(STDIN) > 1:
        raise InvalidInputError("standard input (-) can be read once only")
    return found


def display_name(path: str) -> str:
    """What messages call a file."""
    return "standard input" if path == STDIN else path


def is_mappable(path: str) -> bool:
    """Whether a file can be read in place: plain, not a pipe, not empty."""
    return path != STDIN and not ending(path) and Path(path).is_file() and Path(path).stat().st_size > 0


def pieces(
    path: str,
    form: TextFormat,
    start: int,
    idle: Callable[[], bool] = lambda: True,
    stop: int | None = None,
    longest: int = MAX_LINE,
) -> Generator[Piece | None]:
    """The text of a file from ``start`` on; its header is shown to the format first.

    While a pipe is silent it yields None, unless the caller is ``idle`` and may as well wait. ``stop`` is where a
    record begins that is no longer read; only a plain file can be left there. No record may have more than ``longest``
    bytes: memory must have room for it.
    """
    if is_mappable(path):
        return _mapped(path, form, start, stop, longest)
    if stop is not None:
        raise InvalidInputError(f"{path} is compressed or no file: it can be read to its end only")
    return _streamed(path, form, start, idle, longest)


def cut(whole: Generator[Piece | None], form: TextFormat, most: int) -> Generator[Piece | None]:
    """The same text in pieces of at most so many bytes, as far as records are that short."""
    with closing(whole):
        for piece in whole:
            if piece is None:
                yield None
                continue
            text, offset, passed = piece
            while len(text):
                size, taken = most, 0
                while size < len(text) and not (taken := form.records(text[:size])):
                    size *= 2
                taken = taken or len(text)
                yield Piece(text[:taken], offset, passed)
                text, offset, passed = text[taken:], offset + taken, 0


def _mapped(path: str, form: TextFormat, start: int, stop: int | None, longest: int) -> Generator[Piece | None]:
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed with the last view of it
    text = plain(np.frombuffer(mapped, dtype=np.uint8))
    head, released = _header(path, form, text, True), 0
    offset, passed = max(head, start), _lines(text[:head]) if start < head else 0
    if offset > len(text):
        raise InvalidInputError(f"{path} has {len(text)} bytes, but reading was to go on at byte {offset}")
    text = text[:stop]
    while offset < len(text):
        size = PIECE
        while not (taken := _records(form, text[offset : offset + size], offset + size >= len(text), longest)):
            _require_short(path, offset, min(size, len(text) - offset), longest)
            size *= 2  # not one record was whole
        yield Piece(text[offset : offset + taken], offset, passed)
        offset, passed = offset + taken, 0
        # a few pieces are still being parsed: their pages would only be fetched again
        done = (offset - RELEASE) // RELEASE * RELEASE
        if done > released and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED, released, done - released)
            released = done


def _streamed(
    path: str, form: TextFormat, start: int, idle: Callable[[], bool], longest: int
) -> Generator[Piece | None]:
    with closing(_reader(path)) as blocks:
        offset, passed, rest, fresh = 0, 0, np.empty(0, dtype=np.uint8), True
        waiting, size = list[bytes](), 0  # blocks that cannot end a record
        while True:
            block = blocks.get(wait=idle())
            if block is None:
                yield None
                continue
            last = not block
            waiting.append(block)
            size += len(block)
            # a long rest is looked at again only with as much that is new: work stays linear
            if not last and (b"\n" not in block or _PATIENCE < len(rest) > size):
                _require_short(path, offset, len(rest) + size, longest)
                continue
            text = np.concatenate([rest, np.frombuffer(b"".join(waiting), dtype=np.uint8)])
            waiting, size = [], 0
            if fresh:
                head = _header(path, form, text, last)
                if head < 0:  # the header is longer than this
                    rest = text
                    continue
                fresh, offset, passed, text = False, head, _lines(text[:head]) if start < head else 0, text[head:]
            if offset < start:  # gone over before
                known = min(start - offset, len(text))
                offset, text = offset + known, text[known:]
            taken = _records(form, text, last, longest) if len(text) else 0
            if taken:
                yield Piece(text[:taken], offset, passed)
                passed = 0
            offset, rest = offset + taken, text[taken:]
            _require_short(path, offset, len(rest), longest)
            if last:
                break
        if offset < start:
            raise InvalidInputError(f"{path} ends after {offset} bytes, but reading was to go on at byte {start}")


def _require_short(path: str, offset: int, size: int, longest: int) -> None:
    if size > longest:
        raise InvalidInputError(
            f"{display_name(path)}: a record must have at most {longest:,} bytes, got a longer one at byte {offset:,}; "
            "max_line (--max-line) allows more"
        )


def lines_before(path: str, offset: int) -> int:
    """Ends of lines before a byte of a plain file."""
    count = 0
    with open(path, "rb") as file:
        while offset > 0 and (block := file.read(min(offset, PIECE))):
            count, offset = count + block.count(b"\n"), offset - len(block)
    return count


def _lines(text: Text) -> int:
    return int(np.count_nonzero(text == 10))


def _records(form: TextFormat, text: Text, last: bool, longest: int) -> int:
    """Bytes of whole records; at the end of a file all there is, unless the last record is too long."""
    whole = len(text) if last and len(text) <= longest else form.records(text)
    return len(text) if last and len(text) - whole <= longest else whole


def _header(path: str, form: TextFormat, text: Text, last: bool) -> int:
    """Bytes of the header, −1 if it is not whole yet."""
    _require_text(path, text)
    if not last and form.records(text) == 0:
        return -1
    try:
        return form.header(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{display_name(path)}, line 1: {error}") from None


def _require_text(path: str, text: Text) -> None:
    """Raises if the bytes are those of a compressed file, whose name does not say so."""
    head = bytes(text[:6])
    for magic, (kind, ending_) in MAGIC.items():
        if head.startswith(magic):
            advice = f"give it a name that ends in {ending_}, or decompress it first"
            raise InvalidInputError(f"{display_name(path)} is compressed with {kind}: {advice}")


#: Pipes that were looked at and are still to be read.
_peeked: "dict[str, _ReadAhead]" = {}


def peek(path: str, lines: int, most: int) -> tuple[bytes, bool]:
    """So many lines of a pipe, fewer if it is slow, and whether that is all; whoever reads it gets them again.

    ``most`` is how many bytes are looked at.
    """
    if (before := _peeked.get(path)) is not None and before.stdin is sys.stdin:
        return b"".join(before.seen), b"" in before.seen
    blocks = _peeked[path] = _ReadAhead(path)
    found, met, until = bytearray(), 0, 0.0
    while met < lines and len(found) < most:
        block = blocks.peek(max(until - monotonic(), 0.0) if met else None)
        if block is None:
            break
        if not block:
            return bytes(found), True
        until = until if met else monotonic() + PATIENCE
        found += block
        met += block.count(b"\n")
    return bytes(found), False


def _reader(path: str) -> "_ReadAhead":
    """Of a pipe that was looked at the one that has seen its begin."""
    blocks = _peeked.pop(path, None)
    return _ReadAhead(path) if blocks is None or blocks.stdin is not sys.stdin else blocks


class _ReadAhead:
    """Reads blocks of a pipe or compressed file on a thread of its own, a few ahead."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.seen: deque[bytes] = deque()  # while it was peeked at
        self.stdin = sys.stdin
        self._blocks: queue.Queue[bytes | BaseException] = queue.Queue(maxsize=4)
        self._closed = False
        # a daemon: one that waits for a silent pipe must not keep the process alive
        threading.Thread(target=self._read, daemon=True, name=f"reading {path}").start()

    def get(self, wait: bool) -> bytes | None:
        """The next block, b"" at the end; None if there is none yet and the caller does not wait."""
        return self.seen.popleft() if self.seen else self._next(wait, None)

    def peek(self, seconds: float | None) -> bytes | None:
        """The next block, which stays to be got; None if none comes within the time."""
        block = self._next(True, seconds)
        if block is not None:
            self.seen.append(block)
        return block

    def _next(self, wait: bool, seconds: float | None) -> bytes | None:
        try:
            block = self._blocks.get(wait, seconds)
        except queue.Empty:
            return None
        if isinstance(block, BaseException):
            raise block
        return block

    def close(self) -> None:
        self._closed = True
        with suppress(queue.Empty):
            while True:
                self._blocks.get_nowait()

    def _read(self) -> None:
        try:
            with open_read(self._path) as file:
                while not self._closed:
                    block = _block(file)
                    self._blocks.put(block)
                    if not block:
                        return
        except BaseException as error:  # raised where the block is asked for
            self._blocks.put(error)


def _block(file: BinaryIO) -> bytes:
    """About a piece; what a slow pipe has, without waiting for more."""
    read = getattr(file, "read1", file.read)
    parts, size = [], 0
    while size < PIECE:
        part = read(PIECE - size)
        parts.append(part)
        size += len(part)
        if len(part) < 1 << 12:  # the end, or a pipe that has no more at the moment
            break
    return b"".join(parts)


def head_checksum(path: str) -> int:
    """Of the first 64 KiB as they lie on disk."""
    with open(path, "rb") as file:
        return zlib.crc32(file.read(1 << 16))


def marks(paths: list[str]) -> dict[str, list[int | None]]:
    """What tells files from others, None for what is no file.

    The size, a checksum of the first 64 KiB, when it was written last, in nanoseconds, and a checksum of blocks of
    4 KiB from all over it, its end included.
    """
    found: dict[str, list[int | None]] = {"sizes": [], "heads": [], "modified": [], "samples": []}
    for path in paths:
        told: list[int | None] = [None] * 4
        if path != STDIN and Path(path).is_file():
            status, samples = Path(path).stat(), 0
            with open(path, "rb") as file:
                for k in range(1, _SAMPLES + 1):
                    file.seek(max(status.st_size - (1 << 12), 0) * k // _SAMPLES)
                    samples = zlib.crc32(file.read(1 << 12), samples)
            told = [status.st_size, head_checksum(path), status.st_mtime_ns, samples]
        for known, mark in zip(found.values(), told, strict=True):
            known.append(mark)
    return found
