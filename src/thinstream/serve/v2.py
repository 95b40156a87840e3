"""The Open Inference Protocol v2 over REST, as KServe and Triton have it."""

import asyncio
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream import __version__
from thinstream.batch import Batch
from thinstream.errors import InvalidInputError, listed
from thinstream.serve.desk import Desk
from thinstream.serve.reading import RowReader
from thinstream.serve.refusals import Refused
from thinstream.serve.served import Served, answers, scores_of
from thinstream.serve.sharing import Snapshot
from thinstream.serve.tensors import HEADER, inputs_of, packed, split
from thinstream.serve.versions import NoVersion, Versions, numbers_of
from thinstream.serve.web import Reply, Request, Route
from thinstream.serve.wire import to_json

_CSR = {"indptr", "indices", "values"}


def routes(desk: Desk) -> list[Route]:
    """Of the protocol."""
    v2 = _V2(desk)
    found = [
        desk.route("/v2", v2.server, "read", ("GET",)),
        desk.route("/v2/health/live", v2.live, None, ("GET",)),
        desk.route("/v2/health/ready", v2.ready, None, ("GET",)),
        desk.route("/v2/repository/index", v2.index, "read"),
        desk.route("/v2/repository/models/{name}/load", v2.load, "admin"),
        desk.route("/v2/repository/models/{name}/unload", v2.unload, "admin"),
    ]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        found += [
            desk.route(model, v2.model, "read", ("GET",)),
            desk.route(f"{model}/ready", v2.model_ready, "read", ("GET",)),
            desk.route(f"{model}/infer", v2.infer, "read"),
        ]
    return found


class _V2:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def _served(self, request: Request) -> tuple[Served, Snapshot]:
        """A model, and its newest version or the one that is asked for, if it is kept."""
        served, snapshot = self._desk.models(request.path_params["name"])
        version = request.path_params.get("version")
        if version is None or version == str(snapshot.about["version"]):
            return served, snapshot
        try:
            return served, await asyncio.to_thread(self._desk.models.version, served.name, version)
        except NoVersion as none:
            raise Refused(404, f"{served.name!r} is at version {snapshot.about['version']}; {none}") from None

    async def server(self, request: Request) -> dict[str, Any]:
        """What this is."""
        return {"name": "thinstream", "version": __version__, "extensions": ["binary_tensor_data", "model_repository"]}

    async def live(self, request: Request) -> dict[str, Any]:
        """That it runs."""
        return {"live": True}

    async def ready(self, request: Request) -> Any:
        """Whether it predicts, learns, and has learned all it was told before it was started."""
        try:
            found = await self._desk.link.ask("status")
            ready = all(status.get("ready", True) for status in found.values())
        except Refused:
            ready = False
        return Reply(to_json({"ready": ready}), status_code=200 if ready else 503)

    async def model_ready(self, request: Request) -> dict[str, Any]:
        """Whether a model predicts."""
        served, _ = await self._served(request)
        return {"name": served.name, "ready": True}

    async def model(self, request: Request) -> dict[str, Any]:
        """What a model takes and gives."""
        served, (model, about) = await self._served(request)
        tensors = [["indptr", "INT32", [-1]], ["indices", "INT32", [-1]], ["values", "FP32", [-1]]]
        outputs = [
            {"name": name, "datatype": kind, "shape": [-1, *array.shape[1:]]}
            for name, kind, array in _outputs(answers(model, np.zeros((0, *_shape(model))), one=False), _shape(model))
        ]
        return {
            "name": served.name,
            "versions": numbers_of([*Versions(self._desk.models.folder(served.name)).listed(), about]),
            "platform": "thinstream",
            "inputs": [{"name": name, "datatype": kind, "shape": shape} for name, kind, shape in tensors],
            "outputs": outputs,
            "parameters": {
                "algorithm": model.learner.algorithm.name,
                "classes": [str(label) for label in model.classes],
                "features": int(model.learner.n_features),
                "learns": served.learns,
            },
        }

    async def infer(self, request: Request) -> Reply:
        """Labels, scores and probabilities of rows."""
        asked, behind = split(await self._desk.body(request), request.headers.get(HEADER))
        tensors = inputs_of(asked, behind)
        served, (model, about) = await self._served(request)
        scores = scores_of(model, rows_of(tensors, served.reader))
        outputs = _outputs(answers(model, scores, one=False), _shape(model))
        outputs, binary = _wanted(asked, outputs)
        head: dict[str, Any] = {"model_name": served.name, "model_version": str(about["version"])}
        if isinstance(asked.get("id"), str):
            head["id"] = asked["id"]
        raw, size = packed(head, outputs, binary)
        if not binary:
            return Reply(raw)
        return Reply(raw, "application/octet-stream", headers=((HEADER, str(size)),))

    async def index(self, request: Request) -> list[dict[str, Any]]:
        """All models, loaded or not."""
        loaded = self._desk.models.names()
        return [
            {"name": name, "version": "", "state": "READY" if name in loaded else "UNAVAILABLE", "reason": ""}
            for name in sorted({*loaded, *self._desk.models.all_names()})
        ]

    async def load(self, request: Request) -> dict[str, Any]:
        """Loads a model of the server's folder, with all it has learned."""
        return await self._desk.link.ask("load", request.path_params["name"])

    async def unload(self, request: Request) -> dict[str, Any]:
        """A model is answered no more; all of it stays on disk."""
        return await self._desk.link.ask("unload", request.path_params["name"])


def rows_of(tensors: dict[str, NDArray[Any]], reader: RowReader) -> Batch:
    """The rows of a request: a matrix by its three arrays, a dense one, or lines of text."""
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
            f"inputs, {name!r:.60}: a tensor alone must be FP32 of rows × features or BYTES of lines, got "
            f"{tensor.ndim} dimensions of {tensor.dtype.name}"
        )
    raise InvalidInputError(
        f"inputs must be the tensors {listed(sorted(_CSR))} together, or one alone, got {listed(sorted(tensors)[:5])}"
    )


def _shape(model: Any) -> tuple[int, ...]:
    return () if model.classes.are_two else (len(model.classes),)


def _outputs(found: dict[str, Any], shape: tuple[int, ...]) -> list[tuple[str, str, NDArray[Any]]]:
    labels = np.array([str(label) for label in found["label"]], object)
    outputs = [("label", "BYTES", labels)]
    for name in ("score", "probability"):
        if name in found:
            outputs.append((name, "FP32", np.array(found[name], np.float32).reshape(len(labels), *shape)))
    return outputs


def _wanted(
    asked: dict[str, Any], outputs: list[tuple[str, str, NDArray[Any]]]
) -> tuple[list[tuple[str, str, NDArray[Any]]], set[str]]:
    """The outputs that are asked for, and which of them are to be bytes."""
    parameters, wanted = asked.get("parameters"), asked.get("outputs")
    all_binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    if not wanted:
        return outputs, {name for name, _, _ in outputs} if all_binary else set()
    names = [name for name, _, _ in outputs]
    binary = set[str]()
    if not isinstance(wanted, list):
        raise InvalidInputError("outputs must be a list of objects with a name")
    for each in wanted:
        if not isinstance(each, dict) or each.get("name") not in names:
            raise InvalidInputError(f"outputs: there are {listed(names)}, got {each!r:.60}")
        own = each.get("parameters")
        if (own.get("binary_data", all_binary) if isinstance(own, dict) else all_binary) is True:
            binary.add(each["name"])
    chosen = [each["name"] for each in wanted]
    return [output for output in outputs if output[0] in chosen], binary
