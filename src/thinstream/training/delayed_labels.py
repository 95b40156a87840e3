"""Delayed labels: rows are scored now, stored by id, and learned when their labels arrive."""

import os
import sqlite3
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.data.opening import open_files
from thinstream.data.options import Options
from thinstream.data.stream import START, Stream
from thinstream.errors import InvalidInputError, InvalidParameterError, meant
from thinstream.models.model import Model
from thinstream.models.pipeline import Pipeline
from thinstream.training.job import OutputFiles, Source
from thinstream.training.run import Run

# Rows that wait for their labels, by id: a table of SQLite, in memory or in a file.

Id = int | str
#: The status of an id: its row waits, has expired, already has a label, or is unknown.
Status = Literal["waiting", "expired", "labelled", "unknown"]

#: The tables of waiting rows.
TABLES = """
CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY, id UNIQUE, at REAL NOT NULL, row BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS waiting_at ON waiting (at);
CREATE TABLE IF NOT EXISTS gone (number INTEGER PRIMARY KEY, id UNIQUE, status TEXT NOT NULL);
"""


class RowStore:
    """Stores the newest rows for a limited time, and remembers the status of as many earlier rows.

    Parameters
    ----------
    keep : int, default=1_000_000
        The maximum number of waiting rows. Then the oldest expire. As many ids of earlier rows are remembered.
    seconds : float or None, default=None
        How long a row may wait. None: no limit.
    path : path, connection or None, default=None
        A SQLite file, in which rows outlive the process. None: in memory. With an open connection, changes are part of
        the transaction of its owner.
    clock : callable, default=time.time
    keep_bytes : int or None, default=None
        The maximum size of all rows in bytes. Then the oldest expire. None: no limit.

    Examples
    --------
    >>> store = RowStore(keep=2)
    >>> store.put(["a", "b", "c"], [b"first", b"second", b"third"])
    0
    >>> store.statuses(["a", "b", "x"])
    ['expired', 'waiting', 'unknown']
    >>> with store.taking(["c"]) as rows:
    ...     print(rows)
    [b'third']
    >>> store.statuses(["c"]), len(store)
    (['labelled'], 1)

    """

    def __init__(
        self,
        keep: int = 1_000_000,
        seconds: float | None = None,
        path: str | os.PathLike[str] | sqlite3.Connection | None = None,
        clock: Callable[[], float] = time.time,
        keep_bytes: int | None = None,
    ) -> None:
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise InvalidParameterError(f"keep must be a whole number ≥ 1, got {keep!r}")
        if seconds is not None and not seconds > 0:
            raise InvalidParameterError(f"seconds must be a number > 0 or None, got {seconds!r}")
        if keep_bytes is not None and keep_bytes < 1:
            raise InvalidParameterError(f"keep_bytes must be a whole number ≥ 1 or None, got {keep_bytes!r}")
        self.keep, self.seconds, self._clock, self.keep_bytes = keep, seconds, clock, keep_bytes
        self._tables = path if isinstance(path, sqlite3.Connection) else _opened(path)
        self._many = self._bytes = 0
        self.count()

    def count(self) -> None:
        """Count the waiting rows, after a transaction was rolled back."""
        query = "SELECT count(*), coalesce(sum(length(row)), 0) FROM waiting"
        self._many, self._bytes = self._tables.execute(query).fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block in a transaction."""
        tables = self._tables
        if not tables.in_transaction:
            with tables:
                yield tables
            return
        tables.execute("SAVEPOINT rows")
        try:
            yield tables
        except BaseException:
            if tables.in_transaction:  # SQLite takes all of it back where the disk is full
                tables.execute("ROLLBACK TO rows")
            raise
        finally:
            if tables.in_transaction:
                tables.execute("RELEASE rows")

    def put(self, ids: Sequence[Id], rows: Iterable[bytes], times: Sequence[float] | None = None) -> int:
        """Keeps rows under their ids; a row that already waits under one is replaced. How many were.

        ``times`` are those of the rows, none after now; without them all are of now.
        """
        now = self._clock()
        pairs: dict[Id, tuple[float, bytes]] = {}
        for row_id, row, at in zip(ids, rows, [now] * len(ids) if times is None else times, strict=True):
            pairs.pop(row_id, None)  # of several rows of one id the last, in its place
            pairs[row_id] = at, row
        with self._transaction() as tables:
            keys = [(row_id,) for row_id in pairs]
            tables.executemany("DELETE FROM gone WHERE id IS ?", keys)
            old = [row for row in map(self.row, pairs) if row is not None]
            if old:
                tables.executemany("DELETE FROM waiting WHERE id IS ?", keys)
            values = ((row_id, at, row) for row_id, (at, row) in pairs.items())
            tables.executemany("INSERT INTO waiting (id, at, row) VALUES (?, ?, ?)", values)
            size = self._bytes + sum(len(row) for _, row in pairs.values()) - sum(map(len, old))
            many, size = self._expire(tables, self._many + len(pairs) - len(old), size, now)
        self._many, self._bytes = many, size
        return len(old) + len(ids) - len(pairs)

    def row(self, row_id: Id) -> bytes | None:
        """Return the row that waits under an id, or None."""
        stored = self._tables.execute("SELECT row FROM waiting WHERE id IS ?", (row_id,)).fetchone()
        return None if stored is None else stored[0]

    def _expire(self, tables: sqlite3.Connection, many: int, size: int, now: float) -> tuple[int, int]:
        """Expire rows that are too old or too many; the newest ids of them are remembered.

        ``many`` and ``size`` are the rows and bytes in the table; returns those that are left.
        """
        old: list[tuple[str, float]] = []
        if many > self.keep:
            first = "number <= (SELECT number FROM waiting ORDER BY number LIMIT 1 OFFSET ?)"
            old.append((first, many - self.keep - 1))
        if self.keep_bytes is not None and size > self.keep_bytes:
            old.append(("number <= ?", self._last_beyond(tables, size - self.keep_bytes)))
        if self.seconds is not None:
            old.append(("at < ?", now - self.seconds))
        if not old:
            return many, size
        which, values = " OR ".join(condition for condition, _ in old), [value for _, value in old]
        gone = f"INSERT OR REPLACE INTO gone (id, status) SELECT id, 'expired' FROM waiting WHERE {which}"
        tables.execute(gone, values)
        sizes = tables.execute(f"SELECT coalesce(sum(length(row)), 0) FROM waiting WHERE {which}", values)
        size -= sizes.fetchone()[0]
        went = tables.execute(f"DELETE FROM waiting WHERE {which}", values).rowcount
        self._forget(tables)
        return many - went, size

    @staticmethod
    def _last_beyond(tables: sqlite3.Connection, size: int) -> int:
        """The number of the row up to which the oldest rows have ``size`` bytes together."""
        last = -1
        with closing(tables.execute("SELECT number, length(row) FROM waiting ORDER BY number")) as rows:
            while size > 0 and (row := rows.fetchone()) is not None:
                last, size = row[0], size - row[1]
        return last

    def _forget(self, tables: sqlite3.Connection) -> None:
        tables.execute("DELETE FROM gone WHERE number <= (SELECT max(number) FROM gone) - ?", (self.keep,))

    def statuses(self, ids: Sequence[Id]) -> list[Status]:
        """Return the status of ids."""
        with self._transaction() as tables:
            many, size = self._expire(tables, self._many, self._bytes, self._clock())
        self._many, self._bytes = many, size
        statuses: list[Status] = []
        for row_id in ids:
            waits = self._tables.execute("SELECT 1 FROM waiting WHERE id IS ?", (row_id,)).fetchone()
            gone = self._tables.execute("SELECT status FROM gone WHERE id IS ?", (row_id,)).fetchone()
            statuses.append("waiting" if waits else gone[0] if gone else "unknown")
        return statuses

    @contextmanager
    def taking(self, ids: Sequence[Id]) -> Iterator[list[bytes]]:
        """Yield the waiting rows of ids to learn. After the block they are labelled; after an error they still wait."""
        keys = [(row_id,) for row_id in ids]
        with self._transaction() as tables:
            rows = [tables.execute("SELECT row FROM waiting WHERE id IS ?", key).fetchone()[0] for key in keys]
            yield rows
            tables.executemany("DELETE FROM waiting WHERE id IS ?", keys)
            tables.executemany("INSERT OR REPLACE INTO gone (id, status) VALUES (?, 'labelled')", keys)
            self._forget(tables)
        self._many -= len(keys)
        self._bytes -= sum(map(len, rows))

    def __len__(self) -> int:
        return self._many

    def close(self) -> None:
        """Close the file."""
        self._tables.close()


def _opened(path: str | os.PathLike[str] | None) -> sqlite3.Connection:
    location = ":memory:" if path is None else os.fspath(path)
    try:
        tables = sqlite3.connect(location, check_same_thread=False)
        tables.executescript(TABLES)
    except sqlite3.DatabaseError as error:
        raise InvalidInputError(f"{location}: rows cannot be kept there: {error}") from None
    return tables


# Rows with their scores, waiting for labels, and counts of their statuses.


class ReplacedRowError(InvalidInputError):
    """Another row waits for its label under the same id."""


class Labelled(NamedTuple):
    """The results of some labels."""

    learned: int
    unknown: list[Id]  # no row was predicted with this id, or too long ago
    expired: list[Id]  # their rows waited too long, or too many came after them
    repeated: list[Id]  # they already have a label

    @property
    def unmatched(self) -> dict[str, list[Id]]:
        """The ids of labels without a waiting row, by reason."""
        return {name: ids for name, ids in self._asdict().items() if name != "learned" and ids}


class Waiting:
    """A `RowStore` for rows of batches, with the same parameters.

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
        """Store rows and their scores. ``times`` are the times of the rows, by default now."""
        self.counts["replaced"] += self.store.put(ids, _packed(batch, scores, dtype), times)
        self.counts["predicted"] += len(ids)

    def are_stored(self, ids: Sequence[Id], batch: Batch, dtype: np.dtype[Any]) -> list[bool]:
        """Return which rows wait already under their ids; `ReplacedRowError` if another row waits under one."""
        own = _features(_packed(batch, np.empty((len(batch), 0)), dtype))
        stored = [row if row is None else next(_features([row])) for row in map(self.store.row, ids)]
        rows = dict[Id, Any]()
        for row_id, row, stored_row in zip(ids, own, stored, strict=True):
            if (stored_row or rows.setdefault(row_id, row)) != row:
                raise ReplacedRowError(
                    f"id {row_id!r:.60}: another row with this id waits for its label. Send its label first, or use "
                    "another id"
                )
        return [stored_row is not None for stored_row in stored]

    def look(self, ids: Sequence[Id]) -> tuple[Labelled, list[int]]:
        """Return the results of ids with labels, and the positions of those whose rows wait, without counting them."""
        ids_by_status: dict[str, list[Id]] = {"waiting": [], "unknown": [], "expired": [], "labelled": []}
        places, met = [], set[Id]()
        for position, (row_id, stored_status) in enumerate(zip(ids, self.store.statuses(ids), strict=True)):
            status = "labelled" if row_id in met else stored_status
            ids_by_status[status].append(row_id)
            if status == "waiting":
                places.append(position)
                met.add(row_id)
        ids_of = ids_by_status
        return Labelled(len(places), ids_of["unknown"], ids_of["expired"], ids_of["labelled"]), places

    def count(self, outcome: Labelled) -> None:
        """Count the results of some labels."""
        self.counts["learned"] += outcome.learned
        for name, ids in outcome.unmatched.items():
            self.counts[name] += len(ids)

    @contextmanager
    def taking(self, ids: Sequence[Id], n_features: int) -> Iterator[tuple[Batch, list[NDArray[Any]]]]:
        """Yield the waiting rows of ids and their scores, to learn. After an error they still wait."""
        with self.store.taking(ids) as rows:
            yield _unpacked(rows, n_features)

    def __len__(self) -> int:
        return len(self.store)

    def close(self) -> None:
        """Close the file."""
        self.store.close()


