"""Ada-RDA: dual averaging with AdaGrad's diagonal metric.

Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic Optimization (2011); a baseline of
P0. Specification §3.
"""

from typing import NamedTuple

import numpy as np

from thinstream.engine.forgetting import forgets
from thinstream.engine.losses import HINGE, Loss, descent
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import like, soft
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm


class Coordinate(NamedTuple):
    G: float = 0.0  # sum of the gradients
    S: float = 0.0  # and of their squares


class Round(NamedTuple):
    threshold: float  # (t−1)·λ


@forgets
@algorithm(paper="P0 baseline", order="second", coordinate=Coordinate, uses_confidence=False)
class AdaRDA(NamedTuple):
    """Adaptive regularized dual averaging (AdaGrad with the l1 norm).

    ::

        G_j += g_j;   S_j += g_j²;   H_j = δ + √S_j;   w_{t+1,j} = −(η/H_j)·soft(G_j, t·λ)

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: larger is sparser.
    delta : float, default=1.0
        δ, the least H_j: keeps a feature's first steps short.
    loss : {"hinge", "logistic"}, default="hinge"
    half_life : float or None, default=None
        Rows after which what was learned counts half; None: nothing is forgotten. For streams that change.

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.AdaRDA(l1=0.25).fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.25 ,  0.625]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    delta: Positive = 1.0
    loss: Loss = HINGE

    def merge_rule(p) -> MergeRule:
        return MergeRule("G and S add", "formal", sums=("G", "S"), powers={"G": 1})

    def begin(p, t: int, totals: Nothing) -> Round:
        return Round((t - 1) * p.l1)

    def weight(p, f: Coordinate, now: Round) -> float:
        return -soft(f.G, now.threshold) * (p.eta / (p.delta + np.sqrt(f.S)))

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        return descent(p.loss, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        g = -step.size * x
        return Coordinate(f.G + g, f.S + g * g)

    def fade(p, f: Coordinate, r: float) -> Coordinate:
        return Coordinate(like(r * f.G, f.G), like(r * f.S, f.S))

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        g = abs(step.size) * x
        return g + g * g
