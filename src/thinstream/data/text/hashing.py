"""Hashing of feature names to indices: MurmurHash3 (x86, 32 bits), the same in every process and on every machine.

A feature is a name in a namespace: the hash of the namespace is the seed for the hash of the name. Numeric columns are
names in the namespace "", categories are in "column=", and words of text in the name of the column. So all hashed
formats give equal features equal indices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.data.options import BITS, MOST_BITS, Options
from thinstream.data.text.characters import load_four
from thinstream.errors import InvalidParameterError
from thinstream.jit import compiled, scalar

_LOW, _BYTE = np.uint64(2**32 - 1), np.uint64(8)
_C1, _C2, _FIVE, _MORE = np.uint64(0xCC9E2D51), np.uint64(0x1B873593), np.uint64(5), np.uint64(0xE6546B64)
_F1, _F2, _13, _16 = np.uint64(0x85EBCA6B), np.uint64(0xC2B2AE35), np.uint64(13), np.uint64(16)
_15, _17, _19, _SIGN = np.uint64(15), np.uint64(17), np.uint64(19), np.uint64(31)
_ONE, _THREE, _FOUR, _WORD = np.uint64(1), np.uint64(3), np.uint64(4), np.uint64(32)
#: Names with fewer bytes are hashed without a loop.
_SHORT = np.uint64(16)
#: The seed of the second hash.
_SECOND = 0x9747B28C


@scalar
def murmur(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """Return the hash of ``text[start:stop]``: 32 bits in a uint64, or 64 bits if the seed has more than 32.

    The upper 32 bits are a second hash, whose seed is the upper half of the seed. They are never 0, so that a hash with
    this seed also has 64 bits.
    """
    low = np.uint64(seed) & _LOW
    result = _murmur(text, start, stop, low)
    if np.uint64(seed) > _LOW:
        second = _murmur(text, start, stop, np.uint64(seed) >> _WORD)
        result |= max(second, _ONE) << _WORD
    return result


@scalar
def _murmur(text: Any, start: Any, stop: Any, seed: Any) -> Any:
    """Return the 32-bit hash in a uint64, which never overflows."""
    result, at, size = np.uint64(seed), np.uint64(start), np.uint64(stop - start)
    if size < _SHORT and at + _SHORT <= np.uint64(len(text)):  # without a loop, whose end would be mispredicted
        for k in range(3):
            more = stirred(result, load_four(text, at + _FOUR * np.uint64(k)))
            result = more if size >= _FOUR * np.uint64(k + 1) else result
        held = _BYTE * (size & _THREE)
        word = load_four(text, at + (size - (size & _THREE))) & (_ONE << held) - _ONE
        return _ended(result ^ _mixed(word), size)
    end = at + (size - (size & _THREE))
    while at < end:
        result = stirred(result, load_four(text, at))
        at += _FOUR
    word = np.uint64(0)
    for k in range(size & _THREE):
        word |= np.uint64(text[at + k]) << _BYTE * k
    return _ended(result ^ _mixed(word), size)


@scalar
def absorbed(text: Any, start: Any, stop: Any, result: Any, word: Any, held: Any) -> Any:
    """Continue a hash with more bytes; return the hash of all whole words, and the bits and number of bits of the next.

    Start with (seed, 0, 0), all uint64, and end with `finished`. The result is the `murmur` of all bytes.
    """
    at = np.int64(start)
    while at + 4 <= stop:
        more = load_four(text, at)
        result, word = stirred(result, word | more << held & _LOW), more >> _WORD - held
        at += 4
    while at < stop:
        word |= np.uint64(text[at]) << held
        held += _BYTE
        at += 1
        if held == _WORD:
            result, word, held = stirred(result, word), np.uint64(0), np.uint64(0)
    return result, word, held


@scalar
def stirred(result: Any, word: Any) -> Any:
    """Return a hash after one more word of four bytes."""
    result ^= _mixed(word)
    return ((result << _13 | result >> _19) & _LOW) * _FIVE + _MORE & _LOW


@scalar
def finished(result: Any, word: Any, held: Any, size: Any) -> Any:
    """Return the hash of ``size`` bytes; ``word`` has the bytes after the last whole word."""
    return _ended(result ^ _mixed(word) if held > 0 else result, size)


@scalar
def _ended(result: Any, size: Any) -> Any:
    result ^= np.uint64(size) & _LOW
    result = (result ^ result >> _16) * _F1 & _LOW
    result = (result ^ result >> _13) * _F2 & _LOW
    return result ^ result >> _16


@scalar
def _mixed(word: Any) -> Any:
    word = word * _C1 & _LOW
    return ((word << _15 | word >> _17) & _LOW) * _C2 & _LOW


@scalar
def signed_by(hashed: Any, signed: Any, value: Any) -> Any:
    """Return the value, with the sign from bit 31 of the hash if ``signed``."""
    return -value if signed and turns_sign(hashed) else value


@scalar
def turns_sign(hashed: Any) -> Any:
    """Return whether bit 31 of the hash is set."""
    return hashed >> _SIGN & _ONE != 0


@dataclass(frozen=True)
class Hashing:
    """How names become feature indices: the lowest ``bits`` of their hash.

    Parameters
    ----------
    bits : int from 1 to 62
        The number of bits of an index, for 2^bits features. Two names with the same index share a weight, so use more
        bits than the number of names needs. More than 31 bits are for models with ``max_features``, which store names
        so that no two share a weight. A second hash gives the bits from 32 on, and indices need 8 bytes instead of 4.
    signed : bool
        Whether bit 31 of the hash, which is not part of the index, turns the sign of a value, so that the sum of two
        colliding features is unbiased.
    seed : int from 0 to 2^32 − 1
        The seed for hashing namespaces.
    exact : bool
        Whether names travel with rows, so that a model with ``max_features`` can distinguish two names with the same
        index. Always the case with more than 31 bits.

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
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise InvalidParameterError(f"Hashing: {name} must be an integer from {low} to {high}, got {value!r}")
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
        """The seed for namespaces, with 64 bits if hashes need them."""
        return self.seed if self.bits <= 31 else _SECOND << 32 | self.seed

    @property
    def kind(self) -> type[np.signedinteger[Any]]:
        """The dtype of indices."""
        return np.int32 if self.bits <= 31 else np.int64

    def namespace(self, name: str = "") -> int:
        """Return the hash of a namespace, which is the seed for its features."""
        return _hash_of(name, self.root)

    def code(self, name: str, namespace: str = "") -> int:
        """Return the whole hash of a feature."""
        return _hash_of(name, self.namespace(namespace))

    def index(self, name: str, namespace: str = "") -> int:
        """Return the index of a feature."""
        return self.code(name, namespace) & self.mask

    def as_dict(self) -> dict[str, Any]:
        settings = {"hash": "murmur3_x86_32", **asdict(self)}
        return settings if self.exact else {name: value for name, value in settings.items() if name != "exact"}

    @classmethod
    def of(cls, options: Options) -> "Hashing":
        """Return the hashing of reading options."""
        return cls(bits=options.bits or BITS, signed=options.signed)

    @classmethod
    def from_dict(cls, settings_dict: Mapping[str, Any]) -> "Hashing":
        """Return the hashing of settings from `as_dict`."""
        settings = dict(settings_dict)
        if settings.pop("hash", None) != "murmur3_x86_32" or {*settings} - {"exact"} != {"bits", "signed", "seed"}:
            raise InvalidParameterError(
                "Hashing: a description must have hash='murmur3_x86_32', bits, signed and seed, got "
                f"{dict(settings_dict)!r}"
            )
        return cls(**settings)


