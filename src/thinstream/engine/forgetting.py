"""Forgetting: examples from H rows ago count half (specification §17).

By definition every coordinate is discounted after every round. The lazy form stores the round in which a coordinate was
last written. A read applies the missing discounts ρ^Δ at once (``decayed``), and only learning writes them back. A rule
defines how to discount one coordinate (``fade``). From it `forgets` derives a second rule with the same hooks, for
example "FSOL that forgets". The first rule does not change, so models without a half-life cost nothing extra.
"""

import inspect
from collections import namedtuple
from typing import Annotated, Any, NamedTuple

import numpy as np

from thinstream.engine import hooks, records
from thinstream.engine.covariance import DIAGONAL, Exact
from thinstream.engine.hooks import begin, hook
from thinstream.engine.parameters import Interval, parameters_of
from thinstream.engine.prox import exp2
from thinstream.engine.records import Clock, generate
from thinstream.engine.rule import HOOKS, REGISTRY, Algorithm, MergeRule, Nothing, Rule, generated_hooks
from thinstream.errors import InvalidParameterError

#: The name of the parameter.
HALF_LIFE = "half_life"
HalfLife = Annotated[float, Interval(low=1.0, closed=True, none=0.0)]


class Totals(NamedTuple):
    """T, the rounds that still count: T ← ρ(T + 1)."""

    T: float = 0.0


@hook
def fade(p: Any, f: Any, r: Any) -> Any:
    """Return the coordinate discounted by r, which has 64 bits."""


@hook
def base_rule(p: Any) -> Any:
    """Return the rule with the same parameters that does not forget."""


@hook
def decayed(p: Any, f: Any, now: Any) -> Any:
    """Return the coordinate of the base rule, with the discounts of all rounds applied."""


def forgets(rule: Rule) -> Rule:
    """Add the parameter ``half_life`` to the decorated algorithm, which has ``fade``."""
    plain = declared(rule)
    if plain.totals is not Nothing or records.field_names(plain.coordinate)[1]:
        raise TypeError(f"{rule.__name__}: an algorithm with clocks or totals cannot forget")
    form = _forgetting(rule, plain)
    REGISTRY[rule.__name__.lower()] = plain._replace(parameters=form.parameters, forgetting=form)
    return rule


def declared(rule: Any) -> Algorithm:
    """Return the algorithm of a rule's class, in the form that forgets if the rule does."""
    base = getattr(rule, "Base", rule)
    plain = REGISTRY[base.__name__.lower()]
    form: Algorithm = plain if base is rule else plain.forgetting
    return form


def require_forgettable(rule: Any, owner: str) -> None:
    """Raise if the state of a rule is not a sum that can be discounted: full covariances, and ``diagonal="drop"``."""
    diagonal = getattr(rule, "diagonal", Exact())
    if getattr(rule, "covariance", DIAGONAL) != DIAGONAL or not isinstance(diagonal, Exact):
        raise InvalidParameterError(
            f"{owner}: half_life needs covariance='diagonal' and diagonal='exact', because only sums of precisions "
            "can be discounted"
        )


def _forgetting(rule: Any, plain: Algorithm) -> Algorithm:
    """Return the form of an algorithm that forgets: its rule, coordinate, totals and hooks."""
    made = _record(rule, "Forgetting", half_life=(HalfLife, 0.0))
    made.__module__, made.__qualname__, made.__doc__ = rule.__module__, f"{rule.__qualname__}.Forgetting", rule.__doc__
    rule.Forgetting = made  # pickle looks for it there
    coordinate = _record(plain.coordinate, "Fading", at=(Clock, 0.0))
    methods = {name: method for name, method in vars(rule).items() if inspect.isfunction(method)}
    methods |= _delegating(methods) | generated_hooks(coordinate, Totals) | _own(rule, plain.coordinate, coordinate)
    for name, method in methods.items():
        if name not in vars(made):
            setattr(made, name, method)
    made.uses_confidence = rule.uses_confidence
    return plain._replace(rule=made, parameters=parameters_of(made), coordinate=coordinate, totals=Totals)


