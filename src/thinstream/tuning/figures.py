"""Results of tuning as text tables, pictures and an HTML page."""

import os
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from io import StringIO
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.export.picture import percent
from thinstream.files import replacing
from thinstream.plotting import below, check_picture, matplotlib
from thinstream.tuning.cost_curves import CostCurves
from thinstream.tuning.sparsity_path import PathResult

# Sweeps as tables of text: head and rows.

_SHORT = {"balanced_accuracy": "bal.acc", "weighted_sum": "sum", "average_precision": "avg.prec", "roc_auc": "auc"}


class TextTable(NamedTuple):
    """A table of text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def path_table(path: PathResult, scoring: str = "error") -> TextTable:
    """Error, balanced accuracy and what else is judged by, progressive and held out, a row for each model.

    The last column is the error of the densest model, thinned to as many weights.
    """
    table = path.columns()
    shown = {metric: _title(metric) for metric in ("error", "balanced_accuracy", compared_as(scoring))}
    columns: dict[str, list[str]] = {
        "l1": [short(value) for value in table["l1"]],
        "non-zeros": [f"{value:,}" for value in table["nnz"]],
        "sparsity %": [f"{100.0 * value:.3f}" for value in table["sparsity"]],
    }
    columns |= {name: texts(path.progressive(metric), metric) for metric, name in shown.items()}
    if not np.isnan(table["held_out_error"]).all():
        first = "test " if path.tested else "held-out "
        for metric, name in shown.items():
            values, errors = path.final(metric)
            columns[first + name] = texts(values, metric)
            if metric == compared_as(scoring):
                columns["± se"] = texts(errors, metric)
    if path.thinned is not None:
        columns["thinned error %"] = texts(path.thinned, "error")
    return TextTable(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def cost_table(curves: CostCurves) -> TextTable:
    """The sum at α_p and the cost at c_p side by side, a row for each weight."""
    last = ("sens %", "spec %", "ρ")
    models = ("tuned", "blind", "constant")
    head = ("weight", *(f"sum {name}" for name in models), *last, *(f"cost {name}" for name in models), *last)
    rows = []
    for k, weight in enumerate(curves.cost.weights.tolist()):
        row = [f"{weight:g}"]
        for curve in (curves.weighted_sum, curves.cost):
            values = (curve.tuned, curve.blind, curve.constant, curve.sensitivity, curve.specificity)
            shares = np.array([column[k] for column in values])
            row += [*texts(shares, curve.metric, percent=True), f"{curve.rho[k]:.3g}"]
        rows.append(tuple(row))
    return TextTable(head, tuple(rows))


def compared_as(scoring: str) -> str:
    """Return the metric to show for a scoring, which is the error for the accuracy."""
    return "error" if scoring == "accuracy" else scoring


def scoring_name(scoring: str) -> str:
    """Return the name of a scoring as text."""
    return compared_as(scoring).replace("_", " ")


def is_share(metric: str) -> bool:
    """Whether people know it in percent."""
    return metric != "cost" and "log_loss" not in metric


def _title(metric: str) -> str:
    if not is_share(metric):
        return "cost/row" if metric == "cost" else scoring_name(metric)
    return f"{_SHORT.get(metric, scoring_name(metric))} %"


def short(value: float) -> str:
    """Three digits, without an exponent where that is as short.

    >>> short(1268.3), short(0.04999), short(2.5e-7)
    ('1,270', '0.05', '2.5e-07')
    """
    return f"{float(f'{value:.3g}'):,.0f}" if 1000.0 <= value < 1e7 else f"{value:.3g}"


def texts(values: Iterable[float], metric: str, percent: bool = False) -> list[str]:
    """Format values in percent, costs as numbers, and undefined values as a dash."""
    if not is_share(metric) and not percent:
        return ["–" if value != value else f"{value:.4f}" for value in values]
    return ["–" if value != value else f"{100.0 * value:.2f}" for value in values]


# Sweeps as pictures, by matplotlib: PNG, SVG, or an HTML page that has the SVG and the table in it.

EXTENSIONS = (".png", ".svg", ".html")
_COLOURS = ("#2a7f9e", "#c8553d", "#5b8c3a")
_RING = {"marker": "o", "ms": 11, "mfc": "none", "mec": "#b8860b", "mew": 2, "ls": "", "zorder": 5, "label": "picked"}
#: The position of a model without weights on a logarithmic axis.
_NONE = 0.4


def check_picture_path(path: str | os.PathLike[str]) -> Path:
    """The path of a picture, if its kind is known and can be drawn here; else raises."""
    return check_picture(path, EXTENSIONS)


def draw_path(path: PathResult, scoring: str, chosen: int | None, file: str | os.PathLike[str]) -> None:
    """A sparsity path: the metric against the weights left, and these against l1; the chosen model is ringed."""
    passes = "one pass" if path.passes == 1 else f"{path.passes} passes"
    note = f"{len(path.l1)} models from {passes} over {path.rows:,} rows and {path.n_met:,} features."
    if chosen is not None:
        note += f" Picked: l1 = {short(path.l1[chosen])}, {path.nnz[chosen]:,} weights."
    _write(
        path_figure(path, scoring, chosen),
        f"{path.algorithm}: sparsity path",
        note,
        file,
        path_table(path, scoring),
        chosen,
    )


def draw_cost_curves(curves: CostCurves, file: str | os.PathLike[str]) -> None:
    """Cost curves: both figures of P3."""
    note = (
        f"{2 * len(curves.cost.weights) + 1} models in one pass over {curves.rows:,} rows, "
        f"{percent(curves.positives, curves.rows)} positive. All metrics are progressive."
    )
    _write(cost_figure(curves), f"{curves.algorithm}: cost curves", note, file, cost_table(curves))


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
    below(left)
    _line(right, path.l1, nnz, "non-zero weights", 0)
    if chosen is not None:
        right.plot([path.l1[chosen]], [nnz[chosen]], **_RING)
    right.set(title="what l1 does", xscale="log", yscale="log", xlabel="l1", ylabel="weights that are not zero")
    _label_weights(right.yaxis, path.nnz, path.n_weights)
    return figure


def draw_search(
    rows: Sequence[dict[str, Any]], score: str, is_share: bool, title: str, note: str, file: str | os.PathLike[str]
) -> None:
    """Draw the candidates of a search: the score against each parameter that has several values, by algorithm.

    ``rows`` are those of `SearchReport.rows`. The best candidate is ringed. Bars are standard errors.
    """
    names = list(dict.fromkeys(name for row in rows for name in row["parameters"]))
    names = [name for name in names if len({str(row["parameters"].get(name, "")) for row in rows} - {""}) > 1]
    columns = [name for name in names if any(name in row["parameters"] for row in rows)] or ["rank"]
    label = f"{scoring_name(score)}{', %' if is_share else ''}"
    figure = matplotlib().figure.Figure(figsize=(max(6.4, 4.4 * min(len(columns), 3)), 4.6 * -(-len(columns) // 3)))
    figure.set_layout_engine("constrained")
    panels = figure.subplots(-(-len(columns) // 3), min(len(columns), 3), squeeze=False).ravel()
    for axes, name in zip(panels, columns, strict=False):
        _draw_parameter(axes, rows, name, score, 100.0 if is_share else 1.0)
        axes.set(xlabel=name.replace("_", "-"), ylabel=label)
        below(axes, columns=3)
    for axes in panels[len(columns) :]:
        axes.set_axis_off()
    head = ("rank", "algorithm", *names, label)
    cells = [
        (
            str(row["rank"]),
            row["algorithm"],
            *(str(row["parameters"].get(name, "")) for name in names),
            _cell(row[score], is_share),
        )
        for row in rows
    ]
    _write(figure, title, note, file, TextTable(head, cells), 0)


def _cell(value: float | None, is_share: bool) -> str:
    return "–" if value is None else f"{100 * value:.2f}" if is_share else f"{value:.4f}"


def _draw_parameter(axes: Any, rows: Sequence[dict[str, Any]], name: str, score: str, scale: float) -> None:
    """Scores of candidates against one parameter."""
    values = [row["rank"] if name == "rank" else row["parameters"].get(name) for row in rows]
    numeric = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    others = list(dict.fromkeys(str(value) for value in values if value is not None))
    as_numbers = len(numeric) == sum(value is not None for value in values)
    algorithms = list(dict.fromkeys(row["algorithm"] for row in rows))
    colours = matplotlib().colormaps["tab10"](np.arange(len(algorithms)) % 10)
    for colour, algorithm in zip(colours, algorithms, strict=True):
        points = [
            (float(value) if as_numbers else float(others.index(str(value))), scale * row[score], row["standard_error"])
            for value, row in zip(values, rows, strict=True)
            if value is not None and row["algorithm"] == algorithm and row[score] is not None
        ]
        if points:
            x, y, errors = zip(*sorted(points, key=lambda point: point[:2]), strict=True)
            bars = [scale * (error or 0.0) for error in errors]
            axes.errorbar(x, y, bars, color=colour, ls="", marker="o", ms=4, elinewidth=0.8, capsize=2, label=algorithm)
    best = values[0]
    if best is not None and rows[0][score] is not None:
        position = float(best) if as_numbers else float(others.index(str(best)))
        axes.plot([position], [scale * rows[0][score]], **{**_RING, "label": "best"})
    if not as_numbers:
        axes.set_xticks(range(len(others)), labels=others)
    elif min(numeric) > 0 and max(numeric) >= 20 * min(numeric):
        axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def draw_sizes(
    sizes: Sequence[tuple[int, float]],
    full: tuple[int, float],
    l1: Sequence[tuple[float, float]],
    file: str | os.PathLike[str],
) -> None:
    """Draw the error of thin models against their number of features, with l1 models and the full model."""
    figure = matplotlib().figure.Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    counts, errors = np.array(sizes, np.float64).T
    _line(axes, counts, 100.0 * errors, "refitted on the most important features", 0)
    if l1:
        weights, l1_errors = np.array(sorted(l1), np.float64).T
        _line(axes, np.maximum(weights, _NONE), 100.0 * l1_errors, "l1 models", 1, ls="--")
    axes.axhline(100.0 * full[1], color=_COLOURS[2], ls=":", label=f"all {full[0]:,} features")
    axes.set(title="error against size, held-out rows", xscale="log", ylabel="error, %", xlabel="features")
    axes.legend(fontsize=9, frameon=False)
    rows = [(f"{n:,}", f"{100.0 * error:.2f}") for n, error in [*sizes, full]]
    _write(figure, "Thin models", "", file, TextTable(("features", "held-out error %"), rows))


def cost_figure(curves: CostCurves) -> Any:
    """The figure of `draw_cost_curves`, without its title."""
    figure = _figure()
    names = ("weighted sum, %", "cost per 100 rows"), ("α_p, weight of sensitivity", "c_p, cost of a false negative")
    both = (curves.weighted_sum, curves.cost)
    for axes, curve, name, letter in zip(figure.subplots(1, 2), both, *names, strict=True):
        _line(axes, curve.weights, 100.0 * curve.tuned, "with these costs", 0)
        _line(axes, curve.weights, 100.0 * curve.blind, "without costs", 1, ls="--")
        _line(axes, curve.weights, 100.0 * curve.constant, "best constant prediction", 2, ls=":")
        axes.set(title=f"{name.split(',')[0]} against its weights", xlabel=letter, ylabel=name, xlim=(0, 1))
        below(axes, columns=3)
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


def _write(
    figure: Any, title: str, note: str, file: str | os.PathLike[str], table: TextTable, chosen: int | None = None
) -> None:
    """Write a PNG, SVG or HTML file, by its extension. The same figure always gives the same bytes."""
    path = check_picture_path(file)
    extension = path.suffix.lower()[1:]
    if extension != "html":  # the page has both as text
        figure.suptitle(title, fontsize=13, parse_math=False)
        figure.supxlabel(note, fontsize=9, color="0.35", parse_math=False)
    with matplotlib().rc_context({"svg.hashsalt": "thinstream", "svg.fonttype": "none"}), replacing(path) as new:
        if extension == "html":
            text = StringIO()
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
            svg = text.getvalue()
            new.write_text(_page(title, note, svg[svg.index("<svg") :], table, chosen), encoding="utf-8")
        else:
            figure.savefig(new, format=extension, dpi=130, metadata={"Date": None} if extension == "svg" else None)


def _page(title: str, note: str, svg: str, table: TextTable, chosen: int | None) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(name)}</th>" for name in table.head) + "</tr>"]
    for k, row in enumerate(table.rows):
        css_class = ' class="picked"' if k == chosen else ""
        lines.append(f"<tr{css_class}>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
    page = Template((files("thinstream.tuning") / "page.html").read_text(encoding="utf-8"))
    return page.substitute(title=escape(title), note=escape(note), svg=svg, rows="\n".join(lines))
