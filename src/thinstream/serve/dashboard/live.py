"""The dashboard of a training run on this machine (``thinstream train --live``)."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from thinstream._version import __version__
from thinstream.errors import InvalidParameterError
from thinstream.files import replacing
from thinstream.serve.dashboard import HEADERS, PATHS, DashboardSampler, asset, standalone
from thinstream.training.observer import Line, Observer, Step


class RunSampler(Observer):
    """Samples a run for the dashboard, and passes on all events to another observer."""

    def __init__(self, other: Observer, name: str) -> None:
        self._other, self._name, self._sampler = other, name, DashboardSampler()
        self.lines = other.lines
        self._status: dict[str, Any] = {}
        self.run: Any = None  # the sampled run
        self.over = False

    def started(self, run: Any) -> None:
        learner = run.state.model.learner
        if learner.reads != "once":
            raise InvalidParameterError(
                f"{learner.algorithm.name} needs all rows before it learns, so it has nothing to show "
                f"for --live and --report"
            )
        self.run = run
        self._other.started(run)
        self.lines = self._other.lines

    def begin(self) -> None:
        self._other.begin()
        self.sample()

    def line(self, line: Line) -> None:
        self._other.line(line)

    def changed(self, monitor: str, row: int, since: int) -> None:
        """Pass it on; the page reads drift from the run."""
        self._other.changed(monitor, row, since)

    def moved(self, step: Step) -> None:
        self._other.moved(step)
        if self._sampler.due(step.rows):
            self.sample()

    def on_message(self, text: str) -> None:
        self._other.on_message(text)

    def split(self, passes: int, needed: int, limit: int) -> None:
        self._other.split(passes, needed, limit)

    def placed(self, device: str, lanes: int) -> None:
        self._other.placed(device, lanes)

    def wants_nnz(self, n_features: int) -> bool:
        return self._other.wants_nnz(n_features)

    def sample(self) -> None:
        state, report, nnz = self.run.state, self.run.report(), int(self.run.state.model.learner.nnz)
        self._sampler.sample(state.model, state.progress, self.run.drift, report, nnz, self.run.stream.names)
        self._status = {
            "rows": state.progress.rows,
            "nnz": nnz,
            "features": int(state.model.learner.n_features),
            "drift": None if self.run.drift is None else len(self.run.drift.detections),
            "skipped": self.run.skipped,
            "progressive": report or {},
        }

    def close(self) -> None:
        """Take a last sample after the run, whether or not it succeeded."""
        self._other.close()
        if self._status:
            self.sample()
        self.over = True

    def data(self, since: int = -1) -> dict[str, Any]:
        """Return the data for the page, with the samples after the given number."""
        model = {"status": self._status, **self._sampler.data(since)}
        return {"time": time.time(), "version": __version__, "over": self.over, "models": {self._name: model}}

    def write_report(self, path: str | os.PathLike[str], title: str) -> None:
        """Write the page as one file that needs nothing else. The file is replaced atomically."""
        data = self.data()
        samples = data["models"][self._name]["samples"]
        ticks = [{"time": sample["time"], "rows": sample["rows"], "lag": 0, "waiting": 0} for sample in samples]
        with replacing(Path(path)) as new:
            new.write_text(standalone(data | {"ticks": ticks[:-1]}, title), encoding="utf-8")


#: Seconds between two events, and seconds that pages have to receive the last one.
EVERY, LAST = 1.0, 1.0
#: Accepted host names: other pages that resolve to this address (DNS rebinding) have another name.
_NAMES = ("127.0.0.1", "localhost")


class LivePage:
    """Serves the page on 127.0.0.1, in threads that cost next to nothing while no page is open."""

    def __init__(self, followed: RunSampler, port: int = 0) -> None:
        self._followed = followed
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        except OSError as error:
            raise InvalidParameterError(
                f"cannot listen on 127.0.0.1:{port}: {error.strerror}. Choose another port"
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="live page", daemon=True)
        self._listening = 0
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def close(self) -> None:
        """Send the end of the run to open pages, and stop."""
        until = time.monotonic() + LAST + EVERY
        while self._listening and time.monotonic() < until:
            time.sleep(0.02)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                host = (self.headers.get("Host") or "").rpartition(":")[0]
                if host not in _NAMES:
                    self.send_error(403, "only pages of this machine may read this")
                elif self.path in PATHS:
                    file = asset(self.path)
                    self._begin(file.content_type, HEADERS | {"Content-Length": str(len(file.content))})
                    self.wfile.write(file.content)
                elif self.path == "/events":
                    self._begin("text/event-stream", {"Cache-Control": "no-store"})
                    page.tell(self.wfile)
                else:
                    self.send_error(404)

            def _begin(self, content_type: str, headers: dict[str, str]) -> None:
                self.send_response(200)
                for name, value in {"Content-Type": content_type, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 (the base's word)
                """Log nothing: the terminal shows the run."""

        return Handler

    def tell(self, file: Any) -> None:
        """Send events until the run is over or the page is closed."""
        since, event = -1, "full"
        self._listening += 1
        try:
            while event != "over":
                over = self._followed.over
                data = self._followed.data(since)
                event = "over" if over else event
                file.write(f"event: {event}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode())
                file.flush()
                for model in data["models"].values():
                    since = model["samples"][-1]["number"] if model["samples"] else since
                event, until = event if over else "more", time.monotonic() + EVERY
                while not over and not self._followed.over and time.monotonic() < until:
                    time.sleep(0.05)
        except OSError:  # the page was closed
            return
        finally:
            self._listening -= 1
