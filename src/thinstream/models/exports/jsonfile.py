"""A model as one JSON object."""

import json
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from thinstream.models.exports.linear import LinearModel, decimals
from thinstream.models.model import NORMALIZED

EXTENSIONS = (".json",)


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """One object in ASCII: algorithm, parameters, dtype, classes, n_features, intercept, weights and what they mean.

    ``classes`` is [negative, positive], ``indices`` are sorted columns, the first being 0, and ``names`` maps columns
    (as text: JSON has no other keys) to names. ``space`` says how features were numbered: {} by their column, else how
    names were hashed and crossed: weights are for rows prepared like that. Numbers read back to the same bits. A row is
    positive if its score is above ``threshold``, or above 0 where there is none.

    With ``"normalize": "l2"`` in ``space`` a score is the sum of weights times values over the length of the row, plus
    the intercept. Where there are ``scales``, values are divided by those of their columns for that length alone, and
    columns without one are no part of it; a length of 0 counts as 1.

    Of more than two classes, ``classes`` are all, and ``models`` has intercept, indices and weights of each. The class
    of highest score is predicted, the first of several.
    """
    rows = [_row(*row) for row in model.check().each_row()]
    if model.is_binary:
        weights = rows[0]
    else:
        each = (", ".join(f'"{key}": {value}' for key, value in row.items()) for row in rows)
        weights = {"models": "[\n    " + ",\n    ".join(f"{{{row}}}" for row in each) + "\n  ]"}
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
        where, scales = model.scales
        members["scales"] = f'{{"indices": {_json(where.tolist())}, "values": [{", ".join(decimals(scales))}]}}'
    lines = ",\n".join(f'  "{key}": {value}' for key, value in members.items())
    file.write(f"{{\n{lines}\n}}\n".encode("ascii"))


def _row(indices: NDArray[np.int64], weights: NDArray[Any], intercept: Any) -> dict[str, str]:
    return {
        "intercept": decimals(np.array([intercept]))[0],
        "indices": _json(indices.tolist()),
        "weights": f"[{', '.join(decimals(weights))}]",
    }


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
