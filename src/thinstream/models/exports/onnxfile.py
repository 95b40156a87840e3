"""A model as an ONNX graph; needs the package onnx, which is imported here only."""

import json
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import MissingPackageError
from thinstream.models.exports.linear import LinearModel, Vector
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
    (onnxruntime does). Where rows are normalised, their lengths are a part of the graph, in double. So are the sums of
    further vectors, where a model has several.
    """
    made = _made(model.check(), name)
    file.write(made.SerializeToString(deterministic=True))


#: A node: operator, inputs, output, attributes.
_Node = tuple[str, list[str], str, dict[str, Any]]


class _Part(NamedTuple):
    """A vector of the model, its nodes ending in ``out``."""

    nodes: list[_Node]
    constants: dict[str, NDArray[Any]]
    tables: dict[str, tuple[NDArray[Any], NDArray[Any], list[int]]]  # values, where they stand, and the shape of all
    out: str

    @classmethod
    def of(cls, vector: Vector, model: LinearModel, prefix: str, real: int, double: int) -> "_Part":
        """The part; names of what is its own begin with the prefix."""
        order, classes = np.lexsort((vector.rows, vector.indices)), len(model.intercepts)
        columns = vector.indices[order]
        width = int(columns[-1]) + 2 if len(columns) else 1  # one slot more, always 0: where unknown columns lead
        places, own = columns * classes + vector.rows[order], dict[str, NDArray[Any]]()
        own[f"{prefix}slot"] = np.array(width - 1, dtype=np.int64)
        tables = {f"{prefix}weights": (vector.weights[order], places, [width] if model.is_binary else [width, classes])}
        if vector.scales is not None:  # 1/m, and 0 where unknown columns lead
            where, scales = vector.scales
            last = int(where[-1]) + 2 if len(where) else 1
            own[f"{prefix}last_scale"] = np.array(last - 1, dtype=np.int64)
            tables[f"{prefix}rates"] = (1.0 / scales, where, [last])
        wide: list[_Node] = [] if model.is_binary else [("Unsqueeze", ["values", "last"], f"{prefix}wide", {})]
        nodes: list[_Node] = [
            ("Clip", ["indices", "before", f"{prefix}slot"], f"{prefix}places", {}),  # Gather takes -1 as the last
            ("Gather", [f"{prefix}weights", f"{prefix}places"], f"{prefix}found", {"axis": 0}),
            *wide,
            ("Mul", [f"{prefix}found", f"{prefix}wide" if wide else "values"], f"{prefix}products", {}),
            ("ReduceSum", [f"{prefix}products", "row"], f"{prefix}sums", {"keepdims": 0}),
            *_over_lengths(vector, model.is_binary, prefix, real, double),
        ]
        return cls(nodes, own, tables, nodes[-1][2])


def _made(model: LinearModel, name: str) -> Any:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise MissingPackageError(
            "ONNX files need the package onnx, which is not installed: pip install 'thinstream[onnx]'"
        ) from None
    dtype, labels, classes = model.weights.dtype, _labels(model.classes), len(model.intercepts)
    real = TensorProto.FLOAT if dtype == np.float32 else TensorProto.DOUBLE
    constants = {
        "before": np.array(-1, dtype=np.int64),
        "row": np.array([1], dtype=np.int64),
        "last": np.array([2], dtype=np.int64),
        "threshold": np.array(model.threshold, dtype=dtype),
        "intercept": model.intercepts.reshape(()) if model.is_binary else model.intercepts,
        "classes": labels,
        "nothing": np.array(0.0),
        "one": np.array(1.0),
    }
    parts = [
        _Part.of(vector, model, f"vector_{k}_" if k else "", real, TensorProto.DOUBLE)
        for k, vector in enumerate(model.vectors)
    ]
    sparse = [
        helper.make_sparse_tensor(numpy_helper.from_array(values, key), numpy_helper.from_array(at), shape)
        for part in parts
        for key, (values, at, shape) in part.tables.items()
    ]
    steps, score = list(parts[0].nodes), parts[0].out
    for k, part in enumerate(parts[1:], 1):
        steps += [*part.nodes, ("Add", [score, part.out], f"sums_{k}", {})]
        score = f"sums_{k}"
    decision: list[_Node] = [("ArgMax", ["scores"], "which", {"axis": 1, "keepdims": 0})]
    if model.is_binary:
        above: _Node = ("Greater", ["scores", "threshold"], "positive", {})
        decision = [above, ("Cast", ["positive"], "which", {"to": _INT64})]
    steps += [
        ("Add", [score, "intercept"], "scores", {}),
        *decision,
        ("Gather", ["classes", "which"], "labels", {"axis": 0}),
    ]
    for part in parts:
        constants |= part.constants
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
            helper.make_tensor_value_info("scores", real, ["rows"] if model.is_binary else ["rows", classes]),
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


def _over_lengths(vector: Vector, is_binary: bool, prefix: str, real: int, double: int) -> list[_Node]:
    """From sums to sums over the lengths of their rows."""
    if vector.normalize is None:
        return []
    steps: list[_Node] = [("Cast", ["values"], f"{prefix}precise", {"to": double})]
    if vector.scales is not None:
        steps += [
            ("Clip", ["indices", "before", f"{prefix}last_scale"], f"{prefix}scale_places", {}),
            ("Gather", [f"{prefix}rates", f"{prefix}scale_places"], f"{prefix}own_rates", {"axis": 0}),
            ("Mul", [f"{prefix}precise", f"{prefix}own_rates"], f"{prefix}scaled", {}),
        ]
    squares = f"{prefix}precise" if vector.scales is None else f"{prefix}scaled"
    return [
        *steps,
        ("Mul", [squares, squares], f"{prefix}squares", {}),
        ("ReduceSum", [f"{prefix}squares", "row"], f"{prefix}total", {"keepdims": 0 if is_binary else 1}),
        ("Sqrt", [f"{prefix}total"], f"{prefix}root", {}),
        ("Greater", [f"{prefix}root", "nothing"], f"{prefix}any", {}),
        ("Where", [f"{prefix}any", f"{prefix}root", "one"], f"{prefix}precise_length", {}),
        ("Cast", [f"{prefix}precise_length"], f"{prefix}length", {"to": real}),
        ("Div", [f"{prefix}sums", f"{prefix}length"], f"{prefix}shares", {}),
    ]


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
