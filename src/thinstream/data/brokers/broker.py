"""The interface of brokers, positions in their messages, and messages that cannot be read."""

import base64
import json
import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from thinstream.batch import Position
from thinstream.data.brokers import Address
from thinstream.errors import (
    FileWriteError,
    InvalidParameterError,
    MissingPackageError,
    SourceError,
    SourceGapError,
    install,
)

# The interface of a broker: messages in order, from any position on.


#: A position in a source, as numbers whose meaning depends on the broker.
Cursor = tuple[int, ...]


class Message(NamedTuple):
    data: bytes
    cursor: Cursor  # its position
    part: int = 0  # of a source with several parts
    named: str = ""  # its id in messages and dead letters
    error: str = ""  # why it cannot be read, if the broker knows


class Broker(Protocol):
    """A stream of messages on a server.

    All methods raise `SourceLostError` while the server cannot be reached, and `SourceError` if retrying is useless.
    """

    def identity(self) -> dict[str, Any]:
        """Return what distinguishes this stream from others, as JSON values, without host and user."""

    def start(self) -> tuple[int, Cursor]:
        """Return how many messages come before the start of a run without a checkpoint, if known, and its position."""

    def seek(self, cursor: Cursor, taken: int = 0, first: int | None = None) -> None:
        """Connect at a position with ``taken`` messages before it; one of several parts may come ``first``."""

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return up to ``most`` messages, or none if none arrive in time.

        If messages before the next one were removed, raise `SourceGapError`; the next call continues after them.
        """

    def after(self, cursor: Cursor, messages: Sequence[Message]) -> Cursor:
        """Return the position after these messages, which were read from ``cursor`` on."""

    def lag(self, cursor: Cursor, taken: int) -> int | None:
        """Return the number of messages after a position with ``taken`` messages before it; None if unknown."""

    def acknowledge(self, cursor: Cursor) -> None:
        """Everything before this position is saved and will not be read again."""

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Write a message with the reason to another stream (subject, topic), once."""

    def close(self) -> None:
        """Disconnect from the server."""


def open_broker(address: Address) -> Broker:
    """Return the broker of an address, not connected yet. Only its own client is imported."""
    if address.kind == "redis":
        from thinstream.data.brokers.redis import RedisStream

        return RedisStream(address)
    if address.kind == "nats":
        from thinstream.data.brokers.nats import JetStream

        return JetStream(address)
    from thinstream.data.brokers.kafka import KafkaTopic

    return KafkaTopic(address)


def missing(scheme: str, package: str, extra: str) -> MissingPackageError:
    """Return the error for a client that is not installed."""
    return MissingPackageError(f"{scheme} needs {package}: {install(extra)}")


def gap(
    address: Address, lost: int, where: str, cursor: Cursor | None = None, *, counted: int = 0, exact: bool = True
) -> SourceGapError:
    """Return the error for removed messages after ``where``: ``lost`` messages, or at most that many if not exact.

    With ``lost=0`` nothing is missing, and only the position changes.
    """
    number = f"{lost:,} message{'s' * (lost != 1)}" if exact else f"an unknown number of messages (at most {lost:,})"
    error = SourceGapError(f"{address}: the broker has removed {number} after {where} that had not been read")
    error.lost, error.cursor, error.counted = lost, cursor, counted
    return error


def unknown_gap(text: str, *, counted: int = 0) -> SourceGapError:
    """Return the error if it is unknown whether messages are missing."""
    error = SourceGapError(text)
    error.lost, error.counted = None, counted
    return error


def reason_of(error: Exception) -> str:
    """Describe an unexpected error in one line.

    >>> reason_of(RecursionError("maximum recursion depth exceeded"))
    'RecursionError: maximum recursion depth exceeded'
    """
    return " ".join(f"{type(error).__name__}: {error}".split())


def require_long(address: Address, short: bool, end: str, where: str) -> None:
    """Raise if the stream ends before the position at which a run resumes."""
    if short:
        raise SourceError(
            f"{address} ends at {end}, but this run resumes at {where}. It is another stream, or messages were lost. "
            "Remove the checkpoint to start from scratch."
        )


# Positions in a broker as one number, for stream positions and checkpoints, and the messages of a batch.

_BITS = 64
#: The most numbers of a position, and so the most parts of a source.
MOST = 200


