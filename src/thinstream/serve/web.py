"""Requests and replies as handlers have them, and everything of Starlette that the server needs."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

__all__ = [
    "ClientDisconnect", "PlainTextResponse", "Reply", "Request", "Response", "Route", "Starlette", "StreamingResponse",
    "is_whole_number",
]  # fmt: skip

JSON = "application/json"


class Request:
    """A request as ASGI has it; what nobody looks at is not decoded."""

    __slots__ = ("_headers", "receive", "scope")

    def __init__(self, scope: Any, receive: Any) -> None:
        self.scope, self.receive = scope, receive
        self._headers: dict[str, str] | None = None

    @property
    def method(self) -> str:
        """GET, POST and so on."""
        found: str = self.scope["method"]
        return found

    @property
    def path(self) -> str:
        """Without the query."""
        found: str = self.scope["path"]
        return found

    @property
    def path_params(self) -> dict[str, str]:
        """What stands in the places of the route's names."""
        found: dict[str, str] = self.scope["path_params"]
        return found

    @property
    def query_params(self) -> Mapping[str, str]:
        """By name, the last of several."""
        return _query(self.scope["query_string"])

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in small letters."""
        if self._headers is None:
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.scope["headers"]}
        return self._headers

    @property
    def host(self) -> str | None:
        """Who asks, if that is known."""
        client = self.scope.get("client")
        return None if client is None else client[0]


def is_whole_number(text: str) -> bool:
    """Return whether a text is a whole number of at most 18 ASCII digits: other digits, and longer ones, break `int`.

    >>> [is_whole_number(text) for text in ("17", "", "-1", "²", "1" * 5000)]
    [True, False, False, False, False]
    """
    return len(text) <= 18 and text.isascii() and text.isdigit()


@lru_cache(256)
def _query(raw: bytes) -> Mapping[str, str]:
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))


class Reply(NamedTuple):
    """What goes out, in one piece."""

    raw: bytes
    kind: str = JSON
    status_code: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Sends it, as ASGI has it."""
        headers = [(b"content-type", self.kind.encode()), (b"content-length", b"%d" % len(self.raw))]
        for name, value in self.headers:
            headers.append((name.encode(), value.encode()))
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.raw})
