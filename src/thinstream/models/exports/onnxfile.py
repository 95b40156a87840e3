"""A model as an ONNX graph; needs the package onnx, which is imported here only."""

import json
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import MissingPackageError
from thinstream.models.exports.gallery import Gallery
from thinstream.models.exports.portrait import Portrait

#: The oldest that has every operator in the form used here: the file runs in old runtimes too.
OPSET, IR_VERSION = 13, 7
_INT64 = 7  # as ONNX numbers its types


def write(portrait: Portrait, file: BinaryIO, name: str) -> None:
    """A graph of opset 13 from sparse rows to ``scores`` [rows] and ``labels`` [rows].

    Inputs are ``indices``, int64 [rows, k], columns from 0 on, and ``values`` [rows, k], float, or double for a float64
    model, as are the scores. Shorter rows are padded with value 0. Columns the model does not know count nothing, nor
    do negative ones. A score > 0 is the positive label; labels are int64, bool, double or string, as they were learned.

    The weights are a sparse initialiser that ends at the last non-zero weight; a runtime may unfold it in memory
    (onnxruntime does).
    """
    portrait.check()
    slot = _slot(portrait.indices)
    graph = _Graph(
        sums=[("Mul", ["found", "values"], "products", {})],
        decision=[("Greater", ["scores", "zero"], "positive", {}), ("Cast", ["positive"], "which", {"to": _INT64})],
        intercept=np.array(portrait.intercept, dtype=portrait.weights.dtype),
        indices=portrait.indices,
        weights=portrait.weights,
        shape=[slot + 1],
        scores=["rows"],
    )
    _put(file, _model(portrait, [portrait.negative, portrait.positive], graph, name))


def write_classes(gallery: Gallery, file: BinaryIO, name: str) -> None:
    """The same for more than two classes: ``scores`` is [rows, classes], the label the first of highest score."""
    gallery.check()
    columns, numbers, weights = gallery.flat()
    classes, order = len(gallery.portraits), np.lexsort((numbers, columns))
    graph = _Graph(
        sums=[("Unsqueeze", ["values", "last"], "wide", {}), ("Mul", ["found", "wide"], "products", {})],
        decision=[("ArgMax", ["scores"], "which", {"axis": 1, "keepdims": 0})],
        intercept=gallery.intercepts,
        indices=(columns * classes + numbers)[order],
        weights=weights[order],
        shape=[_slot(columns[order]) + 1, classes],
        scores=["rows", classes],
    )
    _put(file, _model(gallery.first, gallery.classes, graph, name))


class _Graph(NamedTuple):
    """What differs with the number of classes. Nodes are (operator, inputs, output, attributes)."""

    sums: list[tuple[str, list[str], str, dict[str, Any]]]  # from what was found of the weights to products
    decision: list[tuple[str, list[str], str, dict[str, Any]]]  # from scores to the number of the class
    intercept: NDArray[Any]
    indices: NDArray[np.int64]  # of the weights that are not zero, in an array of this shape
    weights: NDArray[Any]
    shape: list[int]  # columns and one slot more, always 0: where unknown columns lead
    scores: list[Any]


def _slot(columns: NDArray[np.int64]) -> int:
    return int(columns[-1]) + 1 if len(columns) else 0


def _put(file: BinaryIO, model: Any) -> None:
    file.write(model.SerializeToString(deterministic=True))


def _model(portrait: Portrait, classes: list[Any], graph: _Graph, name: str) -> Any:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise MissingPackageError(
            "ONNX files need the package onnx, which is not installed: pip install 'thinstream[onnx]'"
        ) from None
    dtype, labels = graph.weights.dtype, _labels(classes)
    real = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    constants = {
        "before": np.array(-1, dtype=np.int64),
        "slot": np.array(graph.shape[0] - 1, dtype=np.int64),
        "row": np.array([1], dtype=np.int64),
        "last": np.array([2], dtype=np.int64),
        "zero": np.array(0, dtype=dtype),
        "intercept": graph.intercept,
        "classes": labels,
    }
    weights = helper.make_sparse_tensor(
        numpy_helper.from_array(graph.weights, "weights"), numpy_helper.from_array(graph.indices), graph.shape
    )
    steps = [
        ("Clip", ["indices", "before", "slot"], "places", {}),  # Gather takes -1 as the last, the slot
        ("Gather", ["weights", "places"], "found", {"axis": 0}),
        *graph.sums,
        ("ReduceSum", ["products", "row"], "sums", {"keepdims": 0}),
        ("Add", ["sums", "intercept"], "scores", {}),
        *graph.decision,
        ("Gather", ["classes", "which"], "labels", {"axis": 0}),
    ]
    used = {each for _, inputs, _, _ in steps for each in inputs}
    kind = helper.np_dtype_to_tensor_dtype(labels.dtype)
    made = helper.make_graph(
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
        sparse_initializer=[weights],
    )
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="thinstream"
    )
    helper.set_model_props(
        model,
        {
            "algorithm": portrait.algorithm,
            "parameters": json.dumps(portrait.parameters),
            "classes": json.dumps(classes),
            "n_features": str(portrait.n_features),
            "space": json.dumps(portrait.feature_space),
        },
    )
    return model


def _labels(classes: list[Any]) -> NDArray[Any]:
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
