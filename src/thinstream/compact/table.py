"""Which slot a feature number has: a hash table in two arrays, slots by place and numbers by slot."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.jit import compiled, scalar
from thinstream.spelling import NO_NAMES, KeptNames, is_another

#: The slot of numbers that have none: nobody learns in it, so that it is what a feature never met is.
NOBODY = 0
_SMALLEST = 1 << 10
#: A feature that no learner has.
BEYOND = 2**31 - 2
_GOLDEN, _LOW, _16, _32 = np.uint64(0x9E3779B1), np.uint64(2**32 - 1), np.uint64(16), np.uint64(32)


@scalar
def home(number: Any, places: Any) -> Any:
    """Where the search for a number begins; ``places`` is a power of two."""
    long = np.uint64(number)
    return np.int64((((long ^ long >> _32) & _LOW) * _GOLDEN >> _16) & np.uint64(places - 1))


@scalar
def place_of(number: Any, slots: Any, numbers: Any) -> Any:
    """The place of a number, or the free one where it would be."""
    last = len(slots) - 1
    at = home(number, len(slots))
    while slots[at] != NOBODY and numbers[slots[at]] != number:
        at = (at + 1) & last
    return at


@compiled()
def _find(indices: Any, width: Any, slots: Any, numbers: Any, out: Any) -> None:
    """Slots of numbers; that of nobody of one never met, `BEYOND` of one that is not below ``width``."""
    for k in range(len(indices)):
        number = np.int64(indices[k])
        slot = slots[place_of(number, slots, numbers)]
        out[k] = BEYOND if slot == NOBODY and number >= width else slot


@compiled()
def _admit(indices: Any, start: Any, slots: Any, numbers: Any, count: Any, out: Any) -> Any:
    """Slots of numbers from ``start`` on, new ones for those never met: (where it stopped for want of room, slots)."""
    for k in range(start, len(indices)):
        number = np.int64(indices[k])
        at = place_of(number, slots, numbers)
        if slots[at] == NOBODY:
            if count == len(numbers):
                return k, count
            slots[at], numbers[count] = count, number
            count += 1
        out[k] = slots[at]
    return len(indices), count


@compiled()
def _enter(slots: Any, numbers: Any, count: Any) -> None:
    """Numbers of the slots from 1 on, into an empty table."""
    for slot in range(1, count):
        slots[place_of(numbers[slot], slots, numbers)] = slot


@compiled("thinstream.spelling")
def _known(
    indptr: Any,
    indices: Any,
    values: Any,
    names: Any,
    slots: Any,
    numbers: Any,
    kept: Any,
    out_indptr: Any,
    out_indices: Any,
    out_values: Any,
) -> None:
    """Rows with slots for numbers, without those that have none, or one of another name."""
    done = np.int64(0)
    out_indptr[0] = 0
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            slot = slots[place_of(np.int64(indices[k]), slots, numbers)]
            if slot != NOBODY and not is_another(names, k, kept, slot):
                out_indices[done], out_values[done] = slot, values[k]
                done += 1
        out_indptr[i + 1] = done


def known_rows(
    batch: Batch, slots: NDArray[np.int32], numbers: NDArray[np.int64], kept: KeptNames, n_features: int
) -> Batch:
    """Rows with slots for numbers, without those that have none, or one of another name."""
    indptr, most = batch.indptr.astype(np.int64, copy=False), int(batch.indptr[-1])
    found = np.empty(len(indptr), np.int64), np.empty(most, np.int32), np.empty(most, batch.values.dtype)
    _known(indptr, batch.indices, batch.values, batch.names or NO_NAMES, slots, numbers, kept, *found)
    return rows_of(batch, found, n_features)


def rows_of(rows: Batch, found: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]], n_features: int) -> Batch:
    """The rows with these row pointers, indices and values, of which there may be more."""
    indptr, indices, values = found
    end = int(indptr[len(rows)])
    return replace(
        rows,
        indptr=indptr[: len(rows) + 1],
        indices=indices[:end],
        values=values[:end],
        n_features=n_features,
        names=None,
    )


class SlotTable:
    """Slots of feature numbers, in the order of their first appearance; slot 0 is nobody's.

    Examples
    --------
    >>> table = SlotTable()
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([7, 4_000_000, 7]), np.ones(3), 1 << 22)
    >>> table.admit(rows).indices
    array([1, 2, 1], dtype=int32)
    >>> table.numbers
    array([      7, 4000000])

    """

    def __init__(self) -> None:
        self.count = 1  # slots, nobody's included
        self.names = KeptNames.none()
        self._slots, self._numbers = np.zeros(_SMALLEST, np.int32), np.full(_SMALLEST // 2, -1, np.int64)

    @classmethod
    def of(cls, numbers: NDArray[Any], names: KeptNames | None = None) -> Self:
        """One in which these numbers, all different, have the slots from 1 on, in their order; and these names."""
        made = cls()
        made.names = names or made.names
        made.count = len(numbers) + 1
        made._numbers = np.full(len(numbers) + 1, -1, np.int64)
        made._numbers[1:] = numbers
        made._grow()
        return made

    def __len__(self) -> int:
        return self.count

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Of the slots from 1 on."""
        return self._numbers[1 : self.count]

    @property
    def nbytes(self) -> int:
        """Bytes of it."""
        return self._slots.nbytes + self._numbers.nbytes

    def admit(self, batch: Batch) -> Batch:
        """The rows with slots for numbers, in the same order; numbers never met get one."""
        indices = batch.indices[: batch.indptr[-1]]
        out, done = np.empty(len(indices), np.int32), 0
        while True:
            done, self.count = map(int, _admit(indices, done, self._slots, self._numbers, self.count, out))
            if done == len(indices):
                return replace(batch, indices=out, n_features=self.count)
            self._grow()

    def find(self, batch: Batch, width: int) -> Batch:
        """The rows with slots for numbers, in the same order; one that is not below ``width`` is beyond all slots.

        Another thread may be learning: slots are read before numbers, which are written before them, and counted last.
        """
        indices = batch.indices[: batch.indptr[-1]]
        out = np.empty(len(indices), np.int32)
        _find(indices, width, self._slots, self._numbers, out)
        return replace(batch, indices=out, n_features=self.count if batch.n_features <= width else BEYOND + 1)

    def known(self, batch: Batch) -> Batch:
        """The rows by the features that have a slot."""
        return known_rows(batch, self._slots, self._numbers, self.names, self.count)

    def _grow(self) -> None:
        """Room for twice as many; half of the places stay free, so that searches are short."""
        places = max(_SMALLEST, 1 << (4 * self.count - 1).bit_length())
        numbers = np.full(places // 2, -1, np.int64)
        numbers[: self.count] = self._numbers[: self.count]
        slots = np.zeros(places, np.int32)
        _enter(slots, numbers, self.count)
        self._numbers = numbers
        self._slots = slots
