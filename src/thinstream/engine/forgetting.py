"""Forgetting: what was learned H rows ago counts half (specification §17).

By definition every coordinate is discounted after every round. Lazily, a coordinate keeps the round it was last
written in, and whoever reads it first takes the discounts that are due, ρ^Δ at once (``today``); only learning writes
them down. The rule itself says what a discount is (``fade``) and knows no more of it: from it `forgets` derives a
second rule of the same hooks, "FSOL that forgets". The first stays as it is, so who does not forget pays nothing.
"""

import inspect
from collections import namedtuple
from typing import Annotated, Any, NamedTuple

import numpy as np

from thinstream.engine import hooks, records
from thinstream.engine.diagonal import DIAGONAL, Exact
from thinstream.engine.exp2 import exp2
from thinstream.engine.hooks import begin, hook
from thinstream.engine.merge_rule import MergeRule
from thinstream.engine.parameters import Interval, parameters_of
from thinstream.engine.records import Clock, generate
from thinstream.engine.rule import HOOKS, REGISTRY, Algorithm, Nothing, Rule, generated_hooks
from thinstream.errors import InvalidParameterError

#: The name of the parameter.
HALF_LIFE = "half_life"
HalfLife = Annotated[float, Interval(low=1.0, closed=True, none=0.0)]


class Totals(NamedTuple):
    """T, the rounds that still count: T ← ρ(T + 1)."""

    T: float = 0.0


@hook
def fade(p: Any, f: Any, r: Any) -> Any:
    """The coordinate with what it has learned discounted by r, which has 64 bits."""


@hook
def remembering(p: Any) -> Any:
    """The rule that does not forget, of the same parameters."""


@hook
def today(p: Any, f: Any, now: Any) -> Any:
    """The rule's own coordinate, with the discounts of all rounds done."""


def forgets(rule: Rule) -> Rule:
    """Gives the decorated algorithm, which has ``fade``, the parameter ``half_life``."""
    found = declared(rule)
    if found.totals is not Nothing or records.field_names(found.coordinate)[1]:
        raise TypeError(f"{rule.__name__}: an algorithm with clocks or totals of its own cannot forget")
    form = _forgetting(rule, found)
    REGISTRY[rule.__name__.lower()] = found._replace(parameters=form.parameters, forgetting=form)
    return rule


def declared(rule: Any) -> Algorithm:
    """The algorithm of a rule's class, in the form that forgets where the rule does."""
    remembers = getattr(rule, "Remembering", rule)
    found = REGISTRY[remembers.__name__.lower()]
    form: Algorithm = found if remembers is rule else found.forgetting
    return form


def require_forgettable(rule: Any, owner: str) -> None:
    """Raises where what a rule keeps is no sum that could be discounted: full covariances, and the rule "drop"."""
    kind = getattr(rule, "diagonal", Exact())
    if getattr(rule, "covariance", DIAGONAL) != DIAGONAL or not isinstance(kind, Exact):
        raise InvalidParameterError(
            f"{owner}: half_life is for covariance='diagonal' with diagonal='exact', whose precisions are sums that "
            "can be discounted"
        )


def _forgetting(rule: Any, found: Algorithm) -> Algorithm:
    """The form of an algorithm that forgets: its rule, what that keeps, and its hooks."""
    made = _record(rule, "Forgetting", half_life=(HalfLife, 0.0))
    made.__module__, made.__qualname__, made.__doc__ = rule.__module__, f"{rule.__qualname__}.Forgetting", rule.__doc__
    rule.Forgetting = made  # where pickle finds it
    coordinate = _record(found.coordinate, "Fading", at=(Clock, 0.0))
    methods = {name: method for name, method in vars(rule).items() if inspect.isfunction(method)}
    methods |= _delegating(methods) | generated_hooks(coordinate, Totals) | _own(rule, found.coordinate, coordinate)
    for name, method in methods.items():
        if name not in vars(made):
            setattr(made, name, method)
    return found._replace(rule=made, parameters=parameters_of(made), coordinate=coordinate, totals=Totals)


def _record(record: Any, name: str, **more: tuple[Any, Any]) -> Any:
    """A record with further fields, each of a type and a default."""
    defaults = record._field_defaults
    made: Any = namedtuple(  # type: ignore[misc]
        f"{name}{record.__name__}",
        [*record._fields, *more],
        defaults=[*(defaults[field] for field in record._fields if field in defaults), *(d for _, d in more.values())],
    )
    made.__annotations__ = inspect.get_annotations(record) | {field: kind for field, (kind, _) in more.items()}
    return made


