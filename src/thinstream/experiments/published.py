"""The numbers the papers print, by set, algorithm and measure; typed from the papers once, in the folder published."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Number(NamedTuple):
    """A mean and its standard deviation (NaN where the paper gives none)."""

    value: float
    spread: float


@cache
def published(name: str) -> dict[tuple[str, str, str], Number]:
    """(set, algorithm, measure) → number, of the table in ``published/<name>.csv``.

    >>> published("p3-table2")["a9a", "ARCSOGD", "sum"]
    Number(value=79.831, spread=0.096)
    """
    text = (files("thinstream.experiments") / "published" / f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["set"], row["algorithm"], row["measure"]): Number(float(row["value"]), float(row["spread"] or "nan"))
        for row in csv.DictReader(text.splitlines())
    }
