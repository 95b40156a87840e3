"""Parts of pages: rows and their numbers as text, panels of figures, and the published numbers."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from papers.experiment import Row


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """The rows with these entries."""
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def distinct(rows: Iterable[Row], column: str = "set") -> list[Any]:
    """The values of a column, each once, in the order in which they come."""
    return list(dict.fromkeys(row[column] for row in rows if column in row))


def grouped(rows: Iterable[Row], *columns: str) -> dict[tuple[Any, ...], list[Row]]:
    """Values of the columns → the rows that have them.

    >>> grouped([{"set": "a", "n": 1}, {"set": "a", "n": 2}], "set")
    {('a',): [{'set': 'a', 'n': 1}, {'set': 'a', 'n': 2}]}
    """
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return found


def mean(rows: Sequence[Row], column: str = "value") -> float:
    """Over rows."""
    return float(np.mean([row[column] for row in rows])) if rows else math.nan


def spread(rows: Sequence[Row], column: str = "value") -> float:
    """Standard deviation over rows; NaN of a single one."""
    return float(np.std([row[column] for row in rows], ddof=1)) if len(rows) > 1 else math.nan


def plus_minus(value: tuple[float, float] | None, digits: int = 2) -> str:
    """A mean with its spread.

    >>> plus_minus((1.234, 0.5)), plus_minus((1.234, math.nan)), plus_minus(None)
    ('1.23 ± 0.50', '1.23', '–')
    """
    if value is None or math.isnan(value[0]):
        return "–"
    deviation = f" ± {value[1]:.{digits}f}" if math.isfinite(value[1]) else ""
    return f"{value[0]:.{digits}f}{deviation}"


def listed(values: Mapping[Any, float], form: str = ".2f") -> str:
    """Names and numbers in a sentence.

    >>> listed({"a9a": 1.0, ("w8a", "PA"): -2.0}, "+.1f")
    'a9a +1.0, PA on w8a -2.0'
    """
    names = [f"{name[1]} on {name[0]}" if isinstance(name, tuple) else name for name in values]
    return ", ".join(f"{name} {value:{form}}" for name, value in zip(names, values.values(), strict=True))


def panels(figure: Any, lines: int, columns: int, width: float, height: float, grid: str = "both") -> Any:
    """Lines × columns of axes with a faint grid, on a figure of this size in inches."""
    figure.set_size_inches(width, height)
    axes = figure.subplots(lines, columns, squeeze=False)
    for axis in axes.flat:
        axis.grid(axis=grid, alpha=0.3)
    return axes


def panels_for(
    figure: Any, names: Sequence[Any], columns: int, width: float = 3.3, height: float = 2.5, more: float = 0.7
) -> list[tuple[Any, Any]]:
    """(axis, name) for each name, panels of this size line by line; axes left over are switched off."""
    lines = -(-len(names) // columns)
    axes = panels(figure, lines, columns, width * columns, height * lines + more).ravel().tolist()
    for axis in axes[len(names) :]:
        axis.axis("off")
    return list(zip(axes, names, strict=False))


def plot_rows(axis: Any, rows: Sequence[Row], x: str, y: str, *style: str, **look: Any) -> None:
    """A line through the rows: one column against another."""
    axis.plot([row[x] for row in rows], [row[y] for row in rows], *style, **look)


def legend(figure: Any, axes: Iterable[Any], columns: int = 7, place: str = "lower", **style: Any) -> None:
    """One for all panels, below or above them; names that several panels have appear once."""
    found: dict[str, Any] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    look = style or {"frameon": False}
    figure.legend(list(found.values()), list(found), loc=f"outside {place} center", ncols=columns, **look)


class Number(NamedTuple):
    """A mean and its standard deviation (NaN where the paper gives none)."""

    value: float
    spread: float


@cache
def published(name: str) -> dict[tuple[str, str, str], Number]:
    """(set, algorithm, measure) → number a paper prints, typed from it once into ``published/<name>.csv``.

    >>> published("p3-table2")["a9a", "ARCSOGD", "sum"]
    Number(value=79.831, spread=0.096)
    """
    text = (files("papers") / "published" / f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["set"], row["algorithm"], row["measure"]): Number(float(row["value"]), float(row["spread"] or "nan"))
        for row in csv.DictReader(text.splitlines())
    }
