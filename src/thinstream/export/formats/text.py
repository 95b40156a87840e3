"""Export to lines of text, to read, sort and grep."""

from typing import BinaryIO

from thinstream.export.linear import LinearModel, Vector, decimals

EXTENSIONS = (".txt", ".tsv")
#: Weights that are converted to text at a time.
BLOCK = 1 << 16
#: The definition of a score, with and without scales.
_OVER = (
    "score = sum of weights times values / length + intercept; values are divided by their scales for the length",
    "score = sum of weights times values / length of the row + intercept",
)
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    r"""Write lines ``feature<TAB>weight`` in UTF-8, the largest |weight| first, after comments that begin with ``#``.

    A row is positive if its score is above the ``threshold`` in the comments, or above 0 if there is none. With more
    than two classes, lines are ``feature<TAB>class<TAB>weight``, and the comments have a line for each intercept.

    A feature is its name, or its column number from 0. In names and labels, tab, newline, carriage return and backslash
    are written ``\t``, ``\n``, ``\r`` and ``\\``. A name that looks like a column number or a comment gets a backslash,
    and bytes that are not UTF-8 are ``\udcXX``. Weights are read back bit-identically.

    If rows are normalized, the comments define the score. If features are scaled for the length of a row, lines
    ``feature<TAB>scale`` follow after another comment; features without a scale do not count in the length. If the
    model has several vectors, the weights of the others follow in the same way, and their sums are added to the score.

    >>> import io
    >>> import numpy as np
    >>> file, weights = io.BytesIO(), np.array([0.1, -2.0, 0.5], dtype=np.float32)
    >>> indices, rows, names = np.array([3, 7]), np.array([0, 0]), {3: "offer"}
    >>> classes = ("ham", "spam")
    >>> write(LinearModel("FSOL", {}, classes, 9, indices, rows, weights[:2], weights[2:], names), file, "")
    >>> print(file.getvalue().decode().expandtabs(12), end="")
    # thinstream FSOL: 2 of 9 weights are not zero
    # features without a name are column numbers, from 0
    # negative  ham
    # positive  spam
    # intercept 0.5
    # feature   weight
    7           -2.0
    offer       0.1
    """
    model, first = model.check(), model.vectors[0]
    labels, intercepts = [str(label).translate(_ESCAPES) for label in model.classes], decimals(model.intercepts)
    if model.is_binary:
        of, tags = "", [""]
        facts = [f"negative\t{labels[0]}", f"positive\t{labels[1]}", f"intercept\t{intercepts[0]}"]
        facts += [f"threshold\t{model.threshold!r}"] if model.threshold else []
        column = "weight"
    else:
        of, tags = f" of {len(labels)} classes", [f"\t{label}" for label in labels]
        facts = [f"intercept{tag}\t{value}" for tag, value in zip(tags, intercepts, strict=True)]
        column = "class\tweight"
    head = [
        f"thinstream {model.algorithm}: {model.nnz} of {model.n_weights} weights{of} are not zero",
        "features without a name are column numbers, from 0",
        *([_OVER[first.scales is None]] if first.normalize else []),
        *(["a × b is the product of two features; squares of values of 1 are left out"] * bool(model.products)),
        *facts,
        f"feature\t{column}",
    ]
    _put(file, [f"# {line}" for line in head])
    _put_vector(file, first, tags, model)
    for vector in model.others:
        _put(file, [f"# further weights, for {vector.words}; their sum is added to the score", f"# feature\t{column}"])
        _put_vector(file, vector, tags, model)


def _put_vector(file: BinaryIO, vector: Vector, tags: list[str], model: LinearModel) -> None:
    order = vector.largest_first()
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        columns, rows, weights = (
            vector.indices[block].tolist(),
            vector.rows[block].tolist(),
            decimals(vector.weights[block]),
        )
        cells = zip(columns, rows, weights, strict=True)
        _put(file, [f"{_feature(j, model.names.get(j))}{tags[k]}\t{weight}" for j, k, weight in cells])
    if vector.scales is not None:
        _put(file, ["# feature\tscale for the length of a row"])
        scales = zip(vector.scales.indices.tolist(), decimals(vector.scales.values), strict=True)
        _put(file, [f"{_feature(j, model.names.get(j))}\t{scale}" for j, scale in scales])


def _feature(column: int, name: str | None) -> str:
    if name is None:
        return str(column)
    mistakable = name.startswith("#") or (name.isascii() and name.isdigit())
    return "\\" * mistakable + name.translate(_ESCAPES)


def _put(file: BinaryIO, lines: list[str]) -> None:
    # names decoded from invalid bytes have lone surrogates, which UTF-8 cannot encode
    file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
