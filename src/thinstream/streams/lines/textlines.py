"""Lines of text files, in lists: bytes between newlines, whatever they say."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from thinstream.errors import InvalidInputError, InvalidParameterError
from thinstream.streams.compression import Name, open_read
from thinstream.streams.lines.records import whole_records

#: Is told now and then how many lines have been read.
Progress = Callable[[int], object]

BLOCK = 1 << 20
_MARK = b"\xef\xbb\xbf"  # UTF-8's byte order mark


def as_list(paths: Name | Sequence[Name]) -> list[Name]:
    """One path or several."""
    return [paths] if isinstance(paths, str | os.PathLike) else list(paths)


def text_rows(
    paths: Name | Sequence[Name],
    heads: list[BinaryIO] | None,
    memory: int,
    progress: Progress | None,
    quoted: bool = False,
) -> Iterator[list[bytes]]:
    """Lines that are not blank, in lists; if ``quoted``, records of CSV, which may go over several.

    With ``heads``, each file has a header, which goes there (once) instead.
    """
    names = as_list(paths)
    if not names:
        raise InvalidParameterError("there must be at least one input, got none")
    known: bytes | None = None
    total = 0
    for path in names:
        with open_read(path) as file:
            first, awaited = True, heads is not None
            found = lines_of(file, path, memory)
            for lines in whole_records(found, path, memory) if quoted else found:
                if first:
                    lines[0], first = lines[0].removeprefix(_MARK), False
                kept = [line for line in lines if line and not line.isspace()]
                if awaited and kept:
                    head, awaited = kept.pop(0).rstrip(b"\r"), False
                    if known is None:
                        known = head
                        for out in heads or ():
                            write_lines(out, [head])
                    elif head != known:
                        raise InvalidInputError(
                            f"{path}: the header must be that of {names[0]}, {known!r}, got {head!r}"
                        )
                if kept:
                    yield kept
                    total += len(kept)
                    if progress is not None:
                        progress(total)


def lines_of(file: BinaryIO, path: Name, memory: int) -> Iterator[list[bytes]]:
    """All lines, without their newlines, in lists."""
    size = min(BLOCK, max(memory // 32, 256))  # short lines take many times their text
    rest, number = bytearray(), 1
    while block := file.read(size):
        end = block.rfind(b"\n")
        if end < 0:
            rest += block
            if len(rest) > memory:
                raise InvalidInputError(
                    f"{path}: lines must fit in the memory of {memory} bytes, got a longer one at line {number}"
                )
            continue
        lines = (bytes(rest) + block[:end]).split(b"\n")
        rest = bytearray(block[end + 1 :])
        number += len(lines)
        yield lines
    if rest:
        yield [bytes(rest)]


def write_lines(file: Any, lines: list[bytes]) -> None:
    """Each with a newline."""
    if lines:
        file.write(b"\n".join(lines) + b"\n")
