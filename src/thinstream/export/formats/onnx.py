"""Export to an ONNX graph. This is the only module that imports onnx."""

import json
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import MissingPackageError, install
from thinstream.export.linear import LinearModel, Vector
from thinstream.models.model import NORMALIZED
from thinstream.models.products import Products

EXTENSIONS = (".onnx",)
#: The oldest versions that have all operators in the form used here, so that files run in old runtimes.
OPSET, IR_VERSION = 13, 7
_INT64 = 7  # ONNX's number of the type


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Write a graph of opset 13 from sparse rows to ``scores`` [rows] and ``labels`` [rows].

    Inputs are ``indices``, int64 [rows, k], with columns from 0, and ``values`` [rows, k], float, or double for a
    float64 model, like the scores. Shorter rows are padded with value 0. Unknown and negative columns are ignored. A
    score above the model's threshold gives the positive label. Labels are int64, bool, double or string, as in
    training. If scores are log-odds, there are also ``probabilities`` [rows, classes], double. With more than two
    classes, ``scores`` is [rows, classes], and the label is the first with the highest score.

    The property ``space`` describes the columns in JSON: rows must be hashed and crossed accordingly.

    The weights are a sparse initializer that ends at the last non-zero weight. A runtime such as onnxruntime may
    convert it to a dense array. If rows are normalized, the graph computes their lengths in double. If a model has
    several vectors, the graph adds their sums.
    """
    graph = _graph(model.check(), name)
    file.write(graph.SerializeToString(deterministic=True))


def inputs_of(model: LinearModel) -> str:
    """Describe the inputs of the graph."""
    text = (
        "inputs: indices (int64) and values, each rows × k, with the non-zeros of each row. Shorter rows are padded "
        "with value 0"
    )
    if "hashing" not in model.feature_space:
        return f"{text}. Columns count from 0"
    return (
        f"{text}. The model has named features, and indices are their hashed numbers. ONNX has no operator that hashes "
        "text, so the graph cannot read the columns of a table. To score them, export to .js, .h or --format sql_table"
    )


#: A node: operator, inputs, output, attributes.
_Node = tuple[str, list[str], str, dict[str, Any]]


class _Part(NamedTuple):
    """A vector of the model. Its nodes end in ``out``."""

    nodes: list[_Node]
    constants: dict[str, NDArray[Any]]
    tables: dict[str, tuple[NDArray[Any], NDArray[Any], list[int]]]  # values, their positions, and the whole shape
    out: str

    @classmethod
    def of(cls, vector: Vector, model: LinearModel, prefix: str, real: int, double: int) -> "_Part":
        """Create the part; its own names begin with the prefix."""
        order, classes = np.lexsort((vector.rows, vector.indices)), len(model.intercepts)
        columns = vector.indices[order]
        width = int(columns[-1]) + 2 if len(columns) else 1  # with one more slot for unknown columns, always 0
        positions, own = columns * classes + vector.rows[order], dict[str, NDArray[Any]]()
        own[f"{prefix}slot"] = np.array(width - 1, dtype=np.int64)
        tables = {
            f"{prefix}weights": (vector.weights[order], positions, [width] if model.is_binary else [width, classes])
        }
        if vector.scales is not None:  # 1/m, and 0 for unknown columns
            where, scales = vector.scales
            last = int(where[-1]) + 2 if len(where) else 1
            own[f"{prefix}last_scale"] = np.array(last - 1, dtype=np.int64)
            tables[f"{prefix}rates"] = (1.0 / scales, where, [last])
        wide: list[_Node] = [] if model.is_binary else [("Unsqueeze", ["values", "last"], f"{prefix}wide", {})]
        nodes: list[_Node] = [
            (
                "Clip",
                ["indices", "before", f"{prefix}slot"],
                f"{prefix}places",
                {},
            ),  # Gather reads -1 as the last position
            ("Gather", [f"{prefix}weights", f"{prefix}places"], f"{prefix}found", {"axis": 0}),
            *wide,
            ("Mul", [f"{prefix}found", f"{prefix}wide" if wide else "values"], f"{prefix}products", {}),
            ("ReduceSum", [f"{prefix}products", "row"], f"{prefix}sums", {"keepdims": 0}),
            *_over_lengths(vector, model.is_binary, prefix, real, double),
        ]
        return cls(nodes, own, tables, nodes[-1][2])


def _graph(model: LinearModel, name: str) -> Any:
    try:
        from onnx import TensorProto, helper, numpy_helper
    except ImportError:
        raise MissingPackageError(f"ONNX files need the package onnx: {install('onnx')}") from None
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
        "least": np.array(1e-300),
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
    before: list[_Node] = []
    if model.products is not None:
        nodes, more, (values, at, shape) = _products(model.products, real)
        before, constants = nodes, constants | more
        sparse.append(
            helper.make_sparse_tensor(numpy_helper.from_array(values, "slots"), numpy_helper.from_array(at), shape)
        )
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
    outputs = [
        helper.make_tensor_value_info("scores", real, ["rows"] if model.is_binary else ["rows", classes]),
        helper.make_tensor_value_info("labels", helper.np_dtype_to_tensor_dtype(labels.dtype), ["rows"]),
    ]
    if model.has_probabilities:
        steps += _probabilities(model.is_binary, TensorProto.DOUBLE)
        both: list[str | int | None] = ["rows", len(model.classes)]
        outputs.append(helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, both))
    for part in parts:
        constants |= part.constants
    if before:  # all other nodes get the products
        wide = {"indices": "all_indices", "values": "all_values"}
        steps = [(op, [wide.get(name, name) for name in inputs], out, more) for op, inputs, out, more in steps]
        steps = [*before, *steps]
    used = {name for _, inputs, _, _ in steps for name in inputs}
    nodes = helper.make_graph(
        [helper.make_node(operator, inputs, [output], **more) for operator, inputs, output, more in steps],
        _utf8(name),
        [
            helper.make_tensor_value_info("indices", TensorProto.INT64, ["rows", "k"]),
            helper.make_tensor_value_info("values", real, ["rows", "k"]),
        ],
        outputs,
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
            "n_features": str(model.n_inputs),
            "space": json.dumps(model.feature_space | ({NORMALIZED: model.normalize} if model.normalize else {})),
        },
    )
    return made


def _products(products: Products, real: int) -> tuple[list[_Node], dict[str, NDArray[Any]], Any]:
    """Return nodes that add products of features to rows; constants; and the table of slots, 0 for unknown columns.

    The product of two features with slots a ≥ b is column first + a(a + 1)/2 + b. Squares of 1 are left out.
    """
    numbers = products.numbers
    order, last = np.argsort(numbers), int(numbers.max()) + 2
    table = (np.arange(1, len(numbers) + 1, dtype=np.float32)[order], numbers[order], [last])
    constants = {
        "last_slot": np.array(last - 1, dtype=np.int64),
        "across": np.array([1], dtype=np.int64),
        "along": np.array([2], dtype=np.int64),
        "first_product": np.array(products.base, dtype=np.int64),
        "no_slot": np.array(0, dtype=np.int64),
        "one_slot": np.array(1, dtype=np.int64),
        "two_slots": np.array(2, dtype=np.int64),
    }
    steps: list[_Node] = [
        ("Clip", ["indices", "before", "last_slot"], "slot_places", {}),
        ("Gather", ["slots", "slot_places"], "real_slots", {"axis": 0}),
        ("Cast", ["real_slots"], "own_slots", {"to": _INT64}),
        ("Unsqueeze", ["own_slots", "along"], "a", {}),
        ("Unsqueeze", ["own_slots", "across"], "b", {}),
        ("Unsqueeze", ["values", "along"], "x_a", {}),
        ("Unsqueeze", ["values", "across"], "x_b", {}),
        ("Mul", ["x_a", "x_b"], "every_product", {}),
        ("Greater", ["a", "b"], "is_larger", {}),
        ("Equal", ["a", "b"], "is_square", {}),
        ("Cast", ["one"], "real_one", {"to": real}),
        ("Equal", ["x_a", "real_one"], "is_one", {}),
        ("Not", ["is_one"], "is_not_one", {}),
        ("And", ["is_square", "is_not_one"], "is_new_square", {}),
        ("Or", ["is_larger", "is_new_square"], "is_product", {}),
        ("Greater", ["b", "no_slot"], "is_known", {}),
        ("And", ["is_product", "is_known"], "is_kept", {}),
        ("Cast", ["is_kept"], "kept", {"to": real}),
        ("Mul", ["every_product", "kept"], "wide_products", {}),
        ("Add", ["a", "one_slot"], "a_and_one", {}),
        ("Mul", ["a", "a_and_one"], "twice", {}),
        ("Div", ["twice", "two_slots"], "triangle", {}),
        ("Add", ["triangle", "b"], "pair", {}),
        ("Add", ["pair", "first_product"], "wide_columns", {}),
        ("Flatten", ["wide_products"], "more_values", {"axis": 1}),
        ("Flatten", ["wide_columns"], "more_indices", {"axis": 1}),
        ("Greater", ["own_slots", "no_slot"], "is_feature", {}),
        ("Where", ["is_feature", "indices", "before"], "features", {}),
        ("Concat", ["features", "more_indices"], "all_indices", {"axis": 1}),
        ("Concat", ["values", "more_values"], "all_values", {"axis": 1}),
    ]
    return steps, constants, table


def _over_lengths(vector: Vector, is_binary: bool, prefix: str, real: int, double: int) -> list[_Node]:
    """Return nodes that divide sums by the lengths of their rows."""
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


def _probabilities(is_binary: bool, double: int) -> list[_Node]:
    """From scores that are log-odds to probabilities, computed as logarithms."""
    if is_binary:
        return [
            ("Unsqueeze", ["scores", "row"], "column", {}),
            ("Cast", ["column"], "log_odds", {"to": double}),
            ("Neg", ["log_odds"], "negative_odds", {}),
            ("Concat", ["negative_odds", "log_odds"], "both_odds", {"axis": 1}),
            ("Sigmoid", ["both_odds"], "probabilities", {}),
        ]
    return [
        ("Cast", ["scores"], "log_odds", {"to": double}),
        ("Sigmoid", ["log_odds"], "each_probability", {}),
        ("Max", ["each_probability", "least"], "possible", {}),
        ("Log", ["possible"], "logarithms", {}),
        ("Min", ["log_odds", "logarithms"], "safe_logarithms", {}),
        ("Softmax", ["safe_logarithms"], "probabilities", {"axis": 1}),
    ]


def _labels(classes: tuple[Any, ...]) -> NDArray[Any]:
    """The labels as an array with an ONNX type, or else as strings."""
    for label_type, dtype in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if all(type(label) is label_type for label in classes):
            try:
                return np.array(classes, dtype=dtype)
            except OverflowError:
                break
    return np.array([_utf8(str(label)) for label in classes], dtype=object)


def _utf8(text: str) -> str:
    """Text without lone surrogates, which a protobuf cannot hold."""
    return text.encode("utf-8", "backslashreplace").decode()
