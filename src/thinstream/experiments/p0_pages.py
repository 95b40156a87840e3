"""How P0's pages look: colours, axes of sparsity, tables at given sparsities."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from thinstream.experiments.experiment import Row, markdown
from thinstream.experiments.rows import plus_minus

LIBLINEAR = "liblinear"
#: Of an algorithm, the same in all figures; the cost-sensitive form has the colour of the plain one.
COLOURS = {
    "STG": "tab:brown",
    "FOBOS": "tab:orange",
    "AdaFOBOS": "tab:red",
    "FSOL": "tab:cyan",
    "AdaRDA": "tab:green",
    "SSOL": "tab:blue",
    "CS-FSOL": "tab:cyan",
    "CS-SSOL": "tab:blue",
    "CS-OGD": "tab:purple",
    "CPA": "tab:pink",
    "PAUM": "tab:olive",
    LIBLINEAR: "0.3",
}
STYLES: dict[str, Any] = {
    "STG": ":",
    "FOBOS": (0, (4, 1.5)),  # seldom far from STG
    "AdaFOBOS": ":",
    LIBLINEAR: "--",
    "CS-OGD": "-",
    "CPA": "-.",
    "PAUM": (0, (4, 4)),  # mostly on the line of CS-OGD
}
TICKS = (50.0, 90.0, 99.0, 99.9, 99.99)


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
    """Sets × algorithms at a level of sparsity, the best of each set in bold (``beside`` is no contestant)."""
    lines = []
    for name in sets:
        cells = {label: values.get((name, label, level)) for label in algorithms}
        ranked = {label: cell[0] for label, cell in cells.items() if cell and label != beside}
        best = (min if least else max)(ranked.values(), default=math.nan)
        texts = [f"**{plus_minus(c)}**" if ranked.get(label) == best else plus_minus(c) for label, c in cells.items()]
        lines.append([name, *texts])
    title = "l1 = 0" if level == 0.0 else f"{level:g} % sparse"
    return markdown([title, *algorithms], lines)


def sparsity_axis(axis: Any, sparsest: float) -> None:
    """Logarithmic in the density, sparser to the right, ticks that say sparsity."""
    shown = [tick for tick in TICKS if tick <= max(sparsest, 99.0)]
    axis.set_xscale("log")
    axis.set_xlim(110.0, (100.0 - shown[-1]) / 1.3)
    axis.set_xticks([100.0 - tick for tick in shown], [f"{tick:g}" for tick in shown])
    axis.minorticks_off()
    axis.set_xlabel("sparsity (%)", fontsize=8)
    axis.grid(alpha=0.3)


def plot_curve(axis: Any, label: str, points: Sequence[tuple[float, float]], **style: Any) -> None:
    """(sparsity, value) of models in order of l1; those without a weight are left out."""
    shown = [(100.0 - share, value) for share, value in points if share < 100.0]
    look = {"color": COLOURS.get(label), "linestyle": STYLES.get(label, "-"), "label": label, "lw": 1.5, **style}
    axis.plot([density for density, _ in shown], [value for _, value in shown], **look)
