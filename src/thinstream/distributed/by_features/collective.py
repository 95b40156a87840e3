"""Sums over a few processes, by their own TCP sockets: engines are far too slow for one sum per mini-batch.

Sums go by recursive doubling: in step k rank r and rank r ^ 2^k exchange what they have and both add it up. As a + b is
b + a to the last bit, all ranks end with the same bits, after log₂ n exchanges. Ranks beyond the largest power of two
hand their numbers to a partner first and get the sum from it at the end. A message is two numbers, the count of the
operation and the bytes that follow, and then these; ranks out of step are an error, not a wrong sum.

Whoever connects must prove that it knows the job's token, and so must the one it connects to; the token itself never
travels. What is sent afterwards is neither hidden nor signed: this is for networks that are trusted.
"""

import json
import socket
import struct
import time
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thinstream.distributed.by_features.handshake import Listener, connect, new_token
from thinstream.distributed.engines.launcher import LOOPBACK, Exchange
from thinstream.errors import InvalidInputError, InvalidParameterError, PeerLostError

__all__ = ["Collective", "new_token"]

#: Bytes both sides may send before they read; any socket's buffers hold them.
PIECE = 1 << 15
#: The head of a message.
_HEAD = struct.Struct("@qq")
#: Seconds a peer may be silent.
TIMEOUT = 120.0


class Collective:
    """One of ``size`` processes that add up arrays. Make it with `Collective.join`; it is a context manager.

    Every rank must call the same operations in the same order, with arrays of the same type and shape. An operation
    that a peer does not take part in, because it died or is silent for ``timeout`` seconds, raises PeerLostError; after
    that nothing can be done but to close. ``peers`` are the sockets to the ranks this one talks to.

    Examples
    --------
    >>> with Collective.join(lambda text: [text], 0, 1, new_token()) as alone:
    ...     alone.allreduce(np.array([1.0, 2.0]))
    array([1., 2.])

    """

    def __init__(
        self, rank: int, size: int, peers: dict[int, socket.socket] | None = None, timeout: float = TIMEOUT
    ) -> None:
        self.rank, self.size, self._peers, self.timeout = rank, size, peers or {}, timeout
        self._steps, self._below, self._above = partners(rank, size)
        self._done = 0  # operations
        self._closed = False

    @classmethod
    def join(
        cls, exchange: Exchange, rank: int, size: int, token: str, *, host: str = LOOPBACK, timeout: float = TIMEOUT
    ) -> Self:
        """Meets the other ranks. Ports are told by way of ``exchange``, which is called twice.

        ``token`` is the job's secret, the same for all (`new_token`). ``host`` is this machine's address, for jobs on
        several; if all ranks are on one machine only loopback is used. ``timeout``: seconds to wait for the others, and
        later for any answer.
        """
        if not 0 <= rank < size:
            raise InvalidParameterError(f"rank must be from 0 to {size - 1}, got {rank}")
        if not 0.001 <= timeout < 1e9:
            raise InvalidParameterError(f"timeout must be a number of seconds from 0.001 to 1e9, got {timeout!r}")
        machines = exchange(json.dumps([host, socket.gethostname()]))
        bound = LOOPBACK if len(set(machines)) == 1 else host
        steps, below, above = partners(rank, size)
        wanted = {other for other in (*steps, below, above) if other >= 0}
        deadline = time.monotonic() + timeout
        expected = {other for other in wanted if other > rank}
        with Listener(bound, token, rank, expected, timeout) as listener, ExitStack() as opened:
            places = [tuple(json.loads(text)) for text in exchange(json.dumps([bound, listener.port]))]
            peers = {}
            for other in sorted(wanted - expected):
                peers[other] = opened.enter_context(connect(places[other], token, rank, other, deadline))
            peers |= listener.accept_ranks(deadline)
            opened.pop_all()
        for peer in peers.values():
            peer.settimeout(timeout)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return cls(rank, size, peers, timeout)

    def allreduce(self, array: NDArray[Any]) -> NDArray[Any]:
        """The sum of all ranks' arrays, in place of this one's; the same bits on every rank."""
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise InvalidInputError("allreduce: the array must be writeable and in one piece (C order)")
        self._done += 1
        flat = array.reshape(-1)
        per = PIECE // max(array.itemsize, 1)
        for start in range(0, max(len(flat), 1), per):
            self._reduce(flat[start : start + per])
        return array

    def barrier(self) -> None:
        """Returns when every rank has come here."""
        self.allreduce(np.empty(0))

    def close(self) -> None:
        """Ends the connections; peers that still wait for this rank get a PeerLostError. A second time does nothing."""
        self._closed = True
        for peer in self._peers.values():
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # One piece ------------------------------------------------------------------------------------------------------

    def _reduce(self, part: NDArray[Any]) -> None:
        if self._below >= 0:  # beyond the power of two
            self._send(self._below, part)
            part[:] = self._receive(self._below, part)
            return
        if self._above >= 0:
            part += self._receive(self._above, part)
        for other in self._steps:
            self._send(other, part)
            part += self._receive(other, part)
        if self._above >= 0:
            self._send(self._above, part)

    def _send(self, other: int, part: NDArray[Any]) -> None:
        try:
            self._peers[other].sendall(_HEAD.pack(self._done, part.nbytes) + part.tobytes())
        except OSError as error:
            raise self._lost(other, error) from error

    def _receive(self, other: int, like: NDArray[Any]) -> NDArray[Any]:
        """An array like this one."""
        peer, expected, got = self._peers[other], (self._done, like.nbytes), 0
        raw = bytearray(_HEAD.size + like.nbytes)
        view, head = memoryview(raw), expected
        try:
            while got < len(raw) and head == expected:  # more would never come
                found = peer.recv_into(view[got:])
                if not found:
                    raise ConnectionResetError("it closed the connection")
                got += found
                head = _HEAD.unpack_from(raw) if got >= _HEAD.size else expected
        except OSError as error:
            raise self._lost(other, error) from error
        if head != expected:
            self.close()
            raise InvalidInputError(
                f"ranks must call the same operations with arrays of the same size: rank {self.rank} is at operation "
                f"{expected[0]} with {expected[1]} bytes, rank {other} at operation {head[0]} with {head[1]}"
            )
        return np.frombuffer(raw, like.dtype, offset=_HEAD.size)

    def _lost(self, other: int, error: OSError) -> PeerLostError:
        """Says who was lost, and closes, so that those who wait for this rank do not wait in vain."""
        if self._closed:
            return PeerLostError(f"rank {self.rank} of {self.size} is closed")
        self.close()
        silent = isinstance(error, TimeoutError)
        why = f"it was silent for {self.timeout:g} s" if silent else f"the connection ended ({error})"
        return PeerLostError(f"rank {self.rank} of {self.size} lost rank {other}: {why}")


def partners(rank: int, size: int) -> tuple[list[int], int, int]:
    """Whom a rank exchanges sums with, in order; whom it hands its numbers to; who hands it theirs (−1: nobody).

    >>> partners(1, 6), partners(5, 6)
    (([0, 3], -1, 5), ([], 1, -1))
    """
    power = 1 << (size.bit_length() - 1)
    if rank >= power:
        return [], rank - power, -1
    steps = [rank ^ (1 << k) for k in range(power.bit_length() - 1)]
    return steps, -1, rank + power if rank + power < size else -1
