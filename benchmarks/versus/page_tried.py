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
    return f"""## What was tried where ours is above

All of this was tried after the test errors above were known, once, on every set in the table, whether ours was above
or not. What is chosen is chosen by the training rows, as above; that there are four numbers to look at is one more
reason not to pick the lowest. The peers got nothing of the kind.

- *48 candidates*: twice as many (values in between, gradient descent at a constant rate, PA with an intercept, more of
  ARCSOGD, RDA and FOBOS with the logistic loss).
- *mean of 5*: the five candidates best by validation whose rows are as the best one's (as they are, or of unit length),
  each divided by its mean |score| on the validation rows, averaged into one linear model; of 24 candidates or of 48.
  The five could be lanes of one pass; here they ran one after the other, which gives the same bits.

Test errors, and in brackets by how many standard errors they are above the best peer's; bold: at or below.

{markdown(["set", "best peer", *DENSE.values()], lines)}{_absent(rows, found)}

At or below the best peer's error, and above it by more than two standard errors:

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
    return f"""## What was tried for a tenth of the non-zeros

In the same way, on every text set.

- *48 sparse models*: to the sweep of 24 come the second-best AdaRDA, SSOL with larger r and FSOL, 8 values of l1 each;
  chosen by the same rule.
- *pruned*: the AROW, NAROW, SCW or CW best by validation, of which only as many features are kept as a tenth of the
  peer's non-zeros, those of largest |μ|·√Σx² or |μ|/σ. Which of the two is decided by the last fifth of the training
  rows with a model of the others. Its size is given by the peer's, which is known only after the peer has learned.

Test error, its difference to the best peer's with its standard error, and the share of the peer's non-zeros; bold where
that is at most a tenth, at an error that is not above the peer's by more than a standard error.

{markdown(["set", "best peer", *THIN.values()], lines)}

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