_HEAD, _MANY = struct.Struct("<qc"), struct.Struct("<q")


def _packed(batch: Batch, scores: NDArray[Any], dtype: np.dtype[Any]) -> Iterator[bytes]:
    """Yield each row as bytes: width, type of values, number of scores, scores, indices, values."""
    values, indices = batch.values.astype(dtype, copy=False), batch.indices.astype(np.int64, copy=False)
    head = _HEAD.pack(batch.n_features, dtype.char.encode())
    own = np.ascontiguousarray(scores.reshape(len(batch), -1), dtype=dtype)
    many = _MANY.pack(own.shape[1])
    for k, (a, b) in enumerate(zip(batch.indptr[:-1], batch.indptr[1:], strict=True)):
        yield head + many + own[k].tobytes() + indices[a:b].tobytes() + values[a:b].tobytes()


def _features(rows: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes of each packed row without its scores, which depend on the version of the model."""
    for row in rows:
        dtype = np.dtype(_HEAD.unpack_from(row)[1].decode())
        start = _HEAD.size + _MANY.size
        yield row[_HEAD.size - 1 : _HEAD.size], row[start + _MANY.unpack_from(row, _HEAD.size)[0] * dtype.itemsize :]


def _unpacked(rows: Sequence[bytes], n_features: int) -> tuple[Batch, list[NDArray[Any]]]:
    indices, values, lengths, scores, width = [], [], [0], [], n_features
    for row in rows:
        wide, code = _HEAD.unpack_from(row)
        dtype, start = np.dtype(code.decode()), _HEAD.size + _MANY.size
        n_scores = _MANY.unpack_from(row, _HEAD.size)[0]
        scores.append(np.frombuffer(row, dtype, n_scores, start))
        start += n_scores * dtype.itemsize
        many = (len(row) - start) // (8 + dtype.itemsize)
        indices.append(np.frombuffer(row, np.int64, many, start))
        values.append(np.frombuffer(row, dtype, many, start + 8 * many))
        lengths.append(many)
        width = max(width, wide)
    numbers = np.concatenate(indices).astype(np.int32 if width < 2**31 else np.int64)
    return Batch.of(np.cumsum(lengths), numbers, np.concatenate(values), width), scores


# Rows of one source and labels of another, joined by id: a stream in the order of the labels.

#: The maximum number of ids in a warning about labels without a row.
SHOWN = 3


class Timed(NamedTuple):
    """A stream of rows with ids, and one of the same rows whose ids are their times; without that time stands still."""

    stream: Stream
    times: Stream | None
    named: str  # in messages

    def batches(self) -> Iterator[tuple[Batch, NDArray[np.float64]]]:
        """Yield batches with their times. Raise if a time is earlier than the one before."""
        clocks = None if self.times is None else self.times.batches()
        last = -np.inf
        for batch in self.stream.batches():
            self._require_ids(batch)
            if clocks is None:
                yield batch, np.zeros(len(batch))
                continue
            texts = next(clocks).ids or ()
            times = np.array([self._time(text, batch.first_row + k) for k, text in enumerate(texts)])
            back = np.flatnonzero(np.diff(np.concatenate([[last], times])) < 0)
            if len(back):
                row = batch.first_row + int(back[0])
                raise InvalidInputError(
                    f"{self.named}: times must not go back, example {row + 1} is earlier than the one before it"
                )
            last = times[-1] if len(times) else last
            yield batch, times

    def _require_ids(self, batch: Batch) -> None:
        for k, row_id in enumerate(batch.ids or [""] * len(batch)):
            if not row_id:
                row, keys = batch.first_row + k + 1, getattr(getattr(self.stream, "form", None), "without_id", [])
                name = getattr(getattr(self.stream, "options", None), "id", None)
                hint = f", no {name!r}; {meant(name, keys)}" if name and keys and name not in keys else ""
                raise InvalidInputError(f"{self.named}: example {row} has no id{hint}")

    def _time(self, text: str, row: int) -> float:
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = datetime.fromisoformat(text).timestamp()
            except ValueError:
                seconds = np.nan
        if not np.isfinite(seconds):
            raise InvalidInputError(
                f"{self.named}: times are numbers or dates as 2026-11-16T08:00, example {row + 1} has {text!r}"
            )
        return seconds


class JoinedStream:
    """Labelled rows, in the order in which labels come; a row is scored by the learner when it comes, and kept.

    With times, rows and labels are merged by time, rows first. Without times, all rows come before the first label. The
    caller learns each batch before it requests the next.

    Parameters
    ----------
    rows, labels : Timed
        Rows without labels, and labels, whose other columns are ignored.
    learner : Pipeline
        The model that scores the rows when they arrive.
    waiting : Waiting
        The store of waiting rows.

    """

    unit, size = "rows", None
    names = skipped = None

    def __init__(self, rows: Timed, labels: Timed, learner: Pipeline, waiting: Waiting, clock: "Clock") -> None:
        self._rows, self._labels, self._learner = rows, labels, learner
        self.waiting, self._clock = waiting, clock
        self.scores: deque[NDArray[Any]] = deque()  # of the rows of the last batch when they arrived
        self.unmatched: dict[str, list[Id]] = {}  # the first ids of labels without a row
        self.feature_space, self.dtype = rows.stream.feature_space, rows.stream.dtype
        self.names = rows.stream.names
        self.options = getattr(rows.stream, "options", None)

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The classes of the labels."""
        return self._labels.stream.classes

    @property
    def book(self) -> Any:
        """The classes that occurred so far, for growing classes."""
        return getattr(self._labels.stream, "book", None)

    @property
    def feature_columns(self) -> list[str]:
        """The columns of features, if there are columns."""
        return getattr(self._rows.stream, "feature_columns", [])

    @property
    def layout(self) -> dict[str, Any] | None:
        """The layout of the columns, if there are columns."""
        return getattr(self._rows.stream, "layout", None)

    def done(self, position: Position) -> None:
        """Return None, because the amount of data is unknown."""

    def fingerprint(self) -> dict[str, Any]:
        """Return the fingerprints of both sources."""
        return {"rows": self._rows.stream.fingerprint(), "labels": self._labels.stream.fingerprint()}

    def warm_up(self) -> None:
        """Load the compiled parsers."""
        for stream in (self._rows.stream, self._labels.stream):
            getattr(stream, "warm_up", lambda: None)()

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield rows with their labels."""
        for is_labels, batch, times in _in_order(self._rows.batches(), self._labels.batches(), self._rows.times):
            if not is_labels:
                self._keep(batch, times)
                continue
            for part, now in self._moments(batch, times):
                self._clock.now = now
                yield from self._labelled(part)

    def _keep(self, batch: Batch, times: NDArray[np.float64]) -> None:
        self._clock.now = float(times[-1]) if len(times) else self._clock.now
        scores = self._learner.scores(batch)
        self.waiting.put(list(batch.ids or ()), batch, scores, self._learner.dtype, times.tolist())

    def _moments(self, batch: Batch, times: NDArray[np.float64]) -> Iterator[tuple[Batch, float]]:
        """Yield labels with their time, split by time if rows expire."""
        cuts = [0, len(batch)]
        if self.waiting.store.seconds is not None:
            cuts = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), len(batch)]
        for a, b in pairwise(cuts):
            yield batch.until(b).after(a), float(times[b - 1]) if b > a else self._clock.now

    def _labelled(self, labels: Batch) -> Iterator[Batch]:
        ids = list(labels.ids or ())
        outcome, places = self.waiting.look(ids)
        if places:
            y, weights = labels.require_labels(), labels.weights
            with self.waiting.taking([ids[k] for k in places], self._learner.n_features) as (rows, scores):
                self.scores.clear()
                self.scores.extend(scores)
                yield rows.labelled(y[places], None if weights is None else weights[places])
        self.waiting.count(outcome)
        self._remember(outcome)

    def _remember(self, outcome: Labelled) -> None:
        for name, ids in outcome.unmatched.items():
            shown = self.unmatched.setdefault(name, [])
            shown += ids[: SHOWN - len(shown)]

    def taken(self, many: int) -> list[NDArray[Any]]:
        """Return the scores of the next rows of the last batch when they arrived."""
        return [self.scores.popleft() for _ in range(many)]


class Clock:
    """The time of the sources."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time of the last rows or labels."""
        return self.now


Timely = tuple[Batch, NDArray[np.float64]]


def _in_order(rows: Iterator[Timely], labels: Iterator[Timely], timed: Any) -> Iterator[tuple[bool, Batch, Any]]:
    """Yield (are labels, batch, times) by time, rows first. Without times, all rows come first."""
    if timed is None:
        for batch, times in rows:
            yield False, batch, times
        for batch, times in labels:
            yield True, batch, times
        return
    row, label = next(rows, None), next(labels, None)
    while row is not None or label is not None:
        if row is not None:
            until = len(row[0]) if label is None or not len(label[1]) else _count(row[1], label[1][0], "right")
            if until:
                yield False, row[0].until(until), row[1][:until]
                row = _rest(row, until, rows)
                continue
        if label is not None:
            until = len(label[0]) if row is None or not len(row[1]) else _count(label[1], row[1][0], "left")
            if until:
                yield True, label[0].until(until), label[1][:until]
            label = _rest(label, until, labels)
        if row is not None and not len(row[0]):
            row = next(rows, None)


def _count(times: NDArray[np.float64], moment: float, side: Any) -> int:
    return int(np.searchsorted(times, moment, side))


def _rest(part: Timely, taken: int, source: Iterator[Timely]) -> Timely | None:
    batch, times = part
    return next(source, None) if taken == len(batch) else (batch.after(taken), times[taken:])


def scores_by_class(scores: Sequence[NDArray[Any]], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return the scores as an array. A class that was unknown when a row arrived has the lowest number.

    >>> scores_by_class([np.array([1.0, 2.0])], (1, 3)).tolist()
    [[1.0, 2.0, -1.7976931348623157e+308]]
    """
    if len(shape) == 1:
        return np.concatenate(scores) if scores else np.empty(0)
    dtype = scores[0].dtype if scores else np.dtype(np.float64)
    padded = np.full(shape, np.finfo(dtype).min, dtype)
    for k, row in enumerate(scores):
        padded[k, : len(row)] = row
    return padded


# A run over rows with delayed labels.


class LateRun(Run):
    """A `Run` whose metrics use the scores of rows when they arrived, not when their labels did."""

    def __init__(self, stream: JoinedStream, model: Model, **options: Any) -> None:
        super().__init__(stream, model, **options)
        self._joined = stream

    def _judged(self, scores: NDArray[Any]) -> NDArray[Any]:
        return scores_by_class(self._joined.taken(len(scores)), scores.shape)


@dataclass(frozen=True)
class LateLabelSource(Source):
    """Files of rows, and a file of labels that arrive later.

    Parameters
    ----------
    paths : list of str
        The files of rows.
    options : Options
        How rows and labels are read.
    label_file : str
    id, time : str or None
        The columns of the id and of the time, in both files. Without times all rows come before the first label.
    keep, wait : int, float or None
        The maximum number of waiting rows, and how many seconds they may wait.
    waiting : path or None
        A file for the rows that wait, which a later run can use. None: they wait in memory.

    """

    paths: list[str]
    options: Options
    label_file: str
    id: str | None = None
    time: str | None = None
    keep: int = 1_000_000
    wait: float | None = None
    waiting: Path | None = None

    @property
    def name(self) -> str:
        """The files of rows."""
        return ", ".join(self.paths)

    @property
    def row_options(self) -> Options:
        """How rows are read: without labels; ids, times and weights are not features."""
        named = [name for name in (self.id, self.time, self.options.weight) if name is not None]
        ignore = tuple(dict.fromkeys([*self.options.ignore, *named]))
        options = replace(self.options, id=self.id, ignore=ignore, weight=None, strict=False)
        return replace(options, labels=False, classes=None, grow_classes=False)

    @property
    def label_options(self) -> Options:
        """How labels are read."""
        same = ("classes", "grow_classes", "label", "weight", "on_error", "max_errors", "header", "look", "inferred")
        return Options(id=self.id, **{name: getattr(self.options, name) for name in same})

    def device(self, device: str) -> str:
        """Return the CPU unless a GPU is asked for: labels come in batches that are too small for it."""
        return "cpu" if device == "auto" else device

    def open(self, model: Model) -> JoinedStream:
        """Open both, joined by id."""
        if model.learner.reads != "once":
            raise InvalidParameterError(
                f"{model.learner.algorithm.name} holds its rows: --labels is for online learners"
            )
        dtype, clock = model.learner.dtype.name, Clock()

        def timed(paths: list[str], options: Options) -> Timed:
            options = replace(options, dtype=dtype)
            times = None if self.time is None else open_files(paths, replace(options, id=self.time, labels=False))
            return Timed(open_files(paths, options), times, ", ".join(paths))

        rows, labels = timed(self.paths, self.row_options), timed([self.label_file], self.label_options)
        return JoinedStream(rows, labels, model.learner, Waiting(self.keep, self.wait, self.waiting, clock), clock)

    def checkpoints(self, outputs: OutputFiles, model: Model) -> None:
        """Return None: rows that wait are not part of a checkpoint."""

    def run(self, stream: JoinedStream, model: Model, **options: Any) -> LateRun:
        """Create a run whose metrics use the scores that rows had when they came."""
        return LateRun(stream, model, **options)
