"""A model as lines of text to look at, sort and grep."""

from typing import BinaryIO

from thinstream.models.exports.linear import LinearModel, Vector, decimals

EXTENSIONS = (".txt", ".tsv")
#: Weights turned into text at a time.
BLOCK = 1 << 16
#: What a score is, where the length of a row is that of values over scales, and where it is not.
_OVER = (
    "the score of a row is its weights times values, over the length of its values over scales, plus the intercept",
    "the score of a row is its weights times values, over the row's length, plus the intercept",
)
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write(model: LinearModel, file: BinaryIO, name: str) -> None:
    r"""Lines ``feature<TAB>weight`` in UTF-8, the largest |weight| first, after a head of lines that begin with ``#``.

    A row is positive if its score is above the head's ``threshold``, or above 0 where there is none.
    Of more than two classes they are ``feature<TAB>class<TAB>weight``, and the head has a line for each intercept.

    A feature is its name, or its column, the first being 0. In names and labels tab, newline, carriage return and
    backslash are written ``\t``, ``\n``, ``\r`` and ``\\``; a name that would read as a column or as a head line has a
    backslash before it, and bytes that were no UTF-8 are ``\udcXX``. Weights read back to the same bits.

    Of a model that normalises rows the head says so. Where the length of a row is that of scaled features, lines
    ``feature<TAB>scale`` follow, after a head line of their own: features without a scale are no part of it. So do, of
    a model of several vectors, the weights of each further kind of rows, whose sums are added to the score.

    >>> import io
    >>> import numpy as np
    >>> file, weights = io.BytesIO(), np.array([0.1, -2.0, 0.5], dtype=np.float32)
    >>> indices, rows, names = np.array([3, 7]), np.array([0, 0]), {3: "offer"}
    >>> classes = ("ham", "spam")
    >>> write(LinearModel("FSOL", {}, classes, 9, indices, rows, weights[:2], weights[2:], names), file, "")
    >>> print(file.getvalue().decode().expandtabs(12), end="")
    # thinstream FSOL: 2 of 9 weights are not zero
    # features without a name are given by their column, the first column is 0
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
        "features without a name are given by their column, the first column is 0",
        *([_OVER[first.scales is None]] if first.normalize else []),
        *facts,
        f"feature\t{column}",
    ]
    _put(file, [f"# {line}" for line in head])
    _put_vector(file, first, tags, model)
    for vector in model.beside:
        _put(file, [f"# added to the score of {vector.words}", f"# feature\t{column}"])
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
        _put(file, ["# feature\tscale in the length of a row"])
        scales = zip(vector.scales.indices.tolist(), decimals(vector.scales.values), strict=True)
        _put(file, [f"{_feature(j, model.names.get(j))}\t{scale}" for j, scale in scales])


def _feature(column: int, name: str | None) -> str:
    if name is None:
        return str(column)
    mistakable = name.startswith("#") or (name.isascii() and name.isdigit())
    return "\\" * mistakable + name.translate(_ESCAPES)


def _put(file: BinaryIO, lines: list[str]) -> None:
    # names decoded from broken bytes hold lone surrogates, which UTF-8 has no place for
    file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
