"""A source that feeds a model: messages of a broker go into its journal, as rows of ``/learn`` do, each exactly once.

Rows and the place after them are written in one transaction; the broker is told when that is on disk. So a server that
is killed goes on after the last message its journal has.
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
from thinstream.streams.brokers.broker import open_broker
from thinstream.streams.brokers.opening import format_in, open_source
from thinstream.streams.brokers.stream import MessageStream
from thinstream.streams.options import Options, as_learned
from thinstream.streams.stream import START, batches_from

#: Seconds until a source that cannot be read is tried again, and between two looks at a journal that is behind.
AGAIN, PAUSE = 5.0, 0.05
#: Entries of the journal that may wait to be learned before no more are read.
BEHIND = 64


class Feed:
    """The thread that reads a source for a model.

    Parameters
    ----------
    source : str
        Its address.
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
        self, source: str, model: Model, committer: Committer, folder: Path, behind: Callable[[], int]
    ) -> None:
        self._source, self._model, self._committer, self._behind = source, model, committer, behind
        self._letters = str(folder / "dead-letters.jsonl")
        self._ended = threading.Event()
        self._lag: int | None = None
        self._rows = self._aside = 0
        self._up, self._trouble = False, ""
        self._thread = threading.Thread(target=self._run, name=f"feeding {folder.name}", daemon=True)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        """What there is to tell of it."""
        found = {"from": shown(self._source), "rows": self._rows, "set_aside": self._aside}
        return found | {"up": self._up, "lag": self._lag, "trouble": self._trouble or None}

    def close(self) -> None:
        """Ends after what is being written."""
        self._ended.set()
        self._thread.join(2 * AGAIN)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except (Busy, Closed):
                self._ended.wait(PAUSE)
            except ThinstreamError as error:
                self._is_away(str(error), again=str(error) != self._trouble)
                self._ended.wait(AGAIN)

    def _is_away(self, trouble: str, again: bool = False) -> None:
        """The source cannot be read: said once, or where that is asked for."""
        if not self._trouble or again:
            sys.stderr.write(f"thinstream: {trouble}; trying again\n")
        self._trouble, self._up, self._lag = trouble, False, None

    def _is_there(self, lag: int | None) -> None:
        """The source can be read."""
        if self._trouble:
            sys.stderr.write(f"thinstream: {shown(self._source)} can be read again\n")
        self._trouble, self._up, self._lag = "", True, lag

    def _follow(self) -> None:
        stream = opened(self._source, self._model, self._letters)
        try:
            fact = f"source {json.dumps(stream.broker.identity(), sort_keys=True)}"
            known = self._committer.do(lambda journal: journal.fact(fact))
            position = START if known is None else Position(*known)
            for _, batch in batches_from(stream, position):
                if self._ended.is_set():
                    return
                if batch.position is not None and batch.position != position:
                    position = batch.position
                    self._write(batch, fact)
                    stream.kept(position)
                self._aside = stream.skipped.count
                if stream.trouble is None:
                    self._is_there(stream.lag)
                else:
                    self._is_away(stream.trouble)
                while self._behind() > BEHIND and not self._ended.is_set():
                    time.sleep(PAUSE)
        finally:
            stream.close()

    def _write(self, batch: Batch, fact: str) -> None:
        """The rows of a batch, and where the source goes on after them."""
        data, position = None, batch.position
        if len(batch):
            y, classes = batch.require_labels(), self._model.classes
            labels = [classes[k] for k in ((y > 0).astype(int) if y.dtype == np.int8 else y)]
            data = pack(replace(batch, y=None), labels)

        def work(journal: Journal) -> None:
            if data is not None:
                journal.append(data, len(batch))
            journal.note(fact, position)

        self._committer.do(work)
        self._rows += len(batch)


def opened(source: str, model: Model, letters: str | None = None) -> MessageStream:
    """The rows of a source, read as a model has learned to read."""
    address, dtype = Address.of(source), model.learner.dtype.name
    usual = "jsonl" if "hashing" in model.feature_space else "libsvm"
    kind = format_in(address, Options(address.settings.get("format", usual))).name
    options = as_learned(Options(kind, dtype=dtype, strict=False), kind, model, shown(source))
    most = max(Limits().width, model.learner.n_features)
    return replace(open_source(source, options, Following(dead_letters=letters)), widest=most)


def by_model(sources: list[str], names: list[str]) -> dict[str, str]:
    """Which source feeds which model: NAME=ADDRESS, or an address alone where there is one model."""
    found: dict[str, str] = {}
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
        found[name] = address
    return found
