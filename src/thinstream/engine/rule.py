"""The declaration of an algorithm: a NamedTuple of its parameters, with a few pure scalar functions as methods.

A rule must have the hooks ``weight``, ``step`` and ``move`` (see `hooks`) or a family that has them; the others have
the defaults below. Functions of a coordinate (confidence, observe, weight, move) compute in the model's precision,
functions of an example (begin, step, end) in 64 bits. A rule may also define, in plain Python,

    fresh(p)            the coordinate of a feature that never occurred, if not the record's defaults
    variance(p, f)      σ_j, if there is one (of a coordinate, or of a record of arrays)
    for_width(p, d)     the rule for d features, and needs_dimension(p): whether d must be known in advance
    extra(p)            the initial content of the rule's array in ``Memory``
    merge_rule(p)       how models are merged, or why they cannot be (a `MergeRule`)
    rebuild(p, memory)  after a merge: recompute from the coordinates the state that is not in them
    fade(p, f, r)       the coordinate discounted by r; `forgetting.forgets` then adds a half-life

and, for ``covariance="full"``, with vector and matrix in a `covariance.Belief` b,

    predict_full(p, b, x, now, absent)    score and confidence (a `Seen`); an absent example changes nothing
    update_full(p, b, x, seen, step)      the update
    weights_full(p, b, now)               w, dense

`algorithms/online/perceptron.py` is the shortest example. CONTRIBUTING.md explains each step.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from thinstream.engine import hooks, records
from thinstream.engine.parameters import Parameter, parameters_of
from thinstream.engine.prox import like
from thinstream.jit import scalar

# How models of a rule are merged: ``merge_rule(p)`` returns a `MergeRule`.
#
# Both ways to merge follow from this declaration: models that learned from disjoint parts of a stream
# (`models.merging`), and increments of workers since a common base (`distributed.deltas`). Models of a rule
# without a declaration, its own or its family's, cannot be merged.

#: Guarantees of the result. exact: it is the model of one run over all parts; formal: it contains the updates of all
#: parts, each decided on the history of one part; heuristic: it is a sensible model without a guarantee.
Kind = Literal["exact", "formal", "heuristic"]

#: How increments of workers can be combined, see `distributed.deltas`.
WAYS = ("sum", "mean", "touched", "root")
BELIEF_WAYS = ("precision", "gain", "mean", "touched")
AVERAGES = ("touched", "mean")


class MergeRule(NamedTuple):
    """How each field of a coordinate is merged. Fields that are not named are left to the rule's ``rebuild``."""

    how: str = ""  # for docs and messages
    kind: Kind = "heuristic"
    sums: tuple[str, ...] = ()  # sums over examples: they add, and the value of a fresh feature counts once
    means: tuple[str, ...] = ()  # averaged, weighted by the examples of each model
    greatest: tuple[str, ...] = ()  # the largest of all models
    weight: str = ""  # the field of the weight: brought up to date, then averaged
    clocks: Callable[[int, Any], dict[str, float]] = lambda t, totals: {}  # fields of coordinates that are up to date
    belief: tuple[str, str] | None = None  # Gaussian mean and spread: precisions add, means are weighted by them
    stores_precision: bool = True  # whether the spread is kept as a precision, or else as a variance
    totals_like_weights: bool = False  # whether increments of the rule's totals are averaged if weights are
    way: str = "touched"  # how increments of workers are combined by default: the best way in measurements
    #: If the scale of a feature becomes r times as large, each field is multiplied by a power of r: weights by r,
    #: variances by r². A field that is not named stays. None: models with different scales cannot be merged.
    powers: Mapping[str, int] | None = None
    refused: str = ""  # why models cannot be merged; with fields named above they can be averaged on request

    @property
    def declared(self) -> bool:
        """Whether models can be merged, at least on request."""
        return bool(self.sums or self.means or self.weight or self.belief)

    @property
    def averages(self) -> bool:
        """Whether the share of each model matters."""
        return bool(self.means or self.weight)

    @property
    def ways(self) -> tuple[str, ...]:
        """How increments can be combined, the default first."""
        ways = BELIEF_WAYS if self.belief else AVERAGES if self.refused else WAYS
        return (self.way, *(way for way in ways if way != self.way))


#: The merge rule of a rule that does not declare one.
UNDECLARED = MergeRule(refused="it declares no merge_rule")


Rule = TypeVar("Rule", bound=type)

#: The smallest positive number of full precision, used instead of 0 in divisions.
TINY = 2.0**-1022
#: The smallest weight to divide by. Smaller ones count as this.
LEAST_WEIGHT = 1e-100


class Step(NamedTuple):
    """A rule's decision on an example."""

    loss: records.Clock  # own loss, summed into the cumulative loss
    update: bool  # whether the update condition held
    size: float  # how far θ (w, μ, …) moves along x, the label's sign included
    c: float  # how strongly the example enters the covariance (0 without one)


