"""What P0's experiments share: contestants, tuning at l1 = 0, models of many l1 as lanes, and how pages show them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers.data import Data, batch_of, split, unit_vectors
from papers.experiment import Claim, Row, markdown
from papers.places import asked_device, device_for
from papers.presenting import distinct, pick, plus_minus
from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.lanes.lanes import Lanes
from thinstream.tuning.measures import scoring_of
from thinstream.tuning.passes import Matrix
from thinstream.tuning.search import FOLDS, grid, paper_grid, search
from thinstream.tuning.study import StudyConfig, Trial

Numbers = NDArray[np.float64]

#: Orders of the training rows that are averaged over, values of l1 in a sweep (0 among them), rows of a smoke run.
PERMUTATIONS, MODELS, FEW = 5, 64, 300
#: Where the ends of a sweep are looked for, and where else if they are not there (λ/t asks for a λ that grows with t).
WIDE, WIDER = np.geomspace(1e-8, 1e8, MODELS - 1), np.geomspace(1e-14, 1e16, MODELS - 1)
#: Share of the weights of l1 = 0 with which a sweep begins.
FULL = 0.95
#: Sparsities, in percent, at which curves are compared.
LEVELS = (90.0, 95.0, 99.0, 99.5, 99.9)
PLAIN = Costs()
#: Bytes the lanes of a search may take.
MEMORY = 1_500_000_000


class Contestant(NamedTuple):
    """An algorithm of a figure, with its fixed parameters."""

    algorithm: str
    fixed: Mapping[str, Any] = {}
    is_sparse: bool = True
    has_costs: bool = False


#: SSOL's second reading, and its name and that of its cost-sensitive form beside the names of the first.
ON_LOSS = {"update_on": "loss", "l1_schedule": "eta"}
READING = {"SSOL": "SSOL on loss", "CS-SSOL": "CS-SSOL on loss"}
TWO_READINGS = """\
SSOL is here in two readings: as printed, where every example enters the covariance and λ_t = λ/t; and "on loss",
where an example enters it only if it has a loss, and λ_t = ηλ (`update_on="loss", l1_schedule="eta"`). Both are tuned
alike, and each claim is judged for both; one that gives the same numbers for both has one line."""
#: The paper's six, and SSOL's second reading. STG truncates every tenth round: with a period of 1 it would be FOBOS.
SPARSE = {
    "STG": Contestant("stg", {"period": 10}),
    "FOBOS": Contestant("fobos"),
    "AdaFOBOS": Contestant("adafobos"),
    "FSOL": Contestant("fsol"),
    "AdaRDA": Contestant("adarda"),
    "SSOL": Contestant("ssol"),
    "SSOL on loss": Contestant("ssol", ON_LOSS),
}
PRINTED = tuple(label for label in SPARSE if label not in READING.values())
SECOND_ORDER_AVERAGING, TRUNCATING = ("SSOL", "AdaRDA"), ("STG", "FOBOS", "AdaFOBOS")
#: What a smoke run has: few loops to compile.
SMOKE = ("FSOL", "SSOL", "SSOL on loss")
LIBLINEAR = "liblinear"
#: Colour and style of an algorithm, the same in all figures; the cost-sensitive form has the colour of the plain one.
LOOKS: dict[str, tuple[str, Any]] = {
    "STG": ("tab:brown", ":"),
    "FOBOS": ("tab:orange", (0, (4, 1.5))),  # seldom far from STG
    "AdaFOBOS": ("tab:red", ":"),
    "FSOL": ("tab:cyan", "-"),
    "AdaRDA": ("tab:green", "-"),
    "SSOL": ("tab:blue", "-"),
    "SSOL on loss": ("navy", (0, (5, 1))),
    "CS-FSOL": ("tab:cyan", "-"),
    "CS-SSOL": ("tab:blue", "-"),
    "CS-SSOL on loss": ("navy", (0, (5, 1))),
    "CS-OGD": ("tab:purple", "-"),
    "CPA": ("tab:pink", "-."),
    "PAUM": ("tab:olive", (0, (4, 4))),  # mostly on the line of CS-OGD
    LIBLINEAR: ("0.3", "--"),
}
TICKS = (50.0, 90.0, 99.0, 99.9, 99.99)


@lru_cache(maxsize=2)
def task(name: str, smoke: bool = False) -> tuple[Data, Data]:
    """Rows to learn from and rows to test with, of unit length, without features that no row has."""
    train, test = split(name, rows=FEW if smoke else None)
    used = np.union1d(train.X.indices, test.X.indices)
    return Data(train.X[:, used], train.y), Data(test.X[:, used], test.y)


def permuted(data: Data, number: int) -> Data:
    """The rows in the order of a permutation."""
    return data.take(np.random.default_rng(number).permutation(len(data.y)))


def choose_parameters(
    contestant: Contestant, rows: Batch, costs: Costs = PLAIN, scoring: str = "error", smoke: bool = False
) -> dict[str, Any]:
    """The paper's protocol: 5 folds over its grids with l1 = 0, all candidates and folds as lanes of one pass."""
    if contestant.algorithm == "cpa":  # nothing to tune
        return dict(contestant.fixed)
    space = paper_grid(contestant.algorithm)
    if smoke:
        space = {name: values[5:7] for name, values in space.items()}
    trials = [Trial({**contestant.fixed, **setting}, (costs,), fit_intercept=False) for setting in grid(space)]
    config = StudyConfig(
        contestant.algorithm,
        FOLDS,
        n_features=rows.n_features,
        dtype="float64",
        final=True,
        memory=MEMORY,
        device=asked_device(),
    )
    found = search(Matrix(rows), config, trials, scoring_of(scoring))
    return dict(trials[found.best].parameters)


