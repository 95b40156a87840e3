"""Kafka: ``kafka://[USER:PASSWORD@]HOST[:PORT][,HOST…]/TOPIC``, encrypted as ``kafka+ssl://``.

All partitions of the topic are read, each in order. The position is the next offset of each partition, and it is part
of the checkpoint. With ``group=``, offsets are committed after checkpoints, to monitor the lag. They are never read.

Offsets of compacted topics and of transactions have gaps, so messages are only missing if they are before the first
offset of a partition. The server refuses to read there.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from thinstream.data.brokers import Address
from thinstream.data.brokers.broker import MOST, Cursor, Message, gap, missing, require_long
from thinstream.errors import SourceError, SourceLostError

PORT, SECONDS = 9092, 5.0
_GROUP = "thinstream"


def package() -> Any:
    """Import and return the client, an optional package."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise missing("kafka://", "confluent-kafka", "kafka") from error
    return confluent_kafka


Answer = TypeVar("Answer")


class KafkaTopic:
    """Messages of all partitions of a topic."""

    def __init__(self, address: Address) -> None:
        self._address, self._topic = address, address.stream("TOPIC")
        self._kafka = package()
        self._group = address.settings.get("group")
        self._reader: Any = None
        self._writer: Any = None
        self._away: str | None = None  # the client's message while all servers are down
        self._first: int | None = None  # the only partition to read until a message comes
        self._cursor: Cursor = ()
        self._starts: list[int] = []  # the first offset of each partition, as of the last request

    def _settings(self) -> dict[str, Any]:
        address = self._address
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"{host}:{port or PORT}" for host, port in address.hosts),
            "socket.connection.setup.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 1000,
            "error_cb": self._fails,
            "log_level": 0,
            "security.protocol": ("SASL_" if address.user else "") + ("SSL" if address.encrypted else "PLAINTEXT"),
        }
        if address.user:
            settings |= {"sasl.username": address.user, "sasl.password": address.password or ""}
            settings["sasl.mechanism"] = address.settings.get("sasl", "PLAIN")
        return settings | ({"ssl.ca.location": address.settings["ca"]} if "ca" in address.settings else {})

    def _fails(self, error: Any) -> None:
        """Called by the client during a request."""
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._away = error.str()

    def _ask(self, question: Callable[[Any], Answer]) -> Answer:
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
            raise SourceError(f"{self._address}: the topic {self._topic!r} does not exist") from None
        gone = (codes._TRANSPORT, codes._TIMED_OUT, codes._ALL_BROKERS_DOWN, codes._RESOLVE, codes.REQUEST_TIMED_OUT)
        moving = (codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes.COORDINATOR_NOT_AVAILABLE)
        if error.code() in (*gone, *moving) or error.retriable():
            raise SourceLostError(f"{self._address}: the server cannot be reached: {error.str()}") from None
        raise SourceError(f"{self._address}: the server refused the request: {error.str()}") from None

    def _partitions(self) -> int:
        about = self._ask(lambda reader: reader.list_topics(self._topic, timeout=SECONDS)).topics[self._topic]
        if about.error is not None:
            self._raise(about.error, self._kafka.KafkaError)
        if not 1 <= len(about.partitions) <= MOST:
            raise SourceError(
                f"{self._address}: the topic must have 1 to {MOST} partitions, got {len(about.partitions)}"
            )
        return len(about.partitions)

    def _ends(self, partitions: int) -> list[tuple[int, int]]:
        """Return the first offset of each partition, and the one after its last message."""

        def ends(reader: Any) -> list[tuple[int, int]]:
            where = [self._kafka.TopicPartition(self._topic, part) for part in range(partitions)]
            offsets = [reader.get_watermark_offsets(partition, timeout=SECONDS) for partition in where]
            if None in offsets:
                raise SourceLostError(f"{self._address}: the server cannot be reached: no answer")
            return offsets

        return self._ask(ends)

    def identity(self) -> dict[str, Any]:
        return {"source": "kafka", "topic": self._topic}

    def start(self) -> tuple[int, Cursor]:
        ends = self._ends(self._partitions())
        cursor = tuple(last if self._address.begins == "new" else first for first, last in ends)
        return 0, cursor

    def seek(self, cursor: Cursor, taken: int = 0, first: int | None = None) -> None:
        """Continue at the offsets; partitions that were added since are read from their start."""
        partitions = self._partitions()
        cursor += (0,) * (partitions - len(cursor))
        ends = self._ends(partitions)
        short = len(cursor) > partitions or any(last < at for (_, last), at in zip(ends, cursor, strict=False))
        require_long(self._address, short, f"offsets {[last for _, last in ends]}", f"{[*cursor]}")
        self._cursor, self._starts = cursor, [start for start, _ in ends]
        self._first, self._away = first, None
        self._assign()

    def _assign(self) -> None:
        """Read from the offsets on, or from the first available ones."""
        where = [
            self._kafka.TopicPartition(self._topic, part, max(at, start))
            for part, (at, start) in enumerate(zip(self._cursor, self._starts, strict=True))
            if self._first in (None, part)
        ]
        self._ask(lambda reader: reader.assign(where))

    def _require_all(self) -> None:
        """Raise `SourceGapError` if a partition starts after the offset to read next."""
        before = self._cursor
        self._cursor = tuple(map(max, self._starts, before))
        if lost := sum(self._cursor) - sum(before):
            raise gap(self._address, lost, f"offsets {[*before]}", self._cursor, counted=lost)

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return the next messages of any partition."""
        self._require_all()
        codes, error = self._kafka.KafkaError, None
        records = self._ask(lambda reader: reader.consume(most, seconds))
        messages: list[Message] = []
        for record in records:
            if (error := record.error()) is not None:
                break
            part, offset = record.partition(), record.offset()
            messages.append(Message(record.value() or b"", (offset,), part, f"{part}:{offset}"))
        self._cursor = self.after(self._cursor, messages)
        if error is not None:
            if error.code() in (codes.OFFSET_OUT_OF_RANGE, codes._AUTO_OFFSET_RESET):  # see `_require_all`
                self.seek(self._cursor, first=self._first if not messages else None)
            elif not messages:
                self._raise(error, codes)
            else:  # the message and those after it will be read again
                self._assign()
        if messages and self._first is not None:
            self._first = None
            self._assign()
        if messages:
            self._away = None
        elif self._away is not None:
            raise SourceLostError(f"{self._address}: the server cannot be reached: {self._away}")
        return messages

    def after(self, cursor: Cursor, messages: Sequence[Message]) -> Cursor:
        last = {message.part: message.cursor[0] + 1 for message in messages}
        wide = cursor + (0,) * (max(last, default=-1) + 1 - len(cursor))
        return tuple(last.get(part, at) for part, at in enumerate(wide))

    def lag(self, cursor: Cursor, taken: int) -> int | None:
        """Return the number of messages of all partitions after a position, as far as the client knows."""
        where = [self._kafka.TopicPartition(self._topic, part) for part in range(len(cursor))]
        ends: list[Any] = self._ask(
            lambda reader: [reader.get_watermark_offsets(partition, cached=True) for partition in where]
        )
        if any(end is None or end[1] < 0 for end in ends):
            return None
        return sum(max(int(end[1]) - at, 0) for end, at in zip(ends, cursor, strict=True))

    def acknowledge(self, cursor: Cursor) -> None:
        """Commit the offsets, as information, if there is a group."""
        if self._group is None:
            return
        where = [self._kafka.TopicPartition(self._topic, part, at) for part, at in enumerate(cursor)]
        self._ask(lambda reader: reader.commit(offsets=where, asynchronous=True))

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Write to another topic; after a crash, the message may be there twice, with the same source."""
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
        if self._reader is not None:
            self._reader.close()
            self._reader = None
