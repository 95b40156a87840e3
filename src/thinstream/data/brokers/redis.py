"""Redis Streams: ``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]/STREAM``, encrypted as ``rediss://``.

Without ``group=``, all entries are read, and nothing is written to the server. The members of a consumer group share
the entries. Each member has a name (``consumer=``) and its own checkpoint. An entry that it received stays pending
until its checkpoint contains the entry, and is delivered again after a stop. The position is the id of the last entry
read.

Ids are not consecutive, so missing entries are found by counting. The server counts all entries that were ever added
(``entries-added``), and a position has the number of entries up to it: those read, and those known to be missing.
Single entries that were deleted (XDEL) after a backlog are noticed when the backlog has been read.
"""

import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, TypeVar

from thinstream.data.brokers import Address
from thinstream.data.brokers.broker import Cursor, Message, gap, missing, reason_of, require_long, unknown_gap
from thinstream.errors import SourceError, SourceLostError

PORT, SECONDS = 6379, 5.0
#: The field of an entry that contains the row.
FIELD = "row"
#: The most pending entries in a request.
_MANY = 1000
Answer = TypeVar("Answer")


def package() -> Any:
    """Import and return the client, an optional package."""
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
            raise SourceError(
                f"{address}: an address must have the form {address.scheme}://HOST/STREAM or {address.scheme}://HOST/DATABASE/STREAM"
            )
        self._key, self._database = path[0], database
        self._group = address.settings.get("group")
        self._consumer = address.settings.get("consumer", socket.gethostname())
        self._field = address.settings.get("field")
        (host, port), *others = address.hosts
        if others:
            raise SourceError(f"{address}: an address must have one host, got {len(address.hosts)}")
        tls = {"ssl": True, "ssl_ca_certs": address.settings.get("ca")} if address.encrypted else {}
        self._redis = redis = package()
        once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # the reader retries, and reports problems
        self._server: Any = redis.Redis(
            host=host, port=port or PORT, db=database, username=address.user, password=address.password, protocol=2,
            socket_timeout=SECONDS, socket_connect_timeout=SECONDS, retry=once, **tls,
        )  # fmt: skip
        self._next = "0-0"
        self._pending = False  # whether pending entries are delivered again first
        self._joined = False  # whether the group's pending entries were acknowledged
        self._delivered: deque[Cursor] = deque()  # not acknowledged yet
        self._ahead: list[Any] = []  # entries that were fetched and not returned yet
        self._count = 0  # entries up to the last one read, by this consumer or by the group
        self._reported: Cursor | None = None  # position of the group at the last gap of unknown size
        self._counts = True  # whether the server counts entries
        self._started = False  # whether entries missing in the group may have been missing before the start

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        redis = self._redis
        try:
            return question()
        except (redis.AuthenticationError, redis.exceptions.AuthorizationError) as error:
            raise SourceError(f"{self._address}: the server refused the request: {error}") from None
        except (redis.ConnectionError, redis.TimeoutError) as error:
            self._server.connection_pool.disconnect()
            raise SourceLostError(f"{self._address}: the server cannot be reached: {error}") from None
        except redis.ResponseError as error:
            if "no such key" in str(error):
                raise SourceError(
                    f"{self._address}: the stream {self._key!r} does not exist in database {self._database}"
                ) from None
            raise SourceError(f"{self._address}: the server refused the request: {error}") from None

    def _about(self) -> dict[str, Any]:
        info: dict[str, Any] = self._ask(lambda: self._server.xinfo_stream(self._key))
        return info

    def _about_group(self) -> dict[str, Any]:
        groups = self._ask(lambda: self._server.xinfo_groups(self._key))
        for group in groups:
            if group["name"].decode() == self._group:
                return dict(group)
        raise SourceError(f"{self._address}: the group {self._group!r} was removed from the stream {self._key!r}")

    def identity(self) -> dict[str, Any]:
        member = {"group": self._group, "consumer": self._consumer} if self._group else {}
        return {"source": "redis", "database": self._database, "stream": self._key, **member}

    def start(self) -> tuple[int, Cursor]:
        about = self._about()
        self._started = self._group is not None
        added = int(about.get("entries-added", about["length"]))
        if self._address.begins == "new" and self._group is None:
            return added, _cursor(about["last-generated-id"])
        return added - int(about["length"]), (0, 0)

    def seek(self, cursor: Cursor, taken: int = 0, first: int | None = None) -> None:
        """Continue after an entry."""
        about, at = self._about(), _id(cursor)
        last = _cursor(about["last-generated-id"])
        require_long(self._address, last < cursor, _id(last), at)
        self._next, self._pending, self._ahead, self._count = at, self._group is not None, [], taken
        if self._group is not None:
            self._join(cursor)
            self._count += self._count_pending(cursor)

    def _join(self, cursor: Cursor) -> None:
        """Create the group if necessary; the first time, acknowledge entries that are in the checkpoint."""
        begin = "$" if cursor == (0, 0) and self._address.begins == "new" else _id(cursor)
        groups = self._ask(lambda: self._server.xinfo_groups(self._key))
        if self._group not in [group["name"].decode() for group in groups]:
            self._ask(lambda: self._server.xgroup_create(self._key, self._group, begin))
        while self._delivered and self._delivered[-1] > cursor:  # they will be delivered again
            self._delivered.pop()
        more: dict[str, Any] = {"min": "-", "max": _id(cursor), "count": _MANY, "consumername": self._consumer}
        while not self._joined:
            pending = self._ask(lambda: self._server.xpending_range(self._key, self._group, **more))
            self._joined = not pending
            if pending:
                self._acknowledge([entry["message_id"] for entry in pending])

    def _count_pending(self, cursor: Cursor) -> int:
        """Count the entries after a position that this consumer has received."""
        count, more = 0, {"min": f"({_id(cursor)}", "max": "+", "count": _MANY, "consumername": self._consumer}
        while pending := self._ask(lambda: self._server.xpending_range(self._key, self._group, **more)):
            count += len(pending)
            more["min"] = f"({pending[-1]['message_id'].decode()}"
        return count

    def read(self, most: int, seconds: float) -> list[Message]:
        """Return the next entries."""
        wait = max(int(1000 * seconds), 1)
        if self._pending and not self._ahead:
            self._ahead = self._read_group(self._next, most, None)
            self._pending = bool(self._ahead)
        elif not self._ahead:
            self._require_all()
            if self._group is None:
                answer = self._ask(lambda: self._server.xread({self._key: self._next}, count=most, block=wait))
                self._ahead = answer[0][1] if answer else []
            else:
                self._ahead = self._read_group(">", most, wait)
            self._count += len(self._ahead)
        entries = [*takewhile(_is_there, self._ahead)]
        gone = 0 if entries else len([*takewhile(lambda entry: not _is_there(entry), self._ahead)])
        returned, self._ahead = self._ahead[: len(entries) or gone], self._ahead[len(entries) or gone :]
        before, self._next = self._next, returned[-1][0].decode() if returned else self._next
        if gone:  # trimmed or deleted while pending
            raise gap(self._address, gone, before, _cursor(self._next.encode()), counted=gone)
        return [self._message(name, fields) for name, fields in entries]

    def _read_group(self, after: str, most: int, wait: int | None) -> list[Any]:
        answer = self._ask(
            lambda: self._server.xreadgroup(self._group, self._consumer, {self._key: after}, count=most, block=wait)
        )
        entries: list[Any] = answer[0][1] if answer else []
        self._delivered += [_cursor(name) for name, _ in entries]
        return entries

    def _require_all(self) -> None:
        """Raise `SourceGapError` if entries after the last one read were removed.

        With several consumers in a group, this uses the server's count (``entries-read``), which is too low after an
        earlier gap before Redis 7.4.
        """
        about, cursor, count, alone = self._about(), _cursor(self._next.encode()), self._count, True
        if "entries-added" not in about:
            self._require_counts()
            return
        if self._group is not None:
            group = self._about_group()
            cursor, alone = _cursor(group["last-delivered-id"]), group["consumers"] <= 1
            if not alone and (group.get("entries-read") is None or cursor == self._reported):
                return
            read = int(group.get("entries-read") or 0)
            count = max(count, read) if alone else read
        added, length = int(about["entries-added"]), int(about["length"])
        first, last = (about[f"{name}-entry"] for name in ("first", "last"))
        if not length or (alone and _cursor(last[0]) <= cursor):
            length = 0  # all entries in the stream were read
        elif _cursor(first[0]) <= cursor:
            return  # no entry after the position was trimmed
        lost = added - count - length
        if not alone and lost > 0 and not self._started:
            self._reported = cursor
            raise gap(self._address, lost, _id(cursor), exact=False)
        counted, self._count = added - length - self._count, added - length
        if self._started:  # they were missing before this run
            self._started = False
            raise gap(self._address, 0, _id(cursor), counted=counted)
        if lost > 0:
            raise gap(self._address, lost, _id(cursor), counted=counted)
        if lost < 0 and alone:
            raise unknown_gap(
                f"{self._address}: {count:,} entries were read, but the stream has had only {added - length:,} before "
                "the "
                "next one. It was created again or has lost entries, and an unknown number of messages may be missing",
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
            return Message(row_of(fields, self._field), _cursor(name), named=name.decode())
        except Exception as error:  # the next entry may be fine
            return Message(repr(fields).encode(), _cursor(name), named=name.decode(), error=reason_of(error))

    def after(self, cursor: Cursor, messages: Sequence[Message]) -> Cursor:
        return messages[-1].cursor if messages else cursor

    def lag(self, cursor: Cursor, taken: int) -> int | None:
        """Return the number of entries added and not read; in a group, those undelivered or pending here."""
        if self._group is None:
            about = self._about()
            added = about.get("entries-added")
            return None if added is None else max(int(added) - taken, 0)
        group, added = self._about_group(), self._about().get("entries-added")
        if added is not None and group["consumers"] <= 1:  # the server's lag includes removed entries
            group["lag"] = max(int(added) - self._count, 0)
        left = group.get("lag")
        return None if left is None else int(left) + sum(delivered > cursor for delivered in self._delivered)

    def acknowledge(self, cursor: Cursor) -> None:
        """Acknowledge entries up to this one, so that they are no longer pending."""
        done = []
        while self._delivered and self._delivered[0] <= cursor:
            done.append(_id(self._delivered.popleft()))
        for k in range(0, len(done), _MANY):
            self._acknowledge(done[k : k + _MANY])

    def _acknowledge(self, names: list[Any]) -> None:
        self._ask(lambda: self._server.xack(self._key, self._group, *names))

    def set_aside(self, name: str, message: Message, reason: str) -> None:
        """Add the message to another stream, under the same id, so that it is there only once."""
        entry = {"reason": reason, "source": self._key, "data": message.data}
        try:
            self._ask(lambda: self._server.xadd(name, entry, id=message.named))
        except SourceError as error:
            if "equal or smaller" not in str(error):
                raise

    def close(self) -> None:
        self._server.close()


def row_of(fields: dict[bytes, bytes], field: str | None = None) -> bytes:
    """Return the row of an entry: the named field, ``row``, the only field, or else all fields as a JSON object.

    >>> row_of({b"label": b"1", b"age": b"31", b"city": b"Oslo"})
    b'{"label": 1, "age": 31, "city": "Oslo"}'
    """
    if field is not None:
        return fields.get(field.encode(), b"")
    if FIELD.encode() in fields or len(fields) <= 1:
        return fields.get(FIELD.encode(), next(iter(fields.values()), b""))
    return json.dumps({_text(name): _value(_text(value)) for name, value in fields.items()}).encode()


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _value(text: str) -> Any:
    """Return a number if the text is one in JSON, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # deeply nested brackets are text, like anything else that is not a number
        return text
    return value if isinstance(value, int | float) else text


def _is_there(entry: Any) -> bool:
    """Return whether an entry has fields: a pending entry that was removed has none."""
    return bool(entry[1])


def _cursor(name: bytes) -> Cursor:
    first, _, second = name.decode().partition("-")
    return int(first), int(second)


def _id(cursor: Cursor) -> str:
    return f"{cursor[0]}-{cursor[1]}"
