"""Shared by the experiments of P3: algorithms, both measures, datasets, tuning, and one pass with its results."""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.data import Data, of_batches, parts, unit, whole
from papers.experiment import Row
from papers.places import asked_device
from papers.presenting import mean, panels, pick, spread
from thinstream.data import open_stream
from thinstream.datasets import find
from thinstream.estimators import make
from thinstream.estimators.grid_search import OnlineGridSearchCV
from thinstream.training.metrics import Tradeoff

#: The paper's values of C and of the rates.
GRID = [10.0**e for e in range(-5, 6)]
#: The permutation rates are chosen on; the experiments' own count from 0.
TUNING = 1000
#: Rows that are enough to choose by, and the most permutations that are taken to have them.
ENOUGH, SEVERAL = 20_000, 16
#: Rows beyond which the full matrix is not tuned.
LARGE = 50_000
FULL, DIAGONAL = "ARCSOGD", "ARCSOGD-diag"
PROPOSED = (FULL, DIAGONAL)
#: Algorithms by the cost of a pass: O(non-zeros) a row, or O(d²).
GROUPS = {"fast": ("Perceptron", "PA-I", "PAUM", "CPA", "CSOGD-I", DIAGONAL), "full": (FULL,)}
#: In the paper's order.
ALGORITHMS = ("Perceptron", "PA-I", "PAUM", "CPA", "CSOGD-I", FULL, DIAGONAL)
COLOURS = dict(zip(ALGORITHMS, ("0.55", "C5", "C2", "C4", "C0", "C3", "C1"), strict=True))


class Recipe(NamedTuple):
    """An algorithm as the paper runs it."""

    name: str  # of the estimator
    parameters: dict[str, Any]
    tuned: str = ""  # the parameter that is chosen from GRID
    costs: bool = True  # whether it uses ρ


RECIPES = {
    "Perceptron": Recipe("perceptron", {}, costs=False),
    "PA-I": Recipe("pa", {"variant": "PA-I"}, "C", costs=False),
    "PAUM": Recipe("paum", {}),
    "CPA": Recipe("cpa", {"variant": "PA"}),
    "CSOGD-I": Recipe("csogd", {"variant": "I"}, "eta"),
    FULL: Recipe("arcsogd", {"covariance": "full"}, "eta"),
    DIAGONAL: Recipe("arcsogd", {"covariance": "diagonal"}, "eta"),
}


def as_the_authors(algorithm: str) -> dict[str, Any]:
    """Return the parameters that differ in the authors' reading: a constant feature 1, and PA without a bound."""
    return {"fit_intercept": True} | ({"variant": "PA"} if algorithm == "PA-I" else {})


class Measure(NamedTuple):
    """Sum (greater is better) or cost (less is), with the weight of negatives, α_n or c_n; positives have the rest."""

    kind: str
    weight: float

    @property
    def sign(self) -> int:
        """Return 1 if greater is better, else -1."""
        return 1 if self.kind == "sum" else -1

    @property
    def tradeoff(self) -> Tradeoff:
        """As the library's metrics take it."""
        weights = (1.0 - self.weight, self.weight)
        return Tradeoff(*weights, 0.9, 0.1) if self.kind == "sum" else Tradeoff(0.5, 0.5, *weights)

    def rho(self, y: NDArray[np.int8]) -> float:
        """Return the cost of a positive in negatives: α_p T_n/(α_n T_p), or c_p/c_n.

        >>> Measure("sum", 0.5).rho(np.array([1, -1, -1], np.int8)), round(Measure("cost", 0.1).rho(np.ones(1)), 9)
        (2.0, 9.0)
        """
        ratio = (1.0 - self.weight) / self.weight
        return ratio if self.kind == "cost" else ratio * int((y < 0).sum()) / int((y > 0).sum())

    def value(self, positives: Any, negatives: Any, missed: Any, false: Any) -> Any:
        """In percent, from counts."""
        if self.kind == "cost":
            return 100 * ((1 - self.weight) * missed + self.weight * false) / (positives + negatives)
        with np.errstate(invalid="ignore"):  # NaN before a class was seen
            return 100 * ((1 - self.weight) * (1 - missed / positives) + self.weight * (1 - false / negatives))


