"""Data that is in memory already, as streams: matrices, frames, and dicts."""

import inspect
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError, InvalidParameterError, meant, near
from thinstream.streams.class_book import label_of
from thinstream.streams.crossing.declared import require_columns
from thinstream.streams.looking.classes import classes_in
from thinstream.streams.looking.tables import RECORDS, declared_in
from thinstream.streams.options import LOOK, WORDING, Options
from thinstream.streams.stream import START
from thinstream.streams.tables.cells import (
    CELLS,
    Hasher,
    RowStream,
    rows_of,
    sparse_values,
    weights_of,
)
from thinstream.streams.tables.columns import Column
from thinstream.streams.tables.records import Records
from thinstream.streams.tables.texts import Csr, Texts
from thinstream.streams.text.hashing import Hashing, Numbering

_Rows = Callable[[int, int], Csr]
_SAMPLE = 1000  # rows a fingerprint looks at
#: What `from_memory` takes for columns of frames and keys of dicts.
_OF_COLUMNS = ("text", *WORDING, "numeric", "categorical", "dates")


def from_memory(
    X: Any,
    y: Any = None,
    weights: Any = None,
    *,
    hasher: Hasher | Hashing | None = None,
    classes: Sequence[Any] | None = None,
    grow_classes: bool = False,
    dtype: str = "float32",
    rows_per_batch: int = 1 << 16,
    cross: Sequence[Sequence[str]] = (),
    missing: str = "indicator",
    look: int = LOOK,
    **texts: Any,
) -> "Memory | Records":
    """A stream of what is in memory.

    Parameters
    ----------
    X : sparse matrix, array, frame of pandas or polars, or dicts
        Features are numbered by the place of their column. In a frame with a ``hasher`` they are hashed by name
        instead, and text, categories (``column=text``) and times are allowed. Dicts (`Records`) need a hasher.
    y : sequence
        Labels: numbers, booleans, texts, or whatever ``classes`` names. Dicts come with theirs, in pairs.
    weights : sequence of float
        Importance of the rows.
    hasher : Hasher
        Numbers features by their names.
    classes : (negative, positive), or more
        The two labels. None: they are found, as in files, in ``y`` or the first dicts of a list; else labels are
        numbers, positive above 0.
    grow_classes : bool
        Whether classes are found as they come, those of ``classes`` first.
    dtype : {"float32", "float64"}
        Type of the values; sparse matrices of that type are not copied.
    rows_per_batch : int
        Most rows of a batch.
    cross : list of tuples of names
        Columns of a frame, or keys of dicts, to be crossed, as ``[("user", "item")]``: their products are features,
        too (docs/recipes/crosses.md). Needs a `Numbering` for a hasher.
    missing : {"indicator", "ignore", "error", "as-is"}
        What nulls, NaN and words like NA are where features have names: the feature ``column=?``, no feature, an error,
        or what they are (nulls nothing, NaN an error, words categories). A key that a dict does not have is no feature.
    look : int
        Labels looked at to find classes, and of a frame with a `Numbering` rows to find texts and dates; 0: none.
    **texts
        Columns (or keys of dicts) of ``text``, and how they are taken apart (``ngrams``, ``chars``, ``lower``,
        ``stop``, ``binary``); of frames also ``numeric``, ``categorical`` and ``dates``: see `Options`. Needs a
        `Numbering`.

    Examples
    --------
    >>> import numpy as np
    >>> stream = from_memory(np.array([[0, 2], [3, 0]]), ["no", "yes"], classes=("no", "yes"))
    >>> [(batch.indices.tolist(), batch.values.tolist(), batch.y.tolist()) for batch in stream.batches()]
    [([1, 0], [2.0, 3.0], [-1, 1])]

    """
    _require_known(texts)
    found = classes
    if classes is None and look and not grow_classes:
        found = _classes_in(X if y is None else y, look, pairs=y is None)
    shared: dict[str, Any] = {
        "classes": found,
        "grow_classes": grow_classes,
        "dtype": dtype,
        "rows_per_batch": rows_per_batch,
        "cross": cross,
        "missing": missing,
        **texts,
    }
    if isinstance(hasher, Hashing):
        hasher = Numbering(hasher)
    if look and _is_frame(X) and isinstance(hasher, Numbering):
        shared |= _kinds_in(X, look, texts)
    if not hasattr(X, "shape") and not _is_nested(X):
        if y is not None or weights is not None:
            raise InvalidInputError("dicts come with their labels and weights: (dict, label) or (dict, label, weight)")
        stream: Memory | Records = Records(X, hasher, **shared)
    else:
        stream = Memory(X, y, weights, hasher=hasher, **shared)
    stream.finds_classes = found is not classes
    return stream


