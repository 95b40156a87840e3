"""One model of a portfolio: learner, parameters, how its rows are prepared."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from thinstream.errors import InvalidParameterError
from thinstream.learners import find
from thinstream.learners.registry import described_by, rule_of
from thinstream.preparing import Preparation


class Member(NamedTuple):
    """One model of a portfolio; with ``max_features`` it is left out once a row has a feature beyond them.

    >>> print(Member("adarda", {"eta": 0.5, "l1": 0.0}, normalize="l2"))
    AdaRDA eta=0.5 normalize=l2
    """

    algorithm: str
    parameters: dict[str, Any]
    scale: str | None = None
    normalize: str | None = None
    max_features: int | None = None

    def __str__(self) -> str:
        declared = find(self.algorithm)
        usual = {parameter.name: parameter.default for parameter in declared.parameters}
        own = {name: value for name, value in self.parameters.items() if value != usual[name]}
        shown = {**own, **{name: kind for name, kind in self.preparation.items() if kind is not None}}
        return " ".join([declared.name, *(f"{name}={value}" for name, value in shown.items())])

    @property
    def preparation(self) -> dict[str, str | None]:
        """What is done to its rows, as `Preparation` takes it."""
        return {"scale": self.scale, "normalize": self.normalize}

    @property
    def described(self) -> dict[str, Any]:
        """As JSON has it, with all parameters."""
        name, parameters = find(self.algorithm).name, described_by(find(self.algorithm), self.parameters)
        limit = {} if self.max_features is None else {"max_features": self.max_features}
        return {"learner": name, "parameters": parameters, **self.preparation, **limit}

    @classmethod
    def from_description(cls, given: Mapping[str, Any]) -> "Member":
        """The member of a file."""
        kinds = given["scale"], given["normalize"], given.get("max_features")
        return cls(given["learner"], dict(given["parameters"]), *kinds)


class Portfolio:
    """What the parameter ``portfolio`` may be: a list of estimators, of names, or of members; None: ours.

    In a file it is a list of their descriptions.
    """

    def encode(self, value: Any) -> tuple[Any, ...] | None:
        """Itself, if it is such a list; `members_of` looks at what is in it."""
        if value is None:
            return None
        if isinstance(value, str | Mapping | Member) or not isinstance(value, Sequence) or not len(value):
            raise TypeError
        if not all(isinstance(each, str | Member | Mapping) or _is_estimator(each) for each in value):
            raise TypeError
        return tuple(value)

    def decode(self, value: Any) -> Any:
        """The same."""
        return value

    def allowed(self) -> str:
        """In words."""
        return "a list of estimators that learn online (or of their names), one at least, or None"


def members_of(portfolio: Sequence[Any]) -> list[Member]:
    """The members that estimators, members or their descriptions are, each checked."""
    return [_member(each) for each in portfolio]


def same_portfolio(one: Any, two: Any) -> bool:
    """Whether two values of the parameter are of the same members in the same order."""
    if one is None or two is None:
        return one is two
    first, second = ([each.described for each in members_of(given)] for given in (one, two))
    return first == second


def _is_estimator(given: Any) -> bool:
    return hasattr(given, "_own_parameters") and hasattr(given, "get_params") and not isinstance(given, type)


def _member(given: Any) -> Member:
    """An estimator, which has the parameters of its algorithm and the common ones, or a member."""
    if isinstance(given, Member):
        found = given
    elif isinstance(given, str):
        found = Member(given.lower(), {})
    elif isinstance(given, Mapping):
        found = Member.from_description(given)
    else:
        parameters = given.get_params(deep=False)
        own = {name: parameters.pop(name) for name in given._own_parameters}
        found = Member(
            given._algorithm.lower(),
            own,
            parameters.pop("scale", None),
            parameters.pop("normalize", None),
        )
        _require_defaults(given, parameters)
    declared = find(found.algorithm)
    if declared.kind != "online":
        raise InvalidParameterError(f"portfolio: its models learn online, {declared.name} does not")
    rule_of(declared, found.parameters)
    Preparation(**found.preparation)
    return found


def _require_defaults(estimator: Any, common: Mapping[str, Any]) -> None:
    """What all models of a blend share is said to the blend."""
    usual = type(estimator).__init__.__kwdefaults__
    for name, value in common.items():
        if value != usual[name]:
            raise InvalidParameterError(
                f"portfolio: {estimator!r} has {name}={value!r}; {name} is said to Auto, for all of its models"
            )
