"""A client of ``thinstream serve``: requests that are sent again until they are answered, and learned once."""

import asyncio
import http.client
import json
import secrets
import ssl
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from thinstream.errors import InvalidParameterError, ThinstreamError

#: Statuses that mean: later.
_LATER = (429, 502, 503, 504)


class ServerError(ThinstreamError):
    """A server's refusal, or that it cannot be reached; ``status`` is 0 then."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message if not status else f"{message} ({status})")
        self.status = status


class Client:
    """Predicts and teaches models of a server; for one thread.

    A request that is not answered, or is put off (429, 503), is sent again for a while, with the same id: it is learned
    once, however often it arrives.

    Parameters
    ----------
    url : str
        Of the server, "http://127.0.0.1:8000".
    model : str or None
        Its model; None: the only one it has.
    token : str or None
    patience : float, default=30
        Seconds that a request is tried again.
    timeout : float, default=10
        Seconds that an answer may take.
    context : ssl.SSLContext or None
        For https with certificates of your own.

    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        token: str | None = None,
        patience: float = 30.0,
        timeout: float = 10.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidParameterError(f"url must be http://HOST:PORT or https://HOST:PORT, got {url!r}")
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._base, self.model, self._context = parts.path.rstrip("/"), model, context
        self._patience, self._timeout = patience, timeout
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._connection: http.client.HTTPConnection | None = None

    def predict(self, x: Any, id: Any = None) -> dict[str, Any]:  # noqa: A002 (the request's word)
        """Labels and scores of a row or a list of rows; with ids the rows wait for their labels."""
        return self._post("/predict", {"x": x} | ({} if id is None else {"id": id}))

    def learn(self, x: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:
        """Teaches rows; when this returns they are on the server's disk."""
        body = {"x": x, "y": y} | ({} if weight is None else {"weight": weight})
        return self._post("/learn", body | {"request": request or secrets.token_hex(16)})

    def label(self, id: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Labels of rows that were predicted with ids."""
        body = {"id": id, "y": y} | ({} if weight is None else {"weight": weight})
        return self._post("/label", body | {"request": request or secrets.token_hex(16)})

    def learn_all(self, rows: Iterable[tuple[Any, Any]], batch: int = 256) -> int:
        """Teaches (row, label) pairs, so many in a request; how many were learned."""
        return sum(self.learn(*each)["rows"] for each in _batches(rows, batch))

    def status(self) -> dict[str, Any]:
        """What the server says of the model."""
        return self._answer("GET", f"/v2/models/{quote(self.model or '', safe='')}", b"")

    def models(self) -> list[dict[str, Any]]:
        """All models of the server, loaded or not."""
        found: Any = self._answer("POST", "/v2/repository/index", b"{}")
        return list(found)

    def versions(self, model: str) -> dict[str, Any]:
        """The versions of a model that are kept, the newest first, and the one that answers."""
        return self._answer("GET", _of(model, "versions"), b"")

    def version(self, model: str, version: Any) -> dict[str, Any]:
        """What is known of a version."""
        kept = {str(each["version"]): each for each in self.versions(model)["versions"]}
        return self._answer("GET", _of(model, "versions", version), b"") | {"about": kept.get(str(version), {})}

    def compare(self, model: str, one: Any, other: Any = "now") -> dict[str, Any]:
        """Two versions of a model, weight by weight."""
        return self._answer("GET", _of(model, "versions", one, "compare", other), b"")

    def keep_version(self, model: str) -> dict[str, Any]:
        """The model of now is kept as a version."""
        return self._change("POST", _of(model, "versions"))

    def rollback(self, model: str, version: Any) -> dict[str, Any]:
        """The model goes back to a version, and learns on from it; what it was is kept."""
        return self._change("POST", _of(model, "versions", version, "rollback"))

    def challengers(self, model: str) -> dict[str, Any]:
        """How the challengers of a model do, and how it does on the same rows."""
        return self._answer("GET", _of(model, "challengers"), b"")

    def challenge(
        self, model: str, name: str, rival: str | bytes, parameters: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A model learns along and does not answer: the bytes of its file, or a fresh one of an algorithm."""
        if isinstance(rival, bytes):
            return self._change("POST", _of(model, "challengers", name), rival, "application/octet-stream")
        body = json.dumps({"algorithm": rival, "parameters": parameters or {}}).encode()
        return self._change("POST", _of(model, "challengers", name), body)

    def promote(self, model: str, name: str) -> dict[str, Any]:
        """A challenger answers from now on; what answered until now is kept as a version."""
        return self._change("POST", _of(model, "challengers", name, "promote"))

    def withdraw(self, model: str, name: str) -> dict[str, Any]:
        """A challenger learns no more."""
        return self._change("DELETE", _of(model, "challengers", name))

    def _change(self, method: str, path: str, body: bytes = b"{}", kind: str = "application/json") -> dict[str, Any]:
        """Sent again until it is answered, it happens once."""
        headers = {"Idempotency-Key": secrets.token_hex(16), "Content-Type": kind}
        return self._answer(method, path, body, headers)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.model is not None:
            body["model"] = self.model
        return self._answer("POST", path, json.dumps(body).encode())

    def _answer(self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                status, found, retry = self._once(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.close()
                status, found, retry = 0, {"error": f"{self._host}:{self._port} cannot be reached: {error}"}, 0.0
            if status == 200:
                return found
            if status not in (0, *_LATER) or time.monotonic() + pause > until:
                raise ServerError(status, str(found.get("error") if isinstance(found, dict) else "the server refused"))
            time.sleep(max(pause, min(retry, 1.0)))
            pause = min(2 * pause, 1.0)

    def _once(self, method: str, path: str, body: bytes, more: dict[str, str]) -> tuple[int, dict[str, Any], float]:
        if self._connection is None:
            if self._secure:
                self._connection = http.client.HTTPSConnection(
                    self._host, self._port, timeout=self._timeout, context=self._context
                )
            else:
                self._connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        headers = {"Content-Type": "application/json", **self._headers, **more}
        self._connection.request(method, self._base + path, body, headers)
        answer = self._connection.getresponse()
        raw, retry = answer.read(), answer.getheader("Retry-After") or "0"
        try:
            found = json.loads(raw)
        except ValueError:
            found = {"error": "the answer is no JSON"}
        return answer.status, found, float(retry) if retry.isascii() and retry.isdigit() else 0.0

    def close(self) -> None:
        """Ends the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _of(model: str, *rest: Any) -> str:
    """The address of something of a model."""
    return "/".join(["/v2/models", *(quote(str(each), safe="") for each in (model, *rest))])


class AsyncClient:
    """The same for asyncio: so many requests at a time, each on a connection of its own.

    Parameters
    ----------
    url, model, **options
        Those of `Client`.
    connections : int, default=8
        Requests at a time.

    """

    def __init__(self, url: str, model: str | None = None, *, connections: int = 8, **options: Any) -> None:
        self._clients: asyncio.Queue[Client] = asyncio.Queue()
        for _ in range(connections):
            self._clients.put_nowait(Client(url, model, **options))
        self._many = connections

    async def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        client = await self._clients.get()
        try:
            return await asyncio.to_thread(getattr(client, name), *arguments, **named)
        finally:
            self._clients.put_nowait(client)

    async def predict(self, x: Any, id: Any = None) -> dict[str, Any]:  # noqa: A002 (the request's word)
        """Labels and scores of a row or a list of rows; with ids the rows wait for their labels."""
        found: dict[str, Any] = await self._call("predict", x, id)
        return found

    async def learn(self, x: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:
        """Teaches rows; when this returns they are on the server's disk."""
        found: dict[str, Any] = await self._call("learn", x, y, weight, request=request)
        return found

    async def label(self, id: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Labels of rows that were predicted with ids."""
        found: dict[str, Any] = await self._call("label", id, y, weight, request=request)
        return found

    async def close(self) -> None:
        """Ends all connections, when what runs on them is over."""
        for _ in range(self._many):
            (await self._clients.get()).close()


def _batches(rows: Iterable[tuple[Any, Any]], size: int) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    source = iter(rows)
    while piece := list(islice(source, size)):
        yield [x for x, _ in piece], [y for _, y in piece]