def as_number(cursor: Cursor) -> int:
    """Return the numbers of a position, with 64 bits each, as one number; a leading bit marks how many there are.

    >>> as_cursor(as_number((1731742800000, 3)))
    (1731742800000, 3)
    """
    number = 1
    for part in cursor:
        number = number << _BITS | part
    return number


def as_cursor(number: int) -> Cursor:
    """Return the position of a number from `as_number`."""
    parts: list[int] = []
    while number > 1:
        number, part = divmod(number, 1 << _BITS)
        parts.append(part)
    return tuple(reversed(parts))


class Taken:
    """The messages of a batch and the number of rows of each, to find the position after any of these rows.

    The offset of a stream position is the broker's position, and its line is the number of messages before it. If only
    some rows of a message were learned, the stream position has a skip, and its part is one more than the message's.
    """

    def __init__(self, broker: Broker, before: Position, messages: Sequence[Message], rows: Sequence[int]) -> None:
        self._broker, self._before, self._messages = broker, before, messages
        self._ends = [0, *accumulate(rows)]

    def position(self, row: int) -> Position:
        """Return the position after this number of rows of the source."""
        done = row - self._before.row
        whole = bisect_right(self._ends, done) - 1  # messages without rows belong to the message before them
        skip, messages = done - self._ends[whole], self._messages[:whole]
        cursor = self._broker.after(as_cursor(self._before.offset), messages)
        return Position(
            part=self._messages[whole].part + 1 if skip else 0,
            offset=as_number(cursor),
            line=self._before.line + whole,
            row=self._before.row + self._ends[whole],
            skip=skip,
        )

    def message(self, row: int) -> Message:
        """Return the message of a row of the source."""
        return self._messages[bisect_right(self._ends, row - self._before.row) - 1]

    @property
    def end(self) -> Position:
        """The position after all messages."""
        return self.position(self._before.row + self._ends[-1])


# Dead letters: messages that cannot be read are saved with the reason in a file, or in another stream of the broker.

STREAM = "stream:"
#: A message and why it cannot be read.
Letter = tuple[Message, str]


class DeadLetters(Protocol):
    """The destination of messages that cannot be read."""

    def put(self, letters: Sequence[Letter]) -> None:
        """Write messages, without those that were written before, as far as that is known."""


class Nowhere:
    """Messages are only counted and reported."""

    def put(self, letters: Sequence[Letter]) -> None: ...


class AnotherStream:
    """A stream (subject, topic) of the same broker."""

    def __init__(self, broker: Broker, name: str) -> None:
        self._broker, self._name = broker, name

    def put(self, letters: Sequence[Letter]) -> None:
        for message, reason in letters:
            self._broker.set_aside(self._name, message, reason)


class DeadLetterFile:
    """A file of JSON Lines with ``place``, ``reason``, and ``data`` (or ``base64`` if it is not UTF-8)."""

    def __init__(self, path: Path) -> None:
        self._path, self._ids = path, set[str]()
        if path.is_dir() or not path.parent.is_dir():
            raise InvalidParameterError(f"dead letters must be a file or stream:NAME, got {path}")
        if path.exists():
            self._ids = _message_ids(path)

    def put(self, letters: Sequence[Letter]) -> None:
        new = {message.named: (message, reason) for message, reason in letters if message.named not in self._ids}
        lines = (
            json.dumps({"place": position, "reason": reason, **_data(message.data)}) + "\n"
            for position, (message, reason) in new.items()
        )  # a run that was killed before its checkpoint may have written others
        try:
            with self._path.open("ab") as file:
                file.writelines(line.encode() for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileWriteError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._ids.update(new)


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _message_ids(path: Path) -> set[str]:
    """Return the message ids in a file, and remove an incomplete last line from a killed run."""
    ids = set()
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                file.seek(-len(line), os.SEEK_END)
                file.truncate()
                break
            try:
                ids.add(json.loads(line)["place"])
            except (ValueError, TypeError, KeyError):
                raise InvalidParameterError(
                    f"{path} exists and is not a file of dead letters. Choose another name."
                ) from None
    return ids


def dead_letters(where: str | None, broker: Broker) -> DeadLetters:
    """Return the destination: a file, ``stream:NAME``, or None for nowhere."""
    if where is None:
        return Nowhere()
    if where.startswith(STREAM):
        return AnotherStream(broker, where.removeprefix(STREAM))
    return DeadLetterFile(Path(where))
