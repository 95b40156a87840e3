"""Candidates: all points of a grid, which may be the papers', or a random sample; checked before anything is read."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thinstream.engine.forgetting import HALF_LIFE
from thinstream.errors import InvalidParameterError, listed
from thinstream.learners import Classes, class_costs, find, make_learner
from thinstream.learners.registry import unknown_parameter
from thinstream.tune.trials import Trial

#: P0, section 5.1: folds of the cross-validation; learning rates from 2^-1 to 2^9, other parameters from 2^-5 to 2^5.
FOLDS = 5
RATES, OTHERS = ("eta",), ("r", "C", "gamma", "delta", "b")
#: Of algorithms that have none of these.
INSTEAD = ("phi", "a", "alpha")

#: What is tried where nobody names an algorithm, and of each what. In benchmarks/versus, validation picks one of these
#: on 18 of 22 sets (AdaFOBOS, AdaRDA's twin, counted with it): variances for rows that are dense or noisy (AROW), steps
#: that are bounded (SCW), and AdaGrad's rates with the logistic loss, whose weights l1 can make sparse.
USUAL: dict[str, dict[str, list[Any]]] = {
    "arow": {"r": [2.0**e for e in range(-5, 6)]},
    "scw": {"C": [2.0**e for e in range(-5, 6)]},
    "adarda": {"eta": [2.0**e for e in range(-6, 4)], "delta": [0.001], "loss": ["logistic"]},
}

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
        values = [_values(name, space[name]) for name in names]
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
        found.append({name: _draw(name, space[name], generator) for name in sorted(space)})
    return found


def paper_grid(algorithm: str) -> dict[str, list[float]]:
    """The grid of the papers: values of what an algorithm has to tune besides l1.

    >>> paper_grid("pa")
    {'C': [0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0]}
    """
    found = find(algorithm)
    names = [parameter.name for parameter in found.parameters]
    space = {name: _powers(-1, 9) if name in RATES else _powers(-5, 5) for name in names if name in RATES + OTHERS}
    if not space:
        space = {name: _powers(-5, 5) for name in INSTEAD if name in names}
    if not space:
        raise InvalidParameterError(f"{found.name} has nothing to tune; name a grid, of class_weight, say")
    return space


def make_trials(algorithm: str, settings: Sequence[Setting], base: Mapping[str, Any], classes: Classes) -> list[Trial]:
    """A trial per candidate: its own values upon those of ``base``. What is not allowed raises."""
    name = find(algorithm).name
    own = [parameter.name for parameter in find(algorithm).parameters]
    trials = []
    for number, setting in enumerate(settings):
        for unknown in setting:
            if unknown == HALF_LIFE and unknown not in own:
                raise InvalidParameterError(unknown_parameter(name, unknown, ""))
            if unknown not in own and unknown not in COMMON:
                raise InvalidParameterError(f"{name}: {listed([*own, *COMMON])} can be searched, got {unknown!r}")
        every = {**base, **setting}
        intercept = every.get("fit_intercept", False)
        if not isinstance(intercept, bool | np.bool_):
            raise InvalidParameterError(f"{name}: fit_intercept must be True or False, got {intercept!r}")
        costs = class_costs(every.get("class_weight"), classes, name)
        parameters = {key: value for key, value in every.items() if key in own}
        make_learner(name, n_features=0, grow=True, **parameters)  # raises if it could not be made
        trials.append(Trial(parameters, costs, bool(intercept), candidate=number, algorithm=name))
    return trials


def _spaces(spaces: Any) -> list[Mapping[str, Any]]:
    every = [spaces] if isinstance(spaces, Mapping) else list(spaces) if isinstance(spaces, Iterable) else []
    if not every or isinstance(spaces, str) or not all(isinstance(space, Mapping) for space in every):
        raise InvalidParameterError(f"a grid must be a dict {{name: values}} or a list of such, got {spaces!r}")
    return every


def _values(name: str, values: Any) -> list[Any]:
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


def _draw(name: str, values: Any, generator: np.random.Generator) -> Any:
    if _is_distribution(values):
        value = values.rvs(random_state=generator)
        return value.item() if isinstance(value, np.generic) else value
    choices = _values(name, values)
    return choices[int(generator.integers(len(choices)))]


def _powers(first: int, last: int) -> list[float]:
    return [2.0**e for e in range(first, last + 1)]
