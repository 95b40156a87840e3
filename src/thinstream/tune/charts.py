"""What is drawn, apart from how: curves, axes and a table, which `drawing` and `page` put on paper and screen."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.models.picture import percent
from thinstream.tune.costs import CostCurves
from thinstream.tune.path import Path


class Axis(NamedTuple):
    """An axis with its ticks, from ``low`` to ``high`` (which may be below it: then it runs backwards)."""

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def share(self, value: float) -> float:
        """How far along it a value lies, from 0 to 1."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return (at - low) / (high - low)


class Series(NamedTuple):
    """A curve; ``spread`` are the arms of its error bars."""

    label: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    words: tuple[str, ...]  # what a pointer over each point is told
    spread: NDArray[np.float64] | None = None
    dashed: bool = False


class Panel(NamedTuple):
    """Curves on one pair of axes; ``mark`` is a point that stands out."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    mark: tuple[float, float, str] | None = None


class Chart(NamedTuple):
    """A picture."""

    title: str
    note: str
    panels: tuple[Panel, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    chosen: int | None = None  # the row that stands out


NAMES = {"error": "error", "balanced_accuracy": "balanced accuracy", "weighted_sum": "weighted sum", "cost": "cost"}


def linear_axis(label: str, values: NDArray[Any]) -> Axis:
    """An axis in round steps that holds all finite values.

    >>> [text for _, text in linear_axis("error", np.array([11.2, 27.0])).ticks]
    ['10', '15', '20', '25', '30']
    """
    found = values[np.isfinite(values)]
    low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
    if high - low < 1e-9 * max(abs(high), 1e-300):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(size * k for k in (1, 2, 2.5, 5, 10) if size * k >= (high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple((k * step, f"{k * step:.6g}") for k in range(first, last + 1))
    return Axis(label, ticks[0][0], ticks[-1][0], ticks)


def log_axis(label: str, values: NDArray[Any]) -> Axis:
    """An axis of decades; more than eight are named every second or third."""
    first, last = math.floor(math.log10(values.min()) + 1e-9), math.ceil(math.log10(values.max()) - 1e-9)
    last = max(last, first + 1)
    every = (last - first) // 8 + 1
    texts = ((k, f"{10.0**k:g}" if -4 < k < 5 else f"1e{k}") for k in range(first, last + 1) if k % every == 0)
    ticks = tuple((10.0**k, text) for k, text in texts)
    return Axis(label, 10.0**first, 10.0**last, ticks, log=True)


#: Where a model without weights stands on an axis of logarithms.
_NONE = 0.4


def _nnz_axis(nnz: NDArray[np.int64], width: int) -> Axis:
    """Non-zeros, fewer to the right, with the sparsity they mean."""
    most, none = max(int(nnz.max()), 1), bool((nnz == 0).any())
    high, low = most * 1.25, (_NONE if none else float(nnz.min())) / 1.25
    decades = math.log10(most / max(low, 1.0))
    steps = (1,) if decades > 4 else (1, 3) if decades > 1.2 else (1, 2, 3, 5, 7)
    inside = [k * 10**d for d in range(10) for k in steps if low <= k * 10**d <= high]
    inside = [k for k in inside[:: len(inside) // 9 + 1] if k <= width] or [most]
    ticks = [(_NONE, "none\n100 %")] if none else []
    ticks += [(float(k), f"{k:,}\n{percent(width - k, width) if width else ''}") for k in inside]
    return Axis("weights that are not zero, and the share that is", high, low, tuple(ticks), log=True)


def path_chart(path: Path, scoring: str, chosen: int | None) -> Chart:
    """A sparsity path: the metric against the weights left, and these against l1."""
    x = _nnz_axis(path.nnz, path.n_features)
    panels = _metric_panel(path, scoring, x, chosen), _l1_panel(path, x, chosen)
    head, rows = path_table(path, scoring)
    passes = "one pass" if path.passes == 1 else f"{path.passes} passes"
    note = f"{len(path.l1)} models from {passes} over {path.rows:,} rows and {path.n_features:,} features."
    if chosen is not None:
        note += f" Picked: l1 = {short(path.l1[chosen])}, {path.nnz[chosen]:,} weights."
    return Chart(f"{path.algorithm}: sparsity path", note, panels, head, rows, chosen)


def _metric_panel(path: Path, scoring: str, x: Axis, chosen: int | None) -> Panel:
    where, unit = _places(path), "" if scoring == "cost" else " %"
    scale = 100.0 if unit else 1.0
    final, errors = path.final(scoring)
    series = [_metric_series(path, "progressive", scale * path.progressive(scoring), None, unit)]
    if not np.isnan(final).all():
        label = "test" if path.tested else "held out"
        series.append(_metric_series(path, label, scale * final, scale * errors, unit))
    ends = [each.y + sign * (0.0 if each.spread is None else each.spread) for each in series for sign in (-1.0, 1.0)]
    main = series[-1 if path.judged_on_held_out else 0]
    mark = None
    if chosen is not None and np.isfinite(main.y[chosen]):
        mark = (float(where[chosen]), float(main.y[chosen]), "picked")
    y = linear_axis(NAMES[scoring] + (", %" if unit else " per row"), np.concatenate(ends))
    return Panel(f"{NAMES[scoring]} against sparsity", x, y, tuple(series), mark)


def _metric_series(
    path: Path, label: str, values: NDArray[np.float64], spread: NDArray[np.float64] | None, unit: str
) -> Series:
    words = []
    for k, value in enumerate(values):
        arm = "" if spread is None else f" ± {spread[k]:.2g}"
        words.append(f"{label}: {value:.4g}{arm}{unit}\nl1 = {short(path.l1[k])}, {path.nnz[k]:,} weights")
    return Series(label, _places(path), values, tuple(words), spread, dashed=spread is None)


def _l1_panel(path: Path, nnz: Axis, chosen: int | None) -> Panel:
    where = _places(path)
    words = tuple(f"l1 = {short(l1)}: {kept:,} weights" for l1, kept in zip(path.l1, path.nnz, strict=True))
    ticks = tuple((value, text.split("\n")[0]) for value, text in nnz.ticks)
    y = Axis("weights that are not zero", nnz.high, nnz.low, ticks, log=True)
    mark = None if chosen is None else (float(path.l1[chosen]), float(where[chosen]), "picked")
    series = Series("non-zero weights", path.l1, where, words)
    return Panel("what l1 does", log_axis("l1", path.l1), y, (series,), mark)


def _places(path: Path) -> NDArray[np.float64]:
    return np.maximum(path.nnz.astype(np.float64), _NONE)


def path_table(path: Path, scoring: str = "error") -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Head and rows, as text: error, balanced accuracy and what else is judged by, progressive and held out."""
    table = path.columns()
    shown = {"error": "error %", "balanced_accuracy": "bal.acc %"}
    shown |= {"weighted_sum": {"weighted_sum": "sum %"}, "cost": {"cost": "cost/row"}}.get(scoring, {})
    columns: dict[str, list[str]] = {
        "l1": [short(value) for value in table["l1"]],
        "non-zeros": [f"{value:,}" for value in table["nnz"]],
        "sparsity %": [f"{100.0 * value:.3f}" for value in table["sparsity"]],
    }
    columns |= {name: _texts(table[metric], metric) for metric, name in shown.items()}
    if not np.isnan(table["held_out_error"]).all():
        first = "test " if path.tested else "held-out "
        for metric, name in shown.items():
            columns[first + name] = _texts(table[f"held_out_{metric}"], metric)
            if metric == scoring:
                columns["± se"] = _texts(table[f"held_out_{metric}_se"], metric)
    return tuple(columns), tuple(zip(*columns.values(), strict=True))


