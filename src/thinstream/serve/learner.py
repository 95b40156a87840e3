"""The learner: the process that writes journals and changes models. Predictors send it requests."""

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from thinstream.errors import FileWriteError, InvalidInputError, ThinstreamError
from thinstream.files import locked
from thinstream.models.file import read
from thinstream.models.model import Model
from thinstream.serve import Settings
from thinstream.serve.folders import Origin, ServerPaths, digest_of, open_journal, saved_in
from thinstream.serve.journal import (
    Busy,
    Closed,
    Committer,
    Journal,
    JournalError,
    LearnRequest,
    Reader,
    ReusedKeyError,
    Work,
)
from thinstream.serve.learning_run import BATCH_ROWS, Archive, JournalNotifier, LearningThread, reason_of
from thinstream.serve.log import ERROR, log
from thinstream.serve.shared_memory import publish, require_shareable, version_of
from thinstream.serve.sources import Feed
from thinstream.serve.versions import Challengers, Changes, NoVersion, VersionPolicy, Versions
from thinstream.serve.wire import (
    Change,
    Frames,
    LearnerRequest,
    LinkReply,
    framed,
    from_json,
    is_sound,
    labels_of,
    n_rows,
    pack_change,
    unpack,
)
from thinstream.training.delayed_labels import ReplacedRowError

#: Seconds between attempts to open a journal.
AGAIN = 5.0
#: A reply: an HTTP status and a body.
Answer = tuple[int, dict[str, Any]]


class ModelWorker:
    """A model in the learner: all of its rows and changes go through here.

    If its journal cannot be opened or written (because the disk is full, for example), the model predicts with its last
    checkpoint and does not learn. The worker then tries to open the journal from time to time.
    """

    def __init__(self, name: str, paths: ServerPaths, settings: Settings) -> None:
        self.name, self._folder, self._settings = name, paths.folder(name), settings
        self._weights = paths.weights(name)
        self._model = model = read(paths.model(name))
        require_shareable(model)
        self.learns = not model.learner.weights_only and model.learner.reads == "once"
        self._open: _Open | None = None
        self._trouble = ""  # why the journal is not open
        self._closing = threading.Event()
        self._retry: threading.Thread | None = None
        if not self.learns:
            if name in settings.sources:
                raise InvalidInputError("it was saved with only its weights, so it cannot learn from a source")
            publish(self._weights, model, version=0)
            return
        if model.classes.grow and (settings.archive or name in settings.sources):
            raise InvalidInputError("it accepts new classes (grow_classes), so it can have no archive and no source")
        try:
            self._open = _Open(model, self._folder, self._weights, settings)
        except (JournalError, FileWriteError, OSError) as error:
            self._predict_only(error)

    def _predict_only(self, error: Exception) -> None:
        """Publish the last checkpoint, and try to open the journal until that works."""
        self._trouble = reason_of(error) if isinstance(error, ThinstreamError) else f"{error}"
        log(f"the model does not learn: {self._trouble}. Trying again", ERROR, model=self.name)
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
                log("the model learns again", model=self.name)
                return

    def ask(self, asked: LearnerRequest, send: Callable[[Answer], None]) -> None:
        """Handle a request; call ``send`` with the reply once it is on disk."""
        opened = self._open
        if not self.learns:
            send((409, {"error": f"{self.name!r} was saved with only its weights: it predicts but does not learn"}))
        elif opened is None:
            send((503, {"error": f"the model {self.name!r} predicts but cannot learn now: {self._trouble}"}))
        else:
            opened.ask(asked, send)

    def status(self) -> dict[str, Any]:
        if not self.learns:
            return {"learns": False}
        opened = self._open
        if opened is None:
            report: dict[str, Any] = {"learns": True, "learning": False, "caught_up": False}
            return report | {"trouble": self._trouble, "failure": self._trouble}
        return opened.status()

    def look(self, since: int) -> dict[str, Any]:
        """Return the data of the dashboard, with the samples after the given number."""
        opened = self._open
        return {"status": self.status()} if opened is None else opened.look(since)

    def rivals(self) -> dict[str, Any]:
        """Return the saved versions and the challengers; none if the model does not learn."""
        opened = self._open
        return {"versions": [], "challengers": []} if opened is None else opened.rivals()

    def quarantine(self) -> dict[str, Any]:
        """Return the rows that could not be learned."""
        opened = self._open
        return {"count": 0, "rows": []} if opened is None else opened.quarantine()

    @property
    def failure(self) -> str | None:
        """The reason why the model does not learn; None if it does, or is not meant to."""
        return self._trouble or None if self._open is None else self._open.failure

    def close(self) -> None:
        """Stop learning with a checkpoint; predictions continue."""
        self._closing.set()
        if self._retry is not None:
            self._retry.join()
        if self._open is not None:
            self._open.close()

    def unload(self) -> None:
        """Stop learning and predicting."""
        self.close()  # first, because it may publish a last version
        if self._open is not None:
            self._open.unpublish()
        self._weights.unlink(missing_ok=True)


