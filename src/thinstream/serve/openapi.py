"""The description of the API, made from its routes: as OpenAPI for programs, and as a page for people."""

import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, NamedTuple

from thinstream._version import __version__
from thinstream.serve.requests import Endpoint, Route
from thinstream.serve.wire import to_json

_JSON, _MSGPACK, _TEXT = "application/json", "application/msgpack", "text/plain"


class _Body(NamedTuple):
    schema: dict[str, Any]
    example: Any = None
    answer: Any = None  # an example
    content_types: tuple[str, ...] = (_JSON,)


_ROW: dict[str, Any] = {
    "description": "A row or a list of rows. A row is an object of features by name or number, a line of text in the "
    "format of the model's files, or a list of numbers. A sparse matrix is {indptr, indices, values}. In MessagePack, "
    "these may be bytes of int32, int32 and float32."
}
_ID: dict[str, Any] = {"description": "An integer or a string for each row.", "type": ["integer", "string", "array"]}
_LABEL: dict[str, Any] = {"description": "A label for each row.", "type": ["string", "number", "boolean", "array"]}
_WEIGHT: dict[str, Any] = {"description": "A weight ≥ 0 for each row.", "type": ["number", "array"]}
_MODEL: dict[str, Any] = {
    "description": "The name of the model, if the server has several (or ?model=NAME).",
    "type": "string",
}
_REQUEST: dict[str, Any] = {
    "description": "Idempotency key (or the header Idempotency-Key). A repeated request is acknowledged again, but "
    "not learned again.",
    "type": "string",
}


def _object(needed: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


_TENSORS: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "inputs": {"type": "array"}, "outputs": {"type": "array"}},
    "required": ["inputs"],
}
#: The bodies of requests, by path.
_BODIES = {
    "/predict": _Body(
        _object(["x"], x=_ROW, id=_ID, explain={"type": "boolean"}, model=_MODEL),
        {"x": {"size": 3, "sender": "ann"}, "id": "mail 1"},
        {"model": "spam", "version": 17, "label": "ham", "score": -0.4},
        (_JSON, _MSGPACK, _TEXT),
    ),
    "/learn": _Body(
        _object(["x", "y"], x=_ROW, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"x": [{"size": 3}, {"size": 9, "sender": "bob"}], "y": ["ham", "spam"], "request": "batch 12"},
        {"model": "spam", "rows": 2, "entry": 18},
        (_JSON, _MSGPACK, _TEXT),
    ),
    "/label": _Body(
        _object(["id", "y"], id=_ID, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"id": "mail 1", "y": "spam"},
        {"model": "spam", "learned": 1, "unknown": [], "expired": [], "repeated": []},
        (_JSON, _MSGPACK),
    ),
    "/v2/models/{name}/infer": _Body(
        _TENSORS,
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [0.5, 0.0, 1.0]}]},
        {
            "model_name": "spam",
            "model_version": "17",
            "outputs": [{"name": "label", "datatype": "BYTES", "shape": [1], "data": ["ham"]}],
        },
    ),
    "/v2/models/{name}/challengers/{challenger}": _Body(
        {"type": "object", "properties": {"algorithm": {"type": "string"}, "parameters": {"type": "object"}}},
        {"algorithm": "ssol", "parameters": {"eta": 0.5}},
    ),
}
_REFUSALS = {
    "401": "No token, or an unknown one.",
    "403": "The token lacks the required scope.",
    "404": "No such model is loaded.",
    "408": "The request arrived too slowly.",
    "409": "The model was saved with only its weights and cannot learn, or another row waits for its "
    "label under the same id.",
    "413": "The body is too long.",
    "422": "The request is not valid, or its idempotency key was used for another request; nothing was learned.",
    "429": "Too many requests wait, or this address has too many connections. Try again after Retry-After seconds.",
    "431": "The request line and headers are too large.",
    "503": "The learner is starting, does not reply or has too much work, its disk fails, or all connections are "
    "busy. Try again after Retry-After seconds, with the same idempotency key.",
}


def _calls(routes: Iterable[Route]) -> Iterator[tuple[str, str, Endpoint, _Body | None]]:
    """Return method, path, endpoint and body of all routes that have a description."""
    for route in routes:
        endpoint = route.app
        if isinstance(endpoint, Endpoint) and endpoint.summary:
            for method in sorted({*(route.methods or ())} - {"HEAD"}):
                yield method, route.path, endpoint, _BODIES.get(route.path) if method == "POST" else None


def description(routes: Iterable[Route]) -> dict[str, Any]:
    """Return the API in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    error = {"content": {_JSON: {"schema": _object(["error"], error={"type": "string"})}}}
    for method, path, endpoint, body in _calls(routes):
        good: dict[str, Any] = {"description": "Success."}
        operation: dict[str, Any] = {
            "summary": endpoint.summary,
            "responses": {"200": good} | {code: {"description": why, **error} for code, why in _REFUSALS.items()},
            "security": [{"bearer": [endpoint.scope]}] if endpoint.scope else [],
        }
        if names := re.findall(r"{(\w+)}", path):
            shape = {"in": "path", "required": True, "schema": {"type": "string"}}
            operation["parameters"] = [{"name": name, **shape} for name in names]
        if body is not None:
            good |= {} if body.answer is None else {"content": {_JSON: {"example": body.answer}}}
            content = {"schema": body.schema, "example": body.example}
            contents = {one: content if one != _TEXT else {} for one in body.content_types}
            operation["requestBody"] = {"content": contents}
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "thinstream", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def page(routes: Iterable[Route]) -> str:
    """Return the API as an HTML page without external resources."""
    parts = [
        "<!doctype html><meta charset=utf-8><title>thinstream</title>",
        f"<style>{_STYLE}</style><h1>thinstream</h1>",
    ]
    for method, path, endpoint, body in _calls(routes):
        scope = f" · scope {endpoint.scope}" if endpoint.scope else ""
        parts.append(f"<h2><code>{method} {escape(path)}</code>{scope}</h2><p>{escape(endpoint.summary)}</p>")
        if body is None:
            continue
        for title, value in (("body", body.example), ("reply", body.answer)):
            if value is not None:
                parts.append(f"<p>{title}: <code>{escape(to_json(value).decode())}</code></p>")
        for name, schema in body.schema["properties"].items():
            if "description" in schema:
                parts.append(f"<p class=of><code>{name}</code> {escape(schema['description'])}</p>")
    refusals = "".join(f"<tr><td>{code}<td>{escape(why)}" for code, why in _REFUSALS.items())
    parts.append(f'<h2>Errors</h2><p>The reply is <code>{{"error": …}}</code>.</p><table>{refusals}</table>')
    return "\n".join(parts)


_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "h2{font-size:1em;margin:2em 0 0}.of{margin:0 0 0 2em}"
)
