"""The part of the page that says what was tried after the test errors were known."""

from collections.abc import Sequence
from typing import Any

from benchmarks.versus.judging import thin_enough
from benchmarks.versus.sets import SETS
from papers.experiment import markdown

Row = dict[str, Any]
DENSE = {
    "difference": "24 candidates",
    "tried 48 difference": "48 candidates",
    "tried mean of 24 difference": "mean of 5 of 24",
    "tried mean of 48 difference": "mean of 5 of 48",
}
THIN = {
    "sparse difference": "24 sparse models",
    "tried sparse difference": "48 sparse models",
    "tried pruned difference": "pruned",
}


def errors(rows: Sequence[Row]) -> str:
    """More candidates, and means of models, beside the first table."""
    found = _by_set(rows, DENSE)
    if not found:
        return ""
    lines = [[name, _peer(row), *(_error(row.get(column)) for column in DENSE)] for name, row in found.items()]
    counts = [f"- {title}: {_count(found, column)}." for column, title in DENSE.items()]
    return f"""## Variants tried after the test errors were known

These variants were tried once, after the test errors above were known, on every dataset in the table. The training rows
choose as above. Four numbers per dataset are one more reason not to pick the lowest. The other tools got no such trial.

- *48 candidates*: twice as many (values in between, gradient descent at a constant rate, PA with an intercept, more of
  ARCSOGD, RDA and FOBOS with the logistic loss).
- *mean of 5*: the five candidates best by validation whose rows are prepared like the best one's (raw or unit length),
  each divided by its mean |score| on the validation rows, averaged into one linear model, from 24 or 48 candidates.
  The five could be lanes of one pass. Here they ran one after the other, which gives the same models.

Test errors and, in parentheses, by how many standard errors they are above the best tool's. Bold: at or below.

{markdown(["set", "best tool", *DENSE.values()], lines)}{_absent(rows, found)}

Datasets at or below the best tool's error, and above it by more than two standard errors:

{chr(10).join(counts)}"""


def sparse(rows: Sequence[Row]) -> str:
    """More sparse models, and pruned ones."""
    found = _by_set(rows, THIN)
    found = {name: row for name, row in found.items() if "sparse difference" in row}
    if not any("tried pruned difference" in row for row in found.values()):
        return ""
    lines = [[name, _peer(row), *(_thin(row.get(column)) for column in THIN)] for name, row in found.items()]
    met = {column: [thin_enough(row[column]) for row in found.values() if column in row] for column in THIN}
    counts = [f"- {title}: met on {sum(met[column])} of {len(met[column])}." for column, title in THIN.items()]
    return f"""## Variants tried for a tenth of the non-zeros

Also once, on every text dataset.

- *48 sparse models*: the 24, and the second-best AdaRDA, SSOL with larger r and FSOL with 8 values of l1 each,
  chosen by the same rule.
- *pruned*: the AROW, NAROW, SCW or CW best by validation, cut to a tenth of the best tool's
  non-zeros, by |μ|·√Σx² or |μ|/σ. The last fifth of the training rows chooses between the two, with a model of the
  other
  rows. The size depends on the best tool's, which is known only after that has learned.

Test error, its difference to the best tool's with its standard error, and the share of that tool's non-zeros. Bold: the
share is at most a tenth, and the error is at most one standard error higher.

{markdown(["set", "best tool", *THIN.values()], lines)}

{chr(10).join(counts)}"""


def _by_set(rows: Sequence[Row], columns: dict[str, str]) -> dict[str, dict[str, Row]]:
    """The differences of each set by column, where anything was tried."""
    found: dict[str, dict[str, Row]] = {name: {} for name in SETS}
    for row in rows:
        if row["column"] in columns:
            found[row["set"]][row["column"]] = row
    return {name: row for name, row in found.items() if any(column.startswith("tried") for column in row)}


def _absent(rows: Sequence[Row], found: dict[str, dict[str, Row]]) -> str:
    """Sets of the first table on which nothing of this was run."""
    names = [name for name in SETS if name not in found and any(row["set"] == name for row in rows)]
    return f"\n\nNot tried on: {', '.join(names)}." if names else ""


def _peer(row: dict[str, Row]) -> str:
    one = next(iter(row.values()))
    return f"{one['peer']}: {one['peer_error']:.2f}"


def _error(row: Row | None) -> str:
    """An error beside the peer's.

    >>> _error({"error": 3.0, "difference": 1.0, "difference_se": 0.4})
    '3.00 (+2.5)'
    >>> _error({"error": 3.0, "difference": 0.0, "difference_se": 0.0})
    '**3.00** (0.0)'
    """
    if row is None:
        return ""
    ratio = row["difference"] / row["difference_se"] if row["difference_se"] else 0.0
    text = f"**{row['error']:.2f}**" if row["difference"] <= 0 else f"{row['error']:.2f}"
    return f"{text} ({ratio:+.1f})" if ratio else f"{text} (0.0)"


def _count(found: dict[str, dict[str, Row]], column: str) -> str:
    """How many sets are at or below the peer, and how many clearly above."""
    here = [row[column] for row in found.values() if column in row]
    good = sum(row["difference"] <= 0 for row in here)
    worse = sum(row["difference"] > 2 * row["difference_se"] for row in here)
    return f"{good} of {len(here)} at or below, {worse} above by more than two"


def _thin(row: Row | None) -> str:
    """A sparse model beside the peer.

    >>> _thin({"error": 3.0, "difference": 1.0, "difference_se": 0.4, "nnz": 10, "peer_nnz": 250})
    '3.00 (+1.00 ± 0.40), 1/25.0'
    """
    if row is None:
        return ""
    difference = f"{row['difference']:+.2f} ± {row['difference_se']:.2f}"
    text = f"{row['error']:.2f} ({difference}), 1/{row['peer_nnz'] / row['nnz']:.1f}"
    return f"**{text}**" if thin_enough(row) else text
