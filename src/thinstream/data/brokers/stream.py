"""A broker's messages as a stream of batches, and how it is opened."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import numpy as np

from thinstream.batch import Batch, Position
from thinstream.data.brokers import Address, Following, only_address
from thinstream.data.brokers.broker import (
    Broker,
    DeadLetters,
    Letter,
    Message,
    Nowhere,
    Taken,
    as_cursor,
    as_number,
    dead_letters,
    open_broker,
    reason_of,
)
from thinstream.data.formats import DEFAULT, Format, find_format, formats
from thinstream.data.inference import Inferred, infer
from thinstream.data.options import Options
from thinstream.data.sources import PATIENCE
from thinstream.data.stream import START, Rows, TextStream, numbered
from thinstream.errors import (
    InvalidInputError,
    InvalidParameterError,
    SourceError,
    SourceGapError,
    SourceLostError,
    listed,
)

# Messages of a broker as an endless stream of rows.

#: The most messages of a read.
MESSAGES = 4096
#: Seconds of a read without messages, after which the run can do other work.
TICK = 0.2
#: Seconds between attempts to reach a server again, at first and at most.
FIRST, MOST = 0.05, 2.0
#: Seconds for which a lag is cached.
_FRESH = 1.0


@dataclass
class Status:
    """The state of a message stream while it is read."""

    taken: Taken | None = None  # the messages of the last batch
    trouble: str | None = None  # why no messages come
    bad: int = 0  # bad messages since the last good one
    reason: str = ""  # why the last of them is bad
    lost: int = 0  # messages that the broker removed before they were read
    gap: str = ""  # describes the last gap
    lag: int | None = None
    asked: float = -np.inf  # time of the lag
    position: Position = START
    refused: dict[str, str] = field(default_factory=dict)  # messages that cannot be learned, and why


@dataclass(frozen=True)
class MessageStream(TextStream):
    """Rows of messages, each of which has one or several lines of a text format.

    It reads until `Following` ends it. If the server cannot be reached, it retries.
    """

    broker: Broker = field(kw_only=True)
    address: Address = field(kw_only=True)
    following: Following = field(default_factory=Following, kw_only=True)
    letters: DeadLetters = field(default_factory=Nowhere, kw_only=True)
    widest: int | None = field(default=None, kw_only=True)  # the largest number of features of a row
    status: Status = field(default_factory=Status, kw_only=True)

    unit = "rows"

    @property
    def size(self) -> int | None:
        """None, because the stream is endless."""
        return None

    def done(self, position: Position) -> int | None:
        """Return None, because the size is unknown."""
        return None

    def fingerprint(self) -> dict[str, Any]:
        """Return what distinguishes this source from others, without host and user."""
        return {**self.broker.identity(), "space": self.feature_space, **self.reading}

    @property
    def trouble(self) -> str | None:
        """Why no messages come, while the server cannot be reached."""
        return self.status.trouble

    @property
    def lost(self) -> int:
        """The number (or upper bound) of messages that the broker removed before they were read."""
        return self.status.lost

    @property
    def remarks(self) -> list[str]:
        """Remarks on the rows, and on missing messages."""
        lost = f"{self.address}: {self.lost:,} messages were removed before they were read; the last gap: "
        return [*super().remarks, *([lost + self.status.gap] if self.status.gap else [])]

    @property
    def lag(self) -> int | None:
        """The number of messages that were not read yet, up to a second old; None if unknown."""
        status, now = self.status, time.monotonic()
        if status.position.offset and now - status.asked >= _FRESH:
            status.asked, status.lag = now, None
            with suppress(SourceError):  # reading will report it
                status.lag = self.broker.lag(as_cursor(status.position.offset), status.position.line)
        return status.lag

    def at_row(self, row: int) -> Position:
        """Return the position after N rows of the source, some of which are in the last batch."""
        assert self.status.taken is not None
        return self.status.taken.position(row)

    def refuse(self, row: int, reason: str) -> None:
        """Mark the message of a row of the last batch as one that cannot be learned."""
        assert self.status.taken is not None
        self.status.refused[self.status.taken.message(row).named] = reason

    def kept(self, position: Position) -> None:
        """Acknowledge a position that a checkpoint contains, now or together with the next one."""
        if position.offset:
            with suppress(SourceLostError):
                self.broker.acknowledge(as_cursor(position.offset))

    def close(self) -> None:
        self.broker.close()

    def batches(self, start: Position = START) -> Iterator[Batch]:
        """Yield the rows from ``start`` on, and sometimes an empty batch, so that the caller can do other work."""
        status, following, position, fresh = self.status, self.following, start, not start.offset
        if fresh:
            before, first = self.broker.start()
            position = start._replace(offset=as_number(first), line=before)
        self._seek(position)
        pause, since = FIRST, time.monotonic()
        while not following.are_enough(position.row + position.skip):
            try:
                if status.trouble is not None:
                    self._seek(position)
                    status.trouble, pause, since = None, FIRST, time.monotonic()
                messages = self.broker.read(MESSAGES, TICK)
                parts, fresh = self._read(messages, position) if messages else [], False
            except SourceGapError as gap:
                status.position = position = self._past(gap, position, fresh)
                yield self._nothing(position)
                continue
            except SourceLostError as error:
                status.trouble, since = str(error), time.monotonic()
                yield self._nothing(position)
                time.sleep(pause)
                pause = min(2 * pause, MOST)
                continue
            if not messages and following.is_over(time.monotonic() - since):
                return
            status.position = position
            for status.taken, batch in parts:
                status.position = position = batch.position or position
                yield batch
                if following.are_enough(position.row + position.skip):
                    return
            if parts:
                since = time.monotonic()
            else:
                yield self._nothing(position)

    def _seek(self, position: Position) -> None:
        """Connect at a position; the part of a message that was learned in part comes first."""
        first = position.part - 1 if position.part else None
        self.broker.seek(as_cursor(position.offset), position.line, first)

    def _past(self, gap: SourceGapError, position: Position, fresh: bool) -> Position:
        """Return the position after a gap, or raise unless gaps are allowed; a fresh run starts after the gap."""
        if gap.lost is None or (gap.lost and not fresh):
            if self.following.on_gap == "stop":
                gap.args = (
                    f"{gap}. Pass --on-gap continue (in Python: on_gap='continue') to continue without them, and keep "
                    "messages in the broker for longer.",
                )
                raise gap
            if position.part:
                raise SourceError(
                    f"{gap}. One of them was learned in part, so remove the checkpoint to start from scratch."
                )
            self.status.lost += gap.lost or 0
            self.status.gap = str(gap)
        offset = position.offset if gap.cursor is None else as_number(gap.cursor)
        return position._replace(offset=offset, line=position.line + gap.counted)

    def _nothing(self, position: Position) -> Batch:
        return self._rows(np.empty(0, dtype=np.uint8)).batch(position.row, position)

    def _read(self, messages: Sequence[Message], before: Position) -> list[tuple[Taken, Batch]]:
        """Parse messages into batches: into a single one, unless messages must be parsed one by one."""
        counts, refused, most = [1] * len(messages), self.status.refused, self.options.max_line
        plain = all(_is_line(m.data, most) and m.named not in refused and not m.error for m in messages)
        rows = self._parse_together(messages, counts) if plain else None
        if rows is None:
            counts = self._sorted_out(messages)
            good = [message for message, count in zip(messages, counts, strict=True) if count]
            rows = self._parse_together(good, counts)
        self.status.bad = 0 if counts[-1] else self.status.bad
        if rows is not None:
            try:
                return [self._delivered(rows, messages, counts, before)]
            except Exception:
                rows = None  # parsing one by one shows which message is bad
        return self._one_by_one(messages, counts, before)

    def _parse_together(self, messages: Sequence[Message], counts: Sequence[int]) -> Rows | None:
        """Return the rows of messages with ``counts`` rows; None if they cannot be parsed as one text."""
        try:
            rows = self._rows(_joined(messages))
            good = self._why_bad(rows) is None or not messages
        except Exception:  # parsing one by one shows which message is bad
            return None
        return rows if good and len(rows.parsed.labels) == sum(counts) else None

    def _one_by_one(
        self, messages: Sequence[Message], counts: list[int], before: Position
    ) -> list[tuple[Taken, Batch]]:
        parts = []
        for message, count in zip(messages, counts, strict=True):
            rows = self._sorted_out([message])[0] if count else 0
            try:
                one = self._delivered(self._rows(_joined([message] if rows else [])), [message], [rows], before)
            except Exception as error:  # the next message may be fine
                self._set_aside([(message, reason_of(error))])
                one = self._delivered(self._rows(_joined([])), [message], [0], before)
            parts.append(one)
            before = one[0].end
        return parts

    def _delivered(
        self, rows: Rows, messages: Sequence[Message], counts: list[int], before: Position
    ) -> tuple[Taken, Batch]:
        taken, most = Taken(self.broker, before, messages, counts), self.following.rows
        if self.names is not None:
            self.names.add(rows.parsed.named, before.row)
        self.numbers.add(rows.numbers)
        batch = rows.batch(before.row, taken.end)
        if most is not None and before.row + len(batch) > most:
            batch = replace(batch.until(max(most - before.row, 0)), position=taken.position(max(most, before.row)))
        return taken, batch if self.book is None or rows.met is None else numbered(batch, rows.met, self.book)

    def _sorted_out(self, messages: Sequence[Message]) -> list[int]:
        """Return the number of rows of each message, 0 for bad messages, which become dead letters."""
        counts, aside = [], list[Letter]()
        for message in messages:
            reason: str | None = self.status.refused.get(message.named) or message.error or None
            rows = 0
            if len(message.data) > self.options.max_line:
                limit = self.options.max_line
                reason = f"a message may have at most {limit:,} bytes (--max-line), got {len(message.data):,}"
            elif reason is None:
                rows, reason = self._count_rows(message)
            counts.append(rows)
            if reason is None:
                self.status.bad = 0
            else:
                self.status.bad += 1
                aside.append((message, reason))
            if self.status.bad > self.options.max_errors:
                break
        self._set_aside(aside)
        if self.status.bad > self.options.max_errors:
            raise InvalidInputError(
                f"more than {self.options.max_errors:,} messages in a row (--max-errors) cannot be read as "
                f"{self.reading['format']}. Pass --format if it is another format. The last one: {self.status.reason}"
            )
        return counts

    def _count_rows(self, message: Message) -> tuple[int, str | None]:
        """Return the number of rows of a message, or why it cannot be read."""
        try:
            rows = self._rows(_joined([message]))
            reason = self._why_bad(rows)
        except Exception as error:  # the next message may be fine
            return 0, reason_of(error)
        if reason is None and not len(rows.parsed.labels):
            reason = "it has no rows"
        return len(rows.parsed.labels) if reason is None else 0, reason

    def _why_bad(self, rows: Rows) -> str | None:
        if rows.parsed.error is not None:
            return rows.parsed.error.message
        bad, why = self._bad_label(rows)
        if bad >= 0:
            return f"row {bad + 1}{why}"
        if self.widest is not None and rows.parsed.width > self.widest:
            return f"feature indices must be at most {self.widest:,}, got a larger one"
        return "it has no label" if rows.y is None and self.options.labels else None

    def _set_aside(self, letters: Sequence[Letter]) -> None:
        """Save bad messages before counting them: until they are saved, the server may redeliver them."""
        if letters:
            self.letters.put(letters)
            self.status.reason = self._describe(*letters[-1])
        for message, reason in letters:
            self.skipped.add(self._describe(message, reason))

    def _describe(self, message: Message, reason: str) -> str:
        return f"{self.address}, message {message.named}: {reason}"


def _joined(messages: Sequence[Message]) -> Any:
    return np.frombuffer(_lines([message.data for message in messages]), dtype=np.uint8)


def _lines(texts: Sequence[bytes]) -> bytes:
    return b"".join(text if text.endswith(b"\n") else text + b"\n" for text in texts)


def _is_line(data: bytes, most: int) -> bool:
    """Return whether a message has one line: with more, row counts do not determine the ends of messages."""
    return len(data) <= most and b"\n" not in data.rstrip(b"\n")


# Open the stream of an address, with classes and columns inferred from the first messages.

#: Read until a signal comes.
ALWAYS = Following()
#: Messages that are enough for inference if no more are available.
ENOUGH = 100


def format_in(address: Address, options: Options) -> Format:
    """Return the format of messages: from the options, from the address, or libsvm."""
    file_format = find_format(options.format or address.settings.get("format") or DEFAULT)
    texts = [f.name for f in formats().values() if not f.is_table and f.name != "cache"]
    if file_format.name not in texts:
        raise InvalidParameterError(f"the format of messages must be {listed(texts)}, got {file_format.name!r}")
    if options.zero_based == "auto":
        raise InvalidParameterError(
            "zero_based='auto' reads all rows first, but a message stream has no end. Pass yes or no."
        )
    if file_format.takes("header") and (options.header is False or not address.header):
        raise InvalidParameterError(
            f"{address}: messages in {file_format.name} have no header. Add the column names to the address: "
            "header=a,b,c."
        )
    file_format.require_taken(options)
    return file_format


def infer_source(source: Any, options: Options, following: Following = ALWAYS) -> Inferred:
    """Return the options with everything that is inferred from the first messages; wait for the first one."""
    address = only_address(source)
    options.check()
    file_format, named = format_in(address, options), str(address)
    read_head = cache(lambda: first_lines(address, options.look, following.idle_seconds))
    inferred = infer(file_format, [named], options, read_head)
    inferred.options.check()
    return inferred


def open_source(source: Any, options: Options, following: Following = ALWAYS) -> MessageStream:
    """Open the messages of a broker as a stream; see `open_stream`."""
    address = only_address(source)
    following.check()
    options = infer_source(source, options, following).options
    file_format, broker = format_in(address, options), open_broker(address)
    text = file_format.open(file_format, [], options)
    assert isinstance(text, TextStream)
    if file_format.takes("header"):
        text.form.header(np.frombuffer(address.header, np.uint8))
    parts = {f.name: getattr(text, f.name) for f in fields(text)}
    letters = dead_letters(following.dead_letters, broker)
    return MessageStream(**parts, broker=broker, address=address, following=following, letters=letters)


def first_lines(address: Address, records: int, idle_seconds: float | None = None) -> tuple[bytes, bool]:
    """Return the first messages as text, like the start of a file, and whether these are all messages.

    They are not delivered to a consumer group.
    """
    alone = {name: value for name, value in address.settings.items() if name != "group"}
    broker = open_broker(replace(address, settings=alone))
    try:
        messages, is_complete = _first(broker, records, idle_seconds)
    finally:
        broker.close()
    return address.header + _lines(messages), is_complete


def _first(broker: Broker, records: int, idle_seconds: float | None) -> tuple[list[bytes], bool]:
    """Return the data of the first messages; once some have come, do not wait long for more.

    Also return whether these are all, for a source that ends when it is idle.
    """
    lines, since = list[bytes](), time.monotonic()
    taken, cursor = broker.start()
    broker.seek(cursor, taken)
    while len(lines) < records:
        try:
            messages = broker.read(min(MESSAGES, records - len(lines)), TICK)
        except SourceGapError:  # missing messages do not matter for inference
            continue
        lines += [message.data for message in messages]
        waited = time.monotonic() - since
        if not messages and (len(lines) >= ENOUGH or (lines and waited >= PATIENCE)):
            return lines, idle_seconds is not None
        if not messages and idle_seconds is not None and waited >= idle_seconds:
            return lines, True
        since = time.monotonic() if messages else since
    return lines, False
