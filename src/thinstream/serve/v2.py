"""The HTTP API under /v2: the Open Inference Protocol with binary tensors, and the management of models."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream._version import __version__
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, listed
from thinstream.serve.request_rows import RowReader
from thinstream.serve.requests import Reply, Request, RequestContext, Route
from thinstream.serve.served_models import Served, answers, require_version
from thinstream.serve.shared_memory import Snapshot
from thinstream.serve.versions import NoVersion, Versions, compare, numbers_of
from thinstream.serve.wire import Change, Refused, fingerprint, from_json, is_whole_number, pack_change, to_json

#: Datatypes of the protocol → NumPy dtypes.
KINDS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
#: The header with the length of the JSON, if binary data follow it.
HEADER = "inference-header-content-length"


def split(raw: bytes, header: str | None) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a request, and the binary data after it."""
    size = len(raw)
    if header is not None:
        if not is_whole_number(header) or int(header) > len(raw):
            raise InvalidInputError(f"{HEADER} must be the length of the JSON, 0 to {len(raw)}, got {header!r:.40}")
        size = int(header)
    request = from_json(raw[:size])
    if not isinstance(request, dict):
        raise InvalidInputError("a request must be a JSON object with 'inputs'")
    return request, raw[size:]


def inputs_of(request: dict[str, Any], binary: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a request by name. BYTES become object arrays."""
    tensors_ = request.get("inputs")
    if not isinstance(tensors_, list) or not tensors_:
        raise InvalidInputError("inputs must be a list of tensors")
    arrays: dict[str, NDArray[Any]] = {}
    position = 0
    for tensor in tensors_:
        name, datatype, shape = _described(tensor)
        parameters = tensor.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is None:
            arrays[name] = _from_list(name, datatype, shape, tensor.get("data"))
            continue
        if type(size) is not int or not 0 <= size <= len(binary) - position:
            raise InvalidInputError(
                f"inputs, {name!r:.60}: binary_data_size must be 0 to {len(binary) - position}, got {size!r:.40}"
            )
        arrays[name] = _from_bytes(name, datatype, shape, binary[position : position + size])
        position += size
    if position != len(binary):
        raise InvalidInputError(f"{len(binary) - position} bytes after the JSON belong to no tensor")
    return arrays


def _described(tensor: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(tensor, dict):
        raise InvalidInputError(f"inputs must be objects with name, datatype, shape and data, got {tensor!r:.40}")
    name, datatype, shape = tensor.get("name"), tensor.get("datatype"), tensor.get("shape")
    if not isinstance(name, str) or datatype not in (*KINDS, "BYTES"):
        raise InvalidInputError(
            f"inputs, {name!r:.60}: a tensor needs a name and a datatype, {listed([*KINDS, 'BYTES'])}, "
            f"got {datatype!r:.40}"
        )
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape) or len(shape) > 8:
        raise InvalidInputError(f"inputs, {name!r:.60}: shape must be a list of integers, got {shape!r:.60}")
    return name, datatype, tuple(shape)


def _require_size(name: str, shape: tuple[int, ...], size: int) -> None:
    expected = 1
    for n in shape:
        expected *= n
    if expected != size:
        raise InvalidInputError(f"inputs, {name!r:.60}: shape {list(shape)} has {expected} elements, got {size}")


def _flat(data: Any) -> list[Any]:
    """Flatten nested lists."""
    items = data
    while isinstance(items, list) and items and all(isinstance(item, list) for item in items):
        items = [part for item in items for part in item]
    if not isinstance(items, list):
        raise InvalidInputError(f"data must be a list, got {data!r:.40}")
    return items


def _from_list(name: str, datatype: str, shape: tuple[int, ...], data: Any) -> NDArray[Any]:
    flat = _flat(data)
    _require_size(name, shape, len(flat))
    if datatype == "BYTES":
        if not all(isinstance(item, str) for item in flat):
            raise InvalidInputError(f"inputs, {name!r:.60}: elements of BYTES must be strings in JSON")
        texts = np.empty(len(flat), object)
        texts[:] = flat
        return texts.reshape(shape)
    if not all(type(item) in (int, float, bool) for item in flat):
        raise InvalidInputError(f"inputs, {name!r:.60}: elements of {datatype} must be numbers")
    dtype = np.dtype(KINDS[datatype])
    if dtype.kind in "iu" and any(type(item) is float and not item.is_integer() for item in flat):
        raise InvalidInputError(f"inputs, {name!r:.60}: elements of {datatype} must be integers")
    try:
        return np.array(flat, dtype).reshape(shape)
    except OverflowError:
        raise InvalidInputError(f"inputs, {name!r:.60}: an element does not fit into {datatype}") from None


def _from_bytes(name: str, datatype: str, shape: tuple[int, ...], raw: bytes) -> NDArray[Any]:
    if datatype != "BYTES":
        dtype = np.dtype(KINDS[datatype])
        if len(raw) % dtype.itemsize:
            raise InvalidInputError(
                f"inputs, {name!r:.60}: {len(raw)} bytes are not a multiple of the size of {datatype}"
            )
        _require_size(name, shape, len(raw) // dtype.itemsize)
        return np.frombuffer(raw, dtype).reshape(shape)
    texts, position = list[str](), 0
    while position < len(raw):
        size = int.from_bytes(raw[position : position + 4], "little")
        position += 4 + size
        if position > len(raw):
            raise InvalidInputError(f"inputs, {name!r:.60}: an element of BYTES ends after the tensor")
        try:
            texts.append(raw[position - size : position].decode())
        except UnicodeDecodeError:
            raise InvalidInputError(f"inputs, {name!r:.60}: element {len(texts)} is not UTF-8") from None
    _require_size(name, shape, len(texts))
    array = np.empty(len(texts), object)
    array[:] = texts
    return array.reshape(shape)


def packed(
    head: dict[str, Any], outputs: Sequence[tuple[str, str, NDArray[Any]]], binary: set[str]
) -> tuple[bytes, int]:
    """Encode a response; the tensors in ``binary`` follow the JSON as bytes. Also return the length of the JSON."""
    tensors, parts = [], list[bytes]()
    for name, datatype, array in outputs:
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if name not in binary:
            tensor["data"] = array.reshape(-1).tolist()
        else:
            raw = array.astype(KINDS[datatype]).tobytes() if datatype != "BYTES" else _as_bytes(array)
            tensor["parameters"] = {"binary_data_size": len(raw)}
            parts.append(raw)
        tensors.append(tensor)
    head_bytes = to_json(head | {"outputs": tensors})
    return b"".join([head_bytes, *parts]), len(head_bytes)


def _as_bytes(array: NDArray[Any]) -> bytes:
    texts = [str(item).encode() for item in array.reshape(-1)]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


_CSR = {"indptr", "indices", "values"}


def routes(context: RequestContext) -> list[Route]:
    v2 = _V2(context)
    routes_ = [
        context.route("/v2", v2.server, "read", ("GET",)),
        context.route("/v2/health/live", v2.live, None, ("GET",)),
        context.route("/v2/health/ready", v2.ready, None, ("GET",)),
        context.route("/v2/health/learning", v2.learning, None, ("GET",)),
        context.route("/v2/repository/index", v2.index, "read"),
        context.route("/v2/repository/models/{name}/load", v2.load, "admin"),
        context.route("/v2/repository/models/{name}/unload", v2.unload, "admin"),
    ]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes_ += [
            context.route(model, v2.model, "read", ("GET",)),
            context.route(f"{model}/ready", v2.model_ready, "read", ("GET",)),
            context.route(f"{model}/infer", v2.infer, "read"),
        ]
    model = "/v2/models/{name}"
    managing = _Management(context)
    routes_ += [
        context.route(f"{model}/versions", managing.versions, "read", ("GET",)),
        context.route(f"{model}/versions", managing.keep, "admin"),
        context.route(f"{model}/versions/{{version}}/rollback", managing.rollback, "admin"),
        context.route(f"{model}/versions/{{version}}/compare/{{other}}", managing.compare, "read", ("GET",)),
        context.route(f"{model}/quarantine", managing.quarantine, "read", ("GET",)),
        context.route(f"{model}/challengers", managing.challengers, "read", ("GET",)),
        context.route(f"{model}/challengers/{{challenger}}", managing.challenge, "admin"),
        context.route(f"{model}/challengers/{{challenger}}", managing.withdraw, "admin", ("DELETE",)),
        context.route(f"{model}/challengers/{{challenger}}/promote", managing.promote, "admin"),
    ]
    return routes_


class _V2:
    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def _served(self, request: Request) -> tuple[Served, Snapshot]:
        """Return a model, and its newest version or the saved version that the path names."""
        served, snapshot = self._context.models(request.path_params["name"])
        request.model, version = served.name, request.path_params.get("version")
        if version is None or version == str(snapshot.about["version"]):
            return served, snapshot
        try:
            return served, await asyncio.to_thread(self._context.models.version, served.name, version)
        except NoVersion as none:
            raise Refused(404, f"{served.name!r} is at version {snapshot.about['version']}; {none}") from None

    async def server(self, request: Request) -> dict[str, Any]:
        """Describe the server (Open Inference Protocol v2)."""
        return {"name": "thinstream", "version": __version__, "extensions": ["binary_tensor_data", "model_repository"]}

    async def live(self, request: Request) -> dict[str, Any]:
        """Return whether the process responds."""
        return {"live": True}

    async def ready(self, request: Request) -> Any:
        """Return whether the server has a model and predicts with all loaded models."""
        models, reason = self._context.models, None
        try:
            names = models.names()
            for name in names:
                models(name)
            if not names:
                models.require_running()
                reason = "no model is loaded"
        except Refused as refused:
            reason = refused.message
        return _health("ready", reason)

    async def learning(self, request: Request) -> Any:
        """Return whether the models learn, and have replayed their journals since the start."""
        try:
            statuses = await self._context.link.ask("status")
        except Refused as refused:
            return _health("learning", refused.message)
        for name, status in statuses.items():
            if status["learns"] and not status["learning"]:
                return _health("learning", f"the model {name!r} does not learn: {status['failure']}")
            if status["learns"] and not status["caught_up"]:
                return _health("learning", f"the model {name!r} is still replaying its journal")
        return _health("learning", None)

    async def model_ready(self, request: Request) -> dict[str, Any]:
        """Return whether a model predicts."""
        served, _ = await self._served(request)
        return {"name": served.name, "ready": True}

    async def model(self, request: Request) -> dict[str, Any]:
        """Describe the inputs and outputs of a model."""
        served, (model, about) = await self._served(request)
        tensors = [["indptr", "INT32", [-1]], ["indices", "INT32", [-1]], ["values", "FP32", [-1]]]
        outputs = [
            {"name": name, "datatype": datatype, "shape": [-1, *array.shape[1:]]}
            for name, datatype, array in _outputs(answers(model, np.zeros((0, *_shape(model)))), _shape(model))
        ]
        return {
            "name": served.name,
            "versions": numbers_of([*Versions(self._context.models.paths.folder(served.name)).listed(), about]),
            "platform": "thinstream",
            "inputs": [{"name": name, "datatype": datatype, "shape": shape} for name, datatype, shape in tensors],
            "outputs": outputs,
            "parameters": {
                "algorithm": model.learner.algorithm.name,
                "classes": [str(label) for label in model.classes],
                "features": int(model.learner.n_features),
                "learns": served.learns,
            },
        }

    async def infer(self, request: Request) -> Reply:
        """Predict tensors: indptr, indices and values; a dense FP32 matrix; or BYTES of lines. As JSON or binary."""
        body, binary_data = split(await self._context.body(request), request.headers.get(HEADER))
        tensors = inputs_of(body, binary_data)
        served, (model, about) = await self._served(request)
        scores = model.learner.scores(rows_of(tensors, served.reader))
        answer, request.rows = answers(model, scores), len(scores)
        self._context.metrics.predicted(served.name, answer["label"], scores)
        outputs = _outputs(answer, _shape(model))
        outputs, binary = _wanted(body, outputs)
        head: dict[str, Any] = {"model_name": served.name, "model_version": str(about["version"])}
        if isinstance(body.get("id"), str):
            head["id"] = body["id"]
        raw, size = packed(head, outputs, binary)
        if not binary:
            return Reply(raw)
        return Reply(raw, "application/octet-stream", headers=((HEADER, str(size)),))

    async def index(self, request: Request) -> list[dict[str, Any]]:
        """List all models, loaded or not."""
        loaded = self._context.models.names()
        return [
            {"name": name, "version": "", "state": "READY" if name in loaded else "UNAVAILABLE", "reason": ""}
            for name in sorted({*loaded, *self._context.models.paths.names()})
        ]

    async def load(self, request: Request) -> dict[str, Any]:
        """Load a model of the server's folder."""
        return await self._context.link.ask("load", request.path_params["name"])

    async def unload(self, request: Request) -> dict[str, Any]:
        """Unload a model. Its files stay on disk."""
        return await self._context.link.ask("unload", request.path_params["name"])


def _health(name: str, reason: str | None) -> Reply:
    body = {name: reason is None} | ({} if reason is None else {"reason": reason})
    return Reply(to_json(body), status_code=200 if reason is None else 503)


def rows_of(tensors: dict[str, NDArray[Any]], reader: RowReader) -> Batch:
    """Convert tensors to rows: the three arrays of a sparse matrix, a dense matrix, or lines of text."""
    if {*tensors} == _CSR:
        for name in ("indptr", "indices"):
            if tensors[name].dtype.kind not in "iu":
                raise InvalidInputError(f"inputs: {name} must be INT32 or INT64")
        if tensors["values"].dtype.kind != "f":
            raise InvalidInputError("inputs: values must be FP32 or FP64")
        return reader.csr(*(tensors[name].reshape(-1) for name in ("indptr", "indices", "values")))
    if len(tensors) == 1:
        ((name, tensor),) = tensors.items()
        if tensor.dtype == object:
            return reader.rows(tensor.reshape(-1).tolist())
        if tensor.dtype.kind == "f" and tensor.ndim == 2:
            return reader.dense(tensor)
        raise InvalidInputError(
            f"inputs, {name!r:.60}: a single tensor must be FP32 of rows × features or BYTES of lines, got "
            f"{tensor.ndim} dimensions of {tensor.dtype.name}"
        )
    raise InvalidInputError(
        f"inputs must be either the three tensors {', '.join(map(repr, sorted(_CSR)))}, or a single tensor, got "
        f"{', '.join(map(repr, sorted(tensors)[:5]))}"
    )


def _shape(model: Any) -> tuple[int, ...]:
    return () if model.classes.are_two else (len(model.classes),)


def _outputs(answer: dict[str, Any], shape: tuple[int, ...]) -> list[tuple[str, str, NDArray[Any]]]:
    labels = np.array([str(label) for label in answer["label"]], object)
    outputs = [("label", "BYTES", labels)]
    for name in ("score", "probability"):
        if name in answer:
            outputs.append((name, "FP32", np.array(answer[name], np.float32).reshape(len(labels), *shape)))
    return outputs


def _wanted(
    asked: dict[str, Any], outputs: list[tuple[str, str, NDArray[Any]]]
) -> tuple[list[tuple[str, str, NDArray[Any]]], set[str]]:
    """Return the requested outputs, and the names of those to send as bytes."""
    parameters, wanted = asked.get("parameters"), asked.get("outputs")
    all_binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    if not wanted:
        return outputs, {name for name, _, _ in outputs} if all_binary else set()
    names = [name for name, _, _ in outputs]
    binary = set[str]()
    if not isinstance(wanted, list):
        raise InvalidInputError("outputs must be a list of objects with a name")
    for output_ in wanted:
        if not isinstance(output_, dict) or output_.get("name") not in names:
            raise InvalidInputError(
                f"outputs: each must be an object with the name {listed(names)}, got {output_!r:.60}"
            )
        own = output_.get("parameters")
        if (own.get("binary_data", all_binary) if isinstance(own, dict) else all_binary) is True:
            binary.add(output_["name"])
    chosen = [output_["name"] for output_ in wanted]
    return [output for output in outputs if output[0] in chosen], binary


#: Seconds that a request waits until the model predicts with its change, and seconds between checks.
PATIENCE, LOOK = 30.0, 0.01
#: The version that predicts now.
NOW = "now"


class _Management:
    def __init__(self, context: RequestContext) -> None:
        self._context = context

    async def versions(self, request: Request) -> dict[str, Any]:
        """List the saved versions, and the version that predicts."""
        served, snapshot = self._context.models(request.path_params["name"])
        versions = await self._context.link.ask("rivals", served.name)
        return {"model": served.name, "version": snapshot.about["version"], "versions": versions["versions"]}

    async def challengers(self, request: Request) -> dict[str, Any]:
        """List challengers, and compare them with the champion on the same rows."""
        served, _ = self._context.models(request.path_params["name"])
        rivals = await self._context.link.ask("rivals", served.name)
        return {"model": served.name, "challengers": rivals["challengers"]}

    async def quarantine(self, request: Request) -> dict[str, Any]:
        """List rows that could not be learned, with the reason for each."""
        served, _ = self._context.models(request.path_params["name"])
        return {"model": served.name, **await self._context.link.ask("quarantine", served.name)}

    async def compare(self, request: Request) -> dict[str, Any]:
        """Compare two versions, weight by weight. The version `now` is the one that predicts."""
        served, snapshot = self._context.models(request.path_params["name"])
        asked = [request.path_params[key] for key in ("version", "other")]
        try:
            snapshots = [
                snapshot
                if version in (NOW, str(snapshot.about["version"]))
                else await asyncio.to_thread(self._context.models.version, served.name, version)
                for version in asked
            ]
        except NoVersion as none:
            raise Refused(404, str(none)) from None
        versions = [snapshot_.about["version"] for snapshot_ in snapshots]
        one, other = (snapshot.model for snapshot in snapshots)
        differences = await asyncio.to_thread(compare, one, other)
        return {"model": served.name, "versions": versions, **differences}

    async def keep(self, request: Request) -> dict[str, Any]:
        """Save the model as a version."""
        return await self._change(request, {"what": "keep"})

    async def rollback(self, request: Request) -> dict[str, Any]:
        """Roll back to a version and learn from there. The current model is saved as a version."""
        try:
            require_version(request.path_params["version"])
        except NoVersion as none:
            raise Refused(404, str(none)) from None
        return await self._change(request, {"what": "rollback", "version": request.path_params["version"]})

    async def challenge(self, request: Request) -> dict[str, Any]:
        """Add a challenger, which learns but does not predict: a new model, or a file (application/octet-stream)."""
        raw = await self._context.body(request)
        what: dict[str, Any] = {"what": "challenge", "name": request.path_params["challenger"]}
        if request.headers.get("content-type", "").startswith("application/octet-stream"):
            return await self._change(request, what, raw)
        body = from_json(raw)
        allowed = {"algorithm", "parameters", "scale", "normalize"}
        if not isinstance(body, dict) or not {*body} <= allowed:
            raise InvalidInputError(
                f"a challenger must be a model file (application/octet-stream) or a JSON object with "
                f"{listed(sorted(allowed))}"
            )
        return await self._change(request, what | body)

    async def promote(self, request: Request) -> dict[str, Any]:
        """Promote a challenger: it predicts from now on. The champion is saved as a version."""
        return await self._change(request, {"what": "promote", "name": request.path_params["challenger"]})

    async def withdraw(self, request: Request) -> dict[str, Any]:
        """Remove a challenger."""
        return await self._change(request, {"what": "withdraw", "name": request.path_params["challenger"]})

    async def _change(self, request: Request, what: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
        """Write a change to the journal, and reply once it is on disk and the model predicts with it."""
        served, _ = self._context.models(request.path_params["name"])
        raw = pack_change(Change(what, data))
        key = request.headers.get("idempotency-key")
        own = fingerprint(request.path, request.scope["query_string"], raw)
        answer = await self._context.link.ask("change", served.name, request=key, data=raw, fingerprint=own)
        until = time.monotonic() + PATIENCE
        while (version := served.snapshot().about["version"]) < answer["entry"] and time.monotonic() < until:
            await asyncio.sleep(LOOK)
        return {"model": served.name, **answer, "answers_with": version, "done": version >= answer["entry"]}
