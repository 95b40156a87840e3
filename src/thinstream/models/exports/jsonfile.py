"""A model as one JSON object."""

import json
from typing import Any, BinaryIO

from thinstream.models.exports.digits import decimal, decimals
from thinstream.models.exports.portrait import Portrait


def write(portrait: Portrait, file: BinaryIO, name: str) -> None:
    """One object in ASCII: algorithm, parameters, dtype, classes, n_features, intercept, weights and what they mean.

    ``classes`` is [negative, positive], ``indices`` are sorted columns, the first being 0, and ``names`` maps columns
    (as text: JSON has no other keys) to names. ``space`` says how features were numbered: {} by their column, else how
    names were hashed and rows scaled. Numbers read back to the same bits.
    """
    portrait = portrait.check()
    members = {
        "algorithm": _json(portrait.algorithm),
        "parameters": _json(portrait.parameters),
        "dtype": _json(portrait.weights.dtype.name),
        "classes": _json([portrait.negative, portrait.positive]),
        "n_features": _json(portrait.n_features),
        "intercept": decimal(portrait.intercept, portrait.weights.dtype),
        "indices": _json(portrait.indices.tolist()),
        "weights": f"[{', '.join(decimals(portrait.weights))}]",
        "names": _json({str(j): portrait.names[j] for j in sorted(portrait.names)}),
        "space": _json(portrait.space),
    }
    lines = ",\n".join(f'  "{key}": {value}' for key, value in members.items())
    file.write(f"{{\n{lines}\n}}\n".encode("ascii"))


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
