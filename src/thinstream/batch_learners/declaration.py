"""Declaring a batch algorithm: a NamedTuple of its parameters, and the learner that runs it."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.parameters import Parameter, parameters_of
from thinstream.errors import InvalidParameterError, UnknownNameError

Learner = TypeVar("Learner", bound=type)


class BatchAlgorithm(NamedTuple):
    """A batch algorithm and what was declared with it; the fields it shares with `Algorithm` mean the same."""

    rule: Any
    name: str
    paper: str
    order: str
    summary: str
    parameters: tuple[Parameter, ...]
    learner: Any

    def __repr__(self) -> str:
        return f"<{self.name}: {self.summary} {self.paper}>"

    def rule_of(self, given: dict[str, Any]) -> Any:
        """The rule with these public parameters, each checked; the others at their defaults."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise UnknownNameError(f"{self.name} has no parameter {name!r}; it has {', '.join(known)}")
        return self.rule(**{n: p.encode(given.get(n, p.default), self.name) for n, p in known.items()})


#: Every batch algorithm declared so far, by lower-case name.
REGISTRY: dict[str, BatchAlgorithm] = {}


def runs(rule: Any, *, paper: str, order: str) -> Callable[[Learner], Learner]:
    """Declares that the decorated learner runs the algorithm of these parameters; estimator and docs follow from it."""

    def declare(learner: Learner) -> Learner:
        summary = (rule.__doc__ or "").strip().split("\n")[0]
        name = rule.__name__
        algorithm = BatchAlgorithm(rule, name, paper, order, summary, parameters_of(rule), learner)
        REGISTRY[name.lower()] = algorithm
        learner.algorithm = algorithm  # type: ignore[attr-defined]
        return learner

    return declare


class WholeOrNone:
    """A whole number ≥ 1, or None, which the rule sees as 0."""

    def encode(self, value: Any) -> int:
        """The number, 0 for None."""
        if value is None:
            return 0
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise ValueError
        return int(value)

    def decode(self, value: Any) -> int | None:
        """None for 0."""
        return value or None

    def allowed(self) -> str:
        """What messages say."""
        return "a whole number ≥ 1, or None"


class WholeNumbersOrNone:
    """A sequence of whole numbers, or None."""

    def encode(self, value: Any) -> NDArray[np.int64] | None:
        """The numbers as an array."""
        if value is None:
            return None
        found = np.asarray(value)
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise ValueError
        return found.astype(np.int64)

    def decode(self, value: Any) -> Any:
        """The same."""
        return value

    def allowed(self) -> str:
        """What messages say."""
        return "a sequence of whole numbers, or None"


def require(condition: bool, owner: str, what: str, given: Any) -> None:
    """Raises InvalidParameterError unless the condition holds."""
    if not condition:
        raise InvalidParameterError(f"{owner}: {what}, got {given!r}")
