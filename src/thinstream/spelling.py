"""Names of features as they are spelled: bytes that travel with rows, and those of features that are kept.

A name is a head (a namespace with what stands behind it, as in ``city=`` and ``subject^``, or nothing) and a rest. Two
features have the same name if both are equal, byte by byte.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import compiled, scalar

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
        """Of heads and rests."""
        parts = [part.encode("utf-8", "surrogatepass") for name in names for part in name]
        ends = np.cumsum([0, *map(len, parts)])
        spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 4).astype(np.int32)
        return cls(np.frombuffer(bytearray(b"".join(parts)), np.uint8), spans)

    @classmethod
    def nameless(cls, count: int) -> Self:
        """Of so many features that have no names."""
        return cls(np.empty(0, np.uint8), np.full((count, 4), _NAMELESS, np.int32))

    def at(self, places: Any) -> Self:
        """Those at some places."""
        return self._replace(spans=np.ascontiguousarray(self.spans[places]))

    def texts(self) -> list[str]:
        """As people read them."""
        data = self.text.tobytes()
        parts = [data[low:middle] + data[start:stop] for low, middle, start, stop in self.spans.tolist()]
        return [part.decode("utf-8", "replace") for part in parts]

    @property
    def size(self) -> int:
        """Bytes of all names, each counted as often as it comes."""
        return int(_size(self.spans))

    @classmethod
    def joined(cls, parts: "Sequence[Spelled]") -> Self:
        """Several, one behind another."""
        found, behind = [], 0
        for part in parts:
            found.append(np.where(part.spans >= 0, part.spans + np.int32(behind), part.spans))
            behind += len(part.text)
        return cls(np.concatenate([part.text for part in parts]), np.concatenate(found))


#: Of rows whose features have no names.
NO_NAMES = Spelled.nameless(0)


class KeptNames(NamedTuple):
    """Names of slots, one behind another in any order; slot 0 has none."""

    text: NDArray[np.uint8]
    places: NDArray[np.int64]  # of each slot: start, end of the head, stop; −1: no name

    @classmethod
    def none(cls) -> Self:
        """Of slots that have no names at all."""
        return cls(np.empty(0, np.uint8), np.empty((0, 3), np.int64))

    @classmethod
    def of(cls, text: NDArray[np.uint8], ends: NDArray[np.int64], heads: NDArray[np.int64]) -> Self:
        """Of the slots from 1 on: names one behind another, where each ends, bytes of its head (−1: it has none)."""
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
def _size(spans: Any) -> Any:
    found = np.int64(0)
    for k in range(len(spans)):
        found += spans[k, 1] - spans[k, 0] + spans[k, 3] - spans[k, 2]
    return found


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
    """Whether a feature of rows has another name than a slot; one without a name is no other."""
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
