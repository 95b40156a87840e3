"""Bytes on a wire: JSON and MessagePack of requests, and what processes of a server say to each other."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from thinstream.errors import InvalidInputError

to_json = msgspec.json.Encoder().encode
to_msgpack = msgspec.msgpack.Encoder().encode
#: JSON as it stands in a larger text, not looked into yet.
Raw = msgspec.Raw
Struct = msgspec.Struct


class Ask(msgspec.Struct, array_like=True):
    """What a predicting process asks of the learning one."""

    number: int  # the answer has the same
    what: str
    model: str = ""
    request: str | None = None  # idempotency id
    ids: list[int | str] = []
    labels: list[Any] = []
    weights: list[float] | None = None
    data: bytes = b""  # rows, see `packed`
    fingerprint: str = ""  # of a request that has an idempotency id: its path and body


def fingerprint(path: str, query: bytes, body: bytes) -> str:
    """What tells a request from another one that has the same idempotency key."""
    return xxh3_128_hexdigest(b"\0".join([path.encode("utf-8", "surrogatepass"), query, body]))


class Told(msgspec.Struct, array_like=True):
    """The answer: a status of HTTP, and what to say."""

    number: int
    status: int
    answer: dict[str, Any]


_LENGTH = 4
#: Bytes of the longest message.
LONGEST = 1 << 30


def framed(message: Any) -> bytes:
    """A message with its length before it."""
    raw = to_msgpack(message)
    return len(raw).to_bytes(_LENGTH, "little") + raw


class Frames:
    """Cuts what comes in pieces into messages of a kind.

    >>> frames = Frames(Told)
    >>> raw = framed(Told(1, 200, {"rows": 3}))
    >>> frames.take(raw[:5]), frames.take(raw[5:])
    ([], [Told(number=1, status=200, answer={'rows': 3})])
    """

    def __init__(self, kind: Any) -> None:
        self._decoder, self._held = msgspec.msgpack.Decoder(kind), bytearray()

    def take(self, piece: bytes) -> list[Any]:
        """The messages that are whole now."""
        found, place, held = [], 0, bool(self._held)
        if held:
            self._held += piece
        with memoryview(self._held if held else piece) as data:
            while len(data) - place >= _LENGTH:
                size = int.from_bytes(data[place : place + _LENGTH], "little")
                if size > LONGEST:
                    raise InvalidInputError(f"a message of {size} bytes is too long")
                if len(data) - place - _LENGTH < size:
                    break
                found.append(self._decoder.decode(data[place + _LENGTH : place + _LENGTH + size]))
                place += _LENGTH + size
        if held:
            del self._held[:place]
        else:
            self._held += piece[place:]
        return found


def json_as(kind: Any) -> Callable[[bytes], Any]:
    """What reads JSON texts as values of a kind; to be made once."""
    return partial(_decoded, msgspec.json.Decoder(kind).decode, "JSON")


def msgpack_as(kind: Any) -> Callable[[bytes], Any]:
    """The same of MessagePack."""
    return partial(_decoded, msgspec.msgpack.Decoder(kind).decode, "MessagePack")


def _decoded(decode: Callable[[bytes], Any], named: str, raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"the body is {named}, but not what is asked for (see /docs): {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"the body is not {named} as it must be: {error}") from None


#: A JSON text as whatever it is.
from_json = json_as(Any)
