"""What is tried: the points of a grid, or a random sample of them, checked before anything is read."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thinstream.errors import InvalidParameterError, listed
from thinstream.learners import Classes, class_costs, find, make_learner
from thinstream.tune.study import Lane

#: What can be searched besides the algorithm's own parameters.
COMMON = ("fit_intercept", "class_weight")

#: Names and values of what one candidate has of its own.
Setting = dict[str, Any]
Spaces = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class LogUniform(NamedTuple):
    """Numbers whose logarithm is uniform; like a distribution of ``scipy.stats``, without it. Six digits are enough.

    >>> LogUniform(1e-3, 1.0).rvs(random_state=np.random.default_rng(1))
    0.0343135
    """

    low: float
    high: float

    def rvs(self, random_state: np.random.Generator) -> float:
        """One of them."""
        drawn = math.exp(random_state.uniform(math.log(self.low), math.log(self.high)))
        return float(f"{drawn:.6g}")


def grid(spaces: Spaces) -> list[Setting]:
    """Every combination of the values of each name; of several such spaces, one after the other.

    >>> grid({"r": [1, 2], "eta": [0.5]})
    [{'eta': 0.5, 'r': 1}, {'eta': 0.5, 'r': 2}]
    """
    found: list[Setting] = []
    for space in _spaces(spaces):
        names = sorted(space)
        values = [_listed(name, space[name]) for name in names]
        found += [dict(zip(names, point, strict=True)) for point in itertools.product(*values)]
    return found


def sample(spaces: Spaces, n: int, generator: np.random.Generator) -> list[Setting]:
    """``n`` candidates at random. Values are lists, or distributions: whatever has ``rvs``, as those of scipy.stats.

    Where all are lists no point is drawn twice, and no more are drawn than there are.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidParameterError(f"the number of random candidates must be a whole number ≥ 1, got {n!r}")
    every = _spaces(spaces)
    if not any(_is_distribution(values) for space in every for values in space.values()):
        points = grid(every)
        return [points[i] for i in generator.permutation(len(points))[:n]]
    found = []
    for _ in range(n):
        space = every[int(generator.integers(len(every)))]
        found.append({name: _drawn(name, space[name], generator) for name in sorted(space)})
    return found


def lanes_of(algorithm: str, settings: Sequence[Setting], base: Mapping[str, Any], classes: Classes) -> list[Lane]:
    """A lane per candidate: its own values upon those of ``base``. What is not allowed raises."""
    name = find(algorithm).name
    own = [parameter.name for parameter in find(algorithm).parameters]
    lanes = []
    for number, setting in enumerate(settings):
        for unknown in setting:
            if unknown not in own and unknown not in COMMON:
                raise InvalidParameterError(f"{name}: {listed([*own, *COMMON])} can be searched, got {unknown!r}")
        every = {**base, **setting}
        intercept = every.get("fit_intercept", False)
        if not isinstance(intercept, bool | np.bool_):
            raise InvalidParameterError(f"{name}: fit_intercept must be True or False, got {intercept!r}")
        costs = class_costs(every.get("class_weight"), classes, name)[0]
        parameters = {key: value for key, value in every.items() if key in own}
        make_learner(name, n_features=0, grow=True, **parameters)  # raises if it could not be made
        lanes.append(Lane(parameters, costs, bool(intercept), candidate=number))
    return lanes


def _spaces(spaces: Any) -> list[Mapping[str, Any]]:
    every = [spaces] if isinstance(spaces, Mapping) else list(spaces) if isinstance(spaces, Iterable) else []
    if not every or isinstance(spaces, str) or not all(isinstance(space, Mapping) for space in every):
        raise InvalidParameterError(f"a grid must be a dict {{name: values}} or a list of such, got {spaces!r}")
    return every


def _listed(name: str, values: Any) -> list[Any]:
    """The values, numpy's as Python's."""
    if _is_distribution(values):
        raise InvalidParameterError(
            f"grid: {name} is a distribution, which has no list of values: say how many random candidates to try "
            f"(n_iter, --random), got {values!r}"
        )
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidParameterError(f"grid: {name} must have a list of values, got {values!r}")
    found = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not found:
        raise InvalidParameterError(f"grid: {name} must have one value at least, got none")
    return found


def _is_distribution(values: Any) -> bool:
    return hasattr(values, "rvs")


def _drawn(name: str, values: Any, generator: np.random.Generator) -> Any:
    if _is_distribution(values):
        value = values.rvs(random_state=generator)
        return value.item() if isinstance(value, np.generic) else value
    choices = _listed(name, values)
    return choices[int(generator.integers(len(choices)))]
