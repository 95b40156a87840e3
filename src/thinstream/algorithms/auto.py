"""The declaration of Auto, an online blend of several models, and of the members of its portfolio.

Auto does not come from a paper (see specification §15). The learner that runs it is `Blend`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol

from thinstream.algorithms.registry import described_by, find
from thinstream.engine.parameters import CountOrNone, Interval
from thinstream.engine.rule import register


class Member(NamedTuple):
    """One model of a portfolio. It is dropped when more than ``max_features`` features have occurred.

    >>> print(Member("adarda", {"eta": 0.5, "l1": 0.0}, normalize="l2"))
    AdaRDA eta=0.5 normalize=l2
    """

    algorithm: str
    parameters: dict[str, Any]
    scale: str | None = None
    normalize: str | None = None
    max_features: int | None = None
    products: bool = False  # whether it also learns products of features; needs ``max_features``

    def __str__(self) -> str:
        declared = find(self.algorithm)
        usual = {parameter.name: parameter.default for parameter in declared.parameters}
        own = {name: value for name, value in self.parameters.items() if value != usual[name]}
        shown = {**own, **{name: value for name, value in self.preparation.items() if value is not None}}
        shown |= {"products": True} if self.products else {}
        return " ".join([declared.name, *(f"{name}={value}" for name, value in shown.items())])

    @property
    def preparation(self) -> dict[str, str | None]:
        """The preparation of its rows, as arguments of `Preparation`."""
        return {"scale": self.scale, "normalize": self.normalize}

    @property
    def described(self) -> dict[str, Any]:
        """The description as JSON values, with all parameters."""
        name, parameters = find(self.algorithm).name, described_by(find(self.algorithm), self.parameters)
        limit = {} if self.max_features is None else {"max_features": self.max_features}
        products = {"products": True} if self.products else {}
        return {"learner": name, "parameters": parameters, **self.preparation, **limit, **products}

    @classmethod
    def from_description(cls, values: Mapping[str, Any]) -> "Member":
        """Create a member from its description."""
        options = values["scale"], values["normalize"], values.get("max_features"), values.get("products", False)
        return cls(values["learner"], dict(values["parameters"]), *options)


class SupportsMember(Protocol):
    """An object that describes itself as a member of a portfolio, such as an estimator."""

    def __thinstream_member__(self) -> Member:
        """Return the member, or raise if a parameter differs from its default that the blend sets for all members."""


MemberLike = Member | str | Mapping[str, Any] | SupportsMember


class Portfolio:
    """The parameter ``portfolio``: a list of estimators, names or members. None: the default portfolio.

    In a file it is a list of their descriptions.
    """

    def encode(self, value: Any) -> tuple[Any, ...] | None:
        """Return the list as a tuple; a blend checks its items when it makes the members."""
        if value is None:
            return None
        if isinstance(value, str | Mapping | Member) or not isinstance(value, Sequence) or not len(value):
            raise TypeError
        if not all(isinstance(item, str | Member | Mapping) or _supports_member(item) for item in value):
            raise TypeError
        return tuple(value)

    def decode(self, value: Any) -> Any:
        return value

    def allowed(self) -> str:
        return "a list of at least one estimator that learns online (or of their names), or None"


def _supports_member(item: object) -> bool:
    return hasattr(item, "__thinstream_member__") and not isinstance(item, type)


class TrueOrFalse:
    def encode(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise TypeError
        return value

    def decode(self, value: Any) -> bool:
        return bool(value)

    def allowed(self) -> str:
        return "True or False"


class Auto(NamedTuple):
    """Train many untuned models side by side in one pass, and learn how to blend their scores.

    ::

        s₁ … s_K: the models' progressive scores of a row;   x_k = s_k over the mean of |s_k| so far
        z = w·x,  p = 1/(1 + e^−z);  w by an online Newton step on the logistic loss
        at any time one linear model:  v = Σ (w_k/m_k)·v_k

    It needs no tuning: the portfolio has several algorithms with several rates, and models without a share are dropped
    during the stream. Probabilities are calibrated.

    Parameters
    ----------
    portfolio : list of estimators or None, default=None
        The models: estimators that learn online, or their names. None: the default portfolio.
    max_nnz : int or None, default=None
        The largest number of weights in ``raw_coef_``. The most important ones are kept. Learning uses all weights.
    max_density : float or None, default=None
        The largest share of all weights, as an alternative to ``max_nnz``.
    drop : bool, default=True
        Whether models without a share are dropped, which frees their memory.
    interactions : bool, default=True
        Whether members of the default portfolio learn products of features, if at most 300 features occur and rows
        have at most 40 values on average.

    Attributes
    ----------
    lanes_ : list of dict
        A dict for each model: algorithm, parameters, progressive error, share in the blend, and why it was dropped.

    Examples
    --------
    >>> import numpy as np, thinstream as ts
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> model = ts.Auto().fit(X, X @ [1.0, -1.0, 0.0, 2.0] > 0)
    >>> model.predict([[1.0, 0.0, 0.0, 1.0]])
    array([ True])

    """

    portfolio: Annotated[Any, Portfolio()] = None
    max_nnz: CountOrNone = 0
    max_density: Annotated[float, Interval(high=1.0, none=0.0)] = 0.0
    drop: Annotated[bool, TrueOrFalse()] = True
    interactions: Annotated[bool, TrueOrFalse()] = True


register(Auto, paper="ours", order="second", kind="blend")
