"""Charts as files: PNG and SVG by matplotlib, HTML by `page`, which needs nothing."""

import os
from pathlib import Path
from typing import Any

from thinstream.atomic import replacing
from thinstream.errors import UnknownNameError, listed
from thinstream.plotting import matplotlib
from thinstream.tune.charts import Axis, Chart, Panel
from thinstream.tune.page import COLOURS, page

EXTENSIONS = (".png", ".svg", ".html")


def checked_place(path: str | os.PathLike[str]) -> Path:
    """The path of a picture whose kind is known, and can be drawn here."""
    path = Path(path)
    if path.suffix.lower() not in EXTENSIONS:
        raise UnknownNameError(f"{path}: the extension must be {listed(EXTENSIONS)}, got {path.suffix!r}")
    if path.suffix.lower() != ".html":
        matplotlib()
    return path


def draw(chart: Chart, path: str | os.PathLike[str]) -> None:
    """Draws into a PNG, SVG or HTML file, by its extension. The file is replaced as a whole; same chart, same bytes."""
    path = checked_place(path)
    kind = path.suffix.lower()[1:]
    if kind == "html":
        with replacing(path) as new:
            new.write_text(page(chart), encoding="utf-8")
        return
    with matplotlib().rc_context({"svg.hashsalt": "thinstream"}), replacing(path) as new:
        _figure(chart).savefig(new, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)


def _figure(chart: Chart) -> Any:
    figure = matplotlib().figure.Figure(figsize=(6.4 * len(chart.panels), 5.0), layout="constrained")
    figure.suptitle(chart.title, fontsize=13, parse_math=False)
    for axes, panel in zip(figure.subplots(1, len(chart.panels), squeeze=False)[0], chart.panels, strict=True):
        _panel(axes, panel)
    figure.supxlabel(chart.note, fontsize=9, color="0.35", parse_math=False)
    return figure


def _panel(axes: Any, panel: Panel) -> None:
    lines = []
    for series, (colour, _) in zip(panel.series, COLOURS, strict=False):
        style: dict[str, Any] = {
            "color": colour,
            "lw": 1.6,
            "ls": "--" if series.dashed else "-",
            "marker": "o",
            "ms": 4,
        }
        if series.spread is None:
            lines += axes.plot(series.x, series.y, label=series.label, **style)
        else:
            bars = {"elinewidth": 0.9, "capsize": 2, "label": series.label}
            lines.append(axes.errorbar(series.x, series.y, series.spread, **bars, **style))
    if panel.mark is not None:
        x, y, word = panel.mark
        ring = {"marker": "o", "ms": 11, "mfc": "none", "mec": "#b8860b", "mew": 2, "ls": ""}
        lines += axes.plot([x], [y], label=word, zorder=5, **ring)
    _axis(axes, panel.x, "x")
    _axis(axes, panel.y, "y")
    axes.set_title(panel.title, fontsize=11, parse_math=False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(lines) > 1:
        axes.legend(handles=lines, fontsize=9, frameon=False)


def _axis(axes: Any, axis: Axis, which: str) -> None:
    if axis.log:
        getattr(axes, f"set_{which}scale")("log")
    places, texts = [tick[0] for tick in axis.ticks], [tick[1] for tick in axis.ticks]
    getattr(axes, f"set_{which}ticks")(places, labels=texts, fontsize=8, parse_math=False)
    getattr(axes, f"set_{which}ticks")([], minor=True)
    getattr(axes, f"set_{which}lim")(axis.low, axis.high)
    getattr(axes, f"set_{which}label")(axis.label, fontsize=10, parse_math=False)
