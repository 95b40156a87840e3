"""What the server answers, for programs (OpenAPI) and for people."""

import re
from html import escape
from typing import Any, NamedTuple

from thinstream import __version__

_JSON, _MSGPACK, _TEXT = "application/json", "application/msgpack", "text/plain"


class _Call(NamedTuple):
    method: str
    path: str
    scope: str  # of a token that may; "": anybody may
    summary: str
    body: dict[str, Any] | None = None  # JSON schema
    example: Any = None
    answer: Any = None  # an example
    kinds: tuple[str, ...] = (_JSON,)


_ROW: dict[str, Any] = {
    "description": "A row or a list of rows: an object of features by name or number, a line of text as the model's "
    "files have them, a list of numbers, or a matrix as {indptr, indices, values}; in MessagePack the three may be "
    "bytes of int32, int32 and float32."
}
_ID: dict[str, Any] = {"description": "A whole number or a text for each row.", "type": ["integer", "string", "array"]}
_LABEL: dict[str, Any] = {"description": "A label for each row.", "type": ["string", "number", "boolean", "array"]}
_WEIGHT: dict[str, Any] = {"description": "A weight ≥ 0 for each row.", "type": ["number", "array"]}
_MODEL: dict[str, Any] = {"description": "The model's name, if there are several (or ?model=NAME).", "type": "string"}
_REQUEST: dict[str, Any] = {
    "description": "What the request is called (or the header Idempotency-Key): sent again it is acknowledged again, "
    "and not learned again.",
    "type": "string",
}


def _object(needed: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


_TENSORS: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "inputs": {"type": "array"}, "outputs": {"type": "array"}},
    "required": ["inputs"],
}
_CALLS = (
    _Call(
        "post", "/predict", "read", "Labels and scores. Rows with ids (scope learn) wait for their labels.",
        _object(["x"], x=_ROW, id=_ID, model=_MODEL),
        {"x": {"size": 3, "sender": "ann"}, "id": "mail 1"},
        {"model": "spam", "version": 17, "label": "ham", "score": -0.4}, (_JSON, _MSGPACK, _TEXT),
    ),
    _Call(
        "post", "/learn", "learn", "Rows with labels; once answered they are on disk, and learned once, in order.",
        _object(["x", "y"], x=_ROW, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"x": [{"size": 3}, {"size": 9, "sender": "bob"}], "y": ["ham", "spam"], "request": "batch 12"},
        {"model": "spam", "rows": 2, "entry": 18}, (_JSON, _MSGPACK, _TEXT),
    ),
    _Call(
        "post", "/label", "learn", "Labels of rows that were predicted with ids: these rows are learned now.",
        _object(["id", "y"], id=_ID, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"id": "mail 1", "y": "spam"},
        {"model": "spam", "learned": 1, "unknown": [], "expired": [], "repeated": []}, (_JSON, _MSGPACK),
    ),
    _Call("get", "/v2", "read", "What this server is (Open Inference Protocol v2)."),
    _Call("get", "/v2/health/live", "", "Whether it runs."),
    _Call("get", "/v2/health/ready", "", "Whether it answers, and has learned all it was told before it began."),
    _Call("get", "/v2/models/{name}", "read", "What a model takes and gives; also …/versions/{version}."),
    _Call("get", "/v2/models/{name}/ready", "read", "Whether a model predicts."),
    _Call(
        "post", "/v2/models/{name}/infer", "read",
        "Predicts tensors: indptr, indices and values; a dense FP32 matrix; or BYTES of lines; as JSON or bytes.",
        _TENSORS,
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [0.5, 0.0, 1.0]}]},
        {"model_name": "spam", "model_version": "17", "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["ham"]}]},
    ),
    _Call("get", "/v2/models/{name}/versions", "read", "The versions that are kept, and the one that answers."),
    _Call("post", "/v2/models/{name}/versions", "admin", "Keeps the model of now as a version."),
    _Call(
        "post", "/v2/models/{name}/versions/{version}/rollback", "admin",
        "Goes back to a version, and learns on from it; what it was is kept.",
    ),
    _Call(
        "get", "/v2/models/{name}/versions/{version}/compare/{other}", "read",
        "Two versions, weight by weight; \"now\" is the one that answers.",
    ),
    _Call("get", "/v2/models/{name}/quarantine", "read", "Rows that could not be learned, with the reason for each."),
    _Call("get", "/v2/models/{name}/challengers", "read", "How challengers do, and the champion on the same rows."),
    _Call(
        "post", "/v2/models/{name}/challengers/{challenger}", "admin",
        "A model learns along and does not answer: a fresh one, or a model file (application/octet-stream).",
        {"type": "object", "properties": {"algorithm": {"type": "string"}, "parameters": {"type": "object"}}},
        {"algorithm": "ssol", "parameters": {"eta": 0.5}},
    ),
    _Call("delete", "/v2/models/{name}/challengers/{challenger}", "admin", "A challenger learns no more."),
    _Call(
        "post", "/v2/models/{name}/challengers/{challenger}/promote", "admin",
        "A challenger answers from now on; what answered until now is kept as a version.",
    ),
    _Call("post", "/v2/repository/index", "read", "All models, loaded or not."),
    _Call("post", "/v2/repository/models/{name}/load", "admin", "Loads a model of the server's folder."),
    _Call("post", "/v2/repository/models/{name}/unload", "admin", "Unloads a model; all of it stays on disk."),
    _Call("get", "/", "", "The dashboard: a page that shows models as they learn."),
    _Call("get", "/events", "read", "What the dashboard is told, once a second, as server-sent events."),
    _Call("get", "/metrics", "read", "Numbers for Prometheus."),
    _Call("get", "/openapi.json", "", "This, for programs."),
    _Call("get", "/docs", "", "This, for people."),
)  # fmt: skip
_REFUSALS = {
    "401": "No token, or an unknown one.",
    "403": "The token is for something else.",
    "404": "No such model is loaded.",
    "408": "The request came too slowly.",
    "409": "The model was saved with its weights only, or another row waits for its label under the same id.",
    "413": "The body is too long.",
    "422": "The request is not valid, or its idempotency key was used for another request; nothing was learned.",
    "429": "Too much waits, or this address has too many connections; try again after Retry-After seconds.",
    "431": "The request line and headers are too large.",
    "503": "The learning process is starting, does not answer, or has too much to do, its disk fails, or all "
    "connections are busy; try again after Retry-After seconds, with the same id.",
}


