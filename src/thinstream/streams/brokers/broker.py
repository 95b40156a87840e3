"""What a broker is: messages from any place on, in order; and how one is found by its address."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from thinstream.errors import MissingPackageError, SourceError, SourceLostError
from thinstream.streams.brokers.address import Address

__all__ = ["Broker", "Message", "Place", "SourceError", "SourceLostError", "open_broker"]

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
        """Messages there are, up to so many; none if none comes in so many seconds."""

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


def require_kept(address: Address, lost: bool, where: str) -> None:
    """Raises where messages were removed before they were read, unless that may be."""
    if lost and not address.may_have_gaps:
        raise SourceError(
            f"{address}: messages after {where}, where this run goes on, were removed before they were read; keep them "
            "longer, or add gaps=ok to the address to go on without them"
        )


def require_long(address: Address, short: bool, end: str, where: str) -> None:
    """Raises where the stream ends before the place where a run goes on."""
    if short:
        raise SourceError(
            f"{address} ends at {end}, before {where}, where this run goes on: it is another stream, or has lost "
            "messages; remove the checkpoint to start anew"
        )
