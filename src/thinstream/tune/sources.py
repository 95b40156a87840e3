"""Where the rows of a study come from: a stream, or memory with roles of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch, Position
from thinstream.streams.stream import Stream

#: Rows of a matrix taken at a time.
PIECE = 8192

Roles = NDArray[np.int8]
Piece = tuple[Batch, Roles | None]
#: How many rows there are from so many on until a study is to be looked at.
Halts = Callable[[int], int]


class Matrix:
    """Rows in memory, with labels, as they come or in orders of their own.

    Parameters
    ----------
    rows : Batch
    roles : array, rows × splits
        What each row is to each split (see `tallies`); None: row number mod the number of folds.
    orders : sequence of array
        The order of the rows in each pass; beyond them, and without any, as they stand.

    Examples
    --------
    >>> rows = Batch.of(np.array([0, 1, 2]), np.array([0, 0]), np.array([3.0, 4.0]), 1)
    >>> [batch.values.tolist() for batch, _ in Matrix(rows, orders=[np.array([1, 0])]).pieces(0)]
    [[4.0, 3.0]]

    """

    unit = "rows"

    def __init__(self, rows: Batch, roles: Roles | None = None, orders: Sequence[NDArray[np.int64]] = ()) -> None:
        self.rows, self.roles, self.orders = rows.check(), roles, orders
        self.size = len(rows)

    def done(self, position: Position) -> int:
        """Rows before a position."""
        return position.row

    def pieces(self, number: int) -> Iterator[Piece]:
        """The rows of a pass."""
        order = self.orders[number] if number < len(self.orders) else None
        for start in range(0, self.size, PIECE):
            stop = min(start + PIECE, self.size)
            if order is None:
                batch = self.rows.until(stop).after(start)
                roles = None if self.roles is None else self.roles[start:stop]
            else:
                chosen = order[start:stop]
                batch, roles = self.rows.take(chosen), None if self.roles is None else self.roles[chosen]
            yield replace(batch, position=Position(offset=stop, row=stop)), roles


Source = Stream | Matrix


def pieces(source: Source, number: int = 0) -> Iterator[Piece]:
    """Batches of pass ``number``, with the roles of their rows where the source has such."""
    if isinstance(source, Matrix):
        yield from source.pieces(number)
    else:
        rewind(source)
        for batch in source.batches():
            yield batch, None


def rewind(source: Source) -> None:
    """Before a stream is read again: bad records it passes over are counted anew."""
    skipped = getattr(source, "skipped", None)
    if skipped is not None:
        skipped.count = 0


def is_repeatable(stream: Source) -> bool:
    """Whether rows can be read again; those of a pipe cannot."""
    files = getattr(stream, "files", None)
    if files is not None:  # a compressed one does not know its size
        return all(Path(file).is_file() for file in files)
    return stream.size is not None


def cut(found: Iterator[Piece], halts: Halts | None) -> Iterator[Piece]:
    """The same rows, with an end wherever one is asked for: what happens there does not depend on the batches."""
    rows = 0
    for batch, roles in found:
        while halts is not None and (left := halts(rows)) < len(batch):
            yield batch.until(left), None if roles is None else roles[:left]
            batch, roles = batch.after(left), None if roles is None else roles[left:]
            rows += left
        rows += len(batch)
        yield batch, roles
