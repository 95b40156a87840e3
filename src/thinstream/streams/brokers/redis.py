"""Redis Streams: ``redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]/STREAM``, encrypted as ``rediss://``.

Without ``group=`` all entries are read, and nothing is written to the server. In a consumer group the members share the
entries: each has a name (``consumer=``) and a checkpoint of its own, what it was given stays pending until its
checkpoint has it, and after a stop it is given again. The place is the id of the last entry taken.
"""

import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from thinstream.streams.brokers.address import Address
from thinstream.streams.brokers.broker import (
    Message,
    Place,
    SourceError,
    SourceLostError,
    missing,
    require_kept,
    require_long,
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

    def identity(self) -> dict[str, Any]:
        """The stream, and who reads it."""
        member = {"group": self._group, "consumer": self._consumer} if self._group else {}
        return {"source": "redis", "database": self._database, "stream": self._key, **member}

    def start(self) -> tuple[int, Place]:
        """Before the first entry, or after the last."""
        about = self._about()
        added = int(about.get("entries-added", about["length"]))
        if self._address.begins == "new" and self._group is None:
            return added, _place(about["last-generated-id"])
        return added - int(about["length"]), (0, 0)

    def seek(self, place: Place, taken: int = 0, first: int | None = None) -> None:
        """Goes on after an entry."""
        about, at = self._about(), _id(place)
        last, removed = _place(about["last-generated-id"]), int(about.get("entries-added", 0)) - int(about["length"])
        require_long(self._address, last < place, _id(last), at)
        self._next, self._pending = at, self._group is not None
        if self._group is None:
            require_kept(self._address, place != (0, 0) and removed > taken, at)
        else:
            self._join(place)

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

    def read(self, most: int, seconds: float) -> list[Message]:
        """The next entries."""
        wait = max(int(1000 * seconds), 1)
        if self._group is None:
            found = self._ask(lambda: self._server.xread({self._key: self._next}, count=most, block=wait))
        elif self._pending:
            found = self._read_group(self._next, most, None)
            if not (found and found[0][1]):
                self._pending = False
                return []
        else:
            found = self._read_group(">", most, wait)
        entries = found[0][1] if found else []
        if entries:
            self._next = entries[-1][0].decode()
        return [self._message(name, fields) for name, fields in entries]

    def _read_group(self, after: str, most: int, wait: int | None) -> Any:
        found = self._ask(
            lambda: self._server.xreadgroup(self._group, self._consumer, {self._key: after}, count=most, block=wait)
        )
        self._given += [_place(name) for _, entries in found for name, _ in entries]
        return found

    def _message(self, name: bytes, fields: dict[bytes, bytes] | None) -> Message:
        return Message(row_of(fields or {}, self._field), _place(name), named=name.decode())

    def after(self, place: Place, messages: Sequence[Message]) -> Place:
        """The id of the last."""
        return messages[-1].place if messages else place

    def lag(self, place: Place, taken: int) -> int | None:
        """Entries that were added and not taken; in a group what nobody has been given, and what this one was."""
        if self._group is None:
            about = self._about()
            added = about.get("entries-added")
            return None if added is None else max(int(added) - taken, 0)
        groups = self._ask(lambda: self._server.xinfo_groups(self._key))
        left = next((each.get("lag") for each in groups if each["name"].decode() == self._group), None)
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
    except ValueError:
        return text
    return found if isinstance(found, int | float) else text


def _place(name: bytes) -> Place:
    first, _, second = name.decode().partition("-")
    return int(first), int(second)


def _id(place: Place) -> str:
    return f"{place[0]}-{place[1]}"
