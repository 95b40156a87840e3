"""HTTP requests and replies, what all endpoints share, and the endpoints /predict, /learn and /label."""

import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, InvalidParameterError, NumericalError
from thinstream.serve import Limits
from thinstream.serve.authentication import Guard
from thinstream.serve.log import ERROR, INFO, WARNING, log
from thinstream.serve.metrics import Metrics
from thinstream.serve.request_rows import RowReader
from thinstream.serve.served_models import Served, ServedModels, answers, explanations, first_of
from thinstream.serve.shared_memory import Snapshot
from thinstream.serve.wire import (
    ClientDisconnect,
    Link,
    Raw,
    Refused,
    Struct,
    current_scope,
    fingerprint,
    from_json,
    is_whole_number,
    json_as,
    msgpack_as,
    pack,
    to_json,
    to_msgpack,
)
from thinstream.training.delayed_labels import Labelled

#: Other modules import Starlette's classes from here.
__all__ = [
    "Endpoint", "Reply", "Request", "RequestContext", "Route", "Starlette", "StreamingResponse", "read_body", "refusal",
    "routes",
]  # fmt: skip

JSON = "application/json"
#: The header with the id of a request in the log. A request without a valid id gets one.
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[\w.:/+=@-]{1,128}", re.ASCII)
_ids, _process = itertools.count(1), secrets.token_hex(6)


class Request:
    """An HTTP request. Headers and query are decoded on first use."""

    __slots__ = ("_headers", "id", "method", "model", "path", "receive", "rows", "scope")

    def __init__(self, scope: Any, receive: Any) -> None:
        self.scope, self.receive = scope, receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]  # without the query
        self._headers: dict[str, str] | None = None
        request_id = self.headers.get(REQUEST_ID)
        self.id = request_id if request_id and _ID.fullmatch(request_id) else f"{_process}-{next(_ids):x}"
        self.model: str | None = None  # for the log, like the number of rows
        self.rows: int | None = None

    @property
    def path_params(self) -> dict[str, str]:
        parameters: dict[str, str] = self.scope["path_params"]
        return parameters

    @property
    def query_params(self) -> Mapping[str, str]:
        """Query parameters by name. If a name occurs several times, the last one counts."""
        return _query(self.scope["query_string"])

    @property
    def headers(self) -> Mapping[str, str]:
        if self._headers is None:
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in self.scope["headers"]}
        return self._headers

    @property
    def host(self) -> str | None:
        client = self.scope.get("client")
        return None if client is None else client[0]


@lru_cache(256)
def _query(raw: bytes) -> Mapping[str, str]:
    return dict(parse_qsl(raw.decode("latin-1"), keep_blank_values=True))


class Reply(NamedTuple):
    """A complete HTTP response, which is an ASGI application."""

    raw: bytes
    content_type: str = JSON
    status_code: int = 200
    headers: tuple[tuple[str, str], ...] = ()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", self.content_type.encode()), (b"content-length", b"%d" % len(self.raw))]
        for name, value in self.headers:
            headers.append((name.encode(), value.encode()))
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.raw})


MSGPACK, TEXT = ("application/msgpack", "application/x-msgpack"), "text/plain"
_HEADER = re.compile(r";\s*header\s*=\s*\"?(present|absent)\b")  # as in text/csv; header=present


class Body(Struct, forbid_unknown_fields=True):
    x: Raw = Raw(b"")
    y: Any = None
    weight: Any = None
    id: Any = None
    explain: bool = False
    model: str | None = None
    request: str | None = None


class Packed(Body):
    x: Any = None


_body, _packed = json_as(Body), msgpack_as(Packed)


