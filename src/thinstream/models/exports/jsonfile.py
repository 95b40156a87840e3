"""A model as one JSON object."""

import json
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.models.exports.linear import LinearModel, Scales, Vector, decimals
from thinstream.models.model import NORMALIZED

EXTENSIONS = (".json",)


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """One object in ASCII: algorithm, parameters, dtype, classes, n_features, intercept, weights and what they mean.

    ``classes`` is [negative, positive], ``indices`` are sorted columns, the first being 0, and ``names`` maps columns
    (as text: JSON has no other keys) to names. ``space`` says how features were numbered: {} by their column, else how
    names were hashed and crossed, which columns are ``dates`` and what ``missing`` cells are (``indicator``: the
    category ? of their column): weights are for rows prepared like that. Numbers read back to the same bits. A row is
    positive if its score is above ``threshold``, or above 0 where there is none.

    With ``"normalize": "l2"`` in ``space`` a score is the sum of weights times values over the length of the row, plus
    the intercept. Where there are ``scales``, values are divided by those of their columns for that length alone, and
    columns without one are no part of it; a length of 0 counts as 1.

    A model of several vectors has the others in ``beside``, each with ``normalize``, ``scales`` and weights of its own,
    which say for themselves how rows are prepared: sums of weights times values, over that length, are added to the
    score.

    Of more than two classes, ``classes`` are all, and ``models`` has intercept, indices and weights of each. The class
    of highest score is predicted, the first of several.
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
        "n_features": _json(model.n_features),
        **weights,
        "names": _json({str(j): model.names[j] for j in sorted(model.names)}),
        "space": _json(model.feature_space | ({NORMALIZED: model.normalize} if model.normalize else {})),
    }
    if model.scales is not None:
        members["scales"] = _scales(model.scales)
    if model.beside:
        members["beside"] = _list(_object(_beside(vector, model)) for vector in model.beside)
    lines = ",\n".join(f'  "{key}": {value}' for key, value in members.items())
    file.write(f"{{\n{lines}\n}}\n".encode("ascii"))


def _beside(vector: Vector, model: LinearModel) -> dict[str, str]:
    found = {"normalize": _json(vector.normalize)}
    if vector.scales is not None:
        found["scales"] = _scales(vector.scales)
    rows = [_row(*row) for row in vector.each_row(len(model.intercepts))]
    return found | (rows[0] if model.is_binary else {"models": f"[{', '.join(map(_object, rows))}]"})


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
