"""The journal of a model: everything it was told to learn, in order, on disk before anybody is told so.

A file of SQLite in WAL mode with ``synchronous=FULL``: a transaction that has ended survives a loss of power, one that
has not leaves no trace, and a torn end of the log is cut off by SQLite itself. Rows that wait for their labels stand in
the same file, so that a label takes its row from there and puts it into the journal in one step.
"""

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.late_labels.store import TABLES, Id
from thinstream.late_labels.stream import scores_by_class
from thinstream.late_labels.waiting import Labelled, Waiting
from thinstream.serve.packed import pack

_TABLES = """
CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY AUTOINCREMENT, rows INTEGER, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, fingerprint TEXT NOT NULL, answer TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS quarantine (
    id INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, row INTEGER NOT NULL, at REAL NOT NULL,
    reason TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (number, row)
);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS changes ON entries (number) WHERE rows = 0;
"""
#: Answers that are remembered, so that a request sent again is answered again and not learned again.
REMEMBERED = 1_000_000
#: Entries that go in one transaction, which others wait for.
CUT = 2000
#: In quarantine in place of a row: all of the entry.
WHOLE_ENTRY = -1
#: Rows that stay in quarantine after their entry was cut.
QUARANTINED = 10_000


class JournalError(ThinstreamError, OSError):
    """A journal that cannot be written or read; what was not acknowledged is not in it."""


class JournalMismatchError(InvalidInputError):
    """A journal and a checkpoint that are not of the same moment."""


class ReusedKeyError(InvalidInputError):
    """An idempotency key that was sent before with another request."""


class Quarantined(NamedTuple):
    """A row that could not be learned."""

    entry: int
    row: int  # its place in the entry, or WHOLE_ENTRY
    at: float  # seconds since 1970
    reason: str


class Entry(NamedTuple):
    """What came in one request."""

    number: int
    data: bytes  # see `packed`


class Taught(NamedTuple):
    """Rows to learn that came in one request, and the name of that, if it has one."""

    data: bytes  # see `packed`
    rows: int
    request: str | None = None
    fingerprint: str = ""  # of the request: one with the same name must have the same


