"""Auto, refitted on its most important features, compared with the l1 models of other tools on the text datasets."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.pages import digest
from benchmarks.versus.contest import error, open_contest
from benchmarks.versus.judging import OURS
from benchmarks.versus.sets import SETS
from benchmarks.versus.tools import TOOLS, ours_running

from thinstream.data.labels import Classes
from thinstream.models.blend import PORTFOLIO
from thinstream.models.model import Model
from thinstream.training.refit import EVERY, STEPS, VIEWS, refit

Row = dict[str, Any]
COLUMN = "thin"
VERSION = 3  # raise it when rows that are kept no longer mean the same
#: Weights of the models that are compared, and of more for the picture.
COMPARED = (100, 300, 1_000, 3_000)
SIZES = (30, *COMPARED, 10_000, 30_000)


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """Return what a cell depends on."""
    return VERSION, set_name, smoke, SIZES, [str(member) for member in PORTFOLIO], STEPS, VIEWS, EVERY


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """Return test errors of Auto, refitted on the training rows. No test row chooses anything."""
    if not SETS[set_name].text:
        return []
    contest = open_contest(set_name, scratch / "text", smoke)
    model = Model.fresh("auto", Classes(-1, 1), grow=True, fit_intercept=True)
    for batch in ours_running.batches(contest, "train"):
        model, _ = model.learn(batch, model.classes, scores=False)
    counts = {"rows": len(contest.y), "test_rows": len(contest.y_test)}
    found = []
    for small, choice in refit(model, lambda: ours_running.batches(contest, "train"), SIZES):
        scores = np.concatenate([small.learner.scores(batch) for batch in ours_running.batches(contest, "test")])
        row = {"set": set_name, "tool": OURS, "column": COLUMN, "candidate": str(choice.best.way)}
        measures = {"error": error(scores, contest.y_test), "nnz": small.learner.nnz, "log_loss": choice.best.log_loss}
        found.append(row | measures | counts | {"code": digest("Auto", "thin")})
    return found


class Case(NamedTuple):
    """A dataset at a number of weights: test errors, in percent."""

    size: int
    ours: float
    way: str
    others: dict[str, float]  # the lowest of each tool's l1 models with at most this many weights

    @property
    def is_best(self) -> bool:
        """Whether ours is at or below all others. Tools without such a small model don't count."""
        return all(self.ours <= other + 1e-9 for other in self.others.values())


def thin_sets(rows: Sequence[Row]) -> dict[str, list[Case]]:
    """Return the cases of each dataset that was thinned."""
    found = {}
    for name in SETS:
        own = [row for row in rows if (row["set"], row["column"]) == (name, COLUMN)]
        if own:
            found[name] = [_case(rows, name, own, size) for size in COMPARED]
    return found


def _case(rows: Sequence[Row], name: str, own: Sequence[Row], size: int) -> Case:
    ours = max((row for row in own if row["nnz"] <= size), key=lambda row: row["nnz"])
    lowest = {tool: _lowest(rows, name, tool, size) for tool in TOOLS}
    others = {tool: error for tool, error in lowest.items() if error is not None}
    return Case(size, ours["error"], ours["candidate"], others)


def _lowest(rows: Iterable[Row], name: str, tool: str, size: int) -> float | None:
    """The lowest test error of a tool's l1 models of this size, which favors the tool."""
    place = name, tool, "sparse"
    small = [row["error"] for row in rows if (row["set"], row["tool"], row["column"]) == place and row["nnz"] <= size]
    return min(small, default=None)


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean.

    >>> round(geometric_mean([1.0, 4.0]), 3)
    2.0
    """
    return math.exp(math.fsum(map(math.log, values)) / len(values))
