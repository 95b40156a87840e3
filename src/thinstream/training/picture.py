"""A picture of a run: the error along the stream, and where monitors found it to have risen."""

import os
from typing import Any

import numpy as np

from thinstream.plotting import draw_into, matplotlib
from thinstream.training.drift import DriftWatch

#: Stretches that are drawn at most, each the mean of its rows.
POINTS = 128
_COLOURS = {"adwin": "#c8553d", "ddm": "#b8860b", "page-hinkley": "#6a4c93"}


def draw_run(watch: DriftWatch, title: str, path: str | os.PathLike[str]) -> None:
    """Draws into a PNG or SVG file, which is replaced as a whole; the same run gives the same bytes."""
    draw_into(path, lambda: _figure(watch, title))


def _figure(watch: DriftWatch, title: str) -> Any:
    figure = matplotlib().figure.Figure(figsize=(9, 4.2), layout="constrained")
    axes = figure.subplots()
    stretches = watch.curve.stretches()
    many = -(-len(stretches) // POINTS)
    groups = [stretches[start : start + many] for start in range(0, len(stretches), many or 1)]
    ends = np.array([group[-1].until for group in groups])
    errors = np.array([sum(each.wrong for each in group) / sum(each.rows for each in group) for group in groups])
    wrong, rows = (np.cumsum([sum(each[k] for each in group) for group in groups]) for k in (2, 1))
    axes.step(
        [0, *ends],
        100 * errors[[0, *range(len(errors))]],
        where="pre",
        color="#2a7f9e",
        lw=1.3,
        label="in each stretch of rows",
    )
    axes.plot(ends, 100 * wrong / rows, color="0.55", lw=1.1, ls="--", label="since the start")
    seen = set[str]()
    for monitor, change in watch.told:
        label = None if monitor in seen else f"{monitor}: the error has risen"
        axes.axvline(change.row, color=_COLOURS.get(monitor, "0.2"), lw=1.1, alpha=0.8, label=label)
        seen.add(monitor)
    axes.set(title=title, xlabel="examples", ylabel="progressive error, %", xlim=(0, max(ends[-1], 1)))
    axes.set_ylim(0, min(100, 110 * max(errors.max(), 0.01)))
    axes.xaxis.set_major_formatter(matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure
