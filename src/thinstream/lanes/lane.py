"""A lane: one model among others, without its memory."""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from thinstream.engine.loop import Costs
from thinstream.engine.records import Memory
from thinstream.engine.rule import Algorithm
from thinstream.errors import InvalidParameterError
from thinstream.lanes.access import numbers_of
from thinstream.lanes.many import rules_of
from thinstream.learners import Frozen, Learner, find, make_learner
from thinstream.learners.learner import EQUAL_COSTS, dtype_of
from thinstream.learners.registry import described_by


class Lane(NamedTuple):
    """What makes a model differ from its neighbours."""

    parameters: dict[str, Any]  # as the user gave them, and the defaults
    rule: Any  # prepared for the width the model began with
    costs: Costs
    offset: int  # 1: coordinate 0 is the constant feature

    @property
    def kind(self) -> Hashable:
        """Lanes of equal kind run in one block: they differ in numbers only."""
        rule: Any = type(self.rule)
        shared = [self.rule[place] for place in _shared(rule)]
        return rule, self.offset, *map(type, shared), *shared

    def model(self, algorithm: Algorithm, memory: Memory, n_features: int, grow: bool) -> Learner:
        """A `Learner` with this memory."""
        made: Learner = make_learner(
            algorithm.name,
            n_features=1,
            costs=self.costs,
            dtype=memory.state.dtype.name,
            grow=grow,
            fit_intercept=bool(self.offset),
            **self.parameters,
        )
        made.rule, made.memory, made.n_features = self.rule, memory, n_features
        return made


@cache
def _shared(rule: Any) -> list[int]:
    """Places of the parameters that all lanes of a block have in common."""
    reals, wholes = numbers_of(rule)
    return [place for place, name in enumerate(rule._fields) if name not in (*reals, *wholes)]


def make_lanes(
    algorithm: str,
    parameters: Sequence[Mapping[str, Any]],
    n_features: int,
    dtype: Any,
    grow: bool,
    fit_intercept: bool | Sequence[bool],
    costs: Sequence[Costs] | None,
) -> list[Lane]:
    """The lanes a user describes, checked as a `Learner` checks them."""
    if not parameters:
        raise InvalidParameterError("Lanes need the parameters of one model at least, got none")
    count = len(parameters)
    paid = [EQUAL_COSTS] * count if costs is None else list(costs)
    if len(paid) != count:
        raise InvalidParameterError(f"one cost per lane is needed, got {len(paid)} for {count} lanes")
    intercepts = [fit_intercept] * count if isinstance(fit_intercept, bool) else list(fit_intercept)
    if len(intercepts) != count:
        raise InvalidParameterError(f"one fit_intercept per lane is needed, got {len(intercepts)} for {count} lanes")
    found = find(algorithm)
    make_learner(algorithm, n_features=1, dtype=dtype, grow=grow, **parameters[0])  # which says what cannot be a lane
    kind, different = dtype_of(dtype, found.name), {id(given): given for given in parameters}  # folds share theirs
    rules = rules_of(found, list(different.values()), kind, grow)
    described = {
        key: (described_by(found, dict(given)), rule.for_width(n_features))
        for (key, given), rule in zip(different.items(), rules, strict=True)
    }
    return [
        Lane(*described[id(given)], cost, int(one))
        for given, one, cost in zip(parameters, intercepts, paid, strict=True)
    ]


def require_alike(models: Sequence[Learner]) -> None:
    """Raises unless the models can be lanes of one pass."""
    if not models:
        raise InvalidParameterError("Lanes need one model at least, got none")

    def traits(model: Learner) -> dict[str, Any]:
        return {
            "algorithm": model.algorithm.name,
            "n_features": model.n_features,
            "dtype": model.memory.state.dtype.name,
            "grow": model.grow,
        }

    first = traits(models[0])
    for place, model in enumerate(models):
        if isinstance(model, Frozen):
            raise InvalidParameterError(f"model {place} has its weights only, and cannot go on learning as a lane")
        for name, value in traits(model).items():
            if value != first[name]:
                raise InvalidParameterError(
                    f"lanes must agree in {name}: model {place} has {value!r}, model 0 has {first[name]!r}"
                )
