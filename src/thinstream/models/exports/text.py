"""A model as lines of text to look at, sort and grep."""

from typing import BinaryIO

from thinstream.models.exports.digits import decimal, decimals
from thinstream.models.exports.gallery import Gallery
from thinstream.models.exports.portrait import Portrait

#: Weights turned into text at a time.
BLOCK = 1 << 16
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write(portrait: Portrait, file: BinaryIO, name: str) -> None:
    r"""Lines ``feature<TAB>weight`` in UTF-8, the largest |weight| first, after a head of lines that begin with ``#``.

    A feature is its name, or its column, the first being 0. In names and labels tab, newline, carriage return and
    backslash are written ``\t``, ``\n``, ``\r`` and ``\\``; a name that would read as a column or as a head line has a
    backslash before it, and bytes that were no UTF-8 are ``\udcXX``. Weights read back to the same bits.

    >>> import io
    >>> import numpy as np
    >>> file, weights = io.BytesIO(), np.array([0.1, -2.0], dtype=np.float32)
    >>> write(Portrait("FSOL", {}, "ham", "spam", 9, np.array([3, 7]), weights, 0.5, {3: "offer"}), file, "")
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
    portrait = portrait.check()
    head = [
        f"thinstream {portrait.algorithm}: {len(portrait.weights)} of {portrait.n_features} weights are not zero",
        "features without a name are given by their column, the first column is 0",
        f"negative\t{str(portrait.negative).translate(_ESCAPES)}",
        f"positive\t{str(portrait.positive).translate(_ESCAPES)}",
        f"intercept\t{decimal(portrait.intercept, portrait.weights.dtype)}",
        "feature\tweight",
    ]
    _put(file, [f"# {line}" for line in head])
    order = portrait.largest_first()
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        features = [_feature(j, portrait.names.get(j)) for j in portrait.indices[block].tolist()]
        weights = decimals(portrait.weights[block])
        _put(file, [f"{feature}\t{weight}" for feature, weight in zip(features, weights, strict=True)])


def write_classes(gallery: Gallery, file: BinaryIO, name: str) -> None:
    """Lines ``feature<TAB>class<TAB>weight``, the largest |weight| first; the head has a line for each intercept."""
    gallery = gallery.check()
    first, labels = gallery.first, [str(label).translate(_ESCAPES) for label in gallery.classes]
    size = first.n_features * len(labels)
    head = [
        f"thinstream {first.algorithm}: {gallery.nnz} of {size} weights of {len(labels)} classes are not zero",
        "features without a name are given by their column, the first column is 0",
        *(
            f"intercept\t{label}\t{intercept}"
            for label, intercept in zip(labels, decimals(gallery.intercepts), strict=True)
        ),
        "feature\tclass\tweight",
    ]
    _put(file, [f"# {line}" for line in head])
    (columns, numbers, weights), names, order = gallery.flat(), gallery.names, gallery.largest_first()
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        cells = zip(columns[block].tolist(), numbers[block].tolist(), decimals(weights[block]), strict=True)
        _put(file, [f"{_feature(j, names.get(j))}\t{labels[k]}\t{weight}" for j, k, weight in cells])


def _feature(column: int, name: str | None) -> str:
    if name is None:
        return str(column)
    mistakable = name.startswith("#") or (name.isascii() and name.isdigit())
    return "\\" * mistakable + name.translate(_ESCAPES)


def _put(file: BinaryIO, lines: list[str]) -> None:
    # names decoded from broken bytes hold lone surrogates, which UTF-8 has no place for
    file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace"))
