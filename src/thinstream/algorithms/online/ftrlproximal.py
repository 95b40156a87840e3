"""FTRL-Proximal with l1 and l2: follow the regularized leader, with a rate per coordinate.

McMahan, Holt, Sculley and others: Ad Click Prediction: a View from the Trenches (2013). Specification §16.

Kept per coordinate: z and r = √n, so that neither the score nor a merge takes a root.
"""

from typing import NamedTuple

import numpy as np

from thinstream.engine.losses import LOGISTIC, Loss, descent
from thinstream.engine.parameters import NonNegative, Positive
from thinstream.engine.prox import soft
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    z: float = 0.0  # sum of the gradients, less what the weights of their rounds pulled
    r: float = 0.0  # root of the sum of their squares


@scalar
def pull(p: "FTRLProximal", f: Coordinate) -> float:
    """Return −w/α: the part of z beyond the threshold, divided by the regularization."""
    return soft(f.z, p.l1) / (p.beta + p.alpha * p.l2 + f.r)


@algorithm(paper="McMahan et al. 2013", order="second", coordinate=Coordinate)
class FTRLProximal(NamedTuple):
    """Follow the regularized leader, proximal, with a rate per feature (known for predicting ad clicks).

    ::

        w = −soft(z, λ₁)/((β + √n)/α + λ₂);   z += g − (√(n + g²) − √n)/α·w;   n += g²

    Only the features of a row are touched, and nothing is ever caught up.

    Parameters
    ----------
    alpha : float, default=0.1
        α: the larger, the longer the steps.
    beta : float, default=1.0
        β: keeps a feature's first steps short.
    l1 : float, default=0.0
        λ₁: larger is sparser.
    l2 : float, default=0.0
        λ₂: larger keeps weights smaller.
    loss : {"logistic", "hinge"}, default="logistic"

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.FTRLProximal(alpha=1.0, l1=0.25, fit_intercept=False).fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[-0.16666667,  0.5       ]], dtype=float32)

    """

    alpha: Positive = 0.1
    beta: Positive = 1.0
    l1: NonNegative = 0.0
    l2: NonNegative = 0.0
    loss: Loss = LOGISTIC

    def merge_rule(p) -> MergeRule:
        how = "z and √n add, because their regularized problems add"
        return MergeRule(how, "formal", sums=("z", "r"), powers={"z": 1})

    def weight(p, f: Coordinate, now: Nothing) -> float:
        return -p.alpha * pull(p, f)

    def confidence(p, f: Coordinate, x: float, now: Nothing) -> float:
        return abs(pull(p, f) * x)  # so that v bounds what a weight takes from z

    def reach(p, x: float, least: float, v: float, step: Step, now: Nothing) -> float:
        g = abs(step.size) * x
        return g + g * g + abs(step.size) * v

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        return descent(p.loss, s, e)

    def move(p, f: Coordinate, x: float, v: float, step: Step, now: Nothing) -> Coordinate:
        g = -step.size * x
        r = np.sqrt(f.r * f.r + g * g)
        return Coordinate(f.z + g + (r - f.r) * pull(p, f), r)
