"""The description of the API: as OpenAPI for programs, and as a page for people."""

import re
from html import escape
from typing import Any, NamedTuple

from thinstream._version import __version__

_JSON, _MSGPACK, _TEXT = "application/json", "application/msgpack", "text/plain"


class _Call(NamedTuple):
    method: str
    path: str
    scope: str  # required scope; "": no token needed
    summary: str
    body: dict[str, Any] | None = None  # JSON schema
    example: Any = None
    answer: Any = None  # example
    kinds: tuple[str, ...] = (_JSON,)


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
_CALLS = (
    _Call(
        "post", "/predict", "read", "Predict labels and scores. Rows with ids (scope learn) wait for their labels.",
        _object(["x"], x=_ROW, id=_ID, explain={"type": "boolean"}, model=_MODEL),
        {"x": {"size": 3, "sender": "ann"}, "id": "mail 1"},
        {"model": "spam", "version": 17, "label": "ham", "score": -0.4}, (_JSON, _MSGPACK, _TEXT),
    ),
    _Call(
        "post", "/learn", "learn", "Learn rows with labels. The reply means that they are on disk. Each "
                                   "is learned once, in order.",
        _object(["x", "y"], x=_ROW, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"x": [{"size": 3}, {"size": 9, "sender": "bob"}], "y": ["ham", "spam"], "request": "batch 12"},
        {"model": "spam", "rows": 2, "entry": 18}, (_JSON, _MSGPACK, _TEXT),
    ),
    _Call(
        "post", "/label", "learn", "Send labels of rows that were predicted with ids. These rows are learned now.",
        _object(["id", "y"], id=_ID, y=_LABEL, weight=_WEIGHT, model=_MODEL, request=_REQUEST),
        {"id": "mail 1", "y": "spam"},
        {"model": "spam", "learned": 1, "unknown": [], "expired": [], "repeated": []}, (_JSON, _MSGPACK),
    ),
    _Call("get", "/v2", "read", "Describe the server (Open Inference Protocol v2)."),
    _Call("get", "/v2/health/live", "", "Return whether the process responds."),
    _Call("get", "/v2/health/ready", "", "Return whether the server has a model and predicts with all loaded models."),
    _Call("get", "/v2/health/learning", "", "Return whether the models learn, and have replayed their "
                                            "journals since the start."),
    _Call("get", "/v2/models/{name}", "read", "Describe the inputs and outputs of a model; also …/versions/{version}."),
    _Call("get", "/v2/models/{name}/ready", "read", "Return whether a model predicts."),
    _Call(
        "post", "/v2/models/{name}/infer", "read",
        "Predict tensors: indptr, indices and values; a dense FP32 matrix; or BYTES of lines. As JSON or binary.",
        _TENSORS,
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 3], "data": [0.5, 0.0, 1.0]}]},
        {"model_name": "spam", "model_version": "17", "outputs": [
            {"name": "label", "datatype": "BYTES", "shape": [1], "data": ["ham"]}]},
    ),
    _Call("get", "/v2/models/{name}/versions", "read", "List the saved versions, and the version that predicts."),
    _Call("post", "/v2/models/{name}/versions", "admin", "Save the model as a version."),
    _Call(
        "post", "/v2/models/{name}/versions/{version}/rollback", "admin",
        "Roll back to a version and learn from there. The current model is saved as a version.",
    ),
    _Call(
        "get", "/v2/models/{name}/versions/{version}/compare/{other}", "read",
        "Compare two versions, weight by weight. \"now\" is the version that predicts.",
    ),
    _Call("get", "/v2/models/{name}/quarantine", "read", "List rows that could not be learned, with the "
                                                         "reason for each."),
    _Call("get", "/v2/models/{name}/challengers", "read", "List challengers, and compare them with the "
                                                          "champion on the same rows."),
    _Call(
        "post", "/v2/models/{name}/challengers/{challenger}", "admin",
        "Add a challenger, which learns but does not predict: a new model, or a file (application/octet-stream).",
        {"type": "object", "properties": {"algorithm": {"type": "string"}, "parameters": {"type": "object"}}},
        {"algorithm": "ssol", "parameters": {"eta": 0.5}},
    ),
    _Call("delete", "/v2/models/{name}/challengers/{challenger}", "admin", "Remove a challenger."),
    _Call(
        "post", "/v2/models/{name}/challengers/{challenger}/promote", "admin",
        "Promote a challenger: it predicts from now on. The champion is saved as a version.",
    ),
    _Call("post", "/v2/repository/index", "read", "List all models, loaded or not."),
    _Call("post", "/v2/repository/models/{name}/load", "admin", "Load a model of the server's folder."),
    _Call("post", "/v2/repository/models/{name}/unload", "admin", "Unload a model. Its files stay on disk."),
    _Call("get", "/", "", "The dashboard: a page that shows models as they learn."),
    _Call("get", "/events", "read", "The data of the dashboard, once a second, as server-sent events."),
    _Call("get", "/metrics", "read", "Metrics for Prometheus."),
    _Call("get", "/openapi.json", "", "This description as OpenAPI."),
    _Call("get", "/docs", "", "This page."),
)  # fmt: skip
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


def description() -> dict[str, Any]:
    """Return the API in OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    error = {"content": {_JSON: {"schema": _object(["error"], error={"type": "string"})}}}
    for call in _CALLS:
        good: dict[str, Any] = {"description": "Success."}
        if call.answer is not None:
            good["content"] = {_JSON: {"example": call.answer}}
        operation: dict[str, Any] = {
            "summary": call.summary,
            "responses": {"200": good} | {code: {"description": why, **error} for code, why in _REFUSALS.items()},
            "security": [{"bearer": [call.scope]}] if call.scope else [],
        }
        if names := re.findall(r"{(\w+)}", call.path):
            of = {"in": "path", "required": True, "schema": {"type": "string"}}
            operation["parameters"] = [{"name": name, **of} for name in names]
        if call.body is not None:
            content = {"schema": call.body, "example": call.example}
            operation["requestBody"] = {
                "content": {media_type: content if media_type != _TEXT else {} for media_type in call.kinds}
            }
        paths.setdefault(call.path, {})[call.method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "thinstream", "version": __version__},
        "paths": paths,
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def page() -> str:
    """Return the API as an HTML page without external resources."""
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
        for title, value in (("body", call.example), ("reply", call.answer)):
            if value is not None:
                parts.append(f"<p>{title}: <code>{escape(to_json(value).decode())}</code></p>")
        for name, schema in ((call.body or {}).get("properties") or {}).items():
            if "description" in schema:
                parts.append(f"<p class=of><code>{name}</code> {escape(schema['description'])}</p>")
    refusals = "".join(f"<tr><td>{code}<td>{escape(why)}" for code, why in _REFUSALS.items())
    parts.append(f'<h2>Errors</h2><p>The reply is <code>{{"error": …}}</code>.</p><table>{refusals}</table>')
    return "\n".join(parts)


_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}"
    "h2{font-size:1em;margin:2em 0 0}.of{margin:0 0 0 2em}"
)
