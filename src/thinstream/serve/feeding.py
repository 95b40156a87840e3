"""A source that feeds a model: messages of a broker go into its journal, as rows of ``/learn`` do, each exactly once.

Rows and the place after them are written in one transaction; the broker is told when that is on disk. So a server that
is killed goes on after the last message its journal has.

A source that fails in any way is opened again after a pause. Bad messages never stop it, however many there are.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidParameterError, ThinstreamError
from thinstream.models.model import Model
from thinstream.serve.committing import Busy, Closed, Committer
from thinstream.serve.journal import Journal
from thinstream.serve.packed import pack
from thinstream.serve.settings import Limits
from thinstream.streams.brokers import Address, Following, shown
from thinstream.streams.brokers.broker import open_broker, reason_of
from thinstream.streams.brokers.opening import format_in, open_source
from thinstream.streams.brokers.stream import MessageStream
from thinstream.streams.options import MAX_ERRORS, Options, as_learned
from thinstream.streams.stream import START, batches_from

#: Seconds until a source that failed is opened again, at first and at most: they double with each failure.
FIRST, MOST = 1.0, 30.0
#: Seconds that it must be read without a failure, or with a new message, to count as readable again.
SURE = 1.0
#: Seconds between two looks at a journal that is behind, and to wait for the thread at the end.
PAUSE, END = 0.05, 10.0
#: Entries of the journal that may wait to be learned before no more are read.
BEHIND = 64


class Feed:
    """The thread that reads a source for a model.

    Parameters
    ----------
    source : (str, str)
        Its address, and what to do at a gap, see `Following`.
    model : Model
        How its rows are read, and its classes.
    committer : Committer
        Of its journal.
    folder : path
        Of the model: messages that cannot be read go to ``dead-letters.jsonl`` there.
    behind : callable
        How many entries of the journal are not learned yet.

    """

    def __init__(
        self, source: tuple[str, str], model: Model, committer: Committer, folder: Path, behind: Callable[[], int]
    ) -> None:
        self._source, self._on_gap = source
        self._model, self._committer, self._behind = model, committer, behind
        self._letters = str(folder / "dead-letters.jsonl")
        self._ended = threading.Event()
        self._lag: int | None = None
        self._rows = self._aside = self._lost = 0
        self._up, self._trouble, self._unreadable, self._gap = False, "", "", ""
        self._pause = FIRST
        self._thread = threading.Thread(target=self._run, name=f"feeding {folder.name}", daemon=True)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """What there is to tell of it."""
        found = {"from": shown(self._source), "rows": self._rows, "set_aside": self._aside, "lost": self._lost}
        return found | {"up": self._up, "lag": self._lag, "trouble": self._trouble or self._unreadable or None}

    def close(self) -> None:
        """Ends after what is being written."""
        self._ended.set()
        self._thread.join(END)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except (Busy, Closed):
                self._ended.wait(PAUSE)
            except Exception as error:
                known = isinstance(error, ThinstreamError)
                trouble = str(error) if known else f"{shown(self._source)}: {reason_of(error)}"
                self._is_away(trouble, again=trouble != self._trouble)
                self._ended.wait(self._pause)
                self._pause = min(2 * self._pause, MOST)

    def _is_away(self, trouble: str, again: bool = False) -> None:
        """The source cannot be read: said once, or where that is asked for."""
        if not self._trouble or again:
            sys.stderr.write(f"thinstream: {trouble}; trying again\n")
        self._trouble, self._up, self._lag = trouble, False, None

    def _is_there(self, lag: int | None) -> None:
        """The source can be read."""
        if self._trouble:
            sys.stderr.write(f"thinstream: {shown(self._source)} can be read again\n")
        self._trouble, self._up, self._lag, self._pause = "", True, lag, FIRST

    def _follow(self) -> None:
        stream = opened(self._source, self._model, self._letters, self._on_gap)
        try:
            fact = f"source {json.dumps(stream.broker.identity(), sort_keys=True)}"
            known, counts = self._committer.do(lambda journal: (journal.fact(fact), journal.fact(f"{fact} counts")))
            position = START if known is None else Position(*known)
            stream.skipped.count, stream.known.lost = counts or (0, 0)
            self._count(stream)
            began, failed = time.monotonic(), bool(self._trouble)
            for _, batch in batches_from(stream, position):
                if self._ended.is_set():
                    return
                if batch.position is not None and batch.position != position:
                    position = batch.position
                    self._write(batch, fact, stream)
                    stream.kept(position)
                    failed = False
                self._count(stream)
                failed = failed and time.monotonic() - began < SURE
                if stream.trouble is not None:
                    self._is_away(stream.trouble)
                elif not failed:
                    self._is_there(stream.lag)
                while self._behind() > BEHIND and not self._ended.is_set():
                    time.sleep(PAUSE)
        finally:
            stream.close()

    def _count(self, stream: MessageStream) -> None:
        """Count messages that were set aside or are missing; a source that was opened again may have counted fewer."""
        self._aside, self._lost = max(self._aside, stream.skipped.count), max(self._lost, stream.lost)
        if stream.known.gap not in ("", self._gap):
            self._gap = stream.known.gap
            sys.stderr.write(f"thinstream: {self._gap}; continuing ({self._lost:,} messages are missing so far)\n")
        bad, before = stream.known.bad, self._unreadable
        self._unreadable = "" if bad <= MAX_ERRORS else (
            f"none of the last {bad:,} messages could be read, they are in {Path(self._letters).name}; the last: "
            f"{stream.known.reason}"
        )  # fmt: skip
        if self._unreadable and not before:
            sys.stderr.write(f"thinstream: {self._unreadable}\n")

    def _write(self, batch: Batch, fact: str, stream: MessageStream) -> None:
        """The rows of a batch, and where the source goes on after them."""
        data, position, counts = None, batch.position, (stream.skipped.count, stream.lost)
        if len(batch):
            y, classes = batch.require_labels(), self._model.classes
            labels = [classes[k] for k in ((y > 0).astype(int) if y.dtype == np.int8 else y)]
            data = pack(replace(batch, y=None), labels)

        def work(journal: Journal) -> None:
            if data is not None:
                journal.append(data, len(batch))
            journal.note(fact, position)
            journal.note(f"{fact} counts", counts)

        self._committer.do(work)
        self._rows += len(batch)


def opened(source: str, model: Model, letters: str | None = None, on_gap: str = "stop") -> MessageStream:
    """The rows of a source, read as a model has learned to read; any number of messages may be bad."""
    address, dtype = Address.of(source), model.learner.dtype.name
    usual = "jsonl" if "hashing" in model.feature_space else "libsvm"
    kind = format_in(address, Options(address.settings.get("format", usual))).name
    options = Options(kind, dtype=dtype, strict=False, max_errors=sys.maxsize)
    options = as_learned(options, kind, model, shown(source))
    most = max(Limits().width, model.learner.n_features)
    return replace(open_source(source, options, Following(dead_letters=letters, on_gap=on_gap)), widest=most)


def by_model(sources: list[str], names: list[str], on_gap: str = "stop") -> dict[str, tuple[str, str]]:
    """Which source feeds which model: NAME=ADDRESS, or an address alone where there is one model."""
    Following(on_gap=on_gap).check()
    found: dict[str, tuple[str, str]] = {}
    for each in sources:
        head, mark, rest = each.partition("=")
        name, address = (head, rest) if mark and "://" not in head else ("", each)
        if not name and len(names) != 1:
            raise InvalidParameterError(
                f"--source says which model it feeds, NAME={shown(address)}: there are {', '.join(names) or 'none'}"
            )
        name = name or names[0]
        if name not in names:
            raise InvalidParameterError(f"--source feeds {name!r}, and there are {', '.join(names) or 'no models'}")
        if name in found:
            raise InvalidParameterError(f"--source: one source feeds a model, got two for {name!r}")
        open_broker(Address.of(address)).close()  # says at once what is wrong with it, or which package is missing
        found[name] = address, on_gap
    return found
