"""What tools compete in: a set, its trial rows, and what is counted."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from benchmarks.versus.sets import TRIAL_ROWS, Files, Set, learned, prepared, set_of
from numpy.typing import NDArray

Scores = NDArray[Any]


class Candidate(NamedTuple):
    """A learner of a tool with its options; on rows as they are, or of unit length."""

    learner: str
    options: dict[str, Any]
    unit: bool = False

    def __str__(self) -> str:
        options = " ".join(
            f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in self.options.items()
        )
        return " ".join(part for part in (self.learner, options, "unit rows" if self.unit else "") if part)

    def plain(self) -> str:
        """As text that `of` reads."""
        return json.dumps(self)

    @classmethod
    def of(cls, text: str) -> "Candidate":
        """What `plain` wrote."""
        return cls(*json.loads(text))


class Contest(NamedTuple):
    """A set, ready for every tool."""

    set: Set
    files: Files
    y: NDArray[np.bool_]  # of the rows to learn from: whether positive
    y_test: NDArray[np.bool_]
    weight: float = 0.0  # of a positive row; 0: all rows alike

    @property
    def trial_rows(self) -> int:
        """Rows of a trial."""
        return min(len(self.y), TRIAL_ROWS)

    @property
    def cut(self) -> int:
        """Those of them that are learned."""
        return learned(self.trial_rows, self.set)

    @property
    def validation_rows(self) -> int:
        """The last of them, by which candidates are compared."""
        return self.trial_rows - (self.cut if self.set.in_time else self.trial_rows // 2)

    def validation(self, scores: Scores, balanced: bool = False) -> float:
        """Error of a trial, or 100 less its balanced accuracy.

        Each row is scored before it is learned, and the later half counts. Where rows are in time it is the last fifth,
        which is not learned: a model that follows the labels from row to row would win, and be worth nothing when it
        stands still.
        """
        first = self.trial_rows - self.validation_rows
        y, scores = self.y[first : self.trial_rows], scores[first:]
        return 100 - balanced_accuracy(scores, y) if balanced else error(scores, y)


class Model(NamedTuple):
    """What a tool has learned from all rows."""

    scores: Scores  # of the test rows
    nnz: int


class Tool(Protocol):
    """A contestant."""

    name: str
    package: str  # as its version is found
    one_pass: bool  # False: a reference that may read the rows as often as it likes
    default: Candidate
    settings: tuple[Any, ...]  # lists and limits: all that its results depend on

    def missing(self) -> str:
        """Why it cannot run; empty if it can."""

    def takes(self, contest: Contest) -> bool:
        """Whether the set is not too long for it."""

    def candidates(self, contest: Contest) -> Sequence[Candidate]:
        """What it may be tuned over."""

    def sweep(self, ranking: Sequence[Candidate]) -> Sequence[Candidate]:
        """Sparse models around what did best; none, if it has no such thing."""

    def trials(self, contest: Contest, candidates: Sequence[Candidate]) -> list[Scores]:
        """Scores of the trial rows by each candidate, as `Contest.validation` wants them."""

    def learn(self, contest: Contest, candidate: Candidate, out: Path) -> Any:
        """From text to a model that is written to a file."""

    def model(self, contest: Contest, candidate: Candidate, learned: Any) -> Model:
        """What came of it."""


def open_contest(name: str, scratch: Path, smoke: bool) -> Contest:
    """A set with its labels."""
    files = prepared(name, scratch, smoke=smoke)
    return Contest(set_of(name), files, labels(files("train", False)), labels(files("test", False)))


def labels(path: Path) -> NDArray[np.bool_]:
    """Whether each row of a file is positive."""
    with path.open("rb") as file:
        return np.array([line.startswith(b"+") for line in file])


def error(scores: Scores, y: NDArray[np.bool_]) -> float:
    """In percent; a score of 0 says negative.

    >>> error(np.array([1.0, 0.0, -1.0, 2.0]), np.array([True, True, False, True]))
    25.0
    """
    return float(100 * np.mean((scores > 0) != y))


def balanced_accuracy(scores: Scores, y: NDArray[np.bool_]) -> float:
    """The mean of sensitivity and specificity, in percent.

    >>> balanced_accuracy(np.array([1.0, 0.0, -1.0, -2.0]), np.array([True, True, False, False]))
    75.0
    """
    right = (scores > 0) == y
    return float(50 * (right[y].mean() + right[~y].mean())) if 0 < y.sum() < len(y) else float("nan")
