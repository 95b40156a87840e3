"""Group commit: whatever has come while the disk was busy goes into the next transaction, with one sync for all."""

import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby
from typing import Any

from thinstream.errors import ThinstreamError
from thinstream.serve.journal import Entry, Journal, JournalError, Taught

#: Done in a transaction; its answer is told when that is on disk.
Work = Callable[[Journal], Any] | Taught
#: Is told the answer, or what went wrong, on the thread that commits.
Tell = Callable[[Any], None]


class Busy(ThinstreamError, RuntimeError):
    """More waits to be written than may; try again later."""


class Closed(Busy):
    """Nothing is written any more."""


class Committer:
    """The one thread that writes a journal.

    Parameters
    ----------
    journal : Journal
    written : callable
        Is called after each transaction, with its entries.
    most : int
        Requests that may wait.
    group : int
        Requests of one transaction at most.

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
        """Queues some work; `Busy` if too much waits."""
        with self._some:
            if self._closing:
                raise Closed("the learning process is ending; try again in a second")
            if len(self._waiting) >= self.most:
                raise Busy(f"{self.most} requests wait to be written")
            self._waiting.append((work, tell))
            self._some.notify()

    def do(self, work: Work) -> Any:
        """Does some work and waits for it to be on disk; its answer."""
        outcome: list[Any] = []
        done = threading.Event()

        def tell(found: Any) -> None:
            outcome.append(found)
            done.set()

        self.put(work, tell)
        done.wait()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Writes what waits, and ends."""
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
                with suppress(RuntimeError):  # the loop that waits for it may be closed
                    tell(outcome)

    def _next(self) -> list[tuple[Work, Tell]]:
        with self._some:
            while not self._waiting and not self._closing:
                self._some.wait()
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), self.group))]

    def _commit(self, works: list[Work]) -> list[Any]:
        """What each work answers, or why it failed; if the disk fails, all have."""
        try:
            with self.journal.transaction():
                found = list[Any]()
                for kind, some in groupby(works, type):  # rows of one request after another go in together
                    alike: list[Any] = [*some]
                    found += self.journal.teach(alike) if kind is Taught else map(self._one, alike)
        except JournalError as error:
            if str(error) != self.trouble:
                sys.stderr.write(f"thinstream: {error}\n")
            self.trouble = str(error)
            return [error] * len(works)
        self.trouble = None
        return found

    def _one(self, work: Callable[[Journal], Any]) -> Any:
        try:
            with self.journal.step():
                return work(self.journal)
        except sqlite3.Error:  # the disk: nothing of the transaction holds
            raise
        except Exception as error:
            return error