SUM, COST = Measure("sum", 0.5), Measure("cost", 0.1)
MEASURES = {"sum": SUM, "cost": COST}


class Pass(NamedTuple):
    """The result of one pass: mistakes row by row, and the time it took."""

    y: NDArray[np.int8]
    positive: NDArray[np.bool_]  # the progressive predictions
    seconds: float

    def counts(self, stops: Sequence[int] | None = None) -> tuple[NDArray[np.int64], ...]:
        """Positives, negatives, missed and false ones among the first rows, for each stop (default: all rows).

        >>> one = Pass(np.array([1, 1, -1], np.int8), np.array([False, True, True]), 0.0)
        >>> [count.tolist() for count in one.counts([1, 3])]
        [[1, 2], [0, 1], [1, 1], [0, 1]]
        """
        ends = np.asarray(stops if stops is not None else [len(self.y)]) - 1
        yes = self.y > 0
        return tuple(
            np.cumsum(each)[ends].astype(np.int64) for each in (yes, ~yes, yes & ~self.positive, ~yes & self.positive)
        )

    def row(self, measure: Measure) -> Row:
        """The marks of the pass."""
        positives, negatives, missed, false = (int(count[0]) for count in self.counts())
        return {
            "value": float(measure.value(positives, negatives, missed, false)),
            "sensitivity": 100 * (1 - missed / positives),
            "specificity": 100 * (1 - false / negatives),
            "seconds": self.seconds,
            "rows": positives + negatives,
            "positives": positives,
        }