class Journal:
    """What one model was told, and the rows it has predicted that wait for their labels; for one thread.

    Parameters
    ----------
    path : path
        Of the file, made if need be.
    keep, seconds, keep_bytes
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
        keep_bytes: int | None = None,
    ) -> None:
        self.path, self.remembered = path, remembered
        with self.explained("opened"):
            self._tables = connect(path)
            self._tables.execute("PRAGMA journal_mode=WAL")
            self._tables.execute("PRAGMA synchronous=FULL")
            self._tables.execute("PRAGMA wal_autocheckpoint=4000")
            self._tables.executescript(_TABLES + TABLES)
            self._file, self._log = str(path), f"{path}-wal"
            self._inode, self._log_inode, self._is_gone = path.stat().st_ino, 0, False
            self.waiting = Waiting(keep, seconds, self._tables, clock or SteadyClock(self._latest()), keep_bytes)
            self.newest = self.last  # entry, written or about to be
            self._new: list[Entry] = []

    def _require_files(self) -> None:
        """Raise if the file or its log was deleted or replaced: what is written now is lost with this process."""
        try:
            if not self._is_gone:
                own, log = os.stat(self._file).st_ino, os.stat(self._log).st_ino
                self._log_inode = self._log_inode or log
                if own == self._inode and log == self._log_inode:
                    return
        except FileNotFoundError:
            pass
        self._is_gone = True
        raise sqlite3.OperationalError(
            "its file was deleted or replaced while the server ran; stop the server and start it with --recover"
        )

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
            if self._log_inode:  # there is a log after the first transaction
                self._require_files()
            self._tables.execute("BEGIN IMMEDIATE")
            before = self.newest
            try:
                yield
                self._tables.execute("COMMIT")
                self._require_files()
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

    def once(self, request: str | None, work: Callable[[], dict[str, Any]], fingerprint: str = "") -> dict[str, Any]:
        """The answer to a request; one that was answered before gets the same answer, and nothing is done again."""
        if request is None:
            return work()
        known = self._answers([(request,)])
        if request in known:
            return _answered(request, fingerprint, known[request])
        answer = work()
        last = self._tables.execute(
            "INSERT INTO requests (id, fingerprint, answer) VALUES (?, ?, ?)",
            (request, fingerprint, json.dumps(answer)),
        ).lastrowid
        self._tables.execute("DELETE FROM requests WHERE number <= ?", ((last or 0) - self.remembered,))
        return answer

    def teach(self, taught: Sequence[Taught]) -> list[dict[str, Any] | ReusedKeyError]:
        """Rows of several requests, in order; the answer to each, which of one that was answered before is the same."""
        names = [(each.request,) for each in taught if each.request is not None]
        known = self._answers(names)
        entries, named, answers = list[Any](), list[Any](), list[dict[str, Any] | ReusedKeyError]()
        for data, rows, request, fingerprint in taught:
            if request is not None and request in known:
                try:
                    answers.append(_answered(request, fingerprint, known[request]))
                except ReusedKeyError as error:
                    answers.append(error)
                continue
            number = self.newest + 1 + len(entries)
            entries.append((number, rows, data))
            answer = {"rows": rows, "entry": number}
            answers.append(answer)
            if request is not None:
                known[request] = fingerprint, answer
                named.append((request, fingerprint, json.dumps(answer)))
        self._insert("entries (number, rows, data)", entries)
        self._insert("requests (id, fingerprint, answer)", named)
        if named:
            self._tables.execute(
                "DELETE FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?", (self.remembered,)
            )
        self._new += [Entry(number, data) for number, _, data in entries]
        self.newest += len(entries)
        return answers

    def _answers(self, names: list[tuple[str]]) -> dict[str, tuple[str, dict[str, Any]]]:
        """The fingerprints of requests of these names, and the answers that they have got."""
        known: dict[str, tuple[str, dict[str, Any]]] = {}
        for part in _parts(names):
            query = f"SELECT id, fingerprint, answer FROM requests WHERE id IN ({', '.join('?' * len(part))})"
            for name, fingerprint, answer in self._tables.execute(query, [n for (n,) in part]):
                known[name] = fingerprint, json.loads(answer)
        return known

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

    def append_answer(self, taught: Taught) -> dict[str, Any]:
        """Rows to learn; the answer to their request."""
        return {"rows": taught.rows, "entry": self.append(taught.data, taught.rows)}

    def keep(self, ids: Sequence[Id], batch: Batch, scores: Any) -> None:
        """Stores rows that were predicted until their labels come.

        A row that waits under its id is not replaced: the same row again changes nothing, another one raises
        `ReplacedRowError`.
        """
        dtype = batch.values.dtype
        new = [k for k, is_stored in enumerate(self.waiting.are_stored(ids, batch, dtype)) if not is_stored]
        if new:
            self.waiting.put([ids[k] for k in new], batch.take(np.array(new)), scores[new], dtype)

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

    def quarantine(self, number: int, row: int, reason: str, data: bytes) -> None:
        """Leaves a row of an entry, or all of it, out of learning from now on."""
        self._tables.execute(
            "INSERT OR IGNORE INTO quarantine (number, row, at, reason, data) VALUES (?, ?, ?, ?, ?)",
            (number, row, time.time(), reason, data),
        )

    def cut(self, number: int, most: int = CUT) -> bool:
        """Entries up to this one are in a checkpoint: the first of them go. Whether there are more."""
        first = "SELECT number FROM entries WHERE number <= ? ORDER BY number LIMIT ?"
        gone = self._tables.execute(f"DELETE FROM entries WHERE number IN ({first})", (number, most)).rowcount
        self._tables.execute(
            "DELETE FROM quarantine WHERE number <= ? AND id <= (SELECT max(id) FROM quarantine) - ?",
            (number, QUARANTINED),
        )
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
        return self._sequence("entries")

    def _sequence(self, table: str) -> int:
        row = self._tables.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        return 0 if row is None else int(row[0])

    @property
    def is_gone(self) -> bool:
        """Whether the file was deleted or replaced while it was open."""
        return self._is_gone

    @property
    def n_quarantined(self) -> int:
        """Rows that were ever put into quarantine."""
        return self._sequence("quarantine")

    def require_checkpoint(self, saved: int, name: str | None) -> None:
        """Raise unless this journal continues a checkpoint whose last entry is ``saved``.

        The checkpoint of a journal has all entries that were cut from it. A folder that was copied file by file while
        the server ran may have a journal and a checkpoint of different moments.

        Parameters
        ----------
        saved : int
            The last entry that the checkpoint has; 0 without a checkpoint.
        name : str or None
            The name of the journal it was written for; None without a checkpoint.

        """
        first = self.first
        if name is not None and self.fact("name") != name:
            raise JournalMismatchError(
                "journal.sqlite was replaced: checkpoint.ts was written with a different journal, and has its entries "
                f"up to {saved}"
            )
        if self.last < saved:
            raise JournalMismatchError(
                f"journal.sqlite ends at entry {self.last}, but checkpoint.ts has entries up to {saved}. The folder "
                "was probably copied while the server ran"
            )
        if first > max(saved, self.fact("missing") or 0) + 1:
            has = "checkpoint.ts is missing" if name is None else f"checkpoint.ts ends at entry {saved}"
            raise JournalMismatchError(
                f"{has}, but journal.sqlite starts at entry {first}: entries {saved + 1} to {first - 1} are missing"
            )

    @property
    def first(self) -> int:
        """The number of the oldest entry in the file, or of the next one if the file has no entries."""
        row = self._tables.execute("SELECT min(number) FROM entries").fetchone()
        return self.last + 1 if row[0] is None else int(row[0])

    def continue_after(self, saved: int, name: str | None) -> None:
        """Number new entries after ``saved``, as the journal of this name; entries up to it are in a checkpoint."""
        self.note("missing", self.first - 1)
        self.cut(saved, -1)
        if self.last < saved:
            self._tables.execute("DELETE FROM sqlite_sequence WHERE name = 'entries'")
            self._tables.execute("INSERT INTO sqlite_sequence VALUES ('entries', ?)", (saved,))
            self.newest = saved
        if name is not None:
            self.note("name", name)

    def close(self) -> None:
        """Lets go of the file; what its log has is put into it."""
        self._tables.close()


def _answered(request: str, fingerprint: str, known: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """The answer that a request of this name has got; raises if that was another request."""
    if fingerprint != known[0]:
        raise ReusedKeyError(
            f"the idempotency key {request!r:.60} was used before for another request (path or body differ); send each "
            "request with its own key"
        )
    return known[1] | {"again": True}


def _parts(rows: list[Any], most: int = 256) -> Iterator[list[Any]]:
    """In order, each of a power of two of them: statements of few lengths, which SQLite has to understand once."""
    place = 0
    while rest := len(rows) - place:
        size = min(1 << (rest.bit_length() - 1), most)
        yield rows[place : place + size]
        place += size


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    """Open the file of a journal."""
    address = f"file:{quote(str(path.absolute()))}?mode={'rw' if read_only else 'rwc'}"  # a reader makes no file
    tables = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=60.0)
    if read_only:
        tables.execute("PRAGMA query_only=ON")
    return tables


def copy_database(path: Path, target: Path) -> None:
    """Copy a journal that another process may be writing, as it is after its last transaction."""
    try:
        with closing(connect(path, read_only=True)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise JournalError(f"{path} cannot be copied: {error}") from error


class Reader:
    """Entries of a journal, read beside the thread that writes it."""

    def __init__(self, path: Path) -> None:
        self._tables = connect(path, read_only=True)

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
        """Rows in quarantine, by entry."""
        rows: dict[int, set[int]] = {}
        query = "SELECT number, row FROM quarantine WHERE number BETWEEN ? AND ?"
        for number, row in self._tables.execute(query, (first, last)):
            rows.setdefault(number, set()).add(row)
        return rows

    def quarantined(self, most: int = 100) -> list[Quarantined]:
        """The newest rows in quarantine."""
        query = "SELECT number, row, at, reason FROM quarantine ORDER BY id DESC LIMIT ?"
        return [Quarantined(*row) for row in self._tables.execute(query, (most,))]

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
