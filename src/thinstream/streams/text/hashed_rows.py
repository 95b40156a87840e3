"""What formats with hashed features share: special columns, words of a text, and rows made of what a parser leaves."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, listed
from thinstream.learners.learner import LARGEST
from thinstream.streams.options import Options
from thinstream.streams.text.hashing import Hashing, tidy_rows
from thinstream.streams.text.names import Named, NameTable
from thinstream.streams.text.protocol import Parsed, ParseError, Text

_WORD = re.compile(r"\w+")
Class = str | float | bool


class Raw(NamedTuple):
    """Rows of features in the order of the text: not sorted, numbers may repeat."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]  # where each record begins in the text
    ends: NDArray[np.int64]  # and where the next may begin

    @classmethod
    def empty(cls, most: int) -> list[NDArray[Any]]:
        """Arrays with room for so many rows and features, in the order of the fields."""
        kinds = (np.float64, np.float64, np.int64, np.int32, np.float64, np.int64, np.int64)
        return [np.empty(most + 1, kind) for kind in kinds]

    @classmethod
    def filled(cls, out: Any, rows: int, weighted: bool) -> "Raw":
        """The first rows of a parser's output, which has the fields of this class."""
        nnz = int(out.indptr[rows])
        return cls(
            out.labels[:rows],
            out.weights[:rows] if weighted else None,
            out.indptr[: rows + 1],
            out.indices[:nnz],
            out.values[:nnz],
            out.starts[:rows],
            out.ends[:rows],
        )


def parsed_rows(
    text: Text,
    raw: Raw,
    error: tuple[ParseError, int] | None,
    dtype: str,
    names: NameTable | None,
    name_at: Callable[[int], str],
    tags: list[str] | None = None,
) -> Parsed:
    """The rows made tidy; ``error`` comes with the end of its record, ``name_at`` names a feature of ``raw``."""
    taken, before = len(text), raw.indptr.copy()
    rows, indptr, indices, values, width, largest = tidy_rows(raw.indptr, raw.indices.copy(), raw.values, dtype)
    if rows < len(raw.labels):
        message = f"|values| of a row, equal features summed, must be at most {LARGEST[dtype]:g}"
        error = (
            ParseError(int(raw.starts[rows]), f"{message} ({dtype}: sums of squares would overflow), got more"),
            int(raw.ends[rows]),
        )
    if error is not None:
        taken = error[1]
    named = None
    if names is not None:
        places = names.wanted(raw.indices[: before[rows]]).tolist()
        named = Named(raw.indices[places].tolist(), [name_at(place) for place in places])
    return Parsed(
        raw.labels[:rows],
        indptr,
        indices,
        values,
        width,
        largest,
        int(np.count_nonzero(text[:taken] == 10)) + int(taken > 0 and text[taken - 1] != 10),
        taken,
        None if raw.weights is None else raw.weights[:rows],
        None if tags is None else tags[:rows],
        None if error is None else error[0],
        named,
    )


def words(text: str) -> list[str]:
    r"""The words of a text: runs of letters, digits and underscores (``\w+``), in lower case.

    >>> words("Buy NOW, it's free_42!")
    ['buy', 'now', 'it', 's', 'free_42']
    """
    return _WORD.findall(text.lower())


def encode_names(names: list[str]) -> tuple[bytes, NDArray[np.int64]]:
    r"""Names one behind another in UTF-8, and where each ends.

    >>> encode_names(["age", "größe"])
    (b'agegr\xc3\xb6\xc3\x9fe', array([ 3, 10]))
    """
    text = "".join(names)
    if text.isascii():  # no need to go word by word
        return text.encode(), np.cumsum([*map(len, names)], dtype=np.int64)
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join(parts), np.cumsum([*map(len, parts)], dtype=np.int64)


def require_hashing(owner: str, hashing: Any, dtype: Any, names: Any) -> None:
    """Raises if these are not what they should be."""
    if dtype not in LARGEST:
        raise InvalidParameterError(f"{owner}: dtype must be {listed(LARGEST)}, got {dtype!r}")
    if not isinstance(hashing, Hashing):
        raise InvalidParameterError(f"{owner}: hashing must be a Hashing, got {hashing!r}")
    if names is not None and not isinstance(names, NameTable):
        raise InvalidParameterError(f"{owner}: names must be a NameTable or None, got {names!r}")


def require_columns(owner: str, **roles: Any) -> None:
    """Raises unless each role has names of columns, and no column has two roles."""
    taken: dict[str, str] = {}
    for role, given in roles.items():
        columns = [given] if role in ("label", "weight") else given
        if not isinstance(columns, Sequence) or isinstance(columns, str):
            raise InvalidParameterError(f"{owner}: {role} must be a list of names of columns, got {given!r}")
        for name in columns:
            if name is None and role in ("label", "weight"):
                continue
            if not isinstance(name, str):
                raise InvalidParameterError(f"{owner}: {role} must name columns in text, got {name!r}")
            if taken.setdefault(name, role) != role:
                raise InvalidParameterError(f"{owner}: a column has one role, {name!r} has {taken[name]} and {role}")


def require_classes(owner: str, classes: Any) -> None:
    """Raises unless there are none, or two or more that differ."""
    if classes is None:
        return
    fine = isinstance(classes, tuple | list) and all(isinstance(kind, str | float | int) for kind in classes)
    if not fine or len(classes) < 2 or len(set(classes)) < len(classes):
        raise InvalidParameterError(
            f"{owner}: classes must be two different labels (negative, positive) or more, text or numbers, got "
            f"{classes!r}"
        )


def shared_settings(options: Options) -> dict[str, Any]:
    """What parsers of named columns take alike, from the reading options."""
    return {
        "label": options.label,
        "weight": options.weight,
        "text": options.text,
        "ignore": options.ignore,
        "classes": options.classes,
        "hashing": Hashing.of(options),
        "dtype": options.dtype,
        "names": NameTable.of(options),
    }
