"""Places in brokers' streams as one number, which positions and checkpoints have; and what a batch was made of."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from thinstream.batch import Position
from thinstream.streams.brokers.broker import Broker, Message, Place

_BITS = 64
#: Numbers that a place may have: as many parts of a source can be read side by side.
MOST = 200


def as_number(place: Place) -> int:
    """The numbers of a place, 64 bits each, in one; a bit before them tells how many there are.

    >>> as_place(as_number((1731742800000, 3)))
    (1731742800000, 3)
    """
    number = 1
    for each in place:
        number = number << _BITS | each
    return number


def as_place(number: int) -> Place:
    """The place again."""
    found: list[int] = []
    while number > 1:
        number, each = divmod(number, 1 << _BITS)
        found.append(each)
    return tuple(reversed(found))


class Taken:
    """Messages of a batch, and how many rows each gave: where a run goes on that has taken some of these rows.

    A position has the place before the next message as its offset, and the messages before that as its line. A message
    of several rows may be taken in part: then the position has a skip, and one more than the message's part as its own.
    """

    def __init__(self, broker: Broker, before: Position, messages: Sequence[Message], rows: Sequence[int]) -> None:
        self._broker, self._before, self._messages = broker, before, messages
        self._ends = [0, *accumulate(rows)]

    def position(self, row: int) -> Position:
        """After so many rows of the source."""
        done = row - self._before.row
        whole = bisect_right(self._ends, done) - 1  # messages without a row go with those before them
        skip, messages = done - self._ends[whole], self._messages[:whole]
        place = self._broker.after(as_place(self._before.offset), messages)
        return Position(
            part=self._messages[whole].part + 1 if skip else 0,
            offset=as_number(place),
            line=self._before.line + whole,
            row=self._before.row + self._ends[whole],
            skip=skip,
        )

    def message(self, row: int) -> Message:
        """The one that has a row of the source."""
        return self._messages[bisect_right(self._ends, row - self._before.row) - 1]

    @property
    def end(self) -> Position:
        """After all of them."""
        return self.position(self._before.row + self._ends[-1])