def _record(record: Any, name: str, **more: tuple[Any, Any]) -> Any:
    """Return a record type with further fields, given as type and default."""
    defaults = record._field_defaults
    made: Any = namedtuple(  # type: ignore[misc]
        f"{name}{record.__name__}",
        [*record._fields, *more],
        defaults=[*(defaults[field] for field in record._fields if field in defaults), *(d for _, d in more.values())],
    )
    made.__annotations__ = inspect.get_annotations(record) | {field: hint for field, (hint, _) in more.items()}
    return made


def _delegating(methods: dict[str, Any]) -> dict[str, Any]:
    """Return the hooks that call those of the base rule."""
    made = {}
    for name in HOOKS:
        first, *rest = inspect.signature(methods[name]).parameters
        call = f"return hook({', '.join([f'base_rule({first})', *rest])})"
        made[name] = generate(", ".join([first, *rest]), [call], hook=getattr(hooks, name), base_rule=base_rule)
    return made


def _own(rule: Any, plain: Any, fading: Any) -> dict[str, Any]:
    """Return the hooks that forgetting changes: coordinates are decayed first, and written with their round."""
    scope = {"base_rule": base_rule, "fade": fade, "decayed": decayed, "exp2": exp2, "begin": begin, "Totals": Totals}
    scope |= {name: getattr(hooks, name) for name in ("confidence", "observe", "weight", "move")}
    fields = [f"f.{name}" for name in plain._fields]
    changed = [f"g.{name}" for name in plain._fields]
    round_of = inspect.signature(rule.begin).return_annotation
    inner = Nothing if round_of is inspect.Signature.empty else round_of
    now = _record(inner, "Fading", done=(Clock, 0.0), per_row=(Clock, 0.0), rho=(Clock, 1.0))

    def writing(name: str, *rest: str) -> Any:
        arguments = ", ".join(("p", "f", *rest))
        call = f"g = {name}(base_rule(p), decayed(p, f, now), {', '.join(rest)})"
        return generate(
            arguments, [call, f"return Record({', '.join([*changed, 'now.done'])})"], **scope, Record=fading
        )

    return {
        "Base": rule,
        "base_rule": generate("p", [f"p.{name}" for name in rule._fields], rule),
        "decayed": generate(
            "p, f, now",
            [f"return fade(base_rule(p), Plain({', '.join(fields)}), exp2((f.at - now.done) * now.per_row))"],
            **scope,
            Plain=plain,
        ),
        "begin": generate(
            "p, t, totals",
            [
                "now = begin(base_rule(p), totals.T + 1.0, Nothing())",
                "per_row = 1.0 / p.half_life",
                f"return Now({''.join(f'now.{name}, ' for name in inner._fields)}t - 1.0, per_row, exp2(-per_row))",
            ],
            **scope,
            Now=now,
            Nothing=Nothing,
        ),
        "confidence": generate(
            "p, f, x, now", ["return confidence(base_rule(p), decayed(p, f, now), x, now)"], **scope
        ),
        "observe": writing("observe", "x", "v", "now"),
        "weight": generate("p, f, now", ["return weight(base_rule(p), decayed(p, f, now), now)"], **scope),
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
    """Return a record of arrays, decayed up to round t."""
    r = np.exp2((f.at - t) / p.half_life)
    faded = fade(p.base_rule(), plain(*f[:-1]), r)
    return type(f)(*faded, np.full(len(r), float(t)))


def _merge_rule(p: Any) -> MergeRule:
    """Merge discounted sums, and T, like other sums."""
    rule: MergeRule = p.Base.merge_rule(p)
    return rule._replace(
        how=f"{rule.how}; each model counts as of its last row",
        kind="heuristic",  # one run would discount by all rows, a part only by its own
        clocks=lambda t, totals: {"at": float(t)},
    )


def _rebuild(p: Any, memory: Any) -> None:
    """Mark features that never occurred as fresh, so that no discounts apply to them."""
    fresh = np.array(p.fresh()[:-1], dtype=memory.state.dtype)
    memory.clocks[(memory.state.reshape(-1, len(fresh)) == fresh).all(axis=1)] = 0.0


def _sound(p: Any, memory: Any) -> bool:
    """Return whether clocks and T from a file are at most t. Otherwise discounts would be gains."""
    t = int(memory.counts[0])
    return bool(((memory.clocks >= 0) & (memory.clocks <= t)).all()) and 0 <= float(memory.totals[1]) <= t
