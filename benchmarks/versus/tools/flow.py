"""River: rows as dictionaries, one at a time."""

import pickle
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.contest import Candidate, Contest, Model, Scores

LONGEST = 600_000  # non-zeros to learn from: it takes a microsecond or two for each
CANDIDATES = [
    Candidate("LogisticRegression SGD", {"lr": 0.1}),
    Candidate("LogisticRegression SGD", {"lr": 1.0}, unit=True),
    Candidate("LogisticRegression SGD", {"lr": 10.0}, unit=True),
    Candidate("LogisticRegression AdaGrad", {"lr": 0.1}),
    Candidate("LogisticRegression AdaGrad", {"lr": 0.5}),
    Candidate("LogisticRegression AdaGrad", {"lr": 0.5}, unit=True),
    Candidate("LogisticRegression AdaGrad", {"lr": 2.0}, unit=True),
    Candidate("LogisticRegression FTRLProximal", {"alpha": 0.5, "l2": 0.0}),
    Candidate("LogisticRegression FTRLProximal", {"alpha": 2.0, "l2": 0.0}, unit=True),
    Candidate("PAClassifier", {"C": 0.01}),
    Candidate("PAClassifier", {"C": 0.1}, unit=True),
    Candidate("PAClassifier", {"C": 1.0}, unit=True),
]
Row = tuple[dict[int, float], bool]


class River:
    """Logistic regression with some of its optimisers, and passive-aggressive learning."""

    name, package, one_pass = "River", "river", True
    default = Candidate("LogisticRegression SGD", {})
    settings = (CANDIDATES, LONGEST)

    def missing(self) -> str:
        """If the package is not installed."""
        return "" if find_spec("river") else "pip install river"

    def takes(self, contest: Contest) -> bool:
        """Sets that are not too long; weights of rows are for logistic regression only, so not those."""
        if contest.weight:
            return False
        with contest.files("train", False).open("rb") as file:
            return sum(line.count(b":") for line in file) <= LONGEST

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """Half as many as the others have."""
        return CANDIDATES

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """None: it would take too long."""
        return []

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """One run after the other, on dictionaries in memory."""
        return [self._trial(contest, one) for one in candidates]

    def _trial(self, contest: Contest, candidate: Candidate) -> Scores:
        model, found = _make(candidate), []
        for number, (x, y) in enumerate(_held(contest.files("train", candidate.unit))[: contest.trial_rows]):
            found.append(model.predict_proba_one(x)[True] - 0.5)
            if number < contest.cut:
                model.learn_one(x, y)
        return np.array(found)

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Any:
        """One pass."""
        model = _make(candidate)
        for x, y in rows(contest.files("train", candidate.unit)):
            model.learn_one(x, y)
        out.write_bytes(pickle.dumps(model))
        return model

    def model(self, contest: Contest, candidate: Candidate, learned: Any) -> Model:
        """Test scores and size."""
        test = rows(contest.files("test", candidate.unit))
        scores = np.array([learned.predict_proba_one(x)[True] - 0.5 for x, _ in test])
        return Model(scores, sum(weight != 0 for weight in dict(learned.weights).values()))


def _make(candidate: Candidate) -> Any:
    from river import linear_model, optim

    learner, _, optimiser = candidate.learner.partition(" ")
    if not optimiser:
        return getattr(linear_model, learner)(**candidate.options)
    return getattr(linear_model, learner)(getattr(optim, optimiser)(**candidate.options) if candidate.options else None)


def rows(path: Path) -> Iterator[Row]:
    """The rows of a libsvm file as dictionaries."""
    with path.open() as file:
        for line in file:
            label, *pairs = line.split()
            cut = (pair.split(":") for pair in pairs)
            yield {int(index): float(value) for index, value in cut}, label == "+1"


@lru_cache(maxsize=2)
def _held(path: Path) -> list[Row]:
    return list(rows(path))
