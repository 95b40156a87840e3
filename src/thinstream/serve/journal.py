"""The journal of a model: every acknowledged row, in order, on disk, written in groups."""

import json
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.serve.log import ERROR, log
from thinstream.serve.wire import pack
from thinstream.training.delayed_labels import TABLES, Id, Labelled, Waiting, scores_by_class

# A journal is a SQLite file in WAL mode with ``synchronous=FULL``. A transaction that has ended survives a loss of
# power, one that has not leaves no trace, and SQLite cuts off a torn end of the log. Rows that wait for their labels
# are in the same file, so that one transaction moves a row into the journal when its label comes.

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
#: Stored answers, so that a repeated request gets the same answer and is not learned again.
REMEMBERED = 1_000_000
#: Entries that are deleted in one transaction, for which other requests wait.
CUT = 2000
#: The row number in quarantine that means the whole entry.
WHOLE_ENTRY = -1
#: Rows that stay in quarantine after their entry was deleted.
QUARANTINED = 10_000


class JournalError(ThinstreamError, OSError):
    """A journal cannot be written or read. Rows that were not acknowledged are not in it."""


class JournalMismatchError(InvalidInputError):
    """A journal and a checkpoint that do not match."""


class ReusedKeyError(InvalidInputError):
    """An idempotency key that was used before for another request."""


class Quarantined(NamedTuple):
    entry: int
    row: int  # position in the entry, or WHOLE_ENTRY
    at: float  # seconds since 1970
    reason: str


class Entry(NamedTuple):
    number: int
    data: bytes  # see `pack`


class LearnRequest(NamedTuple):
    """Rows to learn of one request, and its idempotency key, if it has one."""

    data: bytes  # see `pack`
    rows: int
    request: str | None = None
    fingerprint: str = ""  # hash of the request, which must be the same for the same key


