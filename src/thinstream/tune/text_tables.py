"""Sweeps as tables of text: head and rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thinstream.tune.cost_curves import CostCurves
from thinstream.tune.path_result import PathResult

_SHORT = {"balanced_accuracy": "bal.acc", "weighted_sum": "sum", "average_precision": "avg.prec", "roc_auc": "auc"}


class TextTable(NamedTuple):
    """Cells as they are shown."""

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
    columns |= {name: _texts(path.progressive(metric), metric) for metric, name in shown.items()}
    if not np.isnan(table["held_out_error"]).all():
        first = "test " if path.tested else "held-out "
        for metric, name in shown.items():
            values, errors = path.final(metric)
            columns[first + name] = _texts(values, metric)
            if metric == compared_as(scoring):
                columns["± se"] = _texts(errors, metric)
    if path.thinned is not None:
        columns["thinned error %"] = _texts(path.thinned, "error")
    return TextTable(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def cost_table(curves: CostCurves) -> TextTable:
    """The sum at α_p and the cost at c_p side by side, a row for each weight."""
    last = ("sens %", "spec %", "ρ")
    head = ("weight", "sum told", "sum not told", *last, "cost told", "cost not told", *last)
    rows = []
    for k, weight in enumerate(curves.cost.weights.tolist()):
        row = [f"{weight:g}"]
        for curve in (curves.weighted_sum, curves.cost):
            shares = np.array([curve.tuned[k], curve.blind[k], curve.sensitivity[k], curve.specificity[k]])
            row += [*_texts(shares, curve.metric, percent=True), f"{curve.rho[k]:.3g}"]
        rows.append(tuple(row))
    return TextTable(head, tuple(rows))


def compared_as(scoring: str) -> str:
    """What is shown of a scoring: the error for the accuracy."""
    return "error" if scoring == "accuracy" else scoring


def scoring_name(scoring: str) -> str:
    """The name of a scoring for people."""
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


def _texts(values: NDArray[Any], metric: str, percent: bool = False) -> list[str]:
    """Percent, but costs as they are; a dash for what is undefined."""
    if not is_share(metric) and not percent:
        return ["–" if value != value else f"{value:.4f}" for value in values]
    return ["–" if value != value else f"{100.0 * value:.2f}" for value in values]
