"""A model as one JSON object."""

import json
from typing import Any, BinaryIO

from thinstream.models.exports.digits import decimal, decimals
from thinstream.models.exports.gallery import Gallery
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
        "space": _json(portrait.feature_space),
    }
    _put(file, members)


def write_classes(gallery: Gallery, file: BinaryIO, name: str) -> None:
    """The same for more than two classes: ``classes`` are all, ``models`` has intercept, indices and weights of each.

    The class of highest score is predicted, the first of several.
    """
    gallery = gallery.check()
    first, dtype = gallery.first, gallery.first.weights.dtype
    models = [
        f'{{"intercept": {decimal(each.intercept, dtype)}, "indices": {_json(each.indices.tolist())}, '
        f'"weights": [{", ".join(decimals(each.weights))}]}}'
        for each in gallery.portraits
    ]
    members = {
        "algorithm": _json(first.algorithm),
        "parameters": _json(first.parameters),
        "dtype": _json(dtype.name),
        "classes": _json(gallery.classes),
        "n_features": _json(first.n_features),
        "models": "[\n    " + ",\n    ".join(models) + "\n  ]",
        "names": _json({str(j): name for j, name in sorted(gallery.names.items())}),
        "space": _json(first.feature_space),
    }
    _put(file, members)


def _put(file: BinaryIO, members: dict[str, str]) -> None:
    lines = ",\n".join(f'  "{key}": {value}' for key, value in members.items())
    file.write(f"{{\n{lines}\n}}\n".encode("ascii"))


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
