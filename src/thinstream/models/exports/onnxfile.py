"""A model as an ONNX graph; needs the package onnx, which is imported here only."""

import json
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import MissingPackageError
from thinstream.models.exports.portrait import Portrait

#: The oldest that has every operator in the form used here: the file runs in old runtimes too.
OPSET, IR_VERSION = 13, 7


def write(portrait: Portrait, file: BinaryIO, name: str) -> None:
    """A graph of opset 13 from sparse rows to ``scores`` [rows] and ``labels`` [rows].

    Inputs are ``indices``, int64 [rows, k], columns from 0 on, and ``values`` [rows, k], float, or double for a float64
    model, as are the scores. Shorter rows are padded with value 0. Columns the model does not know count nothing, nor
    do negative ones. A score > 0 is the positive label; labels are int64, bool, double or string, as they were learned.

    The weights are a sparse initialiser that ends at the last non-zero weight; a runtime may unfold it in memory
    (onnxruntime does).
    """
    file.write(_model(portrait.check(), name).SerializeToString(deterministic=True))


def _model(portrait: Portrait, name: str) -> Any:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise MissingPackageError(
            "ONNX files need the package onnx, which is not installed: pip install 'thinstream[onnx]'"
        ) from None
    dtype = portrait.weights.dtype
    labels = _labels(portrait)
    real = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    # one slot more than weights, always 0: where unknown columns lead
    slot = int(portrait.indices[-1]) + 1 if len(portrait.indices) else 0
    constants = {
        "before": np.array(-1, dtype=np.int64),
        "slot": np.array(slot, dtype=np.int64),
        "row": np.array([1], dtype=np.int64),
        "zero": np.array(0, dtype=dtype),
        "intercept": np.array(portrait.intercept, dtype=dtype),
        "classes": labels,
    }
    weights = helper.make_sparse_tensor(
        numpy_helper.from_array(portrait.weights, "weights"), numpy_helper.from_array(portrait.indices), [slot + 1]
    )
    nodes = [
        helper.make_node("Clip", ["indices", "before", "slot"], ["places"]),  # Gather takes -1 as the last, the slot
        helper.make_node("Gather", ["weights", "places"], ["found"], axis=0),
        helper.make_node("Mul", ["found", "values"], ["products"]),
        helper.make_node("ReduceSum", ["products", "row"], ["sums"], keepdims=0),
        helper.make_node("Add", ["sums", "intercept"], ["scores"]),
        helper.make_node("Greater", ["scores", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["which"], to=TensorProto.INT64),
        helper.make_node("Gather", ["classes", "which"], ["labels"], axis=0),
    ]
    kind = helper.np_dtype_to_tensor_dtype(labels.dtype)
    graph = helper.make_graph(
        nodes,
        _utf8(name),
        [
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["rows", "k"]),
            helper.make_tensor_value_info("values", real, ["rows", "k"]),
        ],
        [
            helper.make_tensor_value_info("scores", real, ["rows"]),
            helper.make_tensor_value_info("labels", kind, ["rows"]),
        ],
        [numpy_helper.from_array(value, key) for key, value in constants.items()],
        sparse_initializer=[weights],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="thinstream"
    )
    helper.set_model_props(
        model,
        {
            "algorithm": portrait.algorithm,
            "parameters": json.dumps(portrait.parameters),
            "classes": json.dumps([portrait.negative, portrait.positive]),
            "n_features": str(portrait.n_features),
            "space": json.dumps(portrait.space),
        },
    )
    return model


def _labels(portrait: Portrait) -> NDArray[Any]:
    """The two labels as an array ONNX has a type for; text where there is no other."""
    pair = (portrait.negative, portrait.positive)
    for kind, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if all(type(label) is kind for label in pair):
            try:
                return np.array(pair, dtype=dtype)
            except OverflowError:
                break
    return np.array([_utf8(str(label)) for label in pair], dtype=object)


def _utf8(text: str) -> str:
    """Text without lone surrogates, which a protobuf cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()
