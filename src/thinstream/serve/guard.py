"""Who may ask what: bearer tokens with scopes, and hosts that may be served without any."""

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from thinstream.errors import InvalidInputError, InvalidParameterError, listed
from thinstream.serve.refusals import Refused

#: What a token may be for: predict and look; learn and label; load and unload.
SCOPES = ("read", "learn", "admin")


class Guard:
    r"""Lets requests pass that may; without tokens all may.

    Parameters
    ----------
    tokens : dict
        SHA-256 of a token → its scopes.
    local : bool
        Whether without tokens only those may who call this machine by a name of its own: a page in a browser may have
        had its host's name changed to this machine's address.
    hosts : iterable of str
        Other names, without ports, that requests may call this machine by; for ``local``.

    Examples
    --------
    >>> guard = Guard.of("# who may what\nread,learn  a-long-secret-of-somebody\n", "tokens")
    >>> guard.require("Bearer a-long-secret-of-somebody", "learn")
    >>> guard.require("Bearer a-long-secret-of-somebody", "admin")
    Traceback (most recent call last):
    thinstream.serve.refusals.Refused: this needs a token with the scope 'admin', the one given has 'learn' or 'read'

    """

    def __init__(
        self, tokens: dict[bytes, frozenset[str]] | None = None, local: bool = False, hosts: Iterable[str] = ()
    ) -> None:
        self._tokens, self._local, self._hosts = tokens or {}, local, frozenset(map(str.lower, hosts))

    def __bool__(self) -> bool:
        return bool(self._tokens)

    @classmethod
    def read(cls, path: Path) -> "Guard":
        """Read a file of tokens that no other user may access: on each line scopes with commas, blanks, and a token."""
        with path.open(encoding="utf-8") as file:
            about = os.fstat(file.fileno())
            if about.st_mode & 0o077 or about.st_uid not in (0, os.getuid()):
                raise InvalidInputError(
                    f"{path}: only the server's user may access a file of tokens, which must belong to that user or "
                    f"root; its mode is {about.st_mode & 0o777:o} and its owner has the id {about.st_uid}. Run: "
                    f"chmod 600 {path}"
                )
            return cls.of(file.read(), path.name)

    @classmethod
    def of(cls, text: str, named: str) -> "Guard":
        """The tokens of a text."""
        found: dict[bytes, frozenset[str]] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            scopes = frozenset(words[0].split(","))
            if len(words) != 2 or not scopes <= {*SCOPES} or len(words[1]) < 16:
                raise InvalidInputError(
                    f"{named}, line {number}: must be scopes ({listed(SCOPES)}, with commas), a blank and a token of "
                    "16 letters or more"
                )
            found[_digest(words[1])] = scopes
        if not found:
            raise InvalidInputError(f"{named} has no token; a line is: read,learn TOKEN")
        return cls(found)

    def require_host(self, host: str | None) -> None:
        """Raises 403, without tokens, on a request that calls this machine by another name than its own."""
        if not self._local or self._tokens or not host or is_local(host) or _name_of(host).lower() in self._hosts:
            return
        raise Refused(403, f"without --tokens this server answers as localhost or 127.0.0.1, not as {host!r:.60}")

    def require(self, authorization: str | None, scope: str) -> None:
        """Raises 401 without a known token, 403 with one that is for something else."""
        if not self._tokens:
            return
        kind, _, token = (authorization or "").partition(" ")
        given, scopes = _digest(token.strip()), None
        for known, its in self._tokens.items():  # all of them, each in constant time
            if hmac.compare_digest(known, given):
                scopes = its
        if kind.lower() != "bearer" or not token.strip():
            raise Refused(401, "this server needs a token: Authorization: Bearer TOKEN")
        if scopes is None:
            raise Refused(
                401, "this server needs a token that it has been given (--tokens), the one sent is none of them"
            )
        if scope not in scopes:
            raise Refused(
                403, f"this needs a token with the scope {scope!r}, the one given has {listed(sorted(scopes))}"
            )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@lru_cache(64)
def is_local(host: str) -> bool:
    """Whether a host, as requests name it, is this machine as it calls itself.

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
    """Raises where others than this machine could ask a server without tokens."""
    if not guard and not is_local(host):
        raise InvalidParameterError(
            f"on {host} other machines could ask this server: give it --tokens FILE, or serve on 127.0.0.1"
        )
