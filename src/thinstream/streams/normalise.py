"""Rows scaled to unit length, compiled."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.jit import compiled
from thinstream.streams.stream import START, Stream


@compiled()
def _unit_rows(indptr: Any, values: Any) -> None:
    for i in range(len(indptr) - 1):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(values[k]) * np.float64(values[k])
        length = np.sqrt(total)
        if 0.0 < length < np.inf:
            for k in range(indptr[i], indptr[i + 1]):
                values[k] = values[k] / length


def unit_rows(indptr: Any, values: Any) -> None:
    """Divides each row by its Euclidean length, in place; rows without values stay as they are.

    >>> values = np.array([3.0, 4.0, 2.0])
    >>> unit_rows(np.array([0, 2, 3]), values)
    >>> values
    array([0.6, 0.8, 1. ])
    """
    _unit_rows(indptr, values)


class UnitRows:
    """A stream with its rows scaled to unit length."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def feature_space(self) -> dict[str, Any]:
        """That of the stream, and that rows are scaled."""
        return {**self._stream.feature_space, "normalize": "l2"}

    def fingerprint(self) -> dict[str, Any]:
        """That of the stream, and that rows are scaled."""
        return {**self._stream.fingerprint(), "normalize": "l2"}

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The scaled rows."""
        for batch in self._stream.batches(start):
            values = np.array(batch.values)
            unit_rows(np.asarray(batch.indptr, dtype=np.int64), values)
            yield replace(batch, values=values)
