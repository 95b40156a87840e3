"""A model as an ONNX graph; needs the package onnx, which is imported here only."""

import json
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import MissingPackageError
from thinstream.models.exports.linear import LinearModel
from thinstream.models.model import NORMALIZED

EXTENSIONS = (".onnx",)
#: The oldest that has every operator in the form used here: the file runs in old runtimes too.
OPSET, IR_VERSION = 13, 7
_INT64 = 7  # as ONNX numbers its types


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """A graph of opset 13 from sparse rows to ``scores`` [rows] and ``labels`` [rows].

    Inputs are ``indices``, int64 [rows, k], columns from 0 on, and ``values`` [rows, k], float, or double for a float64
    model, as are the scores. Shorter rows are padded with value 0. Columns the model does not know count nothing, nor
    do negative ones. A score above the model's threshold is the positive label; labels are int64, bool, double or
    string, as they were learned. Of more than two classes ``scores`` is [rows, classes], the label the first of highest
    score.

    The property ``space`` says what columns mean, as JSON: rows must be hashed and crossed like that beforehand.

    The weights are a sparse initialiser that ends at the last non-zero weight; a runtime may unfold it in memory
    (onnxruntime does). Where rows are normalised, their lengths are a part of the graph, in double.
    """
    model = model.check()
    order = np.lexsort((model.rows, model.indices))
    columns, classes = model.indices[order], len(model.intercepts)
    width = int(columns[-1]) + 2 if len(columns) else 1  # one slot more, always 0: where unknown columns lead
    if model.is_binary:
        graph = _Graph(
            sums=[("Mul", ["found", "values"], "products", {})],
            decision=[
                ("Greater", ["scores", "threshold"], "positive", {}),
                ("Cast", ["positive"], "which", {"to": _INT64}),
            ],
            intercept=model.intercepts.reshape(()),
            shape=[width],
            scores=["rows"],
        )
    else:
        graph = _Graph(
            sums=[("Unsqueeze", ["values", "last"], "wide", {}), ("Mul", ["found", "wide"], "products", {})],
            decision=[("ArgMax", ["scores"], "which", {"axis": 1, "keepdims": 0})],
            intercept=model.intercepts,
            shape=[width, classes],
            scores=["rows", classes],
        )
    places = columns * classes + model.rows[order]
    made = _made(model, graph, places, model.weights[order], name)
    file.write(made.SerializeToString(deterministic=True))


class _Graph(NamedTuple):
    """What differs with the number of classes. Nodes are (operator, inputs, output, attributes)."""

    sums: list[tuple[str, list[str], str, dict[str, Any]]]  # from what was found of the weights to products
    decision: list[tuple[str, list[str], str, dict[str, Any]]]  # from scores to the number of the class
    intercept: NDArray[Any]
    shape: list[int]  # of the weights
    scores: list[Any]


def _made(model: LinearModel, graph: _Graph, places: NDArray[np.int64], weights: NDArray[Any], name: str) -> Any:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise MissingPackageError(
            "ONNX files need the package onnx, which is not installed: pip install 'thinstream[onnx]'"
        ) from None
    dtype, labels = weights.dtype, _labels(model.classes)
    real = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    constants = {
        "before": np.array(-1, dtype=np.int64),
        "slot": np.array(graph.shape[0] - 1, dtype=np.int64),
        "row": np.array([1], dtype=np.int64),
        "last": np.array([2], dtype=np.int64),
        "threshold": np.array(model.threshold, dtype=dtype),
        "intercept": graph.intercept,
        "classes": labels,
        "nothing": np.array(0.0),
        "one": np.array(1.0),
    }
    tables = {"weights": (weights, places, graph.shape)}
    if model.scales is not None:  # 1/m, and 0 where unknown columns lead
        where, scales = model.scales
        width = int(where[-1]) + 2 if len(where) else 1
        constants["last_scale"] = np.array(width - 1, dtype=np.int64)
        tables["rates"] = (1.0 / scales, where, [width])
    sparse = [
        helper.make_sparse_tensor(numpy_helper.from_array(values, key), numpy_helper.from_array(at), shape)
        for key, (values, at, shape) in tables.items()
    ]
    steps = [
        ("Clip", ["indices", "before", "slot"], "places", {}),  # Gather takes -1 as the last, the slot
        ("Gather", ["weights", "places"], "found", {"axis": 0}),
        *graph.sums,
        ("ReduceSum", ["products", "row"], "sums", {"keepdims": 0}),
        *_over_lengths(model, real, TensorProto.DOUBLE),
        ("Add", ["sums" if model.normalize is None else "shares", "intercept"], "scores", {}),
        *graph.decision,
        ("Gather", ["classes", "which"], "labels", {"axis": 0}),
    ]
    used = {each for _, inputs, _, _ in steps for each in inputs}
    kind = helper.np_dtype_to_tensor_dtype(labels.dtype)
    nodes = helper.make_graph(
        [helper.make_node(operator, inputs, [output], **more) for operator, inputs, output, more in steps],
        _utf8(name),
        [
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["rows", "k"]),
            helper.make_tensor_value_info("values", real, ["rows", "k"]),
        ],
        [
            helper.make_tensor_value_info("scores", real, graph.scores),
            helper.make_tensor_value_info("labels", kind, ["rows"]),
        ],
        [numpy_helper.from_array(value, key) for key, value in constants.items() if key in used],
        sparse_initializer=sparse,
    )
    made = helper.make_model(
        nodes, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="thinstream"
    )
    helper.set_model_props(
        made,
        {
            "algorithm": model.algorithm,
            "parameters": json.dumps(model.parameters),
            "classes": json.dumps(model.classes),
            "n_features": str(model.n_features),
            "space": json.dumps(model.feature_space | ({NORMALIZED: model.normalize} if model.normalize else {})),
        },
    )
    return made


def _over_lengths(model: LinearModel, real: int, double: int) -> list[tuple[str, list[str], str, dict[str, Any]]]:
    """From sums to sums over the lengths of their rows."""
    if model.normalize is None:
        return []
    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [("Cast", ["values"], "precise", {"to": double})]
    if model.scales is not None:
        steps += [
            ("Clip", ["indices", "before", "last_scale"], "scale_places", {}),
            ("Gather", ["rates", "scale_places"], "own_rates", {"axis": 0}),
            ("Mul", ["precise", "own_rates"], "scaled", {}),
        ]
    squares = "precise" if model.scales is None else "scaled"
    steps += [
        ("Mul", [squares, squares], "squares", {}),
        ("ReduceSum", ["squares", "row"], "total", {"keepdims": 0 if model.is_binary else 1}),
        ("Sqrt", ["total"], "root", {}),
        ("Greater", ["root", "nothing"], "any", {}),
        ("Where", ["any", "root", "one"], "precise_length", {}),
        ("Cast", ["precise_length"], "length", {"to": real}),
        ("Div", ["sums", "length"], "shares", {}),
    ]
    return steps


def _labels(classes: tuple[Any, ...]) -> NDArray[Any]:
    """The labels as an array ONNX has a type for; text where there is no other."""
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if all(type(label) is kind for label in classes):
            try:
                return np.array(classes, dtype=dtype)
            except OverflowError:
                break
    return np.array([_utf8(str(label)) for label in classes], dtype=object)


def _utf8(text: str) -> str:
    """Text without lone surrogates, which a protobuf cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()
