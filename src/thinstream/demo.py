"""The main job in a minute: P0's synthetic experiment, one pass per model, as a table and a picture.

    thinstream demo

Each algorithm's parameters are chosen from P0's grid by the mistakes made while learning the first rows at l1 = 0
(progressive error, no test data); then l1 is swept over ten decades and every model is judged on the test stream. SSOL
runs in two readings of the paper: as printed, and "on loss", where only examples with a loss enter the covariance and
the threshold does not fall with t.
"""

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from thinstream.datasets import LabelledRows, sparse_gaussian
from thinstream.errors import MissingPackageError
from thinstream.estimators import make
from thinstream.plotting import matplotlib
from thinstream.tune.candidates import grid, paper_grid

#: Label in the picture → algorithm, and what is not chosen.
CONTESTANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "FSOL": ("FSOL", {}),
    "SSOL": ("SSOL", {}),
    "SSOL on loss": ("SSOL", {"update_on": "loss", "l1_schedule": "eta"}),
    "RDA": ("RDA", {}),
    "AdaRDA": ("AdaRDA", {}),
    "STG, period=10": ("STG", {"period": 10}),
    "FOBOS": ("FOBOS", {}),
    "AdaFOBOS": ("AdaFOBOS", {}),
}
L1 = np.geomspace(1e-4, 1e6, 31)
LEVELS = (0, 50, 80, 90, 95)


class Point(NamedTuple):
    """One model of the sweep."""

    l1: float
    sparsity: float  # percent of the weights that are zero
    error: float  # percent of the test stream
    seconds: float  # one pass over the training stream


def run(rows: int = 100_000, seed: int = 0, out: str = "demo.png") -> None:
    """Runs the experiment and writes the picture."""
    print(f"Generating P0's synthetic stream: {rows:,} rows, 1000 features, 100 of them informative …")
    train, test = sparse_gaussian(rows, max(rows // 10, 1), seed=seed)
    print("(the first run compiles each algorithm once, a few seconds each; later runs find them in the cache)\n")
    curves = {}
    for number, label in enumerate(CONTESTANTS, 1):
        chosen = choose_parameters(label, LabelledRows(train.X[:10_000], train.y[:10_000]))
        points = []
        for i, point in enumerate(sweep(label, chosen, train, test), 1):
            points.append(point)
            progress(f"{number}/{len(CONTESTANTS)} {label}: {i}/{len(L1)} models")
        curves[f"{label} ({', '.join(f'{name}={value:g}' for name, value in chosen.items())})"] = points
    progress("")
    print(table(curves))
    try:
        picture(curves, out)
    except MissingPackageError as error:
        print(f"\nNo picture: {error}")
    else:
        print(f"\nThe sparsity-error curve is in {out}.")


def choose_parameters(label: str, head: LabelledRows) -> dict[str, float]:
    """Those of P0's grid with the fewest progressive mistakes on the head of the stream."""
    settings = grid(paper_grid(CONTESTANTS[label][0].lower()))
    return min(settings, key=lambda setting: _model(label, **setting).fit(head.X, head.y).n_mistakes_)


def sweep(label: str, chosen: dict[str, float], train: LabelledRows, test: LabelledRows) -> Iterator[Point]:
    """One model per value of l1."""
    for l1 in L1:
        model = _model(label, **chosen, l1=float(l1))
        start = time.perf_counter()
        model.fit(train.X, train.y)
        seconds = time.perf_counter() - start
        error = 100.0 * (1.0 - float(model.score(test.X, test.y)))
        yield Point(float(l1), 100.0 * (1.0 - model.density_), error, seconds)


def _model(label: str, **parameters: float) -> Any:
    algorithm, fixed = CONTESTANTS[label]
    return make(algorithm, **fixed, **parameters, fit_intercept=False)  # the paper has none


def table(curves: dict[str, list[Point]]) -> str:
    """Best test error at each level of sparsity, and the time of a pass."""
    title = "best test error (%) at sparsity"
    width = max(map(len, (title, *curves)))
    head = "".join(f"{f'≥{level}%':>8}" for level in LEVELS)
    lines = [f"{title:<{width}}{head}{'one pass':>12}"]
    for label, points in curves.items():
        cells = ""
        for level in LEVELS:
            errors = [p.error for p in points if level <= p.sparsity < 100.0]
            cells += f"{min(errors):8.1f}" if errors else f"{'–':>8}"
        lines.append(f"{label:<{width}}{cells}{np.median([p.seconds for p in points]):10.2f} s")
    return "\n".join(lines)


def picture(curves: dict[str, list[Point]], path: str) -> None:
    """Test error against sparsity, all of it and the sparse end."""
    figure = matplotlib().figure.Figure(figsize=(12, 5.2), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    styles = ["o-", "s-", "s--", "D-", "^-", "v:", "<:", ">:"]
    for axis, low in zip(axes, (0, 80), strict=True):
        for i, ((label, points), style) in enumerate(zip(curves.items(), styles, strict=False)):
            shown = [(p.sparsity, p.error) for p in points if low <= p.sparsity < 100.0]  # in order of l1
            axis.plot(*zip(*shown, strict=True) if shown else ([], []), style, color=f"C{i}", ms=4, label=label)
        axis.set(xlabel="sparsity (% of weights that are zero)", xlim=(low - 1, 100.5), ylim=(0, 50))
        axis.axvline(90, color="0.8", lw=1, zorder=0)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("test error (%)")
    axes[0].set_title("P0 §5.2: one pass, one point per l1, joined in its order")
    axes[1].set_title("the sparse end (90 % of the features are noise)")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=130)


def progress(text: str) -> None:
    """A line on the terminal that overwrites itself; nothing where there is no terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
