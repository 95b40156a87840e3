"""The family of first-order learners with a plain weight per feature; a rule adds its ``step``."""

from typing import Any, NamedTuple

from thinstream.engine.merge_rule import MergeRule
from thinstream.engine.rule import Step


class Coordinate(NamedTuple):
    """The weight w_j."""

    w: float = 0.0


def confidence(p: Any, f: Coordinate, x: float) -> float:
    """x_j², so that v = ‖x‖²."""
    return x * x


def weight(p: Any, f: Coordinate, now: Any) -> float:
    """w_j."""
    return f.w


def move(p: Any, f: Coordinate, x: float, v: float, step: Step, now: Any) -> Coordinate:
    """w_j += size·x_j."""
    return Coordinate(f.w + step.size * x)


def merge_rule(p: Any) -> MergeRule:
    """A weight and nothing else."""
    return MergeRule("weights are averaged by t", weight="w")
