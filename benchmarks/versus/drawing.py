"""Pictures: error against the size of the model, and times."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.versus.judging import OURS, by_tool
from benchmarks.versus.sets import SETS
from benchmarks.versus.thinned import COLUMN
from benchmarks.versus.tools import TOOLS

from thinstream.files import replacing
from thinstream.plotting import matplotlib

Row = dict[str, Any]
COLOURS = {
    OURS: "#c8102e",
    "Vowpal Wabbit": "#1f77b4",
    "scikit-learn": "#ff9f1c",
    "River": "#2ca02c",
    "LIBSOL": "#9467bd",
    "liblinear": "#7f7f7f",
}
ACROSS = 4
#: Columns that are drawn besides, and how the legend shows them.
STYLES = {
    COLUMN: {"ls": "--", "marker": ".", "label": "Auto, refitted"},
    "tried pruned": {"ls": "", "marker": "D", "mfc": "white", "label": f"{OURS}, pruned (tried later)"},
}


def sizes(rows: Sequence[Row], path: Path) -> None:
    """A panel for each text set: lines are the sparse models, points the tuned ones."""
    names = [name for name, one in SETS.items() if one.text and by_tool(rows, name, "tuned")]
    if not names:
        return
    figure, panels = _panels(len(names), width=3.3, height=2.7)
    for name, panel in zip(names, panels, strict=True):
        lowest, points = [], []
        for tool, row in by_tool(rows, name, "tuned").items():
            path_of = {"color": COLOURS[tool], "zorder": 3 if tool == OURS else 2}
            swept = [one for one in rows if (one["set"], one["tool"], one["column"]) == (name, tool, "sparse")]
            front = frontier([(one["nnz"], one["error"]) for one in swept if one["nnz"]])
            if front:
                style = "-" if TOOLS[tool].one_pass else ":"
                panel.plot(*zip(*front, strict=True), style, marker=".", ms=4, lw=1.3, **path_of)
            panel.plot(max(row["nnz"], 1), row["error"], "o" if TOOLS[tool].one_pass else "s", ms=6, **path_of)
            lowest.append(row["error"])
            points += [(max(row["nnz"], 1), row["error"]), *front]
        thin = sorted((one["nnz"], one["error"]) for one in rows if (one["set"], one["column"]) == (name, COLUMN))
        if thin:
            panel.plot(*zip(*thin, strict=True), "--", marker=".", ms=4, lw=1.3, color=COLOURS[OURS], zorder=4)
            points += thin
        pruned = by_tool(rows, name, "tried pruned").get(OURS)
        if pruned:
            panel.plot(pruned["nnz"], pruned["error"], "D", ms=6, mfc="white", color=COLOURS[OURS], zorder=4)
            points.append((pruned["nnz"], pruned["error"]))
        bottom, top = 0.9 * min(error for _, error in points), 2.6 * min(lowest)
        shown = [size for size, error in points if error <= top]
        panel.set_xscale("log")
        panel.set_xlim(min(shown) / 2, 2 * max(shown))
        panel.set_title(name, fontsize=9)
        panel.set_ylim(bottom, top)
        panel.grid(alpha=0.3)
        panel.tick_params(labelsize=7)
    figure.supxlabel("non-zero weights", fontsize=9)
    figure.supylabel("test error, %", fontsize=9)
    more = {column: style for column, style in STYLES.items() if any(row["column"] == column for row in rows)}
    _legend(figure, [tool for tool in TOOLS if any(row["tool"] == tool for row in rows)], more.values())
    _save(figure, path)


def frontier(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points in order of size, without those beside a smaller or equal one of a smaller or equal error.

    >>> frontier([(10, 3.0), (100, 1.0), (50, 4.0)])
    [(10, 3.0), (100, 1.0)]
    """
    kept: list[tuple[float, float]] = []
    for size, error in sorted(points):
        if not kept or error < kept[-1][1]:
            kept.append((size, error))
    return kept


def times(rows: Sequence[Row], path: Path) -> None:
    """Time to model of each peer in times of ours, set by set."""
    names = [name for name in SETS if OURS in by_tool(rows, name, "times")]
    if not names:
        return
    figure = matplotlib().figure.Figure(figsize=(8, 0.26 * len(names) + 1.4), layout="constrained")
    panel = figure.add_subplot()
    tools = [tool for tool in TOOLS if any(tool in by_tool(rows, name, "times") for name in names)]
    for height, name in enumerate(reversed(names)):
        found = by_tool(rows, name, "times")
        for tool, row in found.items():
            ratio = row["seconds"] / found[OURS]["seconds"]
            panel.plot(ratio, height, "o" if TOOLS[tool].one_pass else "s", color=COLOURS[tool], ms=6)
    panel.set_xscale("log")
    panel.set_yticks(range(len(names)), list(reversed(names)), fontsize=8)
    panel.set_ylim(-0.6, len(names) - 0.4)
    panel.axvline(1, color=COLOURS[OURS], lw=0.8)
    panel.set_xlabel("seconds from text to model, in times of thinstream's (right: slower)", fontsize=9)
    panel.grid(alpha=0.3)
    _legend(figure, tools)
    _save(figure, path)


def _panels(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    down = math.ceil(count / ACROSS)
    across = min(count, ACROSS)
    figure = matplotlib().figure.Figure(figsize=(width * across, height * down + 0.6), layout="constrained")
    return figure, [figure.add_subplot(down, across, place + 1) for place in range(count)]


def _legend(figure: Any, tools: Sequence[str], more: Iterable[dict[str, str]] = ()) -> None:
    lines = matplotlib().lines
    handles = [
        lines.Line2D([], [], color=COLOURS[tool], marker="o" if TOOLS[tool].one_pass else "s", ls="", label=tool)
        for tool in tools
    ]
    handles += [lines.Line2D([], [], color=COLOURS[OURS], **style) for style in more]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=9, frameon=False)


def _save(figure: Any, path: Path) -> None:
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format="png", metadata={"Software": None})
