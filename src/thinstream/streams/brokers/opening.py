"""A stream from a broker's address: the format as asked for, classes and columns by looking at the first messages."""

import time
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np

from thinstream.errors import InvalidParameterError, listed
from thinstream.streams.brokers.address import Address, only_address
from thinstream.streams.brokers.broker import Broker, SourceGapError, open_broker
from thinstream.streams.brokers.dead_letters import dead_letters
from thinstream.streams.brokers.following import Following
from thinstream.streams.brokers.stream import MESSAGES, TICK, MessageStream
from thinstream.streams.formats import DEFAULT, Format, find_format, formats
from thinstream.streams.looking import Looked, look
from thinstream.streams.looking.heads import AT_HAND
from thinstream.streams.options import Options
from thinstream.streams.sources import PATIENCE

#: Followed until a signal comes.
ALWAYS = Following()
#: Messages that tell classes and columns, if no more are there.
ENOUGH = 100


def format_in(address: Address, options: Options) -> Format:
    """The format of messages: as asked for, as the address says, or libsvm."""
    known = find_format(options.format or address.settings.get("format") or DEFAULT)
    texts = [each.name for each in formats().values() if not each.is_table and each.name != "cache"]
    if known.name not in texts:
        raise InvalidParameterError(f"the format of messages must be {listed(texts)}, got {known.name!r}")
    if options.zero_based == "auto":
        raise InvalidParameterError(
            "zero_based='auto' looks through all rows first, and a source has no end: yes or no"
        )
    if known.takes("header") and (options.header is False or not address.header):
        raise InvalidParameterError(
            f"{address}: messages in {known.name} have no line that names columns, it must be known beforehand: add "
            "header=a,b,c to the address"
        )
    known.require_taken(options)
    return known


def look_at_source(given: Any, options: Options, following: Following = ALWAYS) -> Looked:
    """The options with what is found by looking at the first messages; it waits for the first."""
    address = only_address(given)
    options.check()
    known, named = format_in(address, options), str(address)
    AT_HAND[named] = cache(lambda: first_lines(address, options.look, following.idle_seconds))
    try:
        found = look(known, [named], options)
    finally:
        del AT_HAND[named]
    found.options.check()
    return found


def open_source(given: Any, options: Options, following: Following = ALWAYS) -> MessageStream:
    """The rows of a broker's messages; see `open_stream`."""
    address = only_address(given)
    following.check()
    options = look_at_source(given, options, following).options
    known, broker = format_in(address, options), open_broker(address)
    text: Any = known.open(known, [], options)
    if known.takes("header"):
        text.form.header(np.frombuffer(address.header, np.uint8))
    parts = {each.name: getattr(text, each.name) for each in fields(text)}
    letters = dead_letters(following.dead_letters, broker)
    return MessageStream(**parts, broker=broker, address=address, following=following, letters=letters)


def first_lines(address: Address, records: int, idle_seconds: float | None = None) -> tuple[bytes, bool]:
    """The first messages as text, as a file would begin, and whether they are all there are.

    No member of a group is given them for that.
    """
    alone = {name: value for name, value in address.settings.items() if name != "group"}
    broker = open_broker(replace(address, settings=alone))
    try:
        found, whole = _first(broker, records, idle_seconds)
    finally:
        broker.close()
    return address.header + b"".join(each if each.endswith(b"\n") else each + b"\n" for each in found), whole


def _first(broker: Broker, records: int, idle_seconds: float | None) -> tuple[list[bytes], bool]:
    """Data of messages; once some have come, others are not waited for long.

    Of a source that ends when it is idle, those that are there are all.
    """
    found, since = list[bytes](), time.monotonic()
    taken, place = broker.start()
    broker.seek(place, taken)
    while len(found) < records:
        try:
            messages = broker.read(min(MESSAGES, records - len(found)), TICK)
        except SourceGapError:  # these messages are only looked at
            continue
        found += [each.data for each in messages]
        waited = time.monotonic() - since
        if not messages and (len(found) >= ENOUGH or (found and waited >= PATIENCE)):
            return found, idle_seconds is not None
        if not messages and idle_seconds is not None and waited >= idle_seconds:
            return found, True
        since = time.monotonic() if messages else since
    return found, False
