"""Where things are in a cache file, and the check of everything in it that is not rows.

A cache is an Arrow IPC file with a section of its own before the footer, where readers of Arrow never look: they find
record batches through the footer, at the end. ::

    ARROW1 · schema | record batch | … | record batch | end mark · section · trailer · footer · its length · ARROW1
    0 ─────── first ─────────────────────────────── last ──────────────────────────────────────────────── size

The section (JSON) says where the buffers of each record batch are and has a checksum of its bytes; the trailer has one
of everything before ``first`` and after ``last``. So no byte is outside a checksum, and none is trusted before.
Checksums are xxh3, at 4.8 to 7.4 GB/s; zlib's crc32, at 1.0 to 1.3 GB/s, is slower than learning.
"""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64

from thinstream.batch import Position
from thinstream.errors import CacheError

#: The format version of caches.
VERSION = 1
MAGIC = b"ARROW1"
_NAME = b"thinstrm"
_TRAILER = struct.Struct("<8sQQQQQ")  # name, version, first, last, start of the section, checksum
_END = struct.Struct("<i6s")  # length of the footer, magic
AGAIN = "write it again (thinstream convert, or write_cache)"


class Block(NamedTuple):
    """A record batch: where it is, where in it the buffers start, and what is in it."""

    start: int
    stop: int
    rows: int
    nnz: int
    label: int  # buffers: bytes from ``start``; −1 where there is none
    indptr: int
    indices: int
    values: int
    weight: int
    largest: float
    checksum: int
    position: Position | None  # in the source, where the end of the block is the end of a batch of the source


class Contents(NamedTuple):
    """All a cache says about itself."""

    identity: dict[str, Any]  # what it was made from, see `identity`
    numbers: str  # type of the feature numbers, "int32" or "int64"
    width: int
    blocks: list[Block]
    checksum: int = 0  # of all this


def identity(stream: Any) -> dict[str, Any]:
    """What makes a cache of this stream the right one: source, feature numbers, precision, normalisation, classes."""
    found = {
        "fingerprint": stream.fingerprint(),
        "space": stream.feature_space,
        "dtype": stream.dtype,
        "normalise": getattr(stream, "normalise", None),
    }
    if len(stream.classes or ()) > 2:
        found["classes"] = list(stream.classes)
    same: dict[str, Any] = json.loads(json.dumps(found))  # as it comes back: tuples are lists
    return same


def packed(contents: Contents, head: bytes, end_mark: bytes, footer: bytes) -> bytes:
    """End mark, section, trailer and footer (which comes with its length and magic): what follows the last block."""
    first, last = len(head), contents.blocks[-1].stop if contents.blocks else len(head)
    section = json.dumps(contents._asdict(), separators=(",", ":")).encode()
    section += b" " * (-len(section) % 8)
    trailer = (_NAME, VERSION, first, last, last + len(end_mark))
    sealed = end_mark + section + _TRAILER.pack(*trailer, 0)
    total = _metadata_checksum(head, sealed, footer)
    return end_mark + section + _TRAILER.pack(*trailer, total) + footer


def contents_of(data: NDArray[np.uint8], path: Path) -> Contents:
    """The contents of a mapped file, verified; `CacheError` if anything is wrong."""
    size = len(data)
    if size < _END.size or data[:6].tobytes() != MAGIC:
        raise CacheError(f"{path} is not a cache of thinstream; {AGAIN}")
    length, magic = _END.unpack(data[-_END.size :].tobytes())
    trailer_at = size - _END.size - length - _TRAILER.size
    if magic != MAGIC or length < 0 or trailer_at < 0:
        raise CacheError(f"{path} is cut short or damaged at its end; {AGAIN}")
    footer_at = trailer_at + _TRAILER.size
    name, version, first, last, section_at, expected = _TRAILER.unpack(data[trailer_at:footer_at].tobytes())
    if name != _NAME:
        raise CacheError(f"{path} is an Arrow file but not a cache of thinstream, or damaged; {AGAIN}")
    if version != VERSION:
        raise CacheError(f"{path} has cache format version {version}, but only version {VERSION} is supported; {AGAIN}")
    if not first <= last <= section_at <= trailer_at:
        raise CacheError(f"{path} is damaged in its trailer; {AGAIN}")
    sealed = bytearray(data[last:footer_at].tobytes())
    sealed[-8:] = bytes(8)
    if _metadata_checksum(data[:first].tobytes(), bytes(sealed), data[footer_at:].tobytes()) != expected:
        raise CacheError(f"{path} is damaged in its description; {AGAIN}")
    try:
        found = json.loads(data[section_at:trailer_at].tobytes())
        blocks = [Block._make([*block, None if at is None else Position(*at)]) for *block, at in found["blocks"]]
        contents = Contents(**{**found, "blocks": blocks, "checksum": expected})
        sound = _is_sound(contents, first, last)
    except (ValueError, TypeError, KeyError, AttributeError):
        sound = False
    if not sound:
        raise CacheError(f"{path} is damaged in its description; {AGAIN}")
    return contents


def _is_sound(contents: Contents, first: int, last: int) -> bool:
    """Whether all that is told can be: known types, and every buffer within its block; checksums can be forged."""
    made = contents.identity
    sizes = {"int32": 4, "int64": 8, "float32": 4, "float64": 8}
    label, number, value = 4 if "classes" in made else 1, sizes[contents.numbers], sizes[made["dtype"]]
    known = isinstance(made["fingerprint"], dict) and isinstance(made["space"], dict) and "normalise" in made
    if not known or not 0 <= contents.width < 2**63 or len(made.get("classes", "abc")) < 3:
        return False
    for block in contents.blocks:
        room = block.stop - block.start
        buffers = [
            (block.indptr, block.rows + 1, 4),
            (block.indices, block.nnz, number),
            (block.values, block.nnz, value),
            *[(block.label, block.rows, label)] * (block.label != -1),
            *[(block.weight, block.rows, 8)] * (block.weight != -1),
        ]
        if not all(type(each) is int and each >= -1 for each in block[:9]):
            return False
        if not first <= block.start <= block.stop <= last:
            return False
        for place, length, size in buffers:
            if length < 0 or not 0 <= place <= room - length * size or (block.start + place) % size:
                return False
    return True


def _metadata_checksum(head: bytes, sealed: bytes, footer: bytes) -> int:
    return xxh3_64(head + sealed + footer).intdigest()
