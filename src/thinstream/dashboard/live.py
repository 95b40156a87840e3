"""The page of a run, on this machine, for as long as the run goes: ``thinstream train … --live``."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from thinstream.dashboard.following import Following
from thinstream.dashboard.page import HEADERS, PATHS, asset
from thinstream.errors import InvalidParameterError

#: Seconds between two events, and what pages have to hear the last one.
EVERY, LAST = 1.0, 1.0
#: What a browser on this machine calls it: a page of elsewhere that has got hold of the address calls it otherwise.
_NAMES = ("127.0.0.1", "localhost")


class LivePage:
    """Serves the page on 127.0.0.1, on threads that take next to nothing while nobody looks.

    Parameters
    ----------
    followed : Following
    port : int, default=0
        0: any that is free.

    """

    def __init__(self, followed: Following, port: int = 0) -> None:
        self._followed = followed
        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        except OSError as error:
            raise InvalidParameterError(f"127.0.0.1:{port} cannot be listened on: {error.strerror}") from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="live page", daemon=True)
        self._listening = 0
        self._thread.start()

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def close(self) -> None:
        """Tells pages that the run is over, and ends."""
        until = time.monotonic() + LAST + EVERY
        while self._listening and time.monotonic() < until:
            time.sleep(0.02)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            """One request."""

            def do_GET(self) -> None:
                """A file of the page, or its events."""
                host = (self.headers.get("Host") or "").rpartition(":")[0]
                if host not in _NAMES:
                    self.send_error(403, "this is for pages of this machine")
                elif self.path in PATHS:
                    found = asset(self.path)
                    self._begin(found.kind, HEADERS | {"Content-Length": str(len(found.content))})
                    self.wfile.write(found.content)
                elif self.path == "/events":
                    self._begin("text/event-stream", {"Cache-Control": "no-store"})
                    page.tell(self.wfile)
                else:
                    self.send_error(404)

            def _begin(self, kind: str, headers: dict[str, str]) -> None:
                self.send_response(200)
                for name, value in {"Content-Type": kind, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 (the base's word)
                """Nothing: the terminal is the run's."""

        return Handler

    def tell(self, file: Any) -> None:
        """Events, until the run is over or nobody reads them."""
        since, kind = -1, "full"
        self._listening += 1
        try:
            while kind != "over":
                over = self._followed.over
                told = self._followed.told(since)
                kind = "over" if over else kind
                file.write(f"event: {kind}\ndata: {json.dumps(told, allow_nan=False)}\n\n".encode())
                file.flush()
                for model in told["models"].values():
                    since = model["samples"][-1]["number"] if model["samples"] else since
                kind, until = kind if over else "more", time.monotonic() + EVERY
                while not over and not self._followed.over and time.monotonic() < until:
                    time.sleep(0.05)
        except OSError:  # the page was closed
            return
        finally:
            self._listening -= 1
