"""Sweeps as pictures, by matplotlib: PNG, SVG, or an HTML page that has the SVG and the table in it."""

import os
from html import escape
from importlib.resources import files
from io import StringIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thinstream.atomic import replacing
from thinstream.models.picture import percent
from thinstream.plotting import check_picture, matplotlib
from thinstream.tune.cost_curves import CostCurves
from thinstream.tune.path_result import PathResult
from thinstream.tune.text_tables import TextTable, compared_as, cost_table, is_share, path_table, scoring_name, short

EXTENSIONS = (".png", ".svg", ".html")
_COLOURS = ("#2a7f9e", "#c8553d", "#5b8c3a")
_RING = {"marker": "o", "ms": 11, "mfc": "none", "mec": "#b8860b", "mew": 2, "ls": "", "zorder": 5, "label": "picked"}
#: Where a model without weights stands on an axis of logarithms.
_NONE = 0.4


def check_picture_path(path: str | os.PathLike[str]) -> Path:
    """The path of a picture, if its kind is known and can be drawn here; else raises."""
    return check_picture(path, EXTENSIONS)


def draw_path(path: PathResult, scoring: str, chosen: int | None, file: str | os.PathLike[str]) -> None:
    """A sparsity path: the metric against the weights left, and these against l1; the chosen model is ringed."""
    place = check_picture_path(file)
    passes = "one pass" if path.passes == 1 else f"{path.passes} passes"
    note = f"{len(path.l1)} models from {passes} over {path.rows:,} rows and {path.n_met:,} features."
    if chosen is not None:
        note += f" Picked: l1 = {short(path.l1[chosen])}, {path.nnz[chosen]:,} weights."
    _write(
        path_figure(path, scoring, chosen),
        f"{path.algorithm}: sparsity path",
        note,
        place,
        path_table(path, scoring),
        chosen,
    )


def draw_cost_curves(curves: CostCurves, file: str | os.PathLike[str]) -> None:
    """Cost curves: both figures of P3."""
    place = check_picture_path(file)
    note = (
        f"{2 * len(curves.cost.weights) + 1} models in one pass over {curves.rows:,} rows, "
        f"{percent(curves.positives, curves.rows)} positive; every row scored before it is learned."
    )
    _write(cost_figure(curves), f"{curves.algorithm}: cost curves", note, place, cost_table(curves))


def path_figure(path: PathResult, scoring: str, chosen: int | None) -> Any:
    """The figure of `draw_path`, without its title."""
    figure = _figure()
    left, right = figure.subplots(1, 2)
    scoring = compared_as(scoring)
    scale, unit = (100.0, ", %") if is_share(scoring) else (1.0, " per row")
    nnz = np.maximum(path.nnz, _NONE)
    judged = scale * path.progressive(scoring)
    _line(left, nnz, judged, "progressive", 0, ls="--")
    final, errors = path.final(scoring)
    if not np.isnan(final).all():
        label = "test" if path.tested else "held out"
        arms = {"elinewidth": 0.9, "capsize": 2}
        left.errorbar(nnz, scale * final, scale * errors, label=label, **arms, **_style(1))
        judged = scale * final if path.judged_on_held_out else judged
    if path.thinned is not None and scoring == "error":
        order = np.argsort(nnz, kind="stable")
        _line(left, nnz[order], scale * path.thinned[order], "the densest, thinned", 2, ls=":")
    if chosen is not None and np.isfinite(judged[chosen]):
        left.plot([nnz[chosen]], [judged[chosen]], **_RING)
    name = scoring_name(scoring)
    left.set(title=f"{name} against sparsity", xscale="log", ylabel=name + unit)
    left.set_xlabel("weights that are not zero, and the share that is")
    _label_weights(left.xaxis, path.nnz, path.n_weights, shares=True)
    left.invert_xaxis()
    left.legend(fontsize=9, frameon=False)
    _line(right, path.l1, nnz, "non-zero weights", 0)
    if chosen is not None:
        right.plot([path.l1[chosen]], [nnz[chosen]], **_RING)
    right.set(title="what l1 does", xscale="log", yscale="log", xlabel="l1", ylabel="weights that are not zero")
    _label_weights(right.yaxis, path.nnz, path.n_weights)
    return figure


