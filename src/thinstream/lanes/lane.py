"""A lane: one model among others, without its memory."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from thinstream.algorithms.registry import described_by, find, rule_of
from thinstream.engine.forgetting import HALF_LIFE
from thinstream.engine.loop import EQUAL_COSTS, Costs
from thinstream.engine.memory import is_full
from thinstream.engine.parameters import Interval, OneOf, Parameter
from thinstream.engine.protocol import dtype_of, require_sound
from thinstream.engine.records import Memory
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidParameterError
from thinstream.lanes.access import numbers_of
from thinstream.lanes.full import FullLearner, online_learner
from thinstream.lanes.learner import Frozen, Learner

# Rules of thousands of lanes, checked parameter by parameter; one by one they would take longer than learning.


def rules_of(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], dtype: np.dtype[Any], grow: bool) -> list[Any]:
    """The rule of each set of parameters, as `rule_of` makes it, checked by `require_sound`.

    >>> from thinstream.algorithms.registry import find
    >>> rules_of(find("fsol"), [{"eta": 0.5}, {"eta": 2.0}], np.dtype("float32"), grow=False)
    [FSOL(eta=0.5, l1=0.0, l1_schedule=0), FSOL(eta=2.0, l1=0.0, l1_schedule=0)]
    """
    rules = _together(algorithm, many, dtype)
    if rules is None:  # a value is unusual or invalid: `rule_of` checks each one
        rules = [rule_of(algorithm, dict(values)) for values in many]
        doubtful: Sequence[int] = range(len(rules))
    else:
        doubtful = _doubtful(rules, dtype, grow)
    for number in doubtful:
        require_sound(algorithm.name, rules[number], dtype, grow, dict(many[number]))
    return rules


def _doubtful(rules: Sequence[Any], dtype: np.dtype[Any], grow: bool) -> Sequence[int]:
    """Return the rules to check individually: one, if the result does not depend on their values."""
    if grow and _has_own(rules[0], "needs_dimension"):
        return range(len(rules))
    if not _has_own(rules[0], "fresh"):
        return range(1)
    begin = np.array([tuple(rule.fresh()) for rule in rules], np.float64)
    fine = np.all(np.abs(begin) <= np.finfo(dtype).max, axis=1)
    numbers: list[int] = np.flatnonzero(~fine).tolist()
    return numbers


def _has_own(rule: Any, hook: str) -> bool:
    name: str = getattr(type(rule), hook).__name__
    return name != "<lambda>"


def _together(algorithm: Algorithm, many: Sequence[Mapping[str, Any]], dtype: np.dtype[Any]) -> list[Any] | None:
    """Create all rules at once, if all sets have the same parameters and valid values. Otherwise return None."""
    names, declared = many[0].keys(), {parameter.name: parameter for parameter in algorithm.parameters}
    if HALF_LIFE in names or not names <= declared.keys() or any(values.keys() != names for values in many):
        return None
    rule: Any = algorithm.rule
    columns = {name: _column(declared[name], [values[name] for values in many], dtype) for name in names}
    if any(column is None for column in columns.values()):
        return None
    every = [columns.get(name) or [rule._field_defaults[name]] * len(many) for name in rule._fields]
    return list(map(rule._make, zip(*every, strict=True))) if every else [rule()] * len(many)


def _column(parameter: Parameter, values: list[Any], dtype: np.dtype[Any]) -> list[Any] | None:
    """Return the rules' values of a parameter, or None if one of them needs an individual check."""
    constraint, types = parameter.constraint, set(map(type, values))
    if isinstance(constraint, OneOf) and types == {str} and set(values) <= constraint.choices.keys():
        return [constraint.choices[value] for value in values]
    if not isinstance(constraint, Interval) or not types <= ({int} if constraint.whole else {int, float}):
        return None
    try:
        numbers = np.array(values, np.float64)
    except OverflowError:  # of a whole number of more than a thousand bits
        return None
    if not constraint.holds(numbers) or np.any(np.abs(numbers) > np.finfo(dtype).max):
        return None
    return values if constraint.whole else numbers.tolist()


