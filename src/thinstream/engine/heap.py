"""The B coordinates of largest precision A_j = 1/σ_j (ties: lower j), in an indexed heap inside ``Memory``.

``extra`` holds B slots: the features in the first half, their precisions in the second. The top is the next to leave:
the smallest precision, among equals the largest j. A coordinate (mu, A | place) knows where it is: place 0 means never
moved (slot B − 1 − j if j < B, else outside), place s + 1 means slot s, place −1 outside. At the start the heap holds
features 0 … B − 1, all of precision 1, so that ties with features never seen come out as the definition says.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.jit import scalar


def initial(B: int) -> NDArray[np.float64]:
    """The heap before anything was learned."""
    return np.concatenate([np.arange(B, dtype=np.float64)[::-1], np.ones(B)])


@scalar
def slot_of(memory: Any, j: int) -> int:
    """Where feature j is, or −1."""
    B, place = len(memory.extra) // 2, int(memory.clocks[j])
    if place == 0:
        return B - 1 - j if j < B else -1
    return place - 1 if place > 0 else -1


@scalar
def _put(memory: Any, slot: int, j: int, A: float) -> None:
    memory.extra[slot] = j
    memory.extra[len(memory.extra) // 2 + slot] = A
    memory.clocks[j] = slot + 1


@scalar
def _leaves_before(A: float, j: float, other_A: float, other_j: float) -> bool:
    return other_A > A or (other_A == A and j > other_j)


@scalar
def _sink(memory: Any, slot: int, j: int, A: float) -> None:
    """Puts (j, A) at a slot whose old key was to leave no later, moving up what leaves before it."""
    B = len(memory.extra) // 2
    while True:
        child = 2 * slot + 1
        if child >= B:
            break
        right = child + 1
        if right < B and _leaves_before(
            memory.extra[B + right], memory.extra[right], memory.extra[B + child], memory.extra[child]
        ):
            child = right
        if not _leaves_before(memory.extra[B + child], memory.extra[child], A, j):
            break
        _put(memory, slot, int(memory.extra[child]), memory.extra[B + child])
        slot = child
    _put(memory, slot, j, A)


@scalar
def renew(memory: Any, j: int) -> None:
    """Feature j, if kept, has a new (larger) precision."""
    slot = slot_of(memory, j)
    if slot >= 0:
        _sink(memory, slot, j, float(memory.state[2 * j + 1]))


@scalar
def offer(memory: Any, j: int) -> None:
    """Feature j, if not kept, takes the top's place if it is more certain; whoever is out loses its mean."""
    if slot_of(memory, j) >= 0:
        return
    B, A = len(memory.extra) // 2, float(memory.state[2 * j + 1])
    out = j
    if _leaves_before(memory.extra[B], memory.extra[0], A, j):
        out = int(memory.extra[0])
        _sink(memory, 0, j, A)
    memory.clocks[out] = -1
    memory.state[2 * out] = 0
