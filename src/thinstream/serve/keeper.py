"""A model of the learning process: its journal, what writes it, and what learns it."""

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.errors import FileWriteError, InvalidInputError, ThinstreamError
from thinstream.late_labels.waiting import ReplacedRowError
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve.archive import Archive, Segments
from thinstream.serve.challengers import Challengers
from thinstream.serve.changing import Changes
from thinstream.serve.committing import Busy, Closed, Committer, Work
from thinstream.serve.feeding import Feed
from thinstream.serve.journal import Journal, JournalError, Reader, Taught
from thinstream.serve.journal_stream import ROWS, Bell
from thinstream.serve.learning import Learning, reason_of
from thinstream.serve.packed import is_sound, labels_of, n_rows, unpack
from thinstream.serve.places import Places
from thinstream.serve.recovery import open_journal, saved_in
from thinstream.serve.settings import Settings
from thinstream.serve.sharing import publish, require_shareable, version_of
from thinstream.serve.versions import Keeping, NoVersion, Versions
from thinstream.serve.wire import Ask

#: Seconds until a journal that could not be opened is tried again.
AGAIN = 5.0
#: What is told of an answer: a status of HTTP and what to say.
Answer = tuple[int, dict[str, Any]]


class Keeper:
    """Everything a model was told goes through here.

    If its journal cannot be opened or written (a full disk, say), the model predicts with its last checkpoint and does
    not learn, and the journal is tried again from time to time.

    Parameters
    ----------
    name : str
        Of a model that has a folder.
    places : Places
    settings : Settings

    """

    def __init__(self, name: str, places: Places, settings: Settings) -> None:
        self.name, self._folder, self._settings = name, places.folder(name), settings
        self._weights = places.weights(name)
        self._model = model = read(places.model(name))
        require_shareable(model)
        self.learns = not model.learner.weights_only and model.learner.reads == "once"
        self._open: _Open | None = None
        self._trouble = ""  # why the journal is not open
        self._closing = threading.Event()
        self._retry: threading.Thread | None = None
        if not self.learns:
            if name in settings.sources:
                raise InvalidInputError("it was saved with its weights only: no source can feed it")
            publish(self._weights, model, version=0)
            return
        if model.classes.grow and (settings.archive or name in settings.sources):
            raise InvalidInputError(
                "its classes come later (grow_classes): it has no archive, and no source can feed it"
            )
        try:
            self._open = _Open(model, self._folder, self._weights, settings)
        except (JournalError, FileWriteError, OSError) as error:
            self._predict_only(error)

    def _predict_only(self, error: Exception) -> None:
        """Publish the last checkpoint, and try to open the journal until that works."""
        self._trouble = reason_of(error) if isinstance(error, ThinstreamError) else f"{error}"
        sys.stderr.write(f"thinstream: the model {self.name!r} does not learn: {self._trouble}; trying again\n")
        checkpoint, version = self._folder / "checkpoint.ts", 0
        model = self._model
        if checkpoint.exists():
            model = replace(read(checkpoint), reading=model.reading, names=model.names)
            version = saved_in(model)[0]
        if version >= version_of(self._weights, self._model):
            publish(self._weights, model, version=version)
        self._retry = threading.Thread(target=self._reopen, name=f"opening {self.name}", daemon=True)
        self._retry.start()

    def _reopen(self) -> None:
        while not self._closing.wait(AGAIN):
            try:
                self._open = _Open(self._model, self._folder, self._weights, self._settings)
            except Exception as error:
                self._trouble = reason_of(error)
            else:
                sys.stderr.write(f"thinstream: the model {self.name!r} learns again\n")
                return

    def ask(self, asked: Ask, tell: Callable[[Answer], None]) -> None:
        """Does what is asked; tells the answer once it is on disk."""
        opened = self._open
        if not self.learns:
            tell((409, {"error": f"{self.name!r} was saved with its weights only: it predicts and does not learn"}))
        elif opened is None:
            tell((503, {"error": f"the model {self.name!r} predicts but does not learn now: {self._trouble}"}))
        else:
            opened.ask(asked, tell)

    def status(self) -> dict[str, Any]:
        """What there is to tell of it."""
        if not self.learns:
            return {"learns": False}
        opened = self._open
        if opened is None:
            return {
                "learns": True,
                "learning": False,
                "ready": True,
                "trouble": self._trouble,
                "failure": self._trouble,
            }
        return opened.status()

    def look(self, since: int) -> dict[str, Any]:
        """What the dashboard is told of it; of its samples those after the one of a number."""
        opened = self._open
        return {"status": self.status()} if opened is None else opened.look(since)

    def rivals(self) -> dict[str, Any]:
        """The versions that are kept, and the challengers; none of a model that does not learn."""
        opened = self._open
        return {"versions": [], "challengers": []} if opened is None else opened.rivals()

    def quarantine(self) -> dict[str, Any]:
        """Rows that could not be learned."""
        opened = self._open
        return {"count": 0, "rows": []} if opened is None else opened.quarantine()

    @property
    def failure(self) -> str | None:
        """Why it does not learn; None if it does, or is not meant to."""
        return self._trouble or None if self._open is None else self._open.failure

    def close(self) -> None:
        """Ends, with a checkpoint; predictions go on."""
        self._closing.set()
        if self._retry is not None:
            self._retry.join()
        if self._open is not None:
            self._open.close()

    def unload(self) -> None:
        """Ends for predictions, too."""
        self.close()  # before it, a last version might still come
        if self._open is not None:
            self._open.unpublish()
        self._weights.unlink(missing_ok=True)


