"""A process that adds up for ever; alone in a file, so that it starts quickly."""

import os

import numpy as np

from thinstream.distributed.by_features.collective import Collective
from thinstream.errors import PeerLostError


def member(rank, size, token, pipe):
    """Adds up until a peer is lost; `pipe` stands for the engine."""

    def exchange(text):
        pipe.send(text)
        return pipe.recv()

    with Collective.join(exchange, rank, size, token, timeout=30.0) as collective:
        pipe.send(os.getpid())
        array, rounds = np.zeros(4), 0
        try:
            while True:
                array[:] = 1.0
                collective.allreduce(array)
                rounds += 1
        except PeerLostError as error:
            pipe.send((rounds, str(error)))
