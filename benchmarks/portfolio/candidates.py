"""What may be in the portfolio: learners with their rates, each on rows of every preparation."""

from typing import Any, NamedTuple

from thinstream.algorithms.auto import Member

PREPARATIONS = {
    "plain": (None, None),
    "l2": (None, "l2"),
    "max": ("max", None),
    "max l2": ("max", "l2"),
    "rms": ("rms", None),
    "rms l2": ("rms", "l2"),
}
RATES = (0.02, 0.1, 0.5, 2.0)
ADAPTIVE = {"delta": 0.001, "loss": "logistic"}
LEARNERS: dict[str, list[dict[str, Any]]] = {
    "arow": [{"r": r} for r in (0.01, 0.1, 1.0, 10.0)],
    "narow": [{"b": b} for b in (2.0, 20.0, 100.0)],
    "scw": [{"C": C} for C in (0.1, 1.0, 10.0)] + [{"C": 1.0, "variant": "II"}],
    "cw": [{}],
    "sop": [{}],
    "arcsogd": [{"eta": eta, "gamma": gamma} for gamma in (1.0, 10.0) for eta in (0.3, 1.0, 3.0)],
    "adarda": [{"eta": eta, **ADAPTIVE} for eta in RATES],
    "adafobos": [{"eta": eta, **ADAPTIVE} for eta in RATES],
    "ftrlproximal": [{"alpha": alpha} for alpha in RATES],
    "nag": [{"eta": eta} for eta in RATES],
    "coin": [{}],
    "ssol": [{"r": 0.1, "update_on": "loss"}, {"r": 1.0, "update_on": "loss"}],
    "pa": [{"C": C} for C in (0.1, 1.0)],
    "csogd": [{"eta": 0.1}, {"eta": 1.0}, {"eta": 1.0, "rate": "inv_sqrt"}],
    "fobos": [{"eta": eta, "loss": "logistic"} for eta in (0.3, 3.0)],
}
FULL: dict[str, list[dict[str, Any]]] = {"arow": [{"r": 0.1}, {"r": 1.0}]}
#: Features up to which full covariance matrices are tried, and on which rows.
NARROW, OF_FULL = 300, ("plain", "rms", "rms l2")
#: Preparations whose models add up to one vector of weights, to two, or to as many as it takes.
FAMILIES = {
    "as they are or scaled": ("plain", "max", "rms"),
    "scaled by rms and of unit length": ("rms l2",),
    "both: two vectors": ("plain", "rms", "rms l2"),
    "any": tuple(PREPARATIONS),
}


class Candidate(NamedTuple):
    """A member of a portfolio on rows of a preparation."""

    preparation: str
    member: Member

    def __str__(self) -> str:
        parameters = (f"{name}={value}" for name, value in self.member.parameters.items())
        return f"{' '.join([self.member.algorithm, *parameters])}, {self.preparation}"


DIAGONAL = [
    Candidate(preparation, Member(algorithm, each))
    for preparation in PREPARATIONS
    for algorithm, parameters in LEARNERS.items()
    for each in parameters
]
WITH_FULL = [
    Candidate(preparation, Member(algorithm, {**each, "covariance": "full"}))
    for preparation in OF_FULL
    for algorithm, parameters in FULL.items()
    for each in parameters
]
CANDIDATES = [*DIAGONAL, *WITH_FULL]


def candidate_of(member: Member) -> Candidate:
    """The candidate that a member of a portfolio was."""
    kinds = {kinds: name for name, kinds in PREPARATIONS.items()}
    return Candidate(kinds[member.scale, member.normalize], Member(member.algorithm, member.parameters))
