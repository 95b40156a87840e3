"""Messages between the processes of a server, and rows as the journal stores them.

Predictors send requests to the learner over a Unix socket (`Link`), as MessagePack.
"""

import asyncio
import itertools
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest, xxh3_128_hexdigest

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.serve import Limits

to_json = msgspec.json.Encoder().encode
to_msgpack = msgspec.msgpack.Encoder().encode
#: A part of a JSON text that is not decoded yet.
Raw = msgspec.Raw
Struct = msgspec.Struct


class LearnerRequest(msgspec.Struct, array_like=True):
    number: int  # the reply has the same number
    what: str
    model: str = ""
    request: str | None = None  # idempotency key
    ids: list[int | str] = []
    labels: list[Any] = []
    weights: list[float] | None = None
    data: bytes = b""  # rows, see `pack`
    fingerprint: str = ""  # hash of path and body, for requests with an idempotency key


def is_whole_number(text: str) -> bool:
    """Return whether a text is a whole number of at most 18 ASCII digits: other digits, and longer ones, break `int`.

    >>> [is_whole_number(text) for text in ("17", "", "-1", "²", "1" * 5000)]
    [True, False, False, False, False]
    """
    return len(text) <= 18 and text.isascii() and text.isdigit()


def fingerprint(path: str, query: bytes, body: bytes) -> str:
    """Return a hash that distinguishes requests with the same idempotency key."""
    return xxh3_128_hexdigest(b"\0".join([path.encode("utf-8", "surrogatepass"), query, body]))


class LinkReply(msgspec.Struct, array_like=True):
    """The learner's reply: an HTTP status and a body."""

    number: int
    status: int
    answer: dict[str, Any]


_LENGTH = 4
#: Bytes of the longest message.
LONGEST = 1 << 30


def framed(message: Any) -> bytes:
    """Return an encoded message, preceded by its length."""
    raw = to_msgpack(message)
    return len(raw).to_bytes(_LENGTH, "little") + raw


class Frames:
    """Split received bytes into messages.

    >>> frames = Frames(LinkReply)
    >>> raw = framed(LinkReply(1, 200, {"rows": 3}))
    >>> frames.take(raw[:5]), frames.take(raw[5:])
    ([], [LinkReply(number=1, status=200, answer={'rows': 3})])
    """

    def __init__(self, message_type: Any) -> None:
        self._decoder, self._held = msgspec.msgpack.Decoder(message_type), bytearray()

    def take(self, received: bytes) -> list[Any]:
        """Add received bytes; return the messages that are complete now."""
        messages, position, is_partial = [], 0, bool(self._held)
        if is_partial:
            self._held += received
        with memoryview(self._held if is_partial else received) as data:
            while len(data) - position >= _LENGTH:
                size = int.from_bytes(data[position : position + _LENGTH], "little")
                if size > LONGEST:
                    raise InvalidInputError(f"a message of {size} bytes is too long, at most {LONGEST} are allowed")
                if len(data) - position - _LENGTH < size:
                    break
                messages.append(self._decoder.decode(data[position + _LENGTH : position + _LENGTH + size]))
                position += _LENGTH + size
        if is_partial:
            del self._held[:position]
        else:
            self._held += received[position:]
        return messages


def json_as(value_type: Any) -> Callable[[bytes], Any]:
    """Return a decoder of JSON texts as values of a type. Create it once."""
    return partial(_decoded, msgspec.json.Decoder(value_type).decode, "JSON", _fields(value_type))


def msgpack_as(value_type: Any) -> Callable[[bytes], Any]:
    """Return a decoder of MessagePack as values of a type. Create it once."""
    return partial(_decoded, msgspec.msgpack.Decoder(value_type).decode, "MessagePack", _fields(value_type))


def _fields(value_type: Any) -> str:
    """List the fields of an object for error messages."""
    if not hasattr(value_type, "__struct_fields__"):
        return ""
    names = [field.encode_name for field in msgspec.structs.fields(value_type)]
    return f"; its fields are {', '.join(names)}"