def _require_known(given: Mapping[str, Any]) -> None:
    """Raises where an option is none of `from_memory`."""
    for name in given:
        if name not in _OF_COLUMNS:
            known = inspect.getfullargspec(from_memory).kwonlyargs
            raise InvalidParameterError(
                f"from_memory has no option {name!r}; {meant(name, [*known, *_OF_COLUMNS])}; labels and weights "
                "of rows are y and weights: from_memory(X, y, weights)"
            )


def _classes_in(labels: Any, look: int, *, pairs: bool) -> tuple[Any, ...] | None:
    """Classes found in labels, or in pairs of dicts and labels; None of what can be gone through only once."""
    if pairs:
        given = labels[:look] if isinstance(labels, list | tuple) else ()
        labels = [record[1] for record in given if isinstance(record, tuple) and len(record) > 1]
    else:
        array = np.asarray(labels, dtype=object) if isinstance(labels, list | tuple) else np.asarray(labels)
        labels = (array if array.dtype.kind == "O" else np.unique(array)).reshape(-1).tolist()
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    there = [label for label in plain if label is not None and label == label]
    if not all(isinstance(label, str | int | float) for label in there):
        return None
    return classes_in(Counter(label_of(label) if isinstance(label, float) else label for label in there))


def _is_frame(X: Any) -> bool:
    """Of pandas or polars, neither of which is imported."""
    return hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "get_columns"))


def _kinds_in(X: Any, look: int, told: dict[str, Any]) -> dict[str, Any]:
    """What columns of a frame are found to be, beside what is told of them."""
    few = X[: min(look, RECORDS)]
    rows = (
        few.to_dicts() if hasattr(few, "to_dicts") else few.astype(object).where(few.notna(), None).to_dict("records")
    )
    records = [{str(name): value for name, value in row.items()} for row in rows]
    said: dict[str, Any] = {name: tuple(told.get(name, ())) for name in ("text", "numeric", "categorical", "dates")}
    return declared_in(Options(label="", **said), records, len(rows) == len(X))[0]


def _is_nested(X: Any) -> bool:
    """Whether it is a list of rows, themselves lists of numbers."""
    return isinstance(X, list | tuple) and len(X) > 0 and (isinstance(X[0], list) or hasattr(X[0], "shape"))


