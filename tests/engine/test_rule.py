"""A rule of one's own: declared anywhere, it is an algorithm; declared wrongly, it says so."""

from typing import NamedTuple

import numba
import numpy as np
import pytest

import thinstream as ts
from tests.estimators.generating import generate_estimator
from thinstream.algorithms.registry import algorithms, rule_of
from thinstream.engine import hooks, linear
from thinstream.engine.parameters import OneOf, Positive
from thinstream.engine.rule import REGISTRY, Example, Nothing, Step, algorithm


@pytest.fixture(autouse=True)
def registry_as_before():
    """What a test declares is gone after it."""
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def test_a_rule_declared_elsewhere_is_an_estimator(monkeypatch):
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

    generate_estimator("Nudge", monkeypatch)
    model = ts.make("nudge", size=0.25).fit([[1.0, 0.0], [0.0, 2.0]], ["no", "yes"])
    np.testing.assert_array_equal(model.coef_, [[-0.25, 0.5]])
    assert repr(model) == "Nudge(size=0.25)"
    with pytest.raises(ValueError, match="Nudge: size must be a number > 0, got 0"):
        ts.make("nudge", size=0).fit([[1.0], [2.0]], [0, 1])


def test_a_rule_must_have_its_hooks():
    """What is missing is named, with what it should be."""
    with pytest.raises(TypeError, match="Silent has no hook 'step': Return the loss, whether to update"):

        @algorithm(paper="P0", order="first", family=linear)
        class Silent(NamedTuple):
            """Says nothing."""


def test_a_rule_must_take_the_arguments_it_is_asked_with():
    """Numba wants the same names in hook and method; better told here than by the compiler."""
    with pytest.raises(TypeError, match=r"Odd.step must have the parameters \(p, s, v, e, now\), got \(p, score\)"):

        @algorithm(paper="P0", order="first", family=linear)
        class Odd(NamedTuple):
            """Asks for something else."""

            def step(p, score):
                return score


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="a check of compiled code")
def test_a_literal_that_lifts_a_coordinate_to_float64_is_refused(monkeypatch):
    """A float32 model is never computed in float64 by accident."""

    @algorithm(paper="P0", order="first", family=linear)
    class Lifted(NamedTuple):
        """Has a bare literal where a coordinate moves."""

        def step(p, s: float, v: float, e: Example, now: Nothing) -> Step:
            return Step(0.0, True, e.y, 0.0)

        def move(p, f: linear.Coordinate, x: float, v: float, step: Step, now: Nothing) -> linear.Coordinate:
            return linear.Coordinate(f.w + 0.5 * step.size * x)

    generate_estimator("Lifted", monkeypatch)
    with pytest.raises(numba.TypingError, match=r"Lifted: field w is computed as float64, but the state is float32"):
        ts.make("lifted").fit([[1.0], [2.0]], [0, 1])
    assert ts.make("lifted", dtype="float64").fit([[1.0], [2.0]], [0, 1]).coef_.dtype == np.float64


def forms():
    for declared in algorithms("online"):
        for form in filter(None, (declared, declared.forgetting)):
            yield pytest.param(declared, form, id=form.rule.__name__)


@pytest.mark.parametrize(("declared", "form"), list(forms()))
def test_a_rule_that_does_not_use_confidence_ignores_v(declared, form):
    """What lanes leave out for a rule with ``uses_confidence=False`` does not change any of its hooks."""
    rng = np.random.default_rng(0)
    uses = False
    for parameters in choices(declared):
        if form is not declared:  # which forgets with the exact diagonal only
            exact = {"diagonal": "exact"} if hasattr(form.rule(), "diagonal") else {}
            parameters = parameters | exact | {"half_life": 3.0}
        p = rule_of(declared, parameters)
        assert type(p) is form.rule
        for _ in range(20):
            s = float(rng.normal())
            f = type(p.fresh())(*rng.uniform(0.5, 2.0, len(p.fresh())).tolist())
            totals = form.totals(*rng.uniform(0.5, 2.0, len(form.totals._fields)).tolist())
            e = Example(float(rng.choice([-1.0, 1.0])), 1.5, 2.0, 0.5)
            results = [results_of_hooks(p, f, totals, e, x=0.75, s=s, v=v) for v in (0.0, 0.25, 4.0)]
            uses |= len(set(map(repr, results))) > 1
    assert form.rule.uses_confidence == declared.rule.uses_confidence
    assert declared.rule.uses_confidence or not uses
    if form is declared and declared.name != "SOP":  # whose v is always 0
        assert uses == declared.rule.uses_confidence


def choices(declared):
    """The values of each parameter that is a choice, the others at their defaults."""
    yield {}
    for parameter in declared.parameters:
        if isinstance(parameter.constraint, OneOf) and parameter.name != "covariance":
            yield from ({parameter.name: choice} for choice in parameter.constraint.choices)


def results_of_hooks(p, f, totals, e, *, x, s, v):
    """What every hook that is given v returns in one round."""
    now = hooks.begin(p, 5, totals)
    seen = hooks.observe(p, f, x, v, now)
    step = hooks.step(p, s, v, e, now)
    forced = Step(1.0, True, 0.5, 0.25)  # the same whatever v is
    moved = hooks.move(p, f, x, v, forced, now)
    reach = hooks.reach(p, x, 0.5, v, forced, now)
    return seen, step, moved, reach, hooks.end(p, totals, 5, v, now, 1)
