"""Sums over a few processes, by their own TCP sockets: engines are far too slow for one sum per mini-batch.

Sums go by recursive doubling: in step k rank r and rank r ^ 2^k exchange what they have and both add it up. As a + b is
b + a to the last bit, all ranks end with the same bits, after log₂ n exchanges. Ranks beyond the largest power of two
hand their numbers to a partner first and get the sum from it at the end. A message is two numbers, the count of the
operation and the bytes that follow, and then these; ranks out of step are an error, not a wrong sum.

Whoever connects must prove that it knows the job's token, and so must the one it connects to; the token itself never
travels. What is sent afterwards is neither hidden nor signed: this is for networks that are trusted.
"""

import json
import os
import socket
import struct
import time
from contextlib import suppress
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
#: Numbers at the head of a message, and their bytes.
HEAD, HEAD_BYTES = 2, 16
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
        self._out, self._in = bytearray(HEAD_BYTES + PIECE), bytearray(HEAD_BYTES + PIECE)
        self._out_head, self._in_head = (np.frombuffer(raw, np.int64, HEAD) for raw in (self._out, self._in))
        self._views: dict[tuple[int, str], Any] = {}
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
        with Listener(bound, token, rank, {other for other in wanted if other > rank}, timeout) as listener:
            places = [tuple(json.loads(text)) for text in exchange(json.dumps([bound, listener.port]))]
            peers: dict[int, socket.socket] = {}
            deadline = time.monotonic() + timeout
            try:
                for other in sorted(other for other in wanted if other < rank):
                    peers[other] = connect(places[other], token, rank, other, deadline)
                peers |= listener.accept_ranks(deadline)
            except BaseException:
                for peer in peers.values():
                    peer.close()
                raise
        for peer in peers.values():
            _limit(peer, timeout)
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
        if len(flat) <= per:
            self._reduce(flat)
        else:
            for start in range(0, len(flat), per):
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
        out, out_numbers, into, in_numbers = self._buffers(part.nbytes, part.dtype)
        if self._below >= 0:  # beyond the power of two
            out_numbers[:] = part
            self._send(self._below, out)
            self._receive(self._below, into)
            part[:] = in_numbers
            return
        if self._above >= 0:
            self._receive(self._above, into)
            part += in_numbers
        for other in self._steps:
            out_numbers[:] = part
            self._send(other, out)
            self._receive(other, into)
            part += in_numbers
        if self._above >= 0:
            out_numbers[:] = part
            self._send(self._above, out)

    def _buffers(self, size: int, dtype: np.dtype[Any]) -> Any:
        """What is sent and where it is received, as bytes and as the numbers in them."""
        key = size, dtype.str
        if key not in self._views:
            if len(self._views) > 64:
                self._views.clear()
            self._views[key] = [
                view
                for raw in (self._out, self._in)
                for view in (
                    memoryview(raw)[: HEAD_BYTES + size],
                    np.frombuffer(raw, dtype, size // dtype.itemsize, HEAD_BYTES),
                )
            ]
        return self._views[key]

    def _send(self, other: int, message: memoryview) -> None:
        head = self._out_head
        head[0], head[1] = self._done, len(message) - HEAD_BYTES
        try:
            self._peers[other].sendall(message)
        except OSError as error:
            raise self._lost(other, error) from error

    def _receive(self, other: int, message: memoryview) -> None:
        peer, got, size = self._peers[other], 0, len(message)
        try:
            while got < size:
                found = peer.recv_into(message[got:] if got else message)
                if not found:
                    raise ConnectionResetError("it closed the connection")
                got += found
                if found < size and got >= HEAD_BYTES and int(self._in_head[1]) != size - HEAD_BYTES:
                    break  # more would never come
        except OSError as error:
            raise self._lost(other, error) from error
        done, length = self._in_head.tolist()
        if done != self._done or length != size - HEAD_BYTES:
            self.close()
            raise InvalidInputError(
                f"ranks must call the same operations with arrays of the same size: rank {self.rank} is at operation "
                f"{self._done} with {size - HEAD_BYTES} bytes, rank {other} at operation {done} with {length}"
            )

    def _lost(self, other: int, error: OSError) -> PeerLostError:
        """Says who was lost, and closes, so that those who wait for this rank do not wait in vain."""
        if self._closed:
            return PeerLostError(f"rank {self.rank} of {self.size} is closed")
        self.close()
        silent = isinstance(error, TimeoutError | BlockingIOError)
        why = f"it was silent for {self.timeout:g} s" if silent else f"the connection ended ({error})"
        return PeerLostError(f"rank {self.rank} of {self.size} lost rank {other}: {why}")


def _limit(peer: socket.socket, timeout: float) -> None:
    """Lets the system watch the time where it can: Python would ask for it at every call."""
    if os.name != "posix":
        peer.settimeout(timeout)
        return
    peer.settimeout(None)
    seconds = struct.pack("@ll", int(timeout), int(timeout % 1 * 1e6))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)


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
