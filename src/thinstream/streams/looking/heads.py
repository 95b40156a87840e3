"""The first records of text files and pipes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from thinstream.streams.compression import open_read
from thinstream.streams.sources import STDIN, is_mappable, peek
from thinstream.streams.text.protocol import Text

#: Bytes of files that are looked at to their end, and bytes looked at at most.
SMALL = 1 << 24
_BLOCK = 1 << 18


def are_small(files: list[str]) -> bool:
    """Whether files are looked at to their end."""
    return all(map(is_mappable, files)) and sum(Path(file).stat().st_size for file in files) <= SMALL


def heads(files: list[str], records: int) -> Iterator[tuple[Text, bool]]:
    """The text of small files, or as much of the first ones as has so many records; and whether each is whole."""
    small, left = are_small(files), records
    for file in files:
        if small:
            data, whole = Path(file).read_bytes(), True
        else:
            data, whole = _begin(file, left)
        yield np.frombuffer(data, np.uint8), whole
        left -= data.count(b"\n")
        if not small and left <= 0:
            return


def _begin(file: str, records: int) -> tuple[bytes, bool]:
    """So many lines, a few more, or all there is."""
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
