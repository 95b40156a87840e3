"""A rule of one's own: declared anywhere, it is an algorithm; declared wrongly, it says so."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

import thinstream as ts
from thinstream.engine import linear
from thinstream.engine.parameters import Positive
from thinstream.engine.rule import REGISTRY, Example, Nothing, Step, algorithm


@pytest.fixture(autouse=True)
def registry_as_before():
    """What a test declares is gone after it."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_a_rule_declared_elsewhere_is_an_estimator():
    """Name, parameters, checks and learning follow from the declaration."""

    @algorithm(paper="P0 nothing", order="first", family=linear)
    class Nudge(NamedTuple):
        """Moves by a fixed size towards every label.

        Examples
        --------
        none

        """

        size: Positive = 0.5

        def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
            return Step(abs(s), True, p.size * e.y, 0.0)

    model = ts.make("nudge", size=0.25).fit([[1.0, 0.0], [0.0, 2.0]], ["no", "yes"])
    np.testing.assert_array_equal(model.coef_, [[-0.25, 0.5]])
    assert repr(model) == "Nudge(size=0.25)"
    with pytest.raises(ValueError, match="Nudge: size must be a number > 0, got 0"):
        ts.make("nudge", size=0).fit([[1.0], [2.0]], [0, 1])


def test_a_rule_must_have_its_hooks():
    """What is missing is named, with what it should be."""
    with pytest.raises(TypeError, match="Silent has no hook 'step': Once per example"):

        @algorithm(paper="P0", order="first", family=linear)
        class Silent(NamedTuple):
            """Says nothing."""


def test_a_rule_must_take_the_arguments_it_is_asked_with():
    """Numba wants the same names in hook and method; better told here than by the compiler."""
    with pytest.raises(TypeError, match=r"Odd.step must take \(p, s, v, e, now\), takes \(p, score\)"):

        @algorithm(paper="P0", order="first", family=linear)
        class Odd(NamedTuple):
            """Asks for something else."""

            def step(p, score):
                return score


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="a check of compiled code")
def test_a_literal_that_lifts_a_coordinate_to_float64_is_refused():
    """A float32 model is never computed in float64 by accident."""

    @algorithm(paper="P0", order="first", family=linear)
    class Lifted(NamedTuple):
        """Has a bare literal where a coordinate moves."""

        def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
            return Step(0.0, True, e.y, 0.0)

        def move(p, f: linear.Coordinate, x: float, v: float, step: Step, now: Nothing) -> linear.Coordinate:
            return linear.Coordinate(f.w + 0.5 * step.size * x)

    with pytest.raises(numba.TypingError, match=r"Lifted: field w comes out as float64 where the state is float32"):
        ts.make("lifted").fit([[1.0], [2.0]], [0, 1])
    assert ts.make("lifted", dtype="float64").fit([[1.0], [2.0]], [0, 1]).coef_.dtype == np.float64
