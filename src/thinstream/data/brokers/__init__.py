"""Message brokers: Redis Streams, NATS JetStream and Kafka. This module has their addresses and options.

A `Broker` (`broker`) reads messages from any position on, and `MessageStream` (`stream`) turns them into rows. The
position in the broker is part of the stream's position, and so of checkpoints: a resumed run reads again only what the
checkpoint does not contain. A broker learns about a position only after a checkpoint contains it.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from thinstream.errors import InvalidParameterError, listed, meant

# Addresses of message streams: ``redis://user:password@host:6379/0/clicks?group=learners``.

#: Schemes, with the name of the broker (as in packages and extras), and whether the connection is encrypted.
SCHEMES = {
    "redis": ("redis", False),
    "rediss": ("redis", True),
    "nats": ("nats", False),
    "tls": ("nats", True),
    "kafka": ("kafka", False),
    "kafka+ssl": ("kafka", True),
}
#: Settings of an address (after its question mark), by broker.
SETTINGS = {
    "redis": ("format", "header", "from", "group", "consumer", "field", "ca"),
    "nats": ("format", "header", "from", "subject", "ca"),
    "kafka": ("format", "header", "from", "group", "sasl", "ca"),
}
#: The start of a run without a checkpoint: the first available message, or after the last one.
FROM = ("start", "new")
#: Environment variables with the user and password, if the address has none.
USER, PASSWORD = "THINSTREAM_BROKER_USER", "THINSTREAM_BROKER_PASSWORD"


@dataclass(frozen=True)
class Address:
    """The address of a message stream, with credentials.

    >>> address = Address.of("rediss://ann:secret@example.org/2/clicks?group=learners")
    >>> address.kind, address.encrypted, address.hosts, address.path, address.settings
    ('redis', True, (('example.org', None),), ('2', 'clicks'), {'group': 'learners'})
    >>> address  # never shows the password
    Address('rediss://example.org/2/clicks')
    """

    scheme: str
    hosts: tuple[tuple[str, int | None], ...]
    path: tuple[str, ...]
    settings: dict[str, str]
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, text: str) -> "Address":
        """Parse an address."""
        parts = urlsplit(text)
        if parts.scheme not in SCHEMES:
            raise InvalidParameterError(
                f"the address of a message stream must begin with {listed(f'{scheme}://' for scheme in SCHEMES)}, got "
                f"{shown(text)!r}"
            )
        secrets, _, hosts = parts.netloc.rpartition("@")
        user, _, password = secrets.partition(":")
        settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        address = cls(
            parts.scheme,
            tuple(_host(host, text) for host in hosts.split(",")),
            tuple(unquote(part) for part in parts.path.split("/") if part),
            settings,
            unquote(user) or os.environ.get(USER),
            unquote(password) or os.environ.get(PASSWORD),
        )
        address._check()
        return address

    def _check(self) -> None:
        allowed = SETTINGS[self.kind]
        for name in self.settings:
            if name not in allowed:
                raise InvalidParameterError(f"{self}: there is no setting {name!r}; {meant(name, allowed)}")
        if self.begins not in FROM:
            raise InvalidParameterError(f"{self}: from must be {listed(FROM)}, got {self.begins!r}")
        if (ca := self.settings.get("ca")) and not Path(ca).is_file():
            raise InvalidParameterError(f"{self}: ca must be a file of certificates, and the file {ca} does not exist")

    @property
    def kind(self) -> str:
        """The name of the broker: "redis", "nats" or "kafka"."""
        return SCHEMES[self.scheme][0]

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return SCHEMES[self.scheme][1]

    @property
    def begins(self) -> str:
        """The start of a run without a checkpoint, one of `FROM`."""
        return self.settings.get("from", "start")

    @property
    def header(self) -> bytes:
        """The line with the column names of CSV messages, or b"" if the address has none."""
        line = self.settings.get("header", "")
        return line.encode() + b"\n" if line else b""

    def stream(self, what: str) -> str:
        """Return the stream's name from the path; ``what`` is the broker's word for a stream."""
        if len(self.path) != 1:
            raise InvalidParameterError(
                f"{self}: an address must have the form {self.scheme}://HOST/{what}; write a slash in a name as %2F"
            )
        return self.path[0]

    def __str__(self) -> str:
        hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}/{'/'.join(self.path)}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


def _host(text: str, address: str) -> tuple[str, int | None]:
    try:
        parts = urlsplit(f"//{text}")
        return parts.hostname or "localhost", parts.port
    except ValueError as error:
        raise InvalidParameterError(f"{shown(address)}: {error}") from None


def is_address(paths: Any) -> bool:
    """Return whether this is the address of a message stream, or a list that contains one.

    >>> is_address("nats://localhost/clicks"), is_address(["redis://h/s"]), is_address("a.svm")
    (True, True, False)
    """
    texts = [paths] if isinstance(paths, str) else list(paths) if isinstance(paths, list | tuple) else []
    return any(isinstance(text, str) and text.partition("://")[0] in SCHEMES and "://" in text for text in texts)


def only_address(paths: Any) -> Address:
    """Return the only address; several sources are an error."""
    texts = [paths] if isinstance(paths, str) else list(paths)
    if len(texts) != 1:
        raise InvalidParameterError(
            f"only one message stream can be read at a time, got {', '.join(map(shown, texts))}"
        )
    return Address.of(texts[0])


def shown(text: Any) -> str:
    """Return a path or an address for messages, without user, password and settings.

    >>> shown("redis://:secret@localhost/0/clicks?field=row"), shown("mail.svm")
    ('redis://localhost/0/clicks', 'mail.svm')
    """
    head, mark, rest = str(text).partition("://")
    if not mark:
        return str(text)
    netloc, slash, path = rest.partition("?")[0].partition("/")
    return f"{head}://{netloc.rpartition('@')[2]}{slash}{path}"


# When an endless source is left, where bad messages go, and what happens if messages are missing.

#: Allowed values of ``on_gap``.
ON_GAP = ("stop", "continue")


class Following(NamedTuple):
    """When to stop reading an endless source, and what to do with bad or missing messages."""

    rows: int | None = None  # in total, including those before a checkpoint
    idle_seconds: float | None = None  # seconds without a message
    dead_letters: str | None = None  # a file, or "stream:NAME" of the same broker
    on_gap: str = "stop"  # or "continue": what to do if the broker has removed messages before they were read

    def check(self) -> None:
        """Raise if a value is not allowed."""
        if self.rows is not None and self.rows < 1:
            raise InvalidParameterError(f"rows must be 1 or more, or None, got {self.rows!r}")
        if self.idle_seconds is not None and not self.idle_seconds >= 0:
            raise InvalidParameterError(f"idle_seconds must be 0 or more, or None, got {self.idle_seconds!r}")
        if self.on_gap not in ON_GAP:
            raise InvalidParameterError(f"on_gap (--on-gap) must be {listed(ON_GAP)}, got {self.on_gap!r}")

    def are_enough(self, rows: int) -> bool:
        """Return whether this many rows are all that were requested."""
        return self.rows is not None and rows >= self.rows

    def is_over(self, idle: float) -> bool:
        """Return whether no message has come for long enough."""
        return self.idle_seconds is not None and idle >= self.idle_seconds
