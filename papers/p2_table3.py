"""P2 Table 3: how many weights of SMIDAS are lost next to the largest."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import p2_common as p2
from papers.data import batch_of
from papers.experiment import Cell, Claim, Compared, Experiment, Row, markdown
from papers.presenting import distinct, legend, panels_for, pick, published
from thinstream.diagnostics.diagnosis import exponents
from thinstream.lanes.learner import Learner

DENSITY = 0.4
ETA, L1, PASSES = 0.5, 1e-4, 3  # of P2's grids the pair that grows fastest
FACTORS = (2.0, 0.5)
COLOURS = {2.0: "black", 0.5: "tab:blue"}
WITHOUT = 51  # powers of 2 below the largest that still count in float64
BINS = np.arange(-300, 21, 4)


def weights_at(data: p2.Task, setting: dict[str, Any], passes: int, density: float = DENSITY) -> NDArray[np.float64]:
    """SMIDAS's weights when its density reaches a bound, or after the last pass."""
    rows = len(data.train.y)
    batch = batch_of(data.train, np.random.default_rng(0).permutation(rows))
    model, done = Learner("SMIDAS", n_features=data.width, dtype="float64", fit_intercept=False, **setting), 0
    weights = np.zeros(data.width)
    for stop in p2.halts(rows, passes, 1.1):
        start = done % rows
        model.learn(batch.take(np.arange(start, start + stop - done)))
        weights, done = np.asarray(model.weights(), dtype=np.float64), stop
        if np.count_nonzero(weights) >= density * data.width:
            break
    return weights


def spread(name: str, factor: float, passes: int, limit: int) -> list[Row]:
    """The exponents of a task's model."""
    data = p2.task(name, limit=limit)
    p = max(2.0, factor * float(np.log(data.width)))
    weights = weights_at(data, {"eta": ETA, "l1": L1, "p": p}, passes)
    seen = exponents(weights)
    counts, _ = np.histogram(np.frexp(weights[weights != 0])[1] - 1, BINS)
    row = {"task": name, "factor": factor, "p": p, "within": seen.within, "mean": seen.mean}
    row |= {"std": seen.std, "largest": seen.largest, "density": 100.0 * seen.nonzero / data.width}
    row["error"] = 100.0 * float(p2.errors(data.test.X, data.test.y, weights[:, np.newaxis])[0])
    return [{**row, "histogram": " ".join(map(str, counts))}]


def cells(smoke: bool) -> list[Cell]:
    """One for each task and p."""
    tasks, work = (("comp vs rec",), (1, 60)) if smoke else ((*p2.SIZES, p2.REUTERS), (PASSES, 0))
    return [Cell(f"{name} {f:g}", spread, (name, f, *work), p2.needs(name)) for name in tasks for f in FACTORS]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Return the paper's table, with the properties of the models."""
    head = ["task", "p", "density in %", "within", "exponents", "test error in %"]
    lines = [
        [
            str(row["task"]),
            f"{row['factor']:g} ln d = {row['p']:.1f}",
            f"{row['density']:.0f}",
            f"{row['within']:.3f}",
            f"{row['mean']:.1f} ± {row['std']:.1f}",
            f"{row['error']:.1f}",
        ]
        for row in rows
    ]
    yield markdown(head, lines)


def draw(rows: Sequence[Row], figure: Any) -> None:
    """How the exponents are spread, a panel for each task; what is left of a line is lost next to the largest."""
    tasks = distinct(rows, "task")
    axes = panels_for(figure, tasks, min(4, len(tasks)), 3.6, 2.7, 0.6)
    for panel, name in axes:
        for row in pick(rows, task=name):
            counts = np.array([int(part) for part in str(row["histogram"]).split()])
            colour, p = COLOURS[row["factor"]], f"p = {row['factor']:g} ln d"
            panel.stairs(counts / counts.sum(), BINS, color=colour, fill=True, alpha=0.45, label=p)
            reach = f"reach of the largest, {p}"
            panel.axvline(row["largest"] - WITHOUT, color=colour, ls="--", lw=1, label=reach)
        panel.set(title=name, xlabel="exponent of the weight (powers of 2)", ylabel="share of the weights")
        panel.set_xlim(-300, 20)
    legend(figure, axes[0][:1], 4)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """Check the statements of section 4.3."""
    wide, narrow = (pick(rows, factor=factor) for factor in FACTORS)
    yield Claim(
        "with p = 2 ln d most weights are out of reach of the largest",
        all(row["within"] < 0.5 for row in wide),
        "within reach: " + ", ".join(f"{row['within']:.3f}" for row in wide),
    )
    yield Claim(
        "with p = 0.5 ln d nearly all are within reach",
        all(row["within"] > 0.95 for row in narrow),
        "within reach: " + ", ".join(f"{row['within']:.3f}" for row in narrow),
    )
    yield Claim(
        "the exponents spread much less, and the error falls",
        all(2 * b["std"] < a["std"] and b["error"] < a["error"] for a, b in zip(wide, narrow, strict=True)),
        "deviations: "
        + ", ".join(f"{a['std']:.0f} → {b['std']:.0f}" for a, b in zip(wide, narrow, strict=True))
        + "; errors: "
        + ", ".join(f"{a['error']:.1f} → {b['error']:.1f}" for a, b in zip(wide, narrow, strict=True)),
    )


def compare(rows: Sequence[Row]) -> Iterator[Compared]:
    """The shares, in points, and the means of the exponents."""
    paper = published("p2-table3")
    why = "P2 gives neither η and λ nor the scale of its rows, and exponents depend on all three"
    for row in (row for row in rows if row["task"] in p2.SIZES):
        name = f"SMIDAS p={row['factor']:g} ln d"
        label = f"{row['task']}, p = {row['factor']:g} ln d"
        share, mean = (paper[str(row["task"]), name, measure] for measure in ("within", "exponent"))
        yield Compared(f"{label}, within, in %", 100 * row["within"], float("nan"), 100 * share.value, why)
        yield Compared(f"{label}, exponents", row["mean"], row["std"], mean.value, why)


EXPERIMENT = Experiment.of(__name__, "p2-table3")
