"""scikit-learn: SGDClassifier, whose learning rates pa1 and pa2 took the place of PassiveAggressiveClassifier."""

import pickle
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores

CHUNKS = 50  # rows are scored before they are learned, a fiftieth of them at a time
BOTH = (False, True)
PASSIVE = {"loss": "hinge", "penalty": None, "learning_rate": "pa1"}
AVERAGE = {"loss": "log_loss", "average": True}
CANDIDATES = [
    *(Candidate("SGD", {"loss": "hinge", "alpha": a}, unit) for unit in BOTH for a in (1e-4, 1e-6, 1e-5, 1e-3)),
    *(Candidate("SGD", {"loss": "log_loss", "alpha": a}) for a in (1e-5, 1e-4)),
    *(Candidate("SGD", {"loss": "log_loss", "alpha": a}, unit=True) for a in (1e-6, 1e-5, 1e-4)),
    Candidate("SGD", {**AVERAGE, "alpha": 1e-4}),
    *(Candidate("SGD", {**AVERAGE, "alpha": a}, unit=True) for a in (1e-6, 1e-5, 1e-4)),
    *(Candidate("SGD", {"loss": "hinge", "average": True, "alpha": a}, unit=True) for a in (1e-5, 1e-4)),
    *(Candidate("SGD", {**PASSIVE, "eta0": C}) for C in (0.01, 0.1)),
    *(Candidate("SGD", {**PASSIVE, "eta0": C}, unit=True) for C in (0.01, 0.1, 1.0)),
]
L1 = (1e-7, 1e-3, 12)  # from, to, how many


class ScikitLearn:
    """Gradient descent and passive-aggressive learning."""

    name, package, one_pass = "scikit-learn", "scikit-learn", True
    default = Candidate("SGD", {})
    settings = (CANDIDATES, CHUNKS, L1)

    def missing(self) -> str:
        """Never: thinstream needs it."""
        return ""

    def takes(self, contest: Contest) -> bool:
        """All."""
        return True

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """24."""
        return CANDIDATES

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """The l1 penalty with both losses, on rows as the best has them."""
        return [
            Candidate("SGD", {"loss": loss, "penalty": "l1", "alpha": float(f"{alpha:.3g}")}, ranking[0].unit)
            for loss in ("hinge", "log_loss")
            for alpha in np.geomspace(*L1)
        ]

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """One run after the other, on rows in memory."""
        return [self._trial(contest, one) for one in candidates]

    def _trial(self, contest: Contest, candidate: Candidate) -> Scores:
        X, y = read(contest.files("train", candidate.unit))
        model, cut = _make(contest, candidate), contest.cut
        step = -(-cut // CHUNKS)
        found = []
        for start in range(0, cut, step):
            rows = X[start : min(start + step, cut)]
            found.append(model.decision_function(rows) if start else np.zeros(rows.shape[0]))
            model.partial_fit(rows, y[start : start + rows.shape[0]], classes=[-1, 1])
        if cut < contest.trial_rows:
            found.append(model.decision_function(X[cut : contest.trial_rows]))
        return np.concatenate(found)

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Any:
        """All rows at once, one pass, in their order."""
        X, y = read(contest.files("train", candidate.unit))
        model = _make(contest, candidate).partial_fit(X, y, classes=[-1, 1])
        out.write_bytes(pickle.dumps(model))
        return model

    def model(self, contest: Contest, candidate: Candidate, learned: Any) -> Model:
        """Test scores and size."""
        X, _ = read(contest.files("test", candidate.unit), learned.coef_.shape[1])
        return Model(learned.decision_function(X), int(np.count_nonzero(learned.coef_)))


def _make(contest: Contest, candidate: Candidate) -> Any:
    from sklearn.linear_model import SGDClassifier

    weight = {1: contest.weight, -1: 1.0} if contest.weight else None
    return SGDClassifier(shuffle=False, class_weight=weight, **candidate.options)


@lru_cache(maxsize=4)
def read(path: Path, width: int = 0) -> tuple[Any, Any]:
    """A file as scikit-learn reads it; cut to the width of the rows learned from."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    X.indices, X.indptr = X.indices.astype("int32"), X.indptr.astype("int32")  # SGDClassifier takes no others
    if width and X.shape[1] > width:
        X = X[:, :width]
    elif width:
        X.resize(X.shape[0], width)
    return X, y