def _decoded(decode: Callable[[bytes], Any], named: str, fields: str, raw: bytes) -> Any:
    try:
        return decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidInputError(
            f"the body is valid {named}, but does not match this endpoint: {error}{fields} (see /docs)"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInputError(f"the body is not valid {named}: {error}") from None


#: Decodes any JSON text.
from_json = json_as(Any)


class ClientDisconnect(Exception):
    """The client has closed its connection."""


class Refused(ThinstreamError):
    """A request is refused, with an HTTP status and a message."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


_GONE = "the learner is starting. Predictions still work; try again in a second"
_LATE = (
    "the learner has not answered in time, so it is unknown whether the request was stored. Send it again with the "
    "same Idempotency-Key"
)
#: Seconds between attempts to connect.
_AGAIN = 0.1
#: Seconds between checks for requests that have waited too long.
_LOOK = 0.2
#: Deadlines in seconds that differ from `Limits.answer_seconds`: health checks must be fast, and changes of a model may
#: replay its journal or compile code.
_SECONDS = {"status": 2.0, "load": 600.0, "unload": 600.0, "change": 600.0}
#: Bytes that may wait to be sent to the learner.
_UNSENT = 64 << 20
#: The ASGI scope of the current request. The function under the key `DROP` stops waiting for the learner's reply.
current_scope: ContextVar[dict[str, Any] | None] = ContextVar("current_scope", default=None)
DROP = "thinstream.drop"


class _Connection(asyncio.Protocol):
    """One connection to the learner, and the requests that wait for replies on it."""

    def __init__(self) -> None:
        self._frames = Frames(LinkReply)
        #: Pending replies and their deadlines.
        self._waiting: dict[int, tuple[asyncio.Future[LinkReply], float]] = {}
        self._transport: Any = None
        self._out: list[bytes] = []
        self.lost = asyncio.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def is_full(self, most: int) -> bool:
        """Return whether ``most`` requests wait for replies, or too many bytes wait to be sent."""
        return len(self._waiting) >= most or self._transport.get_write_buffer_size() > _UNSENT

    def forget(self, number: int) -> None:
        self._waiting.pop(number, None)

    def expire(self, now: float) -> None:
        """Fail the requests whose deadline has passed."""
        for future, until in [*self._waiting.values()]:
            if now >= until and not future.done():
                future.set_exception(Refused(503, _LATE, retry_after=1))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        """Fail all waiting requests. It is unknown which of them are on disk, so clients must send them again."""
        self.lost.set()
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_exception(Refused(503, _GONE, retry_after=1))

    def data_received(self, data: bytes) -> None:
        for reply in self._frames.take(data):
            future, _ = self._waiting.pop(reply.number, (None, 0.0))
            if future is not None and not future.done():
                future.set_result(reply)

    def ask(self, asked: LearnerRequest, seconds: float) -> asyncio.Future[LinkReply]:
        """Send a request, together with others of the same moment; return its reply as a future."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[LinkReply] = loop.create_future()
        self._waiting[asked.number] = future, loop.time() + seconds
        if not self._out:
            loop.call_soon(self._send)
        self._out.append(framed(asked))
        return future

    def _send(self) -> None:
        out, self._out = self._out, []
        if not self._transport.is_closing():  # otherwise `connection_lost` fails the waiting requests
            self._transport.write(b"".join(out))

    def close(self) -> None:
        self._transport.close()


class Link:
    """Sends requests to the learner and waits for replies. It reconnects after the learner restarted."""

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self._path, self._numbers, self._limits = path, itertools.count(), limits or Limits()
        self._line: _Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Start to connect to the learner."""
        self._task = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        if self._line is not None:
            self._line.close()

    async def _keep(self) -> None:
        """Connect, and reconnect when the connection is lost."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, line = await loop.create_unix_connection(_Connection, str(self._path))
            except OSError:
                await asyncio.sleep(_AGAIN)
                continue
            self._line = line
            while not line.lost.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(line.lost.wait(), _LOOK)
                line.expire(loop.time())
            self._line = None

    async def ask(self, what: str, model: str = "", **more: Any) -> dict[str, Any]:
        """Return the reply; raise `Refused` if none comes in time, `ClientDisconnect` if the client left."""
        line, limits = self._line, self._limits
        if line is None or line.lost.is_set():
            raise Refused(503, _GONE, retry_after=1)
        if what != "status" and line.is_full(limits.questions):
            raise Refused(503, f"{len(line)} requests already wait for the learner; try again later", retry_after=1)
        number, scope = next(self._numbers), current_scope.get()
        future = line.ask(LearnerRequest(number, what, model, **more), _SECONDS.get(what, limits.answer_seconds))
        if scope is not None:
            scope[DROP] = partial(_drop, future)
        try:
            reply = await future
        except BaseException:
            line.forget(number)
            raise
        if reply.status != 200:
            raise Refused(reply.status, reply.answer["error"], retry_after=1 if reply.status in (429, 503) else None)
        return reply.answer


def _drop(future: asyncio.Future[LinkReply]) -> None:
    """Stop waiting for a reply, because the client left."""
    if not future.done():
        future.set_exception(ClientDisconnect())


#: A checksum of the rest; version, dtype of values, bytes per index, whether there are weights; numbers of rows,
#: non-zeros, features, and scores per row.
_HEAD = struct.Struct("<QBcB?qqqq")
_VERSION = 1
#: The version of entries that are changes, not rows.
_CHANGE = 2


class Packed(NamedTuple):
    """Rows with their original labels, and the scores from the time of their prediction, if they were predicted."""

    batch: Batch
    labels: list[Any]
    scores: list[NDArray[Any] | None]


def pack(batch: Batch, labels: Sequence[Any], scores: NDArray[Any] | None = None) -> bytes:
    """Encode rows, weights and labels (strings, numbers or booleans), and their scores at prediction.

    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 3], np.int32), np.array([1.0, 0.5], np.float32), 4)
    >>> unpacked = unpack([pack(rows, ["ham", "spam"])])
    >>> unpacked.labels, unpacked.batch.indices
    (['ham', 'spam'], array([0, 3], dtype=int32))
    """
    n, used = len(batch), slice(int(batch.indptr[0]), int(batch.indptr[-1]))
    if len(labels) != n:
        raise InvalidInputError(f"labels: each row needs one, got {len(labels)} for {n} rows")
    starts = batch.indptr.astype(np.int64, copy=False)
    scores_per_row = 0 if scores is None else scores.size // n
    dtype_char, nnz = batch.values.dtype.char.encode(), used.stop - used.start
    head = _HEAD.pack(
        0,
        _VERSION,
        dtype_char,
        batch.indices.itemsize,
        batch.weights is not None,
        n,
        nnz,
        batch.n_features,
        scores_per_row,
    )
    body = b"".join(
        [
            head[8:],
            (starts[1:] - starts[:-1]).tobytes(),
            batch.indices[used].tobytes(),
            batch.values[used].tobytes(),
            b"" if batch.weights is None else batch.weights.astype(np.float64, copy=False).tobytes(),
            b"" if scores is None else scores.astype(np.float64, copy=False).tobytes(),
            to_json(labels),
        ]
    )
    return xxh3_64_intdigest(body).to_bytes(8, "little") + body


def unpack(packs: Sequence[bytes]) -> Packed:
    """Decode the rows of several packs, in order; raise `InvalidInputError` if any byte has changed."""
    parts = [_parts(part) for part in packs]
    lengths = _joined([(np.dtype(np.int64), part.lengths) for part in parts])
    weighted = any(part.weights for part in parts)
    ones = [part.weights or np.ones(part.rows).tobytes() for part in parts] if weighted else []
    batch = Batch.of(
        np.concatenate([[0], np.cumsum(lengths)]),
        _joined([(part.index_dtype, part.indices) for part in parts]),
        _joined([(part.value_dtype, part.values) for part in parts]),
        max(part.n_features for part in parts),
        weights=_joined([(np.dtype(np.float64), part) for part in ones]) if weighted else None,
    )
    labels = [label for part in parts for label in from_json(part.labels)]
    scores: list[NDArray[Any] | None] = []
    for part in parts:
        rows = np.frombuffer(part.scores).astype(part.value_dtype).reshape(part.rows, -1) if part.scores else ()
        scores += [*rows] or [None] * part.rows
    return Packed(batch, labels, scores)


def _joined(parts: list[tuple[np.dtype[Any], bytes]]) -> NDArray[Any]:
    """Concatenate arrays given as bytes, thousands of small ones in one step if their dtypes agree."""
    if len({dtype for dtype, _ in parts}) == 1:
        return np.frombuffer(bytearray().join([raw for _, raw in parts]), parts[0][0])
    return np.concatenate([np.frombuffer(raw, dtype) for dtype, raw in parts])


def is_sound(data: bytes) -> bool:
    """Return whether the checksum of an entry matches its bytes."""
    return len(data) >= _HEAD.size and int.from_bytes(data[:8], "little") == xxh3_64_intdigest(data[8:])


def n_rows(data: bytes) -> int:
    n: int = _HEAD.unpack_from(data)[5]
    return n


def labels_of(data: bytes) -> list[Any]:
    """Return the labels of packed rows; empty for a change."""
    return [] if change_of(data) is not None else from_json(_parts(data).labels)


class _Parts(NamedTuple):
    """The bytes of each array of a pack."""

    rows: int
    n_features: int
    index_dtype: np.dtype[Any]
    value_dtype: np.dtype[Any]
    lengths: bytes
    indices: bytes
    values: bytes
    weights: bytes
    scores: bytes
    labels: bytes


_VALUES = {code: np.dtype(code.decode()) for code in (b"f", b"d")}
_INDICES: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def _parts(data: bytes) -> _Parts:
    if not is_sound(data):
        raise InvalidInputError("rows of the journal are damaged: their checksum does not match")
    _, version, dtype_char, size, weighted, rows, nnz, n_features, scores_per_row = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise InvalidInputError(
            f"rows of the journal have format version {version}, but this version of thinstream reads {_VERSION}"
        )
    value_dtype, a = _VALUES[dtype_char], _HEAD.size
    b = a + 8 * rows
    c = b + size * nnz
    d = c + value_dtype.itemsize * nnz
    e = d + 8 * rows * weighted
    f = e + 8 * rows * scores_per_row
    return _Parts(
        rows, n_features, _INDICES[size], value_dtype, data[a:b], data[b:c], data[c:d], data[d:e], data[e:f], data[f:]
    )


class Change(NamedTuple):
    """A journal entry that changes the model: a JSON object, and bytes such as a model file."""

    what: dict[str, Any]
    data: bytes = b""


def pack_change(change: Change) -> bytes:
    """Encode a change as a journal entry.

    >>> change_of(pack_change(Change({"what": "rollback", "version": 7})))
    Change(what={'what': 'rollback', 'version': 7}, data=b'')
    """
    raw: bytes = to_json(change.what)
    head = _HEAD.pack(0, _CHANGE, b"f", 0, False, 0, len(raw), 0, 0)[8:]
    body = raw + change.data
    return xxh3_64_intdigest(head + body).to_bytes(8, "little") + head + body


def change_of(data: bytes) -> Change | None:
    """Decode an entry that is a change; None if it has rows."""
    if data[8] != _CHANGE:
        return None
    if not is_sound(data):
        raise InvalidInputError("a change in the journal is damaged: its checksum does not match")
    until = _HEAD.size + _HEAD.unpack_from(data)[6]
    return Change(from_json(data[_HEAD.size : until]), data[until:])
