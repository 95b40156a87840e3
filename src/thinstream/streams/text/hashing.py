"""From names to feature numbers: MurmurHash3 (x86, 32 bits), the same in every process and on every machine.

A feature is a name in a namespace: the hash of the namespace is the seed of the name's. Numbers of JSON and CSV are in
the namespace "" under the name of their column, categories in "column=", words of a text in its column. So the three
hashed formats agree on what they can all say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.jit import compiled, scalar
from thinstream.spelling import Spelled
from thinstream.streams.options import BITS, MOST_BITS, Options
from thinstream.streams.text.digits import load_four

_LOW, _BYTE = np.uint64(2**32 - 1), np.uint64(8)
_C1, _C2, _FIVE, _MORE = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(5), np.uint64(0xE6546B64)
_F1, _F2, _13, _16 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35), np.uint64(13), np.uint64(16)
_15, _17, _19, _SIGN = np.uint64(15), np.uint64(17), np.uint64(19), np.uint64(31)
_ONE, _THREE, _FOUR, _WORD = np.uint64(1), np.uint64(3), np.uint64(4), np.uint64(32)
#: Names below it, in bytes, are hashed without a loop.
_SHORT = np.uint64(16)
#: The seed of the second hash.
_SECOND = 0x9747B28C


@scalar
def murmur(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The hash of ``text[start:stop]``: 32 bits in a uint64, or 64 where the seed has more than 32.

    The upper 32 bits are a second hash, with the seed's upper bits for its seed; they are never 0, so that what is
    hashed with them for a seed has 64 bits, too.
    """
    low = np.uint64(seed) & _LOW
    found = _murmur(text, start, stop, low)
    if np.uint64(seed) > _LOW:
        more = _murmur(text, start, stop, np.uint64(seed) >> _WORD)
        found |= max(more, _ONE) << _WORD
    return found


