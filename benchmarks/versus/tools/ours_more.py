"""What was added to thinstream's lists after the test errors were known; nothing in the first tables comes of it."""

from collections.abc import Sequence

from benchmarks.versus.contest import Candidate
from benchmarks.versus.tools.ours import ADAPTIVE, FULL, swept

LOGISTIC = {"loss": "logistic", "intercept": True}
MORE_WIDE = [
    *(Candidate("arow", {"r": r, "intercept": True}) for r in (0.1, 1.0)),
    *(Candidate("arow", {"r": r, "intercept": True}, unit=True) for r in (0.3, 3.0)),
    *(Candidate("narow", {"b": b, "intercept": True}, unit=True) for b in (5.0, 100.0)),
    Candidate("scw", {"C": 0.1, "intercept": True}),
    Candidate("scw", {"C": 1.0, "variant": "II", "intercept": True}),
    *(Candidate("scw", {"C": C, "intercept": True}, unit=True) for C in (0.1, 10.0)),
    *(Candidate("pa", {"C": C, "intercept": True}, unit=True) for C in (0.1, 1.0)),
    Candidate("csogd", {"eta": 0.1, "intercept": True}),
    *(Candidate("csogd", {"eta": eta, "intercept": True}, unit=True) for eta in (0.3, 1.0, 3.0)),
    Candidate("arcsogd", {"eta": 0.03, "gamma": 1.0, "intercept": True}),
    Candidate("arcsogd", {"eta": 1.0, "gamma": 10.0, "intercept": True}, unit=True),
    *(Candidate("rda", {"gamma": gamma, **LOGISTIC}, unit=True) for gamma in (0.03, 0.1)),
    Candidate("fobos", {"eta": 1.0, **LOGISTIC}),
    Candidate("fobos", {"eta": 10.0, **LOGISTIC}, unit=True),
    Candidate("adarda", {"eta": 0.2, **ADAPTIVE}),
    Candidate("adarda", {"eta": 1.0, **ADAPTIVE}, unit=True),
]
MORE_NARROW = [
    Candidate("arow", {"r": 100.0, "intercept": True}),
    *(Candidate("arow", {"r": r, "intercept": True}, unit=True) for r in (0.01, 1.0)),
    *(Candidate("arow", {"r": r, **FULL}) for r in (0.1, 10.0)),
    Candidate("arow", {"r": 1.0, **FULL}, unit=True),
    *(Candidate("scw", {"C": 0.1, **FULL}, unit) for unit in (False, True)),
    *(Candidate("scw", {"C": 0.01, "intercept": True}, unit) for unit in (False, True)),
    *(Candidate("csogd", {"eta": eta, "intercept": True}) for eta in (0.001, 0.01, 0.1)),
    Candidate("csogd", {"eta": 0.1, "intercept": True}, unit=True),
    Candidate("csogd", {"eta": 1.0, "rate": "inv_sqrt", "intercept": True}, unit=True),
    *(Candidate("pa", {"C": C, "intercept": True}) for C in (0.001, 0.01)),
    Candidate("pa", {"C": 0.01, "intercept": True}, unit=True),
    *(Candidate("adafobos", {"eta": eta, **ADAPTIVE}, unit=True) for eta in (0.1, 2.0)),
    *(Candidate("adarda", {"eta": eta, **ADAPTIVE}) for eta in (0.02, 0.1)),
    Candidate("adarda", {"eta": 0.5, **ADAPTIVE}, unit=True),
    Candidate("fobos", {"eta": 1.0, **LOGISTIC}, unit=True),
]
MORE_L1 = {"adarda": (1e-6, 1e-2, 8), "ssol": (1.0, 3e4, 8), "fsol": (0.03, 3.0, 8)}  # from, to, how many
SLOW_SSOL = Candidate("ssol", {"eta": 1.0, "r": 1.0, "update_on": "loss"}, unit=True)
FSOL = Candidate("fsol", {"eta": 1.0, "intercept": True}, unit=True)


def more_sparse(ranking: Sequence[Candidate]) -> list[Candidate]:
    """24 more sparse models: the second-best AdaRDA, an SSOL whose variances fall more slowly, and FSOL."""
    adarda = [one for one in ranking if one.learner == "adarda"][1]
    return [sparse for one in (adarda, SLOW_SSOL, FSOL) for sparse in swept(one, MORE_L1[one.learner])]