class ParsedRequest(NamedTuple):
    """A request whose rows are not decoded yet."""

    body: Any
    format: str  # JSON, TEXT or MSGPACK
    raw: bytes  # the whole body
    header: bool | None = None  # whether the first line has the column names; None: not specified

    @property
    def model(self) -> str | None:
        return None if self.format == TEXT else self.body.model

    def rows(self, reader: RowReader, labelled: bool) -> "Rows":
        """Decode the rows, with their original labels, and weights."""
        if self.format == TEXT:
            batch, labels = reader.lines(self.body, labelled, self.header)
            return Rows(batch, labels, None, len(batch) == 1)
        body = self.body
        if self.format == JSON:
            if not memoryview(body.x):
                raise InvalidInputError("x is missing. Send a row or a list of rows")
            batch, one = reader.raw(body.x)
        else:
            batch, one = reader.some(body.x)
        n = len(batch)
        labels = listed_for(body.y, n, one, "y") if labelled else None
        weights = None if body.weight is None else weights_of(listed_for(body.weight, n, one, "weight"))
        return Rows(batch, labels, weights, one)


class Rows(NamedTuple):
    batch: Batch
    labels: list[Any] | None
    weights: list[float] | None
    one: bool  # a single row instead of a list


def read_body(raw: bytes, content_type: str) -> ParsedRequest:
    """Decode the body of a request, except for its rows."""
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in MSGPACK:
        return ParsedRequest(_packed(raw), MSGPACK[0], raw)
    if media_type in ("", JSON, "application/x-www-form-urlencoded") and raw.lstrip()[:1] == b"{":  # curl's default
        return ParsedRequest(_body(raw), JSON, raw)
    if media_type.startswith("text/") or media_type == "application/x-www-form-urlencoded":
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"the text must be UTF-8, but byte {error.start} is not") from None
        header = _HEADER.search(content_type.lower())
        return ParsedRequest(raw, TEXT, raw, None if header is None else header[1] == "present")
    raise InvalidInputError(
        f"the body must be a JSON object ({JSON}), MessagePack ({MSGPACK[0]}) or lines of text ({TEXT}), "
        f"got {media_type or 'no Content-Type'!r:.60} and {raw[:20]!r}"
    )


def listed_for(value: Any, rows: int, one: bool, name: str) -> list[Any]:
    """Return a list with a value for each row. A single row may have a plain value."""
    values = [value] if one and not isinstance(value, list) else value
    if not isinstance(values, list) or len(values) != rows or any(item is None for item in values):
        got = f"{len(values)} values" if isinstance(value, list) else repr(value)[:40]
        raise InvalidInputError(f"{name} must have one value for each of {rows} rows, got {got}")
    return values


def weights_of(weights: list[Any]) -> list[float]:
    """Return valid weights of rows: finite numbers ≥ 0."""
    for k, weight in enumerate(weights):
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < 1e30:
            raise InvalidInputError(f"weight must be a finite number ≥ 0, got {weight!r:.40} at row {k}")
    return [float(weight) for weight in weights]


def ids_of(value: Any, rows: int, one: bool, limits: Limits) -> list[int | str]:
    """Return valid ids of rows: integers or strings."""
    ids = listed_for(value, rows, one, "id")
    for k, id_ in enumerate(ids):
        if isinstance(id_, bool) or not isinstance(id_, int | str):
            raise InvalidInputError(f"id must be an integer or a string, got {id_!r:.40} at row {k}")
        if isinstance(id_, str) and not 1 <= len(id_) <= limits.id:
            raise InvalidInputError(f"id must have 1 to {limits.id} characters, got {len(id_)} at row {k}")
        if isinstance(id_, int) and not -(2**63) <= id_ < 2**63:
            raise InvalidInputError(f"id must fit into 64 bits, got {id_!r:.40} at row {k}")
    return ids


#: A handler of requests. It returns a reply (or a Starlette response), or a value that is sent as JSON.
Handler = Callable[[Request], Awaitable[Any]]


