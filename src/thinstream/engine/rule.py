"""What an algorithm is: a NamedTuple of its parameters, with a few pure scalar functions as its methods.

A rule must have the hooks ``weight``, ``step`` and ``move`` (see `hooks`) or a family that has them; the others have
the defaults below.
Functions of a coordinate (confidence, observe, weight, move) compute in the model's precision, functions of an example
(begin, step, end) in 64 bits. A rule may also say, in plain Python,

    fresh(p)            the coordinate of a feature never seen, where the record's defaults do not say it
    variance(p, f)      σ_j, if it has one (of a coordinate, or of a record of arrays)
    for_width(p, d)     the rule for d features, and needs_dimension(p): whether it must know d beforehand
    extra(p)            the first content of its own array in ``Memory``
    merge_rule(p)       how its models become one, or why they cannot (a `MergeRule`)
    rebuild(p, memory)  after a merge: what it keeps beside its coordinates, out of them
    fade(p, f, r)       a coordinate that counts r times as much: with `forgetting.forgets` it has a half-life

and, if it has ``covariance="full"``, with its vector and matrix in a `full.Belief` b,

    predict_full(p, b, x, now, absent)    score and confidence, nothing kept of an absent example (a `Seen`)
    update_full(p, b, x, seen, step)      the update
    weights_full(p, b, now)               w, dense

`rules/fsol.py` is the shortest example, CONTRIBUTING.md the walk-through.
"""

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from thinstream.engine import hooks, records
from thinstream.engine.merge_rule import UNDECLARED
from thinstream.engine.parameters import Parameter, parameters_of
from thinstream.engine.prox import like
from thinstream.jit import scalar

Rule = TypeVar("Rule", bound=type)

#: The smallest positive number of full precision, where nothing may be divided by 0.
TINY = 2.0**-1022
#: A weight that numbers can be divided by: less is taken for it.
LEAST_WEIGHT = 1e-100


class Step(NamedTuple):
    """A rule's decision on an example."""

    loss: records.Clock  # own loss, summed into the cumulative loss
    update: bool  # whether the update condition held
    size: float  # how far θ (w, μ, …) moves along x, the label's sign included
    c: float  # how strongly the example enters the covariance (0 without one)


class Seen(NamedTuple):
    """What a rule with a full covariance finds out about an example before its decision."""

    s: Any  # the score
    v: Any  # xᵀΣx
    z: Any  # Σx


class Example(NamedTuple):
    """What a rule may know of an example besides x."""

    y: float  # −1 or +1
    cost: float  # c_y, the cost of its class
    rho: float  # c₊/c₋
    importance: float  # its sample weight, never 0


@scalar
def hard_step(e: Example) -> float:
    """How much of a step that meets its constraint exactly is taken: c_y/c_max, times a sample weight of at most 1."""
    relative = min(e.rho, 1.0) if e.y > 0.0 else 1.0 / max(e.rho, 1.0)
    return relative * min(e.importance, 1.0)


class Nothing(NamedTuple):
    """A record without fields: the totals of a rule that has none, the round of a rule without schedule."""


class Algorithm(NamedTuple):
    """What was declared of an algorithm, online or batch."""

    rule: Any  # the NamedTuple of its parameters
    name: str
    paper: str
    order: str  # "first" or "second"
    summary: str
    parameters: tuple[Parameter, ...]
    kind: Literal["online", "batch"] = "online"
    coordinate: Any = None  # online: the record kept per feature
    totals: Any = None  # online: the record of its own sums
    learner: Any = None  # batch: the class that runs it; every online algorithm has the same
    forgetting: Any = None  # the same with a half-life (an `Algorithm`), where it can forget

    def __repr__(self) -> str:
        return f"<{self.name}: {self.summary} {self.paper}>"


#: What the loop calls, by name.
HOOKS = {
    name: hook
    for name, hook in vars(hooks).items()
    if inspect.isfunction(hook) and hook.__module__ == hooks.__name__ and name not in ("calls", "hook", "_check_write")
}

