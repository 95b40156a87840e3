"""A client of ``thinstream serve``, which repeats requests until they get a reply. Rows are still learned only once."""

import asyncio
import http.client
import json
import random
import secrets
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlsplit

from thinstream.errors import InvalidParameterError, ThinstreamError

#: Statuses after which a request is repeated.
_LATER = (429, 502, 503, 504)


class ServerError(ThinstreamError):
    """A request failed. ``status`` is the HTTP status, or 0 if the server cannot be reached."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message if not status else f"{message} ({status})")
        self.status = status


class Client:
    """Sends requests to models of a server. Any number of threads may share one client.

    A request that gets no reply, or the status 429, 502, 503 or 504, is repeated until ``patience`` ends. Requests that
    change a model carry an idempotency key, so they are learned only once, however often they arrive.

    Parameters
    ----------
    url : str
        The server, such as "http://127.0.0.1:8000".
    model : str or None
        The model. None: the only model of the server.
    token : str or None
        The token, if the server needs one.
    patience : float, default=30
        Seconds until a request fails, including all repetitions.
    timeout : float, default=10
        Seconds that each attempt may take.
    connections : int, default=32
        Open connections that the client keeps for later requests.
    context : ssl.SSLContext or None
        For https with your own certificates.

    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        token: str | None = None,
        patience: float = 30.0,
        timeout: float = 10.0,
        connections: int = 32,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidParameterError(f"url must be http://HOST:PORT or https://HOST:PORT, got {url!r}")
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._base, self.model, self._context = parts.path.rstrip("/"), model, context
        self._patience, self._timeout, self._connections = patience, timeout, connections
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._idle = deque[http.client.HTTPConnection]()  # its operations are atomic

    def predict(self, x: Any, id: Any = None, *, explain: bool = False) -> dict[str, Any]:  # noqa: A002 (as in requests)
        """Return labels and scores of a row or a list of rows. With ids, the rows wait for their labels.

        Parameters
        ----------
        x : row or list of rows
            A row is a dict of features, a line of text or a list of numbers.
        id : int, str, list or None
            An id for each row. Use `label` to send their labels later.
        explain : bool
            Also return the contributions of features to the scores.

        Examples
        --------
        With a running server::

            client = Client("http://127.0.0.1:8000", "mail")
            client.predict({"size": 3, "sender": "ann"})["label"]

        """
        more = ({} if id is None else {"id": id}) | ({"explain": True} if explain else {})
        return self._post("/predict", {"x": x} | more)

    def learn(self, x: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:
        """Learn rows with labels. When this returns, they are on the server's disk."""
        body = {"x": x, "y": y} | ({} if weight is None else {"weight": weight})
        return self._post("/learn", body | {"request": request or secrets.token_hex(16)})

    def label(self, id: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Send the labels of rows that were predicted with ids. The server learns these rows."""
        body = {"id": id, "y": y} | ({} if weight is None else {"weight": weight})
        return self._post("/label", body | {"request": request or secrets.token_hex(16)})

    def learn_all(self, rows: Iterable[tuple[Any, Any]], batch: int = 256) -> int:
        """Learn pairs (row, label), ``batch`` per request; return the number of learned rows."""
        return sum(self.learn(*pair)["rows"] for pair in _batches(rows, batch))

    def status(self) -> dict[str, Any]:
        """Return the description of the model."""
        return self._answer("GET", f"/v2/models/{quote(self.model or '', safe='')}", b"")

    def models(self) -> list[dict[str, Any]]:
        """List all models of the server, loaded or not."""
        models: Any = self._answer("POST", "/v2/repository/index", b"{}")
        return list(models)

    def versions(self, model: str) -> dict[str, Any]:
        """List the saved versions of a model, the newest first, and the version that predicts."""
        return self._answer("GET", _of(model, "versions"), b"")

    def version(self, model: str, version: Any) -> dict[str, Any]:
        """Describe a version."""
        by_number = {str(record["version"]): record for record in self.versions(model)["versions"]}
        return self._answer("GET", _of(model, "versions", version), b"") | {"about": by_number.get(str(version), {})}

    def compare(self, model: str, one: Any, other: Any = "now") -> dict[str, Any]:
        """Compare two versions of a model, weight by weight."""
        return self._answer("GET", _of(model, "versions", one, "compare", other), b"")

    def keep_version(self, model: str) -> dict[str, Any]:
        """Save the current model as a version."""
        return self._change("POST", _of(model, "versions"))

    def rollback(self, model: str, version: Any) -> dict[str, Any]:
        """Roll the model back to a version and learn from there. The current model is saved as a version."""
        return self._change("POST", _of(model, "versions", version, "rollback"))

    def challengers(self, model: str) -> dict[str, Any]:
        """Return the progressive metrics of challengers, and of the model on the same rows."""
        return self._answer("GET", _of(model, "challengers"), b"")

    def challenge(
        self, model: str, name: str, rival: str | bytes, parameters: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Add a challenger, which learns but does not predict, from a model file's bytes or an algorithm's name."""
        if isinstance(rival, bytes):
            return self._change("POST", _of(model, "challengers", name), rival, "application/octet-stream")
        body = json.dumps({"algorithm": rival, "parameters": parameters or {}}).encode()
        return self._change("POST", _of(model, "challengers", name), body)

    def promote(self, model: str, name: str) -> dict[str, Any]:
        """Promote a challenger: it predicts from now on. The champion is saved as a version."""
        return self._change("POST", _of(model, "challengers", name, "promote"))

    def withdraw(self, model: str, name: str) -> dict[str, Any]:
        """Remove a challenger."""
        return self._change("DELETE", _of(model, "challengers", name))

    def _change(
        self, method: str, path: str, body: bytes = b"{}", content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send a request that takes effect only once, however often it is resent."""
        headers = {"Idempotency-Key": secrets.token_hex(16), "Content-Type": content_type}
        return self._answer(method, path, body, headers)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if self.model is not None:
            body["model"] = self.model
        return self._answer("POST", path, json.dumps(body).encode())

    def _answer(self, method: str, path: str, body: bytes, headers: dict[str, str] | None = None) -> dict[str, Any]:
        """Send a request until it gets a reply. All requests of this class may arrive more than once."""
        until, pause = time.monotonic() + self._patience, 0.05
        while True:
            try:
                status, answer, retry_after = self._once(method, path, body, headers or {}, until)
            except (OSError, http.client.HTTPException) as error:
                status, answer, retry_after = 0, {"error": f"{self._host}:{self._port} cannot be reached: {error}"}, 0.0
            if status == 200:
                return answer
            wait = max(pause, min(retry_after, 1.0)) * random.uniform(0.5, 1.0)  # otherwise many clients return at once
            if status not in (0, *_LATER) or time.monotonic() + wait > until:
                message = answer.get("error") if isinstance(answer, dict) else None
                raise ServerError(status, str(message or "the server refused the request"))
            time.sleep(wait)
            pause = min(2 * pause, 1.0)

    def _once(
        self, method: str, path: str, body: bytes, extra: dict[str, str], until: float
    ) -> tuple[int, dict[str, Any], float]:
        """Send a request on an idle connection, or on a new one if the server has closed that."""
        headers = {"Content-Type": "application/json", **self._headers, **extra}
        while True:
            try:
                connection, is_new = self._idle.pop(), False
            except IndexError:
                connection, is_new = self._connection(), True
            seconds = max(min(self._timeout, until - time.monotonic()), 0.01)
            connection.timeout = seconds
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            try:
                connection.request(method, self._base + path, body, headers)
                response = connection.getresponse()
                raw = response.read()
            except BaseException as error:
                connection.close()
                if isinstance(error, ConnectionError) and not is_new:
                    continue
                raise
            break
        if response.will_close or len(self._idle) >= self._connections:
            connection.close()
        else:
            self._idle.append(connection)
        retry_after = response.getheader("Retry-After") or "0"
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = {"error": "the reply is not JSON"}
        return response.status, answer, float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, context=self._context)
        return http.client.HTTPConnection(self._host, self._port)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _of(model: str, *rest: Any) -> str:
    """Return the path of something that belongs to a model."""
    return "/".join(["/v2/models", *(quote(str(part), safe="") for part in (model, *rest))])


class AsyncClient:
    """The client for asyncio.

    Parameters
    ----------
    url, model, **options
        As for `Client`.
    connections : int, default=8
        The most requests at a time.

    """

    def __init__(self, url: str, model: str | None = None, *, connections: int = 8, **options: Any) -> None:
        self._client = Client(url, model, connections=connections, **options)
        self._free = asyncio.Semaphore(connections)

    async def _call(self, method: Callable[..., dict[str, Any]], *arguments: Any, **named: Any) -> dict[str, Any]:
        async with self._free:
            return await asyncio.to_thread(method, *arguments, **named)

    async def predict(self, x: Any, id: Any = None, *, explain: bool = False) -> dict[str, Any]:  # noqa: A002
        """Return labels and scores of a row or a list of rows, see `Client.predict`."""
        return await self._call(self._client.predict, x, id, explain=explain)

    async def learn(self, x: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:
        """Learn rows with labels. When this returns, they are on the server's disk."""
        return await self._call(self._client.learn, x, y, weight, request=request)

    async def label(self, id: Any, y: Any, weight: Any = None, *, request: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Send the labels of rows that were predicted with ids. The server learns these rows."""
        return await self._call(self._client.label, id, y, weight, request=request)

    async def close(self) -> None:
        """Close the idle connections."""
        self._client.close()


def _batches(rows: Iterable[tuple[Any, Any]], size: int) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    source = iter(rows)
    while batch := list(islice(source, size)):
        yield [x for x, _ in batch], [y for _, y in batch]