class RequestContext:
    """The models, limits and connections that the endpoints of a predictor share."""

    def __init__(
        self, models: ServedModels, link: Link, guard: Guard, limits: Limits, metrics: Metrics, logs_requests: bool
    ) -> None:
        self.models, self.link, self.guard = models, link, guard
        self.limits, self.metrics, self._logs_requests = limits, metrics, logs_requests

    def route(self, path: str, handler: Handler, scope: str | None, methods: tuple[str, ...] = ("POST",)) -> Route:
        """Return a route for tokens with a scope; None allows requests without a token."""
        return Route(path, Endpoint(self, path, handler, scope), methods=list(methods))

    def require(self, request: Request, scope: str) -> None:
        """Raise unless the request is allowed. Without tokens, requests of web pages are refused."""
        self.guard.require_host(request.headers.get("host"))
        self.guard.require(request.headers.get("authorization"), scope)
        if not self.guard and "origin" in request.headers:
            raise Refused(403, "requests of web pages need a token. Start the server with --tokens")

    def finish(self, path: str, request: Request, reply: Any, began: float) -> Any:
        """Count and log a reply, and add the request id to its headers."""
        seconds = time.perf_counter() - began
        self.metrics.answered(path, reply.status_code, seconds)
        if self._logs_requests:
            self._log(request, reply.status_code, seconds)
        if isinstance(reply, Reply):
            headers = (*reply.headers, (REQUEST_ID, request.id))
            return Reply(reply.raw, reply.content_type, reply.status_code, headers)  # faster than `_replace`
        reply.headers[REQUEST_ID] = request.id
        return reply

    def _log(self, request: Request, status: int, seconds: float) -> None:
        """Log a request with address, status and milliseconds, but no bodies, queries, ids of rows or tokens."""
        path, level = request.path[:200], ERROR if status >= 500 else WARNING if status >= 400 else INFO
        about: dict[str, Any] = {
            "model": request.model,
            "rows": request.rows,
            "request_id": request.id,
            "from": request.host,
        }
        about |= {"method": request.method, "path": path}
        log(f"{request.method} {path}", level, status=status, ms=round(1e3 * seconds, 3), **about)

    async def body(self, request: Request) -> bytes:
        """Read the body of a request, up to the limit."""
        most, length = self.limits.body, request.headers.get("content-length", "0")
        if is_whole_number(length) and int(length) > most:
            raise _too_long(most)
        pieces, size = list[bytes](), 0
        while True:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _too_long(most)
            pieces.append(piece)
            if not message.get("more_body"):
                return b"".join(pieces)


class Endpoint:
    """A handler under a path, as an ASGI application. Every request gets a reply, also after an error."""

    def __init__(self, context: RequestContext, path: str, handler: Handler, scope: str | None) -> None:
        self._context, self._path, self._handler, self.scope = context, path, handler, scope
        self.summary = " ".join((handler.__doc__ or "").split())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        began, request, context = time.perf_counter(), Request(scope, receive), self._context
        reply: Any
        current_scope.set(scope)
        try:
            if self.scope is not None:
                context.require(request, self.scope)
            answer = await self._handler(request)
            reply = answer if callable(answer) else _reply(request, answer)
        except Refused as refused:
            reply = refusal(refused)
        except (InvalidInputError, InvalidParameterError, NumericalError) as error:
            reply = refusal(Refused(422, str(error)))
        except ClientDisconnect:
            reply = Reply(b"", status_code=499)
        except Exception as error:  # the details go to the log only
            log("a request failed", ERROR, error=error, path=self._path, model=request.model, request_id=request.id)
            reply = refusal(Refused(500, "the request failed; nothing was learned"))
        current_scope.set(None)  # streams of events are sent after this, and share one request to the learner
        await context.finish(self._path, request, reply, began)(scope, receive, send)


def _too_long(most: int) -> Refused:
    return Refused(413, f"a body may have at most {most:,} bytes. Send fewer rows at a time")


def _reply(request: Request, answer: Any) -> Reply:
    headers = request.headers
    if headers.get("accept", headers.get("content-type")) in MSGPACK:
        return Reply(to_msgpack(answer), MSGPACK[0])
    return Reply(to_json(answer))


def refusal(refused: Refused) -> Reply:
    headers = {} if refused.retry_after is None else {"Retry-After": str(refused.retry_after)}
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = to_json({"error": refused.message})
    return Reply(body, status_code=refused.status, headers=tuple(headers.items()))


def routes(context: RequestContext) -> list[Route]:
    short = _Endpoints(context)
    return [
        context.route("/predict", short.predict, "read"),
        context.route("/learn", short.learn, "learn"),
        context.route("/label", short.label, "learn"),
    ]