class Journal:
    """The journal of one model, and its predicted rows that wait for their labels. Only one thread may use it.

    ``keep``, ``seconds`` and ``keep_bytes`` limit the rows that wait for their labels, see `RowStore`. The answers to
    the last ``remembered`` requests are stored.
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
            self.newest = self.last  # the newest entry, written or about to be
            self._new: list[Entry] = []

    def _require_files(self) -> None:
        """Raise if the file or its log was deleted or replaced: new entries would be lost with this process."""
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
            "its file was deleted or replaced while the server ran. Stop the server and start it with --recover"
        )

    def _latest(self) -> float:
        latest = self._tables.execute("SELECT max(at) FROM waiting").fetchone()[0]
        return 0.0 if latest is None else float(latest)

    @contextmanager
    def explained(self, done: str) -> Iterator[None]:
        """Turn SQLite errors into a `JournalError` that names the journal but not its path."""
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"the journal {self.path.parent.name!r} cannot be {done}: {error}") from error

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """At the end of the block, all of its changes are on disk. After an error, none are."""
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
        """Drop the entries after this one, which were rolled back."""
        self.newest, self._new = number, [entry for entry in self._new if entry.number <= number]

    def new(self) -> list[Entry]:
        """Return the entries written since the last call."""
        entries, self._new = self._new, []
        return entries

    # The following methods need a transaction.

    def once(self, request: str | None, work: Callable[[], dict[str, Any]], fingerprint: str = "") -> dict[str, Any]:
        """Do the work of a request and return its answer. A repeated request gets the same answer without new work."""
        if request is None:
            return work()
        answers = self._answers([(request,)])
        if request in answers:
            return _answered(request, fingerprint, answers[request])
        answer = work()
        last = self._tables.execute(
            "INSERT INTO requests (id, fingerprint, answer) VALUES (?, ?, ?)",
            (request, fingerprint, json.dumps(answer)),
        ).lastrowid
        self._tables.execute("DELETE FROM requests WHERE number <= ?", ((last or 0) - self.remembered,))
        return answer

    def append_requests(self, requests: Sequence[LearnRequest]) -> list[dict[str, Any] | ReusedKeyError]:
        """Add the rows of several requests, in order; return an answer to each. Repeated requests add nothing."""
        names = [(one.request,) for one in requests if one.request is not None]
        previous = self._answers(names)
        entries, named, answers = list[Any](), list[Any](), list[dict[str, Any] | ReusedKeyError]()
        for data, rows, request, fingerprint in requests:
            if request is not None and request in previous:
                try:
                    answers.append(_answered(request, fingerprint, previous[request]))
                except ReusedKeyError as error:
                    answers.append(error)
                continue
            number = self.newest + 1 + len(entries)
            entries.append((number, rows, data))
            answer = {"rows": rows, "entry": number}
            answers.append(answer)
            if request is not None:
                previous[request] = fingerprint, answer
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
        """Return the fingerprints and answers of requests with these keys."""
        answers: dict[str, tuple[str, dict[str, Any]]] = {}
        for part in _parts(names):
            query = f"SELECT id, fingerprint, answer FROM requests WHERE id IN ({', '.join('?' * len(part))})"
            for name, fingerprint, answer in self._tables.execute(query, [n for (n,) in part]):
                answers[name] = fingerprint, json.loads(answer)
        return answers

    def _insert(self, into: str, rows: list[Any]) -> None:
        """Insert many rows with few statements, because other threads run during each statement and delay the next."""
        for part in _parts(rows):
            placeholders = f"({', '.join('?' * len(part[0]))})"
            query = f"INSERT INTO {into} VALUES {', '.join([placeholders] * len(part))}"
            self._tables.execute(query, [value for row in part for value in row])

    def append(self, data: bytes, rows: int) -> int:
        """Add packed rows (see `pack`); return the number of their entry."""
        self.append_requests([LearnRequest(data, rows)])
        return self.newest

    def keep(self, ids: Sequence[Id], batch: Batch, scores: Any) -> None:
        """Store predicted rows until their labels come.

        A row that waits under its id is not replaced. Storing the same row again changes nothing, and another row
        raises `ReplacedRowError`.
        """
        dtype = batch.values.dtype
        new = [k for k, is_stored in enumerate(self.waiting.are_stored(ids, batch, dtype)) if not is_stored]
        if new:
            self.waiting.put([ids[k] for k in new], batch.take(np.array(new)), scores[new], dtype)

    def label(self, ids: Sequence[Id], labels: Sequence[Any], weights: Any, n_features: int) -> Labelled:
        """Move the rows that wait for these labels into the journal, in this order."""
        outcome, places = self.waiting.look(ids)
        if places:
            with self.waiting.taking([ids[k] for k in places], n_features) as (batch, scores):
                known_scores = scores_by_class(scores, (len(places), max(map(len, scores))))
                batch = batch if weights is None else replace(batch, weights=weights[places])
                self.append(pack(batch, [labels[k] for k in places], known_scores), len(places))
        self.waiting.count(outcome)
        return outcome

    def quarantine(self, number: int, row: int, reason: str, data: bytes) -> None:
        """Exclude a row of an entry, or the whole entry, from learning."""
        self._tables.execute(
            "INSERT OR IGNORE INTO quarantine (number, row, at, reason, data) VALUES (?, ?, ?, ?, ?)",
            (number, row, time.time(), reason, data),
        )

    def cut(self, number: int, most: int = CUT) -> bool:
        """Delete the oldest entries up to this number, which a checkpoint contains; return whether there are more."""
        first = "SELECT number FROM entries WHERE number <= ? ORDER BY number LIMIT ?"
        gone = self._tables.execute(f"DELETE FROM entries WHERE number IN ({first})", (number, most)).rowcount
        self._tables.execute(
            "DELETE FROM quarantine WHERE number <= ? AND id <= (SELECT max(id) FROM quarantine) - ?",
            (number, QUARANTINED),
        )
        return gone == most

    def note(self, name: str, value: Any) -> None:
        self._tables.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    # The following methods need no transaction.

    def fact(self, name: str) -> Any:
        """Return the value that was noted under a name; None if there is none."""
        row = self._tables.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def changes(self) -> list[Entry]:
        """Return the entries that are changes, not rows."""
        query = "SELECT number, data FROM entries WHERE rows = 0 ORDER BY number"
        return [Entry(number, data) for number, data in self._tables.execute(query)]

    @property
    def last(self) -> int:
        """The number of the last entry ever written; 0 before the first."""
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
        """The number of rows that were ever put into quarantine."""
        return self._sequence("quarantine")

    def require_checkpoint(self, saved: int, name: str | None) -> None:
        """Raise unless this journal continues a checkpoint whose last entry is ``saved``.

        Entries that were deleted from the journal must be in the checkpoint. If a folder was copied file by file while
        the server ran, journal and checkpoint may not match.

        ``saved`` is 0 and ``name``, the checkpoint's journal, is None if there is no checkpoint.
        """
        first = self.first
        if name is not None and self.fact("name") != name:
            raise JournalMismatchError(
                "journal.sqlite was replaced: checkpoint.ts belongs to another journal, and has its entries up to "
                f"{saved}"
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
        """Number new entries after ``saved``, under this journal name; a checkpoint has the entries up to it."""
        self.note("missing", self.first - 1)
        self.cut(saved, -1)
        if self.last < saved:
            self._tables.execute("DELETE FROM sqlite_sequence WHERE name = 'entries'")
            self._tables.execute("INSERT INTO sqlite_sequence VALUES ('entries', ?)", (saved,))
            self.newest = saved
        if name is not None:
            self.note("name", name)

    def close(self) -> None:
        self._tables.close()


def _answered(request: str, fingerprint: str, answer: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the stored answer to a repeated request; raise if the key belongs to another request."""
    if fingerprint != answer[0]:
        raise ReusedKeyError(
            f"the idempotency key {request!r:.60} was used before for another request (path or body differ). Send each "
            "request with its own key"
        )
    return answer[1] | {"again": True}