class Measured(NamedTuple):
    """The results of models, one number for each."""

    nnz: Numbers
    sensitivity: Numbers
    specificity: Numbers
    error: Numbers  # these three in percent, of the test rows

    @property
    def balanced(self) -> Numbers:
        """Balanced accuracy."""
        return (self.sensitivity + self.specificity) / 2.0


def weights_of(lanes: Lanes) -> Numbers:
    """Features × models: the scores of unit vectors."""
    return np.asarray(lanes.scores(unit_vectors(lanes.n_features)), np.float64)


def learned(
    contestant: Contestant, parameters: Mapping[str, Any], l1: Sequence[float], rows: Batch, costs: Costs = PLAIN
) -> Lanes:
    """A model for each l1, all in one pass; of algorithms without l1 a single one."""
    each = [{**parameters, "l1": value} for value in l1] if contestant.is_sparse else [parameters]
    lanes = Lanes(
        contestant.algorithm,
        each,
        n_features=rows.n_features,
        dtype="float64",
        fit_intercept=False,
        costs=[costs] * len(each),
        device=device_for(len(each)),
    )
    lanes.learn(whole_periods(contestant, rows))
    return lanes


def whole_periods(contestant: Contestant, rows: Batch) -> Batch:
    """Without the last few rows, where a truncation every so many would leave what they wrote."""
    return rows.until(len(rows) - len(rows) % contestant.fixed.get("period", 1))


def measured(lanes: Lanes, test: Data) -> Measured:
    """The models, judged by the test rows."""
    predicted, positive = lanes.scores(batch_of(test)) > 0.0, test.y > 0
    hits, rejections = predicted[positive].sum(axis=0), (~predicted[~positive]).sum(axis=0)
    return Measured(
        (weights_of(lanes) != 0.0).sum(axis=0).astype(np.float64),
        100.0 * hits / max(positive.sum(), 1),
        100.0 * rejections / max((~positive).sum(), 1),
        100.0 - 100.0 * (hits + rejections) / len(test.y),
    )


def l1_values(
    contestant: Contestant, parameters: Mapping[str, Any], rows: Batch, costs: Costs = PLAIN, smoke: bool = False
) -> list[float]:
    """0, and others from where l1 takes the first weights to where it takes the last, looked for in a pass or two."""
    if not contestant.is_sparse:
        return [0.0]
    for span in (WIDE, WIDER):
        wide = span[::8] if smoke else span
        nnz = (weights_of(learned(contestant, parameters, [0.0, *wide], rows, costs)) != 0.0).sum(axis=0)
        if nnz[1] >= FULL * nnz[0] and nnz[-1] <= 1:
            break
    low, high = ends(nnz.astype(np.float64))
    return [0.0, *np.geomspace(wide[low], wide[high], len(wide)).tolist()]


