"""Export to an ES module without dependencies, for Node, browsers and edge workers."""

import json
from importlib.resources import files
from typing import Any, BinaryIO

import numpy as np

from thinstream.export.formats.c import comment
from thinstream.export.linear import LinearModel, Vector, decimals
from thinstream.models.products import Products

EXTENSIONS = (".js", ".mjs")
_PACKAGE = "thinstream.export.formats"

_HEAD = """\
/* {about}
 *
 *     import {{ score, predict }} from "./{name}";
 *
 * {usage}
 */
"""


_PROBABILITY = """
/** The probability of the second class; with more than two classes, an array with one for each. */
export function probability(row) {
  const scores = scoresOf(columnsOf(row));
  const most = Math.min(Math.max(...scores), 0);
  const parts = scores.map((s) => (s > 0 ? 1 / (1 + Math.exp(-s)) : Math.exp(s - most) / (1 + Math.exp(s))));
  if (IS_BINARY) return scores[0] > 0 ? parts[0] : Math.exp(scores[0]) / (1 + Math.exp(scores[0]));
  const sum = parts.reduce((one, other) => one + other, 0);
  return parts.map((part) => part / sum);
}
"""


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    """Write the constant ``MODEL`` and the functions ``score`` and ``predict``, which take one row.

    A row is an array, a ``Map`` from columns (from 0) to values, or an object. For hashed features, an object is like a
    dict for `decision_function`: names are hashed, text is tokenized, dates and missing cells are read, and columns are
    crossed as in the model's stream. For a model of one text column, a row may be a string. For numbered features, an
    object has the feature names of the model.

    ``score`` returns a number, or an array with one per class for more than two classes, computed in doubles. If scores
    are log-odds, ``probability`` returns the probability of the second class, or an array of all. ``predict`` returns
    the label. ``classes`` and ``threshold`` are also exported. The file is ASCII, and can be embedded in a page.

    Words and their lower case depend on the engine's version of Unicode.
    """
    model = model.check()
    hashed, names = "hashing" in model.feature_space, sorted(model.names.items())
    facts = {
        "algorithm": _json(model.algorithm),
        "parameters": _json(model.parameters),
        "dtype": _json(model.weights.dtype.name),
        "classes": _json(model.classes),
        "threshold": _json(model.threshold),
        "n_features": _json(model.n_inputs),
        "intercepts": _numbers(model.intercepts),
        "vectors": "[\n" + ",\n".join(_vector(vector, model.is_binary) for vector in model.vectors) + "\n]",
        # __proto__ cannot be a key of an object
        **({} if hashed else {"names": _json([[j, name] for j, name in names if j < model.n_inputs])}),
        **({} if model.products is None else {"products": _products(model.products)}),
        **({"space": _json(model.feature_space), "columns": _json(model.columns)} if hashed else {}),
    }
    rows = "objects" if hashed else "arrays or Maps from columns to values" + ", or objects" * bool(model.names)
    number = "a number" if model.is_binary else "an array"
    usage = f"Rows are {rows}. score(row): {number}; predict(row): the label."
    usage += f" probability(row): {number}." if model.has_probabilities else ""
    about = comment(f"thinstream {model.algorithm} {_json(model.parameters)}")
    head = _HEAD.format(about=about, name=comment(f"{name}.js"), usage=usage)
    members = "".join(f"  {key}: {value},\n" for key, value in facts.items())
    code = [
        _code("scorer.js"),
        *([_PROBABILITY] if model.has_probabilities else []),
        _code("hashed.js" if hashed else "numbered.js"),
    ]
    file.write("".join([head, f"const MODEL = {{\n{members}}};\n\n", *code]).encode("ascii"))


def _products(products: Products) -> str:
    """Return the features of products, and the first column of products."""
    return _object({"first": _json(products.base), "features": _json(products.numbers.tolist())})


def _vector(vector: Vector, is_binary: bool) -> str:
    """Return weights by column; for several classes also the start of each column, and the class of each weight."""
    order = np.lexsort((vector.rows, vector.indices))
    columns, starts = np.unique(vector.indices[order], return_index=True)
    members = {"indices": _json(columns.tolist())}
    if not is_binary:
        members |= {"starts": _json([*starts.tolist(), len(order)]), "classes": _json(vector.rows[order].tolist())}
    members["weights"] = _numbers(vector.weights[order])
    if vector.normalize:
        members["normalize"] = _json(vector.normalize)
    if vector.scales is not None:
        scales = {"indices": _json(vector.scales.indices.tolist()), "values": _numbers(vector.scales.values)}
        members["scales"] = _object(scales)
    return f"    {_object(members)}"


def _code(name: str) -> str:
    # escapes are equivalent in all strings of the code, and keep the file in ASCII
    text = files(_PACKAGE).joinpath(name).read_text("utf-8")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text)


def _object(members: dict[str, str]) -> str:
    return "{ " + ", ".join(f"{key}: {value}" for key, value in members.items()) + " }"


def _numbers(numbers: Any) -> str:
    return f"[{', '.join(decimals(numbers))}]"


def _json(value: Any) -> str:
    """Return JSON, which is also JavaScript, and cannot end an element of a page."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
