"""How two processes of a job recognise each other: each proves that it knows the job's token, without sending it.

The listener sends a fresh random number. The caller answers with its rank, a random number of its own and an HMAC over
both numbers and both ranks; the listener checks it and answers with an HMAC in turn. Callers are checked side by side,
in bounded time and number, so that neither wrong tokens nor silence hold up the job.

`multiprocessing.connection` has an authentication, too. It is not used: up to Python 3.11 it is an HMAC of MD5, it
proves neither rank nor direction, and its listener checks callers one by one, so a silent one would block all others.
"""

import hmac
import queue
import secrets
import socket
import threading
import time
from contextlib import closing, suppress
from typing import Self

from thinstream.errors import PeerLostError

_NONCE, _RANK, _PROOF = 32, 8, 32
#: Seconds a caller may take to prove itself, and callers that may do so at a time.
PATIENCE, CALLERS = 5.0, 64


def new_token() -> str:
    """A secret for one job.

    >>> len(new_token())
    64
    """
    return secrets.token_hex(32)


class Listener:
    """Accepts the connections of the expected ranks, and of nobody else, until the end of the block.

    The system chooses the port. ``timeout``: seconds until it gives up.
    """

    def __init__(self, host: str, token: str, rank: int, expected: set[int], timeout: float) -> None:
        self._token, self._rank, self._expected = token, rank, expected
        self._accepted: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
        self._room = threading.BoundedSemaphore(CALLERS)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=CALLERS)
        self._socket.settimeout(timeout)
        self.port: int = self._socket.getsockname()[1]
        self._open = True
        self._thread = threading.Thread(target=self._listen, daemon=True)
        if expected:
            self._thread.start()

    def accept_ranks(self, deadline: float) -> dict[int, socket.socket]:
        """The sockets of all expected ranks; PeerLostError if one did not connect in time."""
        found: dict[int, socket.socket] = {}
        while missing := self._expected - set(found):
            try:
                rank, peer = self._accepted.get(timeout=max(deadline - time.monotonic(), 0.0))
            except queue.Empty:
                for peer in found.values():
                    peer.close()
                who = ", ".join(map(str, sorted(missing)))
                raise PeerLostError(f"rank {self._rank} waited in vain for rank {who} to connect") from None
            if rank in missing:
                found[rank] = peer
            else:  # nobody of this job connects twice
                peer.close()
        return found

    def _listen(self) -> None:
        with suppress(OSError):  # closed, or the time is up
            while self._open:
                caller, _ = self._socket.accept()
                self._room.acquire()  # callers have little time, so there is soon room again
                threading.Thread(target=self._check, args=(caller,), daemon=True).start()

    def _check(self, caller: socket.socket) -> None:
        rank = -1
        with suppress(OSError):
            rank = _proven_rank(caller, self._token, self._rank)
        self._room.release()
        if rank in self._expected and self._open:
            self._accepted.put((rank, caller))
        else:
            caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open = False
        with closing(self._socket), suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        if self._thread.is_alive():
            self._thread.join(1.0)
        while not self._accepted.empty():
            self._accepted.get()[1].close()


def connect(place: tuple[str, int], token: str, rank: int, other: int, deadline: float) -> socket.socket:
    """A connection from ``rank`` to ``other``, who must know the token, too."""
    where = f"rank {other} at {place[0]}:{place[1]}"
    try:
        peer = socket.create_connection(place, timeout=max(deadline - time.monotonic(), 0.001))
    except OSError as error:
        raise PeerLostError(f"rank {rank} cannot reach {where} ({error})") from error
    try:
        theirs, ours = _receive(peer, _NONCE), secrets.token_bytes(_NONCE)
        said = rank.to_bytes(_RANK, "big") + other.to_bytes(_RANK, "big") + theirs + ours
        peer.sendall(rank.to_bytes(_RANK, "big") + ours + _proof(token, b"caller", said))
        if not hmac.compare_digest(_receive(peer, _PROOF), _proof(token, b"called", said)):
            raise ConnectionAbortedError("its token is another")
    except OSError as error:
        peer.close()
        raise PeerLostError(f"rank {rank} was not let in by {where} ({error}): another token, or no peer") from error
    return peer


def _proven_rank(caller: socket.socket, token: str, rank: int) -> int:
    """The rank of a caller that has proved to be of this job; −1 of any other."""
    caller.settimeout(PATIENCE)
    nonce = secrets.token_bytes(_NONCE)
    caller.sendall(nonce)
    answer = _receive(caller, _RANK + _NONCE + _PROOF)
    other, theirs, proof = answer[:_RANK], answer[_RANK:-_PROOF], answer[-_PROOF:]
    said = other + rank.to_bytes(_RANK, "big") + nonce + theirs
    if not hmac.compare_digest(proof, _proof(token, b"caller", said)):
        return -1
    caller.sendall(_proof(token, b"called", said))
    return int.from_bytes(other, "big")


def _proof(token: str, role: bytes, said: bytes) -> bytes:
    return hmac.digest(token.encode(), role + said, "sha256")


def _receive(peer: socket.socket, size: int) -> bytes:
    """So many bytes, in the time the socket allows for all of them."""
    end, got = time.monotonic() + (peer.gettimeout() or PATIENCE), b""
    while len(got) < size:
        if time.monotonic() > end:
            raise TimeoutError("it was too slow")
        found = peer.recv(size - len(got))
        if not found:
            raise ConnectionResetError("it closed the connection")
        got += found
    return got
