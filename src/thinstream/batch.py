"""Batches of examples, and the names of features that travel with them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError
from thinstream.jit import compiled, scalar

# Names of features as bytes: those in rows, and those of features with a slot.
#
# A name has a head (a namespace with its separator, as in ``city=`` and ``subject^``, or nothing) and a rest.
# Two features have the same name if both are equal, byte by byte.


def texts_at(text: NDArray[np.uint8], spans: NDArray[Any], errors: str = "replace") -> list[str]:
    """Return strings from a text in UTF-8; each row of ``spans`` has the starts and stops of the parts of one string.

    >>> texts_at(np.frombuffer(b"Oslo,Rome", np.uint8), np.array([[0, 4], [5, 9]]))
    ['Oslo', 'Rome']
    """
    packed, ends = np.empty(int(_size(spans)), np.uint8), np.empty(len(spans), np.int64)
    _put_together(text, spans, packed, ends)
    whole, stops = packed.tobytes(), ends.tolist()
    starts = [0, *stops[:-1]]
    if whole.isascii():  # each character is a byte
        characters = whole.decode()
        return [characters[start:stop] for start, stop in zip(starts, stops, strict=False)]
    return [whole[start:stop].decode("utf-8", errors) for start, stop in zip(starts, stops, strict=False)]


#: Places of a feature that has no name.
_NAMELESS = -1


class Spelled(NamedTuple):
    """Names of the features of rows, one after another.

    >>> names = Spelled.of([("city=", "Oslo"), ("", "age")])
    >>> names.texts()
    ['city=Oslo', 'age']
    """

    text: NDArray[np.uint8]
    spans: NDArray[np.int32]  # of each feature: start and stop of the head, start and stop of the rest; −1: no name

    @classmethod
    def of(cls, names: Iterable[tuple[str, str]]) -> Self:
        """Return the bytes of all heads and rests."""
        parts = [part.encode("utf-8", "surrogatepass") for name in names for part in name]
        ends = np.cumsum([0, *map(len, parts)])
        spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 4).astype(np.int32)
        return cls(np.frombuffer(bytearray(b"".join(parts)), np.uint8), spans)

    @classmethod
    def nameless(cls, count: int) -> Self:
        """Return the names of a number of features that have none."""
        return cls(np.empty(0, np.uint8), np.full((count, 4), _NAMELESS, np.int32))

    def at(self, places: Any) -> Self:
        """Those at some places."""
        return self._replace(spans=np.ascontiguousarray(self.spans[places]))

    def texts(self) -> list[str]:
        """As people read them."""
        return texts_at(self.text, self.spans)

    @property
    def size(self) -> int:
        """The bytes of all names. A name counts once per occurrence."""
        return int(_size(self.spans))

    @classmethod
    def joined(cls, parts: "Sequence[Spelled]") -> Self:
        """Several, one behind another."""
        spans, behind = [], 0
        for part in parts:
            spans.append(np.where(part.spans >= 0, part.spans + np.int32(behind), part.spans))
            behind += len(part.text)
        return cls(np.concatenate([part.text for part in parts]), np.concatenate(spans))


#: The names of rows whose features have none.
NO_NAMES = Spelled.nameless(0)


class KeptNames(NamedTuple):
    """Names of slots, one behind another in any order; slot 0 has none."""

    text: NDArray[np.uint8]
    places: NDArray[np.int64]  # of each slot: start, end of the head, stop; −1: no name

    @classmethod
    def none(cls) -> Self:
        """Return the names of slots that have none."""
        return cls(np.empty(0, np.uint8), np.empty((0, 3), np.int64))

    @classmethod
    def of(cls, text: NDArray[np.uint8], ends: NDArray[np.int64], heads: NDArray[np.int64]) -> Self:
        """Return names by slot (from 1 on) as text, their ends, and the bytes of their heads (−1: no name)."""
        places = np.full((len(ends) + 1, 3), _NAMELESS, np.int64)
        starts = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        places[1:] = np.where((heads >= 0)[:, None], np.stack([starts, starts + heads, ends], axis=1), _NAMELESS)
        return cls(text, places)

    def at(self, slots: NDArray[Any]) -> Self:
        """Those of some slots, for the slots from 1 on."""
        if not len(self.places):
            return self
        return self._replace(places=np.concatenate([np.full((1, 3), _NAMELESS), self.places[slots]]))

    @property
    def there(self) -> NDArray[np.int64]:
        """Slots that have a name."""
        return np.flatnonzero(self.places[:, 0] >= 0)

    @property
    def nbytes(self) -> int:
        """Bytes of them."""
        return self.text.nbytes + self.places.nbytes

    def packed(self) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
        """What `of` takes."""
        start, middle, stop = self.places[1:].T
        ends = np.cumsum(stop - start)
        text = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
        _pack(self.text, self.places, text)
        return text, ends, np.where(start < 0, _NAMELESS, middle - start)

    def texts(self, slots: NDArray[np.int64]) -> list[str]:
        """Names as people read them."""
        places = self.places[slots, ::2].tolist()
        return [bytes(self.text[start:stop]).decode("utf-8", "replace") for start, stop in places]


@compiled()
def _put_together(text: Any, spans: Any, out: Any, ends: Any) -> None:
    """Write the parts of a text one behind another, and where each ends."""
    fill = 0
    for k in range(len(spans)):
        for part in range(0, spans.shape[1], 2):
            for i in range(spans[k, part], spans[k, part + 1]):
                out[fill] = text[i]
                fill += 1
        ends[k] = fill


@compiled()
def _size(spans: Any) -> Any:
    size = np.int64(0)
    for k in range(len(spans)):
        for part in range(0, spans.shape[1], 2):
            size += spans[k, part + 1] - spans[k, part]
    return size


@compiled()
def _pack(text: Any, places: Any, out: Any) -> None:
    done = 0
    for slot in range(1, len(places)):
        for k in range(places[slot, 0], places[slot, 2]):
            out[done] = text[k]
            done += 1


@scalar
def same_bytes(text: Any, start: Any, stop: Any, other: Any, low: Any) -> Any:
    """Whether bytes are those of another text from ``low`` on."""
    k, size = 0, stop - start
    while k < size and text[start + k] == other[low + k]:
        k += 1
    return k == size


@scalar
def same_spelling(text: Any, spans: Any, one: Any, two: Any) -> Any:
    """Whether two features of rows have the same name."""
    for part in (0, 2):
        start, stop, low = spans[one, part], spans[one, part + 1], spans[two, part]
        if stop - start != spans[two, part + 1] - low or (
            start != low and not same_bytes(text, start, stop, text, low)
        ):
            return False
    return True


@scalar
def is_another(names: Any, k: Any, kept: Any, slot: Any) -> Any:
    """Return whether a feature of rows has another name than a slot. A missing name does not differ."""
    if len(names.spans) == 0 or len(kept.places) == 0 or names.spans[k, 0] < 0 or kept.places[slot, 0] < 0:
        return False
    start, middle, stop = kept.places[slot, 0], kept.places[slot, 1], kept.places[slot, 2]
    low, high, first, last = names.spans[k, 0], names.spans[k, 1], names.spans[k, 2], names.spans[k, 3]
    if high - low != middle - start or last - first != stop - middle:
        return True
    same = same_bytes(names.text, first, last, kept.text, middle) and same_bytes(
        names.text, low, high, kept.text, start
    )
    return not same


@scalar
def keep_name(names: Any, k: Any, kept: Any, slot: Any, fill: Any) -> Any:
    """Gives a slot the name of a feature of rows, if that has one; where the text of kept names ends then."""
    if len(names.spans) == 0 or names.spans[k, 0] < 0:
        return fill
    begin = fill
    for j in range(names.spans[k, 0], names.spans[k, 1]):
        kept.text[fill] = names.text[j]
        fill += 1
    middle = fill
    for j in range(names.spans[k, 2], names.spans[k, 3]):
        kept.text[fill] = names.text[j]
        fill += 1
    kept.places[slot, 1], kept.places[slot, 2], kept.places[slot, 0] = middle, fill, begin
    return fill


# The one thing that crosses borders: a few examples as checked CSR arrays.
#
# The invariant, checked once where a batch is made: indices inside a row are sorted, unique (of named features, once
# for each name) and within the width, values are finite and not zero. Duplicate indices would silently change every
# second-order update, so they are summed, never passed on.

_STRETCH = np.uint64(4096)
_FINE, _INDPTR, _INDEX, _VALUE, _ORDER = range(5)


@compiled()
def _check_csr(indptr: Any, indices: Any, bits: Any, width: Any, mask: Any, infinity: Any) -> Any:
    """(whether all is well, bits of the largest |value|), in loops without branches that run as SIMD."""
    n, largest, smallest = len(indptr) - 1, mask & ~mask, mask
    if n < 0 or indptr[0] != 0:
        return False, largest
    turned, descents, outside = np.int64(0), np.int64(0), np.int64(0)
    for i in range(n):
        turned += indptr[i + 1] < indptr[i]
    end = np.uint64(indptr[n])
    if turned or end > len(indices) or end > len(bits):
        return False, largest
    for first in range(np.uint64(0), end, _STRETCH):  # two loops of one kind each, over a piece that stays in cache
        last = min(first + _STRETCH, end)
        for k in range(first, last):
            size = bits[k] & mask  # |x|, whose bits are ordered as the numbers are, infinity and NaN last
            largest, smallest = max(largest, size), min(smallest, size)
        second = first if first > 0 else np.uint64(1)
        for k in range(second, last):
            descents += indices[k] <= indices[k - np.uint64(1)]
    for i in range(n):
        start, stop = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if start < stop:
            # only where a row begins may an index fall; its first and last are its lowest and highest
            descents -= start > 0 and indices[start] <= indices[start - np.uint64(1)]
            outside += indices[start] < 0 or indices[stop - np.uint64(1)] >= width
    tidy = descents == 0 and outside == 0 and (end == 0 or smallest > 0)
    return tidy and largest < infinity, largest


@compiled()
def _find_error(indptr: Any, indices: Any, values: Any, width: Any) -> Any:
    """(verdict, row, place) of the first error, an untidy row only if there is no other."""
    untidy, untidy_row, untidy_place = False, 0, 0
    if len(indptr) == 0 or indptr[0] != 0 or len(indices) != len(values):
        return _INDPTR, 0, 0
    for i in range(len(indptr) - 1):
        start, end = np.int64(indptr[i]), np.int64(indptr[i + 1])
        if end < start or end > len(indices):
            return _INDPTR, i, 0
        last = np.int64(-1)
        for k in range(start, end):
            j, x = np.int64(indices[k]), values[k]
            if j < 0 or j >= width:
                return _INDEX, i, k
            if not np.isfinite(x):
                return _VALUE, i, k
            if (j <= last or x == 0) and not untidy:
                untidy, untidy_row, untidy_place = True, i, k
            last = j
    return (_ORDER, untidy_row, untidy_place) if untidy else (_FINE, 0, 0)


#: Per dtype: the type of its bits, all of them but the sign, and those of infinity.
_BITS: dict[str, Any] = {
    "f": (np.uint32, np.uint32(2**31 - 1), np.uint32(0x7F800000)),
    "d": (np.uint64, np.uint64(2**63 - 1), np.uint64(0x7FF0000000000000)),
}


class Position(NamedTuple):
    """The position where reading a source continues, in plain numbers that can be stored."""

    part: int = 0  # number of the file (or other part) of the source
    offset: int = 0  # within the part: bytes of text (after decompression), or rows
    line: int = 0  # lines of the part before it; 0 without lines
    row: int = 0  # rows of the whole source before the offset
    skip: int = 0  # rows from the offset on that were taken, too


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples in CSR form, with optional labels and weights.

    Labels are ±1 in int8, or, of more than two classes, numbers of classes in int32.

    Make one with `Batch.of`, which checks it (or with `Batch.unchecked`, which leaves that to the learner).

    Examples
    --------
    >>> import numpy as np
    >>> batch = Batch.of(np.array([0, 2, 3]), np.array([0, 4, 1]), np.array([1.0, 0.5, 2.0]), n_features=5)
    >>> len(batch), batch.nnz
    (2, 3)

    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    n_features: int
    y: NDArray[Any] | None = None
    weights: NDArray[np.float64] | None = None
    largest: float = 0.0  # no |value| is above it
    first_row: int = 0  # the number errors give to the first row
    checked: bool = True
    position: Position | None = None  # the position in its source after the batch
    ids: Sequence[str] | None = None  # what each row is called, where its source was asked for that
    names: Spelled | None = None  # of the features; a row may then have a number twice, under two names

    @classmethod
    def of(
        cls,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: NDArray[Any],
        n_features: int,
        y: NDArray[Any] | None = None,
        weights: NDArray[np.float64] | None = None,
        first_row: int = 0,
    ) -> "Batch":
        """Check the arrays in one pass. If a row needs it, sort, sum and drop values in a copy."""
        indptr, indices, values = _whole(indptr), _whole(indices), _real(values)
        bits, mask, infinity = _BITS[values.dtype.char]
        fine, largest = _check_csr(indptr, indices, values.view(bits), n_features, mask, infinity)
        if fine:
            size = float(bits(largest).view(values.dtype))
            return cls(indptr, indices, values, n_features, y, weights, size, first_row)
        verdict, row, position = _find_error(indptr, indices, values, n_features)
        if verdict != _ORDER:
            raise _csr_error(verdict, row + first_row, position, indices, values, n_features)
        return cls.of(*_tidied(indptr, indices, values), n_features, y, weights, first_row)

    @classmethod
    def unchecked(cls, indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], n_features: int) -> "Batch":
        """Return rows that are checked while they are learned, which saves a pass over the input.

        This is only for models that are discarded if a row is invalid. Row pointers are checked here.
        """
        indptr, indices, values = _whole(indptr), _whole(indices), _real(values)
        if len(indptr) == 0 or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]) or indptr[-1] > len(indices):
            return cls.of(indptr, indices, values, n_features)
        return cls(indptr, indices, values, n_features, checked=False)

    def check(self) -> "Batch":
        """The batch, checked."""
        if self.checked:
            return self
        return Batch.of(self.indptr, self.indices, self.values, self.n_features, self.y, self.weights, self.first_row)

    def until(self, row: int) -> "Batch":
        """The rows before ``row``; the source's position, which is behind them, is not kept."""
        end = self.indptr[row]
        return replace(
            self,
            indptr=self.indptr[: row + 1],
            indices=self.indices[:end],
            values=self.values[:end],
            y=None if self.y is None else self.y[:row],
            weights=None if self.weights is None else self.weights[:row],
            position=None,
            ids=None if self.ids is None else self.ids[:row],
            names=self.names and self.names.at(slice(0, end)),
        )

    def after(self, row: int) -> "Batch":
        """The rows from ``row`` on."""
        start = self.indptr[row]
        return replace(
            self,
            indptr=self.indptr[row:] - start,
            indices=self.indices[start:],
            values=self.values[start:],
            y=None if self.y is None else self.y[row:],
            weights=None if self.weights is None else self.weights[row:],
            first_row=self.first_row + row,
            ids=None if self.ids is None else self.ids[row:],
            names=self.names and self.names.at(slice(start, None)),
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Stored values."""
        return int(self.indptr[-1] - self.indptr[0])

    def require_below(self, limit: float, why: str) -> None:
        """Raise, with the position, if a value exceeds the limit."""
        if self.largest > limit:  # it can be the limit of a parser, far above all values
            beyond = np.abs(self.values[: self.indptr[-1]]) > limit
            if not beyond.any():
                return
            position = int(np.argmax(beyond))
            row = int(np.searchsorted(self.indptr, position, side="right")) - 1
            where = f"row {self.first_row + row}, column {self.indices[position]}"
            raise InvalidInputError(f"X has {self.values[position]} at {where}; {why}")

    def require_labels(self, purpose: str = "learn from") -> NDArray[Any]:
        """Return the labels, or raise if there are none."""
        if self.y is None:
            raise InvalidInputError(f"the rows to {purpose} need labels, but row {self.first_row} has none")
        return self.y

    @classmethod
    def concatenate(cls, batches: "Sequence[Batch]") -> "Batch":
        """One batch of several, in order, with the position of the last.

        >>> one = Batch.of(np.array([0, 1]), np.array([3]), np.array([0.5]), 4, y=np.array([1], np.int8))
        >>> Batch.concatenate([one, one]).indptr
        array([0, 1, 2])
        """
        if len(batches) == 1:
            return batches[0]
        lengths = np.concatenate([np.diff(batch.indptr) for batch in batches])
        used = [slice(int(batch.indptr[0]), int(batch.indptr[-1])) for batch in batches]
        weighted = any(batch.weights is not None for batch in batches)
        labels = [batch.y for batch in batches if batch.y is not None]
        return replace(
            batches[0],
            indptr=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
            indices=np.concatenate([batch.indices[part] for batch, part in zip(batches, used, strict=True)]),
            values=np.concatenate([batch.values[part] for batch, part in zip(batches, used, strict=True)]),
            n_features=max(batch.n_features for batch in batches),
            y=np.concatenate(labels) if len(labels) == len(batches) else None,
            weights=np.concatenate([np.ones(len(b)) if b.weights is None else b.weights for b in batches])
            if weighted
            else None,
            largest=max(batch.largest for batch in batches),
            checked=all(batch.checked for batch in batches),
            position=batches[-1].position,
            ids=None if any(b.ids is None for b in batches) else [id_ for b in batches for id_ in b.ids or ()],
            names=Spelled.joined(
                [(b.names or Spelled.nameless(part.stop)).at(part) for b, part in zip(batches, used, strict=True)]
            )
            if any(b.names is not None for b in batches)
            else None,
        )

    def labelled(self, y: NDArray[Any], weights: NDArray[np.float64] | None = None) -> "Batch":
        """The same rows with labels (and weights)."""
        return replace(self, y=y, weights=weights)

    def take(self, rows: NDArray[np.int64]) -> "Batch":
        """The given rows, in that order."""
        starts, lengths = self.indptr[rows].astype(np.int64), np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        places = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[places],
            values=self.values[places],
            y=None if self.y is None else self.y[rows],
            weights=None if self.weights is None else self.weights[rows],
            ids=None if self.ids is None else [self.ids[row] for row in rows],
            names=self.names and self.names.at(places),
        )

    def narrowed(self, n_features: int) -> "Batch":
        """Without the features from ``n_features`` on."""
        if self.n_features <= n_features:
            return self
        kept = self.indices < n_features
        indptr = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[self.indptr]
        return replace(
            self,
            indptr=indptr,
            indices=self.indices[kept],
            values=self.values[kept],
            n_features=n_features,
            names=self.names and self.names.at(kept),
        )


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, int32 or int64."""
    return plain(np.ascontiguousarray(array, None if array.dtype.char in "ilq" else np.int64))


def _real(array: NDArray[Any]) -> NDArray[Any]:
    """Contiguous, float32 or float64."""
    return plain(np.ascontiguousarray(array, None if array.dtype.char in "fd" else np.float64))


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory as an array compiled code knows: a read-only one would be another type, compiled again."""
    return array if array.flags.writeable and type(array) is np.ndarray else np.asarray(_Unlocked(array))


class _Unlocked:
    """Lends an array's memory without its read-only flag; the loop never writes to its input."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array  # kept alive as long as the view
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _tidied(
    indptr: NDArray[Any], indices: NDArray[Any], values: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A copy with each row's indices sorted, equal ones summed, zeros dropped."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    used = slice(int(indptr[0]), int(indptr[-1]))
    order = np.lexsort((indices[used], rows))
    rows, indices, values = rows[order], indices[used][order], values[used][order]
    if len(rows):
        heads = np.flatnonzero(np.concatenate([[True], (np.diff(rows) != 0) | (np.diff(indices) != 0)]))
        rows, indices, values = rows[heads], indices[heads], np.add.reduceat(values, heads)
    kept = values != 0
    counts = np.bincount(rows[kept], minlength=len(indptr) - 1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(indptr.dtype), indices[kept], values[kept]


def _csr_error(
    verdict: int, row: int, position: int, indices: NDArray[Any], values: NDArray[Any], width: int
) -> InvalidInputError:
    if verdict == _INDPTR:
        return InvalidInputError(f"X is not a valid CSR matrix: its row pointers are broken at row {row}")
    if verdict == _INDEX:
        return InvalidInputError(
            f"X: column indices must be from 0 to {width - 1} ({width} features), got {indices[position]} in row {row}"
        )
    number = "NaN" if np.isnan(values[position]) else "infinity"
    return InvalidInputError(f"X contains {number} at row {row}, column {indices[position]}; all values must be finite")
