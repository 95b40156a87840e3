"""The part of the page about thin models: Auto, refitted, and the l1 models of all tools."""

from collections.abc import Sequence
from typing import Any

from benchmarks.versus.thinned import COMPARED, Case, geometric_mean, thin_sets
from papers.experiment import markdown

Row = dict[str, Any]


def thin(rows: Sequence[Row]) -> str:
    """Return the section, or nothing if no dataset was thinned."""
    found = thin_sets(rows)
    if not found:
        return ""
    by_size = list(zip(*found.values(), strict=True))
    best = [f"{sum(case.is_best for case in cases)} of {len(cases)}" for cases in by_size]
    means = [_means(cases) for cases in by_size]
    lines = [[name, *map(_cell, cases)] for name, cases in found.items()]
    lines += [["**geometric mean**", *means], ["**at or below all**", *best]]
    header = ["dataset", *(f"{size:,}" for size in COMPARED)]
    return f"""## Thin models

`ts.Auto()` with default parameters, [refitted](thin-models.md) on 100 to 3,000 features: one weight each. Training rows
choose how the features are selected (a fifth of them is held out for that). Test rows choose nothing.

The l1 models of all tools, thinstream's own included, are those of the sweeps above: 24 for each tool, 8 for liblinear.
For each size, the model with the lowest *test* error is taken among the models of at most that size. That favors the l1
models. Each cell has the test error of the refitted model and that of the best l1 model, in percent. Bold: the
refitted model is at or below every tool's best l1 model.

{markdown(header, lines)}"""


def _means(cases: Sequence[Case]) -> str:
    """Return the geometric means of our errors, and of the lowest errors of l1 models if all datasets have one."""
    ours = f"{geometric_mean([case.ours for case in cases]):.2f}"
    if not all(case.others for case in cases):
        return ours
    return f"{ours} · {geometric_mean([min(case.others.values()) for case in cases]):.2f}"


def _cell(case: Case) -> str:
    ours = f"**{case.ours:.2f}**" if case.is_best else f"{case.ours:.2f}"
    if not case.others:
        return f"{ours} · no l1 model"
    tool = min(case.others, key=lambda name: case.others[name])
    return f"{ours} · {case.others[tool]:.2f} ({tool})"
