"""The slot of each feature number: a hash table in two arrays, slots by position and numbers by slot."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import NO_NAMES, Batch, KeptNames, is_another
from thinstream.jit import compiled, scalar

#: The null slot, for features that never occurred. Its state is never updated, so it stays fresh.
NULL = 0
_SMALLEST = 1 << 10
#: A feature number that no learner has.
BEYOND = 2**31 - 2
_GOLDEN, _LOW, _16, _32 = np.uint64(0x9E3779B1), np.uint64(2**32 - 1), np.uint64(16), np.uint64(32)


@scalar
def home(number: Any, size: Any) -> Any:
    """Return the position where the search for a number begins; ``size`` is a power of two."""
    long = np.uint64(number)
    return np.int64((((long ^ long >> _32) & _LOW) * _GOLDEN >> _16) & np.uint64(size - 1))


@scalar
def position_of(number: Any, slots: Any, numbers: Any) -> Any:
    """Return the position of a number, or the free position for it."""
    last = len(slots) - 1
    at = home(number, len(slots))
    while slots[at] != NULL and numbers[slots[at]] != number:
        at = (at + 1) & last
    return at


@compiled()
def _find(indices: Any, width: Any, slots: Any, numbers: Any, out: Any) -> None:
    """Find the slots of numbers. Unknown numbers have the null slot, or `BEYOND` if they are not below ``width``."""
    for k in range(len(indices)):
        number = np.int64(indices[k])
        slot = slots[position_of(number, slots, numbers)]
        out[k] = BEYOND if slot == NULL and number >= width else slot


@compiled()
def _admit(indices: Any, start: Any, slots: Any, numbers: Any, count: Any, out: Any) -> Any:
    """Find the slots of numbers from ``start`` on, and add new ones. Return where it ran out of room, and the slots."""
    for k in range(start, len(indices)):
        number = np.int64(indices[k])
        at = position_of(number, slots, numbers)
        if slots[at] == NULL:
            if count == len(numbers):
                return k, count
            slots[at], numbers[count] = count, number
            count += 1
        out[k] = slots[at]
    return len(indices), count


@compiled()
def _enter(slots: Any, numbers: Any, count: Any) -> None:
    """Enter the numbers of the slots from 1 on into an empty table."""
    for slot in range(1, count):
        slots[position_of(numbers[slot], slots, numbers)] = slot


@compiled()
def _admit_rows(indptr: Any, indices: Any, most: Any, slots: Any, numbers: Any, count: Any) -> Any:
    """Give slots to the features of rows. Return how many rows come before one that needs too many, and the slots."""
    for i in range(len(indptr) - 1):
        before = count
        for k in range(indptr[i], indptr[i + 1]):
            number = np.int64(indices[k])
            at = position_of(number, slots, numbers)
            if slots[at] == NULL:
                if count > most:
                    while count > before:  # in reverse order, so that other searches still work
                        count -= 1
                        slots[position_of(numbers[count], slots, numbers)] = NULL
                    return i, count
                slots[at], numbers[count] = count, number
                count += 1
    return len(indptr) - 1, count


@compiled("thinstream.batch")
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
    """Encode rows, without features that have no slot or whose slot has another name."""
    done = np.int64(0)
    out_indptr[0] = 0
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            slot = slots[position_of(np.int64(indices[k]), slots, numbers)]
            if slot != NULL and not is_another(names, k, kept, slot):
                out_indices[done], out_values[done] = slot, values[k]
                done += 1
        out_indptr[i + 1] = done


def known_rows(
    batch: Batch, slots: NDArray[np.int32], numbers: NDArray[np.int64], kept: KeptNames, n_features: int
) -> Batch:
    """Encode rows, without features that have no slot or whose slot has another name."""
    indptr, most = batch.indptr.astype(np.int64, copy=False), int(batch.indptr[-1])
    out = np.empty(len(indptr), np.int64), np.empty(most, np.int32), np.empty(most, batch.values.dtype)
    _known(indptr, batch.indices, batch.values, batch.names or NO_NAMES, slots, numbers, kept, *out)
    return rows_of(batch, out, n_features)


def rows_of(rows: Batch, arrays: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[Any]], n_features: int) -> Batch:
    """Return the rows with these row pointers, indices and values. The arrays can be longer than needed."""
    indptr, indices, values = arrays
    end = int(indptr[len(rows)])
    return replace(
        rows,
        indptr=indptr[: len(rows) + 1],
        indices=indices[:end],
        values=values[:end],
        n_features=n_features,
        names=None,
    )


def names_of(table: Any, numbers: NDArray[np.int64]) -> KeptNames:
    """Return the names in a table of these numbers, which have a slot there."""
    order = np.argsort(table.numbers)
    names: KeptNames = table.names.at(1 + order[np.searchsorted(table.numbers, numbers, sorter=order)])
    return names


class SlotTable:
    """Slots of feature numbers, in the order of their first occurrence. Slot 0 is the null slot.

    Examples
    --------
    >>> table = SlotTable()
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([7, 4_000_000, 7]), np.ones(3), 1 << 22)
    >>> table.admit(rows).indices
    array([1, 2, 1], dtype=int32)
    >>> table.numbers
    array([      7, 4000000])

    """

    def __init__(self, drops_unknown: bool = False) -> None:
        self.count = 1  # slots, including the null slot
        self.names = KeptNames.none()
        self.drops_unknown = drops_unknown  #: whether features without a slot are left out of rows
        self._slots, self._numbers = np.zeros(_SMALLEST, np.int32), np.full(_SMALLEST // 2, -1, np.int64)

    @classmethod
    def of(cls, numbers: NDArray[Any], names: KeptNames | None = None, drops_unknown: bool = False) -> Self:
        """Return a table in which these numbers, all different, have the slots from 1 on, and these names."""
        made = cls(drops_unknown)
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
        """The feature numbers of the slots from 1 on."""
        return self._numbers[1 : self.count]

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._numbers.nbytes

    def encode(self, batch: Batch, evict: Callable[[Any], None]) -> Iterator[Batch]:
        """Yield the rows to learn, with slots for feature numbers. Nothing is ever evicted.

        A table that drops unknown features admits none: its features are fixed.
        """
        yield self.find(batch, 0) if self.drops_unknown else self.admit(batch)

    def admit(self, batch: Batch) -> Batch:
        """Encode rows for learning. New feature numbers get a slot."""
        indices = batch.indices[: batch.indptr[-1]]
        out, done = np.empty(len(indices), np.int32), 0
        while True:
            done, self.count = map(int, _admit(indices, done, self._slots, self._numbers, self.count, out))
            if done == len(indices):
                return replace(batch, indices=out, n_features=self.count)
            self._grow()

    def find(self, batch: Batch, width: int) -> Batch:
        """Encode rows for scoring. Numbers that are not below ``width`` become `BEYOND`.

        Another thread may be learning. Slots are read before numbers, but written after them, and the count is last.
        """
        if self.drops_unknown:
            return known_rows(batch, self._slots, self._numbers, self.names, self.count)
        indices = batch.indices[: batch.indptr[-1]]
        out = np.empty(len(indices), np.int32)
        _find(indices, width, self._slots, self._numbers, out)
        return replace(batch, indices=out, n_features=self.count if batch.n_features <= width else BEYOND + 1)

    def names_of(self, numbers: NDArray[np.int64]) -> KeptNames:
        """Return the names of these numbers, which have a slot here."""
        return names_of(self, numbers)

    def _grow(self) -> None:
        """Double the room. Half of the positions stay free, so searches are short."""
        size = max(_SMALLEST, 1 << (4 * self.count - 1).bit_length())
        numbers = np.full(size // 2, -1, np.int64)
        numbers[: self.count] = self._numbers[: self.count]
        slots = np.zeros(size, np.int32)
        _enter(slots, numbers, self.count)
        self._numbers = numbers
        self._slots = slots


class FewFeatures:
    """Slots from 1 on for data with few features, in order of appearance.

    Examples
    --------
    >>> features = FewFeatures(2)
    >>> rows = Batch.of(np.array([0, 2, 3]), np.array([7, 4_000_000, 9]), np.ones(3), 1 << 22)
    >>> features.admit(rows, 2), features.numbers, features.find(np.array([9, 7]))
    (1, array([      7, 4000000]), array([0, 1], dtype=int32))

    """

    def __init__(self, most: int) -> None:
        self.most = most  #: largest number of features
        self._slots, self._numbers = np.zeros(1 << (4 * most).bit_length(), np.int32), np.full(most + 2, -1, np.int64)
        self.count = 1

    def __setstate__(self, state: dict[str, Any]) -> None:
        copies = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in state.items()}
        self.__dict__.update(copies)  # arrays may be mapped from a file

    def __len__(self) -> int:
        """Return the number of features that have a slot."""
        return self.count - 1

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The feature numbers of the slots from 1 on."""
        return self._numbers[1 : self.count]

    @numbers.setter
    def numbers(self, numbers: NDArray[np.int64]) -> None:
        self._slots[:], self.count = NULL, len(numbers) + 1
        self._numbers[1 : self.count] = numbers
        _enter(self._slots, self._numbers, self.count)

    def admit(self, rows: Batch, most: int) -> int:
        """Give slots to the features of rows. Return how many rows come before one that needs more than ``most``."""
        indptr = rows.indptr.astype(np.int64, copy=False)
        n_rows, self.count = map(
            int, _admit_rows(indptr, rows.indices, min(most, self.most), self._slots, self._numbers, self.count)
        )
        return n_rows

    def find(self, features: NDArray[Any]) -> NDArray[np.int32]:
        """Return the slots of these features, 0 for a feature without one."""
        slots = np.empty(len(features), np.int32)
        _find(features, np.iinfo(np.int64).max, self._slots, self._numbers, slots)
        return slots