class _Endpoints:
    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def _parsed(self, request: Request) -> tuple[ParsedRequest, Served, Snapshot]:
        parsed = read_body(await self._context.body(request), request.headers.get("content-type", ""))
        served, snapshot = self._context.models(request.query_params.get("model") or parsed.model)
        request.model = served.name
        return parsed, served, snapshot

    def _identity(self, request: Request, parsed: ParsedRequest) -> dict[str, str]:
        """Return the idempotency key of a request and its fingerprint, or {} without a key."""
        key = request.headers.get("idempotency-key") or getattr(parsed.body, "request", None)
        if key is None:
            return {}
        if not 1 <= len(key) <= self._context.limits.id:
            raise InvalidInputError(
                f"an Idempotency-Key must have 1 to {self._context.limits.id} characters, got {len(key)}"
            )
        own = fingerprint(request.path, request.scope["query_string"], parsed.raw)
        return {"request": key, "fingerprint": own}

    async def predict(self, request: Request) -> dict[str, Any]:
        """Predict labels and scores. Rows with ids (scope learn) wait for their labels."""
        metrics = self._context.metrics
        parsed, served, (model, about) = await self._parsed(request)
        batch, _, _, one = parsed.rows(served.reader, labelled=False)
        scores = model.learner.scores(batch)
        request.rows = len(batch)
        given_ids = request.query_params.get("id") if parsed.format == TEXT else parsed.body.id
        if given_ids is not None:
            self._context.require(request, "learn")  # the stored rows will be learned
            ids = ids_of(given_ids, len(batch), one, self._context.limits)
            unweighted = batch if batch.weights is None else replace(batch, weights=None)
            data = pack(unweighted, [None] * len(batch), scores)
            await self._context.link.ask("keep", served.name, ids=ids, data=data)
            metrics.count("labels", served.name, "predicted", by=len(ids))
        answer = answers(model, scores)
        metrics.predicted(served.name, answer["label"], scores)
        body = {"model": served.name, "version": about["version"], **(first_of(answer) if one else answer)}
        asked = "explain" in request.query_params if parsed.format == TEXT else parsed.body.explain
        if not asked:
            return body
        rows = from_json(parsed.body.x) if parsed.format == JSON else () if parsed.format == TEXT else parsed.body.x
        return body | {"explanation": explanations(model, batch, one, served.feature_names(model, rows))}

    async def learn(self, request: Request) -> dict[str, Any]:
        """Learn rows with labels. The reply means that they are on disk. Each is learned once, in order."""
        parsed, served, (model, _) = await self._parsed(request)
        batch, labels, weights, _ = parsed.rows(served.reader, labelled=True)
        model.learner.scores(batch)  # raises if a value cannot be learned
        request.rows = len(batch)
        if weights is not None:
            batch = replace(batch, weights=np.array(weights))
        data = pack(batch, served.known(labels or [], model.classes))
        answer = await self._context.link.ask("learn", served.name, data=data, **self._identity(request, parsed))
        return {"model": served.name, **answer}

    async def label(self, request: Request) -> dict[str, Any]:
        """Send labels of rows that were predicted with ids. These rows are learned now."""
        parsed, served, (model, _) = await self._parsed(request)
        body = parsed.body
        if parsed.format == TEXT:
            raise Refused(422, 'labels must be JSON or MessagePack: {"id": …, "y": …}')
        one = not isinstance(body.id, list)
        n_rows = 1 if one else len(body.id)
        if not 1 <= n_rows <= self._context.limits.rows:
            raise InvalidInputError(f"a request may have 1 to {self._context.limits.rows:,} labels, got {n_rows:,}")
        ids = ids_of(body.id, n_rows, one, self._context.limits)
        labels = served.known(listed_for(body.y, n_rows, one, "y"), model.classes)
        weights = None if body.weight is None else weights_of(listed_for(body.weight, n_rows, one, "weight"))
        answer = await self._context.link.ask(
            "label", served.name, ids=ids, labels=labels, weights=weights, **self._identity(request, parsed)
        )
        request.rows = n_rows
        if not answer.get("again"):
            for outcome in Labelled._fields:
                ids_or_count = answer[outcome]
                by = ids_or_count if isinstance(ids_or_count, int) else len(ids_or_count)
                self._context.metrics.count("labels", served.name, outcome, by=by)
        return {"model": served.name, **answer}