def _parts(rows: list[Any], most: int = 256) -> Iterator[list[Any]]:
    """Split rows into parts whose lengths are powers of two, so that SQLite compiles few different statements."""
    start = 0
    while rest := len(rows) - start:
        size = min(1 << (rest.bit_length() - 1), most)
        yield rows[start : start + size]
        start += size


def connect(path: Path, read_only: bool = False) -> sqlite3.Connection:
    address = (
        f"file:{quote(str(path.absolute()))}?mode={'rw' if read_only else 'rwc'}"  # a reader does not create the file
    )
    tables = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False, timeout=60.0)
    if read_only:
        tables.execute("PRAGMA query_only=ON")
    return tables


def copy_database(path: Path, target: Path) -> None:
    """Copy a journal that another process may be writing, in the state after its last transaction."""
    try:
        with closing(connect(path, read_only=True)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise JournalError(f"{path} cannot be copied: {error}") from error


class Reader:
    """Reads entries of a journal while another thread writes it."""

    def __init__(self, path: Path) -> None:
        self._tables = connect(path, read_only=True)

    def after(self, number: int, rows: int, until: int | None = None) -> list[Entry]:
        """Return the entries after a number, with about ``rows`` rows."""
        entries, n_rows = list[Entry](), 0
        last = 2**63 - 1 if until is None else until
        query = "SELECT number, rows, data FROM entries WHERE number > ? AND number <= ? ORDER BY number"
        with closing(
            self._tables.execute(query, (number, last))
        ) as cursor:  # an open cursor would keep the log growing
            for entry, n, data in cursor:
                entries.append(Entry(entry, data))
                n_rows += n
                if n_rows >= rows:
                    break
        return entries

    def refused(self, first: int, last: int) -> dict[int, set[int]]:
        """Return the rows in quarantine, by entry."""
        rows: dict[int, set[int]] = {}
        query = "SELECT number, row FROM quarantine WHERE number BETWEEN ? AND ?"
        for number, row in self._tables.execute(query, (first, last)):
            rows.setdefault(number, set()).add(row)
        return rows

    def quarantined(self, most: int = 100) -> list[Quarantined]:
        """Return the newest rows in quarantine."""
        query = "SELECT number, row, at, reason FROM quarantine ORDER BY id DESC LIMIT ?"
        return [Quarantined(*row) for row in self._tables.execute(query, (most,))]

    def waiting_since(self) -> float | None:
        """Return when the oldest row that waits for its label was predicted, in seconds since 1970."""
        oldest = self._tables.execute("SELECT min(at) FROM waiting").fetchone()[0]
        return None if oldest is None else float(oldest)

    def close(self) -> None:
        self._tables.close()


class SteadyClock:
    """The time of day, which never jumps while the process runs, and never starts before the last stored time."""

    def __init__(self, latest: float = 0.0) -> None:
        self._start, self._began = max(time.time(), latest), time.monotonic()

    def __call__(self) -> float:
        """Return the seconds since 1970."""
        return self._start + time.monotonic() - self._began


# Group commit: requests that came while the disk was busy go into the next transaction, with one sync for all.

#: Work to do in a transaction. Its answer is sent when the transaction is on disk.
Work = Callable[[Journal], Any] | LearnRequest
#: Called with the answer or the error, in the thread that commits.
Tell = Callable[[Any], None]


class Busy(ThinstreamError, RuntimeError):
    """Too many requests wait to be written; try again later."""


class Closed(Busy):
    """The journal is closed for new entries."""


class Committer:
    """The one thread that writes a journal.

    ``written`` is called after each transaction with its entries. Up to ``most`` requests may wait, and up to ``group``
    are written in one transaction.
    """

    def __init__(
        self,
        journal: Journal,
        written: Callable[[list[Entry]], None] = lambda entries: None,
        most: int = 10_000,
        group: int = 1000,
    ) -> None:
        self.journal, self.most, self.group = journal, most, group
        self._written, self._waiting = written, deque[tuple[Work, Tell]]()
        self._some = threading.Condition()
        self._closing = False
        self.trouble: str | None = None  # why the last transaction failed
        self._thread = threading.Thread(target=self._run, name=f"journal {journal.path.parent.name}", daemon=True)
        self._thread.start()

    def put(self, work: Work, tell: Tell = lambda outcome: None) -> None:
        """Queue some work; raise `Busy` if too much waits."""
        with self._some:
            if self._closing:
                raise Closed("the learner is stopping; try again in a second")
            if len(self._waiting) >= self.most:
                raise Busy(f"{self.most} requests already wait to be written")
            self._waiting.append((work, tell))
            self._some.notify()

    def do(self, work: Work) -> Any:
        """Do some work, wait until it is on disk, and return its answer."""
        outcome: list[Any] = []
        done = threading.Event()

        def tell(answer: Any) -> None:
            outcome.append(answer)
            done.set()

        self.put(work, tell)
        done.wait()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Write what waits in the queue, and stop."""
        with self._some:
            self._closing = True
            self._some.notify()
        self._thread.join()
        self.journal.close()

    def _run(self) -> None:
        while group := self._next():
            outcomes = self._commit([work for work, _ in group])
            self._written(self.journal.new())
            for (_, tell), outcome in zip(group, outcomes, strict=True):
                with suppress(RuntimeError):  # the event loop may be closed
                    tell(outcome)

    def _next(self) -> list[tuple[Work, Tell]]:
        with self._some:
            while not self._waiting and not self._closing:
                self._some.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), self.group))]

    def _commit(self, works: list[Work]) -> list[Any]:
        """Return the answer of each work, or its error. If the disk fails, all fail."""
        try:
            with self.journal.transaction():
                outcomes = list[Any]()
                for work_type, group in groupby(works, type):  # rows of consecutive requests are written together
                    alike: list[Any] = [*group]
                    outcomes += (
                        self.journal.append_requests(alike) if work_type is LearnRequest else map(self._one, alike)
                    )
        except JournalError as error:
            if str(error) != self.trouble:
                log(str(error), ERROR, model=self.journal.path.parent.name)
            self.trouble = str(error)
            return [error] * len(works)
        self.trouble = None
        return outcomes

    def _one(self, work: Callable[[Journal], Any]) -> Any:
        try:
            with self.journal.step():
                return work(self.journal)
        except sqlite3.Error:  # the disk failed: the whole transaction fails
            raise
        except Exception as error:
            return error
