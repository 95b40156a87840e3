"""thinstream: its candidates. What runs them is imported when it is needed, as every tool's package is."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores

if TYPE_CHECKING:
    from thinstream.lanes.learner import Learner

ADAPTIVE = {"delta": 0.001, "loss": "logistic", "intercept": True}
SHORT = {"delta": 0.1, "loss": "logistic", "intercept": True}
WIDE = [
    Candidate("arow", {"r": 1.0}),
    Candidate("arow", {"r": 10.0, "intercept": True}),
    Candidate("arow", {"r": 1.0, "intercept": True}, unit=True),
    Candidate("narow", {"b": 20.0, "intercept": True}, unit=True),
    Candidate("scw", {"C": 1.0, "intercept": True}),
    Candidate("scw", {"C": 1.0}, unit=True),
    Candidate("pa", {"C": 1.0}, unit=True),
    Candidate("arcsogd", {"eta": 0.3, "gamma": 10.0, "intercept": True}),
    Candidate("arcsogd", {"eta": 3.0, "gamma": 1.0}, unit=True),
    Candidate("ssol", {"eta": 1.0, "r": 0.1, "update_on": "loss"}, unit=True),
    Candidate("adarda", {"eta": 0.02, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.1, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.5, **ADAPTIVE}),
    Candidate("adarda", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("adarda", {"eta": 2.0, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 2.0, **ADAPTIVE}, unit=True),
    Candidate("adafobos", {"eta": 2.0, **SHORT}, unit=True),
    Candidate("ftrlproximal", {"alpha": 0.1, "intercept": True}),
    Candidate("ftrlproximal", {"alpha": 1.0, "intercept": True}, unit=True),
    Candidate("nag", {"eta": 0.5, "intercept": True}),
    Candidate("nag", {"eta": 0.1, "intercept": True}),
    Candidate("coin", {"intercept": True}),
    Candidate("coin", {"intercept": True}, unit=True),
]
FULL = {"covariance": "full", "intercept": True}
NARROW = [
    *(Candidate("arow", {"r": r, "intercept": True}) for r in (0.1, 1.0, 10.0)),
    Candidate("arow", {"r": 0.1, "intercept": True}, unit=True),
    Candidate("arow", {"r": 1.0, **FULL}),
    Candidate("arow", {"r": 0.1, **FULL}, unit=True),
    *(Candidate("scw", {"C": C, "intercept": True}, unit) for C in (0.1, 1.0, 10.0) for unit in (False, True)),
    *(Candidate("scw", {"C": 1.0, **FULL}, unit) for unit in (False, True)),
    Candidate("arcsogd", {"eta": 1.0, "gamma": 10.0, "intercept": True}),
    *(Candidate("arcsogd", {"eta": e, "gamma": 10.0, "intercept": True}, unit=True) for e in (1.0, 3.0)),
    *(Candidate("adafobos", {"eta": e, **ADAPTIVE}) for e in (0.02, 0.1)),
    Candidate("adafobos", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("ftrlproximal", {"alpha": 0.1, "intercept": True}),
    *(Candidate("nag", {"eta": e, "intercept": True}) for e in (0.1, 0.5)),
    Candidate("coin", {"intercept": True}),
]
NARROW_WIDTH = 1000  # a full covariance matrix costs the square of it
L1 = {"adarda": (1e-6, 1e-2, 12), "ssol": (1.0, 3e4, 12)}  # from, to, how many


class Thinstream:
    """Ours."""

    name, package, one_pass = "thinstream", "thinstream", True
    default = Candidate("arow", {"intercept": True})
    settings = (WIDE, NARROW, NARROW_WIDTH, L1)

    def missing(self) -> str:
        """Never."""
        return ""

    def takes(self, contest: Contest) -> bool:
        """All."""
        return True

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """24; full covariance matrices only where there are few features."""
        return NARROW if is_narrow(contest) else WIDE

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """l1 for the best AdaRDA and for SSOL."""
        best = [next(one for one in ranking if one.learner == name) for name in L1]
        return [sparse for one in best for sparse in swept(one, L1[one.learner])]

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """All in one pass: candidates of an algorithm are lanes, and the algorithms take turns with each batch."""
        from benchmarks.versus.tools import ours_running

        return ours_running.trials(contest, candidates)

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> "Learner":
        """One pass."""
        from benchmarks.versus.tools import ours_running

        return ours_running.saved(ours_running.learned(contest, candidate), candidate, out)

    def model(self, contest: Contest, candidate: Candidate, learned: "Learner") -> Model:
        """Test scores and size."""
        from benchmarks.versus.tools import ours_running

        return Model(ours_running.scores_of_test(contest, candidate, learned), learned.nnz)


def is_narrow(contest: Contest) -> bool:
    """Whether the set has so few features that full covariance matrices are among the candidates."""
    if contest.set.text:
        return False
    from benchmarks.versus.tools import ours_running

    return ours_running.width(contest) <= NARROW_WIDTH


def swept(one: Candidate, values: tuple[float, float, int]) -> list[Candidate]:
    """A candidate with each l1 of a range.

    >>> [str(sparse) for sparse in swept(Candidate("fsol", {"eta": 1.0}), (1.0, 100.0, 3))]
    ['fsol eta=1 l1=1', 'fsol eta=1 l1=10', 'fsol eta=1 l1=100']
    """
    return [one._replace(options={**one.options, "l1": float(f"{l1:.3g}")}) for l1 in np.geomspace(*values)]
