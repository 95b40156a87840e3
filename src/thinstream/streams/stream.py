"""What a stream is, and going on in the middle of a batch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from thinstream.batch import Batch, Position
from thinstream.streams.text.names import NameTable

START = Position()


@dataclass
class Skipped:
    """Records passed over with ``on_error="skip"``: how many, the first few reasons, and what each is called."""

    count: int = 0
    reasons: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    def add(self, reason: str, called: str = "") -> None:
        """One more."""
        self.ids[self.count :] = [called]
        self.count += 1
        if len(self.reasons) < 10:
            self.reasons.append(reason)


class Stream(Protocol):
    """Examples in order, from any point on."""

    @property
    def dtype(self) -> str:
        """Of the values: "float32" or "float64"."""

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """The labels its negative and positive rows had, or those of more classes, if they were told.

        Of more than two, batches have the numbers of the classes, in int32, in place of ±1; and so where they are found
        as they come (the stream then has a ``book``): these are the ones found so far.
        """

    @property
    def names(self) -> NameTable | None:
        """Names of hashed features seen so far, where they are kept."""

    @property
    def skipped(self) -> Skipped | None:
        """Bad records passed over, where that may happen."""

    @property
    def feature_space(self) -> dict[str, Any]:
        """What feature numbers mean, as JSON has it; {}: they are column numbers."""

    @property
    def size(self) -> int | None:
        """How much there is, in ``unit``; None where nobody knows."""

    @property
    def unit(self) -> str:
        """What ``size`` counts: "bytes" or "rows"."""

    def done(self, position: Position) -> int | None:
        """How much of the size lies before a position, if that can be told."""

    def fingerprint(self) -> dict[str, Any]:
        """What tells this source from another, as JSON has it."""

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Batches from ``start`` on (its ``skip`` left aside), each with the position after it."""


def batches_from(stream: Stream, start: Position) -> Iterator[tuple[Position, Batch]]:
    """Batches from exactly ``start`` on, each with the position before it."""
    before, skip = start._replace(skip=0), start.skip
    for batch in stream.batches(before):
        if skip < len(batch) or not skip:
            yield before._replace(skip=skip), batch.after(skip) if skip else batch
        skip = max(skip - len(batch), 0)
        if batch.position is not None:
            before = batch.position
