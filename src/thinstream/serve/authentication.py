"""Access control: bearer tokens with scopes, and the hosts that need no token."""

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.serve.wire import Refused

#: An environment variable with the lines of a tokens file. Semicolons also separate lines.
VARIABLE = "THINSTREAM_SERVER_TOKENS"
#: Scopes of tokens: read (predict and inspect), learn (learn and label), admin (manage models).
SCOPES = ("read", "learn", "admin")


class Guard:
    r"""Accept or refuse requests by their bearer token.

    ``tokens`` has the SHA-256 of each token and its scopes. Without tokens, all requests are accepted. With ``local``
    and without tokens, requests must address this machine as localhost, 127.0.0.1 or one of ``hosts``. Otherwise a web
    page whose host name resolves to this machine (DNS rebinding) could send requests.

    Examples
    --------
    >>> guard = Guard.of("# scopes, then a token\nread,learn  a-long-secret-token\n", "tokens")
    >>> guard.require("Bearer a-long-secret-token", "learn")
    >>> guard.require("Bearer a-long-secret-token", "admin")
    Traceback (most recent call last):
    thinstream.serve.wire.Refused: this request needs a token with the scope 'admin'; this token has 'learn' or 'read'

    """

    def __init__(
        self, tokens: dict[bytes, frozenset[str]] | None = None, local: bool = False, hosts: Iterable[str] = ()
    ) -> None:
        self._tokens, self._local, self._hosts = tokens or {}, local, frozenset(map(str.lower, hosts))

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @classmethod
    def load(cls, path: Path | None, hosts: Iterable[str] = ()) -> "Guard":
        """Read the tokens of a file, or of the environment variable. Without both, only local requests are accepted."""
        if path is not None:
            return cls.read(path)
        if VARIABLE in os.environ:
            return cls.of(os.environ[VARIABLE].replace(";", "\n"), VARIABLE)
        return cls(local=True, hosts=hosts)

    @classmethod
    def read(cls, path: Path) -> "Guard":
        """Read a file that only its owner can access. Each line has scopes, separated by commas, and a token."""
        with path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if about.st_mode & 0o077 or about.st_uid not in (0, os.getuid()):
                raise InvalidInputError(
                    f"{path}: only the server's user may have access to a tokens file, and that user or root must "
                    f"own it. Its mode is {about.st_mode & 0o777:o} and its owner has the id {about.st_uid}. Run "
                    f"chmod 600 {path}"
                )
            return cls.of(file.read(), path.name)

    @classmethod
    def of(cls, text: str, named: str) -> "Guard":
        tokens: dict[bytes, frozenset[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            scopes = frozenset(words[0].split(","))
            if len(words) != 2 or not scopes <= {*SCOPES} or len(words[1]) < 16:
                raise InvalidInputError(
                    f"{named}, line {number}: must be scopes ({listed(SCOPES)}, separated by commas), a space and a "
                    "token of at least 16 characters"
                )
            tokens[_digest(words[1])] = scopes
        if not tokens:
            raise InvalidInputError(f"{named} has no token. Add a line such as: read,learn TOKEN")
        return cls(tokens)

    def require_host(self, host: str | None) -> None:
        """Raise 403 if, without tokens, a request addresses this machine by an unknown host name."""
        if not self._local or self._tokens or not host or is_local(host) or _name_of(host).lower() in self._hosts:
            return
        raise Refused(
            403,
            f"without --tokens, this server accepts only requests for localhost or 127.0.0.1, got the "
            f"host {host!r:.60}",
        )

    def require(self, authorization: str | None, scope: str) -> None:
        """Raise 401 without a known token, and 403 if the token lacks the scope."""
        if not self._tokens:
            return
        scheme, _, token = (authorization or "").partition(" ")
        digest, scopes = _digest(token.strip()), None
        for accepted, its_scopes in self._tokens.items():  # compare with all tokens, each in constant time
            if hmac.compare_digest(accepted, digest):
                scopes = its_scopes
        if scheme.lower() != "bearer" or not token.strip():
            raise Refused(401, "this server needs a token. Send the header Authorization: Bearer TOKEN")
        if scopes is None:
            raise Refused(401, "unknown token. The server accepts the tokens in its --tokens file")
        if scope not in scopes:
            raise Refused(
                403, f"this request needs a token with the scope {scope!r}; this token has {listed(sorted(scopes))}"
            )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@lru_cache(64)
def is_local(host: str) -> bool:
    """Return whether the host that a request names is this machine.

    >>> [is_local(host) for host in ("localhost:8000", "127.0.0.1", "[::1]:80", "::1", "example.org", "127.0.0.1.org")]
    [True, True, True, True, False, False]
    """
    name = _name_of(host)
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _name_of(host: str) -> str:
    """Return a host without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host
    return name if name.count(":") > 1 else name.partition(":")[0]


def require_safe(host: str, guard: Guard) -> None:
    """Raise if other machines could reach a server that has no tokens."""
    if not guard and not is_local(host):
        raise InvalidParameterError(
            f"on {host}, other machines could send requests to this server. Pass --tokens FILE, set {VARIABLE}, or "
            "serve on 127.0.0.1"
        )