def ends(nnz: Numbers) -> tuple[int, int]:
    """Places of the last l1 that takes next to nothing and of the first that leaves next to nothing.

    The first model, of l1 = 0, is not counted.

    >>> ends(np.array([1000.0, 1000.0, 990.0, 400.0, 30.0, 0.0, 0.0]))
    (1, 4)
    """
    others = nnz[1:]
    full, left = np.flatnonzero(others >= FULL * nnz[0]), np.flatnonzero(others > 1.0)
    low = int(full[-1]) if len(full) else 0
    high = min(int(left[-1]) + 1 if len(left) else 0, len(others) - 1)
    return (low, high) if low < high else (0, len(others) - 1)


def at_sparsity(nnz: Numbers, value: Numbers, n_features: int, level: float) -> float:
    """The value where a curve first reaches a sparsity in percent, as l1 grows.

    Models are in order of l1: it lies between the first that is so sparse and the one before, on a line over
    log(non-zeros). Where the first of all is so sparse, it is its value; where none is, NaN. Models without a weight
    do not count.

    >>> at_sparsity(np.array([100.0, 10.0, 1.0, 0.0]), np.array([2.0, 4.0, 8.0, 50.0]), 1000, 99.0)
    4.0
    """
    some, target = np.flatnonzero(nnz >= 1.0), round((100.0 - level) * n_features / 100.0, 9)
    reached = np.flatnonzero(nnz[some] <= target)
    if not len(reached):
        return float("nan")
    last = some[reached[0]]
    if reached[0] == 0:
        return float(value[last])
    before = some[reached[0] - 1]
    share = np.log(nnz[before] / target) / np.log(nnz[before] / nnz[last])
    return float(value[before] + share * (value[last] - value[before]))


def runs_of(
    contestant: Contestant, parameters: Mapping[str, Any], l1: Sequence[float], train: Data, test: Data, orders: int
) -> list[Measured]:
    """Models of each l1, judged after each of several orders of the training rows."""
    orders_of = (batch_of(permuted(train, order)) for order in range(orders))
    return [measured(learned(contestant, parameters, l1, rows), test) for rows in orders_of]


def sparsity(nnz: Any, n_features: int) -> Any:
    """Percent of the weights that are zero."""
    return 100.0 * (1.0 - nnz / n_features)


def in_words(parameters: Mapping[str, Any]) -> str:
    """Parameters of a model.

    >>> in_words({"eta": 0.5, "r": 32.0})
    'eta=0.5, r=32'
    """
    texts = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in parameters.items()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def summary(values: Sequence[Any]) -> tuple[Numbers, Numbers]:
    """Means and standard deviations over runs, which are the rows."""
    runs = np.asarray(values)
    spread = runs.std(axis=0, ddof=1) if len(runs) > 1 else np.full(runs.shape[1:], np.nan)
    return runs.mean(axis=0), spread


def curve_rows(
    about: Row, l1: Sequence[float], runs: Sequence[Measured], n_features: int, measure: str, *beside: str
) -> list[Row]:
    """Rows of kind "curve", one for an l1, then of kind "level", one for each of `LEVELS`: means over the runs.

    Of a long sweep every other l1 has a row, and models without a weight have none; levels are found with all of them.
    """
    means = {name: summary([getattr(run, name) for run in runs]) for name in ("nnz", measure, *beside)}
    share, (mean, spread) = sparsity(means["nnz"][0], n_features), means[measure]
    rows: list[Row] = [
        {
            **about,
            "kind": "curve",
            "l1": rounded(l1[k]),
            "sparsity": rounded(share[k]),
            measure: rounded(mean[k]),
            "spread": rounded(spread[k]),
            **{name: rounded(means[name][0][k]) for name in beside},
        }
        for k in range(0, len(l1), 2 if len(l1) == MODELS else 1)
        if share[k] < 100.0
    ]
    levels = [[at_sparsity(run.nnz, getattr(run, measure), n_features, level) for level in LEVELS] for run in runs]
    mean, spread = summary(levels)
    return rows + [
        {**about, "kind": "level", "level": level, measure: rounded(mean[k]), "spread": rounded(spread[k])}
        for k, level in enumerate(LEVELS)
    ]