class _Open:
    """A model whose journal is open, with the threads that write and learn it.

    ``model`` is the model before the first entry of the journal.
    """

    def __init__(self, model: Model, folder: Path, weights: Path, settings: Settings) -> None:
        self._model, self._settings, self._name, self._width = model, settings, folder.name, model.learner.n_features
        journal = open_journal(folder, settings)
        self._notifier, self._reader = JournalNotifier(), Reader(journal.path)
        self._committer = Committer(journal, self._notifier.ring, settings.queue)
        self._feed: Feed | None = None
        try:
            archive = Archive(folder / "archive", journal.path, model) if settings.archive else None
            keeping = VersionPolicy(settings.version_rows, settings.version_seconds, settings.versions)
            self._changes = Changes(model, Versions(folder, keeping), Challengers(folder / "challengers"))
            self._learning = LearningThread(
                model,
                folder,
                weights,
                self._committer,
                self._notifier,
                archive,
                self._changes,
                settings.checkpoint_seconds,
            )
        except BaseException:
            self._reader.close()
            self._committer.close()
            raise
        self._began = journal.newest  # entries from before the start of this process
        self._labels = self._known_labels() if model.classes.grow else None
        self._learning.start()
        if self._name in settings.sources:
            self._feed = Feed(settings.sources[self._name], model, self._committer, folder, self._lag)
        if self._name in settings.retrained:
            self._deploy(folder, *settings.retrained[self._name])

    def _deploy(self, folder: Path, file: str, action: str, digest: str) -> None:
        """Write a retrained model into the journal as a challenger, and promote it if it replaces the model.

        The list of deployed files is written last. If the process ends before that, idempotency keys prevent that
        anything happens twice.
        """
        origin, name = Origin(folder), f"file-{digest[:12]}"
        data = Path(file).read_bytes()
        if (
            origin.newest == digest or digest_of(data) != digest
        ):  # deployed before a restart, or the file has changed since
            return
        changes = [Change({"what": "challenge", "name": name}, data), Change({"what": "promote", "name": name})]
        try:
            for change in changes if action == "replace" else changes[:1]:
                key = f"deploy {len(origin.digests)} {change.what['what']} {digest}"
                self._committer.do(self._changes.work(pack_change(change), key))
        except ThinstreamError as error:
            log(f"{file} is not deployed: {error}", ERROR, model=self._name)
            return
        origin.add(digest)
        log(f"{file} deployed as challenger {name}", model=self._name, promoted=action == "replace")

    def _known_labels(self) -> set[Any]:
        """Return the labels of all entries, learned or not."""
        labels, number = {*self._learning.state.classes}, 0
        while entries := self._reader.after(number, BATCH_ROWS):
            number = entries[-1].number
            labels.update(*(labels_of(entry.data) for entry in entries if is_sound(entry.data)))
        return labels

    def ask(self, asked: LearnerRequest, send: Callable[[Answer], None]) -> None:
        """Handle a request; call ``send`` with the reply once it is on disk."""
        if self._learning.failure is not None:
            send((503, {"error": f"the model {self._name!r} has stopped learning: {self._learning.failure}"}))
            return
        lag = self._lag()
        if lag > self._settings.lag:
            send((429, {"error": f"{self._name!r} still has {lag} requests to learn; try again in a second"}))
            return
        try:
            self._committer.put(self._work(asked), lambda outcome: send(_answer(outcome)))
        except Closed as closed:
            send((503, {"error": str(closed)}))
        except Busy as busy:
            send((429, {"error": f"too many requests for {self._name!r}: {busy}; try again in a second"}))
        except ThinstreamError as error:  # the change is not possible
            send(_answer(error))

    def _work(self, asked: LearnerRequest) -> Work:
        if asked.what == "change":
            return self._changes.work(asked.data, asked.request, asked.fingerprint)
        if asked.what != "learn":
            return self._keep(asked) if asked.what == "keep" else self._label(asked)
        request = LearnRequest(asked.data, n_rows(asked.data), asked.request, asked.fingerprint)
        if self._labels is None:
            return request

        def work(journal: Journal) -> Any:
            with self._admitted(labels_of(asked.data)):
                (answer,) = journal.append_requests([request])
                if isinstance(answer, ReusedKeyError):
                    raise answer
                return answer

        return work

    @contextmanager
    def _admitted(self, labels: Iterable[Any]) -> Iterator[None]:
        """Raise if a model with new classes would have too many. Only one thread writes, so there is no race."""
        if self._labels is None:
            yield
            return
        labels_after, most = self._labels | {*labels}, self._settings.classes
        if len(labels_after) > most:
            raise InvalidInputError(
                f"y: this model may have at most {most:,} classes, these rows would make it {len(labels_after):,}"
            )
        yield
        self._labels = labels_after

    def _keep(self, asked: LearnerRequest) -> Work:
        def work(journal: Journal) -> dict[str, Any]:
            batch, _, scores = unpack([asked.data])
            journal.keep(asked.ids, batch, np.array(scores))
            return {"kept": len(asked.ids)}

        return work

    def _label(self, asked: LearnerRequest) -> Work:
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
        journal, learning, published = self._committer.journal, self._learning, self._learning.status
        return (
            published
            | {
                "learns": True,
                "caught_up": published["version"] >= self._began,
                "queue": len(self._committer),
                "lag": max(journal.newest - published["version"], 0),  # at the same moment as the rows
                "unsaved": learning.run.unsaved,
                "checkpoint_age": learning.run.checkpoint_age,
                "challengers": learning.challengers,
                "waiting": len(journal.waiting),
                "labels": dict(journal.waiting.counts),
                "trouble": self._committer.trouble or learning.trouble or learning.run.trouble or learning.mishap,
                "failure": self.failure,
                "learning": self.failure is None,
            }
            | ({} if self._feed is None else {"source": self._feed.status()})
        )

    def look(self, since: int) -> dict[str, Any]:
        """Return the data of the dashboard, with the samples after the given number."""
        report = {"status": self.status() | {"oldest": self._oldest()}, **self.rivals()}
        return report | self._learning.sampler.data(since)

    def rivals(self) -> dict[str, Any]:
        """Return the saved versions and the challengers."""
        return {"versions": self._changes.versions.listed(), "challengers": self._learning.challengers}

    def quarantine(self) -> dict[str, Any]:
        """Return the rows that could not be learned, the newest first."""
        rows = [row._asdict() for row in self._reader.quarantined()]
        return {"count": self._learning.refused, "rows": rows}

    @property
    def failure(self) -> str | None:
        """The reason why the model does not learn."""
        return self._learning.failure or (self._committer.trouble if self._committer.journal.is_gone else None)

    def _oldest(self) -> float | None:
        """Return how many seconds the oldest row has waited for its label."""
        since = self._reader.waiting_since()
        return None if since is None else max(time.time() - since, 0.0)

    def _lag(self) -> int:
        """Return the number of entries that are not learned yet."""
        return max(self._committer.journal.newest - self._learning.done, 0)

    def close(self) -> None:
        """Stop with a checkpoint."""
        if self._feed is not None:
            self._feed.close()
        self._learning.close()
        self._reader.close()
        self._committer.close()

    def unpublish(self) -> None:
        """Stop predicting."""
        self._learning.publisher.close()


