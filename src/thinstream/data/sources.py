"""Sources of text: files, which are mapped or decompressed, and pipes. They are cut into pieces of whole records."""

import glob
import mmap
import os
import queue
import sys
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from thinstream.batch import plain
from thinstream.data.brokers import is_address, shown
from thinstream.data.compression import Name, ending, open_read
from thinstream.data.options import DELIMITERS, MAX_LINE
from thinstream.data.text.protocol import Text, TextFormat
from thinstream.errors import InvalidInputError, InvalidParameterError

#: Bytes parsed at a time: few enough for a core's cache, and enough to make the overhead negligible.
PIECE = 1 << 22
#: Mapped bytes after which pages that were read are released.
RELEASE = 1 << 24
#: A longer incomplete record is only parsed again when at least as many new bytes have come.
_PATIENCE = 1 << 16
_SAMPLES = 16
#: Seconds after its first record for which a pipe is sampled to infer the schema.
PATIENCE = 2.0
STDIN = "-"
#: The first bytes of compressed files.
MAGIC = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\xfd7zXZ\x00": ("xz", ".xz"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"PAR1": ("Parquet's own methods", ".parquet"),
    b"ARROW1": ("Arrow's own methods", ".arrow"),
}


class Piece(NamedTuple):
    """Whole records of a file, and the offset at which they start."""

    text: Text
    offset: int
    passed: int = 0  # header lines before it


def resolve(paths: Any) -> list[str]:
    """Return a list of existing files for a path, several paths, a folder, a glob pattern, or "-"."""
    kind_code = getattr(getattr(paths, "dtype", None), "kind", "O")
    if hasattr(paths, "columns") or kind_code in "biufc":
        raise InvalidInputError(
            f"paths must be file names, got a {type(paths).__name__}. Use thinstream.data.from_memory(X, y) for data "
            "in memory."
        )
    names = [paths] if isinstance(paths, str | Path) else list(paths)
    if not names:
        raise InvalidInputError("no input file was given")
    resolved: list[str] = []
    for path in map(str, names):
        if is_address(path):
            raise InvalidInputError(
                f"{shown(path)} is a message stream, which has no end. Only thinstream train, thinstream serve "
                "--source and open_stream can read it."
            )
        if path == STDIN or Path(path).is_file() or Path(path).is_fifo() or Path(path).is_char_device():
            resolved.append(path)
        elif Path(path).is_dir():
            resolved += _files_in(path)
        elif glob.has_magic(path):
            matches = sorted(name for name in glob.glob(path, recursive=True) if Path(name).is_file())
            if not matches:
                raise InvalidInputError(f"no file matches {path}")
            resolved += matches
        else:
            raise InvalidInputError(f"the file {path} does not exist")
    if resolved.count(STDIN) > 1:
        raise InvalidInputError("standard input (-) can be read only once")
    return resolved


def _files_in(folder: str) -> list[str]:
    """Return the files in a folder and its subfolders, sorted. Names that begin with . or _ are left out."""
    files = [file for file in Path(folder).rglob("*") if file.is_file()]
    files = [file for file in files if not any(part[0] in "._" for part in file.relative_to(folder).parts)]
    if not files:
        raise InvalidInputError(f"the folder {folder} has no files")
    return sorted(map(str, files))


def display_name(path: str) -> str:
    """Return the name of a file in messages."""
    return "standard input" if path == STDIN else path


def is_mappable(path: str) -> bool:
    """Return whether a file can be mapped: it is not empty, not compressed and not a pipe."""
    return path != STDIN and not ending(path) and Path(path).is_file() and Path(path).stat().st_size > 0


def pieces(
    path: str,
    form: TextFormat,
    start: int,
    idle: Callable[[], bool] = lambda: True,
    stop: int | None = None,
    longest: int = MAX_LINE,
) -> Generator[Piece | None]:
    """Return the text of a file from byte ``start`` on, in pieces; the format first reads the header.

    While a pipe has no data, this yields None, unless the caller is ``idle`` and can wait. Reading ends at the record
    that starts at ``stop``, which only plain files allow. A record may have at most ``longest`` bytes.
    """
    if is_mappable(path):
        return _mapped(path, form, start, stop, longest)
    if stop is not None:
        raise InvalidInputError(f"{path} is compressed or a pipe, so it can only be read to its end")
    return _streamed(path, form, start, idle, longest)


