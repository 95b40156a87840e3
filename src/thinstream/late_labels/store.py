"""Rows that wait for their labels, by id: a table of SQLite, in memory or in a file."""

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Literal

from thinstream.errors import InvalidInputError, InvalidParameterError

Id = int | str
#: What became of an id: its row waits, was too old or too many, has had its label, or was never there.
Status = Literal["waiting", "expired", "labelled", "unknown"]

#: What a connection must have for rows to wait in it.
TABLES = """
CREATE TABLE IF NOT EXISTS waiting (number INTEGER PRIMARY KEY, id UNIQUE, at REAL NOT NULL, row BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS waiting_at ON waiting (at);
CREATE TABLE IF NOT EXISTS gone (number INTEGER PRIMARY KEY, id UNIQUE, status TEXT NOT NULL);
"""


class RowStore:
    """Keeps the newest rows, for a time; remembers of as many others what became of them.

    Parameters
    ----------
    keep : int, default=1_000_000
        Rows that may wait; of more the oldest expire. As many ids are remembered after their rows are gone.
    seconds : float or None, default=None
        How long a row may wait; None: for ever.
    path : path, connection or None, default=None
        Of a file of SQLite, in which rows outlive the process; None: in memory. In an open connection's tables, what is
        done inside a transaction of its owner is a part of that.
    clock : callable, default=time.time
    keep_bytes : int or None, default=None
        Bytes that rows may have together; of more the oldest expire. None: any number.

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
        """Counts the rows that wait, which is too slow for every call: after a transaction that was taken back."""
        query = "SELECT count(*), coalesce(sum(length(row)), 0) FROM waiting"
        self._many, self._bytes = self._tables.execute(query).fetchone()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of a block or nothing."""
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
        for each, row, at in zip(ids, rows, [now] * len(ids) if times is None else times, strict=True):
            pairs.pop(each, None)  # of several rows of one id the last, in its place
            pairs[each] = at, row
        with self._transaction() as tables:
            keys = [(each,) for each in pairs]
            tables.executemany("DELETE FROM gone WHERE id IS ?", keys)
            old = [row for row in map(self.row, pairs) if row is not None]
            if old:
                tables.executemany("DELETE FROM waiting WHERE id IS ?", keys)
            values = ((each, at, row) for each, (at, row) in pairs.items())
            tables.executemany("INSERT INTO waiting (id, at, row) VALUES (?, ?, ?)", values)
            size = self._bytes + sum(len(row) for _, row in pairs.values()) - sum(map(len, old))
            many, size = self._expire(tables, self._many + len(pairs) - len(old), size, now)
        self._many, self._bytes = many, size
        return len(old) + len(ids) - len(pairs)

    def row(self, each: Id) -> bytes | None:
        """Return the row that waits under an id, or None."""
        stored = self._tables.execute("SELECT row FROM waiting WHERE id IS ?", (each,)).fetchone()
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
        """What became of ids."""
        with self._transaction() as tables:
            many, size = self._expire(tables, self._many, self._bytes, self._clock())
        self._many, self._bytes = many, size
        found: list[Status] = []
        for each in ids:
            waits = self._tables.execute("SELECT 1 FROM waiting WHERE id IS ?", (each,)).fetchone()
            gone = self._tables.execute("SELECT status FROM gone WHERE id IS ?", (each,)).fetchone()
            found.append("waiting" if waits else gone[0] if gone else "unknown")
        return found

    @contextmanager
    def taking(self, ids: Sequence[Id]) -> Iterator[list[bytes]]:
        """The rows of ids that all wait, to be learned: then they are labelled; after an error they still wait."""
        keys = [(each,) for each in ids]
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
        """Lets go of the file."""
        self._tables.close()


def _opened(path: str | os.PathLike[str] | None) -> sqlite3.Connection:
    place = ":memory:" if path is None else os.fspath(path)
    try:
        tables = sqlite3.connect(place, check_same_thread=False)
        tables.executescript(TABLES)
    except sqlite3.DatabaseError as error:
        raise InvalidInputError(f"{place}: rows cannot be kept there: {error}") from None
    return tables
