"""Tensors of the Open Inference Protocol v2, in JSON or, with its binary extension, as bytes behind it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidInputError, listed
from thinstream.serve.web import is_whole_number
from thinstream.serve.wire import from_json, to_json

#: Types of the protocol → numpy's.
KINDS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
#: Says how long the JSON is, where bytes follow it.
HEADER = "inference-header-content-length"


def split(raw: bytes, header: str | None) -> tuple[dict[str, Any], bytes]:
    """The JSON of a request, and the bytes behind it."""
    size = len(raw)
    if header is not None:
        if not is_whole_number(header) or int(header) > len(raw):
            raise InvalidInputError(f"{HEADER} must be the length of the JSON, 0 to {len(raw)}, got {header!r:.40}")
        size = int(header)
    found = from_json(raw[:size])
    if not isinstance(found, dict):
        raise InvalidInputError("a request must be a JSON object with 'inputs'")
    return found, raw[size:]


def inputs_of(request: dict[str, Any], behind: bytes) -> dict[str, NDArray[Any]]:
    """The tensors of a request by name; BYTES are arrays of objects."""
    given = request.get("inputs")
    if not isinstance(given, list) or not given:
        raise InvalidInputError("inputs must be a list of tensors")
    found: dict[str, NDArray[Any]] = {}
    place = 0
    for tensor in given:
        name, kind, shape = _described(tensor)
        parameters = tensor.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if size is None:
            found[name] = _from_list(name, kind, shape, tensor.get("data"))
            continue
        if type(size) is not int or not 0 <= size <= len(behind) - place:
            raise InvalidInputError(
                f"inputs, {name!r:.60}: binary_data_size must be 0 to {len(behind) - place}, got {size!r:.40}"
            )
        found[name] = _from_bytes(name, kind, shape, behind[place : place + size])
        place += size
    if place != len(behind):
        raise InvalidInputError(f"{len(behind) - place} bytes behind the JSON belong to no tensor")
    return found


def _described(tensor: Any) -> tuple[str, str, tuple[int, ...]]:
    if not isinstance(tensor, dict):
        raise InvalidInputError(f"inputs must be objects with name, datatype, shape and data, got {tensor!r:.40}")
    name, kind, shape = tensor.get("name"), tensor.get("datatype"), tensor.get("shape")
    if not isinstance(name, str) or kind not in (*KINDS, "BYTES"):
        raise InvalidInputError(
            f"inputs, {name!r:.60}: a tensor needs a name and a datatype, {listed([*KINDS, 'BYTES'])}, got {kind!r:.40}"
        )
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**40 for n in shape) or len(shape) > 8:
        raise InvalidInputError(f"inputs, {name!r:.60}: shape must be a list of whole numbers, got {shape!r:.60}")
    return name, kind, tuple(shape)


def _require_size(name: str, shape: tuple[int, ...], many: int) -> None:
    expected = 1
    for n in shape:
        expected *= n
    if expected != many:
        raise InvalidInputError(f"inputs, {name!r:.60}: shape {list(shape)} has {expected} elements, got {many}")


def _flat(data: Any) -> list[Any]:
    """Lists in lists as one."""
    found = data
    while isinstance(found, list) and found and all(isinstance(each, list) for each in found):
        found = [part for each in found for part in each]
    if not isinstance(found, list):
        raise InvalidInputError(f"data must be a list, got {data!r:.40}")
    return found


def _from_list(name: str, kind: str, shape: tuple[int, ...], data: Any) -> NDArray[Any]:
    flat = _flat(data)
    _require_size(name, shape, len(flat))
    if kind == "BYTES":
        if not all(isinstance(each, str) for each in flat):
            raise InvalidInputError(f"inputs, {name!r:.60}: elements of BYTES are texts in JSON")
        found = np.empty(len(flat), object)
        found[:] = flat
        return found.reshape(shape)
    if not all(type(each) in (int, float, bool) for each in flat):
        raise InvalidInputError(f"inputs, {name!r:.60}: elements of {kind} must be numbers")
    dtype = np.dtype(KINDS[kind])
    if dtype.kind in "iu" and any(type(each) is float and not each.is_integer() for each in flat):
        raise InvalidInputError(f"inputs, {name!r:.60}: elements of {kind} must be whole numbers")
    try:
        return np.array(flat, dtype).reshape(shape)
    except OverflowError:
        raise InvalidInputError(f"inputs, {name!r:.60}: an element does not fit into {kind}") from None


def _from_bytes(name: str, kind: str, shape: tuple[int, ...], raw: bytes) -> NDArray[Any]:
    if kind != "BYTES":
        dtype = np.dtype(KINDS[kind])
        if len(raw) % dtype.itemsize:
            raise InvalidInputError(f"inputs, {name!r:.60}: {len(raw)} bytes are no whole number of {kind}")
        _require_size(name, shape, len(raw) // dtype.itemsize)
        return np.frombuffer(raw, dtype).reshape(shape)
    texts, place = list[str](), 0
    while place < len(raw):
        size = int.from_bytes(raw[place : place + 4], "little")
        place += 4 + size
        if place > len(raw):
            raise InvalidInputError(f"inputs, {name!r:.60}: an element of BYTES ends behind the tensor")
        try:
            texts.append(raw[place - size : place].decode())
        except UnicodeDecodeError:
            raise InvalidInputError(f"inputs, {name!r:.60}: element {len(texts)} is not UTF-8") from None
    _require_size(name, shape, len(texts))
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(shape)


def packed(
    head: dict[str, Any], outputs: Sequence[tuple[str, str, NDArray[Any]]], binary: set[str]
) -> tuple[bytes, int]:
    """The JSON of an answer with its tensors, those named in ``binary`` as bytes behind it; the length of the JSON."""
    tensors, behind = [], list[bytes]()
    for name, kind, array in outputs:
        tensor: dict[str, Any] = {"name": name, "datatype": kind, "shape": list(array.shape)}
        if name not in binary:
            tensor["data"] = array.reshape(-1).tolist()
        else:
            raw = array.astype(KINDS[kind]).tobytes() if kind != "BYTES" else _as_bytes(array)
            tensor["parameters"] = {"binary_data_size": len(raw)}
            behind.append(raw)
        tensors.append(tensor)
    found = to_json(head | {"outputs": tensors})
    return b"".join([found, *behind]), len(found)


def _as_bytes(array: NDArray[Any]) -> bytes:
    texts = [str(each).encode() for each in array.reshape(-1)]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)
