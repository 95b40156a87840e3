"""Kafka: ``kafka://[USER:PASSWORD@]HOST[:PORT][,HOST…]/TOPIC``, encrypted as ``kafka+ssl://``.

All partitions of the topic are read, each in its order; the place is the next offset of each of them, and it is in the
checkpoint. With ``group=`` offsets are committed after checkpoints, for those who watch lags: they are not read again.

Offsets of compacted topics and of transactions jump, so messages are missing only before the first offset of a
partition. The server refuses to read there.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from thinstream.streams.brokers.address import Address
from thinstream.streams.brokers.broker import (
    Message,
    Place,
    SourceError,
    SourceLostError,
    gap,
    missing,
    require_long,
)
from thinstream.streams.brokers.places import MOST

PORT, SECONDS = 9092, 5.0
_GROUP = "thinstream"


def package() -> Any:
    """The client, an optional package; imported when first needed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise missing("kafka://", "confluent-kafka", "kafka") from error
    return confluent_kafka


Found = TypeVar("Found")


class KafkaTopic:
    """Messages of all partitions of a topic."""

    def __init__(self, address: Address) -> None:
        self._address, self._topic = address, address.stream("TOPIC")
        self._kafka = package()
        self._group = address.settings.get("group")
        self._reader: Any = None
        self._writer: Any = None
        self._away: str | None = None  # what the client says of servers that are gone
        self._first: int | None = None  # the only partition that is read until a message comes
        self._place: Place = ()
        self._starts: list[int] = []  # the first offset of each partition, when it was last asked for

    def _settings(self) -> dict[str, Any]:
        address = self._address
        found: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"{host}:{port or PORT}" for host, port in address.hosts),
            "socket.connection.setup.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": self._fails,
            "log_level": 0,
            "security.protocol": ("SASL_" if address.user else "") + ("SSL" if address.encrypted else "PLAINTEXT"),
        }
        if address.user:
            found |= {"sasl.username": address.user, "sasl.password": address.password or ""}
            found["sasl.mechanism"] = address.settings.get("sasl", "PLAIN")
        return found | ({"ssl.ca.location": address.settings["ca"]} if "ca" in address.settings else {})

    def _fails(self, error: Any) -> None:
        """Told by the client while it is asked something."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._away = error.str()

    def _ask(self, question: Callable[[Any], Found]) -> Found:
        codes = self._kafka.KafkaError
        if self._reader is None:
            own = {"group.id": self._group or _GROUP, "enable.auto.commit": False, "auto.offset.reset": "error"}
            self._reader = self._kafka.Consumer({**self._settings(), **own, "enable.partition.eof": False})
        try:
            return question(self._reader)
        except self._kafka.KafkaException as failed:
            self._raise(failed.args[0], codes)
            raise

    def _raise(self, error: Any, codes: Any) -> None:
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
            raise SourceError(f"{self._address}: there is no topic {self._topic!r}") from None
        gone = (codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE, codes.REQUEST_TIMED_OUT)
        moving = (codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes.COORDINATOR_NOT_AVAILABLE)
        if error.code() in (*gone, *moving) or error.retriable():
            raise SourceLostError(f"{self._address}: the server cannot be reached: {error.str()}") from None
        raise SourceError(f"{self._address}: the server refuses: {error.str()}") from None

    def _partitions(self) -> int:
        about = self._ask(lambda reader: reader.list_topics(self._topic, timeout=SECONDS)).topics[self._topic]
        if about.error is not None:
            self._raise(about.error, self._kafka.KafkaError)
        if not 1 <= len(about.partitions) <= MOST:
            raise SourceError(f"{self._address}: a topic may have 1 to {MOST} partitions, got {len(about.partitions)}")
        return len(about.partitions)

    def _ends(self, partitions: int) -> list[tuple[int, int]]:
        """The first offset of each partition, and the one after its last."""

        def ends(reader: Any) -> list[tuple[int, int]]:
            where = [self._kafka.TopicPartition(self._topic, part) for part in range(partitions)]
            found = [reader.get_watermark_offsets(each, timeout=SECONDS) for each in where]
            if None in found:
                raise SourceLostError(f"{self._address}: the server cannot be reached: it does not answer")
            return found

        return self._ask(ends)

    def identity(self) -> dict[str, Any]:
        """The topic."""
        return {"source": "kafka", "topic": self._topic}

    def start(self) -> tuple[int, Place]:
        """Before the first messages, or after the last."""
        ends = self._ends(self._partitions())
        place = tuple(last if self._address.begins == "new" else first for first, last in ends)
        return 0, place

    def seek(self, place: Place, taken: int = 0, first: int | None = None) -> None:
        """Goes on from the offsets; partitions that have come to the topic since are read from their begin."""
        partitions = self._partitions()
        place += (0,) * (partitions - len(place))
        ends = self._ends(partitions)
        short = len(place) > partitions or any(last < at for (_, last), at in zip(ends, place, strict=False))
        require_long(self._address, short, f"offsets {[last for _, last in ends]}", f"{[*place]}")
        self._place, self._starts = place, [start for start, _ in ends]
        self._first, self._away = first, None
        self._assign()

    def _assign(self) -> None:
        """Read from the offsets on, or from the first ones there are."""
        where = [
            self._kafka.TopicPartition(self._topic, part, max(at, start))
            for part, (at, start) in enumerate(zip(self._place, self._starts, strict=True))
            if self._first in (None, part)
        ]
        self._ask(lambda reader: reader.assign(where))

    def _require_all(self) -> None:
        """Raise `SourceGapError` if a partition starts after the offset to read next."""
        before = self._place
        self._place = tuple(map(max, self._starts, before))
        if lost := sum(self._place) - sum(before):
            raise gap(self._address, lost, f"offsets {[*before]}", self._place, counted=lost)

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next messages of any partition."""
        self._require_all()
        codes, error = self._kafka.KafkaError, None
        found = self._ask(lambda reader: reader.consume(most, seconds))
        messages: list[Message] = []
        for each in found:
            if (error := each.error()) is not None:
                break
            part, offset = each.partition(), each.offset()
            messages.append(Message(each.value() or b"", (offset,), part, f"{part}:{offset}"))
        self._place = self.after(self._place, messages)
        if error is not None:
            if error.code() in (codes.OFFSET_OUT_OF_RANGE, codes._AUTO_OFFSET_RESET):  # see `_require_all`
                self.seek(self._place, first=self._first if not messages else None)
            elif not messages:
                self._raise(error, codes)
            else:  # it comes again, as do the messages after it
                self._assign()
        if messages and self._first is not None:
            self._first = None
            self._assign()
        if messages:
            self._away = None
        elif self._away is not None:
            raise SourceLostError(f"{self._address}: the server cannot be reached: {self._away}")
        return messages

    def after(self, place: Place, messages: Sequence[Message]) -> Place:
        """The next offset of each partition."""
        last = {each.part: each.place[0] + 1 for each in messages}
        wide = place + (0,) * (max(last, default=-1) + 1 - len(place))
        return tuple(last.get(part, at) for part, at in enumerate(wide))

    def lag(self, place: Place, taken: int) -> int | None:
        """Messages of all partitions after a place, as the client has heard of them."""
        where = [self._kafka.TopicPartition(self._topic, part) for part in range(len(place))]
        ends: list[Any] = self._ask(lambda reader: [reader.get_watermark_offsets(each, cached=True) for each in where])
        if any(end is None or end[1] < 0 for end in ends):
            return None
        return sum(max(int(end[1]) - at, 0) for end, at in zip(ends, place, strict=True))

    def acknowledge(self, place: Place) -> None:
        """Offsets are committed, as information, where a group is named."""
        if self._group is None:
            return
        where = [self._kafka.TopicPartition(self._topic, part, at) for part, at in enumerate(place)]
        self._ask(lambda reader: reader.commit(offsets=where, asynchronous=True))

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Produced to another topic; after a crash it may stand there twice, with the same source."""
        failed: list[Any] = []
        if self._writer is None:
            self._writer = self._kafka.Producer({**self._settings(), "acks": "all", "message.timeout.ms": 5000})
        headers = {"reason": reason, "source": f"{self._topic} {message.named}"}
        self._writer.produce(name, message.data, headers=headers, on_delivery=lambda error, _: failed.append(error))
        self._writer.flush(2 * SECONDS)
        if not failed:
            raise SourceLostError(f"{self._address}: dead letters cannot be written: the server does not answer")
        if failed[0] is not None:
            self._raise(failed[0], self._kafka.KafkaError)

    def close(self) -> None:
        """Lets go of the server."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
