"""A model of the learning process: its journal, what writes it, and what learns it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from thinstream.errors import InvalidInputError, ThinstreamError
from thinstream.models.file import read
from thinstream.serve.archive import Archive, Segments
from thinstream.serve.challengers import Challengers
from thinstream.serve.changing import Changes
from thinstream.serve.committing import Busy, Closed, Committer, Work
from thinstream.serve.feeding import Feed
from thinstream.serve.journal import Journal, JournalError, Reader, Taught
from thinstream.serve.journal_stream import Bell
from thinstream.serve.learning import Learning
from thinstream.serve.packed import n_rows, unpack
from thinstream.serve.places import Places
from thinstream.serve.settings import Settings
from thinstream.serve.sharing import publish, require_shareable
from thinstream.serve.versions import Keeping, NoVersion, Versions
from thinstream.serve.wire import Ask

#: What is told of an answer: a status of HTTP and what to say.
Answer = tuple[int, dict[str, Any]]


class Keeper:
    """Everything a model was told goes through here.

    Parameters
    ----------
    name : str
        Of a model that has a folder.
    places : Places
    settings : Settings
    failed : callable
        Is called if it cannot go on learning.

    """

    def __init__(
        self, name: str, places: Places, settings: Settings, failed: Callable[[], object] = lambda: None
    ) -> None:
        self.name, self._folder, self._settings = name, places.folder(name), settings
        self._weights = places.weights(name)
        model = read(places.model(name))
        require_shareable(model)
        self.learns = not model.learner.weights_only and model.learner.reads == "once"
        self._width = model.learner.n_features
        if not self.learns:
            if name in settings.sources:
                raise InvalidInputError("it was saved with its weights only: no source can feed it")
            publish(self._weights, model, version=0)
            return
        if model.classes.grow and (settings.archive or name in settings.sources):
            raise InvalidInputError(
                "its classes come later (grow_classes): it has no archive, and no source can feed it"
            )
        journal = Journal(self._folder / "journal.sqlite", settings.keep, settings.wait_seconds)
        self._bell, self._reader = Bell(), Reader(journal.path)
        self._committer = Committer(journal, self._bell.ring, settings.queue)
        archive = Segments(self._folder / "archive", journal.path, model) if settings.archive else Archive()
        keeping = Keeping(settings.version_rows, settings.version_seconds, settings.versions)
        challengers = Challengers(self._folder / "challengers")
        self._changes = Changes(model, Versions(self._folder, keeping), challengers)
        self._learning = Learning(
            model,
            self._folder,
            self._weights,
            self._committer,
            self._bell,
            archive,
            self._changes,
            settings.checkpoint_seconds,
            failed,
        )
        self._began = journal.newest  # what was told before this process began
        self._learning.start()
        self._feed: Feed | None = None
        if name in settings.sources:
            self._feed = Feed(settings.sources[name], model, self._committer, self._folder, self._lag)

    def ask(self, asked: Ask, tell: Callable[[Answer], None]) -> None:
        """Does what is asked; tells the answer once it is on disk."""
        if not self.learns:
            tell((409, {"error": f"{self.name!r} was saved with its weights only: it predicts and does not learn"}))
            return
        if self._learning.failure is not None:
            tell((503, {"error": f"the model {self.name!r} has stopped learning: {_words(self._learning.failure)}"}))
            return
        lag = self._lag()
        if lag > self._settings.lag:
            tell((429, {"error": f"{self.name!r} has {lag} requests still to learn; try again in a second"}))
            return
        try:
            self._committer.put(self._work(asked), lambda outcome: tell(_answer(outcome)))
        except Closed as closed:
            tell((503, {"error": str(closed)}))
        except Busy as busy:
            tell((429, {"error": f"too much is asked of {self.name!r}: {busy}; try again in a second"}))
        except ThinstreamError as error:  # a change that cannot be made
            tell(_answer(error))

    def _work(self, asked: Ask) -> Work:
        if asked.what == "change":
            return self._changes.work(asked.data, asked.request)
        if asked.what != "learn":
            return self._keep(asked) if asked.what == "keep" else self._label(asked)
        return Taught(asked.data, n_rows(asked.data), asked.request)

    def _keep(self, asked: Ask) -> Work:
        def work(journal: Journal) -> dict[str, Any]:
            batch, _, scores = unpack([asked.data])
            journal.keep(asked.ids, batch, np.array(scores))
            return {"kept": len(asked.ids)}

        return work

    def _label(self, asked: Ask) -> Work:
        weights = None if asked.weights is None else np.array(asked.weights)

        def work(journal: Journal) -> dict[str, Any]:
            return journal.once(
                asked.request,
                lambda: journal.label(asked.ids, asked.labels, weights, self._width)._asdict(),
            )

        return work

    def status(self) -> dict[str, Any]:
        """What there is to tell of it."""
        if not self.learns:
            return {"learns": False}
        journal, failure = self._committer.journal, self._learning.failure
        return (
            self._learning.told
            | {
                "learns": True,
                "ready": self._learning.told["version"] >= self._began,
                "queue": len(self._committer),
                "lag": self._lag(),
                "waiting": len(journal.waiting),
                "labels": dict(journal.waiting.counts),
                "trouble": self._learning.trouble or self._learning.run.trouble or self._learning.mishap,
                "failure": None if failure is None else _words(failure),
            }
            | ({} if self._feed is None else {"source": self._feed.status()})
        )

    def look(self, since: int) -> dict[str, Any]:
        """What the dashboard is told of it; of its samples those after the one of a number."""
        if not self.learns:
            return {"status": self.status()}
        told = {"status": self.status() | {"oldest": self._oldest()}, **self.rivals()}
        return told | self._learning.telling.told(since)

    def rivals(self) -> dict[str, Any]:
        """The versions that are kept, and the challengers; none of a model that does not learn."""
        if not self.learns:
            return {"versions": [], "challengers": []}
        return {"versions": self._changes.versions.listed(), "challengers": self._learning.challengers}

    def _oldest(self) -> float | None:
        """Seconds that the row which has waited longest for its label has waited."""
        since = self._reader.waiting_since()
        return None if since is None else max(time.time() - since, 0.0)

    def _lag(self) -> int:
        """Entries of the journal that are not learned yet."""
        return max(self._committer.journal.newest - self._learning.done, 0)

    def close(self) -> None:
        """Ends, with a checkpoint; predictions go on."""
        if self.learns:
            if self._feed is not None:
                self._feed.close()
            self._learning.close()
            self._reader.close()
            self._committer.close()

    def unload(self) -> None:
        """Ends for predictions, too."""
        self.close()  # before it, a last version might still come
        if self.learns:
            self._learning.publisher.close()
        self._weights.unlink(missing_ok=True)


def _answer(outcome: Any) -> Answer:
    if isinstance(outcome, JournalError):
        return 503, {"error": f"{outcome}; nothing was learned, try again later"}
    if isinstance(outcome, ThinstreamError):
        return 404 if isinstance(outcome, NoVersion) else 422, {"error": str(outcome)}
    if isinstance(outcome, BaseException):
        return 500, {"error": f"the request failed: {type(outcome).__name__}"}
    return 200, outcome


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, ThinstreamError) else type(error).__name__
