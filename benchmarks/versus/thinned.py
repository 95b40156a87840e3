"""Auto, thinned to shares of the best peer's size, on the text sets; the peers' l1 models are those that are kept."""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.versus.cells import gathered
from benchmarks.versus.contest import open_contest
from benchmarks.versus.judging import OURS, TENTH, best_peer, by_tool
from benchmarks.versus.keeping import load
from benchmarks.versus.sets import SETS
from benchmarks.versus.tools import TOOLS, ours_running

from thinstream.blend.portfolio import PORTFOLIO
from thinstream.learners import Classes
from thinstream.learners.registry import make_learner
from thinstream.models.model import Model
from thinstream.thinning import USUAL
from thinstream.thinning import measured as measured_sizes

Row = dict[str, Any]
COLUMN = "thin"
VERSION = 2  # raise it when what is kept no longer means the same
#: Of the best peer's non-zeros: those that are compared, and more for the picture.
COMPARED = (0.003, 0.01, 0.03, 0.1, 0.3)
SHARES = (0.001, *COMPARED, 1.0)
#: Where the peers' numbers are, if not in cells of this machine.
PAGE = Path("docs/versus.csv")


def state(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> object:
    """What a cell depends on."""
    members, size = [str(member) for member in PORTFOLIO], _size(set_name, scratch, smoke)
    return VERSION, set_name, smoke, SHARES, USUAL, members, size


def measured(set_name: str, tool_name: str, scratch: Path, smoke: bool) -> list[Row]:
    """What the test says of Auto after one pass over all rows, with its most important weights only.

    Importance is what the blend knows of its training rows; nothing is chosen by any other row.
    """
    size = _size(set_name, scratch, smoke)
    if not SETS[set_name].text or not size:
        return []
    contest = open_contest(set_name, scratch / "text", smoke)
    learner: Any = make_learner("auto", n_features=0, grow=True, fit_intercept=True)
    for batch in ours_running.batches(contest, "train"):
        learner.learn(batch, scores=False)
    sizes = sorted({min(max(round(share * size), 1), learner.nnz) for share in SHARES})
    rows = ours_running.batches(contest, "test")
    curve = measured_sizes(Model(learner, Classes(-1, 1)), rows, sizes, powers=(USUAL,))
    counts = {"rows": len(contest.y), "test_rows": len(contest.y_test)}
    return [
        {"set": set_name, "tool": OURS, "column": COLUMN, "candidate": "auto", "error": 100 * error, "nnz": n, **counts}
        for n, error in zip(sizes, curve.errors[0].tolist(), strict=True)
    ]


def _size(set_name: str, scratch: Path, smoke: bool) -> int:
    """The best peer's non-zeros."""
    rows = gathered(scratch / ("smoke" if smoke else "cells")).get("accuracy", [])
    peer = best_peer(rows, set_name) or (None if smoke else best_peer(load(PAGE), set_name))
    return peer["nnz"] if peer else 0


class Case(NamedTuple):
    """A set at a share of its best peer's size: test errors, in percent."""

    share: float
    ours: float
    one_pass: float | None  # the lowest of the one-pass peers' l1 models that are no larger; None: there are none
    batch: float | None  # liblinear's

    @property
    def below_one_pass(self) -> bool:
        """Whether ours is below every such model."""
        return self.one_pass is None or self.ours < self.one_pass


class Thin(NamedTuple):
    """A set: its best peer, and ours at all shares."""

    name: str
    peer: Row
    cases: list[Case]

    @property
    def standard_error(self) -> float:
        """Of the peer's error, in percent."""
        share = self.peer["error"] / 100
        return 100 * math.sqrt(share * (1 - share) / self.peer["test_rows"])

    @property
    def at_a_tenth(self) -> float:
        """Our error with a tenth of the peer's non-zeros."""
        return next(case.ours for case in self.cases if case.share == TENTH)

    @property
    def is_met(self) -> bool:
        """Whether that is within one standard error of the peer's."""
        return self.at_a_tenth <= self.peer["error"] + self.standard_error


def thin_sets(rows: Sequence[Row]) -> list[Thin]:
    """All sets that were thinned."""
    found = []
    for name in SETS:
        own = sorted((row for row in rows if (row["set"], row["column"]) == (name, COLUMN)), key=lambda row: row["nnz"])
        peer = best_peer(rows, name)
        if own and peer:
            found.append(Thin(name, peer, [_case(rows, name, own, share, peer["nnz"]) for share in COMPARED]))
    return found


def _case(rows: Sequence[Row], name: str, own: Sequence[Row], share: float, peer_nnz: int) -> Case:
    size = max(round(share * peer_nnz), 1)
    ours = [row["error"] for row in own if row["nnz"] <= size]
    peers = {tool: _lowest(rows, name, tool, size) for tool in by_tool(rows, name, "tuned") if tool != OURS}
    one_pass = [error for tool, error in peers.items() if TOOLS[tool].one_pass and error is not None]
    batch = [error for tool, error in peers.items() if not TOOLS[tool].one_pass and error is not None]
    return Case(share, ours[-1], min(one_pass, default=None), min(batch, default=None))


def _lowest(rows: Iterable[Row], name: str, tool: str, size: int) -> float | None:
    """The lowest test error of a tool's l1 models that are no larger: the choice favours it."""
    place = name, tool, "sparse"
    small = [row["error"] for row in rows if (row["set"], row["tool"], row["column"]) == place and row["nnz"] <= size]
    return min(small, default=None)
