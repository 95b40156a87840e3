"""SMIDAS: stochastic mirror descent made sparse.

Shalev-Shwartz, Tewari: Stochastic Methods for l1-regularized Loss Minimization (2011); a baseline of P2. Specification
§6, E17.

The threshold moves every θ_j and with it ‖θ‖_p, on which every weight hangs: there is no lazy form. A round costs
O(nnz(θ)), not O(d): the features of θ_j ≠ 0 form a linked list inside ``Memory``.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.losses import LOGISTIC, descent
from thinstream.engine.parameters import Interval, NonNegative, OneOf, Positive
from thinstream.engine.prox import soft
from thinstream.engine.records import Clock
from thinstream.engine.rows import coordinate
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm
from thinstream.errors import InvalidParameterError
from thinstream.jit import scalar

L1, ETA_L1 = range(2)

#: A link is 1 + the feature it leads to, 0 of a feature outside the list, or this at its end.
END = -1.0


class Coordinate(NamedTuple):
    theta: float = 0.0
    w: float = 0.0  # the weight of θ, as of the last round
    link: Clock = 0.0


@scalar
def shrink(memory: Any, a: float) -> float:
    """θ = soft(θ, a) along the list; features that come to 0 leave it. Returns max|θ_j|."""
    largest, before, here = 0.0, -1, memory.extra[0]
    while here > 0:
        j = int(here) - 1
        after = memory.clocks[j]
        theta = soft(float(memory.state[2 * j]), a)
        memory.state[2 * j] = theta
        size = abs(float(memory.state[2 * j]))  # as stored: float32 may round it to 0
        if size > 0.0:
            largest = max(largest, size)
            before = j
        else:
            memory.state[2 * j + 1] = 0
            memory.clocks[j] = 0.0
            if before < 0:
                memory.extra[0] = after
            else:
                memory.clocks[before] = after
        here = after
    return largest


@scalar
def map_back(memory: Any, power: float, M: float) -> None:
    """w_j = sign(θ_j)·M·t_j^(p−1) / (Σt^p)^((p−2)/p), t = |θ|/M: nothing overflows."""
    total, here = 0.0, memory.extra[0]
    while here > 0:
        j = int(here) - 1
        t = abs(float(memory.state[2 * j])) / M
        w = t ** (power - 1.0)
        total += w * t
        memory.state[2 * j + 1] = w
        here = memory.clocks[j]
    scale, here = M / total ** ((power - 2.0) / power) if M > 0.0 else 0.0, memory.extra[0]
    while here > 0:
        j = int(here) - 1
        w = scale * float(memory.state[2 * j + 1])
        memory.state[2 * j + 1] = w if memory.state[2 * j] > 0 else -w
        here = memory.clocks[j]


@algorithm(paper="P2 baseline", order="first", coordinate=Coordinate, uses_confidence=False)
class SMIDAS(NamedTuple):
    """Stochastic mirror descent made sparse: a p-norm link between what is learned and the weights.

    ::

        w_j = sign(θ_j)·|θ_j|^(p−1) / ‖θ‖_p^(p−2);   θ = soft(θ − η∇ℓ, a),  ℓ logistic,  a = λ or ηλ

    A round costs O(nnz(θ)): the one algorithm here whose cost is not that of the example. With the usual p the weights
    spread over so many powers of 2 that most are lost in any sum: see `thinstream.diagnostics`.

    Parameters
    ----------
    eta : float, default=0.1
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser.
    p : float or None, default=None
        The norm, at least 2. With 2, it is plain stochastic gradient descent. None: 2 ln d, but at least 2.
    threshold : {"l1", "eta_l1"}, default="l1"
        What θ shrinks by each round: λ as P2 prints it, or ηλ as in the original.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.SMIDAS(eta=2.0, p=3).fit([[1.0, 0.0], [0.0, 2.0]], [0, 1]).coef_.round(3)
    array([[-0.357,  2.71 ]], dtype=float32)

    """

    eta: Positive = 0.1
    l1: NonNegative = 0.0
    p: Annotated[float, Interval(low=2.0, closed=True, none=math.inf)] = math.inf
    threshold: Annotated[int, OneOf(l1=L1, eta_l1=ETA_L1)] = L1

    def extra(p) -> NDArray[np.float64]:
        return np.array([END])

    def needs_dimension(p) -> bool:
        return p.p == math.inf

    def for_width(p, d: int) -> "SMIDAS":
        """The p of d features."""
        if p.p < math.inf:
            return p
        if d < 1:
            raise InvalidParameterError("SMIDAS: p=None is 2 ln d and needs the number of features; give p as a number")
        return p._replace(p=max(2.0, 2.0 * math.log(d)))

    def sound(p, memory: Any) -> bool:
        """Whether the list holds just the features of θ_j ≠ 0: a foreign one must not lead outside, or in circles."""
        left, links = set((np.flatnonzero(memory.state[::2]) + 1.0).tolist()), memory.clocks.tolist()
        here = float(memory.extra[0])
        while here in left:
            left.remove(here)
            here = links[int(here) - 1]
        return here == END and not left and np.count_nonzero(memory.clocks) == np.count_nonzero(memory.state[::2])

    def rebuild(p, memory: Any) -> None:
        """Recompute the list and the weights from θ."""
        kept = np.flatnonzero(memory.state[::2])
        links = np.append(kept + 1.0, END)
        memory.extra[0], memory.clocks[:], memory.state[1::2] = links[0], 0.0, 0
        memory.clocks[kept] = links[1:]
        map_back(memory, float(p.p), float(np.abs(memory.state[::2]).max(initial=0.0)))

    def merge_rule(p) -> MergeRule:
        return MergeRule("θ is averaged by t, weights follow from it", means=("theta",), way="mean")

    def weight(p, f: Coordinate, now: Nothing) -> float:
        return f.w

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        return descent(LOGISTIC, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        return Coordinate(f.theta + p.eta * step.size * x, f.w, f.link)

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        return p.eta * abs(step.size) * x

    def settle(p, memory: Any, rows: Any, a: int, b: int) -> None:
        for k in range(b - a + rows.offset):
            j = coordinate(rows, a, k)
            if memory.clocks[j] == 0.0:
                memory.clocks[j] = memory.extra[0]
                memory.extra[0] = j + 1.0
        largest = shrink(memory, float(p.l1 if p.threshold == L1 else p.eta * p.l1))
        map_back(memory, float(p.p), largest)
