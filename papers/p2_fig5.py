"""P2 Figure 5: error against density."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from papers import p2_common as p2
from papers.data import batch_of, unit_vectors
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.places import device_for
from papers.presenting import distinct, legend, panels_for, pick, plot_rows
from thinstream.lanes.lanes import Lanes

LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
ETA, L1, MARGIN = (0.1, 0.2, 0.3, 0.4, 0.5), (1e-4, 5e-4, 1e-3, 1e-2, 1e-1), (1e-3, 1e-2, 1e-1)
PASSES, COPIES, DOCUMENTS = 10, 3, p2.DOCUMENTS
#: A round of SMIDAS costs as much as there are weights: fewer candidates and passes.
MIRROR_ETA, MIRROR_L1, MIRROR_PASSES = (0.1, 0.3, 0.5), (1e-4, 5e-4, 1e-3), 2
#: Algorithm → shuffled copies of the training rows, and passes over each.
WORK = {
    name: (COPIES if name in ("stable", "TG") else 1, MIRROR_PASSES if "SMIDAS" in name else PASSES)
    for name in p2.COLOURS
}
Settings = list[dict[str, Any]]


class Grown(NamedTuple):
    """Of each level and candidate: the last model that was no denser than the level."""

    valid: NDArray[np.float64]
    test: NDArray[np.float64]
    density: NDArray[np.float64]
    passed: NDArray[np.float64]  # 1 where it grew beyond the level

    @classmethod
    def empty(cls, candidates: int) -> "Grown":
        """Nothing known yet."""
        shape = len(LEVELS), candidates
        return cls(np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape))


class Growth:
    """Judges weights along a run; a candidate that was denser than a level once is past it for good."""

    def __init__(self, data: p2.Task, candidates: int) -> None:
        self.data, self.found = data, Grown.empty(candidates)

    def see(self, weights: NDArray[np.float64], lanes: Sequence[int]) -> None:
        """The weights of these candidates, a column each, somewhat later than the last ones."""
        density = np.count_nonzero(weights, axis=0) / self.data.width
        valid, test = (p2.errors(part.X, part.y, weights) for part in (self.data.valid, self.data.test))
        for level, bound in enumerate(LEVELS):
            for column, lane in enumerate(lanes):
                if density[column] > bound:
                    self.found.passed[level, lane] = 1.0
                if not self.found.passed[level, lane]:
                    for kept, seen in zip(self.found[:3], (valid, test, density), strict=True):
                        kept[level, lane] = seen[column]

    def left(self) -> list[int]:
        """Candidates that are not past the last level."""
        return np.flatnonzero(self.found.passed[-1] == 0).tolist()


def grown(algorithm: str, settings: Settings, data: p2.Task, seed: int, passes: int) -> Grown:
    """All candidates on one shuffled copy of the training rows, in as many passes, as lanes."""
    growth, rows = Growth(data, len(settings)), len(data.train.y)
    batch = batch_of(data.train, np.random.default_rng(seed).permutation(rows))
    growth.see(np.zeros((data.width, len(settings))), range(len(settings)))
    common: dict[str, Any] = {"n_features": data.width, "dtype": "float64", "fit_intercept": False}
    lanes = Lanes(algorithm, settings, device=device_for(len(settings)), **common)
    here, basis, done = list(range(len(settings))), unit_vectors(data.width), 0
    for stop in p2.halts(rows, passes):
        start = done % rows
        lanes.learn(batch.take(np.arange(start, start + stop - done)))
        done = stop
        growth.see(np.asarray(lanes.scores(basis), dtype=np.float64), here)
        left = growth.left()
        if not left:
            break
        if len(left) < len(here):
            lanes.keep([here.index(lane) for lane in left])
            here = left
    return growth.found


def descended(data: p2.Task, seed: int, passes: int) -> Grown:
    """SCD: the first k of the same random coordinates, for more and more k."""
    import thinstream as ts

    growth = Growth(data, len(L1))
    order = np.random.default_rng(seed).integers(data.width, size=passes * data.width)
    for lane, l1 in enumerate(L1):
        growth.see(np.zeros((data.width, 1)), [lane])
        for stop in coordinates(data.width, passes):
            model = ts.SCD(l1=l1, coordinates=order[:stop], fit_intercept=False).fit(data.train.X, data.train.y)
            growth.see(model.coef_.T, [lane])
            if lane not in growth.left():
                break
    return growth.found


def coordinates(width: int, passes: int) -> list[int]:
    """Numbers of coordinates after which SCD is looked at: after fewer than a hundredth no level can be reached.

    >>> coordinates(1000, 10)
    [10, 15, 22, 33, 49, 73, 109, 163, 244, 366, 549, 823, 1000, 2000, 5000, 10000]
    """
    found = [max(1, width // 100)]
    while 1.5 * found[-1] < width:
        found.append(max(found[-1] + 1, 3 * found[-1] // 2))
    return [*found, *(width * done for done in (1, 2, 5, 10) if done <= passes)]


def settings_of(algorithm: str, width: int) -> tuple[str, Settings]:
    """The rule's name, and P2's grid."""
    pairs = [{"eta": eta, "l1": l1} for eta, l1 in product(ETA, L1)]
    if algorithm == "stable":
        return "StableSparsePerceptron", [{**pair, "margin": margin} for pair in pairs for margin in MARGIN]
    if algorithm == "TG":
        return "STG", [{**pair, "rate": "const", "loss": "logistic"} for pair in pairs]
    p = max(2.0, (2.0 if "2 ln d" in algorithm else 0.5) * float(np.log(width)))
    return "SMIDAS", [{"eta": eta, "l1": l1, "p": p} for eta, l1 in product(MIRROR_ETA, MIRROR_L1)]


def curve(name: str, algorithm: str, copies: int, passes: int, limit: int) -> list[Row]:
    """Of each level the test error of the candidate with the lowest mean error on the validation rows."""
    data = p2.task(name, limit=limit)
    if algorithm == "SCD":
        runs, settings = [descended(data, 0, passes)], [{"l1": l1} for l1 in L1]
    else:
        rule, settings = settings_of(algorithm, data.width)
        runs = [grown(rule, settings, data, seed, passes) for seed in range(copies)]
    found = []
    for level, bound in enumerate(LEVELS):
        valid, test, density, passed = (np.array([part[level] for part in field]) for field in zip(*runs, strict=True))
        best = int(np.argmin(valid.mean(axis=0)))
        chosen = {key: value for key, value in settings[best].items() if key in ("eta", "l1", "margin")}
        spread = float(100 * test[:, best].std()) if len(runs) > 1 else float("nan")
        means = {
            "error": 100 * test[:, best].mean(),
            "spread": spread,
            "density": 100 * density[:, best].mean(),
            "passed": passed[:, best].mean(),
        }
        row = {"task": name, "algorithm": algorithm, "level": 100 * bound, **{k: float(v) for k, v in means.items()}}
        found.append({**row, **chosen})
    return found


def cells(smoke: bool) -> list[Cell]:
    """One for each task and algorithm; SMIDAS and SCD shuffle by themselves, so they have one copy."""
    if smoke:
        return [
            Cell(f"{name} {algorithm}", curve, (name, algorithm, 1, 1, 60), p2.needs(name))
            for name, algorithm in (("comp vs rec", "stable"), ("comp vs rec", "SCD"), ("sci vs talk", "stable"))
        ]
    return [
        Cell(f"{name} {algorithm}", curve, (name, algorithm, *work, 0), p2.needs(name))
        for name in (*p2.SIZES, p2.REUTERS)
        for algorithm, work in WORK.items()
    ]


def at(rows: Sequence[Row], level: float) -> dict[tuple[str, str], Row]:
    """(task, algorithm) → row at a level in %."""
    return {(row["task"], row["algorithm"]): row for row in rows if row["level"] == level}


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each task."""
    for name in distinct(rows, "task"):
        lines = []
        for algorithm in distinct(rows, "algorithm"):
            own = pick(rows, task=name, algorithm=algorithm)
            if own:
                lines.append([algorithm, *(f"{row['error']:.1f} ({row['density']:.1f})" for row in own)])
        head = ["test error in % (density in %)", *(f"≤ {100 * level:g} %" for level in LEVELS)]
        yield f"**{name}**\n\n{markdown(head, lines)}"


