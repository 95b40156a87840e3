"""The family of first-order learners with a plain weight per feature; a rule adds its ``step``."""

from typing import Any, NamedTuple

from thinstream.engine.rule import TINY, MergeRule, Step
from thinstream.jit import scalar

#: How far a passive-aggressive learner goes.
UNBOUNDED, PA_I, PA_II = range(3)


class Coordinate(NamedTuple):
    """The weight w_j."""

    w: float = 0.0


def confidence(p: Any, f: Coordinate, x: float, now: Any) -> float:
    """x_j², so that v = ‖x‖²."""
    return x * x


def weight(p: Any, f: Coordinate, now: Any) -> float:
    """w_j."""
    return f.w


def move(p: Any, f: Coordinate, x: float, v: float, step: Step, now: Any) -> Coordinate:
    """w_j += size·x_j."""
    return Coordinate(f.w + step.size * x)


def reach(p: Any, x: float, least: float, v: float, step: Step, now: Any) -> float:
    """|size|·x."""
    return abs(step.size) * x


def merge_rule(p: Any) -> MergeRule:
    """A weight and nothing else."""
    return MergeRule("weights are averaged by t", weight="w", powers={"w": 1})


@scalar
def tau(variant: int, C: float, part: float, loss: float, squared_norm: float) -> float:
    """Return part·ℓ/‖x‖², min(C, ℓ/‖x‖²) or ℓ/(‖x‖² + 1/(2C)); 0 for an empty example. C or part has the weights."""
    if squared_norm == 0.0:
        return 0.0
    if variant == PA_II:
        return loss / (squared_norm + 1.0 / (2.0 * max(C, TINY)))
    tau = loss / squared_norm
    return min(C, tau) if variant == PA_I else part * tau
