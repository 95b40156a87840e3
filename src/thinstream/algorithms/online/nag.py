"""NAG: normalised adaptive gradient, in which the units of the features do not matter.

Ross, Mineiro, Langford: Normalized Online Learning (2013), Algorithm 2 with AdaGrad's sums; the heart of Vowpal
Wabbit's default learner. Specification §16.
"""

import math
from typing import NamedTuple

import numpy as np

from thinstream.engine.losses import LOGISTIC, Loss, descent
from thinstream.engine.parameters import Positive
from thinstream.engine.prox import like
from thinstream.engine.records import Clock
from thinstream.engine.rule import Example, MergeRule, Step, algorithm


class Coordinate(NamedTuple):
    w: float = 0.0
    s: float = 0.0  # the largest |x| so far
    G: float = 0.0  # sum of squared gradients


class Totals(NamedTuple):
    N: float = 0.0  # sum of (x_j/s_j)² over all rows


class Round(NamedTuple):
    t: Clock
    N: Clock


@algorithm(paper="Ross et al. 2013", order="second", coordinate=Coordinate, totals=Totals)
class NAG(NamedTuple):
    """Normalised adaptive gradient: features of any scale (Vowpal Wabbit's default learner is of this kind).

    ::

        |x| > s:  w = w·s/|x|;  s = |x|        N += Σ (x_j/s_j)²        G += g²;   w −= η·√(t/N)·g/(s·√G)

    Parameters
    ----------
    eta : float, default=0.5
        Learning rate η.
    loss : {"logistic", "hinge"}, default="logistic"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.NAG(fit_intercept=False).fit([[1.0, 0.0], [0.0, 1000.0]], [0, 1]).coef_
    array([[-0.5   ,  0.0005]], dtype=float32)

    """

    eta: Positive = 0.5
    loss: Loss = LOGISTIC

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            "G and N add, weights are averaged by t, s is the largest",
            sums=("G",),
            weight="w",
            greatest=("s",),
            powers={"w": 1, "s": -1, "G": -2},
        )

    def begin(p, t: int, totals: Totals) -> Round:
        return Round(t, totals.N)

    def confidence(p, f: Coordinate, x: float, now: Round) -> float:
        share = x / max(f.s, abs(x)) if x != like(0.0, x) else x
        return share * share

    def observe(p, f: Coordinate, x: float, v: float, now: Round) -> Coordinate:
        size = abs(x)
        return Coordinate(f.w * (f.s / size), size, f.G) if size > f.s else f

    def weight(p, f: Coordinate, now: Round) -> float:
        return f.w

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        loss, update, size, _ = descent(p.loss, s, e)
        N = now.N + v
        return Step(loss, update, size, p.eta * math.sqrt(now.t / N) if N > 0.0 else 0.0)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        g = step.size * x
        if g == like(0.0, x):
            return f
        G = f.G + g * g
        root = max(np.sqrt(G), abs(g))  # the square of a small g is 0
        return Coordinate(f.w + step.c * g / (f.s * root), f.s, G)

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        if least == 0.0:
            return math.inf  # the smaller a value, the larger its weight
        g = 2.0 * abs(step.size) * x  # of the logistic loss half of it is left at s = 0
        return x + g * g + p.eta * math.sqrt(now.t / max(now.N, 1.0)) / least

    def end(p, totals: Totals, t: int, v: float, now: Round, change: int) -> Totals:
        return Totals(totals.N + v)
