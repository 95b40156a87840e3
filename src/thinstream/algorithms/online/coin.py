"""Coin: learning without a rate, by betting on each coordinate (COCOB-Backprop on linear models).

Orabona, Tommasi: Training Deep Networks without Learning Rates Through Coin Betting (2017). Specification §16.

The weight of a coordinate is the bet on its next gradient: a fraction of the wealth that earlier bets have made.
"""

from typing import NamedTuple

from thinstream.engine.losses import LOGISTIC, Loss, descent
from thinstream.engine.parameters import Positive
from thinstream.engine.prox import like
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    theta: float = 0.0  # sum of the negative gradients γ
    G: float = 0.0  # sum of their sizes
    R: float = 0.0  # what the bets have won
    L: float = 1e-8  # the largest size so far


@scalar
def bet(p: "Coin", f: Coordinate) -> float:
    """Bet a fraction of the wealth L + R, which depends on the gradients so far."""
    return f.theta * (f.L + f.R) / (f.L * max(f.G + f.L, p.alpha * f.L))


@algorithm(paper="Orabona, Tommasi 2017", order="second", coordinate=Coordinate)
class Coin(NamedTuple):
    """Coin betting: no learning rate to choose.

    ::

        γ = −∇ℓ;   L = max(L, |γ|);   G += |γ|;   R = max(R + w·γ, 0);   θ += γ
        w = θ·(L + R)/(L·max(G + L, α·L))

    Parameters
    ----------
    alpha : float, default=100.0
        α: bets stay small until a feature's gradients add up to α times the largest of them.
    loss : {"logistic", "hinge"}, default="logistic"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.Coin(alpha=1.0, fit_intercept=False).fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.5,  0.5]], dtype=float32)

    """

    alpha: Positive = 100.0
    loss: Loss = LOGISTIC

    def merge_rule(p) -> MergeRule:
        return MergeRule(
            "θ and G add, winnings are averaged by t, L is the largest",
            sums=("theta", "G"),
            means=("R",),
            greatest=("L",),
            powers={"theta": 1},
        )

    def weight(p, f: Coordinate, now: Nothing) -> float:
        return bet(p, f)

    def confidence(p, f: Coordinate, x: float, now: Nothing) -> float:
        return abs(bet(p, f) * x)  # so that v bounds what a bet can win

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        return abs(step.size) * (x + v)

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        return descent(p.loss, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        gamma = step.size * x
        R = max(f.R + bet(p, f) * gamma, like(0.0, x))
        return Coordinate(f.theta + gamma, f.G + abs(gamma), R, max(f.L, abs(gamma)))
