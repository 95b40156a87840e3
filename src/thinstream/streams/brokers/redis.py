"""Redis Streams: ``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]/STREAM``, encrypted as ``rediss://``.

Without ``group=`` all entries are read, and nothing is written to the server. In a consumer group the members share the
entries: each has a name (``consumer=``) and a checkpoint of its own, what it was given stays pending until its
checkpoint has it, and after a stop it is given again. The place is the id of the last entry taken.

Ids are not consecutive, so missing entries are found by counting. The server counts the entries that were ever added
(``entries-added``), and a position has the number of entries up to it: those read, and those known to be missing.
Entries that were deleted one by one (XDEL) ahead of a backlog are noticed when the backlog has been read.
"""

import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from thinstream.streams.brokers.address import Address
from thinstream.streams.brokers.broker import (
    Message,
    Place,
    SourceError,
    SourceLostError,
    gap,
    missing,
    reason_of,
    require_long,
    unknown_gap,
)

PORT, SECONDS = 6379, 5.0
#: The field of an entry that has the row.
FIELD = "row"
#: Pending entries that are looked at, or acknowledged, at a time.
_MANY = 1000
Found = TypeVar("Found")


def package() -> Any:
    """The client, an optional package; imported when first needed."""
    try:
        import redis
    except ImportError as error:
        raise missing("redis://", "redis", "redis") from error
    return redis