class Memory(RowStream):
    """A matrix or frame as a stream; see `from_memory`."""

    def __init__(self, X: Any, y: Any = None, weights: Any = None, **shared: Any) -> None:
        super().__init__(**shared)
        hasher = self.hasher
        self._rows, self.size, width = _source(X, self)
        self.n_features = width if hasher is None else hasher.width
        if not hasattr(X, "tocsr"):
            self.rows_per_batch = min(self.rows_per_batch, max(CELLS // max(width, 1), 1))
        self.feature_columns = [str(name) for name in X.columns] if hasher is not None else []
        self._y = None if y is None else self.coded(_labels(y, self.size), "y")
        self._weights = None if weights is None else weights_of(_vector(weights, self.size, "weights"), "weights")

    @property
    def remembered(self) -> dict[str, Any]:
        """What a model file keeps of how a frame was read."""
        found = self.kinds._asdict() if self.hasher is not None else {}
        return {kind: [*found[kind]] for kind in ("numeric", "dates") if found.get(kind)}

    def fingerprint(self) -> dict[str, Any]:
        """Shape, and a checksum of the first rows."""
        head = self._batch(0, min(_SAMPLE, self.size))
        found = 0
        for array in (head.indptr, head.indices, head.values, head.y, head.weights):
            if array is not None:
                found = zlib.crc32(np.ascontiguousarray(array).data, found)
        return {"kind": "memory", "rows": self.size, "width": self.n_features, "head": found}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start.row`` on, any row."""
        if not 0 <= start.row <= self.size:
            raise InvalidInputError(f"X has {self.size} rows, cannot go on from row {start.row}")
        return (
            self._batch(first, min(first + self.rows_per_batch, self.size))
            for first in range(start.row, self.size, self.rows_per_batch)
        )

    def _batch(self, first: int, end: int) -> Batch:
        rows, chosen = self._rows(first, end), slice(first, end)
        y = None if self._y is None else self._y[chosen]
        weights = None if self._weights is None else self._weights[chosen]
        return replace(rows.batch(y, weights, first), position=Position(offset=end, row=end))


def _labels(given: Any, n: int) -> NDArray[Any]:
    """A list of labels of several kinds must not become one of texts."""
    mixed = isinstance(given, list | tuple) and len({isinstance(label, str) for label in given}) > 1
    return _vector(np.array(given, dtype=object) if mixed else given, n, "labels")


def _vector(given: Any, n: int, what: str) -> NDArray[Any]:
    found = np.asarray(given)
    if found.shape != (n,):
        raise InvalidInputError(f"X has {n} rows and needs as many {what}, got an array of shape {found.shape}")
    return found


def _source(X: Any, stream: RowStream) -> tuple[_Rows, int, int]:
    """A function that gives rows first to end, how many there are, and their columns."""
    hasher, dtype = stream.hasher, stream.dtype
    if _is_frame(X):
        n, width = X.shape
        require_columns(stream.crosses.wanted, [str(name) for name in X.columns], "X")
        if unknown := [name for name in stream.texts.names if name not in [*map(str, X.columns)]]:
            raise InvalidInputError(f"X: text: there is no column {unknown[0]!r}{near(unknown[0], X.columns, '; ')}")

        def from_frame(first: int, end: int) -> Csr:
            return rows_of(_frame_columns(X, first, end, stream.texts.names), end - first, stream, "X", first)

        return from_frame, n, width
    if hasher is not None:
        raise InvalidInputError("a hasher needs names: X must be a frame or dicts, got a matrix without names")
    if hasattr(X, "tocsr"):
        matrix = X.tocsr()
        width = int(matrix.shape[1])

        def from_csr(first: int, end: int) -> Csr:
            kept = slice(matrix.indptr[first], matrix.indptr[end])
            pointers = np.asarray(matrix.indptr[first : end + 1] - kept.start, dtype=np.int64)
            values = sparse_values(matrix.data[kept], dtype, pointers, matrix.indices[kept], "X", first)
            return Csr(pointers, matrix.indices[kept], values, width)

        return from_csr, len(matrix.indptr) - 1, width
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        allowed = "a matrix of numbers, a sparse matrix, a frame or dicts"
        raise InvalidInputError(f"X must be {allowed}, got {array.ndim} dimensions of {array.dtype}")

    def from_dense(first: int, end: int) -> Csr:
        part = array[first:end]
        rows, columns = np.nonzero(part)  # NaN counts as non-zero
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=end - first))]).astype(np.int64)
        values = sparse_values(part[rows, columns], dtype, indptr, columns, "X", first)
        return Csr(indptr, columns.astype(np.int32), values, array.shape[1])

    return from_dense, array.shape[0], array.shape[1]


def _frame_columns(X: Any, first: int, end: int, texts: Sequence[str]) -> list[Column]:
    """The columns of a frame, from row ``first`` to ``end``."""
    if hasattr(X, "iloc"):
        named = [(str(X.columns[j]), X.iloc[first:end, j]) for j in range(X.shape[1])]
        return [_texts(name, series.tolist()) if name in texts else _pandas(name, series) for name, series in named]
    columns = X[first:end].get_columns()
    return [_texts(each.name, each.to_list()) if each.name in texts else _polars(each) for each in columns]


def _texts(name: str, cells: list[Any]) -> Column:
    """Cells of text; what is missing is an empty one."""
    texts = ["" if cell is None or cell != cell else cell for cell in cells]
    for cell in texts:
        if not isinstance(cell, str):
            raise InvalidInputError(f"X: column {name!r} is named as text, so it must hold text, got {cell!r}")
    return Column(name, texts=Texts.of(name, texts))


def _pandas(name: str, series: Any) -> Column:
    """A series of pandas."""
    kind = series.dtype.kind
    if hasattr(series, "cat"):
        return _category_column(name, series.cat.codes.to_numpy(), series.cat.categories)
    if kind in "biuf":
        if isinstance(series.dtype, np.dtype):
            return Column(name, numbers=series.to_numpy())
        present = ~series.isna().to_numpy()
        return Column(name, numbers=series.to_numpy(dtype=np.float64, na_value=0.0), present=present)
    if kind == "M":
        return Column(name, times=series.to_numpy(dtype="M8[s]"))
    if kind not in "OU":
        raise _unknown(name, series.dtype)
    codes, categories = series.factorize()
    return _category_column(name, codes, categories)


def _polars(series: Any) -> Column:
    name, kind, word = series.name, series.dtype, str(series.dtype).split("(")[0]
    if kind.is_numeric() or word == "Boolean":
        present = series.is_not_null().to_numpy()
        filled = series.fill_null(False if word == "Boolean" else 0)
        return Column(name, numbers=filled.to_numpy().astype(float, copy=False), present=present)
    if word in ("Date", "Datetime"):
        return Column(name, times=series.to_numpy().astype("M8[s]"), by_day=word == "Date")
    if word not in ("String", "Categorical", "Enum", "Null"):
        raise _unknown(name, kind)
    codes = np.full(len(series), -1)
    categories, codes[series.is_not_null().to_numpy()] = np.unique(
        series.drop_nulls().cast(str).to_numpy(), return_inverse=True
    )
    return _category_column(name, codes, categories)


def _category_column(name: str, codes: Any, categories: Any) -> Column:
    texts = list(categories)
    for text in texts:
        if not isinstance(text, str):
            raise InvalidInputError(f"X: column {name!r} must hold numbers or text, got {text!r}")
    return Column(name, codes=codes, categories=texts)


def _unknown(name: str, kind: Any) -> InvalidInputError:
    return InvalidInputError(f"X: column {name!r} must hold numbers, booleans, times, text or categories, got {kind}")
