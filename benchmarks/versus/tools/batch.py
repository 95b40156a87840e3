"""liblinear: a batch solver, for reference. It reads the rows many times, so it is not among the equals."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores
from benchmarks.versus.tools.sgd import read

LONGEST = 700_000  # non-zeros to learn from
CANDIDATES = [
    *(Candidate("l2 svm", {"-s": 2, "-c": C}, unit=True) for C in (0.1, 1.0, 10.0)),
    Candidate("l2 svm", {"-s": 2, "-c": 0.01}),
    Candidate("l2 logistic", {"-s": 0, "-c": 10.0}, unit=True),
    *(Candidate("l1 logistic", {"-s": 6, "-c": C}, unit=True) for C in (1.0, 10.0)),
    Candidate("l1 logistic", {"-s": 6, "-c": 1.0}),
]
L1 = (0.05, 20.0, 6)  # C from, to, how many


class Liblinear:
    """Primal solvers with l1 and l2."""

    name, package, one_pass = "liblinear", "liblinear-official", False
    default = Candidate("l2 svm (dual)", {})
    settings = (CANDIDATES, LONGEST, L1)

    def missing(self) -> str:
        """If the package is not installed."""
        return "" if find_spec("liblinear") else "pip install liblinear-official"

    def takes(self, contest: Contest) -> bool:
        """Sets that are not too long."""
        return bool(read(contest.files("train", False))[0].nnz <= LONGEST)

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """A few."""
        return CANDIDATES

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """C of the l1 logistic regression."""
        best = next(one for one in ranking if one.learner == "l1 logistic")
        return [best._replace(options={"-s": 6, "-c": float(f"{C:.3g}")}) for C in np.geomspace(*L1)]

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """Learns what comes before the rows that are validated; scores of the others are 0."""
        first = contest.trial_rows - contest.validation_rows
        found = []
        for one in candidates:
            X, y = read(contest.files("train", one.unit))
            model = _train(contest, one, X[:first], y[:first])
            found.append(np.concatenate([np.zeros(first), _scores(model, X[first : contest.trial_rows])]))
        return found

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Any:
        """Until it converges."""
        from liblinear.liblinearutil import save_model

        model = _train(contest, candidate, *read(contest.files("train", candidate.unit)))
        save_model(str(out), model)
        return model

    def model(self, contest: Contest, candidate: Candidate, learned: Any) -> Model:
        """Test scores and size."""
        X, _ = read(contest.files("test", candidate.unit), learned.get_nr_feature())
        return Model(_scores(learned, X), int(np.count_nonzero(learned.get_decfun()[0])))


def _train(contest: Contest, candidate: Candidate, X: Any, y: Any) -> Any:
    from liblinear.liblinearutil import train

    options = " ".join(f"{key} {value}" for key, value in candidate.options.items())
    weight = f"-w1 {contest.weight}" if contest.weight else ""
    return train(y, X, f"-q -B 1 {options} {weight}")


def _scores(model: Any, X: Any) -> Scores:
    """Positive for the class +1; its first class is that of the first row it saw."""
    weights, bias = model.get_decfun()
    sign = 1 if model.get_labels()[0] == 1 else -1
    width = min(X.shape[1], len(weights))
    return np.asarray(X[:, :width] @ np.array(weights[:width]) + bias) * sign
