"""Rows with the scores they got, waiting for their labels; what became of them is counted."""

import os
import sqlite3
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError
from thinstream.late_labels.store import Id, RowStore


class ReplacedRowError(InvalidInputError):
    """Another row waits for its label under the same id."""


class Labelled(NamedTuple):
    """What became of some labels."""

    learned: int
    unknown: list[Id]  # no row was predicted under them, or so long ago that it is forgotten
    expired: list[Id]  # their rows were too old, or too many
    repeated: list[Id]  # they have had their label

    @property
    def unmatched(self) -> dict[str, list[Id]]:
        """Ids whose row did not wait, by why, where there are any."""
        return {name: ids for name, ids in self._asdict().items() if name != "learned" and ids}


class Waiting:
    """A `RowStore` of rows of batches, the parameters of which it has.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 1]), np.array([1.0, 2.0]), 2)
    >>> waiting = Waiting(keep=10)
    >>> waiting.put(["a", "b"], rows, np.array([0.5, -0.5]), np.dtype("float32"))
    >>> outcome, places = waiting.look(["b", "x"])
    >>> outcome, places
    (Labelled(learned=1, unknown=['x'], expired=[], repeated=[]), [0])
    >>> with waiting.taking(["b"], 2) as (found, scores):
    ...     print(found.values, scores)
    [2.] [array([-0.5], dtype=float32)]
    >>> waiting.count(outcome)
    >>> waiting.counts["unknown"], len(waiting)
    (1, 1)

    """

    def __init__(
        self,
        keep: int = 1_000_000,
        seconds: float | None = None,
        path: str | os.PathLike[str] | sqlite3.Connection | None = None,
        clock: Callable[[], float] = time.time,
        keep_bytes: int | None = None,
    ) -> None:
        self.store = RowStore(keep, seconds, path, clock, keep_bytes)
        self.counts = dict.fromkeys(("predicted", "replaced", *Labelled._fields), 0)

    def put(
        self,
        ids: Sequence[Id],
        batch: Batch,
        scores: NDArray[Any],
        dtype: np.dtype[Any],
        times: Sequence[float] | None = None,
    ) -> None:
        """Keeps rows and their scores; ``times`` are those of the rows, by default now."""
        self.counts["replaced"] += self.store.put(ids, _packed(batch, scores, dtype), times)
        self.counts["predicted"] += len(ids)

    def are_stored(self, ids: Sequence[Id], batch: Batch, dtype: np.dtype[Any]) -> list[bool]:
        """Return which rows wait already under their ids; `ReplacedRowError` if another row waits under one."""
        own = _features(_packed(batch, np.empty((len(batch), 0)), dtype))
        stored = [row if row is None else next(_features([row])) for row in map(self.store.row, ids)]
        rows = dict[Id, Any]()
        for each, row, known in zip(ids, own, stored, strict=True):
            if (known or rows.setdefault(each, row)) != row:
                raise ReplacedRowError(
                    f"id {each!r:.60}: another row waits for its label under this id; send its label first, or use "
                    "another id"
                )
        return [known is not None for known in stored]

    def look(self, ids: Sequence[Id]) -> tuple[Labelled, list[int]]:
        """What is known of ids that have got a label, and the places of those whose rows wait; nothing is counted."""
        found: dict[str, list[Id]] = {"waiting": [], "unknown": [], "expired": [], "labelled": []}
        places, met = [], set[Id]()
        for place, (each, known) in enumerate(zip(ids, self.store.statuses(ids), strict=True)):
            status = "labelled" if each in met else known
            found[status].append(each)
            if status == "waiting":
                places.append(place)
                met.add(each)
        return Labelled(len(places), found["unknown"], found["expired"], found["labelled"]), places

    def count(self, outcome: Labelled) -> None:
        """Adds what became of some labels."""
        self.counts["learned"] += outcome.learned
        for name, ids in outcome.unmatched.items():
            self.counts[name] += len(ids)

    @contextmanager
    def taking(self, ids: Sequence[Id], n_features: int) -> Iterator[tuple[Batch, list[NDArray[Any]]]]:
        """The rows of ids that all wait and the scores they got, to be learned; after an error they still wait."""
        with self.store.taking(ids) as rows:
            yield _unpacked(rows, n_features)

    def __len__(self) -> int:
        return len(self.store)

    def close(self) -> None:
        """Lets go of the file."""
        self.store.close()


_HEAD, _MANY = struct.Struct("<qc"), struct.Struct("<q")


def _packed(batch: Batch, scores: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[bytes]:
    """Each row as bytes: how wide it may be, the type of its values, how many scores, scores, indices, values."""
    values, indices = batch.values.astype(dtype, copy=False), batch.indices.astype(np.int64, copy=False)
    head = _HEAD.pack(batch.n_features, dtype.char.encode())
    own = np.ascontiguousarray(scores.reshape(len(batch), -1), dtype=dtype)
    many = _MANY.pack(own.shape[1])
    for k, (a, b) in enumerate(zip(batch.indptr[:-1], batch.indptr[1:], strict=True)):
        yield head + many + own[k].tobytes() + indices[a:b].tobytes() + values[a:b].tobytes()


def _features(rows: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The bytes of each packed row without its scores, which depend on the version of the model."""
    for row in rows:
        kind = np.dtype(_HEAD.unpack_from(row)[1].decode())
        place = _HEAD.size + _MANY.size
        yield row[_HEAD.size - 1 : _HEAD.size], row[place + _MANY.unpack_from(row, _HEAD.size)[0] * kind.itemsize :]


def _unpacked(rows: Sequence[bytes], n_features: int) -> tuple[Batch, list[NDArray[Any]]]:
    indices, values, lengths, scores, width = [], [], [0], [], n_features
    for row in rows:
        wide, kind = _HEAD.unpack_from(row)
        dtype, place = np.dtype(kind.decode()), _HEAD.size + _MANY.size
        n_scores = _MANY.unpack_from(row, _HEAD.size)[0]
        scores.append(np.frombuffer(row, dtype, n_scores, place))
        place += n_scores * dtype.itemsize
        many = (len(row) - place) // (8 + dtype.itemsize)
        indices.append(np.frombuffer(row, np.int64, many, place))
        values.append(np.frombuffer(row, dtype, many, place + 8 * many))
        lengths.append(many)
        width = max(width, wide)
    numbers = np.concatenate(indices).astype(np.int32 if width < 2**31 else np.int64)
    return Batch.of(np.cumsum(lengths), numbers, np.concatenate(values), width), scores