class Seen(NamedTuple):
    """The sums of an example for a rule with a full covariance, before its decision."""

    s: Any  # the score
    v: Any  # xᵀΣx
    z: Any  # Σx


class Example(NamedTuple):
    """The properties of an example, in addition to x, that a rule may use."""

    y: float  # −1 or +1
    cost: float  # c_y, the cost of its class
    rho: float  # c₊/c₋
    importance: float  # its sample weight, never 0


@scalar
def hard_step(e: Example) -> float:
    """Return the share of an exact step that is made: c_y/c_max, times a sample weight of at most 1."""
    relative = min(e.rho, 1.0) if e.y > 0.0 else 1.0 / max(e.rho, 1.0)
    return relative * min(e.importance, 1.0)


class Nothing(NamedTuple):
    """A record without fields, for rules without totals or without a schedule."""


class Algorithm(NamedTuple):
    """The declaration of an algorithm, online or batch."""

    rule: Any  # the NamedTuple of its parameters
    name: str
    paper: str
    order: str  # "first" or "second"
    summary: str
    parameters: tuple[Parameter, ...]
    kind: Literal["online", "batch", "blend"] = "online"
    coordinate: Any = None  # online: the record kept per feature
    totals: Any = None  # online: the record of the rule's totals
    learner: Any = None  # batch: the class that runs it; learners of other kinds are chosen by ``kind``
    forgetting: Any = None  # the form with a half-life (an `Algorithm`), if it can forget

    def __repr__(self) -> str:
        return f"<{self.name}: {self.summary} {self.paper}>"


#: The hooks that the loop calls, by name.
HOOKS = {
    name: hook
    for name, hook in vars(hooks).items()
    if inspect.isfunction(hook) and hook.__module__ == hooks.__name__ and name not in ("calls", "hook", "_check_write")
}

#: Every algorithm declared so far, by lower-case name.
REGISTRY: dict[str, Algorithm] = {}


def algorithm(
    *,
    paper: str,
    order: str,
    coordinate: type | None = None,
    family: Any = None,
    totals: type = Nothing,
    uses_confidence: bool = True,
) -> Callable[[Rule], Rule]:
    """Declare the decorated NamedTuple as an algorithm. Estimator, registry, docs and checks follow from it.

    paper : where it comes from, as the docs table shows it
    order : "first" or "second"
    coordinate : the record stored per feature; its defaults are the values of a feature that never occurred
    family : a module (`linear`, `gaussian`, `truncated`) with a ``Coordinate`` and default hooks
    totals : the record of the rule's own sums per model, always in 64 bits
    uses_confidence : False if no hook of the rule depends on v; lanes then skip the pass over a row that sums it
    """
    record: Any = family.Coordinate if coordinate is None else coordinate

    def declare(rule: Rule) -> Rule:
        inherited = _defaults(rule, record) | _of_family(family) | generated_hooks(record, totals)
        for name, method in inherited.items():
            if name not in vars(rule):
                setattr(rule, name, method)
        rule.uses_confidence = uses_confidence  # type: ignore[attr-defined]
        _check_signatures(rule)
        register(rule, paper=paper, order=order, coordinate=record, totals=totals)
        return rule

    return declare


def register(rule: Any, **declared: Any) -> Algorithm:
    """Register an algorithm by the name of its rule, whose docstring begins with a summary."""
    name, summary = rule.__name__, (rule.__doc__ or "").strip().split("\n")[0]
    algorithm = Algorithm(rule, name, summary=summary, parameters=parameters_of(rule), **declared)
    REGISTRY[name.lower()] = algorithm
    return algorithm


def _of_family(family: Any) -> dict[str, Callable[..., Any]]:
    inherited = {"fresh", "variance", "fade", "merge_rule", "predict_full", "update_full", "weights_full", *HOOKS}
    return {name: method for name, method in vars(family).items() if name in inherited} if family else {}


def generated_hooks(coordinate: type, totals: type) -> dict[str, Callable[..., Any]]:
    """Return the hooks that are generated from the records."""
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
    """Return the defaults of the hooks."""
    observing = "observe" in vars(rule)
    return {
        "begin": lambda p, t, totals: Nothing(),
        "confidence": lambda p, f, x, now: like(0.0, x),
        "observe": lambda p, f, x, v, now: f,
        "observes": lambda p: observing,
        "keeps": lambda p: True,
        "reach": lambda p, x, least, v, step, now: np.inf,  # every update is computed before it is written
        "stands_still": lambda p: False,
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
        wanted, defined = (list(inspect.signature(f).parameters) for f in (hook, getattr(rule, name)))
        if wanted != defined:
            raise TypeError(
                f"{rule.__name__}.{name} must have the parameters ({', '.join(wanted)}), got ({', '.join(defined)})"
            )