def cost_figure(curves: CostCurves) -> Any:
    """The figure of `draw_cost_curves`, without its title."""
    figure = _figure()
    names = ("weighted sum, %", "cost per 100 rows"), ("α_p, weight of sensitivity", "c_p, cost of a missed positive")
    both = (curves.weighted_sum, curves.cost)
    for axes, curve, name, letter in zip(figure.subplots(1, 2), both, *names, strict=True):
        _line(axes, curve.weights, 100.0 * curve.tuned, "told the weights", 0)
        _line(axes, curve.weights, 100.0 * curve.blind, "not told", 1, ls="--")
        axes.set(title=f"{name.split(',')[0]} against its weights", xlabel=letter, ylabel=name, xlim=(0, 1))
        axes.legend(fontsize=9, frameon=False)
    return figure


def _figure() -> Any:
    return matplotlib().figure.Figure(figsize=(12.8, 5.0), layout="constrained")


def _style(colour: int) -> dict[str, Any]:
    return {"color": _COLOURS[colour], "lw": 1.6, "marker": "o", "ms": 4}


def _line(axes: Any, x: NDArray[Any], y: NDArray[Any], label: str, colour: int, **style: Any) -> None:
    axes.plot(x, y, label=label, **{**_style(colour), **style})
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _label_weights(axis: Any, nnz: NDArray[np.int64], width: int, shares: bool = False) -> None:
    """Numbers of weights on an axis of logarithms, with the share of zeros; "none" where a model has no weight."""
    ticker = matplotlib().ticker
    low, high = max(int(nnz.min()), 1), max(int(nnz.max()), 1)
    subs = (1.0,) if high > 10**4 * low else (1.0, 3.0) if high > 16 * low else (1.0, 2.0, 3.0, 5.0, 7.0)
    places = [
        k for k in ticker.LogLocator(subs=subs, numticks=9).tick_values(low, high) if low / 1.25 <= k <= high * 1.25
    ]
    places = [int(k) for k in places if 1 <= k <= max(width, 1)] or [high]
    texts = [f"{k:,}" + (f"\n{percent(width - k, width)}" if shares and width else "") for k in places]
    if (nnz == 0).any():
        places, texts = [_NONE, *places], ["none\n100 %" if shares else "none", *texts]
    axis.set_ticks(places, labels=texts, fontsize=8, parse_math=False)
    axis.set_ticks([], minor=True)


def _write(figure: Any, title: str, note: str, place: Path, table: TextTable, chosen: int | None = None) -> None:
    """Into a PNG, SVG or HTML file, by its extension. The file is replaced as a whole; same figure, same bytes."""
    kind = place.suffix.lower()[1:]
    if kind != "html":  # the page has both as text
        figure.suptitle(title, fontsize=13, parse_math=False)
        figure.supxlabel(note, fontsize=9, color="0.35", parse_math=False)
    with matplotlib().rc_context({"svg.hashsalt": "thinstream", "svg.fonttype": "none"}), replacing(place) as new:
        if kind == "html":
            text = StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
            svg = text.getvalue()
            new.write_text(_page(title, note, svg[svg.index("<svg") :], table, chosen), encoding="utf-8")
        else:
            figure.savefig(new, format=kind, dpi=130, metadata={"Date": None} if kind == "svg" else None)


def _page(title: str, note: str, svg: str, table: TextTable, chosen: int | None) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in table.head) + "</tr>"]
    for k, row in enumerate(table.rows):
        kind = ' class="picked"' if k == chosen else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    page = Template((files("thinstream.tune") / "page.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), note=escape(note), svg=svg, rows="\n".join(lines))