@lru_cache(1 << 16)  # the same columns are hashed again and again
def _hash_of(name: str, seed: int) -> int:
    text = name.encode("utf-8", "surrogatepass")
    return int(murmur(np.frombuffer(text, np.uint8), 0, len(text), np.uint64(seed)))


@compiled("thinstream.data.text.characters")
def _hash_spans(text: Any, ends: Any, seeds: Any, mask: Any, signed: Any, indices: Any, values: Any) -> None:
    """Compute the indices of concatenated names, and the signs of their values."""
    start = np.int64(0)
    for k in range(len(ends)):
        hashed = murmur(text, start, ends[k], seeds[k])
        indices[k] = np.int64(hashed & np.uint64(mask))
        values[k] = signed_by(hashed, signed, values[k])
        start = ends[k]


def encode_names(names: list[str]) -> tuple[bytes, NDArray[np.int64]]:
    r"""Return names concatenated in UTF-8, and the end of each.

    >>> encode_names(["age", "größe"])
    (b'agegr\xc3\xb6\xc3\x9fe', array([ 3, 10]))
    """
    text = "".join(names)
    if text.isascii():  # no need to encode each name
        return text.encode(), np.cumsum([*map(len, names)], dtype=np.int64)
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join(parts), np.cumsum([*map(len, parts)], dtype=np.int64)


def hashed(
    names: bytes, ends: NDArray[np.int64], seeds: NDArray[np.uint64], values: NDArray[np.float64], how: Hashing
) -> NDArray[Any]:
    """Return the indices of concatenated names with the hashes of their namespaces; values get their signs in place."""
    indices = np.empty(len(ends), how.kind)
    text = np.frombuffer(bytearray(names), np.uint8)  # writable like other texts, to avoid a second compilation
    _hash_spans(text, ends, seeds, how.mask, how.signed, indices, values)
    return indices


@dataclass(frozen=True)
class Numbering:
    """The hasher of `ArrowFiles` and `from_memory`.

    A name is that of a number, or ``column=category``. It is split at the first equals sign. If the name of a column
    has one, pass pairs: (column, category), or (column, None) for a number.

    Examples
    --------
    >>> numbers = Numbering(Hashing(bits=18))
    >>> numbers(["age", "city=Oslo"])
    array([165201,  80504], dtype=int32)
    >>> Hashing(bits=18).index("age"), Hashing(bits=18).index("Oslo", "city=")
    (165201, 80504)
    >>> numbers([("city", "Oslo"), ("a=b", None)]).tolist() == [80504, Hashing(bits=18).index("a=b")]
    True

    """

    hashing: Hashing = field(default_factory=Hashing)

    @property
    def spells(self) -> bool:
        """Whether names travel with rows."""
        return self.hashing.spells

    @property
    def width(self) -> int:
        return self.hashing.mask + 1

    def as_dict(self) -> dict[str, Any]:
        return self.hashing.as_dict()

    def __call__(self, names: Sequence[str | tuple[str, str | None]], /) -> NDArray[Any]:
        """Return the index of each name; ``~index`` if the sign of the feature is turned."""
        parts = [_parts_of(name) for name in names]
        seeds = np.array([self.hashing.namespace(space) for space, _ in parts], dtype=np.uint64)
        signs = np.ones(len(parts))
        numbers = hashed(*encode_names([name for _, name in parts]), seeds, signs, self.hashing)
        return np.where(signs < 0, ~numbers, numbers)


def _parts_of(name: str | tuple[str, str | None]) -> tuple[str, str]:
    """Return the namespace and the name within it."""
    if isinstance(name, str):
        column, mark, category = name.partition("=")
        return (column + mark, category) if mark else ("", column)
    return ("", name[0]) if name[1] is None else (f"{name[0]}=", name[1])
