"""Who did better: rows beside rows, and whether more than chance can tell them apart."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.versus.accuracy import wrong_rows
from benchmarks.versus.sets import SETS
from benchmarks.versus.tools import TOOLS

Row = dict[str, Any]
OURS = "thinstream"
AUTO_PEER = "auto peer"  # the best tuned peer, trained once more for the comparison with Auto
BESIDE = ("tried 48", "tried mean of 24", "tried mean of 48", "tried pruned")
BOTH_SWEEPS = ("sparse", "tried sparse")
TENTH = 0.1  # of the peer's non-zeros is what a sparse model of ours may have


def by_tool(rows: Iterable[Row], name: str, column: str) -> dict[str, Row]:
    """The rows of a set in a column, by tool, in the order of the tools."""
    found = {row["tool"]: row for row in rows if row["set"] == name and row["column"] == column}
    return {tool: found[tool] for tool in TOOLS if tool in found}


def best_peer(rows: Sequence[Row], name: str, column: str = "tuned") -> Row | None:
    """The peer of as many passes with the lowest test error (highest balanced accuracy): the strictest comparison."""
    peers = [row for tool, row in by_tool(rows, name, column).items() if tool != OURS and TOOLS[tool].one_pass]
    key = (lambda row: -row["balanced_accuracy"]) if column == "balanced" else (lambda row: row["error"])
    return min(peers, key=key, default=None)


def differences(rows: Sequence[Row]) -> list[Row]:
    """For each set ours less the best peer's, tuned and sparse, where it is known which test rows were wrong."""
    found = []
    for name in SETS:
        for auto in by_tool(rows, name, "auto").values():
            peers = by_tool(rows, name, AUTO_PEER).values()
            found += [_difference(name, "auto difference", auto, peer) for peer in peers]
        ours, peer = by_tool(rows, name, "tuned").get(OURS), best_peer(rows, name)
        if ours is None or peer is None:
            continue
        found.append(_difference(name, "difference", ours, peer))
        for sweeps, column in ((("sparse",), "sparse difference"), (BOTH_SWEEPS, "tried sparse difference")):
            sparse = sparse_pick(rows, name, peer, sweeps)
            if sparse is not None and any(row["column"] == sweeps[-1] and row["set"] == name for row in rows):
                found.append(_difference(name, column, sparse, peer))
        for column in BESIDE:
            row = by_tool(rows, name, column).get(OURS)
            if row is not None:
                found.append(_difference(name, f"{column} difference", row, peer))
    return [row for row in found if row]


def sparse_pick(rows: Iterable[Row], name: str, peer: Row, sweeps: Sequence[str] = ("sparse",)) -> Row | None:
    """The smallest sparse model of ours whose validation error is within a standard error of the best peer's.

    Test rows have no say in it. If none is that good, the one with the lowest validation error.
    """
    here = [row for row in rows if (row["set"], row["tool"]) == (name, OURS) and row["column"] in sweeps]
    sweep = [row for row in here if row["nnz"]]
    if not sweep:
        return None
    share = peer["validation"] / 100
    limit = peer["validation"] + 100 * math.sqrt(share * (1 - share) / peer["validation_rows"])
    good = [row for row in sweep if row["validation"] <= limit]
    return min(good, key=lambda row: row["nnz"]) if good else min(sweep, key=lambda row: row["validation"])


def _difference(name: str, column: str, ours: Row, peer: Row) -> Row:
    if "wrong" not in ours or "wrong" not in peer:
        return {}
    a, b = wrong_rows(ours["wrong"]), wrong_rows(peer["wrong"])
    return {
        "set": name,
        "tool": OURS,
        "column": column,
        "candidate": ours["candidate"],
        "error": ours["error"],
        "nnz": ours["nnz"],
        "peer": peer["tool"],
        "peer_candidate": peer["candidate"],
        "peer_error": peer["error"],
        "peer_nnz": peer["nnz"],
        "difference": 100 * float(a.mean() - b.mean()),
        "difference_se": 100 * paired_error(int((a & ~b).sum()), int((b & ~a).sum()), len(a)),
    }


def paired_error(only_first: int, only_second: int, rows: int) -> float:
    """Standard error of the difference of two shares of wrong rows, of how many rows only one of the two was wrong.

    >>> round(paired_error(10, 6, 100), 4)
    0.0398
    """
    both = only_first + only_second
    return math.sqrt(max(both - (only_first - only_second) ** 2 / rows, 0)) / rows


def verdict(row: Row) -> str:
    """In words.

    >>> verdict({"difference": 0.5, "difference_se": 0.4})
    '**above**, but within two standard errors'
    """
    if row["difference"] <= 0:
        return "below" if row["difference"] < -2 * row["difference_se"] else "at or below"
    return "**above**" + (", but within two standard errors" if row["difference"] <= 2 * row["difference_se"] else "")


def thin_enough(row: Row) -> bool:
    """A tenth of the peer's non-zeros, at an error that is not above the peer's by more than a standard error."""
    return bool(row["nnz"] <= TENTH * row["peer_nnz"] and row["difference"] <= row["difference_se"])
