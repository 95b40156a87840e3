"""A load test: send lines of files as requests, at a given rate, and measure the latency."""

import json
import secrets
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import numpy as np

from thinstream.errors import InvalidInputError, InvalidParameterError

#: Retries of a request that the server could not handle yet.
AGAIN = 100
#: Statuses that end the test: the token is missing, unknown or lacks the scope.
FINAL = (401, 403)


class Failure(NamedTuple):
    """A request that was refused or not answered."""

    number: int  # of the request
    status: int  # 0: no reply
    reason: str


class Outcome(NamedTuple):
    """The result of a load test."""

    seconds: float
    latencies: list[float]  # seconds from the scheduled time to the reply
    statuses: Counter[int]  # of the last replies; 0: no reply
    rows: int  # acknowledged
    again: int  # retries
    first: Failure | None = None  # the failed request that was scheduled first

    def as_dict(self) -> dict[str, Any]:
        """Return names and numbers for JSON, with latencies in milliseconds."""
        shares = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "most": 100.0}
        quantiles = np.percentile(self.latencies, [*shares.values()]) if self.latencies else [0.0] * len(shares)
        return {
            "seconds": round(self.seconds, 3),
            "requests": sum(self.statuses.values()),
            "requests_per_second": round(sum(self.statuses.values()) / max(self.seconds, 1e-9), 1),
            "rows_acknowledged": self.rows,
            "sent_again": self.again,
            "first_error": None if self.first is None else self.first.reason,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "milliseconds": {name: round(1e3 * float(value), 3) for name, value in zip(shares, quantiles, strict=True)},
        }


class Load:
    """Send requests at their scheduled times, on several connections.

    Latency counts from the scheduled time, so a slow server also delays the requests behind a slow one.

    ``path`` is "/learn" or "/predict". ``rate`` is in requests per second; None: as fast as replies come.
    """

    def __init__(
        self,
        url: str,
        path: str = "/learn",
        model: str | None = None,
        token: str | None = None,
        connections: int = 8,
        rate: float | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidParameterError(f"URL must be http://HOST:PORT or https://HOST:PORT, got {url!r}")
        self._host, self._secure = parts.hostname, parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        where = f"{parts.path.rstrip('/')}{path}" + (f"?model={quote(model)}" if model else "")
        head = [f"POST {where} HTTP/1.1", f"Host: {parts.netloc}", "Content-Type: text/plain"]
        self._head = "\r\n".join(head + ([f"Authorization: Bearer {token}"] if token else [])).encode()
        self._learns, self._connections, self._rate = path == "/learn", connections, rate
        self._lock, self._over, self._answered = threading.Lock(), threading.Event(), False

    def run(self, requests: Iterable[list[bytes]]) -> Outcome:
        source, began = enumerate(requests), time.perf_counter()
        total = Outcome(0.0, [], Counter(), 0, 0)
        failures: list[BaseException] = []

        def send() -> None:
            nonlocal total
            try:
                outcome = self._send(source, began)
            except BaseException as error:
                failures.append(error)
                return
            with self._lock:
                total = Outcome(
                    0.0, total.latencies + outcome.latencies, total.statuses + outcome.statuses,
                    total.rows + outcome.rows, total.again + outcome.again,
                    min(filter(None, (total.first, outcome.first)), default=None),
                )  # fmt: skip

        threads = [threading.Thread(target=send) for _ in range(self._connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return total._replace(seconds=time.perf_counter() - began)

    def _send(self, source: Iterator[tuple[int, list[bytes]]], began: float) -> Outcome:
        latencies, statuses, rows, again = list[float](), Counter[int](), 0, 0
        first: Failure | None = None
        connection = _Connection(self._host, self._port, self._secure)
        while True:
            with self._lock:
                item = None if self._over.is_set() else next(source, None)
            if item is None:
                connection.close()
                return Outcome(0.0, latencies, statuses, rows, again, first)
            number, lines = item
            due = time.perf_counter()
            if self._rate is not None:
                due = began + number / self._rate
                time.sleep(max(due - time.perf_counter(), 0.0))
            message = self._message(b"\n".join(lines))
            for _ in range(AGAIN):
                status, body = connection.ask(message)
                if status not in (0, 429, 503):
                    break
                again += 1
                time.sleep(0.05)
            latencies.append(time.perf_counter() - due)
            statuses[status] += 1
            self._answered = self._answered or status != 0
            if status == 200:
                rows += len(lines)
                continue
            first = first or Failure(number, status, _reason(body))
            if status in FINAL or not (status or self._answered):
                self._over.set()

    def _message(self, body: bytes) -> bytes:
        name = b"\r\nIdempotency-Key: " + secrets.token_hex(16).encode() if self._learns else b""
        return self._head + name + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class _Connection:
    """A connection that reconnects after it was lost."""

    def __init__(self, host: str, port: int, secure: bool) -> None:
        self._address, self._secure = (host, port), secure
        self._socket: socket.socket | None = None

    def ask(self, message: bytes) -> tuple[int, bytes]:
        """Return the status and the body of a reply; 0 and the reason if there was none."""
        try:
            if self._socket is None:
                self._socket = socket.create_connection(self._address, timeout=30.0)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._secure:
                    self._socket = ssl.create_default_context().wrap_socket(
                        self._socket, server_hostname=self._address[0]
                    )
            self._socket.sendall(message)
            return self._answer(self._socket)
        except (OSError, ValueError, IndexError) as error:
            self.close()
            return 0, f"{self._address[0]}:{self._address[1]} cannot be reached: {error}".encode()

    def _answer(self, connection: socket.socket) -> tuple[int, bytes]:
        held = b""
        while b"\r\n\r\n" not in held:
            piece = connection.recv(1 << 16)
            if not piece:
                raise OSError("the connection was closed")
            held += piece
        head, _, body = held.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        size = next(int(line.split(b":")[1]) for line in lines[1:] if line.lower().startswith(b"content-length:"))
        while len(body) < size:
            piece = connection.recv(1 << 16)
            if not piece:
                raise OSError("the connection was closed")
            body += piece
        return int(lines[0].split()[1]), body

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def batched(lines: Iterable[bytes], size: int) -> Iterator[list[bytes]]:
    source = iter(lines)
    while batch := list(islice(source, size)):
        yield batch


def _reason(body: bytes) -> str:
    """Return the message of an error reply, in JSON or not."""
    text = body.decode("utf-8", "replace")
    try:
        answer = json.loads(text)
    except ValueError:
        return text[:200]
    return str(answer.get("error", text) if isinstance(answer, dict) else text)[:1000]


def require_some(outcome: Outcome) -> Outcome:
    """Return the result, or raise if no request was answered."""
    if {*outcome.statuses} <= {0}:
        reason = "" if outcome.first is None else f": {outcome.first.reason}"
        raise InvalidInputError(f"no request was answered{reason}. Check that a server runs at this address")
    return outcome