class _Open:
    """A model whose journal is open: what writes it, and what learns it.

    Parameters
    ----------
    model : Model
        As it was before the first entry of the journal.
    folder, weights : path
    settings : Settings

    """

    def __init__(self, model: Model, folder: Path, weights: Path, settings: Settings) -> None:
        self._model, self._settings, self._name, self._width = model, settings, folder.name, model.learner.n_features
        journal = open_journal(folder, settings)
        self._bell, self._reader = Bell(), Reader(journal.path)
        self._committer = Committer(journal, self._bell.ring, settings.queue)
        self._feed: Feed | None = None
        try:
            archive = Segments(folder / "archive", journal.path, model) if settings.archive else Archive()
            keeping = Keeping(settings.version_rows, settings.version_seconds, settings.versions)
            self._changes = Changes(model, Versions(folder, keeping), Challengers(folder / "challengers"))
            self._learning = Learning(
                model,
                folder,
                weights,
                self._committer,
                self._bell,
                archive,
                self._changes,
                settings.checkpoint_seconds,
            )
        except BaseException:
            self._reader.close()
            self._committer.close()
            raise
        self._began = journal.newest  # what was told before this process began
        self._labels = self._known_labels() if model.classes.grow else None
        self._learning.start()
        if self._name in settings.sources:
            self._feed = Feed(settings.sources[self._name], model, self._committer, folder, self._lag)

    def _known_labels(self) -> set[Any]:
        """Labels of all entries, learned or not."""
        labels, number = {*self._learning.state.classes}, 0
        while entries := self._reader.after(number, ROWS):
            number = entries[-1].number
            labels.update(*(labels_of(entry.data) for entry in entries if is_sound(entry.data)))
        return labels

    def ask(self, asked: Ask, tell: Callable[[Answer], None]) -> None:
        """Does what is asked; tells the answer once it is on disk."""
        if self._learning.failure is not None:
            tell((503, {"error": f"the model {self._name!r} has stopped learning: {self._learning.failure}"}))
            return
        lag = self._lag()
        if lag > self._settings.lag:
            tell((429, {"error": f"{self._name!r} has {lag} requests still to learn; try again in a second"}))
            return
        try:
            self._committer.put(self._work(asked), lambda outcome: tell(_answer(outcome)))
        except Closed as closed:
            tell((503, {"error": str(closed)}))
        except Busy as busy:
            tell((429, {"error": f"too much is asked of {self._name!r}: {busy}; try again in a second"}))
        except ThinstreamError as error:  # a change that cannot be made
            tell(_answer(error))

    def _work(self, asked: Ask) -> Work:
        if asked.what == "change":
            return self._changes.work(asked.data, asked.request, asked.fingerprint)
        if asked.what != "learn":
            return self._keep(asked) if asked.what == "keep" else self._label(asked)
        taught = Taught(asked.data, n_rows(asked.data), asked.request, asked.fingerprint)
        if self._labels is None:
            return taught

        def work(journal: Journal) -> Any:
            with self._admitted(labels_of(asked.data)):
                return journal.once(asked.request, lambda: journal.append_answer(taught), asked.fingerprint)

        return work

    @contextmanager
    def _admitted(self, labels: Iterable[Any]) -> Iterator[None]:
        """Raise if a model whose classes come later would have too many of them; one thread asks, so none slip by."""
        if self._labels is None:
            yield
            return
        known, most = self._labels | {*labels}, self._settings.classes
        if len(known) > most:
            raise InvalidInputError(f"y: this model may have {most:,} classes, these rows would make it {len(known):,}")
        yield
        self._labels = known

    def _keep(self, asked: Ask) -> Work:
        def work(journal: Journal) -> dict[str, Any]:
            batch, _, scores = unpack([asked.data])
            journal.keep(asked.ids, batch, np.array(scores))
            return {"kept": len(asked.ids)}

        return work

    def _label(self, asked: Ask) -> Work:
        weights = None if asked.weights is None else np.array(asked.weights)

        def work(journal: Journal) -> dict[str, Any]:
            with self._admitted(asked.labels):
                return journal.once(
                    asked.request,
                    lambda: journal.label(asked.ids, asked.labels, weights, self._width)._asdict(),
                    asked.fingerprint,
                )

        return work

    def status(self) -> dict[str, Any]:
        """What there is to tell of it."""
        journal, learning = self._committer.journal, self._learning
        return (
            learning.told
            | {
                "learns": True,
                "ready": learning.told["version"] >= self._began or learning.failure is not None,
                "queue": len(self._committer),
                "lag": self._lag(),
                "waiting": len(journal.waiting),
                "labels": dict(journal.waiting.counts),
                "trouble": self._committer.trouble or learning.trouble or learning.run.trouble or learning.mishap,
                "failure": self.failure,
                "learning": self.failure is None,
            }
            | ({} if self._feed is None else {"source": self._feed.status()})
        )

    def look(self, since: int) -> dict[str, Any]:
        """What the dashboard is told of it; of its samples those after the one of a number."""
        told = {"status": self.status() | {"oldest": self._oldest()}, **self.rivals()}
        return told | self._learning.telling.told(since)

    def rivals(self) -> dict[str, Any]:
        """The versions that are kept, and the challengers."""
        return {"versions": self._changes.versions.listed(), "challengers": self._learning.challengers}

    def quarantine(self) -> dict[str, Any]:
        """Rows that could not be learned, the newest first."""
        rows = [each._asdict() for each in self._reader.quarantined()]
        return {"count": self._learning.refused, "rows": rows}

    @property
    def failure(self) -> str | None:
        """Why it does not learn."""
        return self._learning.failure or (self._committer.trouble if self._committer.journal.is_gone else None)

    def _oldest(self) -> float | None:
        """Seconds that the row which has waited longest for its label has waited."""
        since = self._reader.waiting_since()
        return None if since is None else max(time.time() - since, 0.0)

    def _lag(self) -> int:
        """Entries of the journal that are not learned yet."""
        return max(self._committer.journal.newest - self._learning.done, 0)

    def close(self) -> None:
        """Ends, with a checkpoint."""
        if self._feed is not None:
            self._feed.close()
        self._learning.close()
        self._reader.close()
        self._committer.close()

    def unpublish(self) -> None:
        """Ends for predictions, too."""
        self._learning.publisher.close()


def _answer(outcome: Any) -> Answer:
    if isinstance(outcome, JournalError):
        return 503, {"error": f"{outcome}; nothing was learned, try again later"}
    if isinstance(outcome, ThinstreamError):
        status = 404 if isinstance(outcome, NoVersion) else 409 if isinstance(outcome, ReplacedRowError) else 422
        return status, {"error": str(outcome)}
    if isinstance(outcome, BaseException):
        return 500, {"error": f"the request failed: {type(outcome).__name__}"}
    return 200, outcome
