"""SOFS: second-order online feature selection.

Wu, Hoi, Mei, Yu: Large-Scale Online Feature Selection for Ultra-High Dimensional Sparse Data (2017); a baseline of P1.
Specification §4, D10.

The B features of smallest (σ_j, j) are kept in an indexed heap whose top is the one to leave next. σ only falls, and
only on features of the example, so only they can enter.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.losses import hinge
from thinstream.engine.parameters import Count, Positive
from thinstream.engine.records import Clock
from thinstream.engine.rows import coordinate
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    mu: float = 0.0
    A: float = 1.0  # 1/σ
    place: Clock = 0.0  # in the heap, see below


@algorithm(paper="P1 baseline", order="second", coordinate=Coordinate)
class SOFS(NamedTuple):
    """Second-order online feature selection: AROW on the B most certain features.

    ::

        AROW's update, 1/σ_j += x_j²/r;   then μ_j = 0 for all but the B features of smallest σ_j

    Parameters
    ----------
    B : int, default=100
        Features kept.
    r : float, default=1.0
        As in AROW.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SOFS(B=1).fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_
    array([[0.       , 0.4848485]], dtype=float32)

    """

    B: Count = 100
    r: Positive = 1.0

    def extra(p) -> NDArray[np.float64]:
        return initial(p.B)

    def extra_size(p) -> int:
        """Return the length of `extra` without allocating it."""
        return 2 * p.B

    def sound(p, memory: Any) -> bool:
        """Whether heap and coordinates agree: a foreign state must not send the loop outside its arrays."""
        features, positions, slots = memory.extra[: p.B], memory.clocks, np.arange(p.B)
        inside = (features >= 0) & (features < len(positions)) & (features == np.floor(features))
        if not inside.all() or len(np.unique(features)) != p.B:
            return False
        kept, numbers = features.astype(np.int64), np.arange(len(positions))
        fine = (positions == -1) | ((positions == 0) & (numbers >= p.B))
        fine[kept] = np.where(positions[kept] == 0, kept == p.B - 1 - slots, positions[kept] == slots + 1)
        return bool(fine.all())

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            "precisions add and means are weighted by precision, then the B most certain features are kept",
            belief=("mu", "A"),
            way="precision",
            powers={"mu": 1, "A": -2},
        )

    def rebuild(p, memory: Any) -> None:
        """Build the heap of the B features of largest precision (ties: lower j)."""
        mu, A = memory.state[::2], memory.state[1::2]
        order = np.argsort(-A, kind="stable")
        leaving = order[: p.B][::-1]  # the next to leave comes first: a sorted array is a heap
        memory.extra[:] = np.concatenate([leaving, A[leaving]])
        memory.clocks[:] = -1
        memory.clocks[leaving] = np.arange(p.B) + 1
        mu[order[p.B :]] = 0

    def variance(p, f: Any) -> Any:
        return np.reciprocal(f.A)

    def confidence(p, f: Coordinate, x: float, now: Nothing) -> float:
        return x * x / f.A

    def weight(p, f: Coordinate, now: Nothing) -> float:
        return f.mu

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        loss, c = hinge(s, e.y), e.cost * e.importance
        return Step(loss, loss > 0.0, loss * c / (v * c + p.r) * e.y, c / p.r)  # r/c in place of r

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        return Coordinate(f.mu + step.size * x / f.A, f.A + step.c * x * x, f.place)

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        return abs(step.size) * x + step.c * x * x

    def settle(p, memory: Any, rows: Any, a: int, b: int) -> None:
        for k in range(b - a + rows.offset):
            renew(memory, coordinate(rows, a, k))
        for k in range(b - a + rows.offset):
            offer(memory, coordinate(rows, a, k))


# The B coordinates of largest precision A_j = 1/σ_j (ties: lower j) are in an indexed heap inside ``Memory``.
#
# ``extra`` holds B slots: the features in the first half, their precisions in the second. The top of the heap leaves
# first. It has the smallest precision, and of equal ones the largest j. A coordinate (mu, A | place) stores
# its position: 0 if it never moved (slot B − 1 − j if j < B, else outside), s + 1 in slot s, −1 outside. At first, it
# holds features 0 … B − 1, all of precision 1, so ties with features that never occurred are resolved as specified.


def initial(B: int) -> NDArray[np.float64]:
    """Return the heap of a fresh model."""
    return np.concatenate([np.arange(B, dtype=np.float64)[::-1], np.ones(B)])


@scalar
def slot_of(memory: Any, j: int) -> int:
    """Return the slot of feature j, or −1."""
    B, position = len(memory.extra) // 2, int(memory.clocks[j])
    if position == 0:
        return B - 1 - j if j < B else -1
    return position - 1 if position > 0 else -1


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
    """Put (j, A) into a slot, or below it if other features leave first. The old key of the slot left no later."""
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
    """Update the heap after the precision of feature j has grown, if the heap has it."""
    slot = slot_of(memory, j)
    if slot >= 0:
        _sink(memory, slot, j, float(memory.state[2 * j + 1]))


@scalar
def offer(memory: Any, j: int) -> None:
    """Let feature j replace the top of the heap if its precision is larger. The feature outside loses its mean."""
    if slot_of(memory, j) >= 0:
        return
    B, A = len(memory.extra) // 2, float(memory.state[2 * j + 1])
    out = j
    if _leaves_before(memory.extra[B], memory.extra[0], A, j):
        out = int(memory.extra[0])
        _sink(memory, 0, j, A)
    memory.clocks[out] = -1
    memory.state[2 * out] = 0
