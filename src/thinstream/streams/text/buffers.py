"""Arrays whose memory is used again: a parser's output is soon gone, and fresh memory takes time to clear."""

import mmap
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Pieces of memory of one size kept for use.
KEPT = 32


class BufferPool:
    """Lends arrays; the memory of one comes back when it and all its views are gone.

    Examples
    --------
    >>> pool = BufferPool()
    >>> array = pool.empty(1000, np.float64)
    >>> view, place = array[10:], array.ctypes.data
    >>> del array, view
    >>> pool.empty(900, np.float64).ctypes.data == place
    True

    """

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def empty(self, length: int, dtype: Any) -> NDArray[Any]:
        """An array of whatever the memory holds."""
        size = max(length * np.dtype(dtype).itemsize, mmap.PAGESIZE)
        size = 1 << (size - 1).bit_length()  # few sizes, so that they fit again; pages never touched cost nothing
        free = self._free.setdefault(size, [])
        try:
            memory = free.pop()
        except IndexError:
            memory = mmap.mmap(-1, size)
        # every view of this array holds on to the array itself, as the memory beneath is not an array
        array = np.frombuffer(memory, dtype=dtype, count=length)
        weakref.finalize(array, _take_back, free, memory).atexit = False
        return array


def _take_back(free: list[mmap.mmap], memory: mmap.mmap) -> None:
    if len(free) < KEPT:
        free.append(memory)
