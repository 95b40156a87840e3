"""Sums over processes: the same bits everywhere, strangers kept out, and an error in place of a hang."""

import multiprocessing
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.distributed.gang import PATIENCE, run
from tests.distributed.member import member
from thinstream.distributed.by_features import handshake
from thinstream.distributed.by_features.collective import PIECE, Collective, partners
from thinstream.distributed.by_features.handshake import Listener, connect, new_token
from thinstream.errors import InvalidInputError, InvalidParameterError, PeerLostError

TOKEN = new_token()


def joined(seat, work, **options):
    """`work(collective)` of a thread."""
    with Collective.join(seat.put, seat.rank, seat.table.size, TOKEN, timeout=PATIENCE, **options) as collective:
        return work(collective)


def together(size, work):
    return run(size, lambda seat: joined(seat, work))


def tree_sum(arrays):
    """The sum in the order that is promised: fold what is beyond the power of two, then pairs of pairs of ranks."""
    power = 1 << (len(arrays).bit_length() - 1)
    level = [a + arrays[r + power] if r + power < len(arrays) else a for r, a in enumerate(arrays[:power])]
    while len(level) > 1:
        level = [a + b for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


@settings(max_examples=15)
@given(size=st.integers(1, 7), n=st.integers(0, 40), seed=st.integers(0, 999), kind=st.sampled_from("fdq"))
def test_sums_have_the_same_bits_on_every_rank(size, n, seed, kind):
    rng = np.random.default_rng(seed)
    arrays = [(rng.normal(size=(3, n)) * 10.0 ** rng.integers(-8, 8, (3, n))).astype(kind) for _ in range(size)]

    def work(collective):
        first = collective.allreduce(arrays[collective.rank][0].copy())
        return first, collective.allreduce(arrays[collective.rank][1:].copy())

    for first, rest in together(size, work):
        assert first.tobytes() == tree_sum([array[0] for array in arrays]).tobytes()
        assert rest.tobytes() == tree_sum([array[1:] for array in arrays]).tobytes()
        assert rest.shape == (2, n)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_arrays_larger_than_any_buffer(size):
    arrays = [np.random.default_rng(rank).normal(size=40 * PIECE // 8 + 3) for rank in range(size)]
    found = together(size, lambda collective: collective.allreduce(arrays[collective.rank].copy()))
    assert {array.tobytes() for array in found} == {tree_sum(arrays).tobytes()}


def test_a_barrier_waits_for_all():
    came = []

    def work(collective):
        time.sleep(0.05 * collective.rank)
        came.append(collective.rank)
        collective.barrier()
        return len(came)

    assert together(3, work) == [3, 3, 3]


@pytest.mark.parametrize("size", range(1, 20))
def test_partners_are_mutual_and_few(size):
    for rank in range(size):
        steps, below, above = partners(rank, size)
        assert all(partners(other, size)[0][k] == rank for k, other in enumerate(steps))
        assert below < 0 or partners(below, size)[2] == rank
        assert above < 0 or partners(above, size)[1] == rank
        assert len(steps) <= size.bit_length() - 1


def test_ranks_out_of_step_are_an_error():
    def work(collective):
        return collective.allreduce(np.zeros(3 + collective.rank))

    with pytest.raises(InvalidInputError, match="ranks must call the same operations"):
        together(2, work)

    def late(collective):
        if collective.rank == 0:
            collective.barrier()
        return collective.allreduce(np.zeros(0))

    with pytest.raises(PeerLostError, match="rank 0 of 2 lost rank 1: the connection ended"):  # it was done, and left
        together(2, late)


def test_what_cannot_be_asked_for():
    with pytest.raises(InvalidParameterError, match="rank must be from 0 to 1, got 2"):
        Collective.join(lambda text: [text], 2, 2, TOKEN)
    with pytest.raises(InvalidParameterError, match=r"timeout must be a number of seconds from 0\.001 to 1e9, got 0"):
        Collective.join(lambda text: [text], 0, 1, TOKEN, timeout=0)
    with pytest.raises(InvalidInputError, match="writeable and in one piece"):
        Collective(0, 1).allreduce(np.zeros((4, 4))[:, ::2])


# Strangers ------------------------------------------------------------------------------------------------------------


def test_the_wrong_token_is_refused_and_does_not_disturb():
    with Listener("127.0.0.1", TOKEN, 0, {1}, PATIENCE) as listener:
        place, soon = ("127.0.0.1", listener.port), time.monotonic() + PATIENCE
        with pytest.raises(PeerLostError, match=r"rank 1 was not let in by rank 0 .*another token"):
            connect(place, new_token(), 1, 0, soon)
        with connect(place, TOKEN, 2, 0, soon) as uninvited:  # knows the token, but is not expected
            assert uninvited.recv(1) == b""
        silent, chatty = socket.create_connection(place), socket.create_connection(place)
        chatty.sendall(b"GET / HTTP/1.1\r\n\r\n" * 20)
        friend = connect(place, TOKEN, 1, 0, soon)
        found = listener.accept_ranks(soon)
        assert set(found) == {1}
        friend.sendall(b"hello")
        assert found[1].recv(5) == b"hello"
        for one in (silent, chatty, friend, found[1]):
            one.close()


def test_more_silent_callers_than_are_heard_at_a_time_cost_a_moment(monkeypatch):
    monkeypatch.setattr(handshake, "PATIENCE", 0.5)
    with Listener("127.0.0.1", TOKEN, 0, {1}, PATIENCE) as listener:
        place, start = ("127.0.0.1", listener.port), time.monotonic()
        silent = [socket.create_connection(place) for _ in range(handshake.CALLERS + 20)]
        friend = connect(place, TOKEN, 1, 0, start + PATIENCE)
        found = listener.accept_ranks(start + PATIENCE)
        assert time.monotonic() - start < 10
        for one in (*silent, friend, found[1]):
            one.close()


def test_a_caller_does_not_trust_who_does_not_know_the_token():
    with (
        Listener("127.0.0.1", new_token(), 0, {1}, PATIENCE) as listener,
        pytest.raises(PeerLostError, match="not let in"),
    ):
        connect(("127.0.0.1", listener.port), TOKEN, 1, 0, time.monotonic() + PATIENCE)


def test_an_answer_to_an_older_question_is_worth_nothing():
    rank, asked, ours = (1).to_bytes(8, "big"), b"n" * 32, b"o" * 32
    answer = rank + ours + handshake._proof(TOKEN, b"caller", rank + (0).to_bytes(8, "big") + asked + ours)
    with (
        Listener("127.0.0.1", TOKEN, 0, {1}, PATIENCE) as listener,
        socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE) as impostor,
    ):
        assert len(impostor.recv(32)) == 32
        impostor.sendall(answer)
        assert impostor.recv(32) == b""


def test_who_does_not_come_is_named():
    with (
        Listener("127.0.0.1", TOKEN, 0, {1, 2}, PATIENCE) as listener,
        pytest.raises(PeerLostError, match="rank 0 waited in vain for rank 1, 2 to connect"),
    ):
        listener.accept_ranks(time.monotonic() + 0.05)
    with pytest.raises(PeerLostError, match=r"rank 1 cannot reach rank 0 at 127\.0\.0\.1:"):
        connect(("127.0.0.1", listener.port), TOKEN, 1, 0, time.monotonic() + 1)


def test_one_machine_uses_loopback_only():
    """Whatever address the engine gives: if all ranks are on one machine, nobody else can connect."""
    asked = []

    def work(seat):
        def exchange(text):
            asked.append(text)
            return seat.put(text)

        Collective.join(exchange, seat.rank, 2, TOKEN, host="192.0.2.1", timeout=PATIENCE).close()

    run(2, work)
    assert sum('"127.0.0.1"' in text for text in asked) == 2


def test_several_machines_use_the_addresses_they_are_given():
    """All of 127.0.0.0/8 is this machine, which stands for three."""
    asked = []

    def work(seat):
        def exchange(text):
            asked.append(text)
            return seat.put(text)

        host = f"127.0.0.{seat.rank + 2}"
        with Collective.join(exchange, seat.rank, 3, TOKEN, host=host, timeout=PATIENCE) as collective:
            return collective.allreduce(np.array([2.0**seat.rank])).tolist()

    assert run(3, work) == [[7.0]] * 3
    assert not any('"127.0.0.1"' in text for text in asked)


# Losses ---------------------------------------------------------------------------------------------------------------


def test_a_silent_peer_is_an_error_in_time():
    quiet = threading.Event()

    def work(seat):
        with Collective.join(seat.put, seat.rank, 2, TOKEN, timeout=0.3) as collective:
            if seat.rank == 1:
                quiet.wait(PATIENCE)
                return None
            start = time.monotonic()
            with pytest.raises(PeerLostError, match=r"rank 0 of 2 lost rank 1: it was silent for 0\.3 s"):
                collective.barrier()
            quiet.set()
            with pytest.raises(PeerLostError, match="closed"):
                collective.barrier()
            return time.monotonic() - start

    assert 0.2 < run(2, work)[0] < 5


def test_a_peer_that_leaves_is_named():
    def work(collective):
        collective.barrier()
        if collective.rank == 1:
            return
        with pytest.raises(PeerLostError, match=r"rank 0 of 2 lost rank 1: the connection ended"):
            collective.allreduce(np.zeros(2))

    together(2, work)


@pytest.mark.parametrize("size", [2, 4])
def test_a_killed_process_ends_all_others(size):
    context = multiprocessing.get_context("spawn")
    ours, theirs = zip(*(context.Pipe() for _ in range(size)))
    workers = [
        context.Process(target=member, args=(rank, size, TOKEN, theirs[rank]), daemon=True) for rank in range(size)
    ]
    for worker in workers:
        worker.start()
    try:
        for _ in range(2):
            texts = [pipe.recv() for pipe in ours]
            for pipe in ours:
                pipe.send(texts)
        assert len({pipe.recv() for pipe in ours}) == size
        time.sleep(0.2)
        os.kill(workers[-1].pid, signal.SIGKILL)
        start = time.monotonic()
        said = []
        for pipe in ours[:-1]:
            assert pipe.poll(PATIENCE)
            rounds, message = pipe.recv()
            assert rounds > 0
            said.append(message)
        assert time.monotonic() - start < 5
        assert any(f"lost rank {size - 1}" in message for message in said)
    finally:
        for worker in workers:
            worker.kill()
            worker.join(PATIENCE)
