"""Export to one JSON object."""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.export.linear import LinearModel, Scales, Vector, decimals
from thinstream.models.model import NORMALIZED

EXTENSIONS = (".json",)


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Write one object in ASCII: algorithm, parameters, dtype, classes, n_features, intercept, weights and meaning.

    ``classes`` is [negative, positive], ``indices`` are sorted columns from 0, and ``names`` maps columns (as strings)
    to names. ``space`` is the feature space: {} if features are numbered columns, else how names were hashed and
    crossed, which columns are ``dates``, and how ``missing`` cells are treated (``indicator``: the category ? of their
    column). Rows must be prepared in this way. Numbers are read back bit-identically. A row is positive if its score is
    above ``threshold``, or above 0 if there is none.

    With ``"normalize": "l2"`` in ``space``, a score is the sum of weights times values, divided by the length of the
    row, plus the intercept. If there are ``scales``, values are divided by them only for the length, and columns
    without a scale do not count in it. A length of 0 counts as 1.

    If a model has several vectors, the others are in ``others``, each with its own ``normalize``, ``scales`` and
    weights. Their sums of weights times values, divided by their lengths, are added to the score.

    With ``products``, rows are first extended by products of features: ``features`` lists columns, the first in slot 1.
    The product of two features with slots a ≥ b is column ``first`` + a(a + 1)/2 + b. Squares of values of 1 and
    columns that are not listed are left out. Products have names and weights like features.

    With more than two classes, ``classes`` has all, and ``models`` has the intercept, indices and weights of each. The
    first class with the highest score is predicted.
    """
    rows = [
        {"intercept": decimals(np.array([intercept]))[0], **_row(*row)} for *row, intercept in model.check().each_row()
    ]
    weights = rows[0] if model.is_binary else {"models": _list(map(_object, rows))}
    members = {
        "algorithm": _json(model.algorithm),
        "parameters": _json(model.parameters),
        "dtype": _json(model.weights.dtype.name),
        "classes": _json(model.classes),
        **({"threshold": _json(model.threshold)} if model.threshold else {}),
        "n_features": _json(model.n_inputs),
        **weights,
        "names": _json({str(j): model.names[j] for j in sorted(model.names)}),
        "space": _json(model.feature_space | ({NORMALIZED: model.normalize} if model.normalize else {})),
    }
    if model.products is not None:
        features = _json(model.products.numbers.tolist())
        members["products"] = _object({"first": _json(model.products.base), "features": features})
    if model.scales is not None:
        members["scales"] = _scales(model.scales)
    if model.others:
        members["others"] = _list(_object(_other(vector, model)) for vector in model.others)
    lines = ",\n".join(f'  "{key}": {value}' for key, value in members.items())
    file.write(f"{{\n{lines}\n}}\n".encode("ascii"))


def _other(vector: Vector, model: LinearModel) -> dict[str, str]:
    members = {"normalize": _json(vector.normalize)}
    if vector.scales is not None:
        members["scales"] = _scales(vector.scales)
    rows = [_row(*row) for row in vector.each_row(len(model.intercepts))]
    return members | (rows[0] if model.is_binary else {"models": f"[{', '.join(map(_object, rows))}]"})


def _row(indices: NDArray[np.int64], weights: NDArray[Any]) -> dict[str, str]:
    return {"indices": _json(indices.tolist()), "weights": f"[{', '.join(decimals(weights))}]"}


def _scales(scales: Scales) -> str:
    return _object({"indices": _json(scales.indices.tolist()), "values": f"[{', '.join(decimals(scales.values))}]"})


def _object(members: dict[str, str]) -> str:
    return "{" + ", ".join(f'"{key}": {value}' for key, value in members.items()) + "}"


def _list(entries: Iterable[str]) -> str:
    return "[\n    " + ",\n    ".join(entries) + "\n  ]"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