def _texts(values: NDArray[Any], metric: str) -> list[str]:
    return [_number(value) if metric == "cost" else _percent(value) for value in values]


def cost_chart(curves: CostCurves) -> Chart:
    """Cost curves: both figures of P3."""
    panels = []
    for curve, letter, scale, name in (
        (curves.weighted_sum, "α_p, weight of sensitivity", 100.0, "weighted sum, %"),
        (curves.cost, "c_p, cost of a missed positive", 100.0, "cost per 100 rows"),
    ):
        tuned, blind = scale * curve.tuned, scale * curve.blind
        words = [
            f"{letter.split(',')[0]} = {w:g}, ρ = {rho:.3g}\ntold: {a:.4g}, not told: {b:.4g}"
            for w, rho, a, b in zip(curve.weights, curve.rho, tuned, blind, strict=True)
        ]
        panels.append(
            Panel(
                f"{name.split(',')[0]} against its weights",
                linear_axis(letter, np.append(curve.weights, [0.0, 1.0])),
                linear_axis(name, np.concatenate([tuned, blind])),
                (
                    Series("told the weights", curve.weights, tuned, tuple(words)),
                    Series("not told", curve.weights, blind, tuple(words), dashed=True),
                ),
            )
        )
    head, rows = cost_table(curves)
    note = (
        f"{2 * len(curves.cost.weights) + 1} models in one pass over {curves.rows:,} rows, "
        f"{percent(curves.positives, curves.rows)} positive; every row scored before it is learned."
    )
    return Chart(f"{curves.algorithm}: cost curves", note, tuple(panels), head, rows)


def cost_table(curves: CostCurves) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Head and rows, as text: the sum at α_p and the cost at c_p of one weight side by side."""
    both = ("told", "not told", "sens %", "spec %", "ρ")
    head = (
        "weight",
        *(f"sum {name}" for name in both[:2]),
        *both[2:],
        *(f"cost {name}" for name in both[:2]),
        *both[2:],
    )
    rows = []
    for k, weight in enumerate(curves.cost.weights.tolist()):
        row = [f"{weight:g}"]
        for curve in (curves.weighted_sum, curves.cost):
            row += [_percent(array[k]) for array in (curve.tuned, curve.blind, curve.sensitivity, curve.specificity)]
            row.append(f"{curve.rho[k]:.3g}")
        rows.append(tuple(row))
    return head, tuple(rows)


def short(value: float) -> str:
    """Three digits, without an exponent where that is as short.

    >>> short(1268.3), short(0.04999), short(2.5e-7)
    ('1,270', '0.05', '2.5e-07')
    """
    return f"{float(f'{value:.3g}'):,.0f}" if 1000.0 <= value < 1e7 else f"{value:.3g}"


def _percent(share: float) -> str:
    return "–" if share != share else f"{100.0 * share:.2f}"


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4f}"
