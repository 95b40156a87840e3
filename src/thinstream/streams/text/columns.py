"""What formats with named columns share: which columns are special, the words of a text, what labels are."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError
from thinstream.streams.options import Options
from thinstream.streams.text.hashing import Hashing
from thinstream.streams.text.names import NameTable

_WORD = re.compile(r"\w+")
Class = str | float | bool


def words(text: str) -> list[str]:
    r"""The words of a text: runs of letters, digits and underscores (``\w+``), in lower case.

    >>> words("Buy NOW, it's free_42!")
    ['buy', 'now', 'it', 's', 'free_42']
    """
    return _WORD.findall(text.lower())


def joined(names: list[str]) -> tuple[bytes, NDArray[np.int64]]:
    r"""Names one behind another in UTF-8, and where each ends.

    >>> joined(["age", "größe"])
    (b'agegr\xc3\xb6\xc3\x9fe', array([ 3, 10]))
    """
    text = "".join(names)
    if text.isascii():  # no need to go word by word
        return text.encode(), np.cumsum([*map(len, names)], dtype=np.int64)
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    return b"".join(parts), np.cumsum([*map(len, parts)], dtype=np.int64)


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
