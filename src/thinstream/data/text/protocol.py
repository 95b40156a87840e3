"""The interface of text formats, and the names of hashed features that parsers collect."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Spelled
from thinstream.data.options import Options
from thinstream.errors import InvalidParameterError
from thinstream.jit import compiled, scalar

# Names of hashed features, for people: the first name of each index, as far as there is room.


class Named(NamedTuple):
    """Different features and their names, in the order of the text."""

    indices: list[int]
    names: list[str]
    rows: list[int] = []  # noqa: RUF012 (rows of the features, if requested)


def readable(namespace: str, name: str) -> str:
    """Return a readable name for a name in a namespace.

    >>> readable("", "age"), readable("city=", "Oslo"), readable("subject", "free")
    ('age', 'city=Oslo', 'subject^free')
    """
    return f"{namespace}^{name}" if namespace and not namespace.endswith("=") else namespace + name


#: The initial size of a hash table.
_FEWEST = 1 << 10
#: The most indices for which there is an array with a bit for each.
_WIDEST = 1 << 24
_NO_BITS = np.empty(0, np.uint8)


@scalar
def _entry(table: Any, number: Any) -> Any:
    """Return the position of a number in a hash table, or where to add it."""
    last = len(table) - 1
    at = (number ^ number >> 17) & last
    while table[at] != 0 and table[at] != number + 1:
        at = at + 1 & last
    return at


@compiled()
def _insert(numbers: Any, table: Any, bits: Any) -> None:
    for number in numbers:
        table[_entry(table, number)] = number + 1
        if len(bits) > 0:
            bits[number >> 3] |= np.uint8(1) << np.uint8(number & 7)


@compiled()
def _first_positions(indices: Any, start: Any, stored: Any, seen: Any, positions: Any, count: Any) -> Any:
    """Add the first positions, from ``start`` on, of numbers that are in neither table; add them to the second table.

    Return the number of positions, and the position where this stopped: the end, or when the table is half full.
    """
    for k in range(start, len(indices)):
        number = np.int64(indices[k])
        if stored[_entry(stored, number)] == 0:
            at = _entry(seen, number)
            if seen[at] == 0:
                if 2 * count >= len(seen):
                    return count, k
                seen[at], positions[count] = number + 1, k
                count += 1
    return count, len(indices)


class NameTable(dict[int, str]):
    """A dictionary from feature indices to names: the first name of each of the first ``limit`` indices.

    Parsers find candidates in their threads (`wanted` leaves out indices that have names). The names are added in the
    order of the pieces, so the result does not depend on threads.

    Examples
    --------
    >>> names = NameTable(limit=2)
    >>> names.add(Named([7, 3, 5], ["a", "b", "d"]))
    >>> names[7], names[3], names.get(5), names.full
    ('a', 'b', None, True)

    """

    def __init__(self, limit: int = 1_000_000, rows: int | None = None) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise InvalidParameterError(f"NameTable: limit must be an integer ≥ 1, got {limit!r}")
        super().__init__()
        self.limit, self.rows = limit, rows  # names are collected from the first rows; None: from all
        self._past = False  # whether these rows have been read
        self._numbers = np.zeros(_FEWEST, np.int64)  # a hash table of index + 1, for compiled code
        self._bits = _NO_BITS  # a bit for each index; empty until it is needed

    @classmethod
    def of(cls, options: Options) -> "NameTable | None":
        """Create the table of reading options; None if names are not collected."""
        return cls(options.names, options.names_rows) if options.names else None

    def add(self, named: Named | None, first_row: int = 0) -> None:
        """Add names in the order of the stream; ``first_row`` is the number of the piece's first row."""
        left = None if self.rows is None else self.rows - first_row
        self._past = left is not None and left <= 0
        if named is None:
            return
        last = len(named.indices) if left is None else bisect_left(named.rows, left)
        pairs = zip(named.indices[:last], named.names[:last], strict=True)
        new = {index: name for index, name in pairs if index not in self}
        if len(self) + len(new) > self.limit:
            new = dict(islice(new.items(), self.limit - len(self)))
        self.update(new)
        if 2 * len(self) > len(self._numbers):
            new, self._numbers = self, np.zeros(4 << len(self).bit_length(), np.int64)
        _insert(np.fromiter(new, np.int64, len(new)), self._numbers, self._bits)

    def seen(self, width: int) -> NDArray[np.uint8] | None:
        """Return a new array with a bit for each index below ``width``, 1 if it has a name; None if it is too wide."""
        if width > _WIDEST:
            return None
        if not len(self._bits):
            bits, numbers = np.zeros((width + 7) // 8, np.uint8), np.array([*self], np.int64)
            np.bitwise_or.at(bits, numbers >> 3, np.uint8(1) << (numbers & 7).astype(np.uint8))
            self._bits = bits
        return self._bits.copy()

    def wanted(self, indices: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions at which an index without a name occurs first; none if there is no room."""
        if self.full:
            return np.empty(0, np.int64)
        positions, seen = np.empty(len(indices), np.int64), np.zeros(_FEWEST, np.int64)
        count, end = _first_positions(indices, 0, self._numbers, seen, positions, 0)
        while end < len(indices):
            seen = np.zeros(8 * len(seen), np.int64)
            _insert(indices[positions[:count]].astype(np.int64), seen, _NO_BITS)
            count, end = _first_positions(indices, end, self._numbers, seen, positions, count)
        return positions[:count]

    @property
    def full(self) -> bool:
        """Whether it is full, so that no names are added."""
        return self._past or len(self) >= self.limit

    def __reduce__(self) -> Any:
        return NameTable.from_arrays, (self.arrays(),)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the table as arrays for a checkpoint: indices, names in UTF-8, their ends, the limit."""
        words = [name.encode("utf-8", "surrogatepass") for name in self.values()]
        return {
            "indices": np.fromiter(self, np.int64, len(words)),
            "text": np.frombuffer(b"".join(words), np.uint8),
            "ends": np.cumsum([len(word) for word in words], dtype=np.int64),
            "limit": np.array([self.limit], np.int64),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the table from ``arrays``."""
        other = NameTable.from_arrays(arrays) if arrays else NameTable()
        self.clear()
        self.update(other)
        self._numbers = other._numbers

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "NameTable":
        """Create a table from ``arrays``."""
        names, text, start = cls(int(arrays["limit"][0])), bytes(arrays["text"]), 0
        words: Sequence[int] = arrays["ends"].tolist()
        spelled = []
        for end in words:
            spelled.append(text[start:end].decode("utf-8", "surrogatepass"))
            start = end
        names.add(Named(arrays["indices"].tolist(), spelled))
        return names


# A text format parses pieces of text to rows, in threads, and finds the ends of records.
#
# A format never sees a file. `stream` cuts text into pieces at the ends of records, parses them in threads, and
# delivers the rows in order, with positions and line numbers.

Text = NDArray[np.uint8]


class ParseError(NamedTuple):
    """A bad record: the offset of its first bad byte, and what is wrong, allowed and given."""

    offset: int  # in the piece of text
    message: str


class Parsed(NamedTuple):
    """The rows of a piece of text, up to its first bad record.

    As in a `Batch`, indices of a row are sorted, unique and ≥ 0, and values are finite and not 0.
    """

    labels: NDArray[Any]  # float64, NaN for a row without label; positions in ``met`` if there is one
    indptr: NDArray[np.int64]
    indices: NDArray[Any]  # int32 or int64
    values: NDArray[Any]  # float32 or float64
    width: int  # one more than the largest index, 0 without any
    largest: float  # an upper bound of all |values|
    lines: int  # lines read, including those without a row and the bad record
    taken: int  # bytes read, including the bad record
    weights: NDArray[np.float64] | None = None  # weight of each row
    tags: list[str] | None = None  # ids of the rows, if the format has them
    error: ParseError | None = None
    named: Named | None = None  # new names for the format's `NameTable`
    met: list[Any] | None = None  # distinct labels, if classes grow
    starts: NDArray[np.int64] | None = None  # offsets of the rows' records
    bad_id: str = ""  # id of the bad record, if requested and known
    names: Spelled | None = None  # of the features, if names travel with rows

    def only(self, marked: NDArray[np.bool_]) -> "Parsed":
        """Return the rows that are marked."""
        sizes = np.diff(self.indptr)
        among = np.repeat(marked, sizes)
        tags, weights = self.tags, self.weights
        return self._replace(
            labels=self.labels[marked],
            indptr=np.concatenate([[0], np.cumsum(sizes[marked])]).astype(np.int64),
            indices=self.indices[among],
            values=self.values[among],
            weights=None if weights is None else weights[marked],
            tags=None if tags is None else [tag for tag, there in zip(tags, marked.tolist(), strict=True) if there],
            starts=None if self.starts is None else self.starts[marked],
            names=self.names and self.names.at(among),
        )


class TextFormat(Protocol):
    """A text format."""

    @property
    def dtype(self) -> str:
        """The dtype of the values: "float32" or "float64"."""

    def parse(self, text: Text) -> Parsed:
        """Parse complete records. Called in several threads at once; compiled code releases the GIL."""

    def records(self, text: Text) -> int:
        """Return the bytes of the complete records at the head of the text, 0 if there are none."""

    def header(self, text: Text) -> int:
        """Read the header at the head of a file, which has at least a complete line; return its bytes, or 0."""


class LineFormat:
    """The common parts of formats whose records are lines."""

    def header(self, text: Text) -> int:
        """Return 0: there is no header."""
        return 0

    def records(self, text: Text) -> int:
        """Return the position after the last newline."""
        return last_line_end(text)


def given_at(text: Text, offset: int) -> str:
    """Return the word at an offset of the text for a message: shortened, with escapes for unprintable bytes.

    >>> given_at(np.frombuffer(b"1 2:x 3", dtype=np.uint8), 4)
    "'x'"
    """
    word = bytes(text[offset : offset + 40]).split(b"\n", 1)[0].rstrip(b"\r")
    word = (word.split(b" ", 1)[0] or word[:1]).split(b"\t", 1)[0] or word[:1]
    if not word:
        return "the end of the line"
    try:
        shown = repr(word.decode())
    except UnicodeDecodeError:  # not UTF-8, or a character cut in two
        shown = repr(word)[1:]
    return shown if len(shown) <= 32 else f"{shown[:31]}…{shown[0]}"


def last_line_end(text: Text) -> int:
    r"""Return the position after the last newline; 0 if there is none.

    >>> last_line_end(np.frombuffer(b"a\nb\nc", np.uint8))
    4
    """
    stop = len(text)
    while stop > 0:  # lines are short, so search from the end
        start = max(stop - 4096, 0)
        newlines = np.flatnonzero(text[start:stop] == 10)
        if len(newlines):
            return start + int(newlines[-1]) + 1
        stop = start
    return 0
