"""How two processes of a job find out that they are: each proves that it knows the job's token, without telling it.

The one that is called sends a random number. The caller answers with its rank, a random number of its own and an HMAC
over all of that; the one called checks it and answers with an HMAC in turn. Strangers are shown the door one by one, on
threads of their own, so that neither wrong tokens nor silence hold up the job.
"""

import hmac
import queue
import secrets
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

from thinstream.errors import PeerLostError

LOOPBACK = "127.0.0.1"
_NONCE, _RANK, _PROOF = 32, 8, 32
#: Seconds a caller may take to prove itself, and callers that may do so at a time.
PATIENCE, CALLERS = 5.0, 64


def new_token() -> str:
    """A secret for one job.

    >>> len(new_token())
    64
    """
    return secrets.token_hex(32)


class Door:
    """Listens for the given ranks, until the end of the block.

    Parameters
    ----------
    host : str
        Address to listen at; the system chooses the port.
    token : str
    rank : int
        Of this process.
    expected : set of int
        Ranks that will call.
    timeout : float
        Seconds until it gives up.

    """

    def __init__(self, host: str, token: str, rank: int, expected: set[int], timeout: float) -> None:
        self._token, self._rank, self._expected = token, rank, expected
        self._found: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
        self._room = threading.BoundedSemaphore(CALLERS)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=CALLERS)
        self._socket.settimeout(timeout)
        self.port: int = self._socket.getsockname()[1]
        self._open = True
        self._thread = threading.Thread(target=self._listen, daemon=True)
        if expected:
            self._thread.start()

    def visitors(self, deadline: float) -> dict[int, socket.socket]:
        """The sockets of all expected ranks; PeerLostError if one did not come in time."""
        found: dict[int, socket.socket] = {}
        while missing := self._expected - set(found):
            try:
                rank, peer = self._found.get(timeout=max(deadline - time.monotonic(), 0.0))
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
        while self._open:
            try:
                caller, _ = self._socket.accept()
            except OSError:  # closed, or the time is up
                return
            self._room.acquire()  # callers have little time, so there is soon room again
            threading.Thread(target=self._answer, args=(caller,), daemon=True).start()

    def _answer(self, caller: socket.socket) -> None:
        try:
            rank = _admitted(caller, self._token, self._rank)
        except OSError:
            rank = -1
        finally:
            self._room.release()
        if rank in self._expected and self._open:
            self._found.put((rank, caller))
        else:
            caller.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._open = False
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._socket.close()
        if self._thread.is_alive():
            self._thread.join(1.0)
        while not self._found.empty():
            self._found.get()[1].close()


def connect(place: tuple[str, int], token: str, rank: int, other: int, deadline: float) -> socket.socket:
    """A connection from ``rank`` to ``other``, who must know the token, too."""
    try:
        peer = socket.create_connection(place, timeout=max(deadline - time.monotonic(), 0.001))
    except OSError as error:
        raise PeerLostError(f"rank {rank} cannot reach rank {other} at {place[0]}:{place[1]} ({error})") from error
    try:
        theirs, ours = _exactly(peer, _NONCE), secrets.token_bytes(_NONCE)
        said = rank.to_bytes(_RANK, "big") + other.to_bytes(_RANK, "big") + theirs + ours
        peer.sendall(rank.to_bytes(_RANK, "big") + ours + _proof(token, b"caller", said))
        if not hmac.compare_digest(_exactly(peer, _PROOF), _proof(token, b"called", said)):
            raise ConnectionAbortedError("its token is another")
    except OSError as error:
        peer.close()
        raise PeerLostError(
            f"rank {rank} was not let in by rank {other} at {place[0]}:{place[1]} ({error}): another token, or no peer"
        ) from error
    return peer


def _admitted(caller: socket.socket, token: str, rank: int) -> int:
    """The rank of a caller who has proved that it is of this job; −1 of a stranger."""
    caller.settimeout(PATIENCE)
    nonce = secrets.token_bytes(_NONCE)
    caller.sendall(nonce)
    answer = _exactly(caller, _RANK + _NONCE + _PROOF)
    other, theirs, proof = answer[:_RANK], answer[_RANK:-_PROOF], answer[-_PROOF:]
    said = other + rank.to_bytes(_RANK, "big") + nonce + theirs
    if not hmac.compare_digest(proof, _proof(token, b"caller", said)):
        return -1
    caller.sendall(_proof(token, b"called", said))
    return int.from_bytes(other, "big")


def _proof(token: str, role: bytes, said: bytes) -> bytes:
    return hmac.digest(token.encode(), role + said, "sha256")


def _exactly(peer: socket.socket, size: int) -> bytes:
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