def _delegating(methods: dict[str, Any]) -> dict[str, Any]:
    """Hooks that are those of the rule that does not forget."""
    made = {}
    for name in HOOKS:
        first, *rest = inspect.signature(methods[name]).parameters
        call = f"return hook({', '.join([f'remembering({first})', *rest])})"
        made[name] = generate(", ".join([first, *rest]), [call], hook=getattr(hooks, name), remembering=remembering)
    return made


def _own(rule: Any, plain: Any, fading: Any) -> dict[str, Any]:
    """What forgetting adds: coordinates are brought up to date first, and written with the rounds done."""
    known = {"remembering": remembering, "fade": fade, "today": today, "exp2": exp2, "begin": begin, "Totals": Totals}
    known |= {name: getattr(hooks, name) for name in ("confidence", "observe", "weight", "move")}
    fields = [f"f.{name}" for name in plain._fields]
    kept = [f"g.{name}" for name in plain._fields]
    round_of = inspect.signature(rule.begin).return_annotation
    inner = Nothing if round_of is inspect.Signature.empty else round_of
    now = _record(inner, "Fading", done=(Clock, 0.0), per_row=(Clock, 0.0), rho=(Clock, 1.0))

    def writing(name: str, *rest: str) -> Any:
        given = ", ".join(("p", "f", *rest))
        call = f"g = {name}(remembering(p), today(p, f, now), {', '.join(rest)})"
        return generate(given, [call, f"return Record({', '.join([*kept, 'now.done'])})"], **known, Record=fading)

    return {
        "Remembering": rule,
        "remembering": generate("p", [f"p.{name}" for name in rule._fields], rule),
        "today": generate(
            "p, f, now",
            [f"return fade(remembering(p), Plain({', '.join(fields)}), exp2((f.at - now.done) * now.per_row))"],
            **known,
            Plain=plain,
        ),
        "begin": generate(
            "p, t, totals",
            [
                "now = begin(remembering(p), totals.T + 1.0, Nothing())",
                "per_row = 1.0 / p.half_life",
                f"return Now({''.join(f'now.{name}, ' for name in inner._fields)}t - 1.0, per_row, exp2(-per_row))",
            ],
            **known,
            Now=now,
            Nothing=Nothing,
        ),
        "confidence": generate(
            "p, f, x, now", ["return confidence(remembering(p), today(p, f, now), x, now)"], **known
        ),
        "observe": writing("observe", "x", "v", "now"),
        "weight": generate("p, f, now", ["return weight(remembering(p), today(p, f, now), now)"], **known),
        "move": writing("move", "x", "v", "step", "now"),
        "end": lambda p, totals, t, v, now, change: Totals((totals.T + 1.0) * now.rho),
        # called in Python only
        "fresh": lambda p: fading(*rule.fresh(p), 0.0),
        "current": lambda p, f, t: _current(p, f, t, plain),
        "merge_rule": _merge_rule,
        "rebuild": _rebuild,
        "sound": _sound,
    }


def _current(p: Any, f: Any, t: int, plain: Any) -> Any:
    """A record of arrays as it stands after t rounds."""
    r = np.exp2((f.at - t) / p.half_life)
    faded = fade(p.remembering(), plain(*f[:-1]), r)
    return type(f)(*faded, np.full(len(r), float(t)))


def _merge_rule(p: Any) -> MergeRule:
    """Discounted sums are sums, and T is one, too."""
    rule: MergeRule = p.Remembering.merge_rule(p)
    return rule._replace(
        how=f"{rule.how}; each model as it stands after its own last row",
        kind="heuristic",  # a part's discounts are of its own rows, those of one run would be of all
        clocks=lambda t, totals: {"at": float(t)},
    )


def _rebuild(p: Any, memory: Any) -> None:
    """A feature nobody has seen has no discounts due: it stays as it was."""
    fresh = np.array(p.fresh()[:-1], dtype=memory.state.dtype)
    memory.clocks[(memory.state.reshape(-1, len(fresh)) == fresh).all(axis=1)] = 0.0


def _sound(p: Any, memory: Any) -> bool:
    """Whether clocks from a file are of rounds that have been, and T is of no more: else discounts would be gains."""
    t = int(memory.counts[0])
    return bool(((memory.clocks >= 0) & (memory.clocks <= t)).all()) and 0 <= float(memory.totals[1]) <= t