def rounded(value: float) -> float:
    """Six digits: all that pages need, in files a third as long.

    >>> rounded(2 / 3)
    0.666667
    """
    return float(f"{value:.6g}")


def level_values(rows: Sequence[Row], measure: str) -> dict[tuple[str, str, float], tuple[float, float]]:
    """(set, algorithm, level) → mean and spread, where there are such; level 0 is the model of l1 = 0."""
    found = {}
    for row in rows:
        if row["kind"] == "level":
            found[row["set"], row["algorithm"], row["level"]] = row[measure], row["spread"]
        elif row["kind"] == "curve" and row["l1"] == 0.0:
            found[row["set"], row["algorithm"], 0.0] = row[measure], row["spread"]
    return {key: value for key, value in found.items() if math.isfinite(value[0])}


def level_table(
    values: Mapping[tuple[str, str, float], tuple[float, float]],
    sets: Sequence[str],
    algorithms: Sequence[str],
    level: float,
    *,
    least: bool,
    beside: str = "",
) -> str:
    """Sets × algorithms at a level of sparsity, the best of each set in bold (``beside`` does not take part)."""
    lines = []
    for name in sets:
        cells = {label: values.get((name, label, level)) for label in algorithms}
        ranked = {label: cell[0] for label, cell in cells.items() if cell and label != beside}
        best = (min if least else max)(ranked.values(), default=math.nan)
        texts = [f"**{plus_minus(c)}**" if ranked.get(label) == best else plus_minus(c) for label, c in cells.items()]
        lines.append([name, *texts])
    title = "l1 = 0" if level == 0.0 else f"{level:g} % sparse"
    return markdown([title, *algorithms], lines)


def curves_of(rows: Sequence[Row], name: str, measure: str) -> dict[str, list[tuple[float, float]]]:
    """Algorithm → (sparsity, value) of its models on a set, in order of l1; models without a weight are left out."""
    return {
        label: [
            (row["sparsity"], row[measure])
            for row in pick(rows, kind="curve", set=name, algorithm=label)
            if row["sparsity"] < 100.0
        ]
        for label in distinct(rows, "algorithm")
    }


def for_both_readings(judge: Callable[[Sequence[Row]], Iterable[Claim]]) -> Callable[[Sequence[Row]], Iterator[Claim]]:
    """Claims as SSOL as printed bears them out, and as its second reading does where that says something else."""
    first_name = {second: first for first, second in READING.items()}

    @wraps(judge)
    def judged(rows: Sequence[Row]) -> Iterator[Claim]:
        printed = [row for row in rows if row["algorithm"] not in first_name]
        if len(printed) == len(rows):  # there is no second reading
            yield from judge(rows)
            return
        others = [row for row in rows if row["algorithm"] not in READING]
        second = [{**row, "algorithm": first_name.get(row["algorithm"], row["algorithm"])} for row in others]
        for one, two in zip(judge(printed), judge(second), strict=True):
            if one == two:
                yield one
            else:
                yield one._replace(text=f"{one.text} (SSOL as printed)")
                yield two._replace(text=f"{two.text} (SSOL on loss)")

    return judged


def look_of(label: str) -> dict[str, Any]:
    """How the line of an algorithm is drawn."""
    colour, style = LOOKS.get(label, (None, "-"))
    return {"color": colour, "linestyle": style, "label": label}


def draw_curves(
    axis: Any, curves: Mapping[str, Sequence[tuple[float, float]]], title: str, *, sparsest: float = 0.0, **style: Any
) -> None:
    """Curves over the density on a log scale, sparser to the right up to the sparsest, ticks that say sparsity."""
    for label, points in curves.items():
        look = {**look_of(label), "lw": 1.5, **style}
        axis.plot([100.0 - share for share, _ in points], [value for _, value in points], **look)
        sparsest = max([sparsest, *(share for share, _ in points)])
    shown = [tick for tick in TICKS if tick <= max(sparsest, 99.0)]
    axis.set_xscale("log")
    axis.set_xlim(110.0, (100.0 - shown[-1]) / 1.3)
    axis.set_xticks([100.0 - tick for tick in shown], [f"{tick:g}" for tick in shown])
    axis.minorticks_off()
    axis.set_xlabel("sparsity (%)", fontsize=8)
    axis.set_title(title, fontsize=10)
