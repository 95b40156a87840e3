"""How the coordinates of several models become one, for each algorithm.

What is a sum over examples adds up; what is a Gaussian belief is multiplied (precisions add, means are weighted by
them); what is only a weight is averaged. `MERGES` says what each algorithm does, and what can be said of the result:

    exact       the model of one run over all parts
    formal      the model that holds the updates of all parts, each decided on the history of its own part
    heuristic   a sensible model, no more
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.engine.diagonal import Exact
from thinstream.errors import MergeError
from thinstream.learners.full_merging import HOW
from thinstream.learners.learner import Learner
from thinstream.learners.memory import capacity, columns
from thinstream.learners.registry import algorithms

Kind = Literal["exact", "formal", "heuristic"]


class Shard(NamedTuple):
    """A block of one model's coordinates, in 64 bits; features it has never seen are fresh."""

    f: Any  # the coordinates, a record of arrays
    w: Callable[[], NDArray[np.float64]]  # their weights, all thresholds taken
    share: float  # of the model in averages; shares add up to 1


class Merge(NamedTuple):
    """How the coordinates of several shards become one."""

    kind: Kind
    function: Callable[[Sequence[Shard], Learner], Any]  # of the shards and the new model, counters already added
    how: str  # for docs and messages
    averages: bool = False  # whether shares play a part
    finish: Callable[[Learner], None] = lambda model: None


# What becomes of the coordinates -------------------------------------------------------------------------------------


def fresh(model: Learner) -> Any:
    """A feature never seen, as it is stored: unseen features come out of a merge bit for bit as they were."""
    record = model.rule.fresh()
    return type(record)(*np.array(record, dtype=model.memory.state.dtype).tolist())


def _sum(terms: Sequence[NDArray[np.float64]], fresh: float = 0.0) -> NDArray[np.float64]:
    """What all shards have added to a fresh coordinate."""
    return np.asarray(sum(terms[1:], start=terms[0]) - (len(terms) - 1) * fresh)


