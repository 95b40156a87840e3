"""A source that feeds a model: messages of a broker go into its journal, like rows of ``/learn``, each exactly once.

One transaction writes the rows and the position after them. Then the broker gets an acknowledgment. So a server that
was killed continues after the last message in its journal.

A source that fails in any way is reopened after a pause. Bad messages never stop it.
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
from thinstream.data.brokers import Address, Following, shown
from thinstream.data.brokers.broker import open_broker, reason_of
from thinstream.data.brokers.stream import MessageStream, format_in, open_source
from thinstream.data.options import MAX_ERRORS, Options, as_learned
from thinstream.data.stream import START, batches_from
from thinstream.errors import InvalidParameterError, ThinstreamError
from thinstream.models.model import Model
from thinstream.serve import Limits
from thinstream.serve.journal import Busy, Closed, Committer, Journal
from thinstream.serve.log import WARNING, log
from thinstream.serve.wire import pack

#: Seconds until a source that failed is reopened, at first and at most. The pause doubles with each failure.
FIRST, MOST = 1.0, 30.0
#: Seconds without a failure after which a source counts as readable again, if no message comes before.
SURE = 1.0
#: Seconds between checks of a journal that is behind, and to wait for the thread at the end.
PAUSE, END = 0.05, 10.0
#: Journal entries that may wait to be learned before reading pauses.
BEHIND = 64


class Feed:
    """The thread that reads a source for a model.

    ``source`` has its address, and what to do at a gap, see `Following`. Messages that cannot be read go to ``dead-
    letters.jsonl`` in the model's folder. ``behind`` returns the number of journal entries that are not learned yet.
    """

    def __init__(
        self, source: tuple[str, str], model: Model, committer: Committer, folder: Path, behind: Callable[[], int]
    ) -> None:
        self._source, self._on_gap = source
        self._model, self._committer, self._behind = model, committer, behind
        self._letters = str(folder / "dead-letters.jsonl")
        self._ended = threading.Event()
        self._lag: int | None = None
        self._rows, self._name = 0, folder.name
        self._dead: int | None = None  # unknown until the source is opened
        self._lost: int | None = None
        self._up, self._trouble, self._unreadable, self._gap = False, "", "", ""
        self._pause = FIRST
        self._thread = threading.Thread(target=self._run, name=f"feeding {folder.name}", daemon=True)
        self._thread.start()

    def status(self) -> dict[str, Any]:
        status = {"from": shown(self._source), "rows": self._rows, "dead_letters": self._dead, "lost": self._lost}
        return status | {"up": self._up, "lag": self._lag, "trouble": self._trouble or self._unreadable or None}

    def close(self) -> None:
        """Stop after what is being written."""
        self._ended.set()
        self._thread.join(END)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                self._follow()
            except (Busy, Closed):
                self._ended.wait(PAUSE)
            except Exception as error:
                is_known = isinstance(error, ThinstreamError)
                trouble = str(error) if is_known else f"{shown(self._source)}: {reason_of(error)}"
                self._is_away(trouble, again=trouble != self._trouble)
                self._ended.wait(self._pause)
                self._pause = min(2 * self._pause, MOST)

    def _is_away(self, trouble: str, again: bool = False) -> None:
        """Note that the source cannot be read; log it the first time, or if ``again``."""
        if not self._trouble or again:
            log(f"{trouble}; trying again", WARNING, model=self._name)
        self._trouble, self._up, self._lag = trouble, False, None

    def _is_there(self, lag: int | None) -> None:
        """Note that the source can be read."""
        if self._trouble:
            log(f"{shown(self._source)} can be read again", model=self._name)
        self._trouble, self._up, self._lag, self._pause = "", True, lag, FIRST

    def _follow(self) -> None:
        stream = opened(self._source, self._model, self._letters, self._on_gap)
        try:
            fact = f"source {json.dumps(stream.broker.identity(), sort_keys=True)}"
            saved, counts = self._committer.do(lambda journal: (journal.fact(fact), journal.fact(f"{fact} counts")))
            position = START if saved is None else Position(*saved)
            stream.skipped.count, stream.status.lost = counts or (0, 0)
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
        """Count dead letters and missing messages. A source that was reopened may have counted fewer."""
        self._dead, self._lost = max(self._dead or 0, stream.skipped.count), max(self._lost or 0, stream.lost)
        if stream.status.gap not in ("", self._gap):
            self._gap = stream.status.gap
            text = f"{self._gap}; continuing ({self._lost:,} messages are missing so far)"
            log(text, WARNING, model=self._name)
        bad, before = stream.status.bad, self._unreadable
        self._unreadable = "" if bad <= MAX_ERRORS else (
            f"none of the last {bad:,} messages could be read. They are in {Path(self._letters).name}. The last error: "
            f"{stream.status.reason}"
        )  # fmt: skip
        if self._unreadable and not before:
            log(self._unreadable, WARNING, model=self._name)

    def _write(self, batch: Batch, fact: str, stream: MessageStream) -> None:
        """Write the rows of a batch, and the position after them."""
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
    """Open a source with the reading options of a model. Any number of messages may be bad."""
    address, dtype = Address.of(source), model.learner.dtype.name
    usual = "jsonl" if "hashing" in model.feature_space else "libsvm"
    format_name = format_in(address, Options(address.settings.get("format", usual))).name
    options = Options(format_name, dtype=dtype, strict=False, max_errors=sys.maxsize)
    options = as_learned(options, format_name, model.reading_spec, shown(source))
    most = max(Limits().width, model.learner.n_features)
    return replace(open_source(source, options, Following(dead_letters=letters, on_gap=on_gap)), widest=most)


def by_model(sources: list[str], names: list[str], on_gap: str = "stop") -> dict[str, tuple[str, str]]:
    """Return the source of each model, from NAME=ADDRESS, or ADDRESS if there is only one model."""
    Following(on_gap=on_gap).check()
    by_name: dict[str, tuple[str, str]] = {}
    for source in sources:
        head, mark, rest = source.partition("=")
        name, address = (head, rest) if mark and "://" not in head else ("", source)
        if not name and len(names) != 1:
            raise InvalidParameterError(
                f"--source must name its model, NAME={shown(address)}; models: {', '.join(names) or 'none'}"
            )
        name = name or names[0]
        if name not in names:
            raise InvalidParameterError(
                f"--source names the unknown model {name!r}; models: {', '.join(names) or 'none'}"
            )
        if name in by_name:
            raise InvalidParameterError(f"--source: a model can have only one source, got two for {name!r}")
        open_broker(Address.of(address)).close()  # reports wrong addresses and missing packages at the start
        by_name[name] = address, on_gap
    return by_name
