"""A picture of a run: the error along the stream, where monitors found it risen, and who led when in a blend."""

import os
from typing import Any

import numpy as np

from thinstream.blend.record import Record
from thinstream.plotting import draw_into, matplotlib
from thinstream.training.drift import DriftWatch

#: Stretches that are drawn at most, each the mean of its rows.
POINTS = 128
_COLOURS = {"adwin": "#c8553d", "ddm": "#b8860b", "page-hinkley": "#6a4c93"}


def draw_run(watch: DriftWatch, title: str, path: str | os.PathLike[str], record: Record | None = None) -> None:
    """Draws into a PNG or SVG file, which is replaced as a whole; the same run gives the same bytes.

    With the ``record`` of a blend there are the errors of its models, its own below them, and their shares.
    """
    draw_into(path, lambda: _figure(watch, title, record))


def _figure(watch: DriftWatch, title: str, record: Record | None) -> Any:
    many = record is not None and len(record.noted) > 1
    figure = matplotlib().figure.Figure(figsize=(9, 9.6 if many else 4.2), layout="constrained")
    if record is None or not many:
        _draw_error(figure.subplots(), watch, title)
        return figure
    top, middle, bottom = figure.subplots(3, 1)
    _draw_error(top, watch, title)
    _draw_models(middle, bottom, record)
    return figure


def _draw_models(errors: Any, shares: Any, record: Record) -> None:
    """Between doublings: the error of each model and of the blend; and the share each had in the end of it."""
    rows, mistakes = record.noted.T
    spans, ends = np.diff(rows, prepend=0), rows.astype(float)
    wrong = np.diff(record.noted_mistakes, axis=0, prepend=0) / spans[:, np.newaxis]
    there = np.array([ends <= (until if until >= 0 else np.inf) for until in record.until]).T
    order = np.argsort(-record.noted_shares.sum(axis=0), kind="stable")
    colours = matplotlib().colormaps["tab20"](np.arange(len(order)) % 20)
    for colour, k in zip(colours, order, strict=True):
        shown = np.where(there[:, k], 100 * wrong[:, k], np.nan)
        errors.plot(ends, shown, color=colour, lw=1.1, label=str(record.members[k]))
    errors.plot(ends, 100 * np.diff(mistakes, prepend=0) / spans, color="black", lw=2.4, label="the blend")
    errors.set(ylabel="error since the doubling before, %")
    errors.legend(frameon=False, fontsize=7, ncols=2)
    shares.stackplot(ends, 100 * record.noted_shares[:, order].T, colors=colours)
    shares.set(xlabel="examples", ylabel="share in the blend, %", ylim=(0, 100))
    for axes in (errors, shares):
        axes.set_xscale("log", base=2)
        axes.set_xlim(ends[0], ends[-1])
        axes.xaxis.set_major_formatter(matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)


def _draw_error(axes: Any, watch: DriftWatch, title: str) -> None:
    stretches = watch.curve.stretches()
    many = -(-len(stretches) // POINTS)
    groups = [stretches[start : start + many] for start in range(0, len(stretches), many or 1)]
    if len(groups) > 1 and 4 * sum(each.rows for each in groups[-1]) < sum(each.rows for each in groups[0]):
        groups.pop()  # of a few rows at the end an error says nothing
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
    axes.set(title=title, xlabel="examples", ylabel="progressive error, %", xlim=(0, stretches[-1].until))
    axes.set_ylim(0, min(100, 110 * max(errors.max(), 0.01)))
    axes.xaxis.set_major_formatter(matplotlib().ticker.StrMethodFormatter("{x:,.0f}"))
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