class RedisStream:
    """Entries of a stream, read alone or as a member of a group."""

    def __init__(self, address: Address) -> None:
        self._address = address
        database, path = 0, address.path
        if len(path) == 2 and path[0].isdigit():
            database, path = int(path[0]), path[1:]
        if len(path) != 1:
            raise SourceError(f"{address}: an address is {address.scheme}://HOST/STREAM or …/DATABASE/STREAM")
        self._key, self._database = path[0], database
        self._group = address.settings.get("group")
        self._consumer = address.settings.get("consumer", socket.gethostname())
        self._field = address.settings.get("field")
        (host, port), *others = address.hosts
        if others:
            raise SourceError(f"{address}: one host is needed, got {len(address.hosts)}")
        tls = {"ssl": True, "ssl_ca_certs": address.settings.get("ca")} if address.encrypted else {}
        self._redis = redis = package()
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # whoever reads tries again, and tells
        self._server: Any = redis.Redis(
            host=host, port=port or PORT, db=database, username=address.user, password=address.password, protocol=2,
            socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once, **tls,
        )  # fmt: skip
        self._next = "0-0"
        self._pending = False  # whether what was given before is given again first
        self._joined = False  # whether the group has been asked before
        self._given: deque[Place] = deque()  # and not acknowledged
        self._ahead: list[Any] = []  # entries that were fetched and not returned yet
        self._count = 0  # entries up to the last one read, by this consumer or by the group
        self._reported: Place | None = None  # where the group was when a gap was reported that cannot be counted
        self._counts = True  # whether the server counts entries
        self._started = False  # whether entries that are missing in the group now were missing before

    def _ask(self, question: Callable[[], Found]) -> Found:
        redis = self._redis
        try:
            return question()
        except (redis.AuthenticationError, redis.exceptions.AuthorizationError) as error:
            raise SourceError(f"{self._address}: the server refuses: {error}") from None
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self._server.connection_pool.disconnect()
            raise SourceLostError(f"{self._address}: the server cannot be reached: {error}") from None
        except redis.ResponseError as error:
            if "no such key" in str(error):
                raise SourceError(
                    f"{self._address}: there is no stream {self._key!r} in database {self._database}"
                ) from None
            raise SourceError(f"{self._address}: the server refuses: {error}") from None

    def _about(self) -> dict[str, Any]:
        found: dict[str, Any] = self._ask(lambda: self._server.xinfo_stream(self._key))
        return found

    def _about_group(self) -> dict[str, Any]:
        groups = self._ask(lambda: self._server.xinfo_groups(self._key))
        for group in groups:
            if group["name"].decode() == self._group:
                return dict(group)
        raise SourceError(f"{self._address}: the group {self._group!r} was removed from the stream {self._key!r}")

    def identity(self) -> dict[str, Any]:
        """The stream, and who reads it."""
        member = {"group": self._group, "consumer": self._consumer} if self._group else {}
        return {"source": "redis", "database": self._database, "stream": self._key, **member}

    def start(self) -> tuple[int, Place]:
        """Before the first entry, or after the last."""
        about = self._about()
        self._started = self._group is not None
        added = int(about.get("entries-added", about["length"]))
        if self._address.begins == "new" and self._group is None:
            return added, _place(about["last-generated-id"])
        return added - int(about["length"]), (0, 0)

    def seek(self, place: Place, taken: int = 0, first: int | None = None) -> None:
        """Goes on after an entry."""
        about, at = self._about(), _id(place)
        last = _place(about["last-generated-id"])
        require_long(self._address, last < place, _id(last), at)
        self._next, self._pending, self._ahead, self._count = at, self._group is not None, [], taken
        if self._group is not None:
            self._join(place)
            self._count += self._count_pending(place)

    def _join(self, place: Place) -> None:
        """The group is made if need be; at first, what lies before the place is in a checkpoint and acknowledged."""
        begin = "$" if place == (0, 0) and self._address.begins == "new" else _id(place)
        groups = self._ask(lambda: self._server.xinfo_groups(self._key))
        if self._group not in [each["name"].decode() for each in groups]:
            self._ask(lambda: self._server.xgroup_create(self._key, self._group, begin))
        while self._given and self._given[-1] > place:  # they will be given again
            self._given.pop()
        more: dict[str, Any] = {"min": "-", "max": _id(place), "count": _MANY, "consumername": self._consumer}
        while not self._joined:
            found = self._ask(lambda: self._server.xpending_range(self._key, self._group, **more))
            self._joined = not found
            if found:
                self._acknowledge([each["message_id"] for each in found])

    def _count_pending(self, place: Place) -> int:
        """Count the entries after a place that this consumer was given."""
        count, more = 0, {"min": f"({_id(place)}", "max": "+", "count": _MANY, "consumername": self._consumer}
        while found := self._ask(lambda: self._server.xpending_range(self._key, self._group, **more)):
            count += len(found)
            more["min"] = f"({found[-1]['message_id'].decode()}"
        return count

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next entries."""
        wait = max(int(1000 * seconds), 1)
        if self._pending and not self._ahead:
            self._ahead = self._read_group(self._next, most, None)
            self._pending = bool(self._ahead)
        elif not self._ahead:
            self._require_all()
            if self._group is None:
                found = self._ask(lambda: self._server.xread({self._key: self._next}, count=most, block=wait))
                self._ahead = found[0][1] if found else []
            else:
                self._ahead = self._read_group(">", most, wait)
            self._count += len(self._ahead)
        entries = [*takewhile(_is_there, self._ahead)]
        gone = 0 if entries else len([*takewhile(lambda entry: not _is_there(entry), self._ahead)])
        returned, self._ahead = self._ahead[: len(entries) or gone], self._ahead[len(entries) or gone :]
        before, self._next = self._next, returned[-1][0].decode() if returned else self._next
        if gone:  # trimmed or deleted while they were pending
            raise gap(self._address, gone, before, _place(self._next.encode()), counted=gone)
        return [self._message(name, fields) for name, fields in entries]

    def _read_group(self, after: str, most: int, wait: int | None) -> list[Any]:
        found = self._ask(
            lambda: self._server.xreadgroup(self._group, self._consumer, {self._key: after}, count=most, block=wait)
        )
        entries: list[Any] = found[0][1] if found else []
        self._given += [_place(name) for name, _ in entries]
        return entries

    def _require_all(self) -> None:
        """Raise `SourceGapError` if entries after the last one read were removed.

        A group of several consumers cannot count on its own: the server's count (``entries-read``) is used, which is
        too low after an earlier gap before Redis 7.4.
        """
        about, place, count, alone = self._about(), _place(self._next.encode()), self._count, True
        if "entries-added" not in about:
            self._require_counts()
            return
        if self._group is not None:
            group = self._about_group()
            place, alone = _place(group["last-delivered-id"]), group["consumers"] <= 1
            if not alone and (group.get("entries-read") is None or place == self._reported):
                return
            read = int(group.get("entries-read") or 0)
            count = max(count, read) if alone else read
        added, length = int(about["entries-added"]), int(about["length"])
        first, last = (about[f"{name}-entry"] for name in ("first", "last"))
        if not length or (alone and _place(last[0]) <= place):
            length = 0  # all entries that are there were read
        elif _place(first[0]) <= place:
            return  # no entry after the place was trimmed
        lost = added - count - length
        if not alone and lost > 0 and not self._started:
            self._reported = place
            raise gap(self._address, lost, _id(place), exact=False)
        counted, self._count = added - length - self._count, added - length
        if self._started:  # others are missing since before this run
            self._started = False
            raise gap(self._address, 0, _id(place), counted=counted)
        if lost > 0:
            raise gap(self._address, lost, _id(place), counted=counted)
        if lost < 0 and alone:
            raise unknown_gap(
                f"{self._address}: {count:,} entries were read, and the stream has had {added - length:,} before the "
                "next one: it was made again or has lost entries, and an unknown number of messages may be missing",
                counted=counted,
            )

    def _require_counts(self) -> None:
        """Raise once if the server is too old to count entries."""
        if self._counts:
            self._counts = False
            raise unknown_gap(
                f"{self._address}: the server is older than Redis 7.0 and does not count the entries it removes, so "
                "missing messages cannot be detected"
            )

    def _message(self, name: bytes, fields: dict[bytes, bytes]) -> Message:
        try:
            return Message(row_of(fields, self._field), _place(name), named=name.decode())
        except Exception as error:  # the next entry may be fine
            return Message(repr(fields).encode(), _place(name), named=name.decode(), error=reason_of(error))

    def after(self, place: Place, messages: Sequence[Message]) -> Place:
        """The id of the last."""
        return messages[-1].place if messages else place

    def lag(self, place: Place, taken: int) -> int | None:
        """Entries that were added and not taken; in a group what nobody has been given, and what this one was."""
        if self._group is None:
            about = self._about()
            added = about.get("entries-added")
            return None if added is None else max(int(added) - taken, 0)
        group, added = self._about_group(), self._about().get("entries-added")
        if added is not None and group["consumers"] <= 1:  # the server's number counts entries that were removed
            group["lag"] = max(int(added) - self._count, 0)
        left = group.get("lag")
        return None if left is None else int(left) + sum(given > place for given in self._given)

    def acknowledge(self, place: Place) -> None:
        """Entries up to this one are pending no longer."""
        done = []
        while self._given and self._given[0] <= place:
            done.append(_id(self._given.popleft()))
        for k in range(0, len(done), _MANY):
            self._acknowledge(done[k : k + _MANY])

    def _acknowledge(self, names: list[Any]) -> None:
        self._ask(lambda: self._server.xack(self._key, self._group, *names))

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Into another stream, under the same id: so it stands there once."""
        entry = {"reason": reason, "source": self._key, "data": message.data}
        try:
            self._ask(lambda: self._server.xadd(name, entry, id=message.named))
        except SourceError as error:
            if "equal or smaller" not in str(error):
                raise

    def close(self) -> None:
        """Lets go of the server."""
        self._server.close()


def row_of(fields: dict[bytes, bytes], field: str | None = None) -> bytes:
    """The row of an entry: the named field, ``row``, the only one there is, or else all of them as an object of JSON.

    >>> row_of({b"label": b"1", b"age": b"31", b"city": b"Oslo"})
    b'{"label": 1, "age": 31, "city": "Oslo"}'
    """
    if field is not None:
        return fields.get(field.encode(), b"")
    if FIELD.encode() in fields or len(fields) <= 1:
        return fields.get(FIELD.encode(), next(iter(fields.values()), b""))
    return json.dumps({_text(name): _value(_text(value)) for name, value in fields.items()}).encode()


def _text(given: bytes) -> str:
    return given.decode("utf-8", "replace")


def _value(text: str) -> Any:
    """A number where it is written as JSON has them, else the text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # too many brackets are a text, as any other text that is not a number
        return text
    return found if isinstance(found, int | float) else text


def _is_there(entry: Any) -> bool:
    """Whether an entry has its fields: a pending one that was removed has none."""
    return bool(entry[1])


def _place(name: bytes) -> Place:
    first, _, second = name.decode().partition("-")
    return int(first), int(second)


def _id(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
