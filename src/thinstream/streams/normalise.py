"""Streams of rows scaled to unit length."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.preparing.unit_rows import unit_rows
from thinstream.streams.stream import START, Stream


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
            values = np.empty_like(batch.values)
            unit_rows(np.asarray(batch.indptr, dtype=np.int64), batch.values, values)
            yield replace(batch, values=values)
