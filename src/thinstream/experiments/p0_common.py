"""What P0's experiments share: the contestants, tuning at l1 = 0, models of many l1 as lanes, a value at a sparsity."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.batch import Batch
from thinstream.engine.loop import Costs
from thinstream.experiments.data import Data, split
from thinstream.experiments.experiment import Row
from thinstream.lanes import Lanes
from thinstream.tune.candidates import grid
from thinstream.tune.paper import FOLDS, paper_grid
from thinstream.tune.passes import Terms
from thinstream.tune.scoring import scoring_of
from thinstream.tune.search import search
from thinstream.tune.sources import Matrix
from thinstream.tune.study import Lane

Numbers = NDArray[np.float64]

#: Orders of the training rows that are averaged over, values of l1 in a sweep (0 among them), rows of a smoke run.
PERMUTATIONS, MODELS, FEW = 5, 64, 300
#: Where the ends of a sweep are looked for.
WIDE = np.geomspace(1e-8, 1e8, MODELS - 1)
#: Sparsities, in percent, at which curves are compared.
LEVELS = (90.0, 95.0, 99.0, 99.5, 99.9)
PLAIN = Costs()
#: Bytes the lanes of a search may take.
MEMORY = 1_500_000_000


class Contestant(NamedTuple):
    """An algorithm of a figure, with what is not tuned."""

    algorithm: str
    fixed: Mapping[str, Any] = {}
    is_sparse: bool = True
    has_costs: bool = False


#: The paper's six. STG truncates every tenth round: with a period of 1 it would be FOBOS.
SPARSE = {
    "STG": Contestant("stg", {"period": 10}),
    "FOBOS": Contestant("fobos"),
    "AdaFOBOS": Contestant("adafobos"),
    "FSOL": Contestant("fsol"),
    "AdaRDA": Contestant("adarda"),
    "SSOL": Contestant("ssol"),
}
SECOND_ORDER_AVERAGING, TRUNCATING = ("SSOL", "AdaRDA"), ("STG", "FOBOS", "AdaFOBOS")
#: What a smoke run has: few loops to compile.
SMOKE = ("FSOL", "SSOL")


@lru_cache(maxsize=2)
def task(name: str, smoke: bool = False) -> tuple[Data, Data]:
    """Rows to learn from and rows to test with, of unit length, without features that no row has."""
    train, test = split(name, rows=FEW if smoke else None)
    used = np.union1d(train.X.indices, test.X.indices)
    return Data(train.X[:, used], train.y), Data(test.X[:, used], test.y)


def batch_of(data: Data) -> Batch:
    """Rows as learners take them."""
    return Batch.of(data.X.indptr, data.X.indices, data.X.data, data.X.shape[1], y=data.y)


def permuted(data: Data, number: int) -> Data:
    """The rows in the order of a permutation."""
    return data.take(np.random.default_rng(number).permutation(len(data.y)))


def tuned(
    contestant: Contestant, rows: Batch, costs: Costs = PLAIN, scoring: str = "error", smoke: bool = False
) -> dict[str, Any]:
    """The paper's protocol: 5 folds over its grids with l1 = 0, all candidates and folds as lanes of one pass."""
    if contestant.algorithm == "cpa":  # nothing to tune
        return dict(contestant.fixed)
    space = paper_grid(contestant.algorithm)
    if smoke:
        space = {name: values[5:7] for name, values in space.items()}
    lanes = [Lane({**contestant.fixed, **setting}, costs) for setting in grid(space)]
    terms = Terms(contestant.algorithm, FOLDS, n_features=rows.n_features, dtype="float64", final=True, memory=MEMORY)
    found = search(Matrix(rows), terms, lanes, scoring_of(scoring))
    return dict(lanes[found.best].parameters)


class Measured(NamedTuple):
    """What became of models, one number for each."""

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
    d = lanes.n_features
    unit = Batch.of(np.arange(d + 1), np.arange(d, dtype=np.int32), np.ones(d), d)
    return np.asarray(lanes.scores(unit), np.float64)


def learned(
    contestant: Contestant, parameters: Mapping[str, Any], l1: Sequence[float], rows: Batch, costs: Costs = PLAIN
) -> Lanes:
    """A model for each l1, all in one pass; of algorithms without l1 a single one."""
    each = [{**parameters, "l1": value} for value in l1] if contestant.is_sparse else [parameters]
    lanes = Lanes(contestant.algorithm, each, n_features=rows.n_features, dtype="float64", costs=[costs] * len(each))
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
    """0, and others from where l1 takes the first weights to where it takes the last, looked for in one pass."""
    if not contestant.is_sparse:
        return [0.0]
    wide = WIDE[::8] if smoke else WIDE
    nnz = (weights_of(learned(contestant, parameters, [0.0, *wide], rows, costs)) != 0.0).sum(axis=0)
    low, high = ends(nnz.astype(np.float64))
    return [0.0, *np.geomspace(wide[low], wide[high], len(wide)).tolist()]


def ends(nnz: Numbers) -> tuple[int, int]:
    """Places of the last l1 that takes next to nothing and of the first that leaves next to nothing.

    The first model, of l1 = 0, is not counted.

    >>> ends(np.array([1000.0, 1000.0, 990.0, 400.0, 30.0, 0.0, 0.0]))
    (1, 4)
    """
    others = nnz[1:]
    full, left = np.flatnonzero(others >= 0.95 * nnz[0]), np.flatnonzero(others > 1.0)
    low = int(full[-1]) if len(full) else 0
    high = min(int(left[-1]) + 1 if len(left) else 0, len(others) - 1)
    return (low, high) if low < high else (0, len(others) - 1)


def at_sparsity(nnz: Numbers, value: Numbers, n_features: int, level: float) -> float:
    """The value at a sparsity in percent, on lines between models in order of log(non-zeros).

    Models with the same number of non-zeros count as one, with their mean value. Where all models are sparser, it is
    that of the densest; where none is, NaN.

    >>> at_sparsity(np.array([100.0, 10.0, 1.0, 0.0]), np.array([2.0, 4.0, 8.0, 50.0]), 1000, 99.0)
    4.0
    """
    some = nnz >= 1.0
    counts, group = np.unique(nnz[some], return_inverse=True)
    if not len(counts):
        return float("nan")
    means = np.bincount(group, value[some]) / np.bincount(group)
    target = np.log(round((100.0 - level) * n_features / 100.0, 9))
    return float(np.interp(target, np.log(counts), means, left=np.nan))


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


def curve_rows(about: Row, l1: Sequence[float], runs: Sequence[Measured], n_features: int, measure: str) -> list[Row]:
    """A row for each l1 (kind "curve"), then one for each of `LEVELS` (kind "level"): means over the runs."""
    values = [getattr(run, measure) for run in runs]
    mean, spread = summary(values)
    share = sparsity(np.mean([run.nnz for run in runs], axis=0), n_features)
    rows: list[Row] = [
        {
            **about,
            "kind": "curve",
            "l1": l1[k],
            "sparsity": float(share[k]),
            measure: float(mean[k]),
            "spread": float(spread[k]),
        }
        for k in range(len(l1))
    ]
    levels = [
        [at_sparsity(run.nnz, value, n_features, level) for level in LEVELS]
        for run, value in zip(runs, values, strict=True)
    ]
    mean, spread = summary(levels)
    return rows + [
        {**about, "kind": "level", "level": level, measure: float(mean[k]), "spread": float(spread[k])}
        for k, level in enumerate(LEVELS)
    ]
