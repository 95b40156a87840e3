"""The models a blend is made of, unless a user names others: learner, parameters, preparation of rows.

Nothing here is tuned for a stream. Rates a factor of four to five apart stand in for tuning; the head finds out which
of them the stream likes.
"""

from collections.abc import Iterable
from typing import Any

from thinstream.blend.member import Member


def _members(algorithm: str, *parameters: dict[str, Any]) -> Iterable[Member]:
    return (Member(algorithm, each) for each in parameters)


_ADAPTIVE = {"delta": 0.001, "loss": "logistic"}

PORTFOLIO = (
    *_members("arow", {"r": 0.1}, {"r": 1.0}),
    *_members("narow", {"b": 20.0}),
    *_members("scw", {"C": 1.0}),
    *_members("arcsogd", {"eta": 3.0, "gamma": 1.0}),
    *_members("adarda", {"eta": 0.5, **_ADAPTIVE}, {"eta": 2.0, **_ADAPTIVE}),
    *_members("ftrlproximal", {"alpha": 0.1}, {"alpha": 1.0}),
)