@lru_cache(maxsize=2)
def load(name: str, rows: int) -> Data:
    """A set as the paper has it, rows of unit length; not more than ``rows`` (0: all), half of each class."""
    if rows:
        data = glimpse(name, rows // 2)
        return Data(unit(data.X), data.y)
    data = parts(name)[0] if name == "svmguide3" else whole(name)  # the paper's 1243 rows are the training part
    data.X.sort_indices()
    return data


def glimpse(name: str, each: int) -> Data:
    """Return the first rows of either class, in the order of the file. The rest of the file is not read."""
    batches, seen = [], dict.fromkeys((-1, 1), 0)
    for batch in open_stream(str(find(name)[0]), dtype="float64", look=0).batches():
        batches.append(batch)
        for sign in seen:
            seen[sign] += int(np.count_nonzero(batch.y == sign))
        if min(seen.values()) >= each:
            break
    data = of_batches(batches)
    return data.take(np.sort(np.concatenate([np.flatnonzero(data.y == sign)[:each] for sign in (-1, 1)])))


@lru_cache(maxsize=1)
def permuted(name: str, rows: int, permutation: int, stop: int = 0) -> Data:
    """The rows in a random order that follows from the number; the first ``stop`` of them (0: all)."""
    data = load(name, rows)
    order = np.random.default_rng(permutation).permutation(len(data.y))
    return data.take(order[: stop or None])


def estimator(algorithm: str, rho: float, rate: float | None, **more: Any) -> Any:
    """Ready to learn. ``rate`` is C or the learning rate, where it is tuned."""
    recipe = RECIPES[algorithm]
    own = {recipe.tuned: rate} if recipe.tuned and rate is not None else {}
    weights = {-1: 1.0, 1: rho} if recipe.costs else None
    return make(
        recipe.name,
        **{"fit_intercept": False, **recipe.parameters, **own, **more},
        class_weight=weights,
        dtype="float64",
    )


def one_pass(algorithm: str, rho: float, rate: float | None, data: Data, **more: Any) -> Pass:
    """Learns the rows in their order; nothing but learning is timed, in seconds of the processor."""
    model, first = (estimator(algorithm, rho, rate, **more) for _ in range(2))
    first.partial_fit(data.X[:1], data.y[:1], classes=[-1, 1])  # compiles
    start = time.process_time()
    scores = model.learn(data.X, data.y, classes=[-1, 1])
    seconds = time.process_time() - start
    return Pass(data.y, scores > 0, seconds)


def runs_of(
    name: str, group: str, measure: Measure, permutations: int, rows: int, stop: int = 0, authors: bool = False
) -> list[Row]:
    """Run every algorithm of a group on every permutation; return a row for each run."""
    rates = {algorithm: choose_rate(name, rows, algorithm, measure, stop, authors) for algorithm in GROUPS[group]}
    found = []
    for permutation in range(permutations):
        data = permuted(name, rows, permutation, stop)
        for algorithm, rate in rates.items():
            more = as_the_authors(algorithm) if authors else {}
            one = one_pass(algorithm, measure.rho(data.y), rate, data, **more)
            start: Row = {"algorithm": algorithm, "permutation": permutation, "rate": rate or 0.0}
            found.append({**start, **one.row(measure)})
    return found


def choose_rate(
    name: str, rows: int, algorithm: str, measure: Measure, stop: int = 0, authors: bool = False
) -> float | None:
    """Return C or the learning rate for a dataset and a measure, or None if nothing is tuned.

    All values train in one pass over a permutation that is used for nothing else (small datasets: the mean of several).
    Progressive predictions count from a quarter to half of the rows on. The full matrix, which is slow, tries the value
    of the diagonal form and its neighbors. On large datasets it takes the value of the diagonal form.
    """
    if not RECIPES[algorithm].tuned or (authors and algorithm == "PA-I"):
        return None
    return _choose_rate(name, rows, algorithm, measure, stop, authors)


@lru_cache(maxsize=256)
def _choose_rate(name: str, rows: int, algorithm: str, measure: Measure, stop: int, authors: bool) -> float:
    size, values = min(len(load(name, rows).y), stop or 10**9), GRID
    if algorithm == FULL:
        near = GRID.index(_choose_rate(name, rows, DIAGONAL, measure, stop, authors))
        values = GRID[max(near - 1, 0) : near + 2]
        if size > LARGE:
            return GRID[near]
    several = range(TUNING, TUNING + (1 if rows else max(1, min(SEVERAL, ENOUGH // size))))
    more = as_the_authors(algorithm) if authors else {}
    found = [search(algorithm, measure, permuted(name, rows, number, stop), values, **more) for number in several]
    return float(values[int(np.argmax(np.mean(found, axis=0)))])


def search(
    algorithm: str, measure: Measure, data: Data, values: Sequence[float], folds: int = 0, **more: Any
) -> NDArray[np.float64]:
    """A score for each value, greater for the better: progressive, or on held-out rows.

    As `OnlineGridSearchCV` does, rows before the largest power of two that is no more than half of them do not count.
    """
    searching = OnlineGridSearchCV(
        estimator(algorithm, measure.rho(data.y), None, **more),
        {RECIPES[algorithm].tuned: list(values)},
        cv=folds or None,
        scoring="weighted_sum" if measure.kind == "sum" else "cost",
        tradeoff=measure.tradeoff,
        refit=False,
        device=asked_device(),
    )
    scores = searching.fit(data.X, data.y).cv_results_["mean_test_score"]
    return np.nan_to_num(np.asarray(scores, dtype=np.float64), nan=-1.0)


def panels_of(
    figure: Any, names: Sequence[str], width: float = 15, height: float = 6.4, grid: str = "both"
) -> Iterator[tuple[Any, str, str]]:
    """(panel, measure, set): sum above, cost below, a column for each set."""
    for line, kind in zip(panels(figure, 2, len(names), width, height, grid), MEASURES, strict=True):
        for panel, name in zip(line, names, strict=True):
            panel.set_title(f"{name}, {kind} (%)", fontsize=10)
            yield panel, kind, name


def draw_means(panel: Any, rows: Sequence[Row], paper: Mapping[str, float], named: bool) -> None:
    """Dots with deviations for our means, rings for the paper's; names of the algorithms at the left if wished."""
    for place, algorithm in enumerate(reversed(ALGORITHMS)):
        of = pick(rows, algorithm=algorithm)
        arms = np.nan_to_num(spread(of))
        panel.errorbar(mean(of), place, xerr=arms, fmt="o", color=COLOURS[algorithm], ms=6, capsize=2)
        if algorithm in paper:
            panel.plot(paper[algorithm], place, "o", mfc="none", mec="black", ms=10, mew=0.8)
    panel.set_yticks(range(len(ALGORITHMS)), list(reversed(ALGORITHMS)) if named else [""] * len(ALGORITHMS))
    panel.margins(x=0.12, y=0.08)
