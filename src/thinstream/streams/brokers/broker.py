"""What a broker is: messages from any place on, in order; and how one is found by its address."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from thinstream.errors import MissingPackageError, SourceError, SourceGapError, SourceLostError
from thinstream.streams.brokers.address import Address

__all__ = ["Broker", "Message", "Place", "SourceError", "SourceGapError", "SourceLostError", "open_broker"]

#: Where a source goes on, as plain numbers; what they mean the broker knows.
Place = tuple[int, ...]
#: Module and class of each kind.
_BROKERS = {"redis": "RedisStream", "nats": "JetStream", "kafka": "KafkaTopic"}


class Message(NamedTuple):
    """One message."""

    data: bytes
    place: Place  # its own
    part: int = 0  # of a source that has several
    named: str = ""  # what reasons and dead letters call it
    error: str = ""  # why it cannot be read, if the broker knows


class Broker(Protocol):
    """A stream of messages on a server.

    All methods raise `SourceLostError` while the server is away, and `SourceError` where trying again is no use.
    """

    def identity(self) -> dict[str, Any]:
        """What tells this stream from another, as JSON has it: no host, no user."""

    def start(self) -> tuple[int, Place]:
        """Where a run without a checkpoint begins, and how many messages lie before it, as far as that is known."""

    def seek(self, place: Place, taken: int = 0, first: int | None = None) -> None:
        """Connects, and goes on from a place, so many ``taken`` before it; one of several parts may come ``first``."""

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return up to ``most`` messages, none if none comes in time.

        If messages before the next one were removed, raise `SourceGapError`; the next call continues after them.
        """

    def after(self, place: Place, messages: Sequence[Message]) -> Place:
        """The place after these messages, read from ``place`` on."""

    def lag(self, place: Place, taken: int) -> int | None:
        """Messages after a place, ``taken`` being those before it; None where nobody knows."""

    def acknowledge(self, place: Place) -> None:
        """All before this place is kept: it need not be given again."""

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Puts a message into another stream (subject, topic), once, with the reason."""

    def close(self) -> None:
        """Lets go of the server."""


def open_broker(address: Address) -> Broker:
    """The broker of an address, not connected yet."""
    kind = getattr(import_module(f"thinstream.streams.brokers.{address.kind}"), _BROKERS[address.kind])
    found: Broker = kind(address)
    return found


def missing(scheme: str, package: str, extra: str) -> MissingPackageError:
    """What is raised where a client is not installed."""
    return MissingPackageError(f"{scheme} needs {package}: pip install 'thinstream[{extra}]'")


def gap(
    address: Address, lost: int, where: str, place: Place | None = None, *, counted: int = 0, exact: bool = True
) -> SourceGapError:
    """Return the error for messages after ``where`` that were removed: ``lost``, or at most that many if not exact.

    With ``lost=0`` nothing is missing, and only the position changes.
    """
    number = f"{lost:,} message{'s' * (lost != 1)}" if exact else f"an unknown number of messages (at most {lost:,})"
    error = SourceGapError(f"{address}: the broker has removed {number} after {where} that had not been read")
    error.lost, error.place, error.counted = lost, place, counted
    return error


def unknown_gap(text: str, *, counted: int = 0) -> SourceGapError:
    """Return the error if nobody knows whether messages are missing."""
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
    """Raises where the stream ends before the place where a run goes on."""
    if short:
        raise SourceError(
            f"{address} ends at {end}, before {where}, where this run goes on: it is another stream, or has lost "
            "messages; remove the checkpoint to start anew"
        )
