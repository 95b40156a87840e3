"""Messages of a broker as a stream of rows, without an end: bounded reads, places to go on from, bad ones set aside."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.errors import InvalidInputError
from thinstream.streams.brokers.address import Address
from thinstream.streams.brokers.broker import (
    Broker,
    Message,
    SourceError,
    SourceGapError,
    SourceLostError,
    reason_of,
)
from thinstream.streams.brokers.dead_letters import DeadLetters, Letter, Nowhere
from thinstream.streams.brokers.following import Following
from thinstream.streams.brokers.places import Taken, as_number, as_place
from thinstream.streams.reading import Rows, TextStream, numbered
from thinstream.streams.stream import START

#: Messages read at a time.
MESSAGES = 4096
#: Seconds until a run may look at what else is to be done, though nothing has come.
TICK = 0.2
#: Seconds between two tries to reach a server again, at first and at most.
FIRST, MOST = 0.05, 2.0
#: Seconds for which a lag is told again before it is asked for.
_FRESH = 1.0


@dataclass
class Known:
    """What a stream of messages knows of itself while it is read."""

    taken: Taken | None = None  # what the last batch was made of
    trouble: str | None = None  # why nothing comes
    bad: int = 0  # messages that could not be read since the last one that could
    reason: str = ""  # why the last of them could not
    lost: int = 0  # messages that the broker removed before they were read
    gap: str = ""  # describes the last gap
    lag: int | None = None
    asked: float = -np.inf  # when the lag was
    position: Position = START
    refused: dict[str, str] = field(default_factory=dict)  # messages that were read and cannot be learned, and why


@dataclass(frozen=True)
class MessageStream(TextStream):
    """Rows of messages, each of which has one line or a few of a text format.

    It goes on until it is told to end (`Following`). While the server is away it tries again; what it has read stays.
    """

    broker: Broker = field(kw_only=True)
    address: Address = field(kw_only=True)
    following: Following = field(default_factory=Following, kw_only=True)
    letters: DeadLetters = field(default_factory=Nowhere, kw_only=True)
    widest: int | None = field(default=None, kw_only=True)  # features that a row may have numbers of
    known: Known = field(default_factory=Known, kw_only=True)

    unit = "rows"

    @property
    def size(self) -> int | None:
        """Nobody knows how much there will be."""
        return None

    def done(self, position: Position) -> int | None:
        """Nor which share of it is done."""
        return None

    def fingerprint(self) -> dict[str, Any]:
        """What tells this source from another, wherever its server is and whoever asks it."""
        return {**self.broker.identity(), "space": self.feature_space, **self.reading}

    @property
    def trouble(self) -> str | None:
        """Why nothing comes, while the server is away."""
        return self.known.trouble

    @property
    def lost(self) -> int:
        """The number of messages that the broker removed before they were read, at most."""
        return self.known.lost

    @property
    def remarks(self) -> list[str]:
        """Remarks on the rows, and on messages that are missing."""
        lost = f"{self.address}: {self.lost:,} messages were removed before they were read; the last gap: "
        return [*super().remarks, *([lost + self.known.gap] if self.known.gap else [])]

    @property
    def lag(self) -> int | None:
        """Messages that are there and not taken yet, as of a second ago; None where nobody knows."""
        known, now = self.known, time.monotonic()
        if known.position.offset and now - known.asked >= _FRESH:
            known.asked, known.lag = now, None
            with suppress(SourceError):  # whoever reads will hear of it
                known.lag = self.broker.lag(as_place(known.position.offset), known.position.line)
        return known.lag

    def at_row(self, row: int) -> Position:
        """Where to go on after so many rows of the source, some of the last batch among them."""
        assert self.known.taken is not None
        return self.known.taken.position(row)

    def refuse(self, row: int, reason: str) -> None:
        """The message of a row of the last batch cannot be learned: where it comes again it is set aside."""
        assert self.known.taken is not None
        self.known.refused[self.known.taken.message(row).named] = reason

    def kept(self, position: Position) -> None:
        """A checkpoint has all before this position: the broker is told, now or with the next one."""
        if position.offset:
            with suppress(SourceLostError):
                self.broker.acknowledge(as_place(position.offset))

    def close(self) -> None:
        """Lets go of the server."""
        self.broker.close()

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """The rows from ``start`` on; now and then a batch without rows, so that whoever follows it can look about."""
        known, following, position, fresh = self.known, self.following, start, not start.offset
        if fresh:
            before, place = self.broker.start()
            position = start._replace(offset=as_number(place), line=before)
        self._seek(position)
        pause, since = FIRST, time.monotonic()
        while not following.are_enough(position.row + position.skip):
            try:
                if known.trouble is not None:
                    self._seek(position)
                    known.trouble, pause, since = None, FIRST, time.monotonic()
                messages = self.broker.read(MESSAGES, TICK)
                found, fresh = self._read(messages, position) if messages else [], False
            except SourceGapError as gap:
                known.position = position = self._past(gap, position, fresh)
                yield self._nothing(position)
                continue
            except SourceLostError as error:
                known.trouble, since = str(error), time.monotonic()
                yield self._nothing(position)
                time.sleep(pause)
                pause = min(2 * pause, MOST)
                continue
            if not messages and following.is_over(time.monotonic() - since):
                return
            known.position = position
            for known.taken, batch in found:
                known.position = position = batch.position or position
                yield batch
                if following.are_enough(position.row + position.skip):
                    return
            if found:
                since = time.monotonic()
            else:
                yield self._nothing(position)

    def _seek(self, position: Position) -> None:
        """Of several parts that one comes first of which a message was taken in part."""
        first = position.part - 1 if position.part else None
        self.broker.seek(as_place(position.offset), position.line, first)

    def _past(self, gap: SourceGapError, position: Position, fresh: bool) -> Position:
        """Return the position after a gap, or raise unless gaps are allowed; a fresh run starts after the gap."""
        if gap.lost is None or (gap.lost and not fresh):
            if self.following.on_gap == "stop":
                gap.args = (
                    f"{gap}; keep messages in the broker for longer, or pass --on-gap continue (in Python: "
                    "on_gap='continue') to continue without them",
                )
                raise gap
            if position.part:
                raise SourceError(f"{gap}; one was learned in part; remove the checkpoint to start from scratch")
            self.known.lost += gap.lost or 0
            self.known.gap = str(gap)
        offset = position.offset if gap.place is None else as_number(gap.place)
        return position._replace(offset=offset, line=position.line + gap.counted)

    def _nothing(self, position: Position) -> Batch:
        return self._rows(np.empty(0, dtype=np.uint8)).batch(position.row, position)

    def _read(self, messages: Sequence[Message], before: Position) -> list[tuple[Taken, Batch]]:
        """The rows of messages, with what they were made of: one batch, unless they can only be read one by one."""
        counts, refused, most = [1] * len(messages), self.known.refused, self.options.max_line
        plain = all(_is_line(each.data, most) and each.named not in refused and not each.error for each in messages)
        rows = self._parse_together(messages, counts) if plain else None
        if rows is None:
            counts = self._sorted_out(messages)
            good = [message for message, count in zip(messages, counts, strict=True) if count]
            rows = self._parse_together(good, counts)
        self.known.bad = 0 if counts[-1] else self.known.bad
        if rows is not None:
            try:
                return [self._delivered(rows, messages, counts, before)]
            except Exception:
                rows = None  # reading them one by one shows which message it is
        return self._one_by_one(messages, counts, before)

    def _parse_together(self, messages: Sequence[Message], counts: Sequence[int]) -> Rows | None:
        """Return the rows of messages that have ``counts`` rows; None if they cannot be read as one text."""
        try:
            rows = self._rows(_joined(messages))
            good = self._why_bad(rows) is None or not messages
        except Exception:  # reading them one by one shows which message it is
            return None
        return rows if good and len(rows.parsed.labels) == sum(counts) else None

    def _one_by_one(
        self, messages: Sequence[Message], counts: list[int], before: Position
    ) -> list[tuple[Taken, Batch]]:
        found = []
        for message, count in zip(messages, counts, strict=True):
            rows = self._sorted_out([message])[0] if count else 0
            try:
                one = self._delivered(self._rows(_joined([message] if rows else [])), [message], [rows], before)
            except Exception as error:  # the next message may be fine
                self._set_aside([(message, reason_of(error))])
                one = self._delivered(self._rows(_joined([])), [message], [0], before)
            found.append(one)
            before = one[0].end
        return found

    def _delivered(
        self, rows: Rows, messages: Sequence[Message], counts: list[int], before: Position
    ) -> tuple[Taken, Batch]:
        taken, most = Taken(self.broker, before, messages, counts), self.following.rows
        if self.names is not None:
            self.names.add(rows.parsed.named)
        self.numbers.add(rows.numbers)
        batch = rows.batch(before.row, taken.end)
        if most is not None and before.row + len(batch) > most:
            batch = replace(batch.until(max(most - before.row, 0)), position=taken.position(max(most, before.row)))
        return taken, batch if self.book is None or rows.met is None else numbered(batch, rows.met, self.book)

    def _sorted_out(self, messages: Sequence[Message]) -> list[int]:
        """How many rows each message has; those that cannot be read have none, and are set aside."""
        counts, aside = [], list[Letter]()
        for message in messages:
            reason: str | None = self.known.refused.get(message.named) or message.error or None
            rows = 0
            if len(message.data) > self.options.max_line:
                reason = f"a message may have {self.options.max_line:,} bytes (--max-line), got {len(message.data):,}"
            elif reason is None:
                rows, reason = self._count_rows(message)
            counts.append(rows)
            if reason is None:
                self.known.bad = 0
            else:
                self.known.bad += 1
                aside.append((message, reason))
            if self.known.bad > self.options.max_errors:
                break
        self._set_aside(aside)
        if self.known.bad > self.options.max_errors:
            raise InvalidInputError(
                f"more than {self.options.max_errors:,} messages in a row (--max-errors) cannot be read as "
                f"{self.reading['format']} (--format says what they are), the last: {self.known.reason}"
            )
        return counts

    def _count_rows(self, message: Message) -> tuple[int, str | None]:
        """Return how many rows a message has, or why it cannot be read."""
        try:
            rows = self._rows(_joined([message]))
            reason = self._why_bad(rows)
        except Exception as error:  # the next message may be fine
            return 0, reason_of(error)
        if reason is None and not len(rows.parsed.labels):
            reason = "there is no row in it"
        return len(rows.parsed.labels) if reason is None else 0, reason

    def _why_bad(self, rows: Rows) -> str | None:
        if rows.parsed.error is not None:
            return rows.parsed.error.message
        bad, why = self._bad_label(rows)
        if bad >= 0:
            return f"row {bad + 1}{why}"
        if self.widest is not None and rows.parsed.width > self.widest:
            return f"features have numbers up to {self.widest:,}, got one that is higher"
        return "there is no label in it" if rows.y is None and self.options.labels else None

    def _set_aside(self, letters: Sequence[Letter]) -> None:
        """Put messages where bad ones go, then count them: until then a lost server may bring them again."""
        if letters:
            self.letters.put(letters)
            self.known.reason = self._told(*letters[-1])
        for message, reason in letters:
            self.skipped.add(self._told(message, reason))

    def _told(self, message: Message, reason: str) -> str:
        return f"{self.address}, message {message.named}: {reason}"


def _joined(messages: Sequence[Message]) -> Any:
    text = b"".join(each.data if each.data.endswith(b"\n") else each.data + b"\n" for each in messages)
    return np.frombuffer(text, dtype=np.uint8)


def _is_line(data: bytes, most: int) -> bool:
    """Whether a message has one line: of several, counting rows does not tell where each message ends."""
    return len(data) <= most and b"\n" not in data.rstrip(b"\n")
