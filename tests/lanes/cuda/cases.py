"""What lanes on a device are tried with; every test of this folder runs in numba's simulator or on a GPU."""

import numpy as np
import pytest

from thinstream.algorithms.registry import algorithms, rule_of
from thinstream.engine.loop import Costs
from thinstream.engine.parameters import OneOf
from thinstream.lanes.devices import CPU_ONLY
from thinstream.lanes.learner import Learner


def require_device():
    """Skips where there is neither a GPU nor the simulator."""
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install -e '.[cuda]'")
    from thinstream.lanes.cuda.package import cuda

    if not cuda.is_available():
        pytest.skip("needs a GPU, or numba's simulator: NUMBA_ENABLE_CUDASIM=1 NUMBA_DISABLE_JIT=1")


def variants():
    """Each algorithm with its defaults, with each of its choices, and forgetting, where it can."""
    for algorithm in algorithms("online"):
        if algorithm.name in CPU_ONLY:
            continue
        yield algorithm.name, {}
        for parameter in algorithm.parameters:
            if isinstance(parameter.constraint, OneOf):
                for choice in parameter.constraint.choices:
                    if choice not in (parameter.default, "full"):
                        yield algorithm.name, {parameter.name: choice}
        if algorithm.forgetting:
            exact = {"diagonal": "exact"} if algorithm.name == "SSOL" else {}
            yield algorithm.name, {"half_life": 6.0, **exact}


def uses_mathematics(name, parameters):
    """Whether exp and log come in, whose last bit is that of the library at hand."""
    algorithm = next(a for a in algorithms("online") if a.name == name)
    rule = rule_of(algorithm, parameters)
    return getattr(rule, "loss", 0) == 1


def spread(name, parameters, lanes):
    """Parameters of so many lanes: the same choices, other numbers."""
    algorithm = next(a for a in algorithms("online") if a.name == name)
    found = []
    for k in range(lanes):
        own = dict(parameters)
        for parameter in algorithm.parameters:
            if isinstance(parameter.constraint, OneOf) or parameter.name in ("half_life", "max_density"):
                continue
            low, high = max(0.05, parameter.constraint.low), min(parameter.constraint.high, 2.0)
            share = (k + 1) / (lanes + 1)
            own[parameter.name] = 1 + k % 4 if parameter.constraint.whole else low + share * (high - low)
        found.append(own)
    return found


def costs_of(lanes):
    return [(Costs(), Costs(0.5, 3.0), Costs(balanced=True))[k % 3] for k in range(lanes)]


def alone(name, parameters, costs, **options):
    return [Learner(name, costs=c, **options, **own) for own, c in zip(parameters, costs, strict=True)]


def same_bits(a, b):
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in zip(a, b, strict=True))
