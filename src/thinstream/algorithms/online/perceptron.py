"""The Perceptron.

Rosenblatt: The Perceptron: a Probabilistic Model for Information Storage and Organization in the Brain (1958); a
baseline of P3. Specification §3.
"""

from typing import NamedTuple

from thinstream.engine import linear
from thinstream.engine.rule import Example, MergeRule, Nothing, Step, algorithm


@algorithm(paper="P3 baseline", order="first", family=linear, uses_confidence=False)
class Perceptron(NamedTuple):
    """Perceptron.

    ::

        if ŷ ≠ y:  w += c_y·y·x

    Examples
    --------
    >>> import thinstream as ts
    >>> ts.Perceptron().fit([[1.0, 0.0], [0.0, 3.0]], [0, 1]).coef_
    array([[0., 3.]], dtype=float32)

    """

    def merge_rule(p) -> MergeRule:
        return MergeRule("the updates add", "formal", sums=("w",), powers={"w": 1})

    def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
        mistake = (s > 0.0) != (e.y > 0.0)
        return Step(max(0.0, -e.y * s), mistake, e.cost * e.importance * e.y, 0.0)