class Lane(NamedTuple):
    """The properties in which a model differs from the other lanes."""

    parameters: dict[str, Any]  # as the user gave them, and the defaults
    rule: Any  # prepared for the width the model began with
    costs: Costs
    offset: int  # 1: coordinate 0 is the constant feature

    @property
    def kind(self) -> Hashable:
        """Lanes of equal kind run in one block, because they only differ in numbers."""
        rule: Any = type(self.rule)
        shared = [self.rule[position] for position in _shared(rule)]
        return rule, self.offset, *map(type, shared), *shared

    def model(self, algorithm: Algorithm, memory: Memory, n_features: int, grow: bool) -> Learner:
        """Return a `Learner` with this memory. Its parameters were checked when the lane was made."""
        made = object.__new__(FullLearner if is_full(self.rule) else Learner)
        made.algorithm, made.rule, made.parameters = algorithm, self.rule, dict(self.parameters)
        made.costs, made.offset, made.grow, made.n_features = self.costs, self.offset, grow, n_features
        made.memory, made.version = memory, 0
        return made


@cache
def _shared(rule: Any) -> list[int]:
    """Return the positions of the parameters that are equal for all lanes of a block."""
    reals, wholes = numbers_of(rule)
    return [position for position, name in enumerate(rule._fields) if name not in (*reals, *wholes)]


def make_lanes(
    algorithm: str,
    parameters: Sequence[Mapping[str, Any]],
    n_features: int,
    dtype: Any,
    grow: bool,
    fit_intercept: bool | Sequence[bool],
    costs: Sequence[Costs] | None,
) -> list[Lane]:
    """Create checked lanes from parameters."""
    if not parameters:
        raise InvalidParameterError("Lanes need the parameters of at least one model, got none")
    count = len(parameters)
    paid = [EQUAL_COSTS] * count if costs is None else list(costs)
    if len(paid) != count:
        raise InvalidParameterError(f"one cost per lane is needed, got {len(paid)} for {count} lanes")
    intercepts = [fit_intercept] * count if isinstance(fit_intercept, bool) else list(fit_intercept)
    if len(intercepts) != count:
        raise InvalidParameterError(f"one fit_intercept per lane is needed, got {len(intercepts)} for {count} lanes")
    declared = find(algorithm)
    online_learner(
        algorithm, n_features=1, dtype=dtype, grow=grow, **parameters[0]
    )  # raises for models that cannot be lanes
    precision, different = (
        dtype_of(dtype, declared.name),
        {id(values): values for values in parameters},
    )  # folds share parameters
    rules = rules_of(declared, list(different.values()), precision, grow)
    described = {
        key: (described_by(declared, dict(values)), rule.for_width(n_features))
        for (key, values), rule in zip(different.items(), rules, strict=True)
    }
    return [
        Lane(*described[id(values)], cost, int(one))
        for values, one, cost in zip(parameters, intercepts, paid, strict=True)
    ]


def require_alike(models: Sequence[Learner]) -> None:
    """Raise unless the models can be lanes of one pass."""
    if not models:
        raise InvalidParameterError("Lanes need at least one model, got none")

    def traits(model: Learner) -> dict[str, Any]:
        return {
            "algorithm": model.algorithm.name,
            "n_features": model.n_features,
            "dtype": model.memory.state.dtype.name,
            "grow": model.grow,
        }

    first = traits(models[0])
    for number, model in enumerate(models):
        if isinstance(model, Frozen):
            raise InvalidParameterError(
                f"model {number} has only its weights, so it cannot continue to learn as a lane"
            )
        for name, value in traits(model).items():
            if value != first[name]:
                raise InvalidParameterError(
                    f"lanes must agree in {name}: model {number} has {value!r}, model 0 has {first[name]!r}"
                )
