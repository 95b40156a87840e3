"""The slot of each feature number: for all features that occur, for those in a budget, or for few features."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import NO_NAMES, Batch, KeptNames, is_another, keep_name
from thinstream.engine.rows import EVERY_WEIGHT_1
from thinstream.errors import InvalidParameterError
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
def _enter(slots: Any, numbers: Any) -> None:
    """Enter the numbers of the slots from 1 on into an empty table. A free slot has the number -1."""
    for slot in range(1, len(numbers)):
        if numbers[slot] >= 0:
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


class Table:
    """Slots of feature numbers, and names of some features. Slot 0 is the null slot."""

    names: KeptNames
    drops_unknown: bool  #: whether features without a slot are left out of rows

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The feature numbers of the slots from 1 on, -1 for a free slot."""
        raise NotImplementedError

    def names_of(self, numbers: NDArray[np.int64]) -> KeptNames:
        """Return the names of these numbers, which have a slot here."""
        order = np.argsort(self.numbers)
        return self.names.at(1 + order[np.searchsorted(self.numbers, numbers, sorter=order)])


class SlotTable(Table):
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
        self.drops_unknown = drops_unknown
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

    def _grow(self) -> None:
        """Double the room. Half of the positions stay free, so searches are short."""
        size = max(_SMALLEST, 1 << (4 * self.count - 1).bit_length())
        numbers = np.full(size // 2, -1, np.int64)
        numbers[: self.count] = self._numbers[: self.count]
        slots = np.zeros(size, np.int32)
        _enter(slots, numbers)
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
        _enter(self._slots, self._numbers[: self.count])

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


# A feature budget: at most N features at a time; the least important ones are evicted.
#
# The approximate number of occurrences of each feature: a count-min sketch of bytes, with halving.
#
# It has four rows of counters. A feature number has one counter in each row. The smallest of them is an upper bound of
# its occurrences, and only the smallest ones are incremented. When half as many occurrences were counted as a row has
# counters, all counters are halved. So rare old features are forgotten, and the sketch never fills up.

DEPTH, MOST = 4, 255
_ODD = (np.uint64(0x9E3779B1), np.uint64(0x85EBCA77), np.uint64(0xC2B2AE3D), np.uint64(0x27D4EB2F))
_LOW, _15, _32 = np.uint64(2**32 - 1), np.uint64(15), np.uint64(32)


def sketch_shape(features: int) -> tuple[int, int]:
    """Return the shape of the sketch for a budget of ``features``: four to eight counters per feature in each row."""
    return DEPTH, 1 << max(4 * features - 1, 15).bit_length()


@scalar
def cell(number: Any, row: Any, width: Any) -> Any:
    """Return the counter of a number in a row."""
    long = np.uint64(number)
    return np.int64((((long ^ long >> _32) & _LOW) * _ODD[row] >> _15) & np.uint64(width - 1))


@scalar
def count_of(number: Any, sketch: Any) -> Any:
    """Return an upper bound of the occurrences of a number."""
    smallest: Any = MOST
    for row in range(DEPTH):
        smallest = min(smallest, np.int64(sketch[row, cell(number, row, sketch.shape[1])]))
    return smallest


@scalar
def count(number: Any, sketch: Any) -> Any:
    """Count one more occurrence of a number; return the new count."""
    before = count_of(number, sketch)
    if before < MOST:
        for row in range(DEPTH):
            column = cell(number, row, sketch.shape[1])
            if sketch[row, column] == before:
                sketch[row, column] = before + 1
    return before + 1


@scalar
def halve(sketch: Any) -> Any:
    """Halve all counts."""
    for row in range(DEPTH):
        for column in range(sketch.shape[1]):
            sketch[row, column] //= 2
    return 0


# The features with a slot: as many as the budget allows, admitted at their n-th occurrence.

#: The default occurrence at which a feature is admitted.
ADMIT = 2
#: Counters of a table: free slots, features admitted so far, occurrences counted since counts were halved, features
#: left out because their number has another name, bytes of names.
FREE, ADMITTED, COUNTED, COLLISIONS, FILLED = range(5)
#: One in eight features is evicted when no slot is left.
SHARE = 8


@compiled("thinstream.batch")
def _take(
    indptr: Any,
    indices: Any,
    values: Any,
    names: Any,
    weights: Any,
    start: Any,
    fresh: Any,
    admit: Any,
    slots: Any,
    numbers: Any,
    born: Any,
    free: Any,
    sketch: Any,
    counters: Any,
    kept: Any,
    out_indptr: Any,
    out_indices: Any,
    out_values: Any,
) -> Any:
    """Encode rows from ``start`` on, without features that have no slot. Return the first row that needs room.

    Features were just evicted for the row ``fresh``. If its features still do not fit, they wait for their next
    occurrence. A feature whose number has another name has no slot. A feature without a name gets that of its next
    occurrence.
    """
    out_indptr[0] = 0
    done = np.int64(0)
    for i in range(start, len(indptr) - 1):
        learned = len(weights) == 0 or weights[i] != 0.0
        needed = np.int64(0)
        if learned:
            for k in range(indptr[i], indptr[i + 1]):
                number = np.int64(indices[k])
                if slots[position_of(number, slots, numbers)] == NULL and count_of(number, sketch) + 1 >= admit:
                    needed += 1
        if needed > counters[FREE] and i != fresh:
            return i
        for k in range(indptr[i], indptr[i + 1]):
            number = np.int64(indices[k])
            at = position_of(number, slots, numbers)
            if slots[at] == NULL and learned:
                occurrences = count(number, sketch)
                counters[COUNTED] += 1
                if counters[COUNTED] == sketch.shape[1] // 2:
                    counters[COUNTED] = halve(sketch)
                if occurrences >= admit and counters[FREE] > 0:
                    counters[FREE] -= 1
                    slot = free[counters[FREE]]
                    counters[FILLED] = keep_name(names, k, kept, slot, counters[FILLED])
                    numbers[slot], born[slot] = number, counters[ADMITTED]
                    slots[at] = slot
                    counters[ADMITTED] += 1
            slot = slots[at]
            if slot == NULL:
                continue
            if is_another(names, k, kept, slot):
                counters[COLLISIONS] += 1
                continue
            if learned and len(names.spans) > 0 and kept.places[slot, 0] < 0:
                counters[FILLED] = keep_name(names, k, kept, slot, counters[FILLED])
            out_indices[done], out_values[done] = slot, values[k]
            done += 1
        out_indptr[i - start + 1] = done
    return len(indptr) - 1


class BudgetTable(Table):
    """Slots of the features in the budget. Slot 0 is the null slot.

    All other features are left out of rows, also from their length. If a row needs more slots than are free, an eighth
    of the features is evicted first: the least important ones, and of equally important ones those admitted first. All
    earlier rows are learned by then, so the result does not depend on batches.

    Parameters
    ----------
    max_features : int
        Number of slots.
    admit : int from 1 to 255
        The occurrence at which a feature gets a slot. Rows of weight 0 do not count.

    Examples
    --------
    >>> table = BudgetTable(max_features=1, admit=2)
    >>> rows = Batch.of(np.array([0, 2, 4]), np.array([7, 9, 5, 7]), np.ones(4), 10)
    >>> taken, reached = table.take(rows, 0)
    >>> taken.indptr, taken.indices, table.numbers, reached
    (array([0, 0, 1]), array([1], dtype=int32), array([7]), 2)

    """

    drops_unknown = True

    def __init__(self, max_features: int, admit: int = ADMIT) -> None:
        for name, value, most in (("max_features", max_features, 2**30), ("admit", admit, MOST)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= most:
                raise InvalidParameterError(f"{name} must be an integer from 1 to {most}, got {value!r}")
        self.max_features, self.admit = int(max_features), int(admit)
        self.born = np.zeros(self.max_features + 1, np.int64)
        self.sketch = np.zeros(sketch_shape(self.max_features), np.uint8)
        self.counters = np.zeros(5, np.int64)
        self.names = KeptNames.none()
        self._put(np.empty(0, np.int64))

    @classmethod
    def of(
        cls,
        max_features: int,
        admit: int,
        numbers: NDArray[np.int64],
        born: NDArray[np.int64],
        sketch: NDArray[np.uint8],
        counters: NDArray[np.int64],
        names: KeptNames | None = None,
    ) -> Self:
        """Return a table in which these numbers have the slots from 1 on, and these names."""
        made = cls(max_features, admit)
        made.sketch = sketch.copy()
        made.counters[: len(counters)] = counters
        made.born[1 : len(born) + 1] = born
        made._put(numbers)
        if names is not None and len(names.places):
            made._make_room_for_names(names.text.nbytes)
            made.names.places[: len(names.places)] = names.places
            made.names.text[: len(names.text)] = names.text
            made.counters[FILLED] = len(names.text)
        return made

    def _put(self, numbers: NDArray[np.int64]) -> None:
        self._numbers = np.full(self.max_features + 1, -1, np.int64)
        self._numbers[1 : len(numbers) + 1] = numbers
        self._top = len(numbers) + 1
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the hash table and the list of free slots, the lowest last, from the numbers."""
        slots = np.zeros(1 << (2 * self.max_features + 1).bit_length(), np.int32)
        _enter(slots, self._numbers)
        free = 1 + np.flatnonzero(self._numbers[1:] < 0)[::-1]
        self._slots, self._free = slots, np.zeros(self.max_features, np.int32)
        self._free[: len(free)] = free
        self.counters[FREE] = len(free)

    def __len__(self) -> int:
        """Return the number of slots used so far, including the null slot."""
        return self._top

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The feature numbers of the slots from 1 on, −1 for a free slot."""
        return self._numbers[1 : self._top]

    @property
    def nbytes(self) -> int:
        """The bytes of the table. Only the names can grow."""
        arrays = (self._slots, self._numbers, self._free, self.born, self.sketch, self.counters)
        return sum(array.nbytes for array in arrays) + self.names.nbytes

    @property
    def n_collisions(self) -> int:
        """The number of features left out of rows because their number belongs to another name."""
        return int(self.counters[COLLISIONS])

    @property
    def used(self) -> NDArray[np.int64]:
        """The slots in use."""
        return np.flatnonzero(self._numbers >= 0)

    def encode(self, batch: Batch, evict: Callable[["BudgetTable"], None]) -> Iterator[Batch]:
        """Yield encoded rows to learn. Call ``evict`` before a row that needs room."""
        start, fresh = 0, -1
        while True:
            rows, reached = self.take(batch, start, fresh)
            yield rows
            if reached == len(batch):
                return
            evict(self)
            start = fresh = reached

    def least_important(self, importance: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the slots of the features to evict next, given the importance of every slot."""
        used = self.used
        order = np.lexsort((self.born[used], importance[used]))
        return used[order[: max(len(used) // SHARE, 1)]]

    def take(self, batch: Batch, start: int, fresh: int = -1) -> tuple[Batch, int]:
        """Return encoded rows from ``start`` on, and the first row that needs room.

        ``fresh`` is the row for which features were just evicted.
        """
        indptr = batch.indptr.astype(np.int64, copy=False)
        most = int(indptr[-1] - indptr[start])
        out = np.empty(len(indptr) - start, np.int64), np.empty(most, np.int32), np.empty(most, batch.values.dtype)
        weights = EVERY_WEIGHT_1 if batch.weights is None else batch.weights
        names = batch.names or NO_NAMES
        if batch.names is not None:
            self._make_room_for_names(names.size)
        own = self._slots, self._numbers, self.born, self._free, self.sketch, self.counters, self.names
        rows = indptr, batch.indices, batch.values, names, weights, start, fresh
        reached = int(_take(*rows, self.admit, *own, *out))
        self._top = max(self._top, 1 + int(self.max_features - self.counters[FREE]))
        return rows_of(batch.until(reached).after(start), out, len(self)), reached

    def find(self, batch: Batch, width: int) -> Batch:
        """Encode rows for scoring, without features outside the budget."""
        return known_rows(batch, self._slots, self._numbers, self.names, len(self))

    def release(self, gone: NDArray[np.int64]) -> None:
        """Free these slots."""
        self._numbers[gone], self.born[gone] = -1, 0
        if len(self.names.places):
            places = self.names.places.copy()
            places[gone] = -1
            self.names = KeptNames.of(*KeptNames(self.names.text, places).packed())
            self.counters[FILLED] = len(self.names.text)
        self._rebuild()

    def _make_room_for_names(self, more: int) -> None:
        """Make room for a number of bytes after the existing names."""
        if not len(self.names.places):
            self.names = self.names._replace(places=np.full((self.max_features + 1, 3), -1, np.int64))
        filled, text = int(self.counters[FILLED]), self.names.text
        if filled + more > len(text):
            room = np.empty(filled + max(more, filled // 2), np.uint8)
            room[:filled] = text[:filled]
            self.names = self.names._replace(text=room)


# Merging tables.


def merged_table(
    tables: Sequence[BudgetTable], numbers: NDArray[np.int64], importance: NDArray[np.float64]
) -> tuple[BudgetTable, NDArray[np.int64]]:
    """Return one table out of several, and where slots of the numbers move: -1 for features that are evicted.

    ``numbers``, sorted, have the slots from 1 on in the merged model. If there are more features than the budget
    allows, the least important are evicted. Occurrences add, as far as the sketch counts.
    """
    names, first = _common_names(tables, numbers), tables[0]
    born = np.full(len(numbers), np.iinfo(np.int64).max)
    for table in tables:
        positions = np.searchsorted(numbers, table.numbers[table.used - 1])
        born[positions] = np.minimum(born[positions], table.born[table.used])
    born[np.lexsort((numbers, born))] = np.arange(len(numbers))
    least_first = np.lexsort((born, importance[1:]))
    kept = np.sort(least_first[max(len(numbers) - first.max_features, 0) :])
    where = np.full(len(numbers) + 1, -1)
    where[1 + kept] = np.arange(1, len(kept) + 1)
    occurrences = np.sum([table.sketch for table in tables], axis=0, dtype=np.int64)
    counters = np.array([0, len(numbers), max(int(table.counters[COUNTED]) for table in tables)])
    sketch = np.minimum(occurrences, MOST).astype(np.uint8)
    left = None if names is None else KeptNames.of(*names.at(1 + kept).packed())
    return BudgetTable.of(first.max_features, first.admit, numbers[kept], born[kept], sketch, counters, left), where


def names_by_number(table: BudgetTable) -> dict[int, tuple[int, bytes]]:
    """Return a dict from number to the length of the namespace, and the name."""
    text, slots = table.names.text.tobytes(), table.names.there
    places = table.names.places[slots].tolist()
    numbers = table.numbers[slots - 1].tolist()
    return {n: (middle - start, text[start:stop]) for n, (start, middle, stop) in zip(numbers, places, strict=True)}


def _common_names(tables: Sequence[BudgetTable], numbers: NDArray[np.int64]) -> KeptNames | None:
    """Merge the feature names of all tables, in slot order from slot 1 on. Return None if there are no names."""
    by_number: dict[int, tuple[int, bytes]] = {}
    for table in tables:
        by_number = names_by_number(table) | by_number
    if not by_number:
        return None
    entries = [by_number.get(number, (-1, b"")) for number in numbers.tolist()]
    text = np.frombuffer(bytearray(b"".join(name for _, name in entries)), np.uint8)
    ends = np.cumsum([len(name) for _, name in entries], dtype=np.int64)
    return KeptNames.of(text, ends, np.array([head for head, _ in entries], np.int64))
