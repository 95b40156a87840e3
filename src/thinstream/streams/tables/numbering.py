"""Features of tables and dicts by name: the numbers text formats give them, too."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.streams.text.hashing import Hashing, hashed


@dataclass(frozen=True)
class Numbering:
    """The hasher of `ArrowFiles`, `from_memory` and dicts: ``column=category`` is a category, any other name a number.

    Examples
    --------
    >>> numbers = Numbering(Hashing(bits=18))
    >>> numbers(["age", "city=Oslo"])
    array([165201,  80504], dtype=int32)
    >>> Hashing(bits=18).index("age"), Hashing(bits=18).index("Oslo", "city=")
    (165201, 80504)

    """

    hashing: Hashing = field(default_factory=Hashing)

    @property
    def width(self) -> int:
        """All numbers are below it."""
        return self.hashing.mask + 1

    def as_dict(self) -> dict[str, Any]:
        """All that decides a number."""
        return self.hashing.as_dict()

    def __call__(self, names: Sequence[str], /) -> NDArray[np.int32]:
        """The number of each name; ``~number`` where the sign of the feature is turned."""
        parts = [name.partition("=") for name in names]
        spaces = [head + mark if mark else "" for head, mark, _ in parts]
        texts = [(tail if mark else head).encode("utf-8", "surrogatepass") for head, mark, tail in parts]
        seeds = np.array([self.hashing.namespace(space) for space in spaces], dtype=np.uint64)
        ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
        signs = np.ones(len(texts))
        numbers = hashed(b"".join(texts), ends, seeds, signs, self.hashing)
        return np.where(signs < 0, ~numbers, numbers)
