"""Addresses of brokers' streams: ``redis://user:password@host:6379/0/clicks?group=learners``."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from thinstream.errors import InvalidParameterError, listed, meant

#: Schemes, what each is called where packages and extras are meant, and whether it is encrypted.
SCHEMES = {
    "redis": ("redis", False),
    "rediss": ("redis", True),
    "nats": ("nats", False),
    "tls": ("nats", True),
    "kafka": ("kafka", False),
    "kafka+ssl": ("kafka", True),
}
#: What an address may say after its question mark, by kind.
SETTINGS = {
    "redis": ("format", "header", "from", "group", "consumer", "field", "ca"),
    "nats": ("format", "header", "from", "subject", "ca"),
    "kafka": ("format", "header", "from", "group", "sasl", "ca"),
}
#: Where a run without a checkpoint begins: at the first message there is, or with those that are still to come.
FROM = ("start", "new")
#: Variables of the environment that name who asks, where the address does not.
USER, PASSWORD = "THINSTREAM_BROKER_USER", "THINSTREAM_BROKER_PASSWORD"


@dataclass(frozen=True)
class Address:
    """Where a stream of messages is, and who asks.

    >>> found = Address.of("rediss://ann:secret@example.org/2/clicks?group=learners")
    >>> found.kind, found.encrypted, found.hosts, found.path, found.settings
    ('redis', True, (('example.org', None),), ('2', 'clicks'), {'group': 'learners'})
    >>> found  # never with its password
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
        """An address as it is written."""
        parts = urlsplit(text)
        if parts.scheme not in SCHEMES:
            raise InvalidParameterError(
                f"sources begin with {listed(f'{scheme}://' for scheme in SCHEMES)}, got {shown(text)!r}"
            )
        secrets, _, hosts = parts.netloc.rpartition("@")
        user, _, password = secrets.partition(":")
        settings = dict(parse_qsl(parts.query, keep_blank_values=True))
        address = cls(
            parts.scheme,
            tuple(_host(each, text) for each in hosts.split(",")),
            tuple(unquote(each) for each in parts.path.split("/") if each),
            settings,
            unquote(user) or os.environ.get(USER),
            unquote(password) or os.environ.get(PASSWORD),
        )
        address._check()
        return address

    def _check(self) -> None:
        known = SETTINGS[self.kind]
        for name in self.settings:
            if name not in known:
                raise InvalidParameterError(f"{self}: no setting is called {name!r}; {meant(name, known)}")
        if self.begins not in FROM:
            raise InvalidParameterError(f"{self}: from must be {listed(FROM)}, got {self.begins!r}")
        if (ca := self.settings.get("ca")) and not Path(ca).is_file():
            raise InvalidParameterError(f"{self}: ca names a file of certificates, there is no {ca}")

    @property
    def kind(self) -> str:
        """Which broker it is, as its extra is called."""
        return SCHEMES[self.scheme][0]

    @property
    def encrypted(self) -> bool:
        """Whether TLS is used."""
        return SCHEMES[self.scheme][1]

    @property
    def begins(self) -> str:
        """Where a run without a checkpoint begins, one of `FROM`."""
        return self.settings.get("from", "start")

    @property
    def header(self) -> bytes:
        """The line that names the columns of messages in CSV, as a file would have it; empty where it is not said."""
        line = self.settings.get("header", "")
        return line.encode() + b"\n" if line else b""

    def stream(self, what: str) -> str:
        """The name at the end of its path; ``what`` is what the broker calls it."""
        if len(self.path) != 1:
            raise InvalidParameterError(
                f"{self}: an address is {self.scheme}://HOST/{what}, percent-encode its slashes"
            )
        return self.path[0]

    def __str__(self) -> str:
        hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}/{'/'.join(self.path)}"

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"


def _host(text: str, address: str) -> tuple[str, int | None]:
    try:
        found = urlsplit(f"//{text}")
        return found.hostname or "localhost", found.port
    except ValueError as error:
        raise InvalidParameterError(f"{shown(address)}: {error}") from None


def is_address(given: Any) -> bool:
    """Whether it names a broker's stream: one text that begins as these do.

    >>> is_address("nats://localhost/clicks"), is_address(["redis://h/s"]), is_address("a.svm")
    (True, True, False)
    """
    texts = [given] if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    return any(isinstance(each, str) and each.partition("://")[0] in SCHEMES and "://" in each for each in texts)


def only_address(given: Any) -> Address:
    """The one address; several, or files beside it, are refused."""
    texts = [given] if isinstance(given, str) else list(given)
    if len(texts) != 1:
        raise InvalidParameterError(f"one source at a time, got {', '.join(map(shown, texts))}")
    return Address.of(texts[0])


def shown(text: Any) -> str:
    """What messages call a file or an address: without user, password and settings.

    >>> shown("redis://:secret@localhost/0/clicks?field=row"), shown("mail.svm")
    ('redis://localhost/0/clicks', 'mail.svm')
    """
    head, mark, rest = str(text).partition("://")
    if not mark:
        return str(text)
    place = rest.partition("?")[0]
    netloc, slash, path = place.partition("/")
    return f"{head}://{netloc.rpartition('@')[2]}{slash}{path}"