def description() -> dict[str, Any]:
    """The server in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    error = {"content": {_JSON: {"schema": _object(["error"], error={"type": "string"})}}}
    for call in _CALLS:
        good: dict[str, Any] = {"description": "As asked."}
        if call.answer is not None:
            good["content"] = {_JSON: {"example": call.answer}}
        found: dict[str, Any] = {
            "summary": call.summary,
            "responses": {"200": good} | {code: {"description": why, **error} for code, why in _REFUSALS.items()},
            "security": [{"bearer": [call.scope]}] if call.scope else [],
        }
        if named := re.findall(r"{(\w+)}", call.path):
            of = {"in": "path", "required": True, "schema": {"type": "string"}}
            found["parameters"] = [{"name": name, **of} for name in named]
        if call.body is not None:
            own = {"schema": call.body, "example": call.example}
            found["requestBody"] = {"content": {kind: own if kind != _TEXT else {} for kind in call.kinds}}
        paths.setdefault(call.path, {})[call.method] = found
    return {
        "openapi": "3.1.0",
        "info": {"title": "thinstream", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def page() -> str:
    """The same as a page that needs nothing from elsewhere."""
    from thinstream.serve.wire import to_json

    parts = [
        "<!doctype html><meta charset=utf-8><title>thinstream</title>",
        f"<style>{_STYLE}</style><h1>thinstream</h1>",
    ]
    for call in _CALLS:
        scope = f" · scope {call.scope}" if call.scope else ""
        parts.append(
            f"<h2><code>{call.method.upper()} {escape(call.path)}</code>{scope}</h2><p>{escape(call.summary)}</p>"
        )
        for named, value in (("body", call.example), ("answer", call.answer)):
            if value is not None:
                parts.append(f"<p>{named}: <code>{escape(to_json(value).decode())}</code></p>")
        for name, schema in ((call.body or {}).get("properties") or {}).items():
            if "description" in schema:
                parts.append(f"<p class=of><code>{name}</code> {escape(schema['description'])}</p>")
    refusals = "".join(f"<tr><td>{code}<td>{escape(why)}" for code, why in _REFUSALS.items())
    parts.append(
        f'<h2>If something is wrong</h2><p>The answer is <code>{{"error": …}}</code>.</p><table>{refusals}</table>'
    )
    return "\n".join(parts)


_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "h2{font-size:1em;margin:2em 0 0}.of{margin:0 0 0 2em}"
)
