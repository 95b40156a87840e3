"""The first records of text files and pipes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from thinstream.streams.compression import ending, open_read
from thinstream.streams.sources import STDIN, peek
from thinstream.streams.text.protocol import Text

#: Bytes of files that are looked at to their end, of compressed ones half as many; and bytes looked at of others.
SMALL = 1 << 25
#: Bytes that a compressed file may have: beyond it its end is not looked at.
_MOST = 1 << 28
_BLOCK = 1 << 18
#: First records of sources that are no files, by name, while they are looked at; and whether these are all.
AT_HAND: dict[str, Callable[[], tuple[bytes, bool]]] = {}


def are_small(files: list[str]) -> bool:
    """Whether files are looked at to their end."""
    if any(file == STDIN or not Path(file).is_file() for file in files):
        return False
    return sum(Path(file).stat().st_size * (2 if ending(file) else 1) for file in files) <= SMALL


def are_seen_whole(files: list[str]) -> bool:
    """Whether whoever looks comes to the end of files, or of what a source has."""
    return are_small(files) or all(file in AT_HAND and AT_HAND[file]()[1] for file in files)


def heads(files: list[str], records: int) -> Iterator[tuple[Text, bool]]:
    """The text of small files, or as much of the first ones as has so many records; and whether each is whole."""
    small, left = are_small(files), records
    for file in files:
        if small:
            with open_read(file) as source:
                data = source.read(_MOST)
                whole = len(data) < _MOST
        else:
            data, whole = begin(file, left)
        yield np.frombuffer(data, np.uint8), whole
        left -= data.count(b"\n")
        if not small and left <= 0:
            return


def begin(file: str, records: int) -> tuple[bytes, bool]:
    """So many lines, a few more, or all there is."""
    if file in AT_HAND:
        return AT_HAND[file]()
    if file == STDIN or not Path(file).is_file():
        return peek(file, records + 1, SMALL)
    found, lines = bytearray(), 0
    with open_read(file) as source:
        while lines <= records and len(found) < SMALL:
            block = source.read(_BLOCK)
            if not block:
                return bytes(found), True
            found += block
            lines += block.count(b"\n")
    return bytes(found), False