def draw(rows: Sequence[Row], figure: Any) -> None:
    """A panel for each task."""
    tasks = distinct(rows, "task")
    axes = panels_for(figure, tasks, min(4, len(tasks)), 3.6, 3.3, 0.6)
    for panel, name in axes:
        for algorithm in distinct(rows, "algorithm"):
            own, look = pick(rows, task=name, algorithm=algorithm), {"color": p2.COLOURS[algorithm], "label": algorithm}
            plot_rows(panel, own, "level", "error", "o-", ms=3, **look)
        panel.set(title=name, xscale="log", yscale="log", xlabel="density allowed (%)", ylabel="test error (%)")
        panel.set_xticks([1, 2, 5, 10, 20, 40], ["1", "2", "5", "10", "20", "40"], minor=False)
        panel.set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"], minor=False)
        panel.set_ylim(1, 60)
        panel.minorticks_off()
    legend(figure, axes[0][:1], 5)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Check the statements of section 4.4."""
    most, tasks = at(rows, 40.0), distinct(rows, "task")
    yield lowest(rows, 10.0, "a tenth of the features")
    yield lowest(rows, 40.0, "40 % of the features")
    pairs = (
        ("SMIDAS, p = 0.5 ln d", "SMIDAS, p = 2 ln d", "SMIDAS is better with p = 0.5 ln d than with 2 ln d", tasks),
        ("SCD", "TG", "SCD is better than TG on 20 newsgroups", [name for name in tasks if name in p2.SIZES]),
    )
    for better, worse, text, there in pairs:
        both = [
            (most[n, better]["error"], most[n, worse]["error"]) for n in there if {(n, better), (n, worse)} <= set(most)
        ]
        if both:
            evidence = "errors at ≤ 40 %: " + ", ".join(f"{a:.1f} against {b:.1f}" for a, b in both)
            yield Claim(text, all(a < b for a, b in both), evidence)


def lowest(rows: Sequence[Row], level: float, words: str) -> Claim:
    """Whether the stable method has the lowest error of all at a level."""
    here = at(rows, level)
    gains = [
        min((row["error"] for (own, a), row in here.items() if own == name and a != "stable"), default=np.nan)
        - here[name, "stable"]["error"]
        for name in distinct(rows, "task")
    ]
    wins = sum(gain >= 0 for gain in gains)
    evidence = f"in {wins} of {len(gains)} tasks; points by which the best other is worse: "
    evidence += ", ".join(f"{gain:+.1f}" for gain in gains)
    return Claim(f"with {words} the stable method has the lowest error", wins == len(gains), evidence)


EXPERIMENT = Experiment.of(__name__, "p2-fig5")
