"""A model as an ES module that needs nothing: for Node, for a page, for a worker at the edge of a network."""

import json
from importlib.resources import files
from typing import Any, BinaryIO

import numpy as np

from thinstream.models.exports.cheader import comment
from thinstream.models.exports.linear import LinearModel, Vector, decimals

EXTENSIONS = (".js", ".mjs")
_PLACE = "thinstream.models.exports"

_HEAD = """\
/* {about}
 *
 *     import {{ score, predict }} from "./{name}";
 *
 * {usage}
 */
"""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """The constant ``MODEL``, and the functions ``score`` and ``predict``, which take one row.

    A row is an array, a ``Map`` from columns (the first is 0) to values, or an object. Of hashed features the object is
    what `decision_function` takes as a dict: names are hashed, texts taken apart, dates and missing cells read, columns
    crossed as the model's stream did it; of a model of one column of text a row may be a text. Of numbered features the
    object has the names that the model has for them.

    ``score`` is a number, or an array of one for each of more than two classes, computed in doubles out of the model's
    weights; ``predict`` is the label, and ``classes`` and ``threshold`` are exported, too. The file is ASCII, and may
    stand inside a page as it is.

    What a word of a text is, and its lower case, is what the engine's version of Unicode says.
    """
    model = model.check()
    hashed = "hashing" in model.feature_space
    facts = {
        "algorithm": _json(model.algorithm),
        "parameters": _json(model.parameters),
        "dtype": _json(model.weights.dtype.name),
        "classes": _json(model.classes),
        "threshold": _json(model.threshold),
        "n_features": _json(model.n_features),
        "intercepts": _numbers(model.intercepts),
        "vectors": "[\n" + ",\n".join(_vector(vector, model.is_binary) for vector in model.vectors) + "\n]",
        # an object would take __proto__ for something else
        **({} if hashed else {"names": _json([[j, model.names[j]] for j in sorted(model.names)])}),
        **({"space": _json(model.feature_space), "columns": _json(model.columns)} if hashed else {}),
    }
    rows = "objects" if hashed else "arrays or Maps from columns to values" + ", or objects" * bool(model.names)
    usage = f"Rows are {rows}. score(row): {'a number' if model.is_binary else 'an array'}; predict(row): the label."
    about = comment(f"thinstream {model.algorithm} {_json(model.parameters)}")
    head = _HEAD.format(about=about, name=comment(f"{name}.js"), usage=usage)
    members = "".join(f"  {key}: {value},\n" for key, value in facts.items())
    code = [_code("scorer.js"), _code("hashed.js" if hashed else "numbered.js")]
    file.write("".join([head, f"const MODEL = {{\n{members}}};\n\n", *code]).encode("ascii"))


def _vector(vector: Vector, is_binary: bool) -> str:
    """Weights by columns; of several classes also where each column's begin, and of which class each is."""
    order = np.lexsort((vector.rows, vector.indices))
    columns, starts = np.unique(vector.indices[order], return_index=True)
    members = {"indices": _json(columns.tolist())}
    if not is_binary:
        members |= {
            "starts": _json([*starts.tolist(), len(order)]),
            "classes": _json(vector.rows[order].tolist()),
        }
    members["weights"] = _numbers(vector.weights[order])
    if vector.normalize:
        members["normalize"] = _json(vector.normalize)
    if vector.scales is not None:
        scales = {"indices": _json(vector.scales.indices.tolist()), "values": _numbers(vector.scales.values)}
        members["scales"] = _object(scales)
    return f"    {_object(members)}"


def _code(name: str) -> str:
    # an escape says the same in every string of the code, and leaves the file in ASCII
    text = files(_PLACE).joinpath(name).read_text("utf-8")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text)


def _object(members: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key}: {value}" for key, value in members.items()) + " }"


def _numbers(numbers: Any) -> str:
    return f"[{', '.join(decimals(numbers))}]"


def _json(value: Any) -> str:
    """JSON, which is JavaScript, too, and ends no element of a page."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