def _answer(outcome: Any) -> Answer:
    if isinstance(outcome, JournalError):
        return 503, {"error": f"{outcome}. Nothing was learned; try again later"}
    if isinstance(outcome, ThinstreamError):
        status = 404 if isinstance(outcome, NoVersion) else 409 if isinstance(outcome, ReplacedRowError) else 422
        return status, {"error": str(outcome)}
    if isinstance(outcome, BaseException):
        return 500, {"error": f"the request failed: {type(outcome).__name__}"}
    return 200, outcome


class Learner:
    """All loaded models of a server."""

    def __init__(self, paths: ServerPaths, settings: Settings) -> None:
        self._paths, self._settings = paths, settings
        self.workers: dict[str, ModelWorker] = {}
        self._changing = threading.Lock()
        self._closing = False

    def load(self, name: str) -> Answer:
        """Load a model with all that it has learned, if it is not loaded."""
        if name not in self._paths.names():
            return 404, {"error": f"there is no model {name!r}"}
        with self._changing:
            try:
                if name not in self.workers:
                    self.workers[name] = ModelWorker(name, self._paths, self._settings)
            except ThinstreamError as error:
                message = str(error).replace(f"{self._paths.data}{os.sep}", "")  # clients must not see paths
                return 422, {"error": f"{name!r} cannot be loaded: {message}"}
        return 200, {}

    def unload(self, name: str) -> Answer:
        """Unload a model. All its files stay on disk."""
        with self._changing:
            worker = self.workers.pop(name, None)
            if worker is not None:
                worker.unload()
        return 200, {}

    def close(self) -> None:
        """Write checkpoints of all models. Requests that come meanwhile are refused."""
        self._closing = True
        with self._changing:
            for worker in self.workers.values():
                worker.close()

    def ask(self, asked: LearnerRequest, send: Callable[[Answer], None]) -> None:
        """Handle a request, and call ``send`` with the reply, now or later, from any thread."""
        if self._closing:
            send((503, {"error": "the learner is stopping; try again in a second"}))
        elif asked.what == "status":
            send((200, {name: worker.status() for name, worker in self.workers.items()}))
        elif asked.what == "look":
            since = from_json(asked.data)
            send((200, {name: worker.look(since.get(name, -1)) for name, worker in self.workers.items()}))
        elif asked.what in ("load", "unload"):  # slow: other requests are handled meanwhile
            change = self.load if asked.what == "load" else self.unload
            _in_thread(lambda: send(change(asked.model)), send)
        elif (worker := self.workers.get(asked.model)) is None:
            send((404, {"error": f"the model {asked.model!r} is not loaded"}))
        elif asked.what == "rivals":
            send((200, worker.rivals()))
        elif asked.what == "quarantine":
            send((200, worker.quarantine()))
        elif asked.what == "change":  # may compile: other requests are handled meanwhile
            _in_thread(lambda: worker.ask(asked, send), send)
        else:
            worker.ask(asked, send)


