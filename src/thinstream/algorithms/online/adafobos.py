"""Ada-FOBOS: forward-backward splitting with AdaGrad's diagonal metric.

Duchi, Hazan, Singer: Adaptive Subgradient Methods for Online Learning and Stochastic Optimization (2011); a baseline of
P0. Specification §3.

Lazy form: between two touches of a feature its H_j stands still, so the thresholds of the rounds it missed add up to
(t − 1 − n_j)·λη/H_j, n_j being the rounds it has taken.
"""

from typing import NamedTuple

import numpy as np

from thinstream.engine.losses import HINGE, Loss, descent
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import like, soft
from thinstream.engine.records import Clock
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    w: float = 0.0
    S: float = 0.0  # sum of squared gradients
    n: Clock = 0.0


class Round(NamedTuple):
    done: Clock  # t − 1
    lambda_eta: Clock


@scalar
def caught_up(delta: float, f: Coordinate, now: Round) -> float:
    """w_j with the thresholds of all rounds done."""
    H = delta + np.sqrt(f.S)
    return soft(f.w, like((now.done - f.n) * now.lambda_eta, f.w) / H)


@algorithm(paper="P0 baseline", order="second", coordinate=Coordinate, uses_confidence=False)
class AdaFOBOS(NamedTuple):
    """Adaptive forward-backward splitting (AdaGrad with the l1 norm).

    ::

        S_j += g_j²;   H_j = δ + √S_j;   w_j = soft(w_j − η·g_j/H_j, λη/H_j)   every round

    Parameters
    ----------
    eta : float, default=1.0
        Learning rate η.
    l1 : float, default=0.0
        λ: each round shrinks a weight by λη/H_j; larger is sparser.
    delta : float, default=1.0
        δ, the least H: keeps the first steps short.
    loss : {"hinge", "logistic"}, default="hinge"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.AdaFOBOS().fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.5 ,  0.75]], dtype=float32)

    """

    eta: Positive = 1.0
    l1: NonNegative = 0.0
    delta: Positive = 1.0
    loss: Loss = HINGE

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            "S adds, weights are brought up to date and averaged by t",
            sums=("S",),
            weight="w",
            clocks=lambda t, totals: {"n": t},  # the thresholds of all rounds are taken
            powers={"w": 1},
        )

    def begin(p, t: int, totals: Nothing) -> Round:
        return Round(t - 1.0, p.l1 * p.eta)

    def weight(p, f: Coordinate, now: Round) -> float:
        return caught_up(p.delta, f, now)

    def step(p, s: float, v: float, e: Example, now: Round) -> Step:
        return descent(p.loss, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
        g = -step.size * x
        S = f.S + g * g
        # this round's own threshold stays pending: it is due with the new H
        return Coordinate(caught_up(p.delta, f, now) - p.eta * g / (p.delta + np.sqrt(S)), S, now.done)

    def reach(p, x: float, least: float, v: float, step: Step, now: Round) -> float:
        g = abs(step.size) * x
        return p.eta * g / p.delta + g * g