def cut(whole: Generator[Piece | None], form: TextFormat, most: int) -> Generator[Piece | None]:
    """Cut pieces into smaller ones of at most ``most`` bytes, unless a record is longer."""
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
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)  # closed with its last view
    text = plain(np.frombuffer(mapped, dtype=np.uint8))
    head, released = _header(path, form, text, True), 0
    offset, passed = max(head, start), _lines(text[:head]) if start < head else 0
    if offset > len(text):
        raise InvalidInputError(
            f"{path} has {len(text):,} bytes, so reading cannot resume at byte {offset:,}. Was the file truncated?"
        )
    text = text[:stop]
    while offset < len(text):
        size = PIECE
        while not (taken := _records(form, text[offset : offset + size], offset + size >= len(text), longest)):
            _require_short(path, offset, min(size, len(text) - offset), longest)
            size *= 2  # no record is complete
        yield Piece(text[offset : offset + taken], offset, passed)
        offset, passed = offset + taken, 0
        # pages of the last pieces, which are still being parsed, are released later
        done = (offset - RELEASE) // RELEASE * RELEASE
        if done > released and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED, released, done - released)
            released = done


def _streamed(
    path: str, form: TextFormat, start: int, idle: Callable[[], bool], longest: int
) -> Generator[Piece | None]:
    with closing(_reader(path)) as blocks:
        offset, passed, rest, fresh = 0, 0, np.empty(0, dtype=np.uint8), True
        waiting, size = list[bytes](), 0  # blocks in which no record ends
        while True:
            block = blocks.get(wait=idle())
            if block is None:
                yield None
                continue
            last = not block
            waiting.append(block)
            size += len(block)
            # a long rest is only parsed again with as much new text, so the work stays linear
            if not last and (b"\n" not in block or _PATIENCE < len(rest) > size):
                _require_short(path, offset, len(rest) + size, longest)
                continue
            text = np.concatenate([rest, np.frombuffer(b"".join(waiting), dtype=np.uint8)])
            waiting, size = [], 0
            if fresh:
                head = _header(path, form, text, last)
                if head < 0:  # the header is not complete
                    rest = text
                    continue
                fresh, offset, passed, text = False, head, _lines(text[:head]) if start < head else 0, text[head:]
            if offset < start:  # read before
                passed_over = min(start - offset, len(text))
                offset, text = offset + passed_over, text[passed_over:]
            taken = _records(form, text, last, longest) if len(text) else 0
            if taken:
                yield Piece(text[:taken], offset, passed)
                passed = 0
            offset, rest = offset + taken, text[taken:]
            _require_short(path, offset, len(rest), longest)
            if last:
                break
        if offset < start:
            raise InvalidInputError(
                f"{path} ends after {offset:,} bytes, so reading cannot resume at byte {start:,}. Was the file "
                "truncated?"
            )


def _require_short(path: str, offset: int, size: int, longest: int) -> None:
    if size > longest:
        raise InvalidInputError(
            f"{display_name(path)}: a record may have at most {longest:,} bytes, got a longer one at byte {offset:,}. "
            "Raise max_line (--max-line) to read it."
        )


def lines_before(path: str, offset: int) -> int:
    """Count the ends of lines before a byte of a plain file."""
    count = 0
    with open(path, "rb") as file:
        while offset > 0 and (block := file.read(min(offset, PIECE))):
            count, offset = count + block.count(b"\n"), offset - len(block)
    return count


def _lines(text: Text) -> int:
    return int(np.count_nonzero(text == 10))


def _records(form: TextFormat, text: Text, last: bool, longest: int) -> int:
    """Return the bytes of the complete records; at the end of a file all, unless the last one is too long."""
    whole = len(text) if last and len(text) <= longest else form.records(text)
    return len(text) if last and len(text) - whole <= longest else whole