#: Every algorithm declared so far, by lower-case name.
REGISTRY: dict[str, Algorithm] = {}


def algorithm(
    *, paper: str, order: str, coordinate: type | None = None, family: Any = None, totals: type = Nothing
) -> Callable[[Rule], Rule]:
    """Declares the decorated NamedTuple an algorithm: estimator, registry, docs and checks follow from it.

    paper : where it comes from, as the docs table shows it
    order : "first" or "second"
    coordinate : the record kept per feature; its defaults are the values of a feature never seen
    family : a module (`linear`, `gaussian`, `truncated`) with a ``Coordinate`` and the hooks a rule leaves open
    totals : the record of the rule's own sums per model, always in 64 bits
    """
    record: Any = family.Coordinate if coordinate is None else coordinate

    def declare(rule: Rule) -> Rule:
        inherited = _defaults(rule, record) | _of_family(family) | generated_hooks(record, totals)
        for name, method in inherited.items():
            if name not in vars(rule):
                setattr(rule, name, method)
        _check_signatures(rule)
        register(rule, paper=paper, order=order, coordinate=record, totals=totals)
        return rule

    return declare


def register(rule: Any, **declared: Any) -> Algorithm:
    """Makes an algorithm known by the name of the class of its parameters, whose docstring begins with a summary."""
    name, summary = rule.__name__, (rule.__doc__ or "").strip().split("\n")[0]
    found = Algorithm(rule, name, summary=summary, parameters=parameters_of(rule), **declared)
    REGISTRY[name.lower()] = found
    return found


def _of_family(family: Any) -> dict[str, Callable[..., Any]]:
    known = {"fresh", "variance", "fade", "merge_rule", "predict_full", "update_full", "weights_full", *HOOKS}
    return {name: method for name, method in vars(family).items() if name in known} if family else {}


def generated_hooks(coordinate: type, totals: type) -> dict[str, Callable[..., Any]]:
    """Hooks that follow from the records alone."""
    fields, clocks = (len(names) for names in records.field_names(coordinate))
    return {
        "read": records.reader(coordinate),
        "write": records.writer(coordinate),
        "read_totals": records.totals_reader(totals),
        "write_totals": records.totals_writer(totals),
        "finite_coordinate": records.finiteness(coordinate),
        "finite_totals": records.totals_finiteness(totals),
        "width": lambda p: fields,
        "clock_width": lambda p: clocks,
    }


def _defaults(rule: type, coordinate: type) -> dict[str, Callable[..., Any]]:
    """The hooks a rule leaves open."""
    observing = "observe" in vars(rule)
    return {
        "begin": lambda p, t, totals: Nothing(),
        "confidence": lambda p, f, x, now: like(0.0, x),
        "observe": lambda p, f, x, v, now: f,
        "observes": lambda p: observing,
        "keeps": lambda p: True,
        "reach": lambda p, x, least, v, step, now: np.inf,  # every update is tried first
        "gain": lambda p: 1.0,
        "tally": lambda p, f, g: 0,
        "settle": lambda p, memory, rows, a, b: None,
        "end": lambda p, totals, t, v, now, change: totals,
        "stopped": lambda p, totals: False,
        # called in Python only, when a model is made or read
        "fresh": lambda p: coordinate(),
        "extra": lambda p: np.empty(0),
        "for_width": lambda p, d: p,
        "needs_dimension": lambda p: False,
        "merge_rule": lambda p: UNDECLARED,
        "rebuild": lambda p, memory: None,
        "current": lambda p, f, t: f,
    }


def _check_signatures(rule: type) -> None:
    for name, hook in HOOKS.items():
        if not hasattr(rule, name):
            raise TypeError(f"{rule.__name__} has no hook {name!r}: {hook.__doc__}")
        wanted, given = (list(inspect.signature(f).parameters) for f in (hook, getattr(rule, name)))
        if wanted != given:
            raise TypeError(f"{rule.__name__}.{name} must take ({', '.join(wanted)}), takes ({', '.join(given)})")
