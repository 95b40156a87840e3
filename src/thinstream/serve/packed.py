"""Labelled rows as bytes, as the journal keeps them: what is learned later is what was checked when it came."""

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError

#: Checksum of all after it; version, type of values, bytes of an index, whether there are weights; rows, non-zeros,
#: features, scores a row.
_HEAD = struct.Struct("<QBcB?qqqq")
_VERSION = 1


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
    given = np.empty((n, 0)) if scores is None else scores.reshape(n, -1)
    weights = np.empty(0) if batch.weights is None else batch.weights
    body = b"".join(
        [
            np.diff(batch.indptr).astype(np.int64).tobytes(),
            batch.indices[used].tobytes(),
            batch.values[used].tobytes(),
            np.asarray(weights, np.float64).tobytes(),
            np.asarray(given, np.float64).tobytes(),
            json.dumps(list(labels), separators=(",", ":")).encode(),
        ]
    )
    nnz, kind = used.stop - used.start, batch.values.dtype.char.encode()
    shape = n, nnz, batch.n_features, given.shape[1]
    head = _HEAD.pack(0, _VERSION, kind, batch.indices.itemsize, batch.weights is not None, *shape)[8:]
    return xxh3_64_intdigest(head + body).to_bytes(8, "little") + head + body


def unpack(packs: Sequence[bytes]) -> Packed:
    """The rows of several, in order; `InvalidInputError` if a bit has changed."""
    found = [_arrays(each) for each in packs]
    lengths = np.concatenate([each.lengths for each in found])
    width = max(each.n_features for each in found)
    weighted = any(each.weights is not None for each in found)
    batch = Batch.of(
        np.concatenate([[0], np.cumsum(lengths)]),
        np.concatenate([each.indices for each in found]),
        np.concatenate([each.values for each in found]),
        width,
        weights=np.concatenate([np.ones(len(e.lengths)) if e.weights is None else e.weights for e in found])
        if weighted
        else None,
    )
    labels = [label for each in found for label in each.labels]
    scores: list[NDArray[Any] | None] = [
        row if len(row) else None for each in found for row in each.scores.astype(each.values.dtype)
    ]
    return Packed(batch, labels, scores)


def n_rows(data: bytes) -> int:
    """How many rows were packed."""
    found: int = _HEAD.unpack_from(data)[5]
    return found


class _Arrays(NamedTuple):
    n_features: int
    lengths: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[Any]
    weights: NDArray[np.float64] | None
    scores: NDArray[np.float64]
    labels: list[Any]


def _arrays(data: bytes) -> _Arrays:
    if len(data) < _HEAD.size or int.from_bytes(data[:8], "little") != xxh3_64_intdigest(data[8:]):
        raise InvalidInputError("rows of the journal are damaged: their checksum does not fit")
    _, version, kind, size, weighted, rows, nnz, n_features, many = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise InvalidInputError(f"rows of the journal have version {version}, this library reads {_VERSION}")
    place = _HEAD.size

    def take(dtype: Any, count: int) -> NDArray[Any]:
        nonlocal place
        start, place = place, place + np.dtype(dtype).itemsize * count
        return np.frombuffer(data, dtype, count, start)

    lengths, indices = take(np.int64, rows), take(f"i{size}", nnz)
    values, weights = take(kind.decode(), nnz), take(np.float64, rows if weighted else 0)
    scores = take(np.float64, rows * many).reshape(rows, many)
    return _Arrays(
        n_features, lengths, indices, values, weights if weighted else None, scores, json.loads(data[place:])
    )
