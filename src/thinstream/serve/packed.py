"""Labelled rows as bytes, as the journal keeps them: what is learned later is what was checked when it came."""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.serve.wire import from_json, to_json

#: Checksum of all after it; version, type of values, bytes of an index, whether there are weights; rows, non-zeros,
#: features, scores a row.
_HEAD = struct.Struct("<QBcB?qqqq")
_VERSION = 1
#: The version of entries that are no rows.
_CHANGE = 2


class Packed(NamedTuple):
    """Rows with their labels, as they were given, and the scores they got when they were predicted, if they were."""

    batch: Batch
    labels: list[Any]
    scores: list[NDArray[Any] | None]


def pack(batch: Batch, labels: Sequence[Any], scores: NDArray[Any] | None = None) -> bytes:
    """The rows, their weights and labels (text, numbers, true or false), and their scores at prediction.

    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 3], np.int32), np.array([1.0, 0.5], np.float32), 4)
    >>> found = unpack([pack(rows, ["ham", "spam"])])
    >>> found.labels, found.batch.indices
    (['ham', 'spam'], array([0, 3], dtype=int32))
    """
    n, used = len(batch), slice(int(batch.indptr[0]), int(batch.indptr[-1]))
    if len(labels) != n:
        raise InvalidInputError(f"labels: one for each row is needed, got {len(labels)} for {n} rows")
    starts = batch.indptr.astype(np.int64, copy=False)
    many = 0 if scores is None else scores.size // n
    kind, nnz = batch.values.dtype.char.encode(), used.stop - used.start
    head = _HEAD.pack(
        0, _VERSION, kind, batch.indices.itemsize, batch.weights is not None, n, nnz, batch.n_features, many
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
    """The rows of several, in order; `InvalidInputError` if a bit has changed."""
    found = [_parts(each) for each in packs]
    lengths = _joined([(np.dtype(np.int64), each.lengths) for each in found])
    weighted = any(each.weights for each in found)
    ones = [each.weights or np.ones(each.rows).tobytes() for each in found] if weighted else []
    batch = Batch.of(
        np.concatenate([[0], np.cumsum(lengths)]),
        _joined([(each.index_kind, each.indices) for each in found]),
        _joined([(each.value_kind, each.values) for each in found]),
        max(each.n_features for each in found),
        weights=_joined([(np.dtype(np.float64), each) for each in ones]) if weighted else None,
    )
    labels = [label for each in found for label in from_json(each.labels)]
    scores: list[NDArray[Any] | None] = []
    for each in found:
        rows = np.frombuffer(each.scores).astype(each.value_kind).reshape(each.rows, -1) if each.scores else ()
        scores += [*rows] or [None] * each.rows
    return Packed(batch, labels, scores)


def _joined(parts: list[tuple[np.dtype[Any], bytes]]) -> NDArray[Any]:
    """The bytes of arrays as one array; thousands of small ones at once."""
    if len({kind for kind, _ in parts}) == 1:
        return np.frombuffer(bytearray().join([raw for _, raw in parts]), parts[0][0])
    return np.concatenate([np.frombuffer(raw, kind) for kind, raw in parts])


def is_sound(data: bytes) -> bool:
    """Whether the checksum of an entry matches its bytes."""
    return len(data) >= _HEAD.size and int.from_bytes(data[:8], "little") == xxh3_64_intdigest(data[8:])


def n_rows(data: bytes) -> int:
    """How many rows were packed."""
    found: int = _HEAD.unpack_from(data)[5]
    return found


def labels_of(data: bytes) -> list[Any]:
    """The labels of packed rows, or none of a change."""
    return [] if change_of(data) is not None else from_json(_parts(data).labels)


class _Parts(NamedTuple):
    """The bytes of each array."""

    rows: int
    n_features: int
    index_kind: np.dtype[Any]
    value_kind: np.dtype[Any]
    lengths: bytes
    indices: bytes
    values: bytes
    weights: bytes
    scores: bytes
    labels: bytes


_KINDS = {kind: np.dtype(kind.decode()) for kind in (b"f", b"d")}
_INDICES: dict[int, np.dtype[Any]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}


def _parts(data: bytes) -> _Parts:
    if not is_sound(data):
        raise InvalidInputError("rows of the journal are damaged: their checksum does not fit")
    _, version, kind, size, weighted, rows, nnz, n_features, many = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise InvalidInputError(f"rows of the journal have version {version}, this library reads {_VERSION}")
    value, a = _KINDS[kind], _HEAD.size
    b = a + 8 * rows
    c = b + size * nnz
    d = c + value.itemsize * nnz
    e = d + 8 * rows * weighted
    f = e + 8 * rows * many
    return _Parts(
        rows, n_features, _INDICES[size], value, data[a:b], data[b:c], data[c:d], data[d:e], data[e:f], data[f:]
    )


class Change(NamedTuple):
    """What a journal is told beside rows: something happens to the model, as JSON has it, and bytes that go with it."""

    what: dict[str, Any]
    data: bytes = b""


def pack_change(change: Change) -> bytes:
    """A change as an entry of a journal.

    >>> change_of(pack_change(Change({"what": "rollback", "version": 7})))
    Change(what={'what': 'rollback', 'version': 7}, data=b'')
    """
    raw: bytes = to_json(change.what)
    head = _HEAD.pack(0, _CHANGE, b"f", 0, False, 0, len(raw), 0, 0)[8:]
    body = raw + change.data
    return xxh3_64_intdigest(head + body).to_bytes(8, "little") + head + body


def change_of(data: bytes) -> Change | None:
    """The change that an entry is; None if it is rows."""
    if data[8] != _CHANGE:
        return None
    if not is_sound(data):
        raise InvalidInputError("a change in the journal is damaged: its checksum does not fit")
    until = _HEAD.size + _HEAD.unpack_from(data)[6]
    return Change(from_json(data[_HEAD.size : until]), data[until:])
