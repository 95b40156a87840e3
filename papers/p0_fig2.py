"""P0, Fig. 2: test error against sparsity on text, the six algorithms and liblinear with the l1 norm."""

import math
import warnings
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, l1_min_c

from papers import p0_common as p0
from papers.data import Data, batch_of
from papers.experiment import Cell, Claim, Experiment, Row, cells_for, markdown
from papers.presenting import distinct, legend, panels_for, pick

SETS = (
    "20news-pcmac",
    "20news-comp-vs-rec",
    "rcv1-small",
    "reuters21578-acq",
    "farm-ads",
    "mdsd-books",
    "mdsd-electronics",
    "sms-spam",
    "enron1-spam",
    "spamassassin",
    "trec07p",
    "phish-url-pdd",
    "debian-science",
)
OTHERS = (*p0.TRUNCATING, "FSOL")
#: Times the smallest C at which liblinear's model has a weight, dense models first.
FACTORS = np.geomspace(3000.0, 1.2, 16)


def work(name: str, label: str, smoke: bool) -> list[Row]:
    """An algorithm on a set."""
    train, test = p0.task(name, smoke)
    about: Row = {"set": name, "algorithm": label}
    if label == p0.LIBLINEAR:
        factors = FACTORS[::8] if smoke else FACTORS
        runs, l1 = [liblinear(train, test, factors)], [1.0 / factor for factor in factors]
        return p0.curve_rows(about, l1, runs, train.X.shape[1], "error")
    contestant, rows = p0.SPARSE[label], batch_of(p0.permuted(train, 0))
    parameters = p0.choose_parameters(contestant, rows, smoke=smoke)
    l1 = p0.l1_values(contestant, parameters, rows, smoke=smoke)
    runs = p0.runs_of(contestant, parameters, l1, train, test, 1 if smoke else p0.PERMUTATIONS)
    chosen: Row = {**about, "kind": "chosen", "parameters": p0.in_words(parameters), "features": train.X.shape[1]}
    return [chosen, *p0.curve_rows(about, l1, runs, train.X.shape[1], "error")]


def liblinear(train: Data, test: Data, factors: Sequence[float] | Any) -> p0.Measured:
    """Models of the batch method for multiples of the smallest C that gives a weight."""
    smallest = l1_min_c(train.X, train.y, loss="squared_hinge", fit_intercept=False)
    found = []
    for factor in factors:
        model = liblinear_model(smallest * factor).fit(train.X, train.y)
        predicted, positive = model.decision_function(test.X) > 0.0, test.y > 0
        right = predicted == positive
        found.append([np.count_nonzero(model.coef_), right[positive].mean(), right[~positive].mean(), right.mean()])
    nnz, sensitivity, specificity, accuracy = np.array(found).T
    return p0.Measured(nnz, 100.0 * sensitivity, 100.0 * specificity, 100.0 - 100.0 * accuracy)


def liblinear_model(C: float) -> Any:
    """Silent where 100 rounds do not suffice: the page states the limit."""
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    fixed = {"loss": "squared_hinge", "dual": False, "fit_intercept": False, "random_state": 0, "max_iter": 100}
    return LinearSVC(penalty="l1", C=C, **fixed)


