"""The family of truncated-gradient learners, STG and FOBOS: their common lazy form (specification §3).

The model stores P, the sum of all truncations so far. Each weight stores P_j, the part already applied to it. Between
its gradients a weight only shrinks, and soft(soft(v, a), b) = soft(v, a + b), so applying P − P_j at once is exact. The
truncation of a round stays pending, because it comes after the gradient of that round.
"""

from typing import Any, NamedTuple

from thinstream.engine.losses import descent
from thinstream.engine.prox import like, rate_at, soft
from thinstream.engine.records import Clock
from thinstream.engine.rule import Example, MergeRule, Step
from thinstream.jit import scalar


class Coordinate(NamedTuple):
    """w_j after its last update, and P_j."""

    w: float = 0.0
    P: Clock = 0.0


class Totals(NamedTuple):
    """P."""

    P: float = 0.0


class Round(NamedTuple):
    """P of the rounds before, and η_t."""

    P: Clock
    eta_t: float


def begin(p: Any, t: int, totals: Totals) -> Round:
    """P holds rounds 1 … t − 1."""
    return Round(totals.P, rate_at(p.rate, p.eta, t))


@scalar
def weight(p: Any, f: Coordinate, now: Round) -> float:
    """w_j brought up to date."""
    return soft(f.w, like(now.P - f.P, f.w))


def step(p: Any, s: float, v: float, e: Example, now: Round) -> Step:
    """Along the gradient."""
    return descent(p.loss, s, e)


def move(p: Any, f: Coordinate, x: float, v: float, step: Step, now: Round) -> Coordinate:
    """Brought up to date, then η_t·size·x."""
    return Coordinate(weight(p, f, now) + now.eta_t * step.size * x, now.P)


def reach(p: Any, x: float, least: float, v: float, step: Step, now: Round) -> float:
    """η_t·|size|·x; truncations only shrink."""
    return abs(now.eta_t * step.size) * x


def merge_rule(p: Any) -> MergeRule:
    """All of the model's P is applied to a weight that is up to date."""
    return MergeRule(
        "weights are brought up to date and averaged by t",
        weight="w",
        clocks=lambda t, totals: {"P": totals.P},
        totals_like_weights=True,
        powers={"w": 1},
    )