@scalar
def _murmur(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """The hash of 32 bits, in a uint64 (which never overflows on the way)."""
    found, at, size = np.uint64(seed), np.uint64(start), np.uint64(stop - start)
    if size < _SHORT and at + _SHORT <= np.uint64(len(text)):  # no loop, whose end would be guessed wrong
        for k in range(3):
            more = stirred(found, load_four(text, at + _FOUR * np.uint64(k)))
            found = more if size >= _FOUR * np.uint64(k + 1) else found
        held = _BYTE * (size & _THREE)
        word = load_four(text, at + (size - (size & _THREE))) & (_ONE << held) - _ONE
        return _ended(found ^ _mixed(word), size)
    end = at + (size - (size & _THREE))
    while at < end:
        found = stirred(found, load_four(text, at))
        at += _FOUR
    word = np.uint64(0)
    for k in range(size & _THREE):
        word |= np.uint64(text[at + k]) << _BYTE * k
    return _ended(found ^ _mixed(word), size)


@scalar
def absorbed(text: Any, start: Any, stop: Any, found: Any, word: Any, held: Any) -> Any:
    """A hash that was begun with other bytes gone on with: (of all whole words, bytes of the next, its bits so far).

    It begins with (seed, 0, 0), all uint64; `finished` ends it. However the bytes are parted, it is their `murmur`.
    """
    at = np.int64(start)
    while at + 4 <= stop:
        more = load_four(text, at)
        found, word = stirred(found, word | more << held & _LOW), more >> _WORD - held
        at += 4
    while at < stop:
        word |= np.uint64(text[at]) << held
        held += _BYTE
        at += 1
        if held == _WORD:
            found, word, held = stirred(found, word), np.uint64(0), np.uint64(0)
    return found, word, held


@scalar
def stirred(found: Any, word: Any) -> Any:
    """A hash after one more word of four bytes."""
    found ^= _mixed(word)
    return ((found << _13 | found >> _19) & _LOW) * _FIVE + _MORE & _LOW


@scalar
def finished(found: Any, word: Any, held: Any, size: Any) -> Any:
    """The hash of ``size`` bytes, of which ``word`` has those behind the last whole word."""
    return _ended(found ^ _mixed(word) if held > 0 else found, size)


@scalar
def _ended(found: Any, size: Any) -> Any:
    found ^= np.uint64(size) & _LOW
    found = (found ^ found >> _16) * _F1 & _LOW
    found = (found ^ found >> _13) * _F2 & _LOW
    return found ^ found >> _16


@scalar
def _mixed(word: Any) -> Any:
    word = word * _C1 & _LOW
    return ((word << _15 | word >> _17) & _LOW) * _C2 & _LOW


@scalar
def signed_by(hashed: Any, signed: Any, value: Any) -> Any:
    """The value, with the sign that bit 31 of the hash gives it if ``signed``."""
    return -value if signed and turns_sign(hashed) else value


@scalar
def turns_sign(hashed: Any) -> Any:
    """Whether bit 31 of the hash is set."""
    return hashed >> _SIGN & _ONE != 0


@dataclass(frozen=True)
class Hashing:
    """How names become feature numbers: the lowest ``bits`` of their hash.

    Parameters
    ----------
    bits : int from 1 to 62
        2^bits features. Two names on the same number share a weight: take more bits than the names need. More than 31
        are for models that keep some features only (``max_features``), and their names: no two share a weight there.
        A second hash gives the bits from 32 on, and numbers take 8 bytes instead of 4.
    signed : bool
        Whether bit 31 of the hash, which no index of up to 31 bits uses, turns the sign of a value, so that what two
        names on one number add up to is unbiased.
    seed : int from 0 to 2^32 − 1
        The seed of the namespaces' hashes.
    exact : bool
        Whether names travel with rows, so that a model with ``max_features`` keeps them and tells two names on one
        number apart. It is so anyway where there are more than 31 bits.

    Examples
    --------
    >>> Hashing(bits=18).index("free"), Hashing(bits=18).index("free", "subject")
    (156782, 101912)

    """

    bits: int = BITS
    signed: bool = False
    seed: int = 0
    exact: bool = False

    def __post_init__(self) -> None:
        for name, low, high in (("bits", 1, MOST_BITS), ("seed", 0, 2**32 - 1)):
            given = getattr(self, name)
            if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
                raise InvalidParameterError(f"Hashing: {name} must be an integer from {low} to {high}, got {given!r}")
        for name in ("signed", "exact"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameterError(f"Hashing: {name} must be True or False, got {getattr(self, name)!r}")

    @property
    def mask(self) -> int:
        """The highest index."""
        return (1 << self.bits) - 1

    @property
    def spells(self) -> bool:
        """Whether names travel with rows."""
        return self.exact or self.bits > 31

    @property
    def root(self) -> int:
        """The seed of namespaces: of 64 bits where hashes have to be."""
        return self.seed if self.bits <= 31 else _SECOND << 32 | self.seed

    @property
    def kind(self) -> type[np.signedinteger[Any]]:
        """Of the numbers."""
        return np.int32 if self.bits <= 31 else np.int64

    def namespace(self, name: str = "") -> int:
        """The hash of a namespace, the seed of its features."""
        return _hash_of(name, self.root)

    def code(self, name: str, namespace: str = "") -> int:
        """The whole hash of a feature."""
        return _hash_of(name, self.namespace(namespace))

    def index(self, name: str, namespace: str = "") -> int:
        """The number of a feature."""
        return self.code(name, namespace) & self.mask

    def as_dict(self) -> dict[str, Any]:
        """All that decides an index, as JSON can hold it."""
        found = {"hash": "murmur3_x86_32", **asdict(self)}
        return found if self.exact else {name: value for name, value in found.items() if name != "exact"}

    @classmethod
    def of(cls, options: Options) -> "Hashing":
        """What the reading options ask for."""
        return cls(bits=options.bits or BITS, signed=options.signed)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Hashing":
        """The inverse of ``as_dict``."""
        settings = dict(given)
        if settings.pop("hash", None) != "murmur3_x86_32" or {*settings} - {"exact"} != {"bits", "signed", "seed"}:
            raise InvalidParameterError(
                f"Hashing: a description must have hash='murmur3_x86_32', bits, signed and seed, got {dict(given)!r}"
            )
        return cls(**settings)


@lru_cache(1 << 16)  # columns come again and again, and interpreted it takes its time
def _hash_of(name: str, seed: int) -> int:
    text = name.encode("utf-8", "surrogatepass")
    return int(murmur(np.frombuffer(text, np.uint8), 0, len(text), np.uint64(seed)))


@compiled("thinstream.streams.text.digits")
def _hash_spans(text: Any, ends: Any, seeds: Any, mask: Any, signed: Any, indices: Any, values: Any) -> None:
    """Indices of names that lie one behind another in ``text``, and the signs of their values."""
    start = np.int64(0)
    for k in range(len(ends)):
        hashed = murmur(text, start, ends[k], seeds[k])
        indices[k] = np.int64(hashed & np.uint64(mask))
        values[k] = signed_by(hashed, signed, values[k])
        start = ends[k]


def encode_names(names: list[str]) -> tuple[bytes, NDArray[np.int64]]:
    r"""Names one behind another in UTF-8, and where each ends.

    >>> encode_names(["age", "größe"])
    (b'agegr\xc3\xb6\xc3\x9fe', array([ 3, 10]))
    """
    text = "".join(names)
    if text.isascii():  # no need to go word by word
        return text.encode(), np.cumsum([*map(len, names)], dtype=np.int64)
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join(parts), np.cumsum([*map(len, parts)], dtype=np.int64)


def hashed(
    names: bytes, ends: NDArray[np.int64], seeds: NDArray[np.uint64], values: NDArray[np.float64], how: Hashing
) -> NDArray[Any]:
    """Indices of names one behind another, each with the hash of its namespace; values get their signs in place."""
    indices = np.empty(len(ends), how.kind)
    text = np.frombuffer(bytearray(names), np.uint8)  # writable, as the other texts: no second compilation
    _hash_spans(text, ends, seeds, how.mask, how.signed, indices, values)
    return indices


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
    def spells(self) -> bool:
        """Whether names travel with rows."""
        return self.hashing.spells

    @property
    def width(self) -> int:
        """All numbers are below it."""
        return self.hashing.mask + 1

    def as_dict(self) -> dict[str, Any]:
        """All that decides a number."""
        return self.hashing.as_dict()

    def spelled(self, given: Sequence[str]) -> Spelled:
        """The names as they travel with rows."""
        parts = [name.partition("=") for name in given]
        return Spelled.of((head + mark, tail) if mark else ("", head) for head, mark, tail in parts)

    def of_categories(self, column: str, categories: Sequence[str]) -> NDArray[Any]:
        """The numbers of ``column=category``, as of these names, without making them."""
        if "=" in column:
            return self([f"{column}={category}" for category in categories])
        seeds = np.full(len(categories), self.hashing.namespace(f"{column}="), np.uint64)
        signs = np.ones(len(categories))
        numbers = hashed(*encode_names([*categories]), seeds, signs, self.hashing)
        return np.where(signs < 0, ~numbers, numbers)

    def __call__(self, given: Sequence[str], /) -> NDArray[Any]:
        """The number of each name; ``~number`` where the sign of the feature is turned."""
        parts = [name.partition("=") for name in given]
        spaces = [head + mark if mark else "" for head, mark, _ in parts]
        seeds = np.array([self.hashing.namespace(space) for space in spaces], dtype=np.uint64)
        signs = np.ones(len(parts))
        numbers = hashed(
            *encode_names([tail if mark else head for head, mark, tail in parts]), seeds, signs, self.hashing
        )
        return np.where(signs < 0, ~numbers, numbers)
