"""Which features have a slot: as many as the budget allows, admitted at their n-th sight."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.budget.sketch import MOST, count, count_of, halve, sketch_shape
from thinstream.compact.table import NOBODY, known_rows, place_of, rows_of
from thinstream.errors import InvalidParameterError
from thinstream.jit import compiled
from thinstream.learners.learner import EVERY_WEIGHT_1
from thinstream.spelling import NO_NAMES, KeptNames, is_another, keep_name

#: At which sight a feature is admitted, by default.
ADMIT = 2
#: Counters of a table: slots that are free, features ever admitted, numbers counted since counts were halved, features
#: of rows left out as their number is that of another name, bytes of names.
FREE, ADMITTED, COUNTED, APART, FILLED = range(5)
#: One in so many features gives way when no slot is left.
SHARE = 8


@compiled("thinstream.budget.sketch", "thinstream.compact.table", "thinstream.spelling")
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
    """Rows from ``start`` on with slots for numbers, without those that have none; the first for which room is needed.

    Room was just made for the row ``fresh``: what does not fit even so waits for its next sight. A feature whose number
    is kept under another name has no slot. One that is kept without a name, as of a file, takes that of its next sight.
    """
    out_indptr[0] = 0
    done = np.int64(0)
    for i in range(start, len(indptr) - 1):
        learned = len(weights) == 0 or weights[i] != 0.0
        needed = np.int64(0)
        if learned:
            for k in range(indptr[i], indptr[i + 1]):
                number = np.int64(indices[k])
                if slots[place_of(number, slots, numbers)] == NOBODY and count_of(number, sketch) + 1 >= admit:
                    needed += 1
        if needed > counters[FREE] and i != fresh:
            return i
        for k in range(indptr[i], indptr[i + 1]):
            number = np.int64(indices[k])
            at = place_of(number, slots, numbers)
            if slots[at] == NOBODY and learned:
                seen = count(number, sketch)
                counters[COUNTED] += 1
                if counters[COUNTED] == sketch.shape[1] // 2:
                    counters[COUNTED] = halve(sketch)
                if seen >= admit and counters[FREE] > 0:
                    counters[FREE] -= 1
                    slot = free[counters[FREE]]
                    counters[FILLED] = keep_name(names, k, kept, slot, counters[FILLED])
                    numbers[slot], born[slot] = number, counters[ADMITTED]
                    slots[at] = slot
                    counters[ADMITTED] += 1
            slot = slots[at]
            if slot == NOBODY:
                continue
            if is_another(names, k, kept, slot):
                counters[APART] += 1
                continue
            if learned and len(names.spans) > 0 and kept.places[slot, 0] < 0:
                counters[FILLED] = keep_name(names, k, kept, slot, counters[FILLED])
            out_indices[done], out_values[done] = slot, values[k]
            done += 1
        out_indptr[i - start + 1] = done
    return len(indptr) - 1


@compiled("thinstream.compact.table")
def _enter(slots: Any, numbers: Any) -> None:
    """All numbers there are, into an empty table."""
    for slot in range(1, len(numbers)):
        if numbers[slot] >= 0:
            slots[place_of(numbers[slot], slots, numbers)] = slot


class BudgetTable:
    """Slots of the features that are kept; slot 0 is nobody's.

    Parameters
    ----------
    max_features : int
        Slots there are.
    admit : int from 1 to 255
        At which sight a feature gets one; rows of weight 0 are no sight.

    Examples
    --------
    >>> table = BudgetTable(max_features=1, admit=2)
    >>> rows = Batch.of(np.array([0, 2, 4]), np.array([7, 9, 5, 7]), np.ones(4), 10)
    >>> taken, reached = table.take(rows, 0)
    >>> taken.indptr, taken.indices, table.numbers, reached
    (array([0, 0, 1]), array([1], dtype=int32), array([7]), 2)

    """

    def __init__(self, max_features: int, admit: int = ADMIT) -> None:
        for name, given, most in (("max_features", max_features, 2**30), ("admit", admit, MOST)):
            if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 1 <= given <= most:
                raise InvalidParameterError(f"{name} must be an integer from 1 to {most}, got {given!r}")
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
        """One in which these numbers have the slots from 1 on, and these names."""
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
        self._settle()

    def _settle(self) -> None:
        """Slots by place, and those that are free, the lowest last, as they stand in the numbers."""
        slots = np.zeros(1 << (2 * self.max_features + 1).bit_length(), np.int32)
        _enter(slots, self._numbers)
        free = 1 + np.flatnonzero(self._numbers[1:] < 0)[::-1]
        self._slots, self._free = slots, np.zeros(self.max_features, np.int32)
        self._free[: len(free)] = free
        self.counters[FREE] = len(free)

    def __len__(self) -> int:
        """Slots that have been used, nobody's included."""
        return self._top

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Of the slots from 1 on; −1 where one is free."""
        return self._numbers[1 : self._top]

    @property
    def nbytes(self) -> int:
        """Bytes of it, which do not become more, but for names: these are as long as they are."""
        arrays = (self._slots, self._numbers, self._free, self.born, self.sketch, self.counters)
        return sum(array.nbytes for array in arrays) + self.names.nbytes

    @property
    def n_apart(self) -> int:
        """Features of rows that were left out since it was made: their number is kept under another name."""
        return int(self.counters[APART])

    @property
    def used(self) -> NDArray[np.int64]:
        """Slots of features that are kept."""
        return np.flatnonzero(self._numbers >= 0)

    def take(self, batch: Batch, start: int, fresh: int = -1) -> tuple[Batch, int]:
        """Rows from ``start`` on, to be learned, and which is the first for which room has to be made.

        ``fresh``: the row for which that was just done.
        """
        indptr = batch.indptr.astype(np.int64, copy=False)
        most = int(indptr[-1] - indptr[start])
        found = np.empty(len(indptr) - start, np.int64), np.empty(most, np.int32), np.empty(most, batch.values.dtype)
        weights = EVERY_WEIGHT_1 if batch.weights is None else batch.weights
        names = batch.names or NO_NAMES
        if batch.names is not None:
            self._make_room_for_names(names.size)
        own = self._slots, self._numbers, self.born, self._free, self.sketch, self.counters, self.names
        rows = indptr, batch.indices, batch.values, names, weights, start, fresh
        reached = int(_take(*rows, self.admit, *own, *found))
        self._top = max(self._top, 1 + int(self.max_features - self.counters[FREE]))
        return rows_of(batch.until(reached).after(start), found, len(self)), reached

    def known(self, batch: Batch) -> Batch:
        """Rows by the features that are kept."""
        return known_rows(batch, self._slots, self._numbers, self.names, len(self))

    def release(self, gone: NDArray[np.int64]) -> None:
        """These slots are free again."""
        self._numbers[gone], self.born[gone] = -1, 0
        if len(self.names.places):
            places = self.names.places.copy()
            places[gone] = -1
            self.names = KeptNames.of(*KeptNames(self.names.text, places).packed())
            self.counters[FILLED] = len(self.names.text)
        self._settle()

    def _make_room_for_names(self, more: int) -> None:
        """Room for so many bytes of names behind those there are."""
        if not len(self.names.places):
            self.names = self.names._replace(places=np.full((self.max_features + 1, 3), -1, np.int64))
        filled, text = int(self.counters[FILLED]), self.names.text
        if filled + more > len(text):
            room = np.empty(filled + max(more, filled // 2), np.uint8)
            room[:filled] = text[:filled]
            self.names = self.names._replace(text=room)
