"""The part of the page about thin models: Auto with its most important weights, beside the peers' l1 models."""

from collections.abc import Sequence
from typing import Any

from benchmarks.versus.thinned import COMPARED, Case, Thin, thin_sets
from papers.experiment import markdown

Row = dict[str, Any]


def thin(rows: Sequence[Row]) -> str:
    """How many of the comparisons Auto wins, and all of them."""
    found = thin_sets(rows)
    if not found:
        return ""
    cases = [case for one in found for case in one.cases]
    batch = [case for case in cases if case.batch is not None]
    below_batch = sum(case.ours < case.batch for case in batch if case.batch is not None)
    absent = sum(case.one_pass is None for case in cases)
    alone = f" ({absent} of them because no peer has a model that small)" if absent else ""
    header = ["set", "best peer", "non-zeros", *(f"{100 * share:g} %" for share in COMPARED), "≤ 1/10"]
    below = sum(case.below_one_pass for case in cases)
    return f"""## Thin models

`ts.Auto()` after one pass, [thinned](thin-models.md) to shares of the best peer's non-zeros: the weights kept are those
that the blend finds most important, by what it knows of its training rows. Nothing is tuned, no row chooses anything.

- With a tenth of the best peer's non-zeros its test error is within one standard error of that peer's on
  {sum(one.is_met for one in found)} of {len(found)} text sets.
- At {_listed(COMPARED)} % of that size it is below every one-pass peer's l1 model of at most that size in {below} of
  {len(cases)} cases{alone}, and below liblinear's l1 in {below_batch} of the {len(batch)} it ran.

The peers' l1 models are those of the sweeps above, 24 for each tool (8 of liblinear). Of those that are no larger the
one with the lowest *test* error is taken, which favours them. Each cell has ours, the best of the one-pass peers' and
liblinear's; bold: ours is below both.

{markdown(header, [_line(one) for one in found])}"""


def _listed(shares: Sequence[float]) -> str:
    return ", ".join(f"{100 * share:g}" for share in shares)


def _line(one: Thin) -> list[str]:
    peer = f"{one.peer['tool']}: {one.peer['error']:.2f} ± {one.standard_error:.2f}"
    met = "yes" if one.is_met else "**no**"
    return [one.name, peer, f"{one.peer['nnz']:,}", *map(_cell, one.cases), met]


def _cell(case: Case) -> str:
    others = [case.one_pass, case.batch]
    below = all(error is None or case.ours < error for error in others)
    ours = f"**{case.ours:.2f}**" if below else f"{case.ours:.2f}"
    return " · ".join([ours, *("–" if error is None else f"{error:.2f}" for error in others)])