def _in_thread(work: Callable[[], None], send: Callable[[Answer], None]) -> None:
    """Run ``work`` in a thread. If it fails, the client still gets a reply."""

    def run() -> None:
        try:
            work()
        except Exception as error:
            log("a request failed", ERROR, error=error)
            send((500, {"error": "the request failed and changed nothing"}))

    threading.Thread(target=run, daemon=True).start()


class LearnerConnection(asyncio.Protocol):
    """A connection of a predictor."""

    def __init__(self, learner: Learner, loop: asyncio.AbstractEventLoop) -> None:
        self._learner, self._loop, self._frames = learner, loop, Frames(LearnerRequest)
        self._out: list[bytes] = []
        self._lock = threading.Lock()
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for asked in self._frames.take(data):
            self._learner.ask(asked, partial(self._send, asked.number))

    def _send(self, number: int, answer: Answer) -> None:
        """Queue a reply. The replies of one transaction are sent together."""
        with self._lock:
            self._out.append(framed(LinkReply(number, *answer)))
            if len(self._out) > 1:
                return
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        with self._lock:
            out, self._out = self._out, []
        if not self._transport.is_closing():
            self._transport.write(b"".join(out))


async def learn(paths: ServerPaths, settings: Settings, names: list[str], ended: asyncio.Event) -> bool:
    """Serve until the event is set, then write checkpoints; return whether all models could learn to the end."""
    loop = asyncio.get_running_loop()
    learner = Learner(paths, settings)
    server: asyncio.Server | None = None
    for name in names:
        status, answer = learner.load(name)
        if status != 200:
            raise InvalidInputError(answer["error"])
    if _is_orphan():  # the supervisor ended while models were loading
        ended.set()
    else:
        server = await loop.create_unix_server(lambda: LearnerConnection(learner, loop), str(paths.socket))
    try:
        await ended.wait()
    finally:
        if server is not None:
            server.close()
        await asyncio.to_thread(learner.close)
        paths.socket.unlink(missing_ok=True)
    return all(worker.failure is None for worker in learner.workers.values())


async def _main(paths: ServerPaths, settings: Settings, names: list[str]) -> bool:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    loop.add_reader(sys.stdin.fileno(), ended.set)  # closed when the supervisor ends
    return await learn(paths, settings, names, ended)


def run(paths: ServerPaths, settings: Settings, names: list[str]) -> bool:
    """Run the learner; return whether all models could learn to the end.

    It waits for an older learner that is about to end. If the supervisor has ended by then, this process also ends.
    Otherwise a server that is killed again and again would wait for the learners of all servers before it.
    """
    with locked(paths.learning):
        if _is_orphan():
            return True
        paths.socket.unlink(missing_ok=True)
        with asyncio.Runner(loop_factory=fast_loop) as runner:
            return runner.run(_main(paths, settings, names))


def _is_orphan() -> bool:
    """Return whether the supervisor has ended, which closes standard input."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(ready)


def fast_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop of uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
