"""Names of hashed features, for people to read: for each number the first name seen, as far as there is room."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.streams.options import Options


class Named(NamedTuple):
    """Features and their names, in the order of the text."""

    indices: list[int]
    names: list[str]


def readable(namespace: str, name: str) -> str:
    """One name of both.

    >>> readable("", "age"), readable("city=", "Oslo"), readable("subject", "free")
    ('age', 'city=Oslo', 'subject^free')
    """
    return f"{namespace}^{name}" if namespace and not namespace.endswith("=") else namespace + name


class NameTable(dict[int, str]):
    """A dictionary from feature numbers to names: the first name seen of each, of the first ``limit`` numbers seen.

    Formats that hold one find candidates on their threads (`wanted` tells what is known already, which spares work and
    changes nothing); whoever takes the pieces in order adds them, so that the stream alone decides what is kept.

    Examples
    --------
    >>> names = NameTable(limit=2)
    >>> names.add(Named([7, 3, 7, 5], ["a", "b", "c", "d"]))
    >>> names[7], names[3], names.get(5), names.full
    ('a', 'b', None, True)

    """

    def __init__(self, limit: int = 1_000_000) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidParameterError(f"NameTable: limit must be an integer ≥ 1, got {limit!r}")
        super().__init__()
        self.limit = limit

    @classmethod
    def of(cls, options: Options) -> "NameTable | None":
        """What the reading options ask for; None: names are not kept."""
        return cls(options.names) if options.names else None

    def add(self, named: Named | None) -> None:
        """Takes names in the order of the stream."""
        if named is None:
            return
        for index, name in zip(named.indices, named.names, strict=True):
            if self.full:
                return
            self.setdefault(index, name)

    def wanted(self, indices: NDArray[Any]) -> NDArray[np.int64]:
        """Places at which a number not yet named occurs first, in their order; none once there is no room."""
        if self.full:
            return np.empty(0, np.int64)
        numbers, places = np.unique(indices, return_index=True)
        new = np.fromiter((int(number) not in self for number in numbers), bool, len(numbers))
        return np.sort(places[new])

    @property
    def full(self) -> bool:
        """Whether there is no room for another."""
        return len(self) >= self.limit

    def __reduce__(self) -> Any:
        return NameTable.from_arrays, (self.arrays(),)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All of it, for a checkpoint: numbers, names one behind another in UTF-8, where each ends, the limit."""
        words = [name.encode("utf-8", "surrogatepass") for name in self.values()]
        return {
            "indices": np.fromiter(self, np.int64, len(words)),
            "text": np.frombuffer(b"".join(words), np.uint8),
            "ends": np.cumsum([len(word) for word in words], dtype=np.int64),
            "limit": np.array([self.limit], np.int64),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Goes back to what ``arrays`` was called on."""
        self.clear()
        self.update(NameTable.from_arrays(arrays))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "NameTable":
        """The inverse of ``arrays``."""
        names, text, start = cls(int(arrays["limit"][0])), bytes(arrays["text"]), 0
        words: Sequence[int] = arrays["ends"].tolist()
        for index, end in zip(arrays["indices"].tolist(), words, strict=True):
            names[index] = text[start:end].decode("utf-8", "surrogatepass")
            start = end
        return names