def _mean(shards: Sequence[Shard], terms: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return _sum([shard.share * term for shard, term in zip(shards, terms, strict=True)])


def _adds(shards: Sequence[Shard], model: Learner) -> Any:
    """Every field is a sum over examples."""
    new = fresh(model)
    return type(new)(*(_sum(terms, start) for start, *terms in zip(new, *(s.f for s in shards), strict=True)))


def _averages_fields(shards: Sequence[Shard], model: Learner) -> Any:
    record = type(shards[0].f)
    return record(*(_mean(shards, terms) for terms in zip(*(s.f for s in shards), strict=True)))


def _averages(shards: Sequence[Shard], model: Learner) -> Any:
    """A weight and nothing else."""
    return shards[0].f._replace(w=_mean(shards, [s.w() for s in shards]))


def _averages_truncated(shards: Sequence[Shard], model: Learner) -> Any:
    """The weights are up to date, so each has taken all of the new model's P."""
    P = model.memory.totals[1]
    return _averages(shards, model)._replace(P=P)


def _averages_adaptive(shards: Sequence[Shard], model: Learner) -> Any:
    """The weights are up to date, so each has taken the thresholds of all rounds."""
    return _averages(shards, model)._replace(S=_sum([s.f.S for s in shards]), n=model.t)


def _averages_dual(shards: Sequence[Shard], model: Learner) -> Any:
    """θ alone; weights and the list of features follow from it."""
    theta = _mean(shards, [s.f.theta for s in shards])
    return shards[0].f._replace(theta=theta, w=np.zeros_like(theta), link=np.zeros_like(theta))


def _relink(model: Learner) -> None:
    model.rule.relink(model.memory)


def _multiplied(means: Any, precisions: Any, prior: float, model: Learner) -> tuple[Any, Any]:
    """Mean and precision of the product of Gaussian beliefs, the prior counted once."""
    # a variance may have collapsed to 0: no precision so large that the sum would be infinite
    most = np.finfo(model.memory.state.dtype).max / (2 * len(precisions))
    precisions = [np.minimum(P, most) for P in precisions]
    total = _sum(precisions, prior)
    return _sum([mu * (P / total) for mu, P in zip(means, precisions, strict=True)]), total


def _multiplies(shards: Sequence[Shard], model: Learner) -> Any:
    """Mean and variance, or precision, of the Gaussian learners."""
    smallest = np.finfo(model.memory.state.dtype).tiny

    def flip(s: Any) -> Any:  # between what is stored and the precision, either way
        return s if isinstance(model.rule.diagonal, Exact) else np.reciprocal(np.maximum(s, smallest))

    mu, P = _multiplied([s.f.mu for s in shards], [flip(s.f.s) for s in shards], flip(fresh(model).s), model)
    return shards[0].f._replace(mu=mu, s=flip(P))


def _multiplies_ranked(shards: Sequence[Shard], model: Learner) -> Any:
    mu, A = _multiplied([s.f.mu for s in shards], [s.f.A for s in shards], fresh(model).A, model)
    return shards[0].f._replace(mu=mu, A=A)


def _rank(model: Learner) -> None:
    """SOFS: the B features of largest precision (ties: lower j) stay, in a heap laid out anew (see `engine.heap`)."""
    f = columns(model.algorithm, model.memory, 0, capacity(model.algorithm, model.memory))
    B = len(model.memory.extra) // 2
    order = np.argsort(-f.A, kind="stable")
    leaving = order[:B][::-1]  # the next to leave comes first: a sorted array is a heap
    model.memory.extra[:] = np.concatenate([leaving, f.A[leaving]])
    f.place[:] = -1
    f.place[leaving] = np.arange(B) + 1
    f.mu[order[B:]] = 0


# What each algorithm does ---------------------------------------------------------------------------------------------

_PLAIN = Merge("heuristic", _averages, "weights are averaged by t", averages=True)
_TRUNCATED = Merge("heuristic", _averages_truncated, "weights are brought up to date and averaged by t", averages=True)
_GAUSSIAN = Merge("heuristic", _multiplies, "precisions add (the prior counted once), means are weighted by precision")

MERGES: dict[str, Merge] = {
    "FSOL": Merge("formal", _adds, "θ adds; exact if every example updates and costs are fixed"),
    "SSOL": Merge("formal", _adds, "θ adds; A = A₁ + A₂ − I, which is exact if every example enters it"),
    "RDA": Merge("formal", _adds, "G adds"),
    "AdaRDA": Merge("formal", _adds, "G and S add"),
    "SOP": Merge("formal", _adds, "v and S add"),
    "Perceptron": Merge("formal", _adds, "the updates add"),
    "AdaFOBOS": Merge(
        "heuristic", _averages_adaptive, "S adds, weights are brought up to date and averaged by t", averages=True
    ),
    "STG": _TRUNCATED,
    "FOBOS": _TRUNCATED,
    "SMIDAS": Merge(
        "heuristic", _averages_dual, "θ is averaged by t, weights follow from it", averages=True, finish=_relink
    ),
    "CPA": _PLAIN,
    "CSOGD": _PLAIN,
    "PA": _PLAIN,
    "PAUM": _PLAIN,
    "ARCSOGD": _GAUSSIAN,
    "AROW": _GAUSSIAN,
    "CW": _GAUSSIAN,
    "NAROW": _GAUSSIAN,
    "SCW": _GAUSSIAN,
    "SOFS": Merge(
        "heuristic",
        _multiplies_ranked,
        "precisions add and means are weighted by precision, then the B most certain features are kept",
        finish=_rank,
    ),
}

#: SSOL as printed: σ is no sum over examples. On request θ and σ are both averaged, which keeps the scale of σ·θ.
_DROP = Merge("heuristic", _averages_fields, "θ and σ are averaged by t", averages=True)

REFUSALS = {
    "SSOL": (
        "σ under diagonal='drop' depends on the order of the examples and is no sum; learn with diagonal='exact', "
        "or let average=True average θ and σ"
    ),
    "StableSparsePerceptron": (
        "it thresholds only what an example touches and stops by density, so neither sums nor averages of shards mean "
        "anything; split the features instead of the examples: partial scores add exactly"
    ),
}
_UNDECLARED = "no rule is declared for it"


def rule_for(model: Learner, average: bool = False) -> Merge:
    """How models like this one are merged; MergeError says why where they are not, and what can be done."""
    name = model.algorithm.name
    dropping = name == "SSOL" and model.parameters["diagonal"] == "drop"
    if dropping and average:
        return _DROP
    if dropping or name not in MERGES:
        raise MergeError(f"{name} cannot be merged: {REFUSALS.get(name, _UNDECLARED)}")
    return MERGES[name]


def merge_table() -> str:
    """Every algorithm with its rule and the kind of it, as a table in Markdown.

    >>> print(merge_table().splitlines()[2])
    | `AdaFOBOS` | S adds, weights are brought up to date and averaged by t | heuristic |
    """
    lines = ["| algorithm | rule | kind |", "|---|---|---|"]
    for name in (a.name for a in algorithms("online")):
        if name == "SSOL":
            lines.append(f'| `SSOL(diagonal="exact")` | {MERGES[name].how} | {MERGES[name].kind} |')
            lines.append(f'| `SSOL(diagonal="drop")` | refused; with `average=True` {_DROP.how} | {_DROP.kind} |')
        elif name in MERGES:
            lines.append(f"| `{name}` | {MERGES[name].how} | {MERGES[name].kind} |")
        else:
            lines.append(f"| `{name}` | refused: {REFUSALS.get(name, _UNDECLARED)} | – |")
    lines.append(f'| any with `covariance="full"` | {HOW} | formal for SSOL, SOP and AROW, else heuristic |')
    return "\n".join(lines)