def cells(smoke: bool) -> list[Cell]:
    """A cell for each set and algorithm."""
    labels = p0.SMOKE if smoke else p0.SPARSE
    return cells_for(work, SETS[:2] if smoke else SETS, (*labels, p0.LIBLINEAR), smoke)


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Errors at each level, and what tuning chose."""
    values, sets, labels = p0.level_values(rows, "error"), distinct(rows, "set"), distinct(rows, "algorithm")
    online = [label for label in labels if label != p0.LIBLINEAR]
    yield "Test error in percent, the best online algorithm of each set in bold."
    yield p0.level_table(values, sets, online, 0.0, least=True)
    yield from (p0.level_table(values, sets, labels, level, least=True, beside=p0.LIBLINEAR) for level in p0.LEVELS)
    chosen = {(row["set"], row["algorithm"]): row["parameters"] for row in pick(rows, kind="chosen")}
    width = {row["set"]: row["features"] for row in pick(rows, kind="chosen")}
    lines = [[name, f"{width[name]:,}", *(chosen.get((name, label), "–") for label in online)] for name in sets]
    yield "Parameters chosen by cross-validation:"
    yield markdown(["set", "features", *online], lines)


class Contest:
    """Errors at each level, and which algorithm is ahead on which datasets."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.values, self.sets = p0.level_values(rows, "error"), distinct(rows, "set")
        self.labels = [label for label in distinct(rows, "algorithm") if label != p0.LIBLINEAR]

    def duel(self, ours: Sequence[str], theirs: Sequence[str], level: float) -> dict[str, tuple[float, float]]:
        """By set: how far the best of ours is ahead of the best of theirs, and the spread of both together."""
        found = {}
        for name in self.sets:
            here = [self._best(name, side, level) for side in (ours, theirs)]
            if math.isfinite(here[0][0]):
                found[name] = here[1][0] - here[0][0], math.hypot(here[0][1], here[1][1])
        return found

    def wins(self, ours: Sequence[str], theirs: Sequence[str], level: float) -> int:
        """Sets on which ours is ahead."""
        return sum(gap > 0 for gap, _ in self.duel(ours, theirs, level).values())

    def told(self, ours: Sequence[str], theirs: Sequence[str], level: float) -> str:
        """A duel in words."""
        gaps = self.duel(ours, theirs, level)
        clear = sum(gap > spread for gap, spread in gaps.values())
        behind = [name for name, (gap, spread) in gaps.items() if gap < -spread]
        return (
            f"at {level:g} % ahead on {self.wins(ours, theirs, level)} of {len(self.sets)} sets (by more than both "
            f"spreads on {clear}), behind by more than that on {len(behind)}"
            + (f": {', '.join(behind)}" if behind else "")
        )

    def changes(self, start: float, end: float) -> list[float]:
        """Of the error from one level to another, of each set and algorithm that reaches it."""
        keys = [(name, label) for name in self.sets for label in self.labels]
        return [
            self.values[*key, end][0] - self.values[*key, start][0]
            for key in keys
            if (*key, end) in self.values and (*key, start) in self.values
        ]

    def _best(self, name: str, labels: Sequence[str], level: float) -> tuple[float, float]:
        every = [self.values[name, label, level] for label in labels if (name, label, level) in self.values]
        return min(every, default=(math.inf, 0.0))


@p0.for_both_readings
def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """The paper's observations."""
    contest = Contest(rows)
    pair, averaging = p0.SECOND_ORDER_AVERAGING, (*p0.SECOND_ORDER_AVERAGING, "FSOL")
    alone = [label for label in contest.labels if label != "SSOL"]
    most = len(contest.sets) / 2
    steady, steep = contest.changes(0.0, 90.0) or [0.0], contest.changes(99.0, 99.9) or [0.0]
    small = sum(change <= 1.0 for change in steady)
    yield Claim(
        "Ada-RDA and SSOL outperform the others, especially at high sparsity (here: the better of the two against "
        "the best of STG, FOBOS, Ada-FOBOS and FSOL, on most sets at 99 %)",
        contest.wins(pair, OTHERS, 99.0) > most,
        "; ".join(contest.told(pair, OTHERS, level) for level in (99.0, 99.5, 99.9)),
    )
    yield Claim(
        "dual averaging (SSOL, Ada-RDA, FSOL) exploits sparsity better than truncation (STG, FOBOS, Ada-FOBOS)",
        contest.wins(averaging, p0.TRUNCATING, 99.0) > most,
        contest.told(averaging, p0.TRUNCATING, 99.0),
    )
    yield Claim(
        "SSOL outperforms all others on all sets when sparsity is high",
        contest.wins(["SSOL"], alone, 99.0) == len(contest.sets),
        "; ".join(contest.told(["SSOL"], alone, level) for level in (99.0, 99.5)),
    )
    yield Claim(
        "most algorithms learn a sparse model with marginal or no loss of accuracy",
        2 * small > len(steady),
        f"at 90 % the error is at most 1 point above that of l1 = 0 in {small} of {len(steady)} cases",
    )
    yield Claim(
        "beyond some sparsity the error gets worse quickly",
        median(steep) > 4.0 * max(median(steady), 0.0),
        f"median change of the error from l1 = 0 to 90 %: {median(steady):+.2f} points, from 99 to 99.9 %: "
        f"{median(steep):+.2f}",
    )


def draw(rows: Sequence[Row], figure: Any) -> None:
    """A panel for each set."""
    axes = panels_for(figure, distinct(rows, "set"), 4)
    for axis, name in axes:
        curves = p0.curves_of(rows, name, "error")
        p0.draw_curves(axis, curves, name)
        lowest = min(error for points in curves.values() for _, error in points)
        axis.set_ylim(0.7 * lowest, min(max(lowest * 5.0, lowest + 2.0), 55.0))
    figure.supylabel("test error (%)", fontsize=10)
    legend(figure, (axis for axis, _ in axes), 8, fontsize=9)


EXPERIMENT = Experiment.of(__name__, "p0-fig2")
