"""The journal of a model: everything it was told to learn, in order, on disk before anybody is told so.

A file of SQLite in WAL mode with ``synchronous=FULL``: a transaction that has ended survives a loss of power, one that
has not leaves no trace, and a torn end of the log is cut off by SQLite itself. Rows that wait for their labels stand in
the same file, so that a label takes its row from there and puts it into the journal in one step.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from thinstream.batch import Batch
from thinstream.errors import ThinstreamError
from thinstream.late_labels.store import TABLES, Id
from thinstream.late_labels.stream import scores_by_class
from thinstream.late_labels.waiting import Labelled, Waiting
from thinstream.serve.packed import pack

_TABLES = """
CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY AUTOINCREMENT, rows INTEGER, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS refused (number INTEGER, row INTEGER, PRIMARY KEY (number, row)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes ON entries (number) WHERE rows = 0;
"""
#: Answers that are remembered, so that a request sent again is answered again and not learned again.
REMEMBERED = 1_000_000
#: Entries that go in one transaction, which others wait for.
CUT = 2000


class JournalError(ThinstreamError, OSError):
    """A journal that cannot be written or read; what was not acknowledged is not in it."""


class Entry(NamedTuple):
    """What came in one request."""

    number: int
    data: bytes  # see `packed`


class Taught(NamedTuple):
    """Rows to learn that came in one request, and the name of that, if it has one."""

    data: bytes  # see `packed`
    rows: int
    request: str | None = None


class Journal:
    """What one model was told, and the rows it has predicted that wait for their labels; for one thread.

    Parameters
    ----------
    path : path
        Of the file, made if need be.
    keep, seconds
        Of the rows that wait, see `late_labels.RowStore`.
    remembered : int
        Requests whose answers are kept.
    clock : callable

    """

    def __init__(
        self,
        path: Path,
        keep: int = 1_000_000,
        seconds: float | None = None,
        remembered: int = REMEMBERED,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.path, self.remembered = path, remembered
        with self.explained("opened"):
            self._tables = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60.0)
            self._tables.execute("PRAGMA journal_mode=WAL")
            self._tables.execute("PRAGMA synchronous=FULL")
            self._tables.execute("PRAGMA wal_autocheckpoint=4000")
            self._tables.executescript(_TABLES + TABLES)
            self.waiting = Waiting(keep, seconds, self._tables, clock or SteadyClock(self._latest()))
            self.newest = self.last  # entry, written or about to be
            self._new: list[Entry] = []

    def _latest(self) -> float:
        found = self._tables.execute("SELECT max(at) FROM waiting").fetchone()[0]
        return 0.0 if found is None else float(found)

    @contextmanager
    def explained(self, done: str) -> Iterator[None]:
        """Errors of SQLite say which journal it is, in words that may be shown to anybody."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"the journal {self.path.parent.name!r} cannot be {done}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done in the block is on disk at its end, all of it; after an error none of it is there."""
        with self.explained("written"):
            self._tables.execute("BEGIN IMMEDIATE")
            before = self.newest
            try:
                yield
                self._tables.execute("COMMIT")
            except BaseException:
                self._forget(before)
                if self._tables.in_transaction:
                    self._tables.execute("ROLLBACK")
                self.waiting.store.count()
                raise

    @contextmanager
    def step(self) -> Iterator[None]:
        """A part of a transaction that can fail alone."""
        self._tables.execute("SAVEPOINT step")
        before = self.newest
        try:
            yield
        except BaseException:
            self._forget(before)
            if self._tables.in_transaction:
                self._tables.execute("ROLLBACK TO step")
                self.waiting.store.count()
            raise
        finally:
            if self._tables.in_transaction:
                self._tables.execute("RELEASE step")

    def _forget(self, number: int) -> None:
        """Entries after this one are not written after all."""
        self.newest, self._new = number, [entry for entry in self._new if entry.number <= number]

    def new(self) -> list[Entry]:
        """The entries written since this was asked last."""
        found, self._new = self._new, []
        return found

    # In a transaction -------------------------------------------------------------------------------------------------

    def once(self, request: str | None, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The answer to a request; one that was answered before gets the same answer, and nothing is done again."""
        if request is None:
            return work()
        known = self._tables.execute("SELECT answer FROM requests WHERE id = ?", (request,)).fetchone()
        if known is not None:
            found: dict[str, Any] = json.loads(known[0])
            return found | {"again": True}
        answer = work()
        last = self._tables.execute(
            "INSERT INTO requests (id, answer) VALUES (?, ?)", (request, json.dumps(answer))
        ).lastrowid
        self._tables.execute("DELETE FROM requests WHERE number <= ?", ((last or 0) - self.remembered,))
        return answer

    def teach(self, taught: Sequence[Taught]) -> list[dict[str, Any]]:
        """Rows of several requests, in order; the answer to each, which of one that was answered before is the same."""
        names = [(each.request,) for each in taught if each.request is not None]
        known = self._answers(names)
        entries, named, answers = list[Any](), list[Any](), list[dict[str, Any]]()
        for data, rows, request in taught:
            if request in known:
                answers.append(known[request] | {"again": True})
                continue
            number = self.newest + 1 + len(entries)
            entries.append((number, rows, data))
            answers.append({"rows": rows, "entry": number})
            if request is not None:
                known[request] = answers[-1]
                named.append((request, json.dumps(answers[-1])))
        self._insert("entries (number, rows, data)", entries)
        self._insert("requests (id, answer)", named)
        if named:
            self._tables.execute(
                "DELETE FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?", (self.remembered,)
            )
        self._new += [Entry(number, data) for number, _, data in entries]
        self.newest += len(entries)
        return answers

    def _answers(self, names: list[tuple[str]]) -> dict[str | None, dict[str, Any]]:
        """The answers that requests of these names have got."""
        found: dict[str | None, dict[str, Any]] = {}
        for part in _parts(names):
            query = f"SELECT id, answer FROM requests WHERE id IN ({', '.join('?' * len(part))})"
            found |= {name: json.loads(answer) for name, answer in self._tables.execute(query, [n for (n,) in part])}
        return found

    def _insert(self, into: str, rows: list[Any]) -> None:
        """Many rows by few statements: other threads run during each, and have to be waited for after it."""
        for part in _parts(rows):
            places = f"({', '.join('?' * len(part[0]))})"
            query = f"INSERT INTO {into} VALUES {', '.join([places] * len(part))}"
            self._tables.execute(query, [value for row in part for value in row])

    def append(self, data: bytes, rows: int) -> int:
        """Rows to learn, see `packed`; the number of their entry."""
        self.teach([Taught(data, rows)])
        return self.newest

    def keep(self, ids: Sequence[Id], batch: Batch, scores: Any) -> None:
        """Rows that were predicted wait for their labels."""
        self.waiting.put(ids, batch, scores, batch.values.dtype)

    def label(self, ids: Sequence[Id], labels: Sequence[Any], weights: Any, n_features: int) -> Labelled:
        """Labels come: the rows that wait for them go into the journal, in this order."""
        outcome, places = self.waiting.look(ids)
        if places:
            with self.waiting.taking([ids[k] for k in places], n_features) as (batch, scores):
                known = scores_by_class(scores, (len(places), max(map(len, scores))))
                batch = batch if weights is None else replace(batch, weights=weights[places])
                self.append(pack(batch, [labels[k] for k in places], known), len(places))
        self.waiting.count(outcome)
        return outcome

    def refuse(self, number: int, row: int) -> None:
        """A row of an entry cannot be learned: it is left out from now on."""
        self._tables.execute("INSERT OR IGNORE INTO refused VALUES (?, ?)", (number, row))

    def cut(self, number: int, most: int = CUT) -> bool:
        """Entries up to this one are in a checkpoint: the first of them go. Whether there are more."""
        first = "SELECT number FROM entries WHERE number <= ? ORDER BY number LIMIT ?"
        gone = self._tables.execute(f"DELETE FROM entries WHERE number IN ({first})", (number, most)).rowcount
        self._tables.execute("DELETE FROM refused WHERE number <= ?", (number,))
        return gone == most

    def note(self, name: str, value: Any) -> None:
        """A fact about the journal."""
        self._tables.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    # At any time ------------------------------------------------------------------------------------------------------

    def fact(self, name: str) -> Any:
        """What was noted under the name; None if nothing was."""
        found = self._tables.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def changes(self) -> list[Entry]:
        """The entries that are no rows."""
        query = "SELECT number, data FROM entries WHERE rows = 0 ORDER BY number"
        return [Entry(number, data) for number, data in self._tables.execute(query)]

    @property
    def last(self) -> int:
        """The number of the last entry there ever was; 0 before the first."""
        found = self._tables.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone()
        return 0 if found is None else int(found[0])

    @property
    def refusals(self) -> int:
        """Rows that could not be learned, of the entries that are here."""
        return int(self._tables.execute("SELECT count(*) FROM refused").fetchone()[0])

    def close(self) -> None:
        """Lets go of the file; what its log has is put into it."""
        self._tables.close()


def _parts(rows: list[Any], most: int = 256) -> Iterator[list[Any]]:
    """In order, each of a power of two of them: statements of few lengths, which SQLite has to understand once."""
    place = 0
    while rest := len(rows) - place:
        size = min(1 << (rest.bit_length() - 1), most)
        yield rows[place : place + size]
        place += size


class Reader:
    """Entries of a journal, read beside the thread that writes it."""

    def __init__(self, path: Path) -> None:
        self._tables = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=60.0)
        self._tables.execute("PRAGMA query_only=ON")

    def after(self, number: int, rows: int, until: int | None = None) -> list[Entry]:
        """The entries that follow a number, about so many rows of them."""
        found, many = list[Entry](), 0
        last = 2**63 - 1 if until is None else until
        query = "SELECT number, rows, data FROM entries WHERE number > ? AND number <= ? ORDER BY number"
        with closing(self._tables.execute(query, (number, last))) as cursor:  # an open one would keep the log growing
            for each, n, data in cursor:
                found.append(Entry(each, data))
                many += n
                if many >= rows:
                    break
        return found

    def refused(self, first: int, last: int) -> dict[int, set[int]]:
        """Rows that are left out, by entry."""
        found: dict[int, set[int]] = {}
        query = "SELECT number, row FROM refused WHERE number BETWEEN ? AND ?"
        for number, row in self._tables.execute(query, (first, last)):
            found.setdefault(number, set()).add(row)
        return found

    def waiting_since(self) -> float | None:
        """When the oldest of the rows that wait for their labels was predicted, in seconds since 1970."""
        found = self._tables.execute("SELECT min(at) FROM waiting").fetchone()[0]
        return None if found is None else float(found)

    def close(self) -> None:
        """Lets go of the file."""
        self._tables.close()


class SteadyClock:
    """The time of day, which never jumps while it runs, and never begins before what was written last."""

    def __init__(self, latest: float = 0.0) -> None:
        self._start, self._began = max(time.time(), latest), time.monotonic()

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self._start + time.monotonic() - self._began
