"""From hashed features, as a parser leaves them, to the rows of a `Parsed`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.errors import InvalidParameterError, listed
from thinstream.learners.learner import LARGEST
from thinstream.streams.text.hashing import Hashing, collected
from thinstream.streams.text.names import Named, NameTable
from thinstream.streams.text.protocol import Parsed, ParseError, Text


class Raw(NamedTuple):
    """Rows of features in the order of the text: not sorted, numbers may repeat."""

    labels: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float64]
    starts: NDArray[np.int64]  # where each record begins in the text
    ends: NDArray[np.int64]  # and where the next may begin


def finished(
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
    rows, indptr, indices, values, width, largest = collected(raw.indptr, raw.indices.copy(), raw.values, dtype)
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


def require_dtype(dtype: Any, owner: str) -> None:
    """Raises if values cannot be of it."""
    if dtype not in LARGEST:
        raise InvalidParameterError(f"{owner}: dtype must be {listed(LARGEST)}, got {dtype!r}")


def require_hashing(hashing: Any, names: Any, owner: str) -> None:
    """Raises if these are not what they should be."""
    if not isinstance(hashing, Hashing):
        raise InvalidParameterError(f"{owner}: hashing must be a Hashing, got {hashing!r}")
    if names is not None and not isinstance(names, NameTable):
        raise InvalidParameterError(f"{owner}: names must be a NameTable or None, got {names!r}")
