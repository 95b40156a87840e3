"""SOFS: second-order online feature selection.

Wu, Hoi, Mei, Yu: Large-Scale Online Feature Selection for Ultra-High Dimensional Sparse Data (2017); a baseline of P1.
Specification §4, D10.

The B features of smallest (σ_j, j) are kept in an indexed heap whose top is the one to leave next. σ only falls, and
only on features of the example, so only they can enter.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine import heap
from thinstream.engine.losses import hinge
from thinstream.engine.merge_rule import MergeRule
from thinstream.engine.parameters import Count, Positive
from thinstream.engine.records import Clock
from thinstream.engine.rows import coordinate
from thinstream.engine.rule import Example, Nothing, Step, algorithm


class Coordinate(NamedTuple):
    mu: float = 0.0
    A: float = 1.0  # 1/σ
    place: Clock = 0.0  # in the heap, see `heap`


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
        return heap.initial(p.B)

    def extra_size(p) -> int:
        """Of what `extra` makes, without making it."""
        return 2 * p.B

    def sound(p, memory: Any) -> bool:
        """Whether heap and coordinates agree: a foreign state must not send the loop outside its arrays."""
        features, place, slots = memory.extra[: p.B], memory.clocks, np.arange(p.B)
        inside = (features >= 0) & (features < len(place)) & (features == np.floor(features))
        if not inside.all() or len(np.unique(features)) != p.B:
            return False
        kept, numbers = features.astype(np.int64), np.arange(len(place))
        fine = (place == -1) | ((place == 0) & (numbers >= p.B))
        fine[kept] = np.where(place[kept] == 0, kept == p.B - 1 - slots, place[kept] == slots + 1)
        return bool(fine.all())

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            "precisions add and means are weighted by precision, then the B most certain features are kept",
            belief=("mu", "A"),
            way="precision",
            powers={"mu": 1, "A": -2},
        )

    def rebuild(p, memory: Any) -> None:
        """The B features of largest precision (ties: lower j) stay, in a heap laid out anew (see `heap`)."""
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
            heap.renew(memory, coordinate(rows, a, k))
        for k in range(b - a + rows.offset):
            heap.offer(memory, coordinate(rows, a, k))
