"""What a stream is: batches in order, each with the position from which to go on."""

from collections.abc import Iterator
from typing import Any, Protocol

from thinstream.batch import Batch, Position

START = Position()


class Stream(Protocol):
    """A source of batches that can go on where a batch ended."""

    @property
    def dtype(self) -> str:
        """Type of the values: "float32" or "float64"."""
        ...

    @property
    def size(self) -> int | None:
        """How much there is, in `unit`, or None if that is not known."""
        ...

    @property
    def unit(self) -> str:
        """What `size` and `done` count: "bytes" or "rows"."""
        ...

    @property
    def space(self) -> dict[str, Any]:
        """What feature numbers mean, JSON-able; {} for plain column numbers."""
        ...

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on."""
        ...

    def done(self, position: Position) -> int:
        """How much of `size` lies before a position."""
        ...

    def fingerprint(self) -> dict[str, Any]:
        """Tells, JSON-able, whether a source is the one a checkpoint came from."""
        ...
