"""How lanes lie in memory: sizes of blocks, what they take, arrays that begin at a cache line."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.records import split
from thinstream.engine.rule import Algorithm
from thinstream.lanes.lane import Lane
from thinstream.lanes.loop import FULL, STEP
from thinstream.lanes.stack import LINE


def padded(lanes: int) -> int:
    """Lanes a block of so many has room for."""
    return -(-lanes // STEP) * STEP


def cut(lanes: Sequence[Lane], threads: int = 1) -> list[list[int]]:
    """Numbers of the lanes of each block: lanes of one kind, at most `FULL`, work for all threads."""
    kinds: dict[Any, list[int]] = {}
    for number, lane in enumerate(lanes):
        kinds.setdefault(lane.kind, []).append(number)
    return [block for members in kinds.values() for block in _cut(members, threads)]


def _cut(members: list[int], threads: int) -> Iterable[list[int]]:
    units, fewest = -(-len(members) // STEP), -(-len(members) // FULL)
    wanted = min(-(-fewest // threads) * threads, units)
    if wanted == fewest:
        sizes = [FULL] * fewest
    else:  # as even as steps of 16 allow
        sizes = [(units * (i + 1) // wanted - units * i // wanted) * STEP for i in range(wanted)]
    start = 0
    for size in sizes:
        yield members[start : start + size]
        start += size


def nbytes(algorithm: Algorithm, lanes: int, width: int, dtype: np.dtype[Any]) -> int:
    """Bytes of a block of so many lanes."""
    fields, clocks = split(algorithm.coordinate)
    each = width * (len(fields) * dtype.itemsize + len(clocks) * 8) + 8 * (5 + 1 + len(algorithm.totals._fields))
    return padded(lanes) * each


def aligned(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An array that begins at a cache line (lanes that do not would touch a line more)."""
    memory = np.empty(length * dtype.itemsize + LINE, dtype=np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + length * dtype.itemsize].view(dtype)
