"""Readings of P3, Table II, that the paper leaves open, tried with the fast diagonal form of ARCSOGD."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from papers import p3_common as p3
from papers.data import Data, joined, parts, scaled, unit, whole
from papers.experiment import Row, markdown
from papers.presenting import mean, pick, published

AS_IS = "as in the table"
#: Permutations a check is made on, those rates are chosen on.
TRIES = 3
_COLUMNS = ("value", "sensitivity", "specificity")


def checked(name: str, rows: int) -> list[Row]:
    """The sum under other readings of the paper, at the best rate of the grid or the one another rule chooses."""
    found = []
    for what, data, more in readings(name, rows):
        for attempt in range(1 if rows else TRIES):
            one = data.take(np.random.default_rng(p3.TUNING + attempt).permutation(len(data.y)))
            start: Row = {
                "what": "check",
                "set": name,
                "algorithm": p3.DIAGONAL,
                "measure": "sum",
                "permutation": attempt,
            }
            best = p3.GRID[int(np.argmax(p3.search(p3.DIAGONAL, p3.SUM, one, p3.GRID, **more)))]
            found.append({**start, "reading": what, "rate": best, **_marks(one, best, **more)})
            if what == AS_IS:
                found += _other_rules(start, one, best)
    if name == "covtype":
        found += _other_costs(name, rows)
    return found


def _marks(data: Data, rate: float, measure: p3.Measure = p3.SUM, **more: Any) -> Row:
    marks = p3.one_pass(p3.DIAGONAL, measure.rho(data.y), rate, data, **more).row(measure)
    return {column: marks[column] for column in _COLUMNS}


def _other_rules(start: Row, data: Data, best: float) -> list[Row]:
    """The rate by five-fold cross-validation, or by the fewest errors; rows of score 0 predicted positive."""
    by_folds = p3.GRID[int(np.argmax(p3.search(p3.DIAGONAL, p3.SUM, data, p3.GRID, folds=5)))]
    passes = {rate: p3.one_pass(p3.DIAGONAL, p3.SUM.rho(data.y), rate, data) for rate in p3.GRID}
    by_errors = min(p3.GRID, key=lambda rate: float(np.mean(passes[rate].positive != (data.y > 0))))
    rules = {"rate by 5-fold cross-validation": by_folds, "rate by fewest errors": by_errors}
    found = [{**start, "reading": rule, "rate": rate, **_marks(data, rate)} for rule, rate in rules.items()]
    empty = np.diff(data.X.indptr) == 0
    if empty.any():
        marks = passes[best]._replace(positive=passes[best].positive | empty).row(p3.SUM)
        reading = "rows without features predicted positive"
        found.append({**start, "reading": reading, "rate": best, **{key: marks[key] for key in _COLUMNS}})
    return found


def _other_costs(name: str, rows: int) -> list[Row]:
    """The cost at other rates, on one permutation."""
    data, start = p3.permuted(name, rows, p3.TUNING), {"what": "check", "set": name, "algorithm": p3.DIAGONAL}
    return [
        {**start, "measure": "cost", "permutation": 0, "reading": f"cost at rate {rate:g}", "rate": rate}
        | _marks(data, rate, p3.COST)
        for rate in p3.GRID[6:10]
    ]


def readings(name: str, rows: int) -> list[tuple[str, Data, dict[str, Any]]]:
    """Name, rows and parameters of each way to read the paper."""
    data = p3.load(name, rows)
    found: list[tuple[str, Data, dict[str, Any]]] = [
        (AS_IS, data, {}),
        ("diagonal of the full update (drop)", data, {"diagonal": "drop"}),
    ]
    if name == "svmguide3":
        found.append(("with the 41 test rows", joined((data, parts(name)[1])), {}))
    if name in ("covtype", "spambase"):
        raw = p3.glimpse(name, rows // 2) if rows else whole(name, normalise=False)
        found.append(("columns scaled to [0, 1] first", Data(unit(sp.csr_matrix(scaled(raw.X.toarray()))), raw.y), {}))
    return found


def checks_table(rows: Sequence[Row]) -> str:
    """The sums under each reading, and how far they are from the paper."""
    checks, printed, lines = pick(rows, what="check"), published("p3-table2"), []
    if not checks:
        return ""
    for name, reading, algorithm in dict.fromkeys((row["set"], row["reading"], row["algorithm"]) for row in checks):
        of = pick(checks, set=name, reading=reading, algorithm=algorithm)
        kind = of[0]["measure"]
        paper, specificity = (printed[name, algorithm, what].value for what in (kind, f"{kind} specificity"))
        rates = ", ".join(f"{rate:g}" for rate in sorted({row["rate"] for row in of}) if rate)
        numbers = [f"{number:.2f}" for number in (mean(of), paper, mean(of, "specificity"), specificity)]
        lines.append([f"{name}, {algorithm}: {reading}", rates, *numbers])
    title = (
        f"### Other readings\n\nThe sum under other readings of the paper, mean of {TRIES} permutations, at the best "
        "rate of each or the rate the rule chooses; and covtype's cost at other rates, on one permutation."
    )
    return f"{title}\n\n{markdown(['', 'rates', 'ours', 'paper', 'spec.', 'paper'], lines)}"
