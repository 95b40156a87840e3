"""P2 section 3.1: the stable sparse perceptron stops for good at a density that is given."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from papers import p2_common as p2
from papers.data import batch_of, unit_vectors
from papers.experiment import Cell, Claim, Experiment, Row, markdown
from papers.p2_fig5 import ETA, L1, MARGIN, PASSES
from papers.places import device_for
from papers.presenting import distinct, legend, mean, panels, pick
from thinstream.lanes.lanes import Lanes
from thinstream.lanes.learner import Learner

BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 1.0)
COPIES = 10
RULE = "StableSparsePerceptron"


def choose_setting(data: p2.Task, passes: int) -> dict[str, float]:
    """The candidate with the lowest error on the validation rows when nothing bounds it."""
    grid = [{"eta": eta, "l1": l1, "margin": margin} for eta, l1, margin in product(ETA, L1, MARGIN)]
    lanes = learned(data, grid, 0, passes)
    return grid[
        int(np.argmin(p2.errors(data.valid.X, data.valid.y, np.asarray(lanes.scores(unit_vectors(data.width))))))
    ]


def learned(data: p2.Task, settings: list[dict[str, float]], seed: int, passes: int) -> Lanes:
    """All settings as lanes over one shuffled copy, pass after pass."""
    batch = batch_of(data.train, np.random.default_rng(seed).permutation(len(data.train.y)))
    common: dict[str, Any] = {"n_features": data.width, "dtype": "float64", "fit_intercept": False}
    lanes = Lanes(RULE, settings, device=device_for(len(settings)), **common)
    for _ in range(passes):
        lanes.learn(batch)
    return lanes


def stopped(name: str, copies: int, passes: int, limit: int) -> list[Row]:
    """A row for each bound and copy."""
    data = p2.task(name, limit=limit)
    setting, rows = choose_setting(data, passes), []
    for seed in range(copies):
        lanes = learned(data, [{**setting, "max_density": bound} for bound in BOUNDS], seed, passes)
        weights = np.asarray(lanes.scores(unit_vectors(data.width)))
        wrong = p2.errors(data.test.X, data.test.y, weights)
        for lane, bound in enumerate(BOUNDS):
            rows.append({"task": name, "bound": 100.0 * bound, "copy": seed, **setting})
            rows[-1] |= {"width": data.width, "longest": int(np.diff(data.train.X.indptr).max())}
            rows[-1] |= {"error": 100.0 * float(wrong[lane]), **counted(lanes[lane], weights[:, lane], data, passes)}
    return rows


def counted(model: Learner, weights: Any, data: p2.Task, passes: int) -> Row:
    """How far a model came: its density in %, updates, passes until it was frozen."""
    rows = len(data.train.y)
    density = 100.0 * float(np.count_nonzero(weights)) / data.width
    seen = {"density": density, "updates": model.n_updates, "passes": model.t / rows}
    return {**seen, "frozen": int(model.t < rows * passes)}


def cells(smoke: bool) -> list[Cell]:
    """One for each task."""
    if smoke:
        return [Cell("comp vs rec", stopped, ("comp vs rec", 1, 1, 60), p2.needs("comp vs rec"))]
    return [Cell(name, stopped, (name, COPIES, PASSES, 0), p2.needs(name)) for name in p2.SIZES]


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """A table for each task."""
    for name in distinct(rows, "task"):
        lines = []
        for bound in distinct(rows, "bound"):
            own = pick(rows, task=name, bound=bound)
            found = {column: mean(own, column) for column in ("density", "error", "updates", "passes", "frozen")}
            spread = np.std([row["error"] for row in own])
            density, error = f"{found['density']:.2f}", f"{found['error']:.2f} ± {spread:.2f}"
            frozen = f"{found['passes']:.3f}" if found["frozen"] == 1 else f"– ({100 * found['frozen']:.0f} % did)"
            lines.append(
                ["none" if bound == 100 else f"{bound:g} %", density, error, f"{found['updates']:.0f}", frozen]
            )
        first = pick(rows, task=name)[0]
        head = ["bound", "density in %", "test error in %", "updates", "frozen after passes"]
        chosen = f"η = {first['eta']:g}, λ = {first['l1']:g}, τ = {first['margin']:g}"
        yield f"**{name}** ({first['width']:,} features; {chosen})\n\n{markdown(head, lines)}"


def draw(rows: Sequence[Row], figure: Any) -> None:
    """Density, error and updates against the bound; a line for each task."""
    axes = panels(figure, 1, 3, 13.0, 4.6)[0]
    measures = {
        "density": "density reached (%)",
        "error": "test error (%)",
        "updates": "updates until frozen, or in all",
    }
    bounds = [bound for bound in distinct(rows, "bound") if bound < 100]
    for panel, (column, label) in zip(axes, measures.items(), strict=True):
        for name in distinct(rows, "task"):
            y = [mean(pick(rows, task=name, bound=bound), column) for bound in bounds]
            panel.plot(bounds, y, "o-", ms=4, color=p2.TASK_COLOURS[name], label=name)
        if column == "density":
            panel.plot(bounds, bounds, ":", color="gray", label="the bound")
        panel.set(xscale="log", yscale="log", xlabel="bound on the density (%)", ylabel=label)
        panel.set_xticks(bounds, [f"{bound:g}" for bound in bounds], minor=False)
        panel.tick_params(axis="x", which="minor", labelbottom=False)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}" if column == "error" else "")
    legend(figure, axes[:1], 7)


def claims(rows: Sequence[Row]) -> Iterator[Claim]:
    """That the bound is kept, and what it costs."""
    beyond = [row["density"] - row["bound"] for row in rows]
    most = max(100.0 * row["longest"] / row["width"] for row in rows)
    kept = all(row["density"] < row["bound"] + 100.0 * row["longest"] / row["width"] for row in rows)
    free = {name: mean(pick(rows, task=name, bound=100.0), "density") for name in distinct(rows, "task")}
    errors = {
        (name, bound): mean(pick(rows, task=name, bound=bound), "error") for name in free for bound in (1, 10, 40)
    }
    yield Claim(
        "the density stays below the bound, but for the features of one example",
        kept,
        f"at most {max(beyond):.2f} points above it; the longest example has {most:.1f} % of the features",
    )
    yield Claim(
        "without a bound it stops growing by itself, before 40 % density in most tasks",
        2 * sum(density < 40 for density in free.values()) > len(free),
        "density after all passes: " + ", ".join(f"{name} {density:.0f} %" for name, density in free.items()),
    )
    yield Claim(
        "(ours) a tighter bound costs accuracy",
        all(errors[name, 40] < errors[name, 1] for name in free),
        "error at 1 %, 10 % and 40 %: "
        + "; ".join(", ".join(f"{errors[name, bound]:.1f}" for bound in (1, 10, 40)) for name in free),
    )


EXPERIMENT = Experiment.of(__name__, "p2-stopping")
