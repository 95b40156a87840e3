"""Rules of thousands of lanes, checked parameter by parameter; one by one they would take longer than learning."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thinstream.engine.forgetting import HALF_LIFE
from thinstream.engine.parameters import Interval, OneOf, Parameter
from thinstream.engine.rule import Algorithm
from thinstream.learners.learner import require_sound
from thinstream.learners.registry import rule_of


def rules_of(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], kind: np.dtype[Any], grow: bool) -> list[Any]:
    """The rule of each set of parameters, as `rule_of` makes it, checked by `require_sound`.

    >>> from thinstream.learners import find
    >>> rules_of(find("fsol"), [{"eta": 0.5}, {"eta": 2.0}], np.dtype("float32"), grow=False)
    [FSOL(eta=0.5, l1=0.0, l1_schedule=0), FSOL(eta=2.0, l1=0.0, l1_schedule=0)]
    """
    rules = _together(algorithm, many, kind)
    if rules is None:  # something is unusual, or not allowed: one by one it is told
        rules = [rule_of(algorithm, dict(given)) for given in many]
        doubtful: Sequence[int] = range(len(rules))
    else:
        doubtful = _doubtful(rules, kind, grow)
    for place in doubtful:
        require_sound(algorithm.name, rules[place], kind, grow, dict(many[place]))
    return rules


def _doubtful(rules: Sequence[Any], kind: np.dtype[Any], grow: bool) -> Sequence[int]:
    """Rules with which a model may not be able to begin: one, where that does not hang on the rule's own numbers."""
    if grow and _has_own(rules[0], "needs_dimension"):
        return range(len(rules))
    if not _has_own(rules[0], "fresh"):
        return range(1)
    begin = np.array([tuple(rule.fresh()) for rule in rules], np.float64)
    fine = np.all(np.abs(begin) <= np.finfo(kind).max, axis=1)
    found: list[int] = np.flatnonzero(~fine).tolist()
    return found


def _has_own(rule: Any, hook: str) -> bool:
    name: str = getattr(type(rule), hook).__name__
    return name != "<lambda>"


def _together(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], kind: np.dtype[Any]) -> list[Any] | None:
    """All rules at once, where each set names the same parameters and all of these are allowed."""
    names, known = many[0].keys(), {parameter.name: parameter for parameter in algorithm.parameters}
    if HALF_LIFE in names or not names <= known.keys() or any(given.keys() != names for given in many):
        return None
    rule: Any = algorithm.rule
    columns = {name: _column(known[name], [given[name] for given in many], kind) for name in names}
    if any(column is None for column in columns.values()):
        return None
    every = [columns.get(name) or [rule._field_defaults[name]] * len(many) for name in rule._fields]
    return list(map(rule._make, zip(*every, strict=True))) if every else [rule()] * len(many)


def _column(parameter: Parameter, values: list[Any], kind: np.dtype[Any]) -> list[Any] | None:
    """The values of one parameter as the rules see them; None where one needs a closer look."""
    constraint, types = parameter.constraint, set(map(type, values))
    if isinstance(constraint, OneOf) and types == {str} and set(values) <= constraint.choices.keys():
        return [constraint.choices[value] for value in values]
    if not isinstance(constraint, Interval) or not types <= ({int} if constraint.whole else {int, float}):
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:  # of a whole number of more than a thousand bits
        return None
    if not constraint.holds(numbers) or np.any(np.abs(numbers) > np.finfo(kind).max):
        return None
    return values if constraint.whole else numbers.tolist()