def _header(path: str, form: TextFormat, text: Text, last: bool) -> int:
    """Return the bytes of the header, −1 if it is not complete yet."""
    _require_text(path, text)
    if not last and form.records(text) == 0:
        return -1
    try:
        return form.header(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{display_name(path)}, line 1: {error}") from None


def _require_text(path: str, text: Text) -> None:
    """Raise if the first bytes are those of a compressed file that does not have the extension."""
    head = bytes(text[:6])
    for magic, (method, extension) in MAGIC.items():
        if head.startswith(magic):
            advice = f"Rename it so that it ends in {extension}, or decompress it first."
            raise InvalidInputError(f"{display_name(path)} is compressed with {method}. {advice}")


#: Pipes that were sampled and will be read again.
_peeked: "dict[str, _ReadAhead]" = {}


def peek(path: str, lines: int, most: int) -> tuple[bytes, bool]:
    """Return up to ``lines`` lines of a pipe, and whether these are all; they will be read again with the rest.

    At most ``most`` bytes are sampled, and fewer lines if the pipe is slow.
    """
    if (before := _peeked.get(path)) is not None and before.stdin is sys.stdin:
        return b"".join(before.seen), b"" in before.seen
    blocks = _peeked[path] = _ReadAhead(path)
    sample, n_lines, until = bytearray(), 0, 0.0
    while n_lines < lines and len(sample) < most:
        block = blocks.peek(max(until - monotonic(), 0.0) if n_lines else None)
        if block is None:
            break
        if not block:
            return bytes(sample), True
        until = until if n_lines else monotonic() + PATIENCE
        sample += block
        n_lines += block.count(b"\n")
    return bytes(sample), False


def _reader(path: str) -> "_ReadAhead":
    """Return the reader of a pipe, which may have been sampled before."""
    blocks = _peeked.pop(path, None)
    return _ReadAhead(path) if blocks is None or blocks.stdin is not sys.stdin else blocks


class _ReadAhead:
    """Reads blocks of a pipe or compressed file in a separate thread, a few ahead."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.seen: deque[bytes] = deque()  # blocks that were sampled and not read yet
        self.stdin = sys.stdin
        self._blocks: queue.Queue[bytes | BaseException] = queue.Queue(maxsize=4)
        self._closed = False
        # a daemon thread, because one that waits for a silent pipe must not keep the process alive
        threading.Thread(target=self._read, daemon=True, name=f"reading {path}").start()

    def get(self, wait: bool) -> bytes | None:
        """Return the next block, b"" at the end; None if there is none yet and the caller does not wait."""
        return self.seen.popleft() if self.seen else self._next(wait, None)

    def peek(self, seconds: float | None) -> bytes | None:
        """Return the next block without removing it; None if none comes in time."""
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
        except BaseException as error:  # raised when the block is requested
            self._blocks.put(error)


def _block(file: BinaryIO) -> bytes:
    """Return about `PIECE` bytes; of a slow pipe, what it has without waiting."""
    read = getattr(file, "read1", file.read)
    parts, size = [], 0
    while size < PIECE:
        part = read(PIECE - size)
        parts.append(part)
        size += len(part)
        if len(part) < 1 << 12:  # the end, or a pipe that has no more data now
            break
    return b"".join(parts)


def head_checksum(path: str) -> int:
    """Return a checksum of the first 64 KiB as stored on disk."""
    with open(path, "rb") as file:
        return zlib.crc32(file.read(1 << 16))


def marks(paths: list[str]) -> dict[str, list[int | None]]:
    """Return the properties that identify files, None for anything that is not a file.

    These are the size, a checksum of the first 64 KiB, the time of the last change in nanoseconds, and a checksum of
    blocks of 4 KiB from all parts of the file.
    """
    properties: dict[str, list[int | None]] = {"sizes": [], "heads": [], "modified": [], "samples": []}
    for path in paths:
        values: list[int | None] = [None] * 4
        if path != STDIN and Path(path).is_file():
            status, samples = Path(path).stat(), 0
            with open(path, "rb") as file:
                for k in range(1, _SAMPLES + 1):
                    file.seek(max(status.st_size - (1 << 12), 0) * k // _SAMPLES)
                    samples = zlib.crc32(file.read(1 << 12), samples)
            values = [status.st_size, head_checksum(path), status.st_mtime_ns, samples]
        for column, value in zip(properties.values(), values, strict=True):
            column.append(value)
    return properties


# CSV records that span several lines, as one line each.

_QUOTE, _ESCAPE = b'"', b"\xff"  # never occurs in UTF-8


def delimiter_in(head: bytes) -> bytes:
    """Return the delimiter that occurs most often in a header.

    >>> delimiter_in(b"label;age;city, country")
    b';'
    """
    return max((delimiter.encode() for delimiter in DELIMITERS), key=head.count)


def is_open(record: bytes, delimiter: bytes) -> bool:
    r"""Return whether a cell begins with a quote that is not closed, so that the record continues in the next line.

    >>> is_open(b'1,"two', b","), is_open(b'1,5" disk', b","), is_open(b'"a ""b""\nc",2', b",")
    (True, False, False)
    """
    at = 0
    while True:
        if record.startswith(_QUOTE, at):
            at = record.find(_QUOTE, at + 1)
            while at >= 0 and record.startswith(_QUOTE, at + 1):
                at = record.find(_QUOTE, at + 2)
            if at < 0:
                return True
        at = record.find(delimiter, at) + 1
        if not at:
            return False


def whole_records(blocks: Iterable[list[bytes]], path: object, memory: int) -> Iterator[list[bytes]]:
    """Join the lines of each record."""
    delimiter, parts, size = None, list[bytes](), 0
    for lines in blocks:
        records = []
        for line in lines:
            if delimiter is None and line.strip():
                delimiter = delimiter_in(line)
            if not parts and _QUOTE not in line:
                records.append(line)
                continue
            parts.append(line)
            size += len(line)
            if _QUOTE in line and not is_open(record := b"\n".join(parts), delimiter or b","):
                records.append(record)
                parts, size = [], 0
            elif size > memory:
                raise _not_closed(path, parts[0])
        if records:
            yield records
    if parts:
        raise _not_closed(path, parts[0])


def _not_closed(path: object, line: bytes) -> InvalidInputError:
    return InvalidInputError(f"{path}: a quote that opens a cell must be closed, got {line!r:.60}")


def as_line(record: bytes) -> bytes:
    r"""Return a record without newlines.

    >>> as_line(b'1,"a\nb"'), as_lines(as_line(b'1,"a\nb"'))
    (b'1,"a\xff\x02b"', b'1,"a\nb"')
    """
    if b"\n" not in record and _ESCAPE not in record:
        return record
    return record.replace(_ESCAPE, b"\xff\x01").replace(b"\n", b"\xff\x02")


def as_lines(text: bytes) -> bytes:
    """Return the text from which the lines were made."""
    return text.replace(b"\xff\x02", b"\n").replace(b"\xff\x01", _ESCAPE) if _ESCAPE in text else text


# Lines of text files, in lists.

#: Called now and then with the number of lines that have been read.
Progress = Callable[[int], object]

BLOCK = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def as_list(paths: Name | Sequence[Name]) -> list[Name]:
    """Return one path or several as a list."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def text_rows(
    paths: Name | Sequence[Name],
    heads: list[BinaryIO] | None,
    memory: int,
    progress: Progress | None,
    quoted: bool = False,
) -> Iterator[list[bytes]]:
    """Yield lines that are not blank, in lists; with ``quoted``, CSV records, which may span several lines.

    With ``heads``, each file has a header, which is written to these files once.
    """
    names = as_list(paths)
    if not names:
        raise InvalidParameterError("there must be at least one input file, got none")
    header: bytes | None = None
    total = 0
    for path in names:
        with open_read(path) as file:
            first, awaited = True, heads is not None
            blocks = lines_of(file, path, memory)
            for lines in whole_records(blocks, path, memory) if quoted else blocks:
                if first:
                    lines[0], first = lines[0].removeprefix(_BYTE_ORDER_MARK), False
                rows = [line for line in lines if line and not line.isspace()]
                if awaited and rows:
                    head, awaited = rows.pop(0).rstrip(b"\r"), False
                    if header is None:
                        header = head
                        for out in heads or ():
                            write_lines(out, [head])
                    elif head != header:
                        raise InvalidInputError(
                            f"{path}: all files must have the same header; {names[0]} has {header!r}, got {head!r}"
                        )
                if rows:
                    yield rows
                    total += len(rows)
                    if progress is not None:
                        progress(total)


def lines_of(file: BinaryIO, path: Name, memory: int) -> Iterator[list[bytes]]:
    """Yield all lines without their newlines, in lists."""
    size = min(BLOCK, max(memory // 32, 256))  # short lines need many times the memory of their text
    rest, number = bytearray(), 1
    while block := file.read(size):
        end = block.rfind(b"\n")
        if end < 0:
            rest += block
            if len(rest) > memory:
                raise InvalidInputError(
                    f"{path}: lines must fit into the memory limit of {memory:,} bytes, got a longer one at line "
                    f"{number:,}"
                )
            continue
        lines = (bytes(rest) + block[:end]).split(b"\n")
        rest = bytearray(block[end + 1 :])
        number += len(lines)
        yield lines
    if rest:
        yield [bytes(rest)]


def write_lines(file: Any, lines: list[bytes]) -> None:
    """Write lines, each with a newline."""
    if lines:
        file.write(b"\n".join(lines) + b"\n")
